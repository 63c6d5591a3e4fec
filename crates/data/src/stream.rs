//! The change stream: one entry per commit, with the logical operations of all models.
//!
//! ```text
//! 01                       format
//! id n, then n times: u8 what (1 nodes of a label, 2 relationships of a type, 3 nodes, 4 relationships),
//!                          id label or type (0 for 3 and 4), id zigzag of the change of their number
//! operations, each a tag byte and:
//!   01 node created        id node, bytes record
//!   02 node changed        id node, labels added, labels removed, properties set, properties removed
//!   03 node deleted        id node, labels, bytes encoded _key (empty: none)
//!   04 relationship created  id relationship, bytes record
//!   05 relationship changed  id relationship, id type, properties set, properties removed
//!   06 relationship deleted  id relationship, id type, id source, id target
//!   07 key put             id bucket, bytes key, bytes value
//!   08 key deleted         id bucket, bytes key
//!   09 keys deleted        id bucket, bytes first key, u8 whether there is an end, bytes end
//!   0a nodes loaded        id label, id first node, id number of ids
//!   0b relationships loaded  id type, id first relationship, id number of ids
//!   0c schema changed      bytes name of what changed
//!   0d key put until       id bucket, bytes key, bytes value, id time of expiry in ms
//!   0e value added         id bucket, bytes key, bytes value (multi-value buckets)
//!   0f value removed       id bucket, bytes key, bytes value (multi-value buckets)
//!   10 bucket created      id bucket, u8 whether multi-value, u8 whether reversible
//!   11 bucket dropped      id bucket
//!   12 sequence advanced   id bucket, bytes name, id last number
//! ```
//! `id` is an ordered id as in `keyspace`, `bytes` an id for the length and the bytes, a list of labels or properties
//! an id for the number and the ids, properties set the same with `bytes` of the encoded value after each id.

use isomer_value::{LabelId, NodeId, PropId, RelId, TypeId};
use rustc_hash::FxHashMap;

use crate::{
    DataError,
    keyspace::{push_id, take_id},
};

