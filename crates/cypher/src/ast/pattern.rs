//! Patterns: paths of nodes and relationships.

pub use isomer_value::Direction;

use super::{Expr, Ident};
use crate::Span;

/// Paths that are matched or created together.
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern {
    /// The paths; at least one.
    pub paths: Vec<PathPattern>,
    /// Source span.
    pub span: Span,
}

/// One path: `[variable =] [selector] (start)-[…]->(node)…`
#[derive(Clone, Debug, PartialEq)]
pub struct PathPattern {
    /// The variable bound to the whole path.
    pub variable: Option<Ident>,
    /// Which matching paths between a pair of end nodes are kept; all of them if absent.
    pub selector: Option<PathSelector>,
    /// Which nodes and relationships may repeat; any if absent, within the limits of the mode of the `MATCH`.
    /// [`PathMode::Acyclic`] and [`PathMode::Simple`] not together with a selector.
    pub mode: Option<PathMode>,
    /// The first node.
    pub start: NodePattern,
    /// The links and the nodes they lead to.
    pub steps: Vec<PathStep>,
    /// `((a)-->(b) WHERE predicate)`: a condition inside the parentheses around the path, applied before the selector.
    pub predicate: Option<Expr>,
    /// Source span.
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

/// The path modes of GQL. All but [`PathMode::Walk`] repeat no relationship.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathMode {
    /// `WALK`: the mode of the `MATCH` alone decides what may repeat.
    Walk,
    /// `TRAIL`: nodes may repeat.
    Trail,
    /// `ACYCLIC`: no node repeats.
    Acyclic,
    /// `SIMPLE`: no node repeats, but the last may be the first.
    Simple,
}

/// Which of the matching paths between each pair of end nodes are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PathSelector {
    /// `ANY [k]`: any `k` paths.
    Any(u64),
    /// `[ANY] SHORTEST [k]`: `k` shortest paths.
    Shortest(u64),
    /// `SHORTEST [k] GROUPS`: all paths of the `k` smallest lengths.
    ShortestGroups(u64),
    /// `ALL SHORTEST`: all paths of the smallest length.
    AllShortest,
    /// `shortestPath(…)`: one shortest path; one relationship pattern between two nodes.
    ShortestPathFunction,
    /// `allShortestPaths(…)`: all paths of the smallest length; one relationship pattern between two nodes.
    AllShortestPathsFunction,
}

/// A link and the node it leads to.
#[derive(Clone, Debug, PartialEq)]
pub struct PathStep {
    /// The link to the node.
    pub link: PatternLink,
    /// The node.
    pub node: NodePattern,
}

/// The connection between two nodes of a path.
#[derive(Clone, Debug, PartialEq)]
pub enum PatternLink {
    /// `-[…]->`, of one relationship or several.
    Relationship(Box<RelationshipPattern>),
    /// `((a)-[…]->(b) WHERE …){1,3}`
    Quantified(Box<QuantifiedPath>),
}

/// `(variable:Labels {properties} WHERE predicate)`
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodePattern {
    /// The variable.
    pub variable: Option<Ident>,
    /// The label expression.
    pub labels: Option<LabelExpr>,
    /// A map or a parameter.
    pub properties: Option<Expr>,
    /// The predicate inside the parentheses.
    pub predicate: Option<Expr>,
    /// Source span; empty for an implicit node.
    pub span: Span,
}

/// `-[variable:Types*length {properties} WHERE predicate]->`
#[derive(Clone, Debug, PartialEq)]
pub struct RelationshipPattern {
    /// The variable; bound to a list if there is a length.
    pub variable: Option<Ident>,
    /// The type expression.
    pub types: Option<LabelExpr>,
    /// The direction.
    pub direction: Direction,
    /// Number of relationships in sequence; `None` means exactly one, not bound as a list.
    pub length: Option<PathLength>,
    /// A map or a parameter; applies to each relationship.
    pub properties: Option<Expr>,
    /// The predicate inside the brackets; applies to each relationship, under the variable's name.
    pub predicate: Option<Expr>,
    /// Source span.
    pub span: Span,
}

