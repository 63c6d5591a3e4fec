//! One transaction, as replicas exchange it.
//!
//! In the log of a database it has that database's numbers of names and replicas; `wire` replaces these by names.
//!
//! ```text
//! entry      u8 format (1), id replica, id number, id hybrid time, vector (what it had seen), operations to the end
//! operation  u8 tag:
//!   01 node made       identity, labels, properties          02 node changed  identity, labels added, labels removed,
//!   03 node gone       identity                                                  properties set, properties removed
//!   04 relationship made  identity, id type, identity source, identity target, dots source, dots target, u8 keeps ends, properties
//!   05 relationship changed  identity, properties set, removed   06 relationship gone  identity
//!   07 field           u8 owner (0 node, 1 relationship), identity, id number in the transaction, bytes place, bytes action
//!   08 bucket made     id bucket, u8 options                  09 bucket gone   id bucket
//!   0a put             id bucket, u8 0, bytes key, bytes entry                 0b taken out  id bucket, bytes key
//!   0c range taken out id bucket, bytes start, u8 bounded, bytes end
//!   0d value added     id bucket, bytes key, bytes value      0e value removed id bucket, bytes key, bytes value
//!   0f sequence        id bucket, bytes name, id last
//!   10 bucket of a kind gone  id bucket, u8 0 one value a key, 1 several
//!   11 node kept       identity, dots replaced, labels, id number of properties, and as many: id property, id number, and as many:
//!                      id time, bytes value (see `keep`)
//!   12 file made       identity, id ms                        13 file gone    identity
//!   14 file called     identity, bytes path                   15 file sized   identity, id bytes, id modified ms
//!   16 chunk put       identity, id chunk, bytes content      17 chunks gone  identity, id first
//!   18 folder made     bytes path, id ms                      19 folder gone  bytes path
//! ```
//! Operations are in the order of the transaction. Each removes what its transaction had seen where it writes,
//! including its own earlier operations, and puts its item with the transaction's dot.

use isomer_value::{LabelId, PropId, TypeId};

use super::{
    codec::{malformed, push_bytes, take_byte, take_bytes, take_count, take_text, take_u32},
    identity::{Identity, Owner},
    keep::Carried,
    shadow::{push_dots, take_dots},
    versions::Stamp,
};
use crate::{
    BucketKind, DataError,
    convergent::{Dot, ReplicaNo, Vector},
    keyspace::{push_id, take_id},
};

const FORMAT: u8 = 1;
/// Most bytes of an entry: it is sent in one piece, and is one value of the engine.
pub(crate) const MOST_BYTES: usize = 64 << 20;

/// Properties with their encoded values.
pub(crate) type Set = Vec<(PropId, Vec<u8>)>;

/// One transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogEntry {
    pub(crate) origin: ReplicaNo,
    pub(crate) number: u64,
    pub(crate) time: u64,
    pub(crate) seen: Vector,
    pub(crate) ops: Vec<Op>,
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the fields are what the table above says
pub(crate) enum Op {
    NodeMade {
        node: Identity,
        labels: Vec<LabelId>,
        set: Set,
    },
    NodeChanged {
        node: Identity,
        added: Vec<LabelId>,
        removed: Vec<LabelId>,
        set: Set,
        unset: Vec<PropId>,
    },
    NodeGone {
        node: Identity,
    },
    NodeKept {
        node: Identity,
        replaced: Vec<Dot>,
        labels: Vec<LabelId>,
        carried: Carried,
    },
    RelMade {
        rel: Identity,
        type_id: TypeId,
        source: Identity,
        target: Identity,
        source_lives: Vec<Dot>,
        target_lives: Vec<Dot>,
        keeps_ends: bool,
        set: Set,
    },
    RelChanged {
        rel: Identity,
        set: Set,
        unset: Vec<PropId>,
    },
    RelGone {
        rel: Identity,
    },
    Field {
        owner: Owner,
        op: u32,
        place: Vec<u8>,
        action: Vec<u8>,
    },
    BucketMade {
        bucket: u32,
        options: u8,
    },
    BucketGone {
        bucket: u32,
        /// Drops both kinds where none is given.
        kind: Option<BucketKind>,
    },
    Put {
        bucket: u32,
        key: Vec<u8>,
        entry: Vec<u8>,
    },
    Taken {
        bucket: u32,
        key: Vec<u8>,
    },
    RangeTaken {
        bucket: u32,
        start: Vec<u8>,
        end: Option<Vec<u8>>,
    },
    ValueAdded {
        bucket: u32,
        key: Vec<u8>,
        value: Vec<u8>,
    },
    ValueRemoved {
        bucket: u32,
        key: Vec<u8>,
        value: Vec<u8>,
    },
    Sequence {
        bucket: u32,
        name: Vec<u8>,
        last: u64,
    },
    FileMade {
        file: Identity,
        created_ms: u64,
    },
    FileGone {
        file: Identity,
    },
    FileCalled {
        file: Identity,
        path: String,
    },
    FileSized {
        file: Identity,
        bytes: u64,
        modified_ms: u64,
    },
    ChunkPut {
        file: Identity,
        chunk: u64,
        bytes: Vec<u8>,
    },
    ChunksGone {
        file: Identity,
        from: u64,
    },
    FolderMade {
        path: String,
        created_ms: u64,
    },
    FolderGone {
        path: String,
    },
}

