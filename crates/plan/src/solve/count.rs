//! Counts of a whole label, a whole type or of everything are stored: no scan is needed.

use crate::arena::Arena;
use crate::expr::{BoundExpr, SlotId};
use crate::function::Aggregation;
use crate::physical::{Aggregate, Count, CountOf, Direction, Op};

/// Replaces an aggregation that only counts the rows of a whole scan by the stored count.
pub(super) fn kept_count(arena: &Arena, aggregate: &Aggregate) -> Option<Op> {
    if !aggregate.keys.is_empty()
        || !aggregate.factors.is_empty()
        || aggregate.aggregates.is_empty()
    {
        return None;
    }
    let scan = &arena.operators[aggregate.input.index()].op;
    let (input, of, never_null): (_, _, [Option<SlotId>; 3]) = match scan {
        Op::AllNodesScan { input, node } => {
            (*input, CountOf::Nodes(None), [Some(*node), None, None])
        }
        Op::LabelScan { input, node, label } => (
            *input,
            CountOf::Nodes(Some(*label)),
            [Some(*node), None, None],
        ),
        // In either direction each is found twice, except self loops.
        Op::RelationshipScan(scan) if scan.direction != Direction::Both => {
            let mut types = scan.types.clone();
            types.sort_unstable();
            types.dedup();
            (
                scan.input,
                CountOf::Relationships(types),
                [Some(scan.relationship), Some(scan.from), Some(scan.to)],
            )
        }
        _ => return None,
    };
    // Above another input the scan would run once per row.
    if !matches!(arena.operators[input.index()].op, Op::Argument) {
        return None;
    }
    let found_once = never_null[0];
    let counts_rows = |call: &crate::expr::AggregateCall| match call.function {
        Aggregation::CountRows => true,
        Aggregation::Count => match call.arguments.as_slice() {
            [BoundExpr::Slot(slot)] if call.distinct => Some(*slot) == found_once,
            [BoundExpr::Slot(slot)] => never_null.contains(&Some(*slot)),
            [BoundExpr::Const(value)] => !call.distinct && !value.is_null(),
            _ => false,
        },
        _ => false,
    };
    let all = aggregate
        .aggregates
        .iter()
        .all(|(_, call)| counts_rows(call));
    all.then(|| {
        Op::Count(Count {
            input,
            of,
            counts: aggregate.aggregates.iter().map(|(slot, _)| *slot).collect(),
        })
    })
}
