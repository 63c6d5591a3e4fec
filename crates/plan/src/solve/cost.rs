//! Estimates of cardinality and cost, from counts and statistics if the catalog has them. They must never change a
//! result.

use std::cell::RefCell;
use std::sync::Arc;

use isomer_value::{LabelId, Value};
use rustc_hash::FxHashMap;

use super::selectivity::RangeBound;
use crate::arena::Arena;
use crate::catalog::{PlannerCatalog, ValueFacts};
use crate::expr::{BoundExpr, Comparison, LabelRef, PropRef, SlotId, StringTest, TypeRef};
use crate::logical::{Length, PatternRelationship};
use crate::physical::Direction;

/// In a database with more types than this, a relationship of any type is assumed to connect any labels.
const MAX_COMPARED_TYPES: usize = 32;

/// A value with this many times more or fewer nodes than the average may need a different plan.
const SKEWED: f64 = 4.0;

/// Estimates from a catalog.
pub(crate) struct Costs<'c> {
    pub catalog: &'c dyn PlannerCatalog,
    /// The labels that nodes are known to have.
    labels: RefCell<FxHashMap<SlotId, Vec<LabelRef>>>,
}

impl<'c> Costs<'c> {
    pub fn new(catalog: &'c dyn PlannerCatalog) -> Self {
        Self {
            catalog,
            labels: RefCell::default(),
        }
    }

    /// Records that a node has these labels, for estimates of its properties.
    pub fn note_labels(&self, node: SlotId, labels: &[LabelRef]) {
        let mut known = self.labels.borrow_mut();
        let of_node = known.entry(node).or_default();
        for label in labels {
            if !of_node.contains(label) {
                of_node.push(*label);
            }
        }
    }

    fn id(&self, label: LabelRef, arena: &Arena) -> Option<LabelId> {
        self.catalog.label(arena.label_name(label))
    }

    /// Nodes with a label, or all. At least 1, so that products order even an empty database.
    pub fn nodes(&self, label: Option<LabelRef>, arena: &Arena) -> f64 {
        let count = match label {
            None => self.catalog.node_count(None),
            Some(label) => match self.id(label, arena) {
                Some(label) => self.catalog.node_count(Some(label)),
                None => 0,
            },
        };
        (count as f64).max(1.0)
    }

    /// Nodes with all of the labels: the rarest label's nodes, times the fraction that has each other label; at least
    /// 0.1.
    pub fn labelled(&self, labels: &[LabelRef], arena: &Arena) -> f64 {
        let Some((rarest, nodes)) = self.rarest(labels, arena) else {
            return self.nodes(None, arena);
        };
        let all = self.nodes(None, arena);
        let id = self.id(rarest, arena);
        let mut share = 1.0;
        for other in labels.iter().filter(|other| **other != rarest) {
            let both = id
                .zip(self.id(*other, arena))
                .and_then(|(a, b)| self.catalog.nodes_with_both(a, b));
            // Labels are often correlated (a City is a Place): a count of both together beats the product of their
            // shares.
            share *= match both {
                Some(both) => (both as f64).max(0.5) / nodes,
                None => self.nodes(Some(*other), arena) / all,
            }
            .clamp(0.0, 1.0);
        }
        (nodes * share).max(0.1)
    }

    /// The label with the fewest nodes, and their number.
    fn rarest(&self, labels: &[LabelRef], arena: &Arena) -> Option<(LabelRef, f64)> {
        labels
            .iter()
            .map(|label| (*label, self.nodes(Some(*label), arena)))
            .min_by(|(_, a), (_, b)| a.total_cmp(b))
    }

    /// Relationships of any of the types.
    pub fn relationships(&self, types: &[TypeRef], arena: &Arena) -> f64 {
        let count: u64 = match types {
            [] => self.catalog.relationship_count(None),
            types => types
                .iter()
                .filter_map(|one| self.catalog.relationship_type(arena.type_name(*one)))
                .map(|known| self.catalog.relationship_count(Some(known)))
                .sum(),
        };
        count as f64
    }