impl LogEntry {
    /// The stamp of everything that it puts.
    pub(crate) fn stamp(&self) -> Stamp {
        Stamp {
            dot: Dot {
                replica: self.origin,
                number: self.number,
                op: 0,
            },
            time: self.time,
        }
    }

    /// Whether its operations, in order, have seen a dot; of its own dots those of earlier operations.
    pub(crate) fn saw(&self, dot: Dot) -> bool {
        self.seen.covers(dot) || dot.replica == self.origin && dot.number == self.number
    }

    /// What it had seen of other replicas.
    pub(crate) fn seen_elsewhere(&self) -> Vector {
        let mut seen = self.seen.clone();
        seen.set(self.origin, 0, Vec::new());
        seen
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        push_id(&mut out, self.origin.0.into());
        push_id(&mut out, self.number);
        push_id(&mut out, self.time);
        self.seen.push_local(&mut out);
        self.ops.iter().for_each(|op| op.push(&mut out));
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DataError> {
        Self::parse(bytes).ok_or_else(|| malformed("an entry of the log"))
    }

    fn parse(mut bytes: &[u8]) -> Option<Self> {
        let rest = &mut bytes;
        if take_byte(rest)? != FORMAT {
            return None;
        }
        let mut entry = Self {
            origin: ReplicaNo(take_u32(rest)?),
            number: take_id(rest)?,
            time: take_id(rest)?,
            seen: Vector::take_local(rest)?,
            ops: Vec::new(),
        };
        while !rest.is_empty() {
            entry.ops.push(Op::take(rest)?);
        }
        Some(entry)
    }
}

impl Op {
    pub(crate) fn push(&self, out: &mut Vec<u8>) {
        match self {
            Self::NodeMade { node, labels, set } => {
                out.push(1);
                node.push(out);
                push_labels(labels, out);
                push_set(set, out);
            }
            Self::NodeChanged {
                node,
                added,
                removed,
                set,
                unset,
            } => {
                out.push(2);
                node.push(out);
                push_labels(added, out);
                push_labels(removed, out);
                push_set(set, out);
                push_props(unset, out);
            }
            Self::NodeGone { node } => {
                out.push(3);
                node.push(out);
            }
            Self::NodeKept {
                node,
                replaced,
                labels,
                carried,
            } => {
                out.push(17);
                node.push(out);
                push_dots(replaced, out);
                push_labels(labels, out);
                push_carried(carried, out);
            }
            Self::RelMade {
                rel,
                type_id,
                source,
                target,
                source_lives,
                target_lives,
                keeps_ends,
                set,
            } => {
                out.push(4);
                rel.push(out);
                push_id(out, type_id.0.into());
                source.push(out);
                target.push(out);
                push_dots(source_lives, out);
                push_dots(target_lives, out);
                out.push(u8::from(*keeps_ends));
                push_set(set, out);
            }
            Self::RelChanged { rel, set, unset } => {
                out.push(5);
                rel.push(out);
                push_set(set, out);
                push_props(unset, out);
            }
            Self::RelGone { rel } => {
                out.push(6);
                rel.push(out);
            }
            Self::Field {
                owner,
                op,
                place,
                action,
            } => {
                out.extend_from_slice(&[7, owner.space() as u8]);
                owner.identity().push(out);
                push_id(out, (*op).into());
                push_bytes(out, place);
                push_bytes(out, action);
            }
            Self::BucketMade { bucket, options } => {
                out.push(8);
                push_id(out, (*bucket).into());
                out.push(*options);
            }
            Self::BucketGone { bucket, kind } => {
                out.push(if kind.is_none() { 9 } else { 16 });
                push_id(out, (*bucket).into());
                out.extend(kind.map(|kind| u8::from(kind == BucketKind::Multi)));
            }
            Self::Put { bucket, key, entry } => {
                out.push(10);
                push_id(out, (*bucket).into());
                out.push(0);
                push_bytes(out, key);
                push_bytes(out, entry);
            }
            Self::Taken { bucket, key } => {
                out.push(11);
                push_id(out, (*bucket).into());
                push_bytes(out, key);
            }
            Self::RangeTaken { bucket, start, end } => {
                out.push(12);
                push_id(out, (*bucket).into());
                push_bytes(out, start);
                out.push(u8::from(end.is_some()));
                push_bytes(out, end.as_deref().unwrap_or_default());
            }
            Self::ValueAdded { bucket, key, value } | Self::ValueRemoved { bucket, key, value } => {
                out.push(match self {
                    Self::ValueAdded { .. } => 13,
                    _ => 14,
                });
                push_id(out, (*bucket).into());
                push_bytes(out, key);
                push_bytes(out, value);
            }
            Self::Sequence { bucket, name, last } => {
                out.push(15);
                push_id(out, (*bucket).into());
                push_bytes(out, name);
                push_id(out, *last);
            }
            Self::FileMade { file, created_ms } => {
                out.push(18);
                file.push(out);
                push_id(out, *created_ms);
            }
            Self::FileGone { file } => {
                out.push(19);
                file.push(out);
            }
            Self::FileCalled { file, path } => {
                out.push(20);
                file.push(out);
                push_bytes(out, path.as_bytes());
            }
            Self::FileSized {
                file,
                bytes,
                modified_ms,
            } => {
                out.push(21);
                file.push(out);
                push_id(out, *bytes);
                push_id(out, *modified_ms);
            }
            Self::ChunkPut { file, chunk, bytes } => {
                out.push(22);
                file.push(out);
                push_id(out, *chunk);
                push_bytes(out, bytes);
            }
            Self::ChunksGone { file, from } => {
                out.push(23);
                file.push(out);
                push_id(out, *from);
            }
            Self::FolderMade { path, created_ms } => {
                out.push(24);
                push_bytes(out, path.as_bytes());
                push_id(out, *created_ms);
            }
            Self::FolderGone { path } => {
                out.push(25);
                push_bytes(out, path.as_bytes());
            }
        }
    }

