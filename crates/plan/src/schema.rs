//! Schema commands, and the listings of `SHOW`.

use std::sync::Arc;

use isomer_cypher::ast::TypeExpr;
use isomer_value::Value;

use crate::expr::Comparison;

/// A property path: `["addr", "city"]` of `n.addr.city`.
pub type PropertyPath = Vec<Arc<str>>;

/// One component of an index: a property path that may step into the elements of lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexedPath {
    /// The names, outermost first.
    pub names: PropertyPath,
    /// The number of names before `[]`, for an index with an entry per element: 1 for `n.tags[]` and `n.items[].sku`.
    pub elements_after: Option<usize>,
}

/// A change of the schema.
#[derive(Clone, Debug, PartialEq)]
pub enum SchemaCommand {
    /// `CREATE INDEX`
    CreateIndex {
        /// Its name; made from label and properties if absent.
        name: Option<Arc<str>>,
        /// What it covers.
        target: SchemaTarget,
        /// Values must be unique.
        unique: bool,
        /// Components, in order.
        paths: Vec<IndexedPath>,
        /// `IF NOT EXISTS`: an index of that name or shape is accepted.
        if_not_exists: bool,
    },
    /// `CREATE CONSTRAINT`
    CreateConstraint {
        /// Its name; made from label and properties if absent.
        name: Option<Arc<str>>,
        /// What it covers.
        target: SchemaTarget,
        /// The rule.
        requirement: Requirement,
        /// The properties that it covers.
        paths: Vec<PropertyPath>,
        /// `IF NOT EXISTS`: a constraint of that name or shape is accepted.
        if_not_exists: bool,
    },
    /// `DROP INDEX name`
    DropIndex {
        /// Which.
        name: Arc<str>,
        /// `IF EXISTS`.
        if_exists: bool,
    },
    /// `DROP CONSTRAINT name`
    DropConstraint {
        /// Which.
        name: Arc<str>,
        /// `IF EXISTS`.
        if_exists: bool,
    },
}

/// What an index or constraint covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaTarget {
    /// Nodes with a label.
    Label(Arc<str>),
    /// Relationships of a type.
    Type(Arc<str>),
}

/// The rule of a constraint.
#[derive(Clone, Debug, PartialEq)]
pub enum Requirement {
    /// Values must be unique.
    Unique,
    /// The properties are not null.
    NotNull,
    /// Unique and not null.
    Key,
    /// The value, if present, is of this type.
    Type(TypeExpr),
    /// The property is a convergent field of the kind with this name.
    Convergent(Arc<str>),
    /// Relationships keep their ends if another replica deletes them concurrently.
    KeepEndpoints,
    /// A condition that must not be false, as written; `variable` is bound to the record.
    Check {
        /// The record's variable.
        variable: Arc<str>,
        /// The condition's text.
        text: Arc<str>,
        /// The condition as a conjunction of terms on one property each, if it has that form.
        rules: Option<Vec<FieldRule>>,
    },
}

/// A rule on one property.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldRule {
    /// The property.
    pub path: PropertyPath,
    /// The rule, applied if the property is present.
    pub rule: Rule,
}

/// A rule on a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    /// A comparison with a constant: `n.age >= 0`; never [`Comparison::NotEqual`].
    Value(Comparison, Value),
    /// A comparison of its size with a constant: `size(n.name) < 100`; never [`Comparison::NotEqual`].
    Size(Comparison, i64),
    /// One of these values: `n.size IN ['S', 'M', 'L']`.
    OneOf(Vec<Value>),
}

/// The listings of `SHOW`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ShowKind {
    /// Indexes.
    Indexes,
    /// Constraints.
    Constraints,
    /// Labels with their counts.
    Labels,
    /// Relationship types with their counts.
    Types,
    /// Names of properties.
    Properties,
    /// Buckets.
    Buckets,
    /// Functions.
    Functions,
    /// Procedures.
    Procedures,
    /// Conflicts: concurrent writes of replicas that violate a rule together.
    Conflicts,
    /// Running queries.
    Queries,
}

impl ShowKind {
    /// Its columns.
    pub fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Indexes => &["name", "state", "type", "label", "properties", "unique"],
            Self::Constraints => &["name", "type", "label", "properties"],
            Self::Labels => &["label", "count"],
            Self::Types => &["type", "count"],
            Self::Properties => &["property"],
            Self::Buckets => &["bucket", "kind"],
            Self::Functions => &["name", "signature", "description"],
            Self::Procedures => &["name", "signature", "mode", "description"],
            Self::Conflicts => &["kind", "id", "record", "field", "value", "others"],
            Self::Queries => &["id", "text", "elapsed_ms", "rows", "memory_bytes"],
        }
    }
}
