//! Rewrite rules on the logical steps, applied before patterns are ordered.

use std::sync::Arc;

use isomer_value::Value;
use rustc_hash::FxHashSet;

use super::cost::property_of;
use crate::expr::{BoundExpr, Comparison, PropRef, SlotId};
use crate::logical::{Length, LogicalStep, QueryGraph, conjuncts};

/// Larger patterns are not merged: ordering them together would take long.
const MERGED_NODES: usize = 100;

/// Takes volatile conditions (`rand() < 0.5`) out of the patterns: they are tested once for each row that a pattern
/// has, whichever order it is solved in, and not by a seek, a scan or a join of a part of it.
pub(crate) fn separate_volatile(steps: Vec<LogicalStep>) -> Vec<LogicalStep> {
    let mut done = Vec::with_capacity(steps.len());
    for mut step in steps {
        let mut volatile = Vec::new();
        // The pattern of an OPTIONAL MATCH is planned as a separate chain.
        if let LogicalStep::Match {
            graph,
            optional: false,
        } = &mut step
        {
            volatile = graph
                .predicates
                .extract_if(.., |one| one.is_volatile())
                .collect();
        }
        done.push(step);
        if !volatile.is_empty() {
            done.push(LogicalStep::Filter(volatile));
        }
    }
    done
}

/// Rewrites a chain of steps:
/// - adjacent `MATCH`es are merged into one pattern;
/// - predicate pushdown: a filter joins the `MATCH` before it, also through projections that keep its variables;
/// - a property that equals one of several values is looked up in their list.
pub(crate) fn rewrite(steps: Vec<LogicalStep>) -> Vec<LogicalStep> {
    let mut done: Vec<LogicalStep> = Vec::with_capacity(steps.len());
    for step in steps {
        match step {
            LogicalStep::Filter(predicates) => push_filter(&mut done, predicates),
            LogicalStep::Match {
                graph,
                optional: false,
            } => match done.last_mut() {
                Some(LogicalStep::Match {
                    graph: before,
                    optional: false,
                }) if before.nodes.len() + graph.nodes.len() <= MERGED_NODES => {
                    // Ordered together; relationships stay unique per clause, because each of them records its clause.
                    before.absorb(graph)
                }
                _ => done.push(LogicalStep::Match {
                    graph,
                    optional: false,
                }),
            },
            step => done.push(step),
        }
    }
    for step in &mut done {
        if let LogicalStep::Match { graph, .. } = step {
            // After the pushdown: filters that have just joined a pattern are rewritten as well.
            graph.predicates.iter_mut().for_each(one_of);
        }
    }
    done
}

/// `n.x = 1 OR n.x = $y` becomes `n.x IN [1, $y]`, which an index answers; the same three-valued logic.
fn one_of(predicate: &mut BoundExpr) {
    let BoundExpr::Or(terms) = predicate else {
        return;
    };
    let mut values = Vec::with_capacity(terms.len());
    let mut subject: Option<(&BoundExpr, (SlotId, Vec<PropRef>))> = None;
    for term in terms.iter() {
        let BoundExpr::Compare {
            op: Comparison::Equal,
            left,
            right,
        } = term
        else {
            return;
        };
        let (property, value) = match (&**left, &**right) {
            (property, value @ (BoundExpr::Const(_) | BoundExpr::Param(_))) => (property, value),
            (value @ (BoundExpr::Const(_) | BoundExpr::Param(_)), property) => (property, value),
            _ => return,
        };
        let Some(path) = property_of(property) else {
            return;
        };
        match &subject {
            None => subject = Some((property, path)),
            Some((_, known)) if *known == path => {}
            Some(_) => return,
        }
        values.push(value.clone());
    }
    let Some((item, _)) = subject else { return };
    let constant = |value: &BoundExpr| match value {
        BoundExpr::Const(value) => Some(value.clone()),
        _ => None,
    };
    let list = match values.iter().map(constant).collect::<Option<Vec<_>>>() {
        Some(values) => BoundExpr::Const(Value::List(Arc::new(values))),
        None => BoundExpr::List(values),
    };
    *predicate = BoundExpr::In {
        item: Box::new(item.clone()),
        list: Box::new(list),
    };
}

