//! The memtable: the newest entries, in memory, sorted.
//!
//! One committer and many readers. The committer inserts a commit's entries and then lets the engine publish
//! its version; readers use a version that was published, so that half a commit is never visible, and take no
//! lock. Entries are never changed or removed: a full memtable is *sealed* (no more inserts), flushed to
//! tables, and dropped as a whole.
//!
//! Memory: an entry takes 16 bytes, its key and its value in an arena, and 16 to 32 bytes in the tree.

mod arena;
mod cursor;
mod node;
#[cfg(test)]
mod tests;
mod tree;
mod words;

use std::{
    cmp,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

use isomer_storage::Version;
use isomer_storage::sync::RwLock;

pub use self::{arena::Chunks, cursor::MemtableCursor};
use self::{
    arena::EntryRef,
    node::Target,
    tree::{LeafPosition, Tree, Writer},
};
use crate::{RangeTombstone, range_tombstones::RangeTombstones};

/// Number of entries that are located ahead of the one that is inserted.
const AHEAD: usize = 4;

/// Bytes that a fragment of range tombstones counts for in addition to its size: changing the levels merges the
/// range tombstones of all tables, so that a memtable of 32 MiB is full with some ten thousands of them.
const BYTES_OF_SEARCH: usize = 512;

/// An entry and the position where it belongs.
type Located<'t, 'a> = (LeafPosition<'t>, &'a [u8], Option<&'a [u8]>);

/// A memtable.
pub struct Memtable {
    tree: Tree,
    range_tombstones: RwLock<Arc<RangeTombstones>>,
    has_range_tombstones: AtomicBool,
    erased_bytes: AtomicUsize,
    bytes: AtomicUsize,
    entry_count: AtomicU64,
    first_version: AtomicU64,
    last_version: AtomicU64,
}

/// The right to insert: one at a time.
pub struct Committer<'a> {
    memtable: &'a Memtable,
    writer: Writer<'a>,
    inserted: u64,
}

/// Inserts an entry whose position was located, if there is one.
fn insert_located<'t>(writer: &mut Writer<'t>, version: Version, waiting: Option<Located<'t, '_>>) {
    if let Some((place, key, value)) = waiting {
        writer.insert_at(place, key, version, value);
    }
}

/// What the first entry at or after a key says about that key.
#[inline]
fn value_of<'m>(key: &[u8], entry: Option<EntryRef<'m>>) -> Option<(Version, Option<&'m [u8]>)> {
    let entry = entry.filter(|entry| entry.key() == key)?;
    Some((entry.version(), entry.value()))
}

/// The first entry at or after a key that is visible to a reader, or an entry of a later key that is too new.
#[derive(Clone, Copy, Debug)]
pub struct LookupHit<'m> {
    from: &'m [u8],
    entry: Option<EntryRef<'m>>,
}

impl<'m> LookupHit<'m> {
    /// The entry of `key`, which was looked up, if there is one: its version, and its value unless it is a
    /// deletion.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<(Version, Option<&'m [u8]>)> {
        value_of(key, self.entry)
    }

    /// Whether a lookup of `key` would find the same. Entries inserted since are too new for a reader at `at`.
    #[inline]
    fn also_answers(&self, key: &[u8], at: Version) -> bool {
        self.from <= key
            && self.entry.is_none_or(|entry| match key.cmp(entry.key()) {
                cmp::Ordering::Less => true,
                cmp::Ordering::Equal => entry.version() <= at,
                cmp::Ordering::Greater => false,
            })
    }
}

impl Memtable {
    /// An empty memtable.
    pub fn new() -> Self {
        Self::filling(&Chunks::new(0))
    }

    /// An empty memtable, whose memory is taken from `chunks` and returned to it.
    pub fn filling(chunks: &Arc<Chunks>) -> Self {
        Self {
            tree: Tree::new(chunks.clone()),
            range_tombstones: RwLock::new(Arc::new(RangeTombstones::default())),
            has_range_tombstones: AtomicBool::new(false),
            erased_bytes: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            entry_count: AtomicU64::new(0),
            first_version: AtomicU64::new(0),
            last_version: AtomicU64::new(0),
        }
    }

