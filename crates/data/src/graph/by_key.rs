//! A node with its record by its key, for point reads.
//!
//! A key leads to an id and the id to a record: two searches in the engine. The id is cached, and as the record
//! contains its label and its key, reading it verifies the cached id, at any version: then one search is enough. The
//! cache is only a hint.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

use isomer_storage::{Memory, MemoryKind, Reservation};
use isomer_value::{
    LabelId, NodeContent, NodeId, Value,
    record::{RecordRef, RecordSealer},
};
use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::{
    Access, DataError, Transaction,
    catalog::NameKind,
    graph::{KEY, nodes::encode_found_key, records::LabelSets},
    keyspace,
};

/// A node's record as it was read.
#[derive(Debug)]
pub struct NodeRecord {
    id: NodeId,
    bytes: Vec<u8>,
}

impl NodeRecord {
    /// The node.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// Bytes of the record.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it is empty; a record never is.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

impl Transaction {
    /// Whether a record alone determines a node, and reading it observes nothing: in a read-only transaction of a
    /// database that has no convergent fields and is not a replica.
    pub fn reads_plain_records(&self) -> bool {
        let shared = self.store().shared();
        self.access() == Access::Read
            && !shared.own_replica.has_any()
            && !shared.replication.is_on()
    }

    /// The node that has `key` as its `_key` in `label`, with its record: equivalent to
    /// [`crate::GraphRead::node_by_key`] and another read. Only where [`Transaction::reads_plain_records`] allows it.
    pub fn record_by_key(
        &self,
        label: LabelId,
        key: &Value,
    ) -> Result<Option<NodeRecord>, DataError> {
        debug_assert!(self.reads_plain_records());
        let Some(encoded) = encode_found_key(key) else {
            return Ok(None);
        };
        let hints = &self.store().shared().key_hints;
        let place = Slot::of(label, &encoded);
        if let Some(id) = hints.get(place)
            && let Some(bytes) = self.read().get(&keyspace::node(id))?
            && self.is_keyed(&bytes, label, key)?
        {
            return Ok(Some(NodeRecord { id, bytes }));
        }
        let Some(id) = self.find_encoded_key(label, &encoded)? else {
            return Ok(None);
        };
        let Some(bytes) = self.read().get(&keyspace::node(id))? else {
            return Err(DataError::corrupt(format!(
                "a key leads to node {id}, which does not exist"
            )));
        };
        hints.put(place, id, self.store().memory());
        Ok(Some(NodeRecord { id, bytes }))
    }

    /// Whether a record is of a node of `label` under `key`.
    fn is_keyed(&self, bytes: &[u8], label: LabelId, key: &Value) -> Result<bool, DataError> {
        let record = RecordRef::new(bytes)?;
        let names = &self.catalog_ref().names;
        if !record.has_label(label) {
            return Ok(false);
        }
        let Some(prop) = names.find(NameKind::Prop, KEY) else {
            return Ok(false);
        };
        let own = record.get(isomer_value::PropId(prop), &**names)?;
        Ok(match (own, key) {
            (Some(Value::Int(own)), Value::Int(key)) => own == *key,
            (Some(Value::String(own)), Value::String(key)) => own == *key,
            // Whole floats take the general path.
            _ => false,
        })
    }

    /// The whole node from its record.
    pub fn content_of(&self, node: NodeRecord) -> Result<NodeContent, DataError> {
        let catalog = self.catalog_ref();
        let labels = LabelSets::new(catalog, 1).of(node.id, &RecordRef::new(&node.bytes)?)?;
        let properties = RecordSealer::seal(catalog.names.clone(), node.bytes)?;
        Ok(NodeContent { labels, properties })
    }

