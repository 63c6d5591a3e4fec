//! Conflicts between concurrent writes of replicas, as they are listed.

use isomer_value::Value;

/// The kinds of conflicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConflictKind {
    /// Several versions of a property: the latest is read. Setting the property resolves the conflict.
    Property,
    /// Several versions of an entry of a bucket: the latest is read. Putting the entry resolves the conflict.
    Entry,
    /// A value that a unique index has for another node too: change one of them.
    Unique,
    /// Two nodes with one `_key` in one label, made under different names: change the `_key` of one of them.
    Key,
    /// A node that breaks a constraint: change it.
    Constraint,
    /// A bucket that was created with different options: copy its visible entries into another bucket and drop it, and
    /// the shadowed ones become visible.
    Bucket,
    /// A file whose name another file or a folder has: it is shown under a substitute name until it is renamed or
    /// removed. Or a part of a file that was written concurrently: the latest is read, and writing it resolves the
    /// conflict.
    File,
}

impl ConflictKind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Property => "property",
            Self::Entry => "entry",
            Self::Unique => "unique",
            Self::Key => "key",
            Self::Constraint => "constraint",
            Self::Bucket => "bucket",
            Self::File => "file",
        }
    }
}

/// A conflict between concurrent writes of replicas.
#[derive(Clone, Debug, PartialEq)]
pub struct Conflict {
    /// Its kind.
    pub kind: ConflictKind,
    /// The id of the node or relationship in this database.
    pub id: Option<u64>,
    /// A description of the record or bucket.
    pub record: String,
    /// The property, the key, the index or the rule.
    pub field: String,
    /// The value that is read.
    pub value: Value,
    /// The other values.
    pub others: Vec<Value>,
}
