//! One transaction, as replicas exchange it.
//!
//! In the log of a database it has that database's numbers of names and replicas; `wire` replaces these by names.
//!
//! ```text
//! entry      u8 format (1), id replica, id number, id hybrid time, vector (what it had seen), operations to the end
//! operation  u8 tag:
//!   01 node created             identity, labels, properties
//!   02 node changed             identity, labels added, labels removed, properties set, properties removed
//!   03 node deleted             identity
//!   04 relationship created     identity, id type, identity source, identity target, dots source, dots target,
//!                               u8 keeps ends, properties
//!   05 relationship changed     identity, properties set, removed
//!   06 relationship deleted     identity
//!   07 field                    u8 owner (0 node, 1 relationship), identity, id number in the transaction,
//!                               bytes place, bytes action
//!   08 bucket created           id bucket, u8 options
//!   09 bucket dropped           id bucket
//!   0a put                      id bucket, u8 0, bytes key, bytes entry
//!   0b removed                  id bucket, bytes key
//!   0c range removed            id bucket, bytes start, u8 bounded, bytes end
//!   0d value added              id bucket, bytes key, bytes value
//!   0e value removed            id bucket, bytes key, bytes value
//!   0f sequence                 id bucket, bytes name, id last
//!   10 kind of a bucket dropped id bucket, u8 0 one value a key, 1 several
//!   11 node creation added      identity, dots replaced, labels, id number of properties, and as many: id property,
//!                               id number, and as many: id time, bytes value (see `endpoint_keepers`)
//!   12 file created             identity, id ms
//!   13 file deleted             identity
//!   14 file renamed             identity, bytes path
//!   15 file resized             identity, id bytes, id modified ms
//!   16 chunk put                identity, id chunk, bytes content
//!   17 chunks deleted           identity, id first
//!   18 folder created           bytes path, id ms
//!   19 folder deleted           bytes path
//! ```
//! Operations are in the order of the transaction. Each removes what its transaction had seen where it writes,
//! including its own earlier operations, and puts its item with the transaction's dot.

use isomer_data::{BucketKind, DataError, Dot, ReplicaNo, Vector};
use isomer_layout::{
    keyspace::{IdSpace, push_id, take_id},
    replicated::{
        codec::{malformed, push_bytes, take_byte, take_bytes, take_count, take_text, take_u32},
        identity::Identity,
    },
};
use isomer_value::{LabelId, PropId, TypeId};

use crate::{
    mapping::{self, Mapper},
    versions::{CopiedProperties, Set, Stamp},
};

/// A node or a relationship.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Owner {
    Node(Identity),
    Relationship(Identity),
}

impl Owner {
    pub(crate) fn space(&self) -> IdSpace {
        match self {
            Self::Node(_) => IdSpace::Nodes,
            Self::Relationship(_) => IdSpace::Relationships,
        }
    }

    pub(crate) fn identity(&self) -> &Identity {
        match self {
            Self::Node(identity) | Self::Relationship(identity) => identity,
        }
    }
}

const FORMAT: u8 = 1;
/// Bytes of an entry, at most: it is sent in one piece, and is one value of the engine.
pub(crate) const MAX_ENTRY_BYTES: usize = 64 << 20;

/// One transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogEntry {
    pub(crate) origin: ReplicaNo,
    pub(crate) number: u64,
    pub(crate) time: u64,
    pub(crate) seen: Vector,
    pub(crate) ops: Vec<Op>,
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

    /// Whether its operations, in order, have seen a dot. Of the entry's dots, only those of earlier operations count.
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
        debug_assert!(
            Self::parse(&out).as_ref() == Some(self),
            "an entry of the log is read as it was written"
        );
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DataError> {
        Self::parse(bytes).ok_or_else(|| malformed("an entry of the log"))
    }

    /// The entry in the numbers of another database, or of a page.
    pub(crate) fn mapped(&self, map: &mut impl Mapper) -> Result<Self, DataError> {
        Ok(Self {
            origin: map.replica(self.origin)?,
            number: self.number,
            time: self.time,
            seen: mapping::vector(map, &self.seen)?,
            ops: self
                .ops
                .iter()
                .map(|op| op.mapped(map))
                .collect::<Result<_, _>>()?,
        })
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

/// A byte that is written as 0, and not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reserved;

impl Section for Reserved {
    fn push(&self, out: &mut Vec<u8>) {
        out.push(0);
    }

    fn take(rest: &mut &[u8]) -> Option<Self> {
        take_byte(rest).map(|_| Self)
    }
}

impl Section for BucketKind {
    fn push(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self == Self::Multi));
    }

    fn take(rest: &mut &[u8]) -> Option<Self> {
        Some(match bool::take(rest)? {
            false => Self::Map,
            true => Self::Multi,
        })
    }
}

