//! Walks of which only the distinct ends matter: found by a search that visits each node once.
//!
//! Where rows are only made distinct, counted distinct or asked for at all, doubles below make no difference; a walk
//! whose relationships nobody reads may then give each end once, instead of once for every way to it. The same holds of a
//! single step, and of two steps together.

use crate::arena::Arena;
use crate::expr::{Expr, SubqueryKind};
use crate::function::{Aggregation, Purity};
use crate::physical::{Aggregate, Op, OpId};

use super::live::for_each_expr;

/// Sets [`VarExpand::distinct_ends`](crate::physical::VarExpand::distinct_ends) and that of single steps where doubles
/// cannot show. Needs the live slots.
pub(crate) fn mark_distinct_ends(arena: &mut Arena, root: Option<OpId>) {
    let count = arena.operators.len();
    // Whether doubles in the rows of an operator make no difference.
    let mut blind = vec![false; count];
    let mut used = vec![false; count];
    // Whether only some of the rows may be asked for, so that the first ones should come soon.
    let mut hasty = vec![false; count];
    if let Some(root) = root {
        used[root.index()] = true;
    }
    for (root, _) in &arena.subplans {
        used[root.index()] = true;
    }
    for at in (0..count).rev() {
        if !used[at] {
            continue;
        }
        let operator = &arena.operators[at];
        for_each_expr(&operator.op, &mut |expr| {
            mark_tests(expr, arena, &mut blind, &mut hasty)
        });
        let children = operator.op.children();
        for (position, child) in children.iter().enumerate() {
            used[child.index()] = true;
            let passes = match &operator.op {
                // What is asked of the right side is whether it has a row.
                Op::SemiApply { .. } if position == 1 => true,
                Op::Distinct { slots, .. } => operator.live.iter().all(|slot| slots.contains(slot)),
                Op::Aggregate(aggregate) => ignores_doubles(aggregate),
                op => blind[at] && keeps_sets(op),
            };
            blind[child.index()] |= passes;
            hasty[child.index()] |= match &operator.op {
                Op::Limit { .. } => true,
                Op::SemiApply { .. } if position == 1 => true,
                Op::Aggregate(_) | Op::Sort { .. } | Op::Top { .. } | Op::Eager { .. } => false,
                _ => hasty[at],
            };
        }
        if blind[at]
            && let Op::VarExpand(expand) = &mut arena.operators[at].op
        {
            expand.distinct_ends = expand.relationships.is_none() && expand.min <= 1;
        }
        if blind[at]
            && let Op::Expand(expand) = &arena.operators[at].op
        {
            let live = &arena.operators[at].live;
            let one = *live == [expand.to] && expand.distinct_from.is_empty();
            let two = !hasty[at] && expand.two_steps(live, &arena.operators).is_some();
            if let Op::Expand(expand) = &mut arena.operators[at].op {
                expand.distinct_ends = one || two;
            }
        }
    }
}

/// The sub-plans of `EXISTS` in an expression: their rows are only asked for.
fn mark_tests(expr: &Expr, arena: &Arena, blind: &mut [bool], hasty: &mut [bool]) {
    if let Expr::Subquery(subquery) = expr
        && subquery.kind == SubqueryKind::Exists
    {
        blind[subquery.root.index()] = true;
        hasty[subquery.root.index()] = true;
        if let Op::Limit { input, .. } = arena.operators[subquery.root.index()].op {
            blind[input.index()] = true;
        }
    }
    expr.for_each_child(&mut |child| mark_tests(child, arena, blind, hasty));
}

fn ignores_doubles(aggregate: &Aggregate) -> bool {
    aggregate.factors.is_empty()
        && aggregate.aggregates.iter().all(|(_, call)| {
            call.distinct || matches!(call.function, Aggregation::Min | Aggregation::Max)
        })
}

/// Whether the operator makes equal sets of rows from equal sets of rows, however often each row comes.
fn keeps_sets(op: &Op) -> bool {
    let flows = matches!(
        op,
        Op::AllNodesScan { .. }
            | Op::LabelScan { .. }
            | Op::NodeByKey { .. }
            | Op::NodeById { .. }
            | Op::IndexSeek(_)
            | Op::RelationshipScan(_)
            | Op::RelationshipById { .. }
            | Op::Expand(_)
            | Op::ExpandInto(_)
            | Op::VarExpand(_)
            | Op::ShortestPath(_)
            | Op::PathSearch(_)
            | Op::RelationshipEnds(_)
            | Op::Apply { .. }
            | Op::OptionalApply { .. }
            | Op::SemiApply { .. }
            | Op::CartesianProduct { .. }
            | Op::HashJoin { .. }
            | Op::Union { .. }
            | Op::Filter { .. }
            | Op::Project { .. }
            | Op::Unwind { .. }
            | Op::Sort { .. }
            | Op::Eager { .. }
    );
    let mut volatile = false;
    for_each_expr(op, &mut |expr| volatile |= is_volatile(expr));
    flows && !volatile
}

pub(super) fn is_volatile(expr: &Expr) -> bool {
    let mut found = match expr {
        Expr::Call { function, .. } => function.purity() == Purity::Volatile,
        Expr::CallRegistered { .. } => true,
        _ => false,
    };
    expr.for_each_child(&mut |child| found |= is_volatile(child));
    found
}
