//! Distinct ends: walks of which only the distinct ends matter are found by a search that visits each node once.
//!
//! If rows are only made distinct, counted distinct or tested for existence, duplicates below make no difference. A
//! walk whose relationships are not read may then return each end once, instead of once per path to it. The same holds
//! for a single step, and for two steps together.

use crate::arena::Arena;
use crate::catalog::PlannerCatalog;
use crate::expr::{BoundExpr, SlotId, SubqueryResult};
use crate::function::Aggregation;
use crate::physical::{Aggregate, Direction, DistinctEnds, Expand, ExpandStep, Op, OpId, Operator};

use super::cost::Costs;
use super::live_slots::for_each_expr;
use super::reachable::ReachableOperators;

/// Sets [`VarExpand::distinct_ends`](crate::physical::VarExpand::distinct_ends) and replaces single steps, and two
/// steps together, by [`DistinctEnds`] if duplicates make no difference. Needs the live slots.
pub(crate) fn search_distinct_ends(
    arena: &mut Arena,
    root: Option<OpId>,
    catalog: &dyn PlannerCatalog,
) {
    let costs = Costs::new(catalog);
    // The fraction of each operator's rows that remains.
    let mut remaining = vec![1.0; arena.operators.len()];
    let reachable = ReachableOperators::of(arena, root);
    let count = arena.operators.len();
    // Whether duplicates in the rows of an operator make no difference.
    let mut duplicates_ignored = vec![false; count];
    let mut used = vec![false; count];
    // Whether only some of the rows may be needed, so that the first ones should come soon.
    let mut may_stop_early = vec![false; count];
    if let Some(root) = root {
        used[root.index()] = true;
    }
    for (root, _) in &arena.subplans {
        used[root.index()] = true;
    }
    // Inputs precede their readers: in reverse order, all readers of an operator are visited before it.
    for at in (0..count).rev() {
        if !used[at] {
            continue;
        }
        let operator = &arena.operators[at];
        for_each_expr(&operator.op, &mut |expr| {
            mark_tests(expr, arena, &mut duplicates_ignored, &mut may_stop_early)
        });
        let children = operator.op.children();
        for (position, child) in children.iter().enumerate() {
            used[child.index()] = true;
            let passes = match &operator.op {
                // Only the existence of a row of the right side is tested.
                Op::SemiApply { .. } if position == 1 => true,
                Op::Distinct { slots, .. } => operator.live.iter().all(|slot| slots.contains(slot)),
                Op::Aggregate(aggregate) => ignores_doubles(aggregate),
                op => duplicates_ignored[at] && keeps_sets(op),
            };
            duplicates_ignored[child.index()] |= passes;
            may_stop_early[child.index()] |= match &operator.op {
                Op::Limit { .. } => true,
                Op::SemiApply { .. } if position == 1 => true,
                Op::Aggregate(_) | Op::Sort { .. } | Op::Top { .. } | Op::Eager { .. } => false,
                _ => may_stop_early[at],
            };
        }
        if duplicates_ignored[at]
            && let Op::VarExpand(expand) = &mut arena.operators[at].op
        {
            // The search finds shortest walks only: with a minimum above 1, a node may need a longer one.
            expand.distinct_ends = expand.relationships.is_none() && expand.min <= 1;
        }
        // On the right side of an apply, rows of several outer rows may come together, distinguished by a column of
        // the executor that a search would drop.
        if duplicates_ignored[at] && !reachable.is_right_side(at) {
            let before = arena.operators[at].rows;
            search_steps(arena, at, may_stop_early[at], &costs);
            let rows = arena.operators[at].rows;
            if rows < before {
                remaining[at] = rows / before;
            }
        }
    }
    scale_estimates(arena, remaining);
}

/// Reduces the estimates of operators above those that return only the fraction `remaining` of their rows.
fn scale_estimates(arena: &mut Arena, mut remaining: Vec<f64>) {
    // Inputs precede their readers, but a fallback follows the operator that it replaces.
    for at in 0..remaining.len() {
        let op = &arena.operators[at].op;
        let input = match op {
            Op::Filter { input, .. }
            | Op::Project { input, .. }
            | Op::Distinct { input, .. }
            | Op::Sort { input, .. }
            | Op::Eager { input }
            | Op::Unwind { input, .. }
            | Op::ProduceResult { input, .. } => *input,
            Op::Expand(expand) => expand.input,
            Op::VarExpand(expand) => expand.input,
            _ => continue,
        };
        if remaining[input.index()] < 1.0 {
            remaining[at] = remaining[input.index()];
            let rows = arena.operators[at].rows;
            // Long chains have infinite estimates.
            arena.operators[at].rows = if rows.is_finite() {
                rows * remaining[at]
            } else {
                arena.operators[input.index()].rows
            };
        }
    }
}