/// A part of an operation, as it is written and read.
trait Section: Sized {
    fn push(&self, out: &mut Vec<u8>);
    fn take(rest: &mut &[u8]) -> Option<Self>;
}

/// Parts that are written as an `id`: their numbers, and how they are made of one.
macro_rules! number_parts {
    ($($part:ty: $number:ty, $get:expr, $make:expr;)*) => {$(
        impl Section for $part {
            fn push(&self, out: &mut Vec<u8>) {
                let get: fn(&Self) -> $number = $get;
                push_id(out, get(self).into());
            }

            fn take(rest: &mut &[u8]) -> Option<Self> {
                <$number>::try_from(take_id(rest)?).ok().map($make)
            }
        }
    )*};
}

number_parts! {
    u32: u32, |own| *own, |number| number;
    u64: u64, |own| *own, |number| number;
    LabelId: u32, |own| own.0, LabelId;
    TypeId: u32, |own| own.0, TypeId;
    PropId: u32, |own| own.0, PropId;
}

/// Options of a bucket.
impl Section for u8 {
    fn push(&self, out: &mut Vec<u8>) {
        out.push(*self);
    }

    fn take(rest: &mut &[u8]) -> Option<Self> {
        take_byte(rest)
    }
}

impl Section for bool {
    fn push(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn take(rest: &mut &[u8]) -> Option<Self> {
        match take_byte(rest)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Section for Vec<u8> {
    fn push(&self, out: &mut Vec<u8>) {
        push_bytes(out, self);
    }

    fn take(rest: &mut &[u8]) -> Option<Self> {
        Some(take_bytes(rest)?.to_vec())
    }
}

impl Section for String {
    fn push(&self, out: &mut Vec<u8>) {
        push_bytes(out, self.as_bytes());
    }

    fn take(rest: &mut &[u8]) -> Option<Self> {
        take_text(rest)
    }
}

/// The end of a range: whether there is one, and its bytes, which are empty otherwise.
impl Section for Option<Vec<u8>> {
    fn push(&self, out: &mut Vec<u8>) {
        Section::push(&self.is_some(), out);
        push_bytes(out, self.as_deref().unwrap_or_default());
    }

    fn take(rest: &mut &[u8]) -> Option<Self> {
        let bounded = bool::take(rest)?;
        let end = take_bytes(rest)?.to_vec();
        Some(bounded.then_some(end))
    }
}

impl<A: Section, B: Section> Section for (A, B) {
    fn push(&self, out: &mut Vec<u8>) {
        self.0.push(out);
        self.1.push(out);
    }

    fn take(rest: &mut &[u8]) -> Option<Self> {
        Some((A::take(rest)?, B::take(rest)?))
    }
}

/// Lists: their length, and their items.
macro_rules! list_parts {
    ($($item:ty),*) => {$(
        impl Section for Vec<$item> {
            fn push(&self, out: &mut Vec<u8>) {
                push_id(out, self.len() as u64);
                self.iter().for_each(|one| Section::push(one, out));
            }

            fn take(rest: &mut &[u8]) -> Option<Self> {
                (0..take_count(rest)?).map(|_| <$item>::take(rest)).collect()
            }
        }
    )*};
}

list_parts! { LabelId, PropId, Dot, (PropId, Vec<u8>), (u64, Vec<u8>), (PropId, Vec<(u64, Vec<u8>)>) }

impl Section for Dot {
    fn push(&self, out: &mut Vec<u8>) {
        Dot::push(*self, out);
    }

    fn take(rest: &mut &[u8]) -> Option<Self> {
        Dot::take(rest)
    }
}

impl Section for Identity {
    fn push(&self, out: &mut Vec<u8>) {
        Identity::push(self, out);
    }

    fn take(rest: &mut &[u8]) -> Option<Self> {
        Identity::take(rest)
    }
}

impl Section for Owner {
    fn push(&self, out: &mut Vec<u8>) {
        out.push(self.space() as u8);
        self.identity().push(out);
    }

    fn take(rest: &mut &[u8]) -> Option<Self> {
        Some(match take_byte(rest)? {
            0 => Self::Node(Identity::take(rest)?),
            1 => Self::Relationship(Identity::take(rest)?),
            _ => return None,
        })
    }
}

/// The numbers of parts in another database, by the name that the list of operations gives them.
mod numbers {
    use crate::mapping::Mapper;
    pub(super) use crate::mapping::{
        action, bucket, bucket_entry_of as entry, carried, dots, identity, labels, place, props,
        same, set, type_of as type_id,
    };
    use isomer_data::DataError;

    use super::Owner;

    pub(super) fn owner(map: &mut impl Mapper, owner: &Owner) -> Result<Owner, DataError> {
        Ok(match owner {
            Owner::Node(node) => Owner::Node(identity(map, node)?),
            Owner::Relationship(rel) => Owner::Relationship(identity(map, rel)?),
        })
    }
}

/// Generates [`Op`] and how it is written, read, and given the numbers of another database, from one list: a tag, a
/// variant, and its fields in their order, each with its type and its function in [`numbers`].
macro_rules! operations {
    ($($(#[$doc:meta])* $tag:literal $name:ident { $($field:ident: $type:ty => $number:ident),* $(,)? })*) => {
        /// One operation.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub(crate) enum Op {
            $($(#[$doc])* $name { $($field: $type),* },)*
        }

        impl Op {
            /// All tags.
            #[cfg(test)]
            pub(crate) const TAGS: &[u8] = &[$($tag),*];

            pub(crate) fn push(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$name { $($field),* } => {
                        out.push($tag);
                        $(Section::push($field, out);)*
                    })*
                }
            }

            #[deny(unreachable_patterns)]
            pub(crate) fn take(rest: &mut &[u8]) -> Option<Self> {
                Some(match take_byte(rest)? {
                    $($tag => Self::$name { $($field: Section::take(rest)?),* },)*
                    _ => return None,
                })
            }

            /// The operation in the numbers of another database.
            fn mapped(&self, map: &mut impl Mapper) -> Result<Self, DataError> {
                Ok(match self {
                    $(Self::$name { $($field),* } => Self::$name {
                        $($field: numbers::$number(map, $field)?),*
                    },)*
                })
            }
        }
    };
}

operations! {
    0x01 NodeCreated { node: Identity => identity, labels: Vec<LabelId> => labels, set: Set => set }
    0x02 NodeChanged {
        node: Identity => identity,
        added: Vec<LabelId> => labels,
        removed: Vec<LabelId> => labels,
        set: Set => set,
        unset: Vec<PropId> => props,
    }
    0x03 NodeDeleted { node: Identity => identity }
    0x04 RelCreated {
        rel: Identity => identity,
        type_id: TypeId => type_id,
        source: Identity => identity,
        target: Identity => identity,
        source_creations: Vec<Dot> => dots,
        target_creations: Vec<Dot> => dots,
        keeps_ends: bool => same,
        set: Set => set,
    }
    0x05 RelChanged { rel: Identity => identity, set: Set => set, unset: Vec<PropId> => props }
    0x06 RelDeleted { rel: Identity => identity }
    0x07 Field { owner: Owner => owner, op: u32 => same, place: Vec<u8> => place, action: Vec<u8> => action }
    0x08 BucketCreated { bucket: u32 => bucket, options: u8 => same }
    /// Drops the values of both kinds.
    0x09 BucketDropped { bucket: u32 => bucket }
    0x0a Put { bucket: u32 => bucket, reserved: Reserved => same, key: Vec<u8> => same, entry: Vec<u8> => entry }
    0x0b Taken { bucket: u32 => bucket, key: Vec<u8> => same }
    0x0c RangeTaken { bucket: u32 => bucket, start: Vec<u8> => same, end: Option<Vec<u8>> => same }
    0x0d ValueAdded { bucket: u32 => bucket, key: Vec<u8> => same, value: Vec<u8> => same }
    0x0e ValueRemoved { bucket: u32 => bucket, key: Vec<u8> => same, value: Vec<u8> => same }
    0x0f Sequence { bucket: u32 => bucket, name: Vec<u8> => same, last: u64 => same }
    0x10 KindDropped { bucket: u32 => bucket, kind: BucketKind => same }
    0x11 NodeCreationAdded {
        node: Identity => identity,
        replaced: Vec<Dot> => dots,
        labels: Vec<LabelId> => labels,
        carried: CopiedProperties => carried,
    }
    0x12 FileCreated { file: Identity => identity, created_ms: u64 => same }
    0x13 FileDeleted { file: Identity => identity }
    0x14 FileRenamed { file: Identity => identity, path: String => same }
    0x15 FileResized { file: Identity => identity, bytes: u64 => same, modified_ms: u64 => same }
    0x16 ChunkPut { file: Identity => identity, chunk: u64 => same, bytes: Vec<u8> => same }
    0x17 ChunksDeleted { file: Identity => identity, from: u64 => same }
    0x18 FolderCreated { path: String => same, created_ms: u64 => same }
    0x19 FolderDeleted { path: String => same }
}
