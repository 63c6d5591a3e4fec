//! Writing and reading the operations of an entry.

use isomer_value::{LabelId, NodeId, PropId, RelId, TypeId};

use super::{Change, ChangeSet, Deltas, FORMAT};
use crate::{
    DataError,
    convergent::{ConvergentOwner, ReplicaNo, Vector},
    keyspace::{push_id, take_id},
    kv::Content,
};

impl<'a> ChangeSet<'a> {
    /// Decodes an entry of the change stream.
    ///
    /// # Errors
    /// [`DataError::Corrupt`] where the bytes are not an entry; never a panic.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DataError> {
        Ok(Self {
            counts: {
                let mut counts: Vec<_> = counts(bytes)?.iter().collect();
                counts.sort_unstable();
                counts
            },
            changes: Self::changes_in(bytes)?.collect::<Result<_, _>>()?,
        })
    }

    /// Encodes an entry of the change stream. Each count must be named once.
    pub fn encode(&self) -> Vec<u8> {
        let mut deltas = Deltas::default();
        self.counts
            .iter()
            .for_each(|(counted, change)| deltas.add(*counted, *change));
        let mut entry = super::head(&deltas);
        self.changes
            .iter()
            .for_each(|change| change.push(&mut entry));
        entry
    }

    /// Decodes the operations of an entry one after the other. A large entry takes many times its size when decoded as
    /// a whole.
    ///
    /// # Errors
    /// [`DataError::Corrupt`] as in [`ChangeSet::decode`], from here or from the iterator, which ends with its first
    /// error.
    pub fn changes_in(bytes: &'a [u8]) -> Result<Changes<'a>, DataError> {
        let (_, operations) = split_head(bytes)?;
        Ok(Changes(operations))
    }
}

/// The operations of an entry, decoded one after the other; see [`ChangeSet::changes_in`].
#[derive(Clone, Debug)]
pub struct Changes<'a>(&'a [u8]);

impl Changes<'_> {
    /// Bytes of the operations that follow.
    pub fn remaining_bytes(&self) -> usize {
        self.0.len()
    }
}

impl<'a> Iterator for Changes<'a> {
    type Item = Result<Change<'a>, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let change = take_change(&mut self.0);
        if change.is_none() {
            self.0 = &[];
        }
        Some(
            change.ok_or_else(|| {
                DataError::corrupt("an operation of the change stream is malformed")
            }),
        )
    }
}

/// The counts at the head of an entry, and its operations, encoded.
fn split_head(bytes: &[u8]) -> Result<(Deltas, &[u8]), DataError> {
    let mut rest = bytes;
    let counts = (take_byte(&mut rest) == Some(FORMAT))
        .then(|| Deltas::take(&mut rest))
        .flatten()
        .ok_or_else(|| DataError::corrupt("an entry of the change stream is malformed"))?;
    Ok((counts, rest))
}

/// The counts at the head of an entry, without decoding the rest.
pub(crate) fn counts(bytes: &[u8]) -> Result<Deltas, DataError> {
    Ok(split_head(bytes)?.0)
}

/// The operations of an entry without its head.
pub(crate) fn operations(bytes: &[u8]) -> Result<Vec<Change<'_>>, DataError> {
    Changes(bytes).collect()
}

fn take_put<'a>(rest: &mut &'a [u8], content: Content) -> Option<Change<'a>> {
    Some(Change::KeyPut {
        bucket: take_u32(rest)?,
        key: take_bytes(rest)?,
        value: take_bytes(rest)?,
        content,
    })
}

