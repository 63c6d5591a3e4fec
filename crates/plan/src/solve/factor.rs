//! Factorised counting: an expand whose rows are only counted becomes a factor of the aggregation above.

use isomer_value::Value;

use crate::arena::Arena;
use crate::expr::{BoundExpr, SlotId, StaticType};
use crate::function::Aggregation;
use crate::physical::{Aggregate, Degree, Expand, Op};

/// If the last operator below `aggregate` is an expand of which only the number of rows is needed, replaces it by
/// [`Op::Degree`]. Otherwise, if the expand may stay a list group, marks it so.
pub(super) fn count_instead_of_expanding(arena: &mut Arena, aggregate: &mut Aggregate) {
    let below = aggregate.input;
    let Op::Expand(expand) = &arena.operators[below.index()].op else {
        return;
    };
    let expand: Expand = expand.clone();
    let own = |slot: SlotId| slot == expand.to || Some(slot) == expand.relationship;
    let counted = |argument: &BoundExpr| matches!(argument, BoundExpr::Slot(slot) if own(*slot));
    let reads_own = |expr: &BoundExpr| own_slots(expr, &own);
    if aggregate.keys.iter().any(|(_, key)| reads_own(key)) {
        return;
    }
    let countable = aggregate
        .aggregates
        .iter()
        .all(|(_, call)| match call.function {
            Aggregation::CountRows => true,
            Aggregation::Count if !call.distinct => call
                .arguments
                .iter()
                .all(|one| counted(one) || !reads_own(one)),
            Aggregation::Sum if !call.distinct => call.arguments.iter().all(|one| !reads_own(one)),
            Aggregation::Min | Aggregation::Max => call.arguments.iter().all(|one| !reads_own(one)),
            _ => call.distinct && call.arguments.iter().all(|one| !reads_own(one)),
        });
    if !countable {
        // What is read of the expand is read for each of its rows, but the keys come from the flat side.
        if let Op::Expand(expand) = &mut arena.operators[below.index()].op {
            expand.group = true;
        }
        return;
    }
    for (_, call) in &mut aggregate.aggregates {
        if call.function == Aggregation::Count && call.arguments.iter().any(counted) {
            // Neither end nor relationship of an expand is ever null.
            call.arguments = vec![BoundExpr::Const(Value::Bool(true))];
        }
    }
    let count = arena.slot("", StaticType::Integer);
    let rows = arena.rows(expand.input);
    arena.operators[below.index()] = crate::physical::Operator {
        op: Op::Degree(Degree {
            input: expand.input,
            from: expand.from,
            direction: expand.direction,
            types: expand.types,
            distinct_from: expand.distinct_from,
            count,
        }),
        live: Vec::new(),
        rows,
    };
    aggregate.factors.push(count);
}

fn own_slots(expr: &BoundExpr, own: &dyn Fn(SlotId) -> bool) -> bool {
    let mut found = false;
    expr.for_each_slot(&mut |slot| found |= own(slot));
    found
}
