//! Schema commands: indexes, constraints and `SHOW`.

use std::sync::Arc;

use super::{Clause, Expr, Ident, TypeExpr, Yield};
use crate::Span;

/// `CREATE [UNIQUE] INDEX [name] [IF NOT EXISTS] FOR (n:Label) ON (n.a, n.b.c, n.tags[])`; also with the type of the
/// index: `CREATE RANGE INDEX …`.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateIndex {
    /// Whether the index is unique.
    pub unique: bool,
    /// Its name; derived from label and fields if absent.
    pub name: Option<SchemaName>,
    /// Whether an existing index is accepted without an error.
    pub if_not_exists: bool,
    /// The indexed records.
    pub target: SchemaPattern,
    /// The fields, in order; at least one.
    pub fields: Vec<FieldReference>,
    /// Source span.
    pub span: Span,
}

/// The name of an index or constraint in a command.
#[derive(Clone, Debug, PartialEq)]
pub enum SchemaName {
    /// Written in the command.
    Fixed(Ident),
    /// The value of a parameter: `CREATE INDEX $name …`
    Parameter(Ident),
}

/// The types of indexes that commands name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndexType {
    /// `RANGE`: ordered by value.
    Range,
    /// `TEXT`: for strings.
    Text,
    /// `POINT`: for points.
    Point,
    /// `LOOKUP`: of labels and relationship types.
    Lookup,
    /// `FULLTEXT`
    FullText,
    /// `VECTOR`
    Vector,
}

impl IndexType {
    /// All types.
    pub const ALL: [Self; 6] = [
        Self::Range,
        Self::Text,
        Self::Point,
        Self::Lookup,
        Self::FullText,
        Self::Vector,
    ];

    /// The word in commands and listings, in capitals.
    pub fn word(self) -> &'static str {
        match self {
            Self::Range => "RANGE",
            Self::Text => "TEXT",
            Self::Point => "POINT",
            Self::Lookup => "LOOKUP",
            Self::FullText => "FULLTEXT",
            Self::Vector => "VECTOR",
        }
    }

    /// The type of this word, in any case.
    pub fn by_word(word: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|one| one.word().eq_ignore_ascii_case(word))
    }
}

/// `CREATE LOOKUP INDEX [name] [IF NOT EXISTS] FOR (n) ON EACH labels(n)`, or `FOR ()-[r]-() ON EACH type(r)`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateLookupIndex {
    /// Its name, which nothing uses: labels and types are always indexed.
    pub name: Option<SchemaName>,
    /// Whether an existing index is accepted without an error.
    pub if_not_exists: bool,
    /// Whether it is the index of relationship types.
    pub of_types: bool,
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
    pub name: SchemaName,
    /// Whether a missing one is accepted without an error.
    pub if_exists: bool,
    /// Source span.
    pub span: Span,
}

/// `CREATE CONSTRAINT [name] [IF NOT EXISTS] FOR (n:Label) REQUIRE …`
#[derive(Clone, Debug, PartialEq)]
pub struct CreateConstraint {
    /// Its name; derived from label and fields if absent.
    pub name: Option<SchemaName>,
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
    /// What restricts the listing to objects of one type; all if absent.
    pub only: Option<ShowOnly>,
    /// The names of the objects listed (`SHOW DATABASE people`): literals and parameters; all if empty.
    pub names: Vec<Expr>,
    /// The columns and the row filter; the kind's default columns if absent.
    pub yields: Option<Yield>,
    /// What follows `YIELD`: a `WITH *` for `ORDER BY`, `SKIP` and `LIMIT`, and a `RETURN`.
    pub then: Vec<Clause>,
    /// Source span.
    pub span: Span,
}

/// A restriction of `SHOW` to objects of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShowOnly {
    /// `SHOW RANGE INDEXES`
    Indexes(IndexType),
    /// `SHOW NODE KEY CONSTRAINTS`: those with a rule, on nodes (`true`), relationships (`false`), or both.
    Constraints(ShownRule, Option<bool>),
    /// `SHOW BUILT IN FUNCTIONS` (`true`), `SHOW USER DEFINED FUNCTIONS`
    BuiltIn(bool),
}

/// The rules by which `SHOW CONSTRAINTS` is restricted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShownRule {
    /// `UNIQUE`, `UNIQUENESS`
    Unique,
    /// `KEY`
    Key,
    /// `PROPERTY EXISTENCE`, `EXIST`
    Existence,
    /// `PROPERTY TYPE`
    PropertyType,
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
    /// `SHOW DATABASES`, `SHOW DATABASE name`
    Databases,
    /// `SHOW DEFAULT DATABASE`
    DefaultDatabase,
    /// `SHOW HOME DATABASE`
    HomeDatabase,
    /// `SHOW USERS`
    Users,
    /// `SHOW CURRENT USER`
    CurrentUser,
    /// `SHOW SETTINGS`
    Settings,
    /// `SHOW TRANSACTIONS`
    Transactions,
}

/// `KILL QUERY id`
#[derive(Clone, Debug, PartialEq)]
pub struct KillQuery {
    /// The query id: a literal or a parameter.
    pub id: Expr,
    /// Source span.
    pub span: Span,
}
