//! The syntax tree.
//!
//! A [`Statement`] is a [`RegularQuery`] or a schema command; a query is a list of [`SingleQuery`]s joined by
//! `UNION`; a single query is a list of [`Clause`]s, which hold [`PathPattern`]s and [`Expr`]essions.
//!
//! The tree represents the text, with a few forms canonicalised so that passes handle fewer cases:
//! - parentheses are removed; `AND`, `OR`, `XOR` chains are one node with many operands;
//! - label colon chains, `&` and `|` are one [`LabelExpr`];
//! - `-[:T*2..]->`, `-[:T]->{2,}`, `-[:T]->+` are one [`RelationshipPattern::length`];
//! - a path pattern always alternates node, link, node: a quantified part without written neighbours gets
//!   anonymous nodes, which does not change the result;
//! - `EXISTS { (a)-->(b) WHERE … }` is `EXISTS { MATCH (a)-->(b) WHERE … }`;
//! - a minus directly before a number is part of the literal;
//! - GQL's `FILTER`, `LET`, `FOR`, `NEXT` and `WHEN … THEN` are the `WITH`, `UNWIND` and `CALL` that they amount to;
//! - `x IS NORMALIZED` is a call of `isNormalized()`.

mod expr;
mod name;
mod pattern;
mod query;
mod schema;
mod statement;

pub use expr::{
    BinaryOp, CaseBranch, Expr, ExprKind, Literal, MapEntry, MapProjectionItem, QuantifierKind,
    SubqueryKind, TypeExpr, UnaryOp,
};
pub use name::{Ident, QualifiedName};
pub use pattern::{
    Direction, LabelExpr, LabelExprKind, NodePattern, PathLength, PathMode, PathPattern,
    PathSelector, PathStep, Pattern, PatternLink, QuantifiedPath, RelationshipPattern,
};
pub use query::{
    CallProcedure, CallSubquery, Clause, Concurrency, Create, Delete, Foreach, Hint, HintKind,
    InTransactions, ListPosition, LoadCsv, Match, MatchMode, Merge, MergeAction, MergeEvent,
    OnBatchError, Projection, ProjectionItem, RegularQuery, Remove, RemoveItem, Return, Set,
    SetItem, SingleQuery, SortItem, SubqueryImports, UnionKind, Unwind, With, Yield, YieldItem,
    YieldItems,
};
pub use schema::{
    ConstraintRequirement, CreateConstraint, CreateIndex, CreateLookupIndex, DropSchema,
    FieldReference, FieldStep, IndexType, KillQuery, SchemaName, SchemaPattern, Show, ShowKind,
    ShowOnly, ShownRule,
};
pub use statement::{Statement, StatementBody, StatementMode};
