//! Indexes and constraints.

use std::{fmt, ops::Bound, sync::Arc};

use isomer_value::{IndexId, LabelId, TypeId, Value, record::RecordRef};

use crate::convergent::place::ConvergentKind;

/// Names from a record's top into nested maps; never empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FieldPath(pub Vec<Arc<str>>);

impl FieldPath {
    /// A path of one name.
    pub fn top(name: &str) -> Self {
        Self(vec![name.into()])
    }

    /// A path through nested maps.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self(names.into_iter().map(Arc::from).collect())
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, name) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str(".")?;
            }
            f.write_str(name)?;
        }
        Ok(())
    }
}

/// One field of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexField {
    /// Where the value is.
    pub path: FieldPath,
    /// Whether each element of the list at `path` is indexed, instead of the list as one value.
    pub each: bool,
}

/// As in `CREATE INDEX`, without the variable: `tags[]` for each element.
impl fmt::Display for IndexField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let elements = if self.each { "[]" } else { "" };
        write!(f, "{}{elements}", self.path)
    }
}

/// Whether an index may be used, or a constraint relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexState {
    /// Maintained by every write, while existing records are still being added or checked.
    Building,
    /// Complete.
    Ready,
}

/// The records that an index or constraint is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RecordScope {
    /// The nodes with a label.
    Label(LabelId),
    /// The relationships of a type.
    Type(TypeId),
}

impl RecordScope {
    /// Whether the record is one of them.
    pub fn covers(self, record: &RecordRef<'_>) -> bool {
        match self {
            Self::Label(label) => record.has_label(label),
            Self::Type(type_id) => record
                .endpoints()
                .is_some_and(|(own, _, _): (TypeId, _, _)| own == type_id),
        }
    }

    /// The label, if they are nodes.
    pub fn label(self) -> Option<LabelId> {
        match self {
            Self::Label(label) => Some(label),
            Self::Type(_) => None,
        }
    }

    /// The type, if they are relationships.
    pub fn type_id(self) -> Option<TypeId> {
        match self {
            Self::Label(_) => None,
            Self::Type(type_id) => Some(type_id),
        }
    }
}

impl From<LabelId> for RecordScope {
    fn from(label: LabelId) -> Self {
        Self::Label(label)
    }
}

impl From<TypeId> for RecordScope {
    fn from(type_id: TypeId) -> Self {
        Self::Type(type_id)
    }
}

/// The records that a new index or constraint is about, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScopeName {
    /// The nodes with a label.
    Label(String),
    /// The relationships of a type.
    Type(String),
}

impl ScopeName {
    /// The nodes with a label.
    pub fn label(name: &str) -> Self {
        Self::Label(name.to_owned())
    }

    /// The relationships of a type.
    pub fn rel_type(name: &str) -> Self {
        Self::Type(name.to_owned())
    }

    /// The name of the label or type.
    pub fn name(&self) -> &str {
        match self {
            Self::Label(name) | Self::Type(name) => name,
        }
    }
}

/// An index over the nodes of one label, or the relationships of one type.
#[derive(Clone, Debug)]
pub struct IndexDef {
    /// Its number.
    pub id: IndexId,
    /// Its name.
    pub name: Arc<str>,
    /// What it is over.
    pub scope: RecordScope,
    /// The fields, in the order of the entries.
    pub fields: Vec<IndexField>,
    /// Whether each combination of values may occur once.
    pub unique: bool,
    /// Whether queries may use it.
    pub state: IndexState,
}

/// What to create.
#[derive(Clone, Debug)]
pub struct IndexSpec {
    /// Its name; made from label or type, and fields, when absent.
    pub name: Option<String>,
    /// What it is over.
    pub scope: ScopeName,
    /// The fields.
    pub fields: Vec<IndexField>,
    /// Whether each combination of values may occur once.
    pub unique: bool,
}

/// The types that a constraint may require.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)] // each is the value type of its name
pub enum ValueType {
    Bool = 1,
    Int = 2,
    Float = 3,
    /// An integer or a float.
    Number = 4,
    String = 5,
    Bytes = 6,
    List = 7,
    Map = 8,
    Date = 9,
    LocalTime = 10,
    ZonedTime = 11,
    LocalDateTime = 12,
    ZonedDateTime = 13,
    Duration = 14,
    Point = 15,
}

