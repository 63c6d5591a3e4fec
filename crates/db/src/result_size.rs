//! How much memory a gathered result holds.

use std::sync::Arc;

use isomer_value::{Map, Node, Relationship, Value};
use rustc_hash::FxHashSet;

use crate::Row;

/// Sums the bytes that the values of a result hold, at every depth. Shared values count once: the same node in a
/// thousand rows is one node.
///
/// Memory: 8 bytes for each list, map, node or relationship that is held more than once.
#[derive(Debug, Default)]
pub(crate) struct HeldBytes {
    bytes: usize,
    /// Addresses that were counted; the result keeps the values alive, so that no address is reused.
    counted: FxHashSet<usize>,
}

impl HeldBytes {
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts this number of rows, and all their values.
    pub(crate) fn add_rows(&mut self, rows: usize, values: &[Value]) {
        self.bytes += rows * size_of::<Row>();
        self.add(values);
    }

    /// Values may be nested deeper than the stack allows: uncounted ones are queued in a list.
    fn add(&mut self, values: &[Value]) {
        self.bytes += size_of_val(values);
        let mut nested = Vec::new();
        for value in values {
            // Most values are of these types, which hold no heap data.
            if !matches!(
                value,
                Value::Int(_) | Value::Null | Value::Bool(_) | Value::Float(_)
            ) {
                self.own(value, &mut nested);
            }
        }
        while let Some(values) = nested.pop() {
            match values {
                Nested::List(items) => {
                    self.bytes += size_of_val(items);
                    items.iter().for_each(|item| self.own(item, &mut nested));
                }
                // A record that was not decoded yet is held as bytes.
                Nested::Map(map) if map.unopened_bytes().is_some() => {
                    self.bytes += map.unopened_bytes().unwrap_or_default();
                }
                Nested::Map(map) => {
                    self.bytes += map.len() * (size_of::<Value>() + size_of::<Arc<str>>());
                    map.values().for_each(|value| self.own(value, &mut nested));
                }
            }
        }
    }

    /// Counts the heap data of a value, and queues its elements.
    fn own<'v>(&mut self, value: &'v Value, nested: &mut Vec<Nested<'v>>) {
        match value {
            Value::String(text) => self.bytes += text.len(),
            Value::Bytes(bytes) => self.bytes += bytes.len(),
            Value::List(items) if self.is_new(items) => nested.push(Nested::List(items)),
            Value::Map(map) if self.is_new(map) => nested.push(Nested::Map(map)),
            Value::Node(node) if self.is_new(node) => self.node(node, nested),
            Value::Relationship(rel) if self.is_new(rel) => {
                self.relationship(rel, nested);
            }
            Value::Path(path) if self.is_new(path) => {
                path.nodes.iter().for_each(|node| self.node(node, nested));
                path.relationships
                    .iter()
                    .for_each(|rel| self.relationship(rel, nested));
            }
            _ => {}
        }
    }

    fn node<'v>(&mut self, node: &'v Node, nested: &mut Vec<Nested<'v>>) {
        self.bytes += size_of::<Node>();
        if let Some(content) = &node.content
            && self.is_new(content)
        {
            self.bytes += content.labels.len() * size_of::<Arc<str>>();
            nested.push(Nested::Map(&content.properties));
        }
    }

    fn relationship<'v>(&mut self, rel: &'v Relationship, nested: &mut Vec<Nested<'v>>) {
        self.bytes += size_of::<Relationship>();
        if let Some(content) = &rel.content
            && self.is_new(content)
        {
            nested.push(Nested::Map(&content.properties));
        }
    }

    /// Whether it was not counted yet: a value with a single owner occurs once in the result.
    fn is_new<T>(&mut self, shared: &Arc<T>) -> bool {
        Arc::strong_count(shared) == 1 || self.counted.insert(Arc::as_ptr(shared) as usize)
    }
}

/// Values inside a value.
enum Nested<'v> {
    List(&'v [Value]),
    Map(&'v Map),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(rows: &[Vec<Value>]) -> usize {
        let mut held = HeldBytes::default();
        rows.iter().for_each(|row| held.add_rows(1, row));
        held.bytes()
    }

    /// Text counts at every depth, and shared values count once.
    #[test]
    fn nested_text_counts_once() {
        let text = Value::from("x".repeat(1000));
        let list = Value::from(vec![Value::from(vec![text])]);
        let once = held(&[vec![list.clone()]]);
        assert!((1000..1300).contains(&once), "{once}");
        let twice = held(&[vec![list.clone()], vec![list]]);
        assert!((once..once + 300).contains(&twice), "{twice}");
    }

    /// Lists nested far deeper than a record may be are counted nonetheless.
    #[test]
    fn depth_is_no_limit() {
        let mut value = Value::from("x".repeat(1000));
        for _ in 0..5_000 {
            value = Value::from(vec![value]);
        }
        assert!(held(&[vec![value]]) > 5_000 * size_of::<Value>() + 1000);
    }
}
