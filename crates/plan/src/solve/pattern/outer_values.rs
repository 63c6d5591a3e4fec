//! Values of the outer row that conditions of a pattern read several times.
//!
//! A pattern that is matched for each outer row, such as that of a pattern comprehension, may compare what it finds
//! with values that depend on the outer row alone: `(a.id = startNode(r).id AND …) OR (… AND b.id = startNode(r).id)`.
//! They are computed for the first elements that are found instead of for every row that the condition tests.

use isomer_value::Value;
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Problem, Progress};
use crate::arena::Arena;
use crate::expr::{BoundExpr, SlotId, StaticType};
use crate::logical::QueryGraph;
use crate::physical::Op;
use crate::solve::failure::value_can_fail;
use crate::solve::{Flow, Planner};

/// The values, and the conditions that read their slots in place of them.
#[derive(Default)]
pub(super) struct OuterValues {
    columns: Vec<(SlotId, BoundExpr)>,
    /// By the index of the condition in the graph.
    conditions: FxHashMap<usize, BoundExpr>,
}

impl OuterValues {
    /// The values of `graph` that depend on the slots of the outer row only, and that occur at least twice.
    pub(super) fn of(graph: &QueryGraph, outer: &FxHashSet<SlotId>, arena: &mut Arena) -> Self {
        let mut values = Self::default();
        // Parts that are found separately would each compute them.
        if outer.is_empty() || !is_connected(graph) {
            return values;
        }
        let mut counts: Vec<(BoundExpr, usize)> = Vec::new();
        for condition in graph.predicates.iter().filter(|one| is_per_row(one, outer)) {
            for_each_value(condition, outer, arena, &mut |value| {
                let known = counts.iter_mut().find(|(known, _)| known == value);
                match known {
                    Some((_, count)) => *count += 1,
                    None => counts.push((value.clone(), 1)),
                }
            });
        }
        counts.retain(|(_, count)| *count > 1);
        if counts.is_empty() {
            return values;
        }
        for (at, condition) in graph.predicates.iter().enumerate() {
            if !is_per_row(condition, outer) {
                continue;
            }
            let mut changed = condition.clone();
            let mut replaced = false;
            replace(&mut changed, &mut |value| {
                if !is_outer_value(value, outer, arena) {
                    return false;
                }
                if !counts.iter().any(|(known, _)| known == value) {
                    return false;
                }
                let columns = &mut values.columns;
                let slot = match columns.iter().find(|(_, known)| known == value) {
                    Some((slot, _)) => *slot,
                    None => {
                        let slot = arena.slot("", StaticType::Any);
                        columns.push((slot, value.clone()));
                        slot
                    }
                };
                *value = BoundExpr::Slot(slot);
                replaced = true;
                true
            });
            if replaced {
                values.conditions.insert(at, changed);
            }
        }
        values
    }
}

/// Whether a condition is tested for what the pattern finds.
fn is_per_row(condition: &BoundExpr, outer: &FxHashSet<SlotId>) -> bool {
    let mut found = false;
    condition.for_each_slot(&mut |slot| found |= !outer.contains(&slot));
    found
}

/// Whether an expression is a value of the outer row that takes some work, and cannot fail.
fn is_outer_value(expr: &BoundExpr, outer: &FxHashSet<SlotId>, arena: &Arena) -> bool {
    if !matches!(expr, BoundExpr::Property { .. } | BoundExpr::Call { .. }) {
        return false;
    }
    let (mut count, mut all) = (0, true);
    expr.for_each_slot(&mut |slot| {
        count += 1;
        all &= outer.contains(&slot);
    });
    let mut has_locals = false;
    expr.for_each_local(&mut |_| has_locals = true);
    count > 0
        && all
        && !has_locals
        && !has_zero(expr)
        && !expr.is_volatile()
        && !value_can_fail(expr, arena)
}

/// Whether an expression has a constant zero of a float: expressions that differ only in its sign compare as equal.
fn has_zero(expr: &BoundExpr) -> bool {
    fn in_value(value: &Value) -> bool {
        match value {
            Value::Float(number) => *number == 0.0,
            Value::List(items) => items.iter().any(in_value),
            Value::Map(map) => map.values().any(in_value),
            _ => false,
        }
    }
    let mut found = matches!(expr, BoundExpr::Const(value) if in_value(value));
    expr.for_each_child(&mut |child| found |= has_zero(child));
    found
}

/// Calls `visit` for the largest values of the outer row in a condition.
fn for_each_value(
    expr: &BoundExpr,
    outer: &FxHashSet<SlotId>,
    arena: &Arena,
    visit: &mut dyn FnMut(&BoundExpr),
) {
    if is_outer_value(expr, outer, arena) {
        return visit(expr);
    }
    expr.for_each_child(&mut |child| for_each_value(child, outer, arena, visit));
}

/// Calls `change` for an expression and, unless it has replaced it, for those in it.
fn replace(expr: &mut BoundExpr, change: &mut dyn FnMut(&mut BoundExpr) -> bool) {
    if !change(expr) {
        expr.for_each_child_mut(&mut |child| replace(child, change));
    }
}

/// Whether the relationships of a pattern connect all its nodes.
fn is_connected(graph: &QueryGraph) -> bool {
    let Some(first) = graph.relationships.first() else {
        return false;
    };
    let mut reached: FxHashSet<SlotId> = FxHashSet::from_iter([first.from]);
    loop {
        let before = reached.len();
        for one in &graph.relationships {
            if reached.contains(&one.from) || reached.contains(&one.to) {
                reached.extend([one.from, one.to]);
            }
        }
        if reached.len() == before {
            break;
        }
    }
    let ends = graph
        .relationships
        .iter()
        .flat_map(|one| [one.from, one.to]);
    ends.chain(graph.nodes.iter().copied())
        .all(|node| reached.contains(&node))
}

impl Problem {
    /// A condition as it is tested when some slots are bound.
    pub(super) fn condition(&self, at: usize, bound: &FxHashSet<SlotId>) -> &BoundExpr {
        let computed = self.outer_values.columns.iter();
        let mut computed = computed.map(|(slot, _)| slot);
        match self.outer_values.conditions.get(&at) {
            Some(condition) if computed.all(|slot| bound.contains(slot)) => condition,
            _ => &self.graph.predicates[at],
        }
    }
}

impl Planner<'_> {
    /// Computes the values of the outer row once the first elements are found: an access path finds few, and evaluates
    /// its own keys for the outer row.
    pub(super) fn compute_outer_values(
        &mut self,
        problem: &Problem,
        progress: &mut Progress,
        flow: &mut Flow,
    ) {
        let values = &problem.outer_values;
        let is_known = |(slot, _): &(SlotId, BoundExpr)| progress.bound.contains(slot);
        let mut waiting = values.conditions.keys();
        if values.columns.iter().all(is_known) || !waiting.any(|at| progress.predicate_open[*at]) {
            return;
        }
        let columns = values.columns.clone();
        progress.bound.extend(columns.iter().map(|(slot, _)| *slot));
        let rows = self.arena.rows(flow.op);
        flow.op = self.arena.push(
            Op::Project {
                input: flow.op,
                columns,
            },
            rows,
        );
    }
}
