//! Decodes many records, one after another.

use std::{cell::RefCell, sync::Arc};

use rustc_hash::FxHashMap;

use super::{format::corrupt, payload::decode_value, record_ref::RecordRef};
use crate::{Map, Names, PropId, Value, ValueError};

/// Number of cached shapes (sets of properties): most records of a label have one of a small number of
/// shapes.
const SHAPES: usize = 8;

/// Decodes records into maps, for one thread.
///
/// Work that records share is done once: the decoder has its own string per name, so that threads decoding
/// concurrently do not contend for reference counts, and it computes the name order of a set of properties
/// when it first meets that set. Memory: the names it has met.
pub struct RecordDecoder<'n> {
    names: &'n dyn Names,
    shapes: Shapes,
}

/// State shared by the decoded records.
#[derive(Default)]
pub(super) struct Shapes {
    /// Names, each copied once.
    copies: RefCell<FxHashMap<PropId, Arc<str>>>,
    shapes: Vec<Shape>,
    /// The values of a record, in the order of the properties' ids.
    values: Vec<Value>,
}

/// The set of properties of a record.
struct Shape {
    ids: Vec<PropId>,
    /// Names in order, each with its index among the ids.
    order: Vec<(Arc<str>, u32)>,
}

struct CopiedNames<'n> {
    names: &'n dyn Names,
    copies: &'n RefCell<FxHashMap<PropId, Arc<str>>>,
}

impl Names for CopiedNames<'_> {
    fn name(&self, prop: PropId) -> Option<Arc<str>> {
        let mut copies = self.copies.borrow_mut();
        if let Some(copy) = copies.get(&prop) {
            return Some(copy.clone());
        }
        let copy: Arc<str> = Arc::from(&*self.names.name(prop)?);
        copies.insert(prop, copy.clone());
        Some(copy)
    }
}

impl<'n> RecordDecoder<'n> {
    /// A decoder with these names.
    pub fn new(names: &'n dyn Names) -> Self {
        Self {
            names,
            shapes: Shapes::default(),
        }
    }

    /// Like [`RecordRef::properties`].
    ///
    /// # Errors
    /// `Corrupt` if the bytes are damaged or a property has no name.
    pub fn properties(&mut self, record: &RecordRef<'_>) -> Result<Map, ValueError> {
        self.shapes.properties(record, self.names)
    }
}

impl Shapes {
    pub(super) fn properties(
        &mut self,
        record: &RecordRef<'_>,
        names: &dyn Names,
    ) -> Result<Map, ValueError> {
        let shape = self.shape(record, names)?;
        self.values.clear();
        let names = CopiedNames {
            names,
            copies: &self.copies,
        };
        for field in record.iter_raw() {
            let (_, raw) = field?;
            self.values.push(decode_value(raw, &names)?);
        }
        let entries = self.shapes[shape].order.iter().map(|(name, at)| {
            let value = std::mem::take(&mut self.values[*at as usize]);
            (name.clone(), value)
        });
        Ok(Map::from_sorted(entries.collect()))
    }

    /// The index of the record's shape; a new shape replaces the least recently used one.
    fn shape(&mut self, record: &RecordRef<'_>, names: &dyn Names) -> Result<usize, ValueError> {
        let ids = || (0..record.len()).map(|index| record.id_at(index));
        let same = |shape: &Shape| shape.ids.iter().copied().eq(ids());
        if let Some(known) = self.shapes.iter().position(same) {
            return Ok(known);
        }
        let names = CopiedNames {
            names,
            copies: &self.copies,
        };
        let mut order = Vec::with_capacity(record.len());
        for (at, prop) in ids().enumerate() {
            let name = names.name(prop);
            order.push((
                name.ok_or_else(|| corrupt(0, "a property has no name"))?,
                at as u32,
            ));
        }
        order.sort_by(|(a, _), (b, _)| a.cmp(b));
        if order.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(corrupt(1, "two properties have one name"));
        }
        if self.shapes.len() == SHAPES {
            self.shapes.remove(0);
        }
        self.shapes.push(Shape {
            ids: ids().collect(),
            order,
        });
        Ok(self.shapes.len() - 1)
    }
}

impl std::fmt::Debug for RecordDecoder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordDecoder")
            .field("shapes", &self.shapes.shapes.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LabelId, NameTable, record::RecordBuilder};

    #[test]
    fn records_of_many_shapes_decode_as_one_by_one() {
        let mut table = NameTable::default();
        // The ids ascend in the reverse order of the names.
        let texts: Vec<String> = (0..12).map(|at| format!("p{}", 99 - at)).collect();
        let nested: Map = [("p99", Value::Int(1)), ("a", Value::from("x"))]
            .into_iter()
            .collect();
        let mut records = Vec::new();
        for round in 0..200_u32 {
            let kept = |at: &usize| {
                (round.wrapping_mul(2_654_435_761) >> (at % 7)) & 1 == 1 || at.is_multiple_of(5)
            };
            let properties: Map = (0..texts.len())
                .filter(kept)
                .map(|at| {
                    let value = match at % 3 {
                        0 => Value::Map(Arc::new(nested.clone())),
                        1 => Value::Int(i64::from(round)),
                        _ => Value::from(texts[at].clone()),
                    };
                    (texts[at].as_str(), value)
                })
                .collect();
            let mut builder = RecordBuilder::node(&[LabelId(1)]);
            builder.put_all(&properties, &mut table).expect("it fits");
            records.push((builder.finish().expect("it fits"), properties));
        }
        let mut decoder = RecordDecoder::new(&table);
        for (bytes, properties) in &records {
            let record = RecordRef::new(bytes).expect("a record");
            assert_eq!(&record.properties(&table).expect("decodes"), properties);
            assert_eq!(&decoder.properties(&record).expect("decodes"), properties);
        }
        let record = RecordRef::new(&records[0].0).expect("a record");
        let none = NameTable::default();
        assert!(RecordDecoder::new(&none).properties(&record).is_err());
    }
}
