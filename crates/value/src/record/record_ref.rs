//! Reads a record in place: one field at a time, or all of them.

use super::{
    format::{KIND_NODE, KIND_RELATIONSHIP, WHAT, corrupt},
    payload::{self, decode_value},
};
use crate::{LabelId, Map, Names, NodeId, PropId, TypeId, Value, ValueError, bytes::Reader};

/// A record in encoded form. Construction reads only the header; every access validates what it reads.
#[derive(Clone, Copy, Debug)]
pub struct RecordRef<'a> {
    /// All bytes of the record.
    pub(super) bytes: &'a [u8],
    head: Head<'a>,
    id_width: usize,
    end_width: usize,
    ids: &'a [u8],
    ends: &'a [u8],
    pub(super) values: &'a [u8],
}

#[derive(Clone, Copy, Debug)]
enum Head<'a> {
    Node {
        labels: &'a [u8],
    },
    Relationship {
        type_id: TypeId,
        source: NodeId,
        target: NodeId,
    },
}

impl<'a> RecordRef<'a> {
    /// Reads the header and locates the directory.
    ///
    /// # Errors
    /// `Corrupt` if the bytes do not start with a valid header.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, ValueError> {
        let mut reader = Reader::new(bytes, WHAT);
        let shape = reader.u8()?;
        let head = match shape >> 4 {
            KIND_NODE => {
                let count = reader.length()?;
                let start = reader.position();
                for _ in 0..count {
                    reader.varint_u32()?;
                }
                Head::Node {
                    labels: &bytes[start..reader.position()],
                }
            }
            KIND_RELATIONSHIP => Head::Relationship {
                type_id: TypeId(reader.varint_u32()?),
                source: NodeId(reader.varint()?),
                target: NodeId(reader.varint()?),
            },
            _ => return Err(corrupt(0, "its kind is unknown")),
        };
        let (id_width, end_width) = match (shape & 3, shape >> 2 & 3) {
            (id @ 0..=2, end @ 0..=2) => (1 << id, 1 << end),
            _ => return Err(corrupt(0, "the width of its directory is unknown")),
        };
        let count = reader.length()?;
        let ids = reader.take(count * id_width)?;
        let ends = reader.take(count * end_width)?;
        let values = reader.take(reader.remaining())?;
        Ok(Self {
            bytes,
            head,
            id_width,
            end_width,
            ids,
            ends,
            values,
        })
    }

    /// The labels of a node, ascending; empty for a relationship.
    pub fn labels(&self) -> impl Iterator<Item = LabelId> + 'a {
        let mut reader = Reader::new(
            match self.head {
                Head::Node { labels } => labels,
                Head::Relationship { .. } => &[],
            },
            WHAT,
        );
        std::iter::from_fn(move || reader.varint_u32().ok().map(LabelId)) // validated by `new`
    }

    /// Whether the node has this label.
    pub fn has_label(&self, label: LabelId) -> bool {
        self.labels().any(|own| own == label)
    }

    /// Type, source and target of a relationship; `None` for a node.
    pub fn endpoints(&self) -> Option<(TypeId, NodeId, NodeId)> {
        match self.head {
            Head::Node { .. } => None,
            Head::Relationship {
                type_id,
                source,
                target,
            } => Some((type_id, source, target)),
        }
    }

    /// Number of properties.
    pub fn len(&self) -> usize {
        self.ids.len() / self.id_width
    }

    /// Whether there are no properties.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The value of one property, decoded in full.
    ///
    /// # Errors
    /// `Corrupt` if the value's bytes are damaged.
    #[inline]
    pub fn get(&self, prop: PropId, names: &dyn Names) -> Result<Option<Value>, ValueError> {
        self.get_raw(prop)?
            .map(|raw| decode_value(raw, names))
            .transpose()
    }

    /// The value at a path of names through nested maps; `None` if an element is missing or is not a map.
    ///
    /// # Errors
    /// `Corrupt` if the bytes on the way are damaged.
    pub fn get_path(
        &self,
        path: &[PropId],
        names: &dyn Names,
    ) -> Result<Option<Value>, ValueError> {
        let Some((first, rest)) = path.split_first() else {
            return Ok(None);
        };
        let Some(mut raw) = self.get_raw(*first)? else {
            return Ok(None);
        };
        for step in rest {
            match payload::map_entry(raw, *step)? {
                Some(entry) => raw = entry,
                None => return Ok(None),
            }
        }
        decode_value(raw, names).map(Some)
    }

    /// The encoded value of one property, as [`decode_value`] and
    /// [`RecordBuilder::put_raw`](super::RecordBuilder::put_raw) accept it.
    ///
    /// # Errors
    /// `Corrupt` if the directory is damaged there.
    #[inline]
    pub fn get_raw(&self, prop: PropId) -> Result<Option<&'a [u8]>, ValueError> {
        self.find(prop)
            .map(|index| self.value_at(index))
            .transpose()
    }

    /// Every property with its encoded value, in the order of their ids.
    pub fn iter_raw(&self) -> impl Iterator<Item = Result<(PropId, &'a [u8]), ValueError>> {
        (0..self.len()).map(|index| Ok((self.id_at(index), self.value_at(index)?)))
    }

    /// Every property with its value, in the order of their ids.
    pub fn iter(
        &self,
        names: &dyn Names,
    ) -> impl Iterator<Item = Result<(PropId, Value), ValueError>> {
        self.iter_raw().map(move |field| {
            let (prop, raw) = field?;
            Ok((prop, decode_value(raw, names)?))
        })
    }

    /// All properties by name.
    ///
    /// # Errors
    /// `Corrupt` if the bytes are damaged or a property has no name.
    pub fn properties(&self, names: &dyn Names) -> Result<Map, ValueError> {
        let mut entries = Vec::with_capacity(self.len());
        for field in self.iter(names) {
            let (prop, value) = field?;
            let name = names
                .name(prop)
                .ok_or_else(|| corrupt(0, "a property has no name"))?;
            entries.push((name, value));
        }
        Ok(entries.into_iter().collect())
    }

    /// Validates everything: labels, ids and ends ascend, every value decodes, no bytes are left over.
    ///
    /// # Errors
    /// `Corrupt` at the first damage.
    pub fn check(&self, names: &dyn Names) -> Result<(), ValueError> {
        if !self.labels().is_sorted_by(|a, b| a < b) {
            return Err(corrupt(1, "its labels are not sorted"));
        }
        let ids = (0..self.len()).map(|index| self.id_at(index));
        if !ids.is_sorted_by(|a, b| a < b) {
            return Err(corrupt(1, "its property ids are not sorted"));
        }
        let end = self
            .len()
            .checked_sub(1)
            .map_or(0, |last| self.end_at(last));
        if end != self.values.len() {
            return Err(corrupt(1, "its directory does not end where its values do"));
        }
        self.properties(names).map(drop)
    }

    #[inline]
    fn find(&self, prop: PropId) -> Option<usize> {
        if self.id_width == 1 {
            // Counting the smaller ids without an early exit compiles to a handful of vector instructions. At
            // most 255 distinct byte values are below another.
            let id = u8::try_from(prop.0).ok()?;
            let smaller = self
                .ids
                .iter()
                .fold(0_u8, |count, own| count.wrapping_add(u8::from(*own < id)));
            return (self.ids.get(usize::from(smaller)) == Some(&id)).then_some(smaller.into());
        }
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.id_at(middle).cmp(&prop) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Some(middle),
            }
        }
        None
    }

    pub(super) fn id_at(&self, index: usize) -> PropId {
        PropId(read_uint(self.ids, self.id_width, index))
    }

    #[inline]
    fn end_at(&self, index: usize) -> usize {
        read_uint(self.ends, self.end_width, index) as usize
    }

    #[inline]
    fn value_at(&self, index: usize) -> Result<&'a [u8], ValueError> {
        let start = index.checked_sub(1).map_or(0, |before| self.end_at(before));
        self.values
            .get(start..self.end_at(index))
            .ok_or_else(|| corrupt(1, "its directory points past the end"))
    }
}

/// Entry `index` of an array of little-endian integers; the caller keeps it within bounds.
#[inline]
fn read_uint(array: &[u8], width: usize, index: usize) -> u32 {
    let at = index * width;
    match width {
        1 => array[at].into(),
        2 => u16::from_le_bytes([array[at], array[at + 1]]).into(),
        _ => u32::from_le_bytes([array[at], array[at + 1], array[at + 2], array[at + 3]]),
    }
}