impl ValueType {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::Bool,
        Self::Int,
        Self::Float,
        Self::Number,
        Self::String,
        Self::Bytes,
        Self::List,
        Self::Map,
        Self::Date,
        Self::LocalTime,
        Self::ZonedTime,
        Self::LocalDateTime,
        Self::ZonedDateTime,
        Self::Duration,
        Self::Point,
    ];

    pub(crate) fn from_code(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as i64 == code)
    }

    /// The name in the query language.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "BOOLEAN",
            Self::Int => "INTEGER",
            Self::Float => "FLOAT",
            Self::Number => "NUMBER",
            Self::String => "STRING",
            Self::Bytes => "BYTES",
            Self::List => "LIST",
            Self::Map => "MAP",
            Self::Date => "DATE",
            Self::LocalTime => "LOCAL TIME",
            Self::ZonedTime => "ZONED TIME",
            Self::LocalDateTime => "LOCAL DATETIME",
            Self::ZonedDateTime => "ZONED DATETIME",
            Self::Duration => "DURATION",
            Self::Point => "POINT",
        }
    }

    /// Alternatives as in `CREATE CONSTRAINT … IS ::`: `INTEGER | LIST<ANY>`.
    pub fn declaration(types: &[Self]) -> String {
        let names = types.iter().map(|one| match one {
            Self::List => "LIST<ANY>",
            other => other.name(),
        });
        names.collect::<Vec<_>>().join(" | ")
    }

    /// Whether `value` is of this type.
    pub(crate) fn admits(self, value: &Value) -> bool {
        match self {
            Self::Number => value.is_number(),
            _ => value.type_name() == self.name(),
        }
    }
}

/// A rule on a field's value; a record without the field passes.
#[derive(Clone, Debug)]
pub enum Check {
    /// Within the bounds, in the order of values, and of a kind that compares with them.
    Range {
        /// The lower bound.
        min: Bound<Value>,
        /// The upper bound.
        max: Bound<Value>,
    },
    /// One of these.
    OneOf(Vec<Value>),
    /// Characters of a string, bytes of bytes, elements of a list, entries of a map.
    Length {
        /// Least number allowed.
        min: Option<u64>,
        /// Greatest number allowed.
        max: Option<u64>,
    },
}

/// A rule on one field.
#[derive(Clone, Debug)]
pub struct FieldCheck {
    /// The field.
    pub path: FieldPath,
    /// The rule.
    pub check: Check,
}

/// What a constraint requires of every record of its label or type.
#[derive(Clone, Debug)]
pub enum ConstraintKind {
    /// Each combination of values once; enforced by an index.
    Unique {
        /// The index that enforces it.
        index: IndexId,
    },
    /// A value of each field of an index, and each combination of values once; enforced by that index.
    Key {
        /// The index that enforces it.
        index: IndexId,
    },
    /// A value that is not null.
    Required {
        /// The field.
        path: FieldPath,
    },
    /// Where there is a value, it has one of these types.
    Type {
        /// The field.
        path: FieldPath,
        /// The types allowed.
        types: Vec<ValueType>,
    },
    /// Where there is a value, it passes its rule.
    Check {
        /// The rules, each on one field; all must hold.
        checks: Vec<FieldCheck>,
    },
    /// No property but these and `_key`.
    Closed {
        /// The names allowed at the top of a record.
        names: Vec<Arc<str>>,
    },
    /// The field is convergent, of this kind: it cannot hold a plain value.
    Convergent {
        /// The field.
        path: FieldPath,
        /// Its kind.
        kind: ConvergentKind,
    },
}

impl ConstraintKind {
    /// The index that enforces it, if any.
    /// An index.
    pub fn index(&self) -> Option<IndexId> {
        match self {
            Self::Unique { index } | Self::Key { index } => Some(*index),
            _ => None,
        }
    }

    /// Whether it restricts the value of a property in a way that a convergent field cannot enforce.
    pub fn rules_plain(&self, property: &str) -> bool {
        let about = |path: &FieldPath| &*path.0[0] == property;
        match self {
            // The index of the first two refuses such fields.
            Self::Unique { .. } | Self::Key { .. } | Self::Convergent { .. } => false,
            Self::Required { path } | Self::Type { path, .. } => about(path),
            Self::Check { checks } => checks.iter().any(|check| about(&check.path)),
            Self::Closed { names } => !names.iter().any(|name| &**name == property),
        }
    }
}

/// A constraint on the nodes of one label, or the relationships of one type. Together they are its schema.
#[derive(Clone, Debug)]
pub struct Constraint {
    /// Its name.
    pub name: Arc<str>,
    /// What it is about.
    pub scope: RecordScope,
    /// What it requires.
    pub kind: ConstraintKind,
    /// Whether all records are known to satisfy it. Writes must, either way.
    pub state: IndexState,
}