/// Replaces the expand at `at` by a search over its step, or over its step and that of the expand below. `stops_early`:
/// two steps are searched together by collecting all middle nodes first, which delays the first row.
fn search_steps(arena: &mut Arena, at: usize, stops_early: bool, costs: &Costs<'_>) {
    let chosen = arena.operators[at].clone();
    let (Op::Expand(expand), live) = (&chosen.op, &chosen.live) else {
        return;
    };
    let step = |expand: &Expand| ExpandStep {
        direction: expand.direction,
        types: expand.types.clone(),
    };
    let is_single = *live == [expand.to] && expand.distinct_from.is_empty();
    let two = two_steps(expand, live, &arena.operators);
    if !is_single && (stops_early || two.is_none()) {
        return;
    }
    let two = two.map(|first| DistinctEnds {
        input: first.input,
        from: first.from,
        steps: vec![step(first), step(expand)],
        to: expand.to,
        differ: !expand.distinct_from.is_empty(),
        fallback: OpId(0),
    });
    let single = is_single.then(|| DistinctEnds {
        input: expand.input,
        from: expand.from,
        steps: vec![step(expand)],
        to: expand.to,
        differ: false,
        fallback: OpId(0),
    });
    // The expand is the fallback of the search over its step, which is that of the search over both.
    let mut operator = chosen.clone();
    for mut search in single.into_iter().chain(two) {
        let rows = distinct_rows(arena, &search, &chosen, costs);
        search.fallback = arena.push_like(operator.op.clone(), &operator);
        operator.op = Op::DistinctEnds(search);
        operator.rows = rows;
    }
    arena.operators[at] = operator;
}

/// Estimated rows of a search in place of the expand `paths`, which returns one row per path: at most all nodes that
/// relationships of the last step lead to, for all input rows together or, if another slot of these is read, for each.
fn distinct_rows(arena: &Arena, search: &DistinctEnds, paths: &Operator, costs: &Costs<'_>) -> f64 {
    let Some(step) = search.steps.last() else {
        return paths.rows;
    };
    let ends_of_each = match step.direction {
        Direction::Both => 2.0,
        Direction::Outgoing | Direction::Incoming => 1.0,
    };
    let ends = costs.relationships(&step.types, arena) * ends_of_each;
    let searches = if paths.live.iter().all(|slot| *slot == search.to) {
        1.0
    } else {
        arena.operators[search.input.index()].rows.max(1.0)
    };
    paths
        .rows
        .min(costs.nodes(None, arena).min(ends) * searches)
}

/// The expand below `expand`, if both together are two steps of which only the end is read, `live` being the slots
/// read above: it does not matter over which node and relationships an end is found, as long as the relationships
/// differ.
fn two_steps<'p>(
    expand: &Expand,
    live: &[SlotId],
    operators: &'p [Operator],
) -> Option<&'p Expand> {
    let Op::Expand(first) = &operators[expand.input.index()].op else {
        return None;
    };
    let read = |slot: Option<SlotId>| slot.is_some_and(|slot| live.contains(&slot));
    let is_first = |slot: &SlotId| Some(*slot) == first.relationship;
    let mut types = (expand.types.clone(), first.types.clone());
    types.0.sort_unstable();
    types.1.sort_unstable();
    let decided = expand.distinct_from.iter().all(is_first)
        && (expand.distinct_from.is_empty() || types.0 == types.1);
    (first.to == expand.from
        && first.from != expand.to
        && first.distinct_from.is_empty()
        && decided
        && !read(Some(first.to))
        && !read(first.relationship)
        && !read(expand.relationship)
        && read(Some(expand.to)))
    .then_some(first)
}

/// The sub-plans of `EXISTS` in an expression: only the existence of their rows is tested.
fn mark_tests(
    expr: &BoundExpr,
    arena: &Arena,
    duplicates_ignored: &mut [bool],
    may_stop_early: &mut [bool],
) {
    if let BoundExpr::Subquery(subquery) = expr
        && subquery.kind == SubqueryResult::Exists
    {
        duplicates_ignored[subquery.root.index()] = true;
        may_stop_early[subquery.root.index()] = true;
        if let Op::Limit { input, .. } = arena.operators[subquery.root.index()].op {
            duplicates_ignored[input.index()] = true;
        }
    }
    expr.for_each_child(&mut |child| mark_tests(child, arena, duplicates_ignored, may_stop_early));
}

fn ignores_doubles(aggregate: &Aggregate) -> bool {
    aggregate.factors.is_empty()
        && aggregate.aggregates.iter().all(|(_, call)| {
            call.distinct || matches!(call.function, Aggregation::Min | Aggregation::Max)
        })
}

/// Whether the operator's set of distinct output rows depends only on the set of distinct input rows.
fn keeps_sets(op: &Op) -> bool {
    let flows = match op {
        Op::AllNodesScan { .. }
        | Op::LabelScan { .. }
        | Op::NodeByKey { .. }
        | Op::NodeById { .. }
        | Op::IndexSeek(_)
        | Op::RelationshipScan(_)
        | Op::RelationshipIndexSeek(_)
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
        | Op::Eager { .. } => true,
        Op::Argument
        | Op::DistinctEnds(_)
        | Op::Degree(_)
        | Op::BatchApply(_)
        | Op::CountApply { .. }
        | Op::Count(_)
        | Op::Aggregate(_)
        | Op::CountByNode(_)
        | Op::CountByNeighbour(_)
        | Op::GroupByKey(_)
        | Op::CountByColumn(_)
        | Op::CountPaths(_)
        | Op::Exchange(_)
        | Op::Distinct { .. }
        | Op::Top { .. }
        | Op::Skip { .. }
        | Op::Limit { .. }
        | Op::ProcedureCall(_)
        | Op::LoadCsv { .. }
        | Op::Create { .. }
        | Op::Merge(_)
        | Op::Set { .. }
        | Op::Delete { .. }
        | Op::ForEach { .. }
        | Op::ProduceResult { .. }
        | Op::Show { .. } => false,
    };
    let mut volatile = false;
    for_each_expr(op, &mut |expr| volatile |= expr.is_volatile());
    flows && !volatile
}
