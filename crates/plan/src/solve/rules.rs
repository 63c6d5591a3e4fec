//! Rules on the logical steps: what can be said better before anything is ordered.

use std::sync::Arc;

use isomer_value::Value;
use rustc_hash::FxHashSet;

use super::cost::property_of;
use crate::expr::{Comparison, Expr, PropRef, SlotId};
use crate::logical::{Length, QueryGraph, Step, conjuncts};

/// Larger patterns stay the clauses they were written as: ordering them together would take long.
const MERGED_NODES: usize = 100;

/// Rewrites a chain of steps:
/// - neighbouring `MATCH`es are found together;
/// - a filter joins the `MATCH` before it, also through projections that leave its variables alone;
/// - a property that equals one of several values is looked for in their list.
pub(crate) fn rewrite(steps: Vec<Step>) -> Vec<Step> {
    let mut done: Vec<Step> = Vec::with_capacity(steps.len());
    for step in steps {
        match step {
            Step::Filter(predicates) => push_filter(&mut done, predicates),
            Step::Match {
                graph,
                optional: false,
            } => match done.last_mut() {
                Some(Step::Match {
                    graph: before,
                    optional: false,
                }) if before.nodes.len() + graph.nodes.len() <= MERGED_NODES => {
                    before.absorb(graph)
                }
                _ => done.push(Step::Match {
                    graph,
                    optional: false,
                }),
            },
            step => done.push(step),
        }
    }
    for step in &mut done {
        if let Step::Match { graph, .. } = step {
            graph.predicates.iter_mut().for_each(one_of);
        }
    }
    done
}

/// `n.x = 1 OR n.x = $y` becomes `n.x IN [1, $y]`, which an index answers; the same three-valued logic.
fn one_of(predicate: &mut Expr) {
    let Expr::Or(terms) = predicate else { return };
    let mut values = Vec::with_capacity(terms.len());
    let mut subject: Option<(&Expr, (SlotId, Vec<PropRef>))> = None;
    for term in terms.iter() {
        let Expr::Compare {
            op: Comparison::Equal,
            left,
            right,
        } = term
        else {
            return;
        };
        let (property, value) = match (&**left, &**right) {
            (property, value @ (Expr::Const(_) | Expr::Param(_))) => (property, value),
            (value @ (Expr::Const(_) | Expr::Param(_)), property) => (property, value),
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
    let constant = |value: &Expr| match value {
        Expr::Const(value) => Some(value.clone()),
        _ => None,
    };
    let list = match values.iter().map(constant).collect::<Option<Vec<_>>>() {
        Some(values) => Expr::Const(Value::List(Arc::new(values))),
        None => Expr::List(values),
    };
    *predicate = Expr::In {
        item: Box::new(item.clone()),
        list: Box::new(list),
    };
}

fn push_filter(done: &mut Vec<Step>, predicates: Vec<Expr>) {
    let mut terms = Vec::new();
    for predicate in predicates {
        conjuncts(predicate, &mut terms);
    }
    let mut left = Vec::new();
    for term in terms {
        match place_for(done, &term) {
            Some(at) => {
                if let Step::Match { graph, .. } = &mut done[at] {
                    graph.predicates.push(term);
                }
            }
            None => left.push(term),
        }
    }
    if !left.is_empty() {
        done.push(Step::Filter(left));
    }
}

/// The `MATCH` that a predicate may become part of: reached over steps that neither compute what it reads nor drop rows
/// by their number, nor can fail: an error in a row that the predicate would have dropped is an error all the same.
fn place_for(done: &[Step], term: &Expr) -> Option<usize> {
    let mut reads: FxHashSet<SlotId> = FxHashSet::default();
    term.for_each_slot(&mut |slot| {
        reads.insert(slot);
    });
    for (at, step) in done.iter().enumerate().rev() {
        match step {
            Step::Match {
                optional: false,
                graph,
            } => return cannot_fail_after(graph, &done[at + 1..]).then_some(at),
            Step::Project(columns) if columns.iter().all(|(slot, _)| !reads.contains(slot)) => {}
            Step::Distinct(slots) if reads.iter().all(|slot| slots.contains(slot)) => {}
            Step::Sort(_) | Step::Filter(_) => {}
            _ => return None,
        }
    }
    None
}

/// Whether none of the projections behind a `MATCH` can fail.
fn cannot_fail_after(graph: &QueryGraph, steps: &[Step]) -> bool {
    let mut entities: FxHashSet<SlotId> = graph.nodes.iter().copied().collect();
    for relationship in &graph.relationships {
        entities.extend([relationship.from, relationship.to]);
        if matches!(relationship.length, Length::One) {
            entities.insert(relationship.slot);
        }
    }
    for step in steps {
        let Step::Project(columns) = step else {
            continue;
        };
        for (slot, expr) in columns {
            if !cannot_fail(expr, &entities) {
                return false;
            }
            if matches!(expr, Expr::Slot(from) if entities.contains(from)) {
                entities.insert(*slot);
            }
        }
    }
    true
}

/// Whether an expression has a value for every row, where `entities` are nodes and relationships.
fn cannot_fail(expr: &Expr, entities: &FxHashSet<SlotId>) -> bool {
    let all = |terms: &[Expr]| terms.iter().all(|term| cannot_fail(term, entities));
    let entity = |base: &Expr| matches!(base, Expr::Slot(slot) if entities.contains(slot));
    match expr {
        Expr::Slot(_) | Expr::Const(_) | Expr::Param(_) | Expr::BuildPath { .. } => true,
        Expr::Property { base, .. }
        | Expr::HasLabels { entity: base, .. }
        | Expr::HasType { entity: base, .. } => entity(base),
        Expr::At { inner, .. } | Expr::IsNull(inner) | Expr::IsNotNull(inner) => {
            cannot_fail(inner, entities)
        }
        Expr::List(items) => all(items),
        Expr::Map(items) => items.iter().all(|(_, item)| cannot_fail(item, entities)),
        Expr::Compare { left, right, .. } => {
            cannot_fail(left, entities) && cannot_fail(right, entities)
        }
        _ => false,
    }
}
