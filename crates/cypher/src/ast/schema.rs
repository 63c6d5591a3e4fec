//! Schema commands: indexes, constraints and `SHOW`.

use std::sync::Arc;

use super::{Expr, Ident, TypeExpr, Yield};
use crate::Span;

/// `CREATE [UNIQUE] INDEX [name] [IF NOT EXISTS] FOR (n:Label) ON (n.a, n.b.c, n.tags[])`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateIndex {
    /// Whether the index is unique.
    pub unique: bool,
    /// Its name; derived from label and fields if absent.
    pub name: Option<Ident>,
    /// Whether an existing index is accepted without an error.
    pub if_not_exists: bool,
    /// The indexed records.
    pub target: SchemaPattern,
    /// The fields, in order; at least one.
    pub fields: Vec<FieldReference>,
    /// Source span.
    pub span: Span,
}

/// The records that an index or constraint applies to.
#[derive(Clone, Debug, PartialEq)]
pub enum SchemaPattern {
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

/// A field of a record, possibly nested: `n.a`, `n.b.c`, `n.tags[]`, `n.items[].sku`
#[derive(Clone, Debug, PartialEq)]
pub struct FieldReference {
    /// From the record inwards; starts with a name.
    pub steps: Vec<FieldStep>,
    /// Source span.
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
    /// The name of the index or constraint.
    pub name: Ident,
    /// Whether a missing one is accepted without an error.
    pub if_exists: bool,
    /// Source span.
    pub span: Span,
}

/// `CREATE CONSTRAINT [name] [IF NOT EXISTS] FOR (n:Label) REQUIRE …`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateConstraint {
    /// Its name; derived from label and fields if absent.
    pub name: Option<Ident>,
    /// Whether an existing constraint is accepted without an error.
    pub if_not_exists: bool,
    /// The records it applies to.
    pub target: SchemaPattern,
    /// The requirement.
    pub kind: ConstraintRequirement,
    /// Source span.
    pub span: Span,
}

/// The requirement of a constraint.
#[derive(Clone, Debug, PartialEq)]
pub enum ConstraintRequirement {
    /// `REQUIRE (n.a, n.b) IS UNIQUE`
    Unique(Vec<FieldReference>),
    /// `REQUIRE (n.a, n.b) IS NODE KEY`: unique and not null.
    Key(Vec<FieldReference>),
    /// `REQUIRE n.a IS NOT NULL`
    NotNull(FieldReference),
    /// `REQUIRE n.a IS :: TYPE`
    Typed(FieldReference, TypeExpr),
    /// `REQUIRE n.a IS CONVERGENT KIND`: the words of the kind, in capitals.
    Convergent(FieldReference, Arc<str>),
    /// `REQUIRE KEEP ENDPOINTS`: a node survives a concurrent deletion on another replica while such a
    /// relationship needs it.
    KeepEndpoints,
    /// `REQUIRE predicate`: any predicate on the record's variable; it must not evaluate to false.
    Check(Expr),
}

/// `SHOW INDEXES` and the other `SHOW` commands.
#[derive(Clone, Debug, PartialEq)]
pub struct Show {
    /// The kind of object listed.
    pub kind: ShowKind,
    /// The columns and the row filter; all columns if absent.
    pub yields: Option<Yield>,
    /// Source span.
    pub span: Span,
}

/// The kinds of objects that `SHOW` lists.
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
    /// The query id: a literal or a parameter.
    pub id: Expr,
    /// Source span.
    pub span: Span,
}
