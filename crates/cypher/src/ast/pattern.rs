//! Patterns: paths of nodes and relationships.

use super::{Expr, Ident};
use crate::Span;

/// Paths that are matched, or made, together.
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern {
    /// The paths; at least one.
    pub paths: Vec<PathPattern>,
    /// Where it stands.
    pub span: Span,
}

/// One path: `[variable =] [selector] (start)-[…]->(node)…`
#[derive(Clone, Debug, PartialEq)]
pub struct PathPattern {
    /// The variable bound to the whole path.
    pub variable: Option<Ident>,
    /// Which of the matching paths between a pair of end nodes are kept; all of them if absent.
    pub selector: Option<PathSelector>,
    /// The first node.
    pub start: NodePattern,
    /// Links and the nodes they lead to.
    pub steps: Vec<PathStep>,
    /// `((a)-->(b) WHERE predicate)`: a condition inside the parentheses around the path, applied before the selector.
    pub predicate: Option<Expr>,
    /// Where it stands.
    pub span: Span,
}

impl PathPattern {
    /// The nodes in order, the inner ones of quantified parts excluded.
    pub fn nodes(&self) -> impl Iterator<Item = &NodePattern> {
        std::iter::once(&self.start).chain(self.steps.iter().map(|step| &step.node))
    }

    /// The last node.
    pub fn end(&self) -> &NodePattern {
        self.steps.last().map_or(&self.start, |step| &step.node)
    }
}

/// Which of the matching paths between each pair of end nodes are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathSelector {
    /// `ANY [k]`: any `k` of them.
    Any(u64),
    /// `[ANY] SHORTEST [k]`: `k` of the shortest.
    Shortest(u64),
    /// `SHORTEST [k] GROUPS`: all of the `k` smallest lengths.
    ShortestGroups(u64),
    /// `ALL SHORTEST`: all of the smallest length.
    AllShortest,
    /// `shortestPath(…)`: one of the shortest; one relationship pattern between two nodes.
    ShortestPathFunction,
    /// `allShortestPaths(…)`: all of the smallest length; one relationship pattern between two nodes.
    AllShortestPathsFunction,
}

/// A link and the node it leads to.
#[derive(Clone, Debug, PartialEq)]
pub struct PathStep {
    /// The way to the node.
    pub link: Link,
    /// The node.
    pub node: NodePattern,
}

/// What stands between two nodes of a path.
#[derive(Clone, Debug, PartialEq)]
pub enum Link {
    /// `-[…]->`, of one relationship or of several.
    Relationship(Box<RelationshipPattern>),
    /// `((a)-[…]->(b) WHERE …){1,3}`
    Quantified(Box<QuantifiedPath>),
}

/// `(variable:Labels {properties} WHERE predicate)`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodePattern {
    /// The variable.
    pub variable: Option<Ident>,
    /// The labels it must have.
    pub labels: Option<LabelExpr>,
    /// A map or a parameter.
    pub properties: Option<Expr>,
    /// The condition inside the parentheses.
    pub predicate: Option<Expr>,
    /// Where it stands; empty for a node that is not written.
    pub span: Span,
}

/// `-[variable:Types*length {properties} WHERE predicate]->`
#[derive(Clone, Debug, PartialEq)]
pub struct RelationshipPattern {
    /// The variable; bound to a list where there is a length.
    pub variable: Option<Ident>,
    /// The types it may have.
    pub types: Option<LabelExpr>,
    /// Which way it points.
    pub direction: Direction,
    /// How many relationships in a row; `None` is exactly one, not in a list.
    pub length: Option<PathLength>,
    /// A map or a parameter; holds for each relationship.
    pub properties: Option<Expr>,
    /// The condition inside the brackets; holds for each relationship, under the variable's name.
    pub predicate: Option<Expr>,
    /// Where it stands.
    pub span: Span,
}

/// Which way a relationship points as the path is read from left to right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// `-->`
    Outgoing,
    /// `<--`
    Incoming,
    /// `--` or `<-->`
    Both,
}

impl Direction {
    /// The direction as seen from the other end.
    pub fn reversed(self) -> Self {
        match self {
            Self::Outgoing => Self::Incoming,
            Self::Incoming => Self::Outgoing,
            Self::Both => Self::Both,
        }
    }
}

/// A number of repetitions, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathLength {
    /// At least so many: 1 for `*`, 0 for the quantifier `*`.
    pub min: u64,
    /// At most so many; `None` is unbounded.
    pub max: Option<u64>,
    /// Where it stands.
    pub span: Span,
}

/// `((a)-[…]->(b) WHERE predicate){min,max}`: a path repeated end to end. Its variables are lists outside.
#[derive(Clone, Debug, PartialEq)]
pub struct QuantifiedPath {
    /// One repetition; has neither variable nor selector, and its condition in
    /// [`PathPattern::predicate`].
    pub path: PathPattern,
    /// How often.
    pub length: PathLength,
    /// Where it stands.
    pub span: Span,
}

/// A condition on the labels of a node or the type of a relationship.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelExpr {
    /// What it says.
    pub kind: LabelExprKind,
    /// Where it stands.
    pub span: Span,
}

/// The kinds of label expressions.
#[derive(Clone, Debug, PartialEq)]
pub enum LabelExprKind {
    /// `A`
    Name(Ident),
    /// `%`: any label.
    Any,
    /// `!A`
    Not(Box<LabelExpr>),
    /// `A&B` or `:A:B`; two or more.
    And(Vec<LabelExpr>),
    /// `A|B`; two or more.
    Or(Vec<LabelExpr>),
}

impl LabelExpr {
    /// The names, if this is one name or a conjunction of names: what `CREATE` takes.
    pub fn as_conjunction(&self) -> Option<Vec<&Ident>> {
        match &self.kind {
            LabelExprKind::And(parts) => parts.iter().map(Self::as_name).collect(),
            _ => self.as_name().map(|name| vec![name]),
        }
    }

    /// The names, if this is one name or a disjunction of names: what relationship types mostly are.
    pub fn as_disjunction(&self) -> Option<Vec<&Ident>> {
        match &self.kind {
            LabelExprKind::Or(parts) => parts.iter().map(Self::as_name).collect(),
            _ => self.as_name().map(|name| vec![name]),
        }
    }

    /// The name, if this is just one.
    pub fn as_name(&self) -> Option<&Ident> {
        match &self.kind {
            LabelExprKind::Name(name) => Some(name),
            _ => None,
        }
    }
}
