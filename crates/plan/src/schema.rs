//! Schema commands, and the listings of `SHOW`.

use std::sync::Arc;

use isomer_cypher::ast::TypeExpr;
use isomer_value::Value;

use crate::expr::{Comparison, ParamId};

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

/// The name of an index or constraint in a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectName {
    /// Known.
    Fixed(Arc<str>),
    /// The value of a parameter.
    Parameter(ParamId),
}

/// A change of the schema.
#[derive(Clone, Debug, PartialEq)]
pub enum SchemaCommand {
    /// `CREATE INDEX`
    CreateIndex {
        /// Its name; made from label and properties if absent.
        name: Option<ObjectName>,
        /// What it covers.
        target: SchemaTarget,
        /// Values must be unique.
        unique: bool,
        /// Components, in order.
        paths: Vec<IndexedPath>,
        /// `IF NOT EXISTS`: an index of that name or shape is accepted.
        if_not_exists: bool,
    },
    /// `CREATE LOOKUP INDEX`: an index of labels or types, which every database has.
    CreateLookupIndex {
        /// Whether it is the index of types.
        of_types: bool,
        /// `IF NOT EXISTS`: that index is accepted.
        if_not_exists: bool,
    },
    /// `CREATE CONSTRAINT`
    CreateConstraint {
        /// Its name; made from label and properties if absent.
        name: Option<ObjectName>,
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
        name: ObjectName,
        /// `IF EXISTS`.
        if_exists: bool,
    },
    /// `DROP CONSTRAINT name`
    DropConstraint {
        /// Which.
        name: ObjectName,
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
pub enum Listing {
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
    /// Databases of the server.
    Databases,
    /// The database of clients that name none.
    DefaultDatabase,
    /// The database of this user if it names none.
    HomeDatabase,
    /// Users of the server.
    Users,
    /// The user of the statement.
    CurrentUser,
    /// Settings of the server.
    Settings,
    /// Running transactions.
    Transactions,
}

/// The columns of `SHOW INDEXES`.
const INDEX_FIELDS: &[&str] = &[
    "id",
    "name",
    "state",
    "populationPercent",
    "type",
    "entityType",
    "labelsOrTypes",
    "properties",
    "indexProvider",
    "owningConstraint",
    "lastRead",
    "readCount",
    "trackedSince",
    "options",
    "failureMessage",
    "createStatement",
    "label",
    "unique",
];
/// The columns of `SHOW DATABASES`.
const DATABASE_FIELDS: &[&str] = &[
    "name",
    "type",
    "aliases",
    "access",
    "address",
    "role",
    "writer",
    "requestedStatus",
    "currentStatus",
    "statusMessage",
    "default",
    "home",
    "constituents",
];

impl Listing {
    /// What it lists, as after `SHOW`, in lower case.
    pub fn title(self) -> &'static str {
        match self {
            Self::Indexes => "indexes",
            Self::Constraints => "constraints",
            Self::Labels => "labels",
            Self::Types => "relationship types",
            Self::Properties => "properties",
            Self::Buckets => "buckets",
            Self::Functions => "functions",
            Self::Procedures => "procedures",
            Self::Conflicts => "conflicts",
            Self::Queries => "queries",
            Self::Databases => "databases",
            Self::DefaultDatabase => "default database",
            Self::HomeDatabase => "home database",
            Self::Users => "users",
            Self::CurrentUser => "current user",
            Self::Settings => "settings",
            Self::Transactions => "transactions",
        }
    }

    /// Its columns: those that it has without `YIELD`, and then those that only `YIELD` shows. Names and order are
    /// those of Neo4j, whose libraries read them, with what Neo4j does not have at the end.
    pub fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Indexes => INDEX_FIELDS,
            Self::Constraints => &[
                "id",
                "name",
                "type",
                "entityType",
                "labelsOrTypes",
                "properties",
                "ownedIndex",
                "propertyType",
                "options",
                "createStatement",
                "label",
            ],
            Self::Labels => &["label", "count"],
            Self::Types => &["type", "count"],
            Self::Properties => &["property"],
            Self::Buckets => &["bucket", "kind"],
            Self::Functions => &[
                "name",
                "category",
                "description",
                "signature",
                "isBuiltIn",
                "argumentDescription",
                "returnDescription",
                "aggregating",
                "rolesExecution",
                "rolesBoostedExecution",
                "isDeprecated",
                "deprecatedBy",
            ],
            Self::Procedures => &[
                "name",
                "description",
                "mode",
                "worksOnSystem",
                "signature",
                "argumentDescription",
                "returnDescription",
                "admin",
                "rolesExecution",
                "rolesBoostedExecution",
                "isDeprecated",
                "deprecatedBy",
                "option",
            ],
            Self::Conflicts => &["kind", "id", "record", "field", "value", "others"],
            Self::Queries => &["id", "text", "elapsed_ms", "rows", "memory_bytes"],
            Self::Databases => DATABASE_FIELDS,
            Self::DefaultDatabase | Self::HomeDatabase => &[
                "name",
                "type",
                "aliases",
                "access",
                "address",
                "role",
                "writer",
                "requestedStatus",
                "currentStatus",
                "statusMessage",
                "constituents",
            ],
            Self::Users | Self::CurrentUser => &[
                "user",
                "roles",
                "passwordChangeRequired",
                "suspended",
                "home",
            ],
            Self::Settings => &[
                "name",
                "value",
                "isDynamic",
                "defaultValue",
                "description",
                "isExplicitlySet",
                "isDeprecated",
            ],
            Self::Transactions => &[
                "database",
                "transactionId",
                "currentQueryId",
                "connectionId",
                "clientAddress",
                "username",
                "currentQuery",
                "startTime",
                "status",
                "elapsedTime",
                "parameters",
                "estimatedUsedHeapMemory",
            ],
        }
    }

    /// How many of its columns it has without `YIELD`.
    pub fn default_fields(self) -> usize {
        match self {
            Self::Indexes => 12,
            Self::Constraints => 8,
            Self::Functions => 3,
            Self::Procedures => 4,
            Self::Databases => 13,
            Self::DefaultDatabase | Self::HomeDatabase => 11,
            Self::Settings => 5,
            Self::Transactions => 10,
            Self::Users | Self::CurrentUser => 5,
            Self::Labels
            | Self::Types
            | Self::Properties
            | Self::Buckets
            | Self::Conflicts
            | Self::Queries => self.fields().len(),
        }
    }

    /// The column that names after the kind (`SHOW DATABASE people`) are compared with.
    pub fn name_field(self) -> &'static str {
        match self {
            Self::Transactions => "transactionId",
            _ => "name",
        }
    }
}