fn take_put_until<'a>(rest: &mut &'a [u8], content: Content) -> Option<Change<'a>> {
    Some(Change::KeyPutUntil {
        bucket: take_u32(rest)?,
        key: take_bytes(rest)?,
        value: take_bytes(rest)?,
        content,
        expires_ms: take_id(rest)?,
    })
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
        0x17 => Change::FileNamed {
            folder: take_id(rest)?,
            name: take_bytes(rest)?,
            is_folder: take_flag(rest)?,
            number: take_id(rest)?,
        },
        0x18 => Change::FileUnnamed {
            folder: take_id(rest)?,
            name: take_bytes(rest)?,
        },
        0x19 => Change::FileChanged {
            file: take_id(rest)?,
            size: take_id(rest)?,
            created_ms: take_id(rest)?,
            modified_ms: take_id(rest)?,
        },
        0x1a => Change::FileWritten {
            file: take_id(rest)?,
            offset: take_id(rest)?,
            bytes: take_bytes(rest)?,
        },
        0x1b => Change::FileRemoved {
            file: take_id(rest)?,
        },
        7 => take_put(rest, Content::Bytes)?,
        0x13 => take_put(rest, Content::Text)?,
        0x14 => take_put(rest, Content::Value)?,
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
        13 => take_put_until(rest, Content::Bytes)?,
        0x15 => take_put_until(rest, Content::Text)?,
        0x16 => take_put_until(rest, Content::Value)?,
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
        0x20 => Change::Converged {
            owner: take_owner(rest)?,
            op: take_u32(rest)?,
            place: take_bytes(rest)?,
            action: take_bytes(rest)?,
        },
        0x21 => Change::ConvergedBy {
            replica: ReplicaNo(take_u32(rest)?),
            number: take_id(rest)?,
            time: take_id(rest)?,
            seen: Vector::take_local(rest)?,
        },
        0x22 => Change::FieldMerged {
            owner: take_owner(rest)?,
            prop: PropId(take_u32(rest)?),
        },
        _ => return None,
    })
}

fn take_owner(bytes: &mut &[u8]) -> Option<ConvergentOwner> {
    Some(match take_byte(bytes)? {
        0 => ConvergentOwner::Node(NodeId(take_id(bytes)?)),
        1 => ConvergentOwner::Relationship(RelId(take_id(bytes)?)),
        _ => return None,
    })
}

pub(super) fn take_byte(bytes: &mut &[u8]) -> Option<u8> {
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
            Self::FileNamed {
                folder,
                name,
                is_folder,
                number,
            } => {
                out.push(0x17);
                push_id(out, *folder);
                push_bytes(out, name);
                out.push(u8::from(*is_folder));
                push_id(out, *number);
            }
            Self::FileUnnamed { folder, name } => {
                out.push(0x18);
                push_id(out, *folder);
                push_bytes(out, name);
            }
            Self::FileChanged {
                file,
                size,
                created_ms,
                modified_ms,
            } => {
                out.push(0x19);
                for number in [file, size, created_ms, modified_ms] {
                    push_id(out, *number);
                }
            }
            Self::FileWritten {
                file,
                offset,
                bytes,
            } => {
                out.push(0x1a);
                push_id(out, *file);
                push_id(out, *offset);
                push_bytes(out, bytes);
            }
            Self::FileRemoved { file } => {
                out.push(0x1b);
                push_id(out, *file);
            }
            Self::KeyPut {
                bucket,
                key,
                value,
                content,
            } => {
                let tag = match content {
                    Content::Bytes => 7,
                    Content::Text => 0x13,
                    Content::Value => 0x14,
                };
                push_pair(out, tag, *bucket, key, value);
            }
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
                content,
                expires_ms,
            } => {
                let tag = match content {
                    Content::Bytes => 13,
                    Content::Text => 0x15,
                    Content::Value => 0x16,
                };
                push_pair(out, tag, *bucket, key, value);
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
            Self::Converged {
                owner,
                op,
                place,
                action,
            } => {
                push_owner(out, 0x20, *owner);
                push_id(out, (*op).into());
                push_bytes(out, place);
                push_bytes(out, action);
            }
            Self::ConvergedBy {
                replica,
                number,
                time,
                seen,
            } => {
                out.push(0x21);
                for part in [replica.0.into(), *number, *time] {
                    push_id(out, part);
                }
                seen.push_local(out);
            }
            Self::FieldMerged { owner, prop } => {
                push_owner(out, 0x22, *owner);
                push_id(out, prop.0.into());
            }
        }
    }
}

fn push_owner(out: &mut Vec<u8>, tag: u8, owner: ConvergentOwner) {
    let (space, id) = owner.parts();
    out.extend_from_slice(&[tag, space as u8]);
    push_id(out, id);
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