fn push_filter(done: &mut Vec<LogicalStep>, predicates: Vec<BoundExpr>) {
    let mut terms = Vec::new();
    for predicate in predicates {
        conjuncts(predicate, &mut terms);
    }
    // Each conjunct moves alone: one that must stay does not hold the others back.
    let mut left = Vec::new();
    for term in terms {
        match place_for(done, &term) {
            Some(at) => {
                if let LogicalStep::Match { graph, .. } = &mut done[at] {
                    graph.predicates.push(term);
                }
            }
            None => left.push(term),
        }
    }
    if !left.is_empty() {
        done.push(LogicalStep::Filter(left));
    }
}

/// The `MATCH` that a predicate can be pushed into: over steps that neither compute what it reads, nor drop rows by
/// their number, nor can fail (an error in a row that the predicate would have dropped must still be reported).
fn place_for(done: &[LogicalStep], term: &BoundExpr) -> Option<usize> {
    // A volatile term is tested for each row that reaches it: among fewer or more rows it would keep others.
    if term.is_volatile() {
        return None;
    }
    let mut reads: FxHashSet<SlotId> = FxHashSet::default();
    term.for_each_slot(&mut |slot| {
        reads.insert(slot);
    });
    for (at, step) in done.iter().enumerate().rev() {
        match step {
            LogicalStep::Match {
                optional: false,
                graph,
                // The nearest pattern only: a predicate that reads slots of an earlier one may read slots of
                // this one as well, and merging has made adjacent patterns one.
            } => return cannot_fail_after(graph, &done[at + 1..]).then_some(at),
            LogicalStep::Project(columns)
                if columns.iter().all(|(slot, _)| !reads.contains(slot)) => {}
            // Equal rows agree in what the predicate reads, so it keeps all of
            // them or none, before as after.
            LogicalStep::Distinct(slots) if reads.iter().all(|slot| slots.contains(slot)) => {}
            // A sort keeps all rows, and other filters only drop some: the order of tests does not change which rows
            // pass all.
            LogicalStep::Sort(_) | LogicalStep::Filter(_) => {}
            _ => return None,
        }
    }
    None
}

/// Whether none of the projections after a `MATCH` can fail.
fn cannot_fail_after(graph: &QueryGraph, steps: &[LogicalStep]) -> bool {
    // Reading a property of a node or relationship cannot fail; of any other value it can be a type
    // error. So it matters which slots are entities, also under other names.
    let mut entities: FxHashSet<SlotId> = graph.nodes.iter().copied().collect();
    for relationship in &graph.relationships {
        entities.extend([relationship.from, relationship.to]);
        if matches!(relationship.length, Length::One) {
            entities.insert(relationship.slot);
        }
    }
    for step in steps {
        let LogicalStep::Project(columns) = step else {
            continue;
        };
        for (slot, expr) in columns {
            if !cannot_fail(expr, &entities) {
                return false;
            }
            if matches!(expr, BoundExpr::Slot(from) if entities.contains(from)) {
                entities.insert(*slot);
            }
        }
    }
    true
}

/// Whether an expression has a value for every row, where `entities` are nodes and relationships.
fn cannot_fail(expr: &BoundExpr, entities: &FxHashSet<SlotId>) -> bool {
    let all = |terms: &[BoundExpr]| terms.iter().all(|term| cannot_fail(term, entities));
    let entity =
        |base: &BoundExpr| matches!(base, BoundExpr::Slot(slot) if entities.contains(slot));
    match expr {
        BoundExpr::Slot(_)
        | BoundExpr::Const(_)
        | BoundExpr::Param(_)
        | BoundExpr::BuildPath { .. } => true,
        BoundExpr::Property { base, .. }
        | BoundExpr::HasLabels { entity: base, .. }
        | BoundExpr::HasType { entity: base, .. } => entity(base),
        BoundExpr::At { inner, .. } | BoundExpr::IsNull(inner) | BoundExpr::IsNotNull(inner) => {
            cannot_fail(inner, entities)
        }
        BoundExpr::List(items) => all(items),
        BoundExpr::Map(items) => items.iter().all(|(_, item)| cannot_fail(item, entities)),
        BoundExpr::Compare { left, right, .. } => {
            cannot_fail(left, entities) && cannot_fail(right, entities)
        }
        _ => false,
    }
}