    /// One property from a node's record; null where the node has no property of this name.
    pub fn property_of(&self, node: &NodeRecord, name: &str) -> Result<Value, DataError> {
        let names = &self.catalog_ref().names;
        let Some(prop) = names.find(NameKind::Prop, name) else {
            return Ok(Value::Null);
        };
        let record = RecordRef::new(&node.bytes)?;
        let found = record.get(isomer_value::PropId(prop), &**names)?;
        Ok(found.unwrap_or_default())
    }
}

/// A cache: the node id that a key led to recently.
///
/// Shape: words in slots chosen by the key's hash, the id in the lower 40 bits, other bits of the hash above; a later
/// key overwrites an earlier one in the same slot. Memory: up to a 64th of the budget, at most 32 MiB, in pieces of 32
/// KiB that are reserved as they are needed and never where that would evict other memory.
#[derive(Debug, Default)]
pub(crate) struct KeyHints {
    pieces: OnceLock<Pieces>,
}

#[derive(Debug)]
struct Pieces {
    pieces: Box<[OnceLock<Box<[AtomicU64]>>]>,
    reserved: Mutex<Reservation>,
}

/// Words of a piece.
const WORDS: usize = 4096;
const MOST_PIECES: usize = 1024;
/// Bits of a word that hold the id.
const ID_BITS: u32 = 40;

/// The slot of a key's hint, and the bits that distinguish the key from others in the slot.
#[derive(Clone, Copy)]
struct Slot(u64);

impl Slot {
    fn of(label: LabelId, encoded: &[u8]) -> Self {
        Self(xxh3_64_with_seed(encoded, u64::from(label.0)))
    }

    fn tag(self) -> u64 {
        self.0 >> ID_BITS
    }

    fn word(self) -> usize {
        self.0 as usize % WORDS
    }

    fn piece(self, pieces: usize) -> usize {
        (self.0 as usize / WORDS) % pieces
    }
}

impl KeyHints {
    fn get(&self, place: Slot) -> Option<NodeId> {
        let pieces = &self.pieces.get()?.pieces;
        let words = pieces[place.piece(pieces.len())].get()?;
        let word = words[place.word()].load(Ordering::Relaxed);
        (word >> ID_BITS == place.tag()).then_some(NodeId(word & ((1 << ID_BITS) - 1)))
    }

    fn put(&self, place: Slot, id: NodeId, memory: &Memory) {
        if id.0 >> ID_BITS != 0 {
            return;
        }
        let all = self.pieces.get_or_init(|| {
            let bytes = memory.total_bytes() / 64;
            let count = (bytes / (WORDS * 8)).clamp(1, MOST_PIECES);
            Pieces {
                pieces: (0..count).map(|_| OnceLock::new()).collect(),
                reserved: Mutex::new(memory.reservation(MemoryKind::EngineCache)),
            }
        });
        let piece = &all.pieces[place.piece(all.pieces.len())];
        if piece.get().is_none() {
            let mut reserved = all.reserved.lock();
            if piece.get().is_none() && reserved.try_grow(WORDS * 8).is_err() {
                return;
            }
            piece.get_or_init(|| (0..WORDS).map(|_| AtomicU64::new(0)).collect());
        }
        if let Some(words) = piece.get() {
            let word = place.tag() << ID_BITS | id.0;
            words[place.word()].store(word, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_found_until_it_is_overwritten() {
        let (hints, memory) = (KeyHints::default(), Memory::new(16 << 20));
        let place = |key: u64| Slot::of(LabelId(3), &key.to_be_bytes());
        assert!(hints.get(place(1)).is_none());
        (0..1_000).for_each(|key| hints.put(place(key), NodeId(key), &memory));
        let found = (0..1_000).filter(|key| hints.get(place(*key)) == Some(NodeId(*key)));
        assert!(found.count() > 950);
        let other = |key: u64| Slot::of(LabelId(4), &key.to_be_bytes());
        assert!((0..1_000).all(|key| hints.get(other(key)).is_none()));
        let most = memory.total_bytes() / 64;
        (0..100_000).for_each(|key| hints.put(place(key), NodeId(key), &memory));
        assert!((1..=most + (64 << 10)).contains(&memory.used_bytes()));
        hints.put(place(5), NodeId(1 << ID_BITS), &memory);
        assert_ne!(hints.get(place(5)), Some(NodeId(1 << ID_BITS)));
    }

    #[test]
    fn without_memory_nothing_is_cached() {
        let (hints, memory) = (KeyHints::default(), Memory::new(1 << 20));
        let all = memory.reserve(MemoryKind::Queries, 1 << 20).unwrap();
        let place = Slot::of(LabelId(0), b"k");
        hints.put(place, NodeId(7), &memory);
        assert!(hints.get(place).is_none());
        drop(all);
        hints.put(place, NodeId(7), &memory);
        assert_eq!(hints.get(place), Some(NodeId(7)));
    }
}
