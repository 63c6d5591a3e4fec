//! Rewrite rules on the logical steps, applied before patterns are ordered.

use std::sync::Arc;

use isomer_value::Value;
use rustc_hash::FxHashSet;

use super::cost::property_of;
use super::failure::{condition_can_fail, early, slots_of, step_can_fail, value_can_fail};
use crate::arena::Arena;
use crate::expr::{BoundExpr, Comparison, PropRef, SlotId};
use crate::logical::{LogicalStep, PatternRelationship, QueryGraph, conjuncts};

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
///
/// No condition that can fail is tested for a row that a condition of an earlier clause drops. Where such a condition
/// moves below others, its copy that is true for a failure moves ([`BoundExpr::Early`]), and the condition itself
/// stays.
pub(crate) fn rewrite(steps: Vec<LogicalStep>, arena: &Arena) -> Vec<LogicalStep> {
    let mut done: Vec<LogicalStep> = Vec::with_capacity(steps.len());
    for step in steps {
        match step {
            LogicalStep::Filter(predicates) => push_filter(&mut done, predicates, arena),
            LogicalStep::Match {
                graph,
                optional: false,
            } => push_match(&mut done, graph, arena),
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

/// Merges a pattern with the one before it. They are ordered together; relationships stay unique per clause, because
/// each of them records its clause.
fn push_match(done: &mut Vec<LogicalStep>, mut graph: QueryGraph, arena: &Arena) {
    // Conditions that wait for the pattern before are still tested after it, now for its rows with those of this
    // pattern.
    let waits = matches!(done.last(), Some(LogicalStep::Filter(terms)) if !terms.iter().any(BoundExpr::is_volatile));
    let at = done.len().checked_sub(if waits { 2 } else { 1 });
    let before = match at.and_then(|at| done.get_mut(at)) {
        Some(LogicalStep::Match {
            graph: before,
            optional: false,
        }) if before.nodes.len() + graph.nodes.len() <= MERGED_NODES => {
            Some((Guards::of(before, waits), before))
        }
        _ => None,
    };
    let merged = before.filter(|(guards, _)| !must_follow(&graph, guards, arena));
    let deferred = match merged {
        Some((guards, before)) => {
            let deferred = defer_conditions(&mut graph, &guards, arena);
            before.absorb(graph);
            deferred
        }
        None => {
            let deferred = defer_conditions(&mut graph, &Guards::default(), arena);
            done.push(LogicalStep::Match {
                graph,
                optional: false,
            });
            deferred
        }
    };
    if deferred.is_empty() {
        return;
    }
    match done.last_mut() {
        Some(LogicalStep::Filter(terms)) => terms.extend(deferred),
        _ => done.push(LogicalStep::Filter(deferred)),
    }
}

/// Takes the conditions that must wait for others of their clause out of the patterns: what [`rewrite`] does of this
/// without early copies.
pub(crate) fn separate_deferred(steps: Vec<LogicalStep>, arena: &Arena) -> Vec<LogicalStep> {
    let mut done = Vec::with_capacity(steps.len());
    for mut step in steps {
        let mut deferred = Vec::new();
        if let LogicalStep::Match {
            graph,
            optional: false,
        } = &mut step
        {
            deferred = defer_conditions(graph, &Guards::default(), arena);
            let is_early = |one: &BoundExpr| matches!(one, BoundExpr::Early(_));
            graph.predicates.retain(|one| !is_early(one));
        }
        done.push(step);
        if !deferred.is_empty() {
            done.push(LogicalStep::Filter(deferred));
        }
    }
    done
}

/// Whether a pattern has conditions that must wait for those of the pattern before, but have to be a part of its
/// search: the patterns are solved one after the other then.
fn must_follow(graph: &QueryGraph, guards: &Guards, arena: &Arena) -> bool {
    if guards.is_empty() {
        return false;
    }
    let own: FxHashSet<SlotId> = graph.bound_slots().collect();
    let relationships = &graph.relationships;
    relationships.iter().any(|one| search_can_fail(one, arena))
        || graph.predicates.iter().any(|condition| {
            links(condition, &own)
                && condition_can_fail(condition, arena)
                && !guards.are_tested_before(condition)
        })
}

/// Replaces the conditions of a pattern that must wait for others by their early copies, and returns them.
fn defer_conditions(graph: &mut QueryGraph, before: &Guards, arena: &Arena) -> Vec<BoundExpr> {
    let own: FxHashSet<SlotId> = graph.bound_slots().collect();
    let (mut kept, mut deferred) = (Vec::with_capacity(graph.predicates.len()), Vec::new());
    let mut guards = Guards::default();
    for condition in std::mem::take(&mut graph.predicates) {
        let must_wait = condition_can_fail(&condition, arena)
            && !(guards.are_tested_before(&condition) && before.are_tested_before(&condition))
            // The sides of a comparison may be the keys of a seek or of a join.
            && !links(&condition, &own);
        guards.slots.extend(Guards::slots_of_condition(&condition));
        if must_wait {
            // Those that follow it wait as well.
            guards.wait = true;
            kept.extend(early(&condition));
            deferred.push(condition);
        } else {
            kept.push(condition);
        }
    }
    graph.predicates = kept;
    deferred
}

/// Whether a condition within the search for a relationship can fail.
fn search_can_fail(one: &PatternRelationship, arena: &Arena) -> bool {
    let mut can_fail = false;
    let mut step = one.step_predicate.as_ref();
    one.for_each_expr(&mut |condition| {
        can_fail |= match step.take() {
            // The first one that is visited.
            Some((local, condition)) => step_can_fail(*local, condition, arena),
            None => condition_can_fail(condition, arena),
        };
    });
    can_fail
}

/// Whether a comparison connects slots of a pattern with others: one side reads only the former, the other one only the
/// latter.
fn links(condition: &BoundExpr, own: &FxHashSet<SlotId>) -> bool {
    let Some((left, right)) = sides(condition) else {
        return false;
    };
    let reads = |side: &BoundExpr, inside: bool| {
        let slots = slots_of(side);
        !slots.is_empty() && slots.iter().all(|slot| own.contains(slot) == inside)
    };
    reads(left, true) && reads(right, false) || reads(left, false) && reads(right, true)
}

/// The sides of a condition that may be a seek or the key of a join.
fn sides(condition: &BoundExpr) -> Option<(&BoundExpr, &BoundExpr)> {
    match condition {
        BoundExpr::At { inner, .. } => sides(inner),
        BoundExpr::Compare { left, right, .. }
        | BoundExpr::StringTest { left, right, .. }
        | BoundExpr::In {
            item: left,
            list: right,
        } => Some((left, right)),
        _ => None,
    }
}

/// The conditions that precede another one.
#[derive(Default)]
struct Guards {
    /// The slots that each of them reads.
    slots: Vec<Vec<SlotId>>,
    /// Whether some are tested after the pattern.
    wait: bool,
}

impl Guards {
    /// The conditions of a pattern.
    fn of(graph: &QueryGraph, wait: bool) -> Self {
        let conditions = graph.predicates.iter();
        let mut slots: Vec<Vec<SlotId>> = conditions.filter_map(Self::slots_of_condition).collect();
        for relationship in &graph.relationships {
            relationship.for_each_expr(&mut |condition| {
                let mut read = slots_of(condition);
                read.push(relationship.slot);
                slots.push(read);
            });
        }
        Self { slots, wait }
    }

    /// The slots that a condition reads. Labels and types are not conditions here: in which order a pattern is matched
    /// is open.
    fn slots_of_condition(condition: &BoundExpr) -> Option<Vec<SlotId>> {
        match condition {
            BoundExpr::HasLabels { .. } | BoundExpr::HasType { .. } | BoundExpr::Early(_) => None,
            other => Some(slots_of(other)),
        }
    }

    fn is_empty(&self) -> bool {
        self.slots.is_empty() && !self.wait
    }

    /// Whether all of them are tested before a condition that follows them is evaluated, wherever the slots are bound
    /// that it reads: conditions that can be tested at one place are tested in their order.
    fn are_tested_before(&self, condition: &BoundExpr) -> bool {
        let within =
            |read: &[SlotId], guard: &[SlotId]| guard.iter().all(|slot| read.contains(slot));
        let Some((left, right)) = sides(condition) else {
            let read = slots_of(condition);
            return !self.wait && self.slots.iter().all(|guard| within(&read, guard));
        };
        // A value that depends on no element of the pattern, as in `n.id = toInteger($id)`, is known before it.
        let is_known = |side: &BoundExpr| slots_of(side).is_empty() || property_of(side).is_some();
        if is_known(left) && is_known(right) {
            return true;
        }
        // The sides of a comparison may be evaluated apart, as keys of a join.
        let (left, right) = (slots_of(left), slots_of(right));
        let is_tested = |guard: &Vec<SlotId>| within(&left, guard) || within(&right, guard);
        !self.wait && self.slots.iter().all(is_tested)
    }
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

fn push_filter(done: &mut Vec<LogicalStep>, predicates: Vec<BoundExpr>, arena: &Arena) {
    let mut terms = Vec::new();
    for predicate in predicates {
        conjuncts(predicate, &mut terms);
    }
    // Each conjunct moves alone: one that must stay does not hold the others back.
    let mut left = Vec::new();
    for term in terms {
        let Some(at) = place_for(done, &term, arena) else {
            left.push(term);
            continue;
        };
        let waits = !left.is_empty()
            || done[at + 1..]
                .iter()
                .any(|step| matches!(step, LogicalStep::Filter(_)));
        let LogicalStep::Match { graph, .. } = &mut done[at] else {
            unreachable!("the place is a pattern")
        };
        if condition_can_fail(&term, arena) && !Guards::of(graph, waits).are_tested_before(&term) {
            graph.predicates.extend(early(&term));
            left.push(term);
        } else {
            graph.predicates.push(term);
        }
    }
    if !left.is_empty() {
        done.push(LogicalStep::Filter(left));
    }
}

/// The `MATCH` that a predicate can be pushed into: over steps that neither compute what it reads, nor drop rows by
/// their number, nor can fail (an error in a row that the predicate would have dropped must still be reported).
fn place_for(done: &[LogicalStep], term: &BoundExpr, arena: &Arena) -> Option<usize> {
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
                // The nearest pattern only: a predicate that reads slots of an earlier one may read slots of
                // this one as well, and merging has made adjacent patterns one.
                ..
            } => return cannot_fail_after(&done[at + 1..], arena).then_some(at),
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
fn cannot_fail_after(steps: &[LogicalStep], arena: &Arena) -> bool {
    steps.iter().all(|step| match step {
        LogicalStep::Project(columns) => {
            columns.iter().all(|(_, expr)| !value_can_fail(expr, arena))
        }
        _ => true,
    })
}
