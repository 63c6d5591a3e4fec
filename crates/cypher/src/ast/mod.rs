//! The syntax tree.
//!
//! A [`Statement`] is a [`Query`] or a schema command; a query is a list of [`SingleQuery`]s joined by
//! `UNION`; a single query is a list of [`Clause`]s, which hold [`PathPattern`]s and [`Expr`]essions.
//!
//! The tree represents the text, with a few forms canonicalised so that passes handle fewer cases:
//! - parentheses are removed; `AND`, `OR`, `XOR` chains are one node with many operands;
//! - label colon chains, `&` and `|` are one [`LabelExpr`];
//! - `-[:T*2..]->`, `-[:T]->{2,}`, `-[:T]->+` are one [`RelationshipPattern::length`];
//! - a path pattern always alternates node, link, node: a quantified part without written neighbours gets
//!   anonymous nodes, which does not change the result;
//! - `EXISTS { (a)-->(b) WHERE … }` is `EXISTS { MATCH (a)-->(b) WHERE … }`;
//! - a minus directly before a number is part of the literal.

mod clause;
mod expr;
mod pattern;
mod query;
mod schema;

use std::sync::Arc;

pub use clause::{
    CallSubquery, Clause, Create, Delete, Foreach, LoadCsv, Match, Merge, MergeAction, MergeEvent,
    ProcedureCall, Projection, ProjectionItem, Remove, RemoveItem, Return, Set, SetItem, SortItem,
    SubqueryImports, Unwind, With, Yield, YieldItem, YieldItems,
};
pub use expr::{
    BinaryOp, CaseBranch, Expr, ExprKind, Literal, MapEntry, MapProjectionItem, QuantifierKind,
    SubqueryKind, UnaryOp, ValueType,
};
pub use pattern::{
    Direction, LabelExpr, LabelExprKind, Link, NodePattern, PathLength, PathPattern, PathSelector,
    PathStep, Pattern, QuantifiedPath, RelationshipPattern,
};
pub use query::{Mode, Query, SingleQuery, Statement, StatementBody, UnionKind};
pub use schema::{
    ConstraintKind, CreateConstraint, CreateIndex, DropSchema, FieldPath, FieldStep, KillQuery,
    SchemaTarget, Show, ShowKind,
};

use crate::Span;

/// A name as written: variable, label, type, property or procedure, without backquotes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ident {
    /// The name.
    pub name: Arc<str>,
    /// Source span.
    pub span: Span,
}

impl Ident {
    /// A name with its span.
    pub fn new(name: impl Into<Arc<str>>, span: Span) -> Self {
        Self {
            name: name.into(),
            span,
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.name
    }
}

/// A dotted name such as `kv.get` or `db.labels`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QualifiedName {
    /// The parts between the dots; at least one.
    pub parts: Vec<Ident>,
    /// Source span.
    pub span: Span,
}

impl QualifiedName {
    /// The parts joined by dots, as written.
    pub fn dotted(&self) -> String {
        let parts: Vec<&str> = self.parts.iter().map(Ident::as_str).collect();
        parts.join(".")
    }
}
