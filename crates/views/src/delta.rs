//! The delta of a view: changes since its base was built, with their versions, indexed by node (MVCC).

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use isomer_data::Version;
use parking_lot::RwLock;
use rustc_hash::FxHashMap;

const SHARDS: usize = 16;
/// End of a node's list of entries.
const END: u32 = u32::MAX;

/// A change of a node, with its memory.
pub(crate) trait Weighed {
    /// Approximate heap bytes of the change.
    fn heap_bytes(&self) -> usize {
        0
    }
}

impl Weighed for bool {}

/// Per node a list of entries, each with the version of the commit that made it. One thread at a time appends
/// (the one that applies commits), any number of threads read.
///
/// A bitmap filters nodes without entries, without a lock. Several nodes may share a bit, as in a Bloom
/// filter: a set bit means *perhaps*, a clear bit means *certainly not*. A reader of version `v` starts after
/// everything up to `v` was appended, so it misses nothing that it must see, and it skips entries of later
/// versions.
#[derive(Debug)]
pub(crate) struct Delta<T> {
    touched: Box<[AtomicU64]>,
    shards: [RwLock<Shard<T>>; SHARDS],
    len: AtomicUsize,
    /// Heap bytes of the entries.
    heap_bytes: AtomicUsize,
    /// The lowest version of an entry, or `Version::MAX` if there are none.
    first: AtomicU64,
}

#[derive(Debug)]
struct Shard<T> {
    /// Position of each node's newest entry.
    newest: FxHashMap<u32, u32>,
    entries: Vec<DeltaEntry<T>>,
}

#[derive(Clone, Debug)]
struct DeltaEntry<T> {
    version: Version,
    node: u32,
    /// Position of the node's previous entry.
    before: u32,
    change: T,
}

impl<T> Default for Shard<T> {
    fn default() -> Self {
        Self {
            newest: FxHashMap::default(),
            entries: Vec::new(),
        }
    }
}

impl<T> Shard<T> {
    fn push(&mut self, version: Version, node: u32, change: T) {
        let at = self.entries.len() as u32;
        let before = self.newest.insert(node, at).unwrap_or(END);
        self.entries.push(DeltaEntry {
            version,
            node,
            before,
            change,
        });
    }
}

fn shard_of(node: u32) -> usize {
    node as usize % SHARDS
}

impl<T: Clone + Weighed> Delta<T> {
    /// An empty delta. `nodes` is the approximate number of ids: up to 2²² of them get a separate bit in
    /// the bitmap.
    pub(crate) fn new(nodes: u64) -> Self {
        let bits = nodes.clamp(1 << 10, 1 << 22).next_power_of_two();
        Self {
            touched: (0..bits / 64).map(|_| AtomicU64::new(0)).collect(),
            shards: std::array::from_fn(|_| RwLock::default()),
            len: AtomicUsize::new(0),
            heap_bytes: AtomicUsize::new(0),
            first: AtomicU64::new(Version::MAX),
        }
    }

    fn word(&self, node: u32) -> (&AtomicU64, u64) {
        let at = node as usize & (self.touched.len() * 64 - 1);
        (&self.touched[at / 64], 1 << (at % 64))
    }

    /// Appends an entry; versions must ascend.
    pub(crate) fn push(&self, version: Version, node: u32, change: T) {
        self.heap_bytes
            .fetch_add(change.heap_bytes(), Ordering::Relaxed);
        self.shards[shard_of(node)]
            .write()
            .push(version, node, change);
        // The entry is stored before its bit and before `first`: a reader that sees either finds the entry.
        // Release here pairs with Acquire in `touched`, `len` and `reaches`.
        let (word, bit) = self.word(node);
        word.fetch_or(bit, Ordering::Release);
        self.len.fetch_add(1, Ordering::Release);
        self.first.fetch_min(version, Ordering::Release);
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// Approximate memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        // 16 bytes for the entry's slot in the hash map.
        self.touched.len() * 8 + self.len() * (size_of::<DeltaEntry<T>>() + 16) + self.heap_bytes()
    }