const FORMAT: u8 = 1;

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

    fn from_code(what: u8, id: u64) -> Option<Self> {
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

/// Changes of numbers, each thing once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deltas(FxHashMap<Counted, i64>);

impl Deltas {
    pub(crate) fn add(&mut self, counted: Counted, change: i64) {
        let number = self.0.entry(counted).or_default();
        *number = number.saturating_add(change);
    }

    pub(crate) fn get(&self, counted: Counted) -> i64 {
        self.0.get(&counted).copied().unwrap_or_default()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Counted, i64)> {
        self.0.iter().map(|(counted, change)| (*counted, *change))
    }

    pub(crate) fn push(&self, out: &mut Vec<u8>) {
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

    pub(crate) fn take(bytes: &mut &[u8]) -> Option<Self> {
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
pub(crate) fn entry(deltas: &Deltas, operations: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(operations.len() + 24);
    bytes.push(FORMAT);
    deltas.push(&mut bytes);
    bytes.extend_from_slice(operations);
    bytes
}

/// One commit's entry, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeSet<'a> {
    /// How the numbers of nodes and relationships changed.
    pub counts: Vec<(Counted, i64)>,
    /// What was done, in order.
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
    },
    /// A key was taken out of a bucket.
    KeyDeleted { bucket: u32, key: &'a [u8] },
    /// A range of keys was taken out of a bucket.
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
    /// Numbers of a sequence were taken.
    SequenceAdvanced {
        bucket: u32,
        name: &'a [u8],
        last: u64,
    },
}

impl<'a> ChangeSet<'a> {
    /// Decodes an entry of the change stream.
    ///
    /// # Errors
    /// [`DataError::Corrupt`] where the bytes are no entry; never a panic.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DataError> {
        decode(bytes)
            .ok_or_else(|| DataError::corrupt("an entry of the change stream is malformed"))
    }
}

/// The counts at the head of an entry, without decoding the rest.
pub(crate) fn counts(bytes: &[u8]) -> Result<Deltas, DataError> {
    let mut rest = bytes;
    (take_byte(&mut rest) == Some(FORMAT))
        .then(|| Deltas::take(&mut rest))
        .flatten()
        .ok_or_else(|| DataError::corrupt("an entry of the change stream is malformed"))
}

fn decode(mut bytes: &[u8]) -> Option<ChangeSet<'_>> {
    let rest = &mut bytes;
    if take_byte(rest)? != FORMAT {
        return None;
    }
    let mut counts: Vec<_> = Deltas::take(rest)?.iter().collect();
    counts.sort_unstable();
    let mut changes = Vec::new();
    while !rest.is_empty() {
        changes.push(take_change(rest)?);
    }
    Some(ChangeSet { counts, changes })
}

fn take_change<'a>(rest: &mut &'a [u8]) -> Option<Change<'a>> {
    Some(match take_byte(rest)? {
        1 => Change::NodeCreated {
            id: NodeId(take_id(rest)?),
            record: take_bytes(rest)?,
        },
        2 => Change::NodeChanged {
            id: NodeId(take_id(rest)?),
            labels_added: take_labels(rest)?,
            labels_removed: take_labels(rest)?,
            set: take_set(rest)?,
            removed: take_props(rest)?,
        },
        3 => Change::NodeDeleted {
            id: NodeId(take_id(rest)?),
            labels: take_labels(rest)?,
            key: take_bytes(rest)?,
        },
        4 => Change::RelationshipCreated {
            id: RelId(take_id(rest)?),
            record: take_bytes(rest)?,
        },
        5 => Change::RelationshipChanged {
            id: RelId(take_id(rest)?),
            type_id: TypeId(take_u32(rest)?),
            set: take_set(rest)?,
            removed: take_props(rest)?,
        },
        6 => Change::RelationshipDeleted {
            id: RelId(take_id(rest)?),
            type_id: TypeId(take_u32(rest)?),
            source: NodeId(take_id(rest)?),
            target: NodeId(take_id(rest)?),
        },
        7 => Change::KeyPut {
            bucket: take_u32(rest)?,
            key: take_bytes(rest)?,
            value: take_bytes(rest)?,
        },
        8 => Change::KeyDeleted {
            bucket: take_u32(rest)?,
            key: take_bytes(rest)?,
        },
        9 => {
            let (bucket, start) = (take_u32(rest)?, take_bytes(rest)?);
            let bounded = take_flag(rest)?;
            let end = take_bytes(rest)?;
            Change::KeysDeleted {
                bucket,
                start,
                end: bounded.then_some(end),
            }
        }
        10 => Change::NodesLoaded {
            label: LabelId(take_u32(rest)?),
            first: NodeId(take_id(rest)?),
            count: take_id(rest)?,
        },
        11 => Change::RelationshipsLoaded {
            type_id: TypeId(take_u32(rest)?),
            first: RelId(take_id(rest)?),
            count: take_id(rest)?,
        },
        12 => Change::SchemaChanged {
            name: take_bytes(rest)?,
        },
        13 => Change::KeyPutUntil {
            bucket: take_u32(rest)?,
            key: take_bytes(rest)?,
            value: take_bytes(rest)?,
            expires_ms: take_id(rest)?,
        },
        14 => Change::ValueAdded {
            bucket: take_u32(rest)?,
            key: take_bytes(rest)?,
            value: take_bytes(rest)?,
        },
        15 => Change::ValueRemoved {
            bucket: take_u32(rest)?,
            key: take_bytes(rest)?,
            value: take_bytes(rest)?,
        },
        16 => Change::BucketCreated {
            bucket: take_u32(rest)?,
            multi: take_flag(rest)?,
            reversible: take_flag(rest)?,
        },
        17 => Change::BucketDropped {
            bucket: take_u32(rest)?,
        },
        18 => Change::SequenceAdvanced {
            bucket: take_u32(rest)?,
            name: take_bytes(rest)?,
            last: take_id(rest)?,
        },
        _ => return None,
    })
}

fn take_byte(bytes: &mut &[u8]) -> Option<u8> {
    let (&first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(first)
}

fn take_flag(bytes: &mut &[u8]) -> Option<bool> {
    match take_byte(bytes)? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    u32::try_from(take_id(bytes)?).ok()
}

fn take_bytes<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take_id(bytes)?).ok()?;
    let (taken, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(taken)
}

fn take_labels(bytes: &mut &[u8]) -> Option<Vec<LabelId>> {
    (0..take_id(bytes)?)
        .map(|_| take_u32(bytes).map(LabelId))
        .collect()
}

fn take_props(bytes: &mut &[u8]) -> Option<Vec<PropId>> {
    (0..take_id(bytes)?)
        .map(|_| take_u32(bytes).map(PropId))
        .collect()
}

fn take_set<'a>(bytes: &mut &'a [u8]) -> Option<Vec<(PropId, &'a [u8])>> {
    (0..take_id(bytes)?)
        .map(|_| Some((PropId(take_u32(bytes)?), take_bytes(bytes)?)))
        .collect()
}

fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    push_id(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

impl Change<'_> {
    /// Appends the operation.
    pub(crate) fn push(&self, out: &mut Vec<u8>) {
        match self {
            Self::NodeCreated { id, record } => {
                out.push(1);
                push_id(out, id.0);
                push_bytes(out, record);
            }
            Self::NodeChanged {
                id,
                labels_added,
                labels_removed,
                set,
                removed,
            } => {
                out.push(2);
                push_id(out, id.0);
                push_labels(out, labels_added);
                push_labels(out, labels_removed);
                push_properties(out, set, removed);
            }
            Self::NodeDeleted { id, labels, key } => {
                out.push(3);
                push_id(out, id.0);
                push_labels(out, labels);
                push_bytes(out, key);
            }
            Self::RelationshipCreated { id, record } => {
                out.push(4);
                push_id(out, id.0);
                push_bytes(out, record);
            }
            Self::RelationshipChanged {
                id,
                type_id,
                set,
                removed,
            } => {
                out.push(5);
                push_id(out, id.0);
                push_id(out, type_id.0.into());
                push_properties(out, set, removed);
            }
            Self::RelationshipDeleted {
                id,
                type_id,
                source,
                target,
            } => {
                out.push(6);
                for number in [id.0, type_id.0.into(), source.0, target.0] {
                    push_id(out, number);
                }
            }
            Self::KeyPut { bucket, key, value } => push_pair(out, 7, *bucket, key, value),
            Self::KeyDeleted { bucket, key } => {
                out.push(8);
                push_id(out, (*bucket).into());
                push_bytes(out, key);
            }
            Self::KeysDeleted { bucket, start, end } => {
                out.push(9);
                push_id(out, (*bucket).into());
                push_bytes(out, start);
                out.push(u8::from(end.is_some()));
                push_bytes(out, end.unwrap_or_default());
            }
            Self::NodesLoaded {
                label,
                first,
                count,
            } => {
                out.push(10);
                for number in [label.0.into(), first.0, *count] {
                    push_id(out, number);
                }
            }
            Self::RelationshipsLoaded {
                type_id,
                first,
                count,
            } => {
                out.push(11);
                for number in [type_id.0.into(), first.0, *count] {
                    push_id(out, number);
                }
            }
            Self::SchemaChanged { name } => {
                out.push(12);
                push_bytes(out, name);
            }
            Self::KeyPutUntil {
                bucket,
                key,
                value,
                expires_ms,
            } => {
                push_pair(out, 13, *bucket, key, value);
                push_id(out, *expires_ms);
            }
            Self::ValueAdded { bucket, key, value } => push_pair(out, 14, *bucket, key, value),
            Self::ValueRemoved { bucket, key, value } => push_pair(out, 15, *bucket, key, value),
            Self::BucketCreated {
                bucket,
                multi,
                reversible,
            } => {
                out.push(16);
                push_id(out, (*bucket).into());
                out.extend_from_slice(&[u8::from(*multi), u8::from(*reversible)]);
            }
            Self::BucketDropped { bucket } => {
                out.push(17);
                push_id(out, (*bucket).into());
            }
            Self::SequenceAdvanced { bucket, name, last } => {
                out.push(18);
                push_id(out, (*bucket).into());
                push_bytes(out, name);
                push_id(out, *last);
            }
        }
    }
}

fn push_pair(out: &mut Vec<u8>, tag: u8, bucket: u32, key: &[u8], value: &[u8]) {
    out.push(tag);
    push_id(out, bucket.into());
    push_bytes(out, key);
    push_bytes(out, value);
}

fn push_labels(out: &mut Vec<u8>, labels: &[LabelId]) {
    push_id(out, labels.len() as u64);
    labels.iter().for_each(|label| push_id(out, label.0.into()));
}

fn push_properties(out: &mut Vec<u8>, set: &[(PropId, &[u8])], removed: &[PropId]) {
    push_id(out, set.len() as u64);
    for (prop, value) in set {
        push_id(out, prop.0.into());
        push_bytes(out, value);
    }
    push_id(out, removed.len() as u64);
    removed.iter().for_each(|prop| push_id(out, prop.0.into()));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_operation_comes_back() {
        let changes = vec![
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
            Change::SequenceAdvanced {
                bucket: 3,
                name: b"orders",
                last: 1 << 40,
            },
        ];
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