    /// Relationships of any of the types from nodes with the first labels to nodes with the second ones. If only the
    /// total number of relationships is known, all are assumed to connect such nodes: queries mostly name the labels
    /// that occur with the type.
    pub fn between(
        &self,
        types: &[TypeRef],
        from: &[LabelRef],
        to: &[LabelRef],
        direction: Direction,
        arena: &Arena,
    ) -> f64 {
        match direction {
            Direction::Outgoing => self.directed(types, from, to, arena),
            Direction::Incoming => self.directed(types, to, from, arena),
            Direction::Both => {
                self.directed(types, from, to, arena) + self.directed(types, to, from, arena)
            }
        }
    }

    fn directed(
        &self,
        types: &[TypeRef],
        from: &[LabelRef],
        to: &[LabelRef],
        arena: &Arena,
    ) -> f64 {
        let rarest = |labels: &[LabelRef]| {
            let (label, _) = self.rarest(labels, arena)?;
            Some(self.id(label, arena))
        };
        let (from, to) = match (rarest(from), rarest(to)) {
            // A label that was never used.
            (Some(None), _) | (_, Some(None)) => return 0.0,
            (from, to) => (from.flatten(), to.flatten()),
        };
        let of_type = |known| {
            let all = self.catalog.relationship_count(Some(known)) as f64;
            if from.is_none() && to.is_none() {
                return all;
            }
            // Counted by the rarest label of each end, which bounds the number for all labels together.
            let between = self.catalog.relationships_between(known, from, to);
            between.map_or(all, |count| (count as f64).min(all))
        };
        if types.is_empty() {
            let known: Vec<_> = self
                .catalog
                .type_names()
                .iter()
                .filter_map(|name| self.catalog.relationship_type(name))
                .collect();
            if (from.is_none() && to.is_none())
                || known.is_empty()
                || known.len() > MAX_COMPARED_TYPES
            {
                return self.catalog.relationship_count(None) as f64;
            }
            return known.into_iter().map(of_type).sum();
        }
        types
            .iter()
            .filter_map(|one| self.catalog.relationship_type(arena.type_name(*one)))
            .map(of_type)
            .sum()
    }

    /// The average degree of a node with these labels (any node if none is known).
    pub fn degree(
        &self,
        labels: &[LabelRef],
        types: &[TypeRef],
        direction: Direction,
        arena: &Arena,
    ) -> f64 {
        let nodes = match self.rarest(labels, arena) {
            Some((_, nodes)) => nodes,
            None => self.nodes(None, arena),
        };
        self.between(types, labels, &[], direction, arena) / nodes
    }

    /// Rows out per row in when a relationship pattern is followed from a node with these labels.
    pub fn fan_out(
        &self,
        relationship: &PatternRelationship,
        labels: &[LabelRef],
        direction: Direction,
        arena: &Arena,
    ) -> f64 {
        let degree = self.degree(labels, &relationship.types, direction, arena);
        match &relationship.length {
            Length::One => degree,
            Length::Shortest { .. } | Length::Selected(_) => 1.0,
            Length::Repeat(walk) => repeated(walk, degree),
            Length::Walk { min, max } => {
                // After the first step, the labels of the current node are unknown.
                let onward = self.degree(&[], &relationship.types, direction, arena);
                let steps = max
                    .unwrap_or(min.saturating_add(4))
                    .min(min.saturating_add(4))
                    .min(8);
                // A few steps beyond the minimum represent all: of more, the estimate would only say "too many", for
                // every plan alike.
                let mut total = if *min == 0 { 1.0 } else { 0.0 };
                let mut walks = 1.0;
                for step in 1..=steps {
                    let each = if step == 1 {
                        degree
                    } else {
                        onward.max(degree.min(1.0))
                    };
                    walks = f64::min(walks * each, 1e12);
                    if step >= *min {
                        total += walks;
                    }
                }
                total
            }
        }
    }