    /// Waits until the previous committer is dropped.
    pub fn committer(&self) -> Committer<'_> {
        Committer {
            memtable: self,
            writer: self.tree.writer(),
            inserted: 0,
        }
    }

    /// Inserts one entry: `None` is a deletion. No entry of the same key and version may exist.
    pub fn insert(&self, key: &[u8], version: Version, value: Option<&[u8]>) {
        self.committer().insert(key, version, value);
    }

    /// The newest entry of `key` at or before the version `at`: its version, and its value unless it is a
    /// deletion. Range tombstones are not applied.
    pub fn get(&self, key: &[u8], at: Version) -> Option<(Version, Option<&[u8]>)> {
        value_of(key, self.tree.find(Target { key, version: at }))
    }

    /// Looks up a key. The result for another key, for the same published version, may apply to this one as
    /// well: most keys that are looked up in order have the same neighbours, and need no descent in the tree.
    #[inline]
    pub fn look_up<'m>(
        &'m self,
        key: &'m [u8],
        at: Version,
        last: Option<LookupHit<'m>>,
    ) -> LookupHit<'m> {
        last.filter(|last| last.also_answers(key, at))
            .unwrap_or_else(|| LookupHit {
                from: key,
                entry: self.tree.find(Target { key, version: at }),
            })
    }

    /// A cursor, without a position yet.
    pub fn cursor(self: &Arc<Self>) -> MemtableCursor {
        MemtableCursor::new(self.clone())
    }

    /// The range tombstones so far.
    pub fn range_tombstones(&self) -> Arc<RangeTombstones> {
        self.range_tombstones.read().clone()
    }

    /// Version of the newest range tombstone of `key` at or before the version `at`; 0 if there is none.
    pub fn newest_range_tombstone(&self, key: &[u8], at: Version) -> Version {
        if self.has_range_tombstones() {
            self.range_tombstones.read().newest_covering(key, at)
        } else {
            0
        }
    }

    /// Whether there are any range tombstones.
    pub fn has_range_tombstones(&self) -> bool {
        self.has_range_tombstones.load(Ordering::Acquire)
    }

    /// Whether there is an entry or a range tombstone of any key from `start` on to `end` (inclusive; `None`:
    /// the end).
    pub fn touches(&self, start: &[u8], end: Option<&[u8]>) -> bool {
        let target = Target {
            key: start,
            version: Version::MAX,
        };
        let entry = self.tree.find(target);
        if entry.is_some_and(|entry| end.is_none_or(|end| entry.key() <= end)) {
            return true;
        }
        self.has_range_tombstones()
            && self.range_tombstones().iter().any(|(from, until, _)| {
                end.is_none_or(|end| from <= end) && until.is_none_or(|until| until > start)
            })
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed) + self.erased_bytes.load(Ordering::Relaxed)
    }

    /// Number of entries.
    pub fn entry_count(&self) -> u64 {
        self.entry_count.load(Ordering::Relaxed)
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.last_version() == 0
    }

    /// The oldest version in it; 0 if there is none.
    pub fn first_version(&self) -> Version {
        self.first_version.load(Ordering::Relaxed)
    }

    /// The newest version in it; 0 if there is none.
    pub fn last_version(&self) -> Version {
        self.last_version.load(Ordering::Relaxed)
    }

    fn note(&self, version: Version) {
        if self.first_version() == 0 {
            self.first_version.store(version, Ordering::Relaxed);
        }
        self.last_version.fetch_max(version, Ordering::Relaxed);
    }
}

impl Default for Memtable {
    fn default() -> Self {
        Self::new()
    }
}

impl Committer<'_> {
    /// See [`Memtable::insert`].
    pub fn insert(&mut self, key: &[u8], version: Version, value: Option<&[u8]>) {
        self.writer.insert(key, version, value);
        self.memtable.note(version);
        self.inserted += 1;
    }

    /// Inserts the entries of one commit, like [`Memtable::insert`] for each: the memory for the next ones is
    /// prefetched while one is inserted.
    pub fn insert_all<'a>(
        &mut self,
        version: Version,
        entries: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    ) {
        let memtable = self.memtable;
        let mut ahead: [Option<Located<'_, '_>>; AHEAD] = [None; AHEAD];
        let mut count = 0;
        for (key, value) in entries {
            let place = self.writer.locate(key, version);
            let waiting = ahead[count % AHEAD].replace((place, key, value));
            insert_located(&mut self.writer, version, waiting);
            count += 1;
        }
        for at in count..count + AHEAD {
            insert_located(&mut self.writer, version, ahead[at % AHEAD].take());
        }
        self.inserted += count as u64;
        memtable.note(version);
    }

    /// Adds a range tombstone.
    pub fn add_range_tombstone(&mut self, range_tombstone: RangeTombstone) {
        let memtable = self.memtable;
        memtable.note(range_tombstone.version);
        let with = memtable.range_tombstones.read().with(range_tombstone);
        memtable.erased_bytes.store(
            with.bytes() + with.fragment_count() * BYTES_OF_SEARCH,
            Ordering::Relaxed,
        );
        *memtable.range_tombstones.write() = Arc::new(with);
        memtable.has_range_tombstones.store(true, Ordering::Release);
    }
}

impl Drop for Committer<'_> {
    fn drop(&mut self) {
        self.memtable
            .bytes
            .store(self.writer.bytes(), Ordering::Relaxed);
        self.memtable
            .entry_count
            .fetch_add(self.inserted, Ordering::Relaxed);
    }
}
