//! Schema commands: indexes, constraints and what shows them.

use std::sync::Arc;

use super::{Expr, Ident, ValueType, Yield};
use crate::Span;

/// `CREATE [UNIQUE] INDEX [name] [IF NOT EXISTS] FOR (n:Label) ON (n.a, n.b.c, n.tags[])`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateIndex {
    /// Whether no two records may have the same values.
    pub unique: bool,
    /// Its name; made from label and fields if absent.
    pub name: Option<Ident>,
    /// Whether an index that is already there is no error.
    pub if_not_exists: bool,
    /// What is indexed.
    pub target: SchemaTarget,
    /// The fields, in order; at least one.
    pub fields: Vec<FieldPath>,
    /// Where it stands.
    pub span: Span,
}

/// Which records an index or constraint is about.
#[derive(Clone, Debug, PartialEq)]
pub enum SchemaTarget {
    /// `(variable:Label)`
    Node {
        /// The variable.
        variable: Ident,
        /// The label.
        label: Ident,
    },
    /// `()-[variable:TYPE]-()`
    Relationship {
        /// The variable.
        variable: Ident,
        /// The type.
        rel_type: Ident,
    },
}

/// A field of a record, perhaps nested: `n.a`, `n.b.c`, `n.tags[]`, `n.items[].sku`
#[derive(Clone, Debug, PartialEq)]
pub struct FieldPath {
    /// From the record inwards; starts with a name.
    pub steps: Vec<FieldStep>,
    /// Where it stands.
    pub span: Span,
}

/// One step of a field path.
#[derive(Clone, Debug, PartialEq)]
pub enum FieldStep {
    /// `.name`
    Name(Ident),
    /// `[]`: each element of the list.
    Elements,
}

/// `DROP INDEX name [IF EXISTS]`, `DROP CONSTRAINT name [IF EXISTS]`
#[derive(Clone, Debug, PartialEq)]
pub struct DropSchema {
    /// What is dropped.
    pub name: Ident,
    /// Whether its absence is no error.
    pub if_exists: bool,
    /// Where it stands.
    pub span: Span,
}

/// `CREATE CONSTRAINT [name] [IF NOT EXISTS] FOR (n:Label) REQUIRE …`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateConstraint {
    /// Its name; made from label and fields if absent.
    pub name: Option<Ident>,
    /// Whether a constraint that is already there is no error.
    pub if_not_exists: bool,
    /// What it is about.
    pub target: SchemaTarget,
    /// What it demands.
    pub kind: ConstraintKind,
    /// Where it stands.
    pub span: Span,
}

/// What a constraint demands.
#[derive(Clone, Debug, PartialEq)]
pub enum ConstraintKind {
    /// `REQUIRE (n.a, n.b) IS UNIQUE`
    Unique(Vec<FieldPath>),
    /// `REQUIRE (n.a, n.b) IS NODE KEY`: unique and present.
    Key(Vec<FieldPath>),
    /// `REQUIRE n.a IS NOT NULL`
    NotNull(FieldPath),
    /// `REQUIRE n.a IS :: TYPE`
    Typed(FieldPath, ValueType),
    /// `REQUIRE n.a IS CONVERGENT KIND`: the words of the kind, in capitals.
    Convergent(FieldPath, Arc<str>),
    /// `REQUIRE KEEP ENDPOINTS`: of relationships, whose ends live on where another replica deletes them unseen.
    KeepEndpoints,
    /// `REQUIRE predicate`: any condition on the record's variable; it must not be false.
    Check(Expr),
}

/// `SHOW INDEXES` and its like.
#[derive(Clone, Debug, PartialEq)]
pub struct Show {
    /// What is shown.
    pub kind: ShowKind,
    /// Which of the columns, and the condition on the rows; all of them if absent.
    pub yields: Option<Yield>,
    /// Where it stands.
    pub span: Span,
}

/// What can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShowKind {
    /// `SHOW INDEXES`
    Indexes,
    /// `SHOW CONSTRAINTS`
    Constraints,
    /// `SHOW LABELS`
    Labels,
    /// `SHOW TYPES`
    Types,
    /// `SHOW PROPERTIES`
    Properties,
    /// `SHOW BUCKETS`
    Buckets,
    /// `SHOW CONFLICTS`
    Conflicts,
    /// `SHOW QUERIES`
    Queries,
    /// `SHOW FUNCTIONS`
    Functions,
    /// `SHOW PROCEDURES`
    Procedures,
}

/// `KILL QUERY id`
#[derive(Clone, Debug, PartialEq)]
pub struct KillQuery {
    /// Which query: a literal or a parameter.
    pub id: Expr,
    /// Where it stands.
    pub span: Span,
}