    /// The selectivity of a predicate.
    pub fn selectivity(&self, predicate: &BoundExpr, arena: &Arena) -> f64 {
        match predicate {
            BoundExpr::Const(Value::Bool(true)) => 1.0,
            BoundExpr::Const(_) => 0.0,
            BoundExpr::HasLabels { labels, .. } => {
                let all = self.nodes(None, arena);
                (self.labelled(labels, arena) / all).clamp(0.001, 1.0)
            }
            BoundExpr::Compare { op, left, right } => self.comparison(*op, left, right, arena),
            BoundExpr::StringTest {
                op: StringTest::StartsWith,
                left,
                right,
            } => {
                let prefix = match self.value(right) {
                    Some(Value::String(prefix)) => Some(&**prefix),
                    _ => None,
                };
                self.about(left, arena, |facts| facts.prefix_share(prefix))
                    .unwrap_or(0.3)
            }
            BoundExpr::StringTest { .. } => 0.3,
            BoundExpr::In { item, list } => self.membership(item, list, arena),
            BoundExpr::Not(inner) => (1.0 - self.selectivity(inner, arena)).max(0.05),
            BoundExpr::And(terms) => terms
                .iter()
                .map(|term| self.selectivity(term, arena))
                .product::<f64>()
                .max(1e-6),
            // Independent terms: one holds unless none does.
            BoundExpr::Or(terms) => {
                let none: f64 = terms
                    .iter()
                    .map(|term| 1.0 - self.selectivity(term, arena))
                    .product();
                1.0 - none
            }
            BoundExpr::IsNull(value) => self
                .about(value, arena, |facts| 1.0 - facts.present_share())
                .unwrap_or(0.1),
            BoundExpr::IsNotNull(value) => self
                .about(value, arena, |facts| facts.present_share())
                .unwrap_or(0.9),
            BoundExpr::At { inner, .. } | BoundExpr::Early(inner) => self.selectivity(inner, arena),
            _ => 0.5,
        }
    }

    fn comparison(
        &self,
        op: Comparison,
        left: &BoundExpr,
        right: &BoundExpr,
        arena: &Arena,
    ) -> f64 {
        let mirrored = match op {
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
            same => same,
        };
        let known = self
            .about(left, arena, |facts| self.compared(op, right, facts, arena))
            .or_else(|| {
                self.about(right, arena, |facts| {
                    self.compared(mirrored, left, facts, arena)
                })
            });
        // Without statistics, about the guesses of System R (Selinger et al., SIGMOD 1979).
        known.unwrap_or(match op {
            Comparison::Equal => 0.1,
            Comparison::NotEqual => 0.9,
            _ => 0.3,
        })
    }

    fn compared(&self, op: Comparison, with: &BoundExpr, facts: &ValueFacts, arena: &Arena) -> f64 {
        let value = self.value(with);
        let side = value.map_or(RangeBound::Unknown, RangeBound::At);
        match op {
            Comparison::Equal => self.equal_share(with, facts, arena),
            Comparison::NotEqual => (facts.present_share() - facts.equal_share(value)).max(0.01),
            Comparison::Less | Comparison::LessOrEqual => facts.range_share(RangeBound::Open, side),
            Comparison::Greater | Comparison::GreaterOrEqual => {
                facts.range_share(side, RangeBound::Open)
            }
        }
    }

    /// The fraction of a label's nodes whose property equals `with`.
    pub fn equal_share(&self, with: &BoundExpr, facts: &ValueFacts, arena: &Arena) -> f64 {
        if let BoundExpr::Param(parameter) = with {
            let average = facts.equal_share(None);
            // The plan is kept for all values of the parameter. Values far from the average are noted with it,
            // because another plan may be better for them.
            let special: Vec<Value> = facts
                .common
                .iter()
                .filter(|(value, _)| {
                    let share = facts.equal_share(Some(value));
                    share > SKEWED * average || share < average / SKEWED
                })
                .map(|(value, _)| value.clone())
                .collect();
            let mut skewed = arena.skewed.borrow_mut();
            if !special.is_empty() && skewed.iter().all(|(known, _)| known != parameter) {
                skewed.push((*parameter, special));
            }
        }
        facts.equal_share(self.value(with))
    }

    fn membership(&self, item: &BoundExpr, list: &BoundExpr, arena: &Arena) -> f64 {
        let count = list_length(list);
        let each = |facts: &ValueFacts| match list {
            BoundExpr::Const(Value::List(values)) => values
                .iter()
                .map(|value| facts.equal_share(Some(value)))
                .sum(),
            _ => facts.equal_share(None) * count,
        };
        let found = self.about(item, arena, each);
        found.unwrap_or(0.2).min(1.0)
    }

