//! Grouping before multiplying: rows that look the same to everything above an expand are merged into one row that counts
//! for all of them, so that an expand is done once for each different row.
//!
//! `MATCH (me)-[:LIKES]->(i) MATCH (i)<-[:LIKES]-(other) MATCH (other)-[:LIKES]->(x) RETURN x, count(*)` reaches the same
//! people over many items. Grouped by `other` with a count, each person is expanded once, and the count becomes a factor of
//! the aggregation above. The same below the aggregation itself where its keys are computed: each distinct node's
//! properties are read once. (Eager aggregation: Yan and Larson, VLDB 1995.)

use rustc_hash::FxHashSet;

use crate::arena::Arena;
use crate::expr::{AggregateCall, Expr, Kind, LabelRef, SlotId};
use crate::function::Aggregation;
use crate::physical::{Aggregate, Op, OpId};

use super::cost::Costs;
use super::ends::is_volatile;
use super::live::{for_each_expr, for_each_read, writes};

/// Below so many rows grouping saves nothing.
const FEW_ROWS: f64 = 16.0;
/// Grouping before an expand pays where it leaves no more than this share of the rows.
const SHARE_EXPANDED: f64 = 0.75;
/// The same before keys are computed. Always: a property costs ten times as much as finding a node's group, and the
/// estimate of how many nodes there are is often too high, as a type may lead to few of them.
const SHARE_READ: f64 = 1.0;

/// Groups below the expands that lead to `aggregate`, and below `aggregate` itself, where that leaves far fewer rows;
/// everywhere possible where [`Arena::group_always`] says so.
pub(super) fn group_early(arena: &mut Arena, costs: &Costs<'_>, aggregate: &mut Aggregate) {
    let keys = aggregate.keys.iter().map(|(_, key)| key);
    let arguments = aggregate
        .aggregates
        .iter()
        .flat_map(|(_, call)| &call.arguments);
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

/// Whether an aggregation is exact on rows that count several times.
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

/// Whether an expression may give something else when it is evaluated less often, or holds a plan of its own.
fn differs_each_time(expr: &Expr) -> bool {
    fn holds_plan(expr: &Expr) -> bool {
        let mut found = matches!(expr, Expr::Subquery(_));
        expr.for_each_child(&mut |child| found |= holds_plan(child));
        found
    }
    is_volatile(expr) || holds_plan(expr)
}

/// The operators below the aggregation that treat each row by itself and pass on nothing but it, lowest first.
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
    /// The share of the rows that is left.
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
    let computes = |expr: &Expr| !matches!(expr, Expr::Slot(_) | Expr::Const(_) | Expr::Param(_));
    let mut points: Vec<Option<Point>> = Vec::with_capacity(chain.len() + 1);
    // From the top down: what is needed at a point is known once everything above it was looked at.
    for at in (0..=chain.len()).rev() {
        let (pays, below) = match chain.get(at) {
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

/// Whether two equal values of a kind are one and the same to whatever computes with them. 1 and 1.0 are not, nor are
/// 0.0 and -0.0, or two times at different offsets: a group of them would show one form of all.
fn equal_is_same(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::Node
            | Kind::Relationship
            | Kind::Boolean
            | Kind::Integer
            | Kind::String
            | Kind::Bytes
    )
}

/// About how many different values a slot has in the rows of an operator.
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
        Kind::Node => {
            // How many of the nodes are hit by rows that choose at random.
            let nodes = costs.nodes(label, arena);
            nodes * (1.0 - (-rows / nodes).exp())
        }
        _ => rows,
    }
}

/// The label that one of the predicates asks of a node.
fn label_of(predicates: &[Expr], slot: SlotId) -> Option<LabelRef> {
    predicates.iter().find_map(|predicate| match predicate {
        Expr::HasLabels { entity, labels } if matches!(**entity, Expr::Slot(one) if one == slot) => {
            labels.first().copied()
        }
        _ => None,
    })
}

/// Pushes the chain once more, with groupings between.
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
    let (later, mut factors): (Vec<SlotId>, Vec<SlotId>) = aggregate
        .factors
        .iter()
        .partition(|slot| written_in_chain.contains(slot));
    let mut share = 1.0;
    for (at, point) in points.into_iter().enumerate() {
        if let Some(point) = point {
            let count = arena.slot("", Kind::Integer);
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
                    .map(|slot| (slot, Expr::Slot(slot)))
                    .collect(),
                aggregates: vec![(count, call)],
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

/// Lets the rows of an expand right below an aggregation stay a list group: whatever reads the list multiplies it out.
pub(super) fn keep_grouped(arena: &mut Arena, below: OpId) {
    if let Op::Expand(expand) = &mut arena.operators[below.index()].op {
        expand.group = true;
    }
}
