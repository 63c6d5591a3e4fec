//! Entries of the change stream: operations and changes of counts.

use isomer_value::{LabelId, NodeId, PropId, RelId, TypeId};
use rustc_hash::FxHashMap;

use crate::{
    convergent::{
        clock::{ReplicaNo, Vector},
        position::ConvergentOwner,
    },
    keyspace::{push_id, take_id},
    kv::content::Content,
    stream::codec::take_byte,
};

/// The format of an entry.
pub const FORMAT: u8 = 1;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Counted {
    /// The nodes of a label.
    Label(LabelId),
    /// The relationships of a type.
    Type(TypeId),
    /// All nodes.
    Nodes,
    /// All relationships.
    Relationships,
}

impl Counted {
    fn code(self) -> (u8, u32) {
        match self {
            Self::Label(id) => (1, id.0),
            Self::Type(id) => (2, id.0),
            Self::Nodes => (3, 0),
            Self::Relationships => (4, 0),
        }
    }

    pub(crate) fn from_code(what: u8, id: u64) -> Option<Self> {
        let id = u32::try_from(id).ok()?;
        match (what, id) {
            (1, id) => Some(Self::Label(LabelId(id))),
            (2, id) => Some(Self::Type(TypeId(id))),
            (3, 0) => Some(Self::Nodes),
            (4, 0) => Some(Self::Relationships),
            _ => None,
        }
    }
}

/// Changes of counts, each item once.
#[derive(Clone, Debug, Default)]
pub struct Deltas {
    /// The change of each count, without the run.
    pub numbers: FxHashMap<Counted, i64>,
    /// The relationships of one type that were counted last, not among the counts yet.
    pub run: Option<(TypeId, i64)>,
}

impl Deltas {
    /// Adds a change of one count.
    pub fn add(&mut self, counted: Counted, change: i64) {
        let number = self.numbers.entry(counted).or_default();
        *number = number.saturating_add(change);
    }

    /// Counts relationships of a type, many of which are consecutive.
    pub fn add_relationships(&mut self, type_id: TypeId, change: i64) {
        match &mut self.run {
            Some((of, number)) if *of == type_id => *number = number.saturating_add(change),
            _ => {
                self.flush_run();
                self.run = Some((type_id, change));
            }
        }
    }

    /// Adds the run to the counts.
    fn flush_run(&mut self) {
        if let Some((of, number)) = self.run.take() {
            self.add(Counted::Type(of), number);
            self.add(Counted::Relationships, number);
        }
    }

    /// The change of one count, with the run.
    pub fn get(&self, counted: Counted) -> i64 {
        let number = self.numbers.get(&counted).copied().unwrap_or_default();
        number.saturating_add(self.in_run(counted))
    }

    /// The contribution of the run to a count.
    fn in_run(&self, counted: Counted) -> i64 {
        match (self.run, counted) {
            (Some((_, number)), Counted::Relationships) => number,
            (Some((of, number)), Counted::Type(type_id)) if of == type_id => number,
            _ => 0,
        }
    }

    /// Whether no count changes.
    pub fn is_empty(&self) -> bool {
        self.iter().all(|(_, change)| change == 0)
    }

    /// The change of each count, in any order.
    pub fn iter(&self) -> impl Iterator<Item = (Counted, i64)> {
        let mut flushed = self.clone();
        flushed.flush_run();
        flushed.numbers.into_iter()
    }

    /// Appends the head of an entry after its format: see [`crate::stream`].
    pub fn push(&self, out: &mut Vec<u8>) {
        let mut changes: Vec<_> = self.iter().filter(|(_, change)| *change != 0).collect();
        changes.sort_unstable();
        push_id(out, changes.len() as u64);
        for (counted, change) in changes {
            let (what, id) = counted.code();
            out.push(what);
            push_id(out, id.into());
            push_id(out, (change << 1 ^ change >> 63) as u64);
        }
    }