    /// Heap bytes of the entries: strings, lists, maps.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.heap_bytes.load(Ordering::Relaxed)
    }

    /// Whether any entry is visible at `version`.
    pub(crate) fn reaches(&self, version: Version) -> bool {
        self.first.load(Ordering::Acquire) <= version
    }

    /// Whether `node` may have entries (false positives are possible).
    #[inline]
    pub(crate) fn touched(&self, node: u32) -> bool {
        let (word, bit) = self.word(node);
        word.load(Ordering::Acquire) & bit != 0
    }

    /// Calls `visit` with the node's entries in the version range `(from, to]`, newest first.
    pub(crate) fn newest_first(
        &self,
        node: u32,
        from: Version,
        to: Version,
        mut visit: impl FnMut(&T),
    ) {
        let shard = self.shards[shard_of(node)].read();
        let mut at = shard.newest.get(&node).copied().unwrap_or(END);
        while let Some(entry) = shard.entries.get(at as usize) {
            // Versions ascend along a node's list, so all remaining entries are older: they are in the base.
            if entry.version <= from {
                break;
            }
            if entry.version <= to {
                visit(&entry.change);
            }
            at = entry.before;
        }
    }

    /// The nodes that have entries in the version range `(from, to]`, ascending.
    pub(crate) fn nodes(&self, from: Version, to: Version) -> Vec<u32> {
        let mut nodes = Vec::new();
        for shard in &self.shards {
            let shard = shard.read();
            let within = |entry: &&DeltaEntry<T>| entry.version > from && entry.version <= to;
            nodes.extend(shard.entries.iter().filter(within).map(|entry| entry.node));
        }
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// Calls `visit` with every node and change.
    pub(crate) fn each(&self, mut visit: impl FnMut(u32, &T)) {
        for shard in &self.shards {
            for entry in &shard.read().entries {
                visit(entry.node, &entry.change);
            }
        }
    }

    /// Calls `visit` with every entry after `version`; entries of one node come in order.
    pub(crate) fn each_after(&self, version: Version, mut visit: impl FnMut(Version, u32, &T)) {
        for shard in &self.shards {
            for entry in &shard.read().entries {
                if entry.version > version {
                    visit(entry.version, entry.node, &entry.change);
                }
            }
        }
    }

    /// A copy of the entries after `version`. The caller must prevent concurrent appends.
    pub(crate) fn after(&self, version: Version, nodes: u64) -> Self {
        let copy = Self::new(nodes);
        for shard in &self.shards {
            for entry in &shard.read().entries {
                if entry.version > version {
                    copy.push(entry.version, entry.node, entry.change.clone());
                }
            }
        }
        copy
    }

    /// Removes the entries of version `from` and later. The caller must prevent concurrent appends.
    pub(crate) fn abandon(&self, from: Version) {
        let (mut len, mut heap_bytes) = (0, 0);
        let mut first = Version::MAX;
        for shard in &self.shards {
            let mut shard = shard.write();
            let old = std::mem::take(&mut *shard);
            for entry in old.entries {
                if entry.version < from {
                    first = first.min(entry.version);
                    heap_bytes += entry.change.heap_bytes();
                    shard.push(entry.version, entry.node, entry.change);
                }
            }
            len += shard.entries.len();
        }
        self.len.store(len, Ordering::Release);
        self.heap_bytes.store(heap_bytes, Ordering::Relaxed);
        self.first.store(first, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Weighed for u8 {
        fn heap_bytes(&self) -> usize {
            usize::from(*self) * 1000
        }
    }

    fn seen(delta: &Delta<u8>, node: u32, from: Version, to: Version) -> Vec<u8> {
        let mut seen = Vec::new();
        delta.newest_first(node, from, to, |change| seen.push(*change));
        seen
    }

    #[test]
    fn a_reader_sees_what_lies_between_its_base_and_its_version() {
        let delta = Delta::new(0);
        for (version, node, change) in [(3, 7, 1), (4, 7, 2), (4, 9, 3), (6, 7, 4), (6, 7, 5)] {
            delta.push(version, node, change);
        }
        assert!(delta.touched(7) && delta.touched(9) && !delta.touched(8));
        // Ids above the number of bits share them.
        assert!(delta.touched(7 + (1 << 20)));
        assert_eq!(seen(&delta, 7 + (1 << 20), 0, 9), []);
        assert_eq!(seen(&delta, 7, 0, 9), [5, 4, 2, 1]);
        assert_eq!(seen(&delta, 7, 3, 5), [2]);
        assert_eq!(seen(&delta, 7, 0, 2), []);
        assert!(delta.reaches(3) && !delta.reaches(2));
        assert_eq!(delta.nodes(3, 5), [7, 9]);
        assert_eq!(delta.nodes(4, 9), [7]);
        assert_eq!((delta.after(3, 0).len(), delta.len()), (4, 5));

        assert_eq!(delta.heap_bytes(), 15_000);
        assert_eq!(delta.after(3, 0).heap_bytes(), 14_000);

        delta.abandon(4);
        assert_eq!(delta.heap_bytes(), 1000);
        assert_eq!((delta.len(), seen(&delta, 7, 0, 9)), (1, vec![1]));
        delta.push(4, 7, 8);
        assert_eq!(seen(&delta, 7, 0, 9), [8, 1]);
        delta.abandon(0);
        assert!(!delta.reaches(Version::MAX - 1));
    }
}
