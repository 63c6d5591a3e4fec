//! Decorrelates `EXISTS { … }`: the sub-plan becomes the right side of a semi-apply that runs for whole chunks, instead
//! of an expression that runs per row.

use rustc_hash::FxHashMap;

use crate::arena::Arena;
use crate::expr::{BoundExpr, StaticType, Subquery, SubqueryResult};
use crate::physical::{Degree, Op, OpId};

/// The sub-plan of `EXISTS { … }` or `NOT EXISTS { … }` (true), if it can be decorrelated: it reads only slots from
/// outside, and treats each row independently.
pub(super) fn existence(predicate: &BoundExpr, arena: &Arena) -> Option<(OpId, bool)> {
    let (subquery, anti): (&Subquery, bool) = match predicate {
        BoundExpr::Subquery(subquery) => (subquery, false),
        BoundExpr::Not(inner) => match &**inner {
            BoundExpr::Subquery(subquery) => (subquery, true),
            _ => return None,
        },
        _ => return None,
    };
    let plain =
        |(slot, outside): &(_, BoundExpr)| matches!(outside, BoundExpr::Slot(same) if same == slot);
    if subquery.kind != SubqueryResult::Exists || !subquery.arguments.iter().all(plain) {
        return None;
    }
    // A sub-plan that runs per row is limited to one row; the limit is dropped, as it would apply to the whole chunk.
    let root = match arena.operators[subquery.root.index()].op {
        Op::Limit { input, .. } => input,
        _ => subquery.root,
    };
    treats_rows_independently(arena, root).then_some((root, anti))
}

/// Whether every operator from here to the leaf treats each row independently and in order.
pub(super) fn treats_rows_independently(arena: &Arena, from: OpId) -> bool {
    let mut at = from;
    loop {
        let op = &arena.operators[at.index()].op;
        at = match op {
            Op::Argument => return true,
            Op::AllNodesScan { input, .. }
            | Op::LabelScan { input, .. }
            | Op::NodeByKey { input, .. }
            | Op::NodeById { input, .. }
            | Op::Filter { input, .. }
            | Op::Project { input, .. }
            | Op::Unwind { input, .. } => *input,
            Op::IndexSeek(seek) => seek.input,
            Op::RelationshipScan(scan) => scan.input,
            Op::RelationshipIndexSeek(seek) => seek.scan.input,
            Op::Expand(expand) => expand.input,
            Op::ExpandInto(expand) => expand.input,
            Op::Degree(degree) => degree.input,
            Op::VarExpand(expand) => expand.input,
            Op::ShortestPath(shortest) => shortest.input,
            Op::PathSearch(search) => search.input,
            Op::RelationshipEnds(ends) => ends.input,
            _ => return false,
        };
    }
}

/// Copies a sub-plan to the end of the arena; the leaves of the copy return the rows of `outer`.
pub(super) fn graft(arena: &mut Arena, root: OpId, outer: OpId) -> OpId {
    let mut members = vec![root];
    let mut next = 0;
    while let Some(id) = members.get(next) {
        let children = arena.operators[id.index()].op.children();
        members.extend(children);
        next += 1;
    }
    // Inputs precede their readers.
    members.sort_unstable();
    let mut copies: FxHashMap<OpId, OpId> = FxHashMap::default();
    for id in members {
        let operator = arena.operators[id.index()].clone();
        let mut op = operator.op;
        op.map_children(&mut |child| copies[&child]);
        if id == root {
            op = counted(op, arena);
        }
        let leaf = matches!(op, Op::Argument);
        let copy = arena.push(op, operator.rows);
        if leaf {
            arena.outer_of.insert(copy, outer);
        }
        copies.insert(id, copy);
    }
    copies[&root]
}

/// Whether there is a neighbour at all follows from the degree.
fn counted(op: Op, arena: &mut Arena) -> Op {
    match op {
        Op::Expand(expand) => Op::Degree(Degree {
            input: expand.input,
            from: expand.from,
            direction: expand.direction,
            types: expand.types,
            distinct_from: expand.distinct_from,
            count: arena.slot("", StaticType::Integer),
        }),
        op => op,
    }
}
