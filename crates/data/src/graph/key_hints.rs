//! A cache of the nodes that keys led to.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

use isomer_storage::{MemoryBudget, MemoryKind, Reservation};
use isomer_value::{LabelId, NodeId};
use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64_with_seed;

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
pub(crate) struct Pieces {
    pieces: Box<[OnceLock<Box<[AtomicU64]>>]>,
    pub(crate) reserved: Mutex<Reservation>,
}

/// Words of a piece.
pub(crate) const WORDS: usize = 4096;

pub(crate) const MAX_PIECES: usize = 1024;

/// Bits of a word that hold the id.
pub(crate) const ID_BITS: u32 = 40;

/// The slot of a key's hint, and the bits that distinguish the key from others in the slot.
#[derive(Clone, Copy)]
pub(crate) struct Slot(pub(crate) u64);

impl Slot {
    pub(crate) fn of(label: LabelId, encoded: &[u8]) -> Self {
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
    pub(crate) fn get(&self, place: Slot) -> Option<NodeId> {
        let pieces = &self.pieces.get()?.pieces;
        let words = pieces[place.piece(pieces.len())].get()?;
        let word = words[place.word()].load(Ordering::Relaxed);
        (word >> ID_BITS == place.tag()).then_some(NodeId(word & ((1 << ID_BITS) - 1)))
    }

    pub(crate) fn put(&self, place: Slot, id: NodeId, memory: &MemoryBudget) {
        if id.0 >> ID_BITS != 0 {
            return;
        }
        let all = self.pieces.get_or_init(|| {
            let bytes = memory.total_bytes() / 64;
            let count = (bytes / (WORDS * 8)).clamp(1, MAX_PIECES);
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
        let (hints, memory) = (KeyHints::default(), MemoryBudget::new(16 << 20));
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
        let (hints, memory) = (KeyHints::default(), MemoryBudget::new(1 << 20));
        let all = memory.reserve(MemoryKind::Queries, 1 << 20).unwrap();
        let place = Slot::of(LabelId(0), b"k");
        hints.put(place, NodeId(7), &memory);
        assert!(hints.get(place).is_none());
        drop(all);
        hints.put(place, NodeId(7), &memory);
        assert_eq!(hints.get(place), Some(NodeId(7)));
    }
}
