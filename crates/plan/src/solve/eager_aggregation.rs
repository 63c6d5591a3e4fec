//! Eager aggregation: rows that are equal in everything that is read above an expand are merged into one row with a
//! count, so that the expand runs once per distinct row.
//!
//! `MATCH (me)-[:LIKES]->(i) MATCH (i)<-[:LIKES]-(other) MATCH (other)-[:LIKES]->(x) RETURN x, count(*)` reaches the
//! same people over many items. Grouped by `other` with a count, each person is expanded once, and the count becomes a
//! factor of the aggregation above. The same applies below the aggregation itself if its keys are computed: each
//! distinct node's properties are read once. (Yan and Larson, VLDB 1995.)

use rustc_hash::FxHashSet;

use crate::arena::Arena;
use crate::expr::{AggregateCall, BoundExpr, LabelRef, SlotId, StaticType};
use crate::function::Aggregation;
use crate::physical::{Aggregate, Op, OpId};

use super::cost::Costs;
use super::live_slots::{for_each_expr, for_each_read, writes};

/// Below this number of rows, grouping saves nothing.
const FEW_ROWS: f64 = 16.0;
/// Grouping before an expand pays if at most this fraction of the rows remains.
const SHARE_EXPANDED: f64 = 0.75;
/// The same before keys are computed. Always: a property costs ten times as much as finding a node's group, and the
/// estimated number of nodes is often too high, because a type may lead to few of them.
const SHARE_READ: f64 = 1.0;

/// Adds groupings below the expands that lead to `aggregate`, and below `aggregate` itself, if that leaves far fewer
/// rows; wherever possible if [`Arena::group_always`] is set.
pub(super) fn group_early(arena: &mut Arena, costs: &Costs<'_>, aggregate: &mut Aggregate) {
    let keys = aggregate.keys.iter().map(|(_, key)| key);
    let arguments = aggregate
        .aggregates
        .iter()
        .flat_map(|(_, call)| &call.arguments);
    // One row with a count can represent many only if every aggregation can weight it, and if every expression gives
    // the same value for each of them.
    if !aggregate.aggregates.iter().all(|(_, call)| counts(call))
        || keys.chain(arguments).any(differs_each_time)
    {
        return;
    }
    let chain = chain_below(arena, aggregate.input);
    let points = points(arena, costs, aggregate, &chain);
    if points.iter().any(Option::is_some) {
        rebuild(arena, aggregate, &chain, points);
    }
}

/// Whether an aggregation is exact on rows with a repetition count.
fn counts(call: &AggregateCall) -> bool {
    call.distinct
        || matches!(
            call.function,
            Aggregation::CountRows
                | Aggregation::Count
                | Aggregation::Sum
                | Aggregation::Min
                | Aggregation::Max
        )
}

/// Whether the result of an expression may change if it is evaluated less often, or whether it contains a sub-plan.
fn differs_each_time(expr: &BoundExpr) -> bool {
    fn holds_plan(expr: &BoundExpr) -> bool {
        let mut found = matches!(expr, BoundExpr::Subquery(_));
        expr.for_each_child(&mut |child| found |= holds_plan(child));
        found
    }
    expr.is_volatile() || holds_plan(expr)
}

/// The operators below the aggregation that treat each row independently and pass rows to it only, lowest first.
fn chain_below(arena: &Arena, top: OpId) -> Vec<OpId> {
    let mut chain = Vec::new();
    let mut at = top;
    loop {
        let op = &arena.operators[at.index()].op;
        let input = match op {
            Op::Expand(expand) => expand.input,
            Op::Degree(degree) => degree.input,
            Op::Filter { input, .. } | Op::Project { input, .. } => *input,
            _ => break,
        };
        let mut repeatable = true;
        for_each_expr(op, &mut |expr| repeatable &= !differs_each_time(expr));
        if !repeatable {
            break;
        }
        chain.push(at);
        at = input;
    }
    chain.reverse();
    chain
}

/// Where to group: one entry per operator of the chain, for grouping below it, and one for below the aggregation.
struct Point {
    keys: Vec<SlotId>,
    /// The fraction of the rows that remains.
    share: f64,
}

fn points(
    arena: &Arena,
    costs: &Costs<'_>,
    aggregate: &Aggregate,
    chain: &[OpId],
) -> Vec<Option<Point>> {
    let mut needed: FxHashSet<SlotId> = FxHashSet::default();
    for_each_read(&Op::Aggregate(aggregate.clone()), &mut |slot| {
        needed.insert(slot);
    });
    let factor = |slot: &SlotId| aggregate.factors.contains(slot);
    let computes = |expr: &BoundExpr| {
        !matches!(
            expr,
            BoundExpr::Slot(_) | BoundExpr::Const(_) | BoundExpr::Param(_)
        )
    };
    let mut points: Vec<Option<Point>> = Vec::with_capacity(chain.len() + 1);
    // From the top down: the slots needed at a point are known once everything above it was visited.
    for at in (0..=chain.len()).rev() {
        let (pays, below) = match chain.get(at) {
            // Directly below the aggregation, grouping only saves the computation of keys: without one, the aggregation
            // groups by the same slots itself.
            None => (
                aggregate.keys.iter().any(|(_, key)| computes(key)),
                aggregate.input,
            ),
            Some(id) => {
                let op = &arena.operators[id.index()].op;
                for slot in writes(op) {
                    needed.remove(&slot);
                }
                for_each_read(op, &mut |slot| {
                    needed.insert(slot);
                });
                (
                    matches!(op, Op::Expand(_) | Op::Degree(_)),
                    op.children()[0],
                )
            }
        };
        let mut keys: Vec<SlotId> = needed
            .iter()
            .copied()
            .filter(|slot| !factor(slot))
            .collect();
        keys.sort_unstable();
        let exact = keys.iter().all(|slot| equal_is_same(arena.kind(*slot)));
        let point = (pays && exact && !keys.is_empty()).then(|| {
            // Only an expand below this point can have produced rows that are equal in the keys.
            let multiplies = chain[..at]
                .iter()
                .any(|id| matches!(arena.operators[id.index()].op, Op::Expand(_)));
            let rows = arena.rows(below).max(1.0);
            let groups: f64 = keys
                .iter()
                .map(|slot| different(arena, costs, *slot, below).min(rows))
                .product();
            let share = (groups / rows).min(1.0);
            let most = if at == chain.len() {
                SHARE_READ
            } else {
                SHARE_EXPANDED
            };
            let worth = multiplies && rows >= FEW_ROWS && share <= most;
            (worth || arena.group_always).then_some(Point { keys, share })
        });
        points.push(point.flatten());
    }
    points.reverse();
    points
}

