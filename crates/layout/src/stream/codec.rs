//! Writing and reading the operations of an entry.

use isomer_value::{LabelId, NodeId, PropId, RelId, TypeId};

use crate::{
    DataError,
    convergent::{
        clock::{ReplicaNo, Vector},
        position::ConvergentOwner,
    },
    keyspace::{push_id, take_id},
    kv::content::Content,
    stream::change::{Change, ChangeSet, Deltas, FORMAT},
};

impl<'a> ChangeSet<'a> {
    /// Decodes an entry of the change stream.
    ///
    /// # Errors
    /// [`DataError::Corrupt`] if the bytes are not an entry; never a panic.
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
        let mut entry = crate::stream::change::head(&deltas);
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
pub fn counts(bytes: &[u8]) -> Result<Deltas, DataError> {
    Ok(split_head(bytes)?.0)
}

/// The operations of an entry without its head.
pub fn operations(bytes: &[u8]) -> Result<Vec<Change<'_>>, DataError> {
    Changes(bytes).collect()
}

/// A part of an operation, as it is written and read.
trait Part<'a>: Sized {
    fn push(&self, out: &mut Vec<u8>);
    fn take(rest: &mut &'a [u8]) -> Option<Self>;
}

/// Parts that are written as an `id`: their numbers, and how they are made of one.
macro_rules! number_parts {
    ($($part:ty: $number:ty, $get:expr, $make:expr;)*) => {$(
        impl Part<'_> for $part {
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
    NodeId: u64, |own| own.0, NodeId;
    RelId: u64, |own| own.0, RelId;
    LabelId: u32, |own| own.0, LabelId;
    TypeId: u32, |own| own.0, TypeId;
    PropId: u32, |own| own.0, PropId;
    ReplicaNo: u32, |own| own.0, ReplicaNo;
}

impl Part<'_> for bool {
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

impl<'a> Part<'a> for &'a [u8] {
    fn push(&self, out: &mut Vec<u8>) {
        push_id(out, self.len() as u64);
        out.extend_from_slice(self);
    }

    fn take(rest: &mut &'a [u8]) -> Option<Self> {
        let length = usize::try_from(take_id(rest)?).ok()?;
        let (taken, left) = rest.split_at_checked(length)?;
        *rest = left;
        Some(taken)
    }
}

/// The end of a range: whether there is one, and its bytes, which are empty otherwise.
impl<'a> Part<'a> for Option<&'a [u8]> {
    fn push(&self, out: &mut Vec<u8>) {
        self.is_some().push(out);
        self.unwrap_or_default().push(out);
    }

    fn take(rest: &mut &'a [u8]) -> Option<Self> {
        let bounded = bool::take(rest)?;
        let end = <&[u8]>::take(rest)?;
        Some(bounded.then_some(end))
    }
}

impl<'a, A: Part<'a>, B: Part<'a>> Part<'a> for (A, B) {
    fn push(&self, out: &mut Vec<u8>) {
        self.0.push(out);
        self.1.push(out);
    }

    fn take(rest: &mut &'a [u8]) -> Option<Self> {
        Some((A::take(rest)?, B::take(rest)?))
    }
}

impl<'a, T: Part<'a>> Part<'a> for Vec<T> {
    fn push(&self, out: &mut Vec<u8>) {
        push_id(out, self.len() as u64);
        self.iter().for_each(|one| one.push(out));
    }

    fn take(rest: &mut &'a [u8]) -> Option<Self> {
        (0..take_id(rest)?).map(|_| T::take(rest)).collect()
    }
}

impl Part<'_> for ConvergentOwner {
    fn push(&self, out: &mut Vec<u8>) {
        let (space, id) = self.parts();
        out.push(space as u8);
        push_id(out, id);
    }

    fn take(rest: &mut &[u8]) -> Option<Self> {
        Some(match take_byte(rest)? {
            0 => Self::Node(NodeId::take(rest)?),
            1 => Self::Relationship(RelId::take(rest)?),
            _ => return None,
        })
    }
}

impl Part<'_> for Vector {
    fn push(&self, out: &mut Vec<u8>) {
        self.push_local(out);
    }

    fn take(rest: &mut &[u8]) -> Option<Self> {
        Self::take_local(rest)
    }
}

/// Generates how operations are written and read from one list: a tag, a variant, and its fields in their order. Where
/// the tag names the kind of a value, it is followed by that kind.
///
/// A variant or a field that the list lacks, and a tag that it has twice, do not compile. The list is not merged with
/// the declaration of [`Change`]: that is public, and two of its variants have three tags each.
macro_rules! operations {
    ($($tag:literal $(($($fixed:ident: $value:path),*))? $name:ident { $($field:ident),* })*) => {
        impl Change<'_> {
            /// Appends the operation.
            #[doc(hidden)]
            pub fn push(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$name { $($($fixed: $value,)*)? $($field),* } => {
                        out.push($tag);
                        $(Part::push($field, out);)*
                    })*
                }
            }
        }

        /// All tags.
        #[cfg(test)]
        pub const TAGS: &[u8] = &[$($tag),*];

        #[deny(unreachable_patterns)]
        fn take_change<'a>(rest: &mut &'a [u8]) -> Option<Change<'a>> {
            Some(match take_byte(rest)? {
                $($tag => Change::$name { $($($fixed: $value,)*)? $($field: Part::take(rest)?),* },)*
                _ => return None,
            })
        }
    };
}

operations! {
    0x01 NodeCreated { id, record }
    0x02 NodeChanged { id, labels_added, labels_removed, set, removed }
    0x03 NodeDeleted { id, labels, key }
    0x04 RelationshipCreated { id, record }
    0x05 RelationshipChanged { id, type_id, set, removed }
    0x06 RelationshipDeleted { id, type_id, source, target }
    0x07 (content: Content::Bytes) KeyPut { bucket, key, value }
    0x08 KeyDeleted { bucket, key }
    0x09 KeysDeleted { bucket, start, end }
    0x0a NodesLoaded { label, first, count }
    0x0b RelationshipsLoaded { type_id, first, count }
    0x0c SchemaChanged { name }
    0x0d (content: Content::Bytes) KeyPutUntil { bucket, key, value, expires_ms }
    0x0e ValueAdded { bucket, key, value }
    0x0f ValueRemoved { bucket, key, value }
    0x10 BucketCreated { bucket, multi, reversible }
    0x11 BucketDropped { bucket }
    0x12 SequenceAdvanced { bucket, name, last }
    0x13 (content: Content::Text) KeyPut { bucket, key, value }
    0x14 (content: Content::Value) KeyPut { bucket, key, value }
    0x15 (content: Content::Text) KeyPutUntil { bucket, key, value, expires_ms }
    0x16 (content: Content::Value) KeyPutUntil { bucket, key, value, expires_ms }
    0x17 FileNamed { folder, name, is_folder, number }
    0x18 FileUnnamed { folder, name }
    0x19 FileChanged { file, size, created_ms, modified_ms }
    0x1a FileWritten { file, offset, bytes }
    0x1b FileRemoved { file }
    0x20 Converged { owner, op, place, action }
    0x21 ConvergedBy { replica, number, time, seen }
    0x22 FieldMerged { owner, prop }
}

/// A byte from the front of `bytes`.
pub fn take_byte(bytes: &mut &[u8]) -> Option<u8> {
    let (&first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(first)
}