/// A range of repetitions, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathLength {
    /// Minimum: 1 for `*`, 0 for the quantifier `*`.
    pub min: u64,
    /// Maximum; `None` is unbounded.
    pub max: Option<u64>,
    /// Source span.
    pub span: Span,
}

/// `((a)-[…]->(b) WHERE predicate){min,max}`: a path repeated end to end. Outside, its variables are lists.
#[derive(Clone, Debug, PartialEq)]
pub struct QuantifiedPath {
    /// The path of one repetition; has neither variable nor selector, and its predicate is in
    /// [`PathPattern::predicate`].
    pub path: PathPattern,
    /// The number of repetitions.
    pub length: PathLength,
    /// Source span.
    pub span: Span,
}

/// A predicate on the labels of a node or the type of a relationship.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelExpr {
    /// The kind of label expression.
    pub kind: LabelExprKind,
    /// Source span.
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
    /// `$(expression)`, `$all(expression)` or `$any(expression)`: names that are computed, one text or a list of texts.
    Dynamic {
        /// The names.
        names: Box<Expr>,
        /// `$any`: one of the names suffices. Otherwise all are required.
        any: bool,
    },
}

impl LabelExpr {
    /// The names, if this is one name or a conjunction of names, as `CREATE` requires.
    pub fn as_conjunction(&self) -> Option<Vec<&Ident>> {
        match &self.kind {
            LabelExprKind::And(parts) => parts.iter().map(Self::as_name).collect(),
            _ => self.as_name().map(|name| vec![name]),
        }
    }

    /// The labels that `CREATE`, `SET` and `REMOVE` take: one or several, each a fixed or a dynamic name.
    pub fn as_labels(&self) -> Option<&[LabelExpr]> {
        let parts = match &self.kind {
            LabelExprKind::And(parts) => parts.as_slice(),
            _ => std::slice::from_ref(self),
        };
        parts.iter().all(Self::is_label).then_some(parts)
    }

    /// Whether this names what is created: `A` or `$(expression)`.
    pub fn is_label(&self) -> bool {
        matches!(
            self.kind,
            LabelExprKind::Name(_) | LabelExprKind::Dynamic { any: false, .. }
        )
    }

    /// Whether a name in it is computed.
    pub fn is_dynamic(&self) -> bool {
        match &self.kind {
            LabelExprKind::Name(_) | LabelExprKind::Any => false,
            LabelExprKind::Dynamic { .. } => true,
            LabelExprKind::Not(inner) => inner.is_dynamic(),
            LabelExprKind::And(parts) | LabelExprKind::Or(parts) => {
                parts.iter().any(Self::is_dynamic)
            }
        }
    }

    /// Calls `visit` for the expressions of its dynamic names.
    pub fn for_each_expr<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        match &self.kind {
            LabelExprKind::Name(_) | LabelExprKind::Any => {}
            LabelExprKind::Dynamic { names, .. } => visit(names),
            LabelExprKind::Not(inner) => inner.for_each_expr(visit),
            LabelExprKind::And(parts) | LabelExprKind::Or(parts) => {
                parts.iter().for_each(|part| part.for_each_expr(visit));
            }
        }
    }

    /// The names, if this is one name or a disjunction of names, as most relationship types are.
    pub fn as_disjunction(&self) -> Option<Vec<&Ident>> {
        match &self.kind {
            LabelExprKind::Or(parts) => parts.iter().map(Self::as_name).collect(),
            _ => self.as_name().map(|name| vec![name]),
        }
    }

    /// The name, if this is a single one.
    pub fn as_name(&self) -> Option<&Ident> {
        match &self.kind {
            LabelExprKind::Name(name) => Some(name),
            _ => None,
        }
    }
}
