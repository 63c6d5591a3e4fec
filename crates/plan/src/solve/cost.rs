//! Estimates: how many rows, how much work. All are guesses from counts; none may change an answer.

use isomer_value::Value;

use crate::arena::Arena;
use crate::catalog::Catalog;
use crate::expr::{Comparison, Expr, LabelRef, TypeRef};
use crate::logical::{Length, PatternRelationship};
use crate::physical::Direction;

/// Estimates by a catalog.
pub(crate) struct Costs<'c> {
    pub catalog: &'c dyn Catalog,
}

impl<'c> Costs<'c> {
    pub fn new(catalog: &'c dyn Catalog) -> Self {
        Self { catalog }
    }

    /// Nodes with a label, or all. At least 1, so that products order even an empty database.
    pub fn nodes(&self, label: Option<LabelRef>, arena: &Arena) -> f64 {
        let count = match label {
            None => self.catalog.node_count(None),
            Some(label) => match self.catalog.label(arena.label_name(label)) {
                Some(label) => self.catalog.node_count(Some(label)),
                None => 0,
            },
        };
        (count as f64).max(1.0)
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

    /// Relationships at a node that has one of these labels (none known: any node).
    pub fn degree(
        &self,
        labels: &[LabelRef],
        types: &[TypeRef],
        direction: Direction,
        arena: &Arena,
    ) -> f64 {
        let nodes = labels
            .iter()
            .map(|label| self.nodes(Some(*label), arena))
            .fold(self.nodes(None, arena), f64::min);
        let each_way = self.relationships(types, arena) / nodes;
        if direction == Direction::Both {
            2.0 * each_way
        } else {
            each_way
        }
    }

    /// Rows out per row in of following a relationship pattern.
    pub fn fan_out(
        &self,
        relationship: &PatternRelationship,
        labels: &[LabelRef],
        arena: &Arena,
    ) -> f64 {
        let degree = self.degree(labels, &relationship.types, relationship.direction, arena);
        match &relationship.length {
            Length::One => degree,
            Length::Shortest { .. } | Length::Selected(_) => 1.0,
            Length::Repeat(walk) => repeated(walk, degree),
            Length::Walk { min, max } => {
                let steps = max
                    .unwrap_or(min.saturating_add(4))
                    .min(min.saturating_add(4))
                    .min(8);
                let mut total = if *min == 0 { 1.0 } else { 0.0 };
                let mut walks = 1.0;
                for step in 1..=steps {
                    walks = f64::min(walks * degree, 1e12);
                    if step >= *min {
                        total += walks;
                    }
                }
                total
            }
        }
    }

    /// The share of rows that a predicate keeps.
    pub fn selectivity(&self, predicate: &Expr, arena: &Arena) -> f64 {
        match predicate {
            Expr::Const(Value::Bool(true)) => 1.0,
            Expr::Const(_) => 0.0,
            Expr::HasLabels { labels, .. } => {
                let all = self.nodes(None, arena);
                labels
                    .iter()
                    .map(|label| (self.nodes(Some(*label), arena) / all).clamp(0.01, 1.0))
                    .product()
            }
            Expr::Compare {
                op: Comparison::Equal,
                ..
            } => 0.1,
            Expr::Compare {
                op: Comparison::NotEqual,
                ..
            } => 0.9,
            Expr::Compare { .. } | Expr::StringTest { .. } => 0.3,
            Expr::In { .. } => 0.2,
            Expr::Not(inner) => (1.0 - self.selectivity(inner, arena)).max(0.05),
            Expr::And(terms) => terms
                .iter()
                .map(|term| self.selectivity(term, arena))
                .product::<f64>()
                .max(1e-6),
            Expr::Or(terms) => terms
                .iter()
                .map(|term| self.selectivity(term, arena))
                .sum::<f64>()
                .min(1.0),
            Expr::IsNull(_) => 0.1,
            Expr::IsNotNull(_) => 0.9,
            _ => 0.5,
        }
    }
}

/// How long a list is, if that can be seen.
pub(crate) fn list_length(list: &Expr) -> f64 {
    match list {
        Expr::Const(Value::List(values)) => values.len() as f64,
        Expr::List(items) => items.len() as f64,
        _ => 10.0,
    }
}

/// How dear a predicate is to test: property reads over plain comparisons, sub-plans last.
fn weight(predicate: &Expr) -> u32 {
    let own = match predicate {
        Expr::Subquery(_) => 1_000,
        Expr::Property { .. } | Expr::HasLabels { .. } => 5,
        Expr::Call { .. } | Expr::CallRegistered { .. } => 3,
        Expr::ListComprehension { .. } | Expr::Quantifier { .. } | Expr::Reduce { .. } => 20,
        _ => 1,
    };
    let mut total: u32 = own;
    predicate.for_each_child(&mut |child| total = total.saturating_add(weight(child)));
    total
}

/// The predicates, cheap ones first, otherwise in the order written.
pub(crate) fn cheapest_first(mut predicates: Vec<Expr>) -> Vec<Expr> {
    if predicates.len() > 1 {
        predicates.sort_by_cached_key(weight);
    }
    predicates
}

/// Rows out per row in of a repeated group, each of whose steps leads to `degree` nodes.
fn repeated(walk: &crate::walk::Walk, degree: f64) -> f64 {
    let mut total = 1.0_f64;
    for link in &walk.links {
        let (min, max) = link.repeat.unwrap_or((1, Some(1)));
        let most = max
            .unwrap_or(min.saturating_add(4))
            .min(min.saturating_add(4))
            .min(8);
        let steps = link.steps.len() as i32;
        let ways: f64 = (min.min(most)..=most)
            .map(|times| degree.powi(steps.saturating_mul(times as i32)).min(1e12))
            .sum();
        total = (total * ways).min(1e12);
    }
    total
}