    pub(crate) fn take(rest: &mut &[u8]) -> Option<Self> {
        Some(match take_byte(rest)? {
            1 => Self::NodeMade {
                node: Identity::take(rest)?,
                labels: take_labels(rest)?,
                set: take_set(rest)?,
            },
            2 => Self::NodeChanged {
                node: Identity::take(rest)?,
                added: take_labels(rest)?,
                removed: take_labels(rest)?,
                set: take_set(rest)?,
                unset: take_props(rest)?,
            },
            3 => Self::NodeGone {
                node: Identity::take(rest)?,
            },
            17 => Self::NodeKept {
                node: Identity::take(rest)?,
                replaced: take_dots(rest)?,
                labels: take_labels(rest)?,
                carried: take_carried(rest)?,
            },
            4 => Self::RelMade {
                rel: Identity::take(rest)?,
                type_id: TypeId(take_u32(rest)?),
                source: Identity::take(rest)?,
                target: Identity::take(rest)?,
                source_lives: take_dots(rest)?,
                target_lives: take_dots(rest)?,
                keeps_ends: take_flag(rest)?,
                set: take_set(rest)?,
            },
            5 => Self::RelChanged {
                rel: Identity::take(rest)?,
                set: take_set(rest)?,
                unset: take_props(rest)?,
            },
            6 => Self::RelGone {
                rel: Identity::take(rest)?,
            },
            7 => Self::Field {
                owner: match take_byte(rest)? {
                    0 => Owner::Node(Identity::take(rest)?),
                    1 => Owner::Relationship(Identity::take(rest)?),
                    _ => return None,
                },
                op: take_u32(rest)?,
                place: take_bytes(rest)?.to_vec(),
                action: take_bytes(rest)?.to_vec(),
            },
            8 => Self::BucketMade {
                bucket: take_u32(rest)?,
                options: take_byte(rest)?,
            },
            9 => Self::BucketGone {
                bucket: take_u32(rest)?,
                kind: None,
            },
            16 => Self::BucketGone {
                bucket: take_u32(rest)?,
                kind: Some(match take_flag(rest)? {
                    false => BucketKind::Map,
                    true => BucketKind::Multi,
                }),
            },
            10 => {
                let bucket = take_u32(rest)?;
                take_byte(rest)?;
                Self::Put {
                    bucket,
                    key: take_bytes(rest)?.to_vec(),
                    entry: take_bytes(rest)?.to_vec(),
                }
            }
            11 => Self::Taken {
                bucket: take_u32(rest)?,
                key: take_bytes(rest)?.to_vec(),
            },
            12 => {
                let (bucket, start) = (take_u32(rest)?, take_bytes(rest)?.to_vec());
                let bounded = take_flag(rest)?;
                let end = take_bytes(rest)?.to_vec();
                Self::RangeTaken {
                    bucket,
                    start,
                    end: bounded.then_some(end),
                }
            }
            tag @ (13 | 14) => {
                let bucket = take_u32(rest)?;
                let (key, value) = (take_bytes(rest)?.to_vec(), take_bytes(rest)?.to_vec());
                match tag {
                    13 => Self::ValueAdded { bucket, key, value },
                    _ => Self::ValueRemoved { bucket, key, value },
                }
            }
            15 => Self::Sequence {
                bucket: take_u32(rest)?,
                name: take_bytes(rest)?.to_vec(),
                last: take_id(rest)?,
            },
            18 => Self::FileMade {
                file: Identity::take(rest)?,
                created_ms: take_id(rest)?,
            },
            19 => Self::FileGone {
                file: Identity::take(rest)?,
            },
            20 => Self::FileCalled {
                file: Identity::take(rest)?,
                path: take_text(rest)?,
            },
            21 => Self::FileSized {
                file: Identity::take(rest)?,
                bytes: take_id(rest)?,
                modified_ms: take_id(rest)?,
            },
            22 => Self::ChunkPut {
                file: Identity::take(rest)?,
                chunk: take_id(rest)?,
                bytes: take_bytes(rest)?.to_vec(),
            },
            23 => Self::ChunksGone {
                file: Identity::take(rest)?,
                from: take_id(rest)?,
            },
            24 => Self::FolderMade {
                path: take_text(rest)?,
                created_ms: take_id(rest)?,
            },
            25 => Self::FolderGone {
                path: take_text(rest)?,
            },
            _ => return None,
        })
    }
}

fn take_flag(bytes: &mut &[u8]) -> Option<bool> {
    match take_byte(bytes)? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

fn push_labels(labels: &[LabelId], out: &mut Vec<u8>) {
    push_id(out, labels.len() as u64);
    labels.iter().for_each(|label| push_id(out, label.0.into()));
}

fn take_labels(bytes: &mut &[u8]) -> Option<Vec<LabelId>> {
    (0..take_count(bytes)?)
        .map(|_| take_u32(bytes).map(LabelId))
        .collect()
}

fn push_props(props: &[PropId], out: &mut Vec<u8>) {
    push_id(out, props.len() as u64);
    props.iter().for_each(|prop| push_id(out, prop.0.into()));
}

fn take_props(bytes: &mut &[u8]) -> Option<Vec<PropId>> {
    (0..take_count(bytes)?)
        .map(|_| take_u32(bytes).map(PropId))
        .collect()
}

fn push_set(set: &[(PropId, Vec<u8>)], out: &mut Vec<u8>) {
    push_id(out, set.len() as u64);
    for (prop, value) in set {
        push_id(out, prop.0.into());
        push_bytes(out, value);
    }
}

fn push_carried(carried: &Carried, out: &mut Vec<u8>) {
    push_id(out, carried.len() as u64);
    for (prop, values) in carried {
        push_id(out, prop.0.into());
        push_id(out, values.len() as u64);
        for (time, value) in values {
            push_id(out, *time);
            push_bytes(out, value);
        }
    }
}

fn take_carried(bytes: &mut &[u8]) -> Option<Carried> {
    (0..take_count(bytes)?)
        .map(|_| {
            let prop = PropId(take_u32(bytes)?);
            let values = (0..take_count(bytes)?)
                .map(|_| Some((take_id(bytes)?, take_bytes(bytes)?.to_vec())));
            Some((prop, values.collect::<Option<_>>()?))
        })
        .collect()
}

fn take_set(bytes: &mut &[u8]) -> Option<Set> {
    (0..take_count(bytes)?)
        .map(|_| Some((PropId(take_u32(bytes)?), take_bytes(bytes)?.to_vec())))
        .collect()
}
