//! Random queries.

use super::graph::{LABELS, TYPES};
use super::matching::variables;
use super::query::{
    Clause, Comparison, Condition, Direction, NodePattern, Path, Query, RelationshipPattern,
    Returned, Variable,
};
use crate::random::Random;

/// Names for nodes.
const NODES: u64 = 6;

/// State while a query is generated.
struct Maker<'r> {
    random: &'r mut Random,
    scope: Vec<Variable>,
    /// The next number for a relationship's name.
    next: usize,
    /// Relationships named in the current clause: none is named twice.
    in_clause: Vec<Variable>,
}

/// A query of one to three matches.
pub fn query(random: &mut Random) -> Query {
    let mut maker = Maker {
        random,
        scope: Vec::new(),
        next: 0,
        in_clause: Vec::new(),
    };
    let mut clauses = Vec::new();
    for at in 0..1 + maker.random.below(3) {
        let clause = maker.match_clause(at > 0);
        clauses.push(clause);
        if maker.random.once_in(4) && !maker.scope.is_empty() {
            clauses.push(maker.with());
        }
    }
    let result = *maker.random.pick(&[
        Returned::Rows,
        Returned::Rows,
        Returned::Count,
        Returned::CountByFirst,
        Returned::CountDistinctLast,
        Returned::Distinct,
        Returned::DistinctNodes,
        Returned::DistinctNodes,
    ]);
    Query {
        clauses,
        scope: maker.scope,
        result,
    }
}

impl Maker<'_> {
    fn with(&mut self) -> Clause {
        let mut variables: Vec<Variable> = self
            .scope
            .iter()
            .copied()
            .filter(|_| !self.random.once_in(3))
            .collect();
        if variables.is_empty() {
            variables.push(self.scope[0]);
        }
        self.scope.clone_from(&variables);
        Clause::With {
            distinct: self.random.once_in(2),
            variables,
        }
    }

    fn match_clause(&mut self, may_be_optional: bool) -> Clause {
        self.in_clause.clear();
        let before = self.scope.clone();
        let paths: Vec<Path> = (0..1 + self.random.below(5) / 3)
            .map(|_| self.path(true))
            .collect();
        let condition =
            (!self.scope.is_empty() && self.random.once_in(2)).then(|| self.condition(2));
        debug_assert!(before.iter().all(|name| self.scope.contains(name)));
        Clause::Match {
            optional: may_be_optional && self.random.once_in(3),
            paths,
            condition,
        }
    }

    fn path(&mut self, names: bool) -> Path {
        let start = self.node(names);
        let steps = (0..self.random.below(4))
            .map(|_| (self.relationship(names), self.node(names)))
            .collect();
        let path = Path { start, steps };
        for variable in variables(&path) {
            if !self.scope.contains(&variable) {
                self.scope.push(variable);
            }
        }
        path
    }

    fn node(&mut self, names: bool) -> NodePattern {
        let known: Vec<Variable> = self
            .scope
            .iter()
            .copied()
            .filter(|name| matches!(name, Variable::Node(_)))
            .collect();
        let variable = match names {
            true if !self.random.once_in(3) => {
                Some(Variable::Node(self.random.below(NODES) as usize))
            }
            false if !known.is_empty() && !self.random.once_in(2) => {
                Some(*self.random.pick(&known))
            }
            _ => None,
        };
        NodePattern {
            variable,
            label: self.random.once_in(6).then(|| {
                (
                    self.random.below(LABELS.len() as u64) as usize,
                    !self.random.once_in(5),
                )
            }),
            v: self.random.once_in(15).then(|| self.random.below(3) as i64),
        }
    }

    fn relationship(&mut self, names: bool) -> RelationshipPattern {
        let length = self.random.once_in(4).then(|| {
            let least = self.random.below(3);
            (least, least + self.random.below(3))
        });
        let known: Vec<Variable> = self
            .scope
            .iter()
            .copied()
            .filter(|name| {
                matches!(name, Variable::Relationship(_)) && !self.in_clause.contains(name)
            })
            .collect();
        let variable = match (names, length) {
            (true, None) if !known.is_empty() && self.random.once_in(3) => {
                Some(*self.random.pick(&known))
            }
            (true, _) if self.random.once_in(2) => {
                self.next += 1;
                Some(if length.is_some() {
                    Variable::Walk(self.next)
                } else {
                    Variable::Relationship(self.next)
                })
            }
            _ => None,
        };
        self.in_clause.extend(variable);
        RelationshipPattern {
            variable,
            types: (0..TYPES.len())
                .filter(|_| self.random.once_in(6))
                .collect(),
            direction: *self
                .random
                .pick(&[Direction::Right, Direction::Left, Direction::Either]),
            length,
            w: self.random.once_in(20).then(|| self.random.below(3) as i64),
        }
    }

    fn condition(&mut self, depth: u32) -> Condition {
        let nodes: Vec<Variable> = self
            .scope
            .iter()
            .copied()
            .filter(|name| matches!(name, Variable::Node(_)))
            .collect();
        let numbers: Vec<Variable> = self
            .scope
            .iter()
            .copied()
            .filter(|name| !matches!(name, Variable::Walk(_)))
            .collect();
        if depth > 0 && self.random.once_in(3) {
            let a = Box::new(self.condition(depth - 1));
            return match self.random.below(3) {
                0 => Condition::Not(a),
                1 => Condition::And(a, Box::new(self.condition(depth - 1))),
                _ => Condition::Or(a, Box::new(self.condition(depth - 1))),
            };
        }
        if numbers.is_empty() {
            return Condition::IsNull(self.scope[0]);
        }
        let comparison = *self.random.pick(&[
            Comparison::Equal,
            Comparison::Less,
            Comparison::GreaterOrEqual,
        ]);
        match self.random.below(7) {
            0 | 1 => Condition::Compare(
                *self.random.pick(&numbers),
                comparison,
                *self.random.pick(&numbers),
            ),
            2 => Condition::CompareTo(
                *self.random.pick(&numbers),
                comparison,
                self.random.below(3) as i64,
            ),
            3 if !nodes.is_empty() => Condition::Same(
                *self.random.pick(&nodes),
                self.random.once_in(2),
                *self.random.pick(&nodes),
            ),
            4 if !nodes.is_empty() => Condition::HasLabel(
                *self.random.pick(&nodes),
                self.random.below(LABELS.len() as u64) as usize,
            ),
            5 => {
                let scope = self.scope.clone();
                let path = self.path(false);
                self.scope = scope;
                Condition::Exists(path)
            }
            _ => Condition::IsNull(*self.random.pick(&numbers)),
        }
    }
}
