//! Looking values up in an index.

use std::ops::Bound;

use isomer_layout::{
    DataError,
    catalog::{
        Catalog,
        schema::{IndexDef, IndexState, RecordScope},
    },
    graph::rows::RelRow,
    keyspace::{self, after_prefix, entry_record, entry_relationship},
};
use isomer_storage::{KeyRange, Page, PageLimit};
use isomer_value::{IndexId, NodeId, Value, key};

use crate::{IndexCursor, IndexSeek, Indexes, footprint::Space, read::RemainingRange};

/// Start (inclusive) and end (exclusive) of encoded values.
pub(crate) type Span = (Vec<u8>, Vec<u8>);

impl Indexes<'_> {
    pub(crate) fn seek(
        self,
        seek: &IndexSeek<'_>,
        cursor: &mut IndexCursor,
        limit: usize,
        out: &mut Vec<NodeId>,
    ) -> Result<(), DataError> {
        let RecordScope::Label(_) = usable_index(self.tx.names(), seek.index)?.scope else {
            return Err(self.other_scope(seek, "nodes"));
        };
        self.each_entry(seek, cursor, limit, |key, value| {
            out.push(NodeId(entry_record(key, value)?));
            Ok(())
        })
    }

    pub(crate) fn seek_relationships(
        self,
        seek: &IndexSeek<'_>,
        cursor: &mut IndexCursor,
        limit: usize,
        out: &mut Vec<RelRow>,
    ) -> Result<(), DataError> {
        let RecordScope::Type(type_id) = usable_index(self.tx.names(), seek.index)?.scope else {
            return Err(self.other_scope(seek, "relationships"));
        };
        self.each_entry(seek, cursor, limit, |key, value| {
            let (id, source, target) = entry_relationship(key, value)?;
            out.push(RelRow {
                id,
                type_id,
                source,
                target,
            });
            Ok(())
        })
    }

    fn other_scope(self, seek: &IndexSeek<'_>, wanted: &str) -> DataError {
        DataError::invalid(format!("index number {} is not over {wanted}", seek.index))
    }

    /// Calls `visit` with the next at most `limit` entries of a seek.
    fn each_entry(
        self,
        seek: &IndexSeek<'_>,
        cursor: &mut IndexCursor,
        limit: usize,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        if cursor.done {
            return Ok(());
        }
        if cursor.rest.is_none() {
            cursor.rest = self.seek_range(seek)?;
        }
        let mut page = Page::new();
        let mut left = limit;
        while left > 0 {
            let Some((start, end)) = cursor.rest.take() else {
                break;
            };
            let limit = PageLimit {
                keys: left.min(8192),
                bytes: 1 << 20,
            };
            self.tx.read().scan(
                KeyRange {
                    start: &start,
                    end: end.as_deref(),
                },
                seek.order,
                limit,
                &mut page,
            )?;
            for (key, value) in page.iter() {
                visit(key, value)?;
            }
            left -= page.len();
            cursor.rest = page
                .next()
                .map(|next| (next.start.to_vec(), next.end.map(<[u8]>::to_vec)));
        }
        cursor.done = cursor.rest.is_none();
        Ok(())
    }

    /// The range of keys that a seek covers, with the observation; `None` where nothing can match.
    fn seek_range(self, seek: &IndexSeek<'_>) -> Result<Option<RemainingRange>, DataError> {
        let index = usable_index(self.tx.names(), seek.index)?;
        if self.tx.store().is_given_up(index.id)
            && self.tx.read().get(&keyspace::given_up(index.id))?.is_some()
        {
            return Err(DataError::invalid(format!(
                "index {} was given up: a replica made convergent fields that it cannot hold; drop it",
                index.name
            )));
        }
        let bounded = !matches!(seek.range, (Bound::Unbounded, Bound::Unbounded));
        if seek.prefix.len() + usize::from(bounded) > index.fields.len() {
            return Err(DataError::invalid(format!(
                "index {} has {} fields, the seek names more",
                index.name,
                index.fields.len()
            )));
        }
        let bounds = [seek.range.0, seek.range.1];
        let absent = |value: &Value| {
            value.is_null()
                || matches!(
                    value,
                    Value::Node(_) | Value::Relationship(_) | Value::Path(_)
                )
        };
        let named = bounds.iter().filter_map(|bound| match bound {
            Bound::Included(value) | Bound::Excluded(value) => Some(*value),
            Bound::Unbounded => None,
        });
        if seek.prefix.iter().chain(named).any(absent) {
            return Ok(None); // nothing compares with null, and entities are never stored
        }
        let space = Space::Index(index.id.0);
        let prefix = key::encode_all(seek.prefix)?;
        let base = keyspace::entries_of(index.id);
        let stored = |relative: &[u8]| [&base[..], relative].concat();
        if !bounded {
            if seek.prefix.is_empty() {
                self.tx.footprint().read_range(space, &[], None);
            } else {
                self.tx
                    .footprint()
                    .read_fields(space, seek.prefix.len(), &prefix);
            }
            return Ok(Some((stored(&prefix), after_prefix(&stored(&prefix)))));
        }
        let (start, end) = match value_range(&prefix, seek.range)? {
            Some(range) => range,
            None => return Ok(None),
        };
        self.tx.footprint().read_range(space, &start, Some(&end));
        Ok(Some((stored(&start), Some(stored(&end)))))
    }
}

