//! Commands on the schema, and what can be shown.

use std::sync::Arc;

use isomer_cypher::ast::ValueType;
use isomer_value::Value;

use crate::expr::Comparison;

/// A property path: `["addr", "city"]` of `n.addr.city`.
pub type PropertyPath = Vec<Arc<str>>;

/// One component of an index: a property path that may step into the elements of lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexedPath {
    /// The names from the record inwards.
    pub names: PropertyPath,
    /// How many names stand before `[]`, where an index has an entry per element: 1 of `n.tags[]` and `n.items[].sku`.
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
        /// No two records may have the same values.
        unique: bool,
        /// Components, in order.
        paths: Vec<IndexedPath>,
        /// An index of that name or shape is fine.
        if_not_exists: bool,
    },
    /// `CREATE CONSTRAINT`
    CreateConstraint {
        /// Its name; made from label and properties if absent.
        name: Option<Arc<str>>,
        /// What it covers.
        target: SchemaTarget,
        /// What must hold.
        requirement: Requirement,
        /// The properties it speaks of.
        paths: Vec<PropertyPath>,
        /// A constraint of that name or shape is fine.
        if_not_exists: bool,
    },
    /// `DROP INDEX name`
    DropIndex {
        /// Which.
        name: Arc<str>,
        /// None of that name is fine.
        if_exists: bool,
    },
    /// `DROP CONSTRAINT name`
    DropConstraint {
        /// Which.
        name: Arc<str>,
        /// None of that name is fine.
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

/// What a constraint demands.
#[derive(Clone, Debug, PartialEq)]
pub enum Requirement {
    /// No two records have equal values.
    Unique,
    /// The properties are not null.
    NotNull,
    /// Unique and not null.
    Key,
    /// The value, where there is one, is of this type.
    Type(ValueType),
    /// The property is a convergent field, of the kind that these words name.
    Convergent(Arc<str>),
    /// Relationships keep their ends where another replica deletes them unseen.
    KeepEndpoints,
    /// A condition that must not be false, as written; `variable` stands for the record.
    Check {
        /// The record's variable.
        variable: Arc<str>,
        /// The condition's text.
        text: Arc<str>,
        /// The condition as terms of one property each, all of which must hold, where it consists of such.
        rules: Option<Vec<FieldRule>>,
    },
}

/// What one property must be.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldRule {
    /// The property.
    pub path: PropertyPath,
    /// What it must be, where it is there.
    pub rule: Rule,
}

/// What a value must be.
#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    /// It compares so with a constant: `n.age >= 0`; never [`Comparison::NotEqual`].
    Value(Comparison, Value),
    /// Its size compares so with a constant: `size(n.name) < 100`; never [`Comparison::NotEqual`].
    Size(Comparison, i64),
    /// It is one of these: `n.size IN ['S', 'M', 'L']`.
    OneOf(Vec<Value>),
}

/// What `SHOW` shows.
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
    /// What replicas wrote at once and cannot both have.
    Conflicts,
    /// Running queries.
    Queries,
}

impl ShowKind {
    /// The columns it gives.
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