/// What to create.
#[derive(Clone, Debug)]
pub struct ConstraintSpec {
    /// Its name; made from label or type, and field, when absent.
    pub name: Option<String>,
    /// What it is about.
    pub scope: ScopeName,
    /// What it requires; the index of [`ConstraintKind::Unique`] and [`ConstraintKind::Key`] is ignored and made from
    /// `unique_fields`.
    pub kind: ConstraintKind,
    /// The fields of a unique constraint or a key; empty for the others.
    pub unique_fields: Vec<IndexField>,
}

/// A change of the schema.
#[derive(Clone, Debug)]
pub enum SchemaChange {
    /// Creates an index and fills it concurrently with reads and writes.
    CreateIndex {
        /// What to create.
        spec: IndexSpec,
        /// Whether an existing index of the same name, or over the same records and fields, is accepted.
        if_not_exists: bool,
    },
    /// Drops an index.
    DropIndex {
        /// Its name.
        name: String,
        /// Whether a missing index is accepted.
        if_exists: bool,
    },
    /// Creates a constraint after checking the existing records.
    CreateConstraint {
        /// What to create.
        spec: ConstraintSpec,
        /// Whether an existing constraint of the same name or meaning is accepted.
        if_not_exists: bool,
    },
    /// Makes relationships of a type that are created here from now on keep their ends.
    KeepEndpoints {
        /// The constraint's name; made from the type when absent.
        name: Option<String>,
        /// The type.
        rel_type: String,
        /// Whether it is accepted that the type's relationships do so already, or that the name exists.
        if_not_exists: bool,
    },
    /// Drops a constraint and the index that enforces it.
    DropConstraint {
        /// Its name.
        name: String,
        /// Whether a missing constraint is accepted.
        if_exists: bool,
    },
}

/// What a schema change did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchemaOutcome {
    /// Indexes and constraints created.
    pub created: Vec<String>,
    /// Indexes and constraints dropped.
    pub dropped: Vec<String>,
    /// Records that were read to fill or check them.
    pub records_read: u64,
}

/// All indexes and constraints of one schema version.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// Grows with every change of an index or constraint.
    pub version: u64,
    /// The number of the next index: numbers are not used twice, as entries of a dropped one may not be deleted yet.
    pub next_index: u32,
    /// All indexes, by number.
    pub indexes: Vec<IndexDef>,
    /// All constraints.
    pub constraints: Vec<Constraint>,
    /// Names of stored constraints that are part of a key: version 0.1 stored a key as a unique constraint and required
    /// fields.
    pub key_parts: Vec<Arc<str>>,
}

impl Schema {
    /// Grows with every change of an index or constraint.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// All indexes, by number, including those that are being built.
    pub fn indexes(&self) -> &[IndexDef] {
        &self.indexes
    }

    /// An index.
    pub fn index(&self, id: IndexId) -> Option<&IndexDef> {
        self.indexes.iter().find(|index| index.id == id)
    }

    /// All constraints.
    pub fn constraints(&self) -> &[Constraint] {
        &self.constraints
    }

    /// Whether an index or a constraint is about the relationships of a type.
    pub fn concerns_type(&self, type_id: TypeId) -> bool {
        let scope = RecordScope::Type(type_id);
        self.indexes.iter().any(|index| index.scope == scope)
            || self.constraints.iter().any(|one| one.scope == scope)
    }

    /// Combines a unique constraint `name` and the required fields `name_2`, `name_3`, … of its index into one key: so
    /// version 0.1 stored a key.
    pub(crate) fn join_keys(&mut self) {
        for at in 0..self.constraints.len() {
            let Some((index, parts)) = self.constraints.get(at).and_then(|one| self.parts_of(one))
            else {
                continue;
            };
            self.constraints[at].kind = ConstraintKind::Key { index };
            self.key_parts.extend(parts);
        }
        let parts = &self.key_parts;
        self.constraints.retain(|one| !parts.contains(&one.name));
    }

    /// The names of the required fields that form a key with a unique constraint.
    fn parts_of(&self, unique: &Constraint) -> Option<(IndexId, Vec<Arc<str>>)> {
        let ConstraintKind::Unique { index } = unique.kind else {
            return None;
        };
        let fields = &self.index(index)?.fields;
        let part = |(at, field): (usize, &IndexField)| {
            let name = format!("{}_{}", unique.name, at + 2);
            let is_part = |one: &&Constraint| {
                let required =
                    matches!(&one.kind, ConstraintKind::Required { path } if *path == field.path);
                required
                    && *one.name == *name
                    && one.scope == unique.scope
                    && one.state == IndexState::Ready
            };
            let found = self.constraints.iter().find(is_part)?;
            Some(found.name.clone())
        };
        let parts = fields.iter().enumerate().map(part).collect::<Option<_>>()?;
        Some((index, parts))
    }
}