/// An index that is complete.
fn usable_index(catalog: &Catalog, id: IndexId) -> Result<&IndexDef, DataError> {
    let index = catalog.index(id);
    index
        .filter(|index| index.state == IndexState::Ready)
        .ok_or_else(|| DataError::NotFound(format!("there is no usable index number {id}")))
}

/// Encoded start (inclusive) and end (exclusive) of a range of values behind `prefix`; `None` if it is empty. An
/// open side extends to the end of the kind of values of the other side.
pub(crate) fn value_range(
    prefix: &[u8],
    range: (Bound<&Value>, Bound<&Value>),
) -> Result<Option<Span>, DataError> {
    let encode = |value: &Value| -> Result<Vec<u8>, DataError> {
        let mut bytes = prefix.to_vec();
        key::encode_into(value, &mut bytes)?;
        Ok(bytes)
    };
    let kind = |value: &Value| -> Result<(Vec<u8>, Vec<u8>), DataError> {
        let (first, last) = kind_tags(&key::encode(value)?);
        Ok(([prefix, &[first]].concat(), [prefix, &[last + 1]].concat()))
    };
    let after = |bytes: Vec<u8>| after_prefix(&bytes).unwrap_or(bytes); // values begin below ff, so there is one
    let (start, end) = match range {
        (Bound::Unbounded, Bound::Unbounded) => {
            return Ok(Some((prefix.to_vec(), after(prefix.to_vec()))));
        }
        (Bound::Included(low), Bound::Unbounded) => (encode(low)?, kind(low)?.1),
        (Bound::Excluded(low), Bound::Unbounded) => (after(encode(low)?), kind(low)?.1),
        (Bound::Unbounded, Bound::Included(high)) => (kind(high)?.0, after(encode(high)?)),
        (Bound::Unbounded, Bound::Excluded(high)) => (kind(high)?.0, encode(high)?),
        (low, high) => {
            let start = match low {
                Bound::Excluded(low) => after(encode(low)?),
                Bound::Included(low) => encode(low)?,
                Bound::Unbounded => prefix.to_vec(),
            };
            let end = match high {
                Bound::Included(high) => after(encode(high)?),
                Bound::Excluded(high) => encode(high)?,
                Bound::Unbounded => after(prefix.to_vec()),
            };
            (start, end)
        }
    };
    Ok((start < end).then_some((start, end)))
}

/// First and last tag byte of the values that compare with one that begins like this: booleans have two tags, and so
/// have numbers, whose NaN compares with nothing and is left out.
fn kind_tags(encoded: &[u8]) -> (u8, u8) {
    match encoded.first() {
        Some(0x40 | 0x41) => (0x40, 0x41),
        Some(&tag) => (tag, tag),
        None => (0, 0xfe),
    }
}
