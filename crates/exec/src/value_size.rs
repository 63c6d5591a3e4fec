//! Estimated sizes of values, for the memory budget.
//!
//! Three questions are asked: how much a value refers to ([`value_bytes`]), how much of that is not shared with the
//! source that it was read from ([`own_bytes`]), and how much that is if a part occurs several times
//! ([`distinct_bytes`]).

use std::sync::Arc;

use isomer_value::{Map, Node, NodeContent, Relationship, RelationshipContent, Value};
use rustc_hash::FxHashSet;

/// Values nested deeper than this are not counted: nothing that is stored nests deeper.
const MAX_LEVELS: usize = 200;

/// Bytes that only this value holds, at every depth: those computed for it. A value that is shared with its source
/// takes no further memory.
#[inline]
pub(crate) fn own_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => 0,
        other => own_bytes_at(other, 0),
    }
}

/// Counts of an `Arc`, as allocated.
const ARC_BYTES: usize = 16;
/// An entry of a map, without what its value refers to.
const ENTRY_BYTES: usize = size_of::<Value>() + ARC_BYTES;

fn own_bytes_at(value: &Value, level: usize) -> usize {
    if level > MAX_LEVELS {
        return 0;
    }
    match value {
        Value::String(text) if Arc::strong_count(text) == 1 => ARC_BYTES + text.len(),
        Value::Bytes(bytes) if Arc::strong_count(bytes) == 1 => ARC_BYTES + bytes.len(),
        Value::List(items) if Arc::strong_count(items) == 1 => {
            let below = items.iter().map(|item| own_bytes_at(item, level + 1));
            ARC_BYTES + items.capacity() * size_of::<Value>() + below.sum::<usize>()
        }
        Value::Map(map) if Arc::strong_count(map) == 1 => ARC_BYTES + own_map_bytes(map, level),
        Value::Node(node) if Arc::strong_count(node) == 1 => {
            size_of::<Node>() + node.content.as_ref().map_or(0, own_content_bytes)
        }
        Value::Relationship(one) if Arc::strong_count(one) == 1 => {
            let content = one.content.as_ref();
            let content = content.filter(|content| Arc::strong_count(content) == 1);
            size_of::<Relationship>()
                + content.map_or(0, |content| own_map_bytes(&content.properties, level))
        }
        Value::Path(path) if Arc::strong_count(path) == 1 => {
            path.nodes.len() * (size_of::<Node>() + size_of::<Relationship>())
        }
        _ => 0,
    }
}

/// Bytes of the entries of a map, which is not shared. A map that was not opened yet is held as the bytes of its
/// record.
fn own_map_bytes(map: &Map, level: usize) -> usize {
    map.unopened_bytes().unwrap_or_else(|| {
        let values = map.values().map(|value| own_bytes_at(value, level + 1));
        map.len() * ENTRY_BYTES + values.sum::<usize>()
    })
}

/// Bytes of a relationship's content that is not shared, and was not opened yet.
pub(crate) fn own_relationship_bytes(content: &Arc<RelationshipContent>) -> usize {
    match Arc::strong_count(content) {
        1 => content.properties.unopened_bytes().unwrap_or_default(),
        _ => 0,
    }
}

/// Bytes of a node's content that is not shared.
pub(crate) fn own_content_bytes(content: &Arc<NodeContent>) -> usize {
    if Arc::strong_count(content) > 1 {
        return 0;
    }
    // Properties are one level below their node.
    own_map_bytes(&content.properties, 0)
}

/// Bytes of a value at every depth; what lies in it several times counts once.
pub(crate) fn distinct_bytes(value: &Value) -> usize {
    fn add(value: &Value, level: usize, seen: &mut FxHashSet<usize>) -> usize {
        /// Shared values smaller than this are not looked up.
        const SMALL: usize = 256;
        let mut is_new = |address: *const u8, holders: usize, bytes: usize| {
            bytes < SMALL || holders == 1 || seen.insert(address as usize)
        };
        match value {
            Value::String(text) => {
                let new = is_new(text.as_ptr(), Arc::strong_count(text), text.len());
                if new { ARC_BYTES + text.len() } else { 0 }
            }
            Value::Bytes(bytes) => {
                let new = is_new(bytes.as_ptr(), Arc::strong_count(bytes), bytes.len());
                if new { ARC_BYTES + bytes.len() } else { 0 }
            }
            Value::List(items) if level < MAX_LEVELS => {
                let bytes = items.len() * size_of::<Value>();
                if !is_new(items.as_ptr().cast(), Arc::strong_count(items), usize::MAX) {
                    return 0;
                }
                let below = items.iter().map(|item| add(item, level + 1, seen));
                ARC_BYTES + bytes + below.sum::<usize>()
            }
            Value::Map(map) if level < MAX_LEVELS => {
                let address = Arc::as_ptr(map).cast();
                if !is_new(address, Arc::strong_count(map), usize::MAX) {
                    return 0;
                }
                map.unopened_bytes().unwrap_or_else(|| {
                    let below = map.values().map(|value| add(value, level + 1, seen));
                    map.len() * ENTRY_BYTES + below.sum::<usize>()
                })
            }
            _ => 0,
        }
    }
    add(value, 0, &mut FxHashSet::default())
}

/// About how many bytes a value holds, at every depth. What lies in it several times counts each time.
pub(crate) fn value_bytes(value: &Value) -> usize {
    size_of::<Value>() + bytes_behind(value, 0)
}

fn bytes_behind(value: &Value, level: usize) -> usize {
    if level > MAX_LEVELS {
        return 0;
    }
    match value {
        Value::String(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(items) => {
            let behind = items.iter().map(|item| bytes_behind(item, level + 1));
            items.len() * size_of::<Value>() + behind.sum::<usize>()
        }
        Value::Map(map) => map.unopened_bytes().unwrap_or_else(|| {
            let behind = map.values().map(|value| bytes_behind(value, level + 1));
            map.len() * ENTRY_BYTES + behind.sum::<usize>()
        }),
        Value::Path(path) => path.nodes.len() * 96,
        _ => 0,
    }
}