    /// The value of an expression, if it is known when planning.
    pub fn value<'e>(&self, expr: &'e BoundExpr) -> Option<&'e Value> {
        match expr {
            BoundExpr::Const(value) => Some(value),
            _ => None,
        }
    }

    /// The statistics of the property of a node that an expression reads: the most selective of its labels' statistics.
    fn about(
        &self,
        expr: &BoundExpr,
        arena: &Arena,
        share: impl Fn(&ValueFacts) -> f64,
    ) -> Option<f64> {
        let (node, path) = property_of(expr)?;
        let labels = self.labels.borrow();
        labels
            .get(&node)?
            .iter()
            .filter_map(|label| self.values(*label, &path, arena))
            .map(|facts| share(&facts))
            // The labels' estimates are of overlapping sets; the lowest one bounds the node, which has all of the
            // labels.
            .min_by(f64::total_cmp)
    }

    /// Estimated number of distinct values of an expression: of a property of a node with known labels, or of a node
    /// itself.
    pub fn distinct(&self, expr: &BoundExpr, arena: &Arena) -> Option<f64> {
        if let BoundExpr::Slot(slot) = expr {
            let labels = self.labels.borrow();
            let labels = labels.get(slot)?;
            return Some(self.labelled(labels, arena));
        }
        let (node, path) = property_of(expr)?;
        let labels = self.labels.borrow();
        labels
            .get(&node)?
            .iter()
            .filter_map(|label| self.values(*label, &path, arena))
            .map(|facts| facts.distinct + f64::from(facts.present < facts.nodes))
            .min_by(f64::total_cmp)
    }

    /// The statistics of a property over a type's relationships.
    pub fn type_values(
        &self,
        rel_type: TypeRef,
        path: &[PropRef],
        arena: &Arena,
    ) -> Option<Arc<ValueFacts>> {
        let names: Vec<&str> = path.iter().map(|name| arena.property_name(*name)).collect();
        let rel_type = self.catalog.relationship_type(arena.type_name(rel_type))?;
        self.catalog.relationship_values(rel_type, &names)
    }

    /// The statistics of a property over a label's nodes.
    pub fn values(
        &self,
        label: LabelRef,
        path: &[PropRef],
        arena: &Arena,
    ) -> Option<Arc<ValueFacts>> {
        let names: Vec<&str> = path.iter().map(|name| arena.property_name(*name)).collect();
        self.catalog.values(self.id(label, arena)?, &names)
    }
}

/// The node and the path of a property that an expression reads.
pub(super) fn property_of(expr: &BoundExpr) -> Option<(SlotId, Vec<PropRef>)> {
    let mut path = Vec::new();
    let mut at = expr;
    while let BoundExpr::Property { base, name, .. } = at {
        path.push(*name);
        at = base;
    }
    path.reverse();
    match at {
        BoundExpr::Slot(slot) if !path.is_empty() => Some((*slot, path)),
        _ => None,
    }
}

/// The length of a list, if it is known when planning.
pub(crate) fn list_length(list: &BoundExpr) -> f64 {
    match list {
        BoundExpr::Const(Value::List(values)) => values.len() as f64,
        BoundExpr::List(items) => items.len() as f64,
        _ => 10.0,
    }
}

/// The cost of testing a predicate: comparisons, then property reads, sub-plans last.
pub(super) fn weight(predicate: &BoundExpr) -> u32 {
    let own = match predicate {
        BoundExpr::Subquery(_) => 1_000,
        BoundExpr::Property { .. } | BoundExpr::HasLabels { .. } => 5,
        BoundExpr::Call { .. } | BoundExpr::CallRegistered { .. } => 3,
        BoundExpr::ListComprehension { .. }
        | BoundExpr::Quantifier { .. }
        | BoundExpr::Reduce { .. } => 20,
        BoundExpr::At { .. } | BoundExpr::Early(_) => 0,
        _ => 1,
    };
    let mut total: u32 = own;
    predicate.for_each_child(&mut |child| total = total.saturating_add(weight(child)));
    total
}

/// Rows out per row in of a repeated group with an average degree of `degree` per step.
fn repeated(walk: &crate::walk::Walk, degree: f64) -> f64 {
    let mut total = 1.0_f64;
    for link in &walk.links {
        let (min, max) = link.repeat.unwrap_or((1, Some(1)));
        let most = max
            .unwrap_or(min.saturating_add(4))
            .min(min.saturating_add(4))
            .min(8);
        let steps = link.steps.len() as i32;
        // As for walks: a few repetitions beyond the minimum represent all.
        let ways: f64 = (min.min(most)..=most)
            .map(|times| degree.powi(steps.saturating_mul(times as i32)).min(1e12))
            .sum();
        total = (total * ways).min(1e12);
    }
    total
}