    /// Decodes what [`Deltas::push`] wrote from the front of `bytes`.
    pub fn take(bytes: &mut &[u8]) -> Option<Self> {
        let mut deltas = Self::default();
        for _ in 0..take_id(bytes)? {
            let what = take_byte(bytes)?;
            let counted = Counted::from_code(what, take_id(bytes)?)?;
            let zigzag = take_id(bytes)?;
            deltas.add(counted, (zigzag >> 1) as i64 ^ -((zigzag & 1) as i64));
        }
        Some(deltas)
    }
}

/// The entry's head; the operations follow.
pub fn entry(deltas: &Deltas, operations: &[u8]) -> Vec<u8> {
    let mut bytes = head(deltas);
    bytes.extend_from_slice(operations);
    bytes
}

/// The head of an entry; the operations follow.
pub fn head(deltas: &Deltas) -> Vec<u8> {
    let mut bytes = vec![FORMAT];
    deltas.push(&mut bytes);
    bytes
}

/// One commit's entry, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeSet<'a> {
    /// The changes of the counts of nodes and relationships.
    pub counts: Vec<(Counted, i64)>,
    /// The operations, in order.
    pub changes: Vec<Change<'a>>,
}

/// One logical operation. Records and values are encoded as `isomer_value::record` does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the fields are what the table above says
pub enum Change<'a> {
    /// A node was created; the record holds its labels.
    NodeCreated { id: NodeId, record: &'a [u8] },
    /// Labels or properties of a node changed.
    NodeChanged {
        id: NodeId,
        labels_added: Vec<LabelId>,
        labels_removed: Vec<LabelId>,
        set: Vec<(PropId, &'a [u8])>,
        removed: Vec<PropId>,
    },
    /// A node was deleted; its labels and encoded `_key` (empty: none) as they were.
    NodeDeleted {
        id: NodeId,
        labels: Vec<LabelId>,
        key: &'a [u8],
    },
    /// A relationship was created; the record holds type and ends.
    RelationshipCreated { id: RelId, record: &'a [u8] },
    /// Properties of a relationship changed.
    RelationshipChanged {
        id: RelId,
        type_id: TypeId,
        set: Vec<(PropId, &'a [u8])>,
        removed: Vec<PropId>,
    },
    /// A relationship was deleted.
    RelationshipDeleted {
        id: RelId,
        type_id: TypeId,
        source: NodeId,
        target: NodeId,
    },
    /// A value was put into a bucket.
    KeyPut {
        bucket: u32,
        key: &'a [u8],
        value: &'a [u8],
        content: Content,
    },
    /// A key of a bucket was deleted.
    KeyDeleted { bucket: u32, key: &'a [u8] },
    /// A range of keys of a bucket was deleted.
    KeysDeleted {
        bucket: u32,
        start: &'a [u8],
        end: Option<&'a [u8]>,
    },
    /// Nodes were loaded in bulk: every record with an id in the range.
    NodesLoaded {
        label: LabelId,
        first: NodeId,
        count: u64,
    },
    /// Relationships were loaded in bulk: every record with an id in the range.
    RelationshipsLoaded {
        type_id: TypeId,
        first: RelId,
        count: u64,
    },
    /// An index or constraint was created or dropped.
    SchemaChanged { name: &'a [u8] },
    /// A value that expires was put into a bucket.
    KeyPutUntil {
        bucket: u32,
        key: &'a [u8],
        value: &'a [u8],
        content: Content,
        expires_ms: u64,
    },
    /// A value was added to a key of a multi-value bucket.
    ValueAdded {
        bucket: u32,
        key: &'a [u8],
        value: &'a [u8],
    },
    /// A value was taken from a key of a multi-value bucket.
    ValueRemoved {
        bucket: u32,
        key: &'a [u8],
        value: &'a [u8],
    },
    /// A bucket was created, by name or with its first key.
    BucketCreated {
        bucket: u32,
        multi: bool,
        reversible: bool,
    },
    /// A bucket was dropped with all that was in it.
    BucketDropped { bucket: u32 },
    /// An entry of a folder was put, replacing a previous one.
    FileNamed {
        folder: u64,
        name: &'a [u8],
        is_folder: bool,
        number: u64,
    },
    /// An entry of a folder was deleted.
    FileUnnamed { folder: u64, name: &'a [u8] },
    /// Size or times of a file or folder changed, or it was created. A smaller size truncates it.
    FileChanged {
        file: u64,
        size: u64,
        created_ms: u64,
        modified_ms: u64,
    },
    /// Bytes were written into a file.
    FileWritten {
        file: u64,
        offset: u64,
        bytes: &'a [u8],
    },
    /// A file or folder was removed with all content.
    FileRemoved { file: u64 },
    /// Numbers of a sequence were taken; with `last` 0 the sequence itself was removed, by a merge of replicas.
    SequenceAdvanced {
        bucket: u32,
        name: &'a [u8],
        last: u64,
    },
    /// A convergent field was changed: the action of the operation of this number in its transaction, at a place of an
    /// owner.
    Converged {
        owner: ConvergentOwner,
        op: u32,
        place: &'a [u8],
        action: &'a [u8],
    },
    /// The transaction of the preceding convergent operations, and its vector.
    ConvergedBy {
        replica: ReplicaNo,
        number: u64,
        time: u64,
        seen: Vector,
    },
    /// The convergent field of a property was changed by a merge of replicas without an operation: a join of states, or
    /// a deletion of what had been seen of a record.
    FieldMerged {
        owner: ConvergentOwner,
        prop: PropId,
    },
}

impl Change<'_> {
    /// The convergent property that it changed, whole or in part, and its owner; none if it changed no such
    /// property.
    pub fn field(&self) -> Option<(ConvergentOwner, PropId)> {
        match self {
            Self::Converged { owner, place, .. } => {
                let prop = take_id(&mut &**place)?;
                Some((*owner, PropId(u32::try_from(prop).ok()?)))
            }
            Self::FieldMerged { owner, prop } => Some((*owner, *prop)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::stream::codec::{TAGS, counts};

    /// Each operation, some with several values of a part.
    fn changes() -> Vec<Change<'static>> {
        vec![
            Change::NodeCreated {
                id: NodeId(7),
                record: b"record",
            },
            Change::NodeChanged {
                id: NodeId(300),
                labels_added: vec![LabelId(1), LabelId(2)],
                labels_removed: vec![],
                set: vec![(PropId(4), b"x"), (PropId(900), b"")],
                removed: vec![PropId(5)],
            },
            Change::NodeDeleted {
                id: NodeId(1),
                labels: vec![LabelId(0)],
                key: b"k",
            },
            Change::RelationshipCreated {
                id: RelId(u64::MAX),
                record: b"",
            },
            Change::RelationshipChanged {
                id: RelId(3),
                type_id: TypeId(70),
                set: vec![],
                removed: vec![],
            },
            Change::RelationshipDeleted {
                id: RelId(3),
                type_id: TypeId(70),
                source: NodeId(1),
                target: NodeId(1),
            },
            Change::KeyPut {
                bucket: 3,
                key: b"a",
                value: b"b",
                content: Content::Bytes,
            },
            Change::KeyPut {
                bucket: 3,
                key: b"a",
                value: b"b",
                content: Content::Text,
            },
            Change::KeyPut {
                bucket: 3,
                key: b"a",
                value: b"b",
                content: Content::Value,
            },
            Change::KeyPutUntil {
                bucket: 3,
                key: b"a",
                value: b"b",
                content: Content::Text,
                expires_ms: 0,
            },
            Change::KeyPutUntil {
                bucket: 3,
                key: b"a",
                value: b"b",
                content: Content::Value,
                expires_ms: 7,
            },
            Change::KeyDeleted {
                bucket: 3,
                key: b"",
            },
            Change::KeysDeleted {
                bucket: 3,
                start: b"a",
                end: None,
            },
            Change::KeysDeleted {
                bucket: 3,
                start: b"a",
                end: Some(b""),
            },
            Change::NodesLoaded {
                label: LabelId(1),
                first: NodeId(64),
                count: 1 << 20,
            },
            Change::RelationshipsLoaded {
                type_id: TypeId(1),
                first: RelId(64),
                count: 1 << 20,
            },
            Change::SchemaChanged { name: b"index" },
            Change::KeyPutUntil {
                bucket: 3,
                key: b"a",
                value: b"",
                content: Content::Bytes,
                expires_ms: u64::MAX,
            },
            Change::ValueAdded {
                bucket: 3,
                key: b"a",
                value: b"b",
            },
            Change::ValueRemoved {
                bucket: 3,
                key: b"a",
                value: b"b",
            },
            Change::BucketCreated {
                bucket: 3,
                multi: false,
                reversible: true,
            },
            Change::BucketDropped { bucket: 3 },
            Change::FileNamed {
                folder: 1,
                name: b"a.txt",
                is_folder: false,
                number: 16,
            },
            Change::FileNamed {
                folder: 700,
                name: b"b",
                is_folder: true,
                number: 1 << 40,
            },
            Change::FileUnnamed {
                folder: 1,
                name: b"a.txt",
            },
            Change::FileChanged {
                file: 16,
                size: 1 << 43,
                created_ms: 5,
                modified_ms: u64::MAX,
            },
            Change::FileWritten {
                file: 16,
                offset: 70_000,
                bytes: b"content",
            },
            Change::FileRemoved { file: 16 },
            Change::SequenceAdvanced {
                bucket: 3,
                name: b"orders",
                last: 1 << 40,
            },
            Change::Converged {
                owner: ConvergentOwner::Relationship(RelId(700)),
                op: 3,
                place: b"place",
                action: b"",
            },
            Change::ConvergedBy {
                replica: ReplicaNo(2),
                number: 1 << 30,
                time: u64::MAX,
                seen: {
                    let mut seen = Vector::new();
                    seen.set(ReplicaNo(1), 9, vec![7]);
                    seen
                },
            },
            Change::FieldMerged {
                owner: ConvergentOwner::Node(NodeId(300)),
                prop: PropId(70_000),
            },
        ]
    }

    /// Databases and backups hold these bytes. An operation that is added gets a line; no line changes.
    #[test]
    fn operations_keep_their_bytes() {
        let changes = changes();
        let lines = changes.iter().map(|change| {
            let mut bytes = Vec::new();
            change.push(&mut bytes);
            bytes.iter().map(|byte| format!("{byte:02x}")).collect()
        });
        let lines: Vec<String> = lines.collect();
        let expected: Vec<&str> = include_str!("operations.hex").lines().collect();
        assert_eq!(lines, expected);
        let tags: BTreeSet<&str> = lines.iter().map(|line| &line[..2]).collect();
        let mut all = TAGS.iter().map(|tag| format!("{tag:02x}"));
        assert!(all.all(|tag| tags.contains(&*tag)), "{tags:?}");
    }

    #[test]
    fn every_operation_comes_back() {
        let changes = changes();
        let mut deltas = Deltas::default();
        deltas.add(Counted::Label(LabelId(5)), -3);
        deltas.add(Counted::Nodes, i64::MAX);
        deltas.add(Counted::Relationships, 0);
        let mut operations = Vec::new();
        changes
            .iter()
            .for_each(|change| change.push(&mut operations));
        let bytes = entry(&deltas, &operations);
        let decoded = ChangeSet::decode(&bytes).unwrap();
        assert_eq!(decoded.changes, changes);
        assert_eq!(
            decoded.counts,
            vec![(Counted::Label(LabelId(5)), -3), (Counted::Nodes, i64::MAX)]
        );
        assert_eq!(counts(&bytes).unwrap().get(Counted::Label(LabelId(5))), -3);
        for cut in 0..bytes.len() {
            let _ = ChangeSet::decode(&bytes[..cut]);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(mut bytes: Vec<u8>) {
            let _ = ChangeSet::decode(&bytes);
            bytes.insert(0, FORMAT);
            let _ = ChangeSet::decode(&bytes);
            bytes.insert(1, 0);
            let _ = ChangeSet::decode(&bytes);
        }
    }
}