/// Whether two equal values of a kind are indistinguishable to every computation. 1 and 1.0 are not, nor are 0.0 and
/// -0.0, or two times at different offsets: a group would show only one of the representations.
fn equal_is_same(kind: &StaticType) -> bool {
    matches!(
        kind,
        StaticType::Node
            | StaticType::Relationship
            | StaticType::Boolean
            | StaticType::Integer
            | StaticType::String
            | StaticType::Bytes
    )
}

/// Estimated number of distinct values of a slot in the rows of an operator.
fn different(arena: &Arena, costs: &Costs<'_>, slot: SlotId, below: OpId) -> f64 {
    let mut label: Option<LabelRef> = None;
    let mut at = below;
    loop {
        let op = &arena.operators[at.index()].op;
        if let Op::Filter { predicates, .. } = op {
            label = label.or_else(|| label_of(predicates, slot));
        }
        if let Op::LabelScan {
            node, label: own, ..
        } = op
            && *node == slot
        {
            label = Some(*own);
        }
        if writes(op).contains(&slot) {
            break;
        }
        match op.children().first() {
            Some(input) => at = *input,
            None => break,
        }
    }
    let rows = arena.rows(at).max(1.0);
    match arena.kind(slot) {
        StaticType::Node => {
            // Expected number of distinct nodes in a random sample with replacement.
            let nodes = costs.nodes(label, arena);
            nodes * (1.0 - (-rows / nodes).exp())
        }
        _ => rows,
    }
}

/// The label that one of the predicates requires of a node.
fn label_of(predicates: &[BoundExpr], slot: SlotId) -> Option<LabelRef> {
    predicates.iter().find_map(|predicate| match predicate {
        BoundExpr::HasLabels { entity, labels } if matches!(**entity, BoundExpr::Slot(one) if one == slot) => {
            labels.first().copied()
        }
        _ => None,
    })
}

/// Rebuilds the chain, with the groupings inserted.
fn rebuild(
    arena: &mut Arena,
    aggregate: &mut Aggregate,
    chain: &[OpId],
    points: Vec<Option<Point>>,
) {
    let mut below = match chain.first() {
        Some(lowest) => arena.operators[lowest.index()].op.children()[0],
        None => aggregate.input,
    };
    let written_in_chain: FxHashSet<SlotId> = chain
        .iter()
        .flat_map(|id| writes(&arena.operators[id.index()].op))
        .collect();
    // Factors that are written within the chain exist only above the operator that writes them.
    let (later, mut factors): (Vec<SlotId>, Vec<SlotId>) = aggregate
        .factors
        .iter()
        .partition(|slot| written_in_chain.contains(slot));
    let mut share = 1.0;
    for (at, point) in points.into_iter().enumerate() {
        if let Some(point) = point {
            let count = arena.slot("", StaticType::Integer);
            let rows = arena.rows(below) * point.share;
            keep_grouped(arena, below);
            let call = AggregateCall {
                function: Aggregation::CountRows,
                distinct: false,
                arguments: Vec::new(),
            };
            let group = Aggregate {
                input: below,
                keys: point
                    .keys
                    .into_iter()
                    .map(|slot| (slot, BoundExpr::Slot(slot)))
                    .collect(),
                aggregates: vec![(count, call)],
                // The group consumes the factors so far; above it, its count replaces them.
                factors: std::mem::replace(&mut factors, vec![count]),
            };
            below = arena.push(Op::Aggregate(group), rows);
            share *= point.share;
        }
        if let Some(id) = chain.get(at) {
            let mut op = arena.operators[id.index()].op.clone();
            op.map_children(&mut |_| below);
            factors.extend(writes(&op).iter().filter(|slot| later.contains(slot)));
            let rows = arena.rows(*id) * share;
            below = arena.push(op, rows);
        }
    }
    aggregate.input = below;
    aggregate.factors = factors;
}

/// Lets the rows of an expand right below an aggregation stay a list group: an operator that reads the list multiplies
/// it out.
pub(super) fn keep_grouped(arena: &mut Arena, below: OpId) {
    if let Op::Expand(expand) = &mut arena.operators[below.index()].op {
        expand.group = true;
    }
}
