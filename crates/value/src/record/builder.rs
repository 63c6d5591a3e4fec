//! Builds records.

use std::ops::Range;

use super::{
    format::{KIND_NODE, KIND_RELATIONSHIP},
    payload,
    record_ref::RecordRef,
};
use crate::{Interner, LabelId, Map, NodeId, PropId, TypeId, Value, ValueError, bytes::put_varint};

/// A record under construction, empty or based on another record whose fields are kept as bytes.
#[derive(Clone, Debug)]
pub struct RecordBuilder {
    head: Head,
    /// Each property with the range of its value in `values`; unsorted, without duplicates.
    fields: Vec<(PropId, Range<usize>)>,
    values: Vec<u8>,
}

#[derive(Clone, Debug)]
enum Head {
    Node(Vec<LabelId>),
    Relationship(TypeId, NodeId, NodeId),
}

impl RecordBuilder {
    /// A node with these labels, without properties.
    pub fn node(labels: &[LabelId]) -> Self {
        let mut builder = Self {
            head: Head::Node(Vec::new()),
            fields: Vec::new(),
            values: Vec::new(),
        };
        builder.set_labels(labels);
        builder
    }

    /// A relationship without properties.
    pub fn relationship(type_id: TypeId, source: NodeId, target: NodeId) -> Self {
        Self {
            head: Head::Relationship(type_id, source, target),
            fields: Vec::new(),
            values: Vec::new(),
        }
    }

    /// A modifiable copy of `record`. Values are copied as bytes.
    ///
    /// # Errors
    /// `Corrupt` if the record's directory is damaged.
    pub fn from_record(record: &RecordRef<'_>) -> Result<Self, ValueError> {
        let mut builder = match record.endpoints() {
            Some((type_id, source, target)) => Self::relationship(type_id, source, target),
            None => Self::node(&record.labels().collect::<Vec<_>>()),
        };
        builder.values.reserve(record.values.len());
        for field in record.iter_raw() {
            let (prop, raw) = field?;
            builder.put_raw(prop, raw);
        }
        Ok(builder)
    }

    /// The labels of a node, ascending; empty for a relationship.
    pub fn labels(&self) -> &[LabelId] {
        match &self.head {
            Head::Node(labels) => labels,
            Head::Relationship(..) => &[],
        }
    }

    /// Replaces the labels; any order, duplicates allowed. Has no effect on a relationship.
    pub fn set_labels(&mut self, labels: &[LabelId]) {
        if let Head::Node(own) = &mut self.head {
            own.clear();
            own.extend(labels);
            own.sort_unstable();
            own.dedup();
        }
    }

    /// Whether the property exists.
    pub fn contains(&self, prop: PropId) -> bool {
        self.fields.iter().any(|(own, _)| *own == prop)
    }

    /// Sets one property. Null is stored like any value: a caller that wants no property removes it.
    ///
    /// # Errors
    /// `NotStorable` for nodes, relationships and paths at any depth, `TooDeep`, and errors of `interner`.
    /// After an error the record lacks the property.
    pub fn put(
        &mut self,
        prop: PropId,
        value: &Value,
        interner: &mut dyn Interner,
    ) -> Result<(), ValueError> {
        self.remove(prop);
        let start = self.values.len();
        payload::encode_value(value, interner, &mut self.values)?;
        self.fields.push((prop, start..self.values.len()));
        Ok(())
    }

    /// Sets all properties of a map.
    ///
    /// # Errors
    /// Like [`RecordBuilder::put`].
    pub fn put_all(
        &mut self,
        properties: &Map,
        interner: &mut dyn Interner,
    ) -> Result<(), ValueError> {
        properties.iter().try_for_each(|(name, value)| {
            let prop = interner.intern(name)?;
            self.put(prop, value, interner)
        })
    }

    /// Sets one property to an encoded value from [`RecordRef::get_raw`].
    pub fn put_raw(&mut self, prop: PropId, raw: &[u8]) {
        self.remove(prop);
        let start = self.values.len();
        self.values.extend(raw);
        self.fields.push((prop, start..self.values.len()));
    }

    /// Removes one property; returns whether it existed.
    pub fn remove(&mut self, prop: PropId) -> bool {
        match self.fields.iter().position(|(own, _)| *own == prop) {
            Some(at) => {
                self.fields.swap_remove(at);
                true
            }
            None => false,
        }
    }

    /// Removes all properties.
    pub fn clear(&mut self) {
        self.fields.clear();
        self.values.clear();
    }

    /// The record's bytes. Equal contents yield equal bytes, independent of the order of insertion.
    ///
    /// # Errors
    /// `TooLarge` if the values exceed 4 GiB in total.
    pub fn finish(self) -> Result<Vec<u8>, ValueError> {
        let mut out = Vec::new();
        self.finish_into(&mut out)?;
        Ok(out)
    }

    /// Like [`RecordBuilder::finish`], but appends the bytes to `out`.
    ///
    /// # Errors
    /// Like [`RecordBuilder::finish`].
    pub fn finish_into(mut self, out: &mut Vec<u8>) -> Result<(), ValueError> {
        self.fields.sort_unstable_by_key(|(prop, _)| *prop);
        let total: usize = self.fields.iter().map(|(_, range)| range.len()).sum();
        let total = u32::try_from(total).map_err(|_| ValueError::TooLarge {
            what: "a record",
            size: total,
            max: u32::MAX as usize,
        })?;
        let (id_shape, end_shape) = (
            width_shape(self.fields.last().map_or(0, |(prop, _)| prop.0)),
            width_shape(total),
        );
        out.reserve(24 + self.fields.len() * 8 + total as usize);
        let shape = id_shape | end_shape << 2;
        match &self.head {
            Head::Node(labels) => {
                out.push(KIND_NODE << 4 | shape);
                put_varint(out, labels.len() as u64);
                labels
                    .iter()
                    .for_each(|label| put_varint(out, label.0.into()));
            }
            Head::Relationship(type_id, source, target) => {
                out.push(KIND_RELATIONSHIP << 4 | shape);
                put_varint(out, type_id.0.into());
                put_varint(out, source.0);
                put_varint(out, target.0);
            }
        }
        put_varint(out, self.fields.len() as u64);
        for (prop, _) in &self.fields {
            out.extend(&prop.0.to_le_bytes()[..1 << id_shape]);
        }
        let mut end = 0;
        for (_, range) in &self.fields {
            end += range.len() as u32;
            out.extend(&end.to_le_bytes()[..1 << end_shape]);
        }
        for (_, range) in self.fields {
            out.extend(&self.values[range]);
        }
        Ok(())
    }
}

/// The code of the narrowest width that holds `largest`: it takes `1 << code` bytes.
fn width_shape(largest: u32) -> u8 {
    match largest {
        0..=0xff => 0,
        0x100..=0xffff => 1,
        _ => 2,
    }
}
