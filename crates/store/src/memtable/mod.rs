//! The memtable: the youngest entries, in memory, sorted as they come.
//!
//! Made for one committer and many readers. The committer inserts a commit's entries and then lets the engine publish its
//! version; readers ask for a version that was published, so that half a commit is never seen, and take no lock.
//! Entries are never changed or taken out: a memtable that is full is *sealed* (nobody inserts any more), written to
//! tables, and dropped whole.
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
use isomer_storage::sync::{Mutex, MutexGuard, RwLock};

pub use self::{arena::Chunks, cursor::MemtableCursor};
use self::{
    arena::Entry,
    node::Target,
    tree::{Inserter, Place, Tree},
};
use crate::{Erasure, erasures::Erasures};

/// So many entries are looked for ahead of the one that is put in.
const AHEAD: usize = 4;

/// What a fragment of erasures counts for beside its bytes: whoever changes the levels gathers those of all tables, so that
/// a memtable of 32 MiB is full with some ten thousands of them.
const BYTES_OF_SEARCH: usize = 512;

/// An entry and where it belongs.
type Located<'a> = (Place, &'a [u8], Option<&'a [u8]>);

/// A memtable.
pub struct Memtable {
    tree: Tree,
    /// Held by the committer; freed after the tree, whose nodes and entries it holds.
    inserter: Mutex<Inserter>,
    erasures: RwLock<Arc<Erasures>>,
    has_erasures: AtomicBool,
    erased_bytes: AtomicUsize,
    bytes: AtomicUsize,
    entry_count: AtomicU64,
    first_version: AtomicU64,
    last_version: AtomicU64,
}

/// The right to insert: one at a time.
pub struct Committer<'a> {
    memtable: &'a Memtable,
    inserter: MutexGuard<'a, Inserter>,
    inserted: u64,
}

/// What the first entry from a key on says of that key. The caller holds its memtable for at least `'m`.
#[inline]
fn value_of<'m>(key: &[u8], entry: Option<Entry>) -> Option<(Version, Option<&'m [u8]>)> {
    let entry = entry.filter(|entry| entry.key() == key)?;
    Some((entry.version(), entry.value()))
}

/// The first entry that a reader finds from a key on, or of a later key one that is too new for him.
#[derive(Clone, Copy, Debug)]
pub struct Looked<'m> {
    from: &'m [u8],
    entry: Option<Entry>,
}

impl<'m> Looked<'m> {
    /// The entry of `key`, which was looked for, if there is one: its version, and its value unless it is a deletion.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<(Version, Option<&'m [u8]>)> {
        value_of(key, self.entry)
    }

    /// Whether a look for `key` would find this. Entries that came meanwhile are too new for who reads at `at`.
    #[inline]
    fn tells_of(&self, key: &[u8], at: Version) -> bool {
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

    /// An empty memtable, whose memory comes from `chunks`, where there is some, and goes there.
    pub fn filling(chunks: &Arc<Chunks>) -> Self {
        let mut inserter = Inserter::new(chunks.clone());
        Self {
            tree: Tree::new(&mut inserter),
            inserter: Mutex::new(inserter),
            erasures: RwLock::new(Arc::new(Erasures::default())),
            has_erasures: AtomicBool::new(false),
            erased_bytes: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            entry_count: AtomicU64::new(0),
            first_version: AtomicU64::new(0),
            last_version: AtomicU64::new(0),
        }
    }

    /// Waits for the committer before, if there is one.
    pub fn committer(&self) -> Committer<'_> {
        Committer {
            memtable: self,
            inserter: self.inserter.lock(),
            inserted: 0,
        }
    }

    /// Puts one entry in: `None` is a deletion. No entry of the same key and version may be there.
    pub fn insert(&self, key: &[u8], version: Version, value: Option<&[u8]>) {
        self.committer().insert(key, version, value);
    }

    /// The newest entry of `key` at or before the version `at`: its version, and its value unless it is a deletion.
    /// Erasures are not applied.
    pub fn get(&self, key: &[u8], at: Version) -> Option<(Version, Option<&[u8]>)> {
        value_of(key, self.tree.find(Target { key, version: at }))
    }

    /// Looks for a key. What looking for another key found, for the same published version, may tell of this one, too: of keys
    /// that are looked for in their order most lie between others, where no way down is needed.
    #[inline]
    pub fn look<'m>(&'m self, key: &'m [u8], at: Version, last: Option<Looked<'m>>) -> Looked<'m> {
        last.filter(|last| last.tells_of(key, at))
            .unwrap_or_else(|| Looked {
                from: key,
                entry: self.tree.find(Target { key, version: at }),
            })
    }

    /// A cursor, nowhere yet.
    pub fn cursor(self: &Arc<Self>) -> MemtableCursor {
        MemtableCursor::new(self.clone())
    }

    /// The deleted ranges so far.
    pub fn erasures(&self) -> Arc<Erasures> {
        self.erasures.read().clone()
    }

    /// The newest erasure of `key` at or before the version `at`; 0 where there is none.
    pub fn newest_erasure(&self, key: &[u8], at: Version) -> Version {
        if self.has_erasures() {
            self.erasures.read().newest_covering(key, at)
        } else {
            0
        }
    }

    /// Whether any range was deleted.
    pub fn has_erasures(&self) -> bool {
        self.has_erasures.load(Ordering::Acquire)
    }

    /// Whether there is an entry or an erasure of any key from `start` on to `end` (inclusive; `None`: the end).
    pub fn touches(&self, start: &[u8], end: Option<&[u8]>) -> bool {
        let target = Target {
            key: start,
            version: Version::MAX,
        };
        let entry = self.tree.find(target);
        if entry.is_some_and(|entry| end.is_none_or(|end| entry.key() <= end)) {
            return true;
        }
        self.has_erasures()
            && self.erasures().iter().any(|(from, until, _)| {
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

    /// Whether nothing was put in.
    pub fn is_empty(&self) -> bool {
        self.last_version() == 0
    }

    /// The oldest version in it; 0 where there is none.
    pub fn first_version(&self) -> Version {
        self.first_version.load(Ordering::Relaxed)
    }

    /// The youngest version in it; 0 where there is none.
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
        self.memtable
            .tree
            .insert(&mut self.inserter, key, version, value);
        self.memtable.note(version);
        self.inserted += 1;
    }

    /// Puts the entries of one commit in, as [`Memtable::insert`] does each: memory for the next ones is on its way
    /// while one is put in.
    pub fn insert_all<'a>(
        &mut self,
        version: Version,
        entries: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    ) {
        let memtable = self.memtable;
        let mut ahead: [Option<Located<'_>>; AHEAD] = [None; AHEAD];
        let mut count = 0;
        let mut insert = |waiting: Option<Located<'_>>| {
            if let Some((place, key, value)) = waiting {
                let inserter = &mut *self.inserter;
                memtable
                    .tree
                    .insert_at(place, inserter, key, version, value);
            }
        };
        for (key, value) in entries {
            let place = memtable.tree.locate(key, version);
            insert(ahead[count % AHEAD].replace((place, key, value)));
            count += 1;
        }
        for at in count..count + AHEAD {
            insert(ahead[at % AHEAD].take());
        }
        self.inserted += count as u64;
        memtable.note(version);
    }

    /// Notes a deleted range.
    pub fn erase(&mut self, erasure: Erasure) {
        let memtable = self.memtable;
        memtable.note(erasure.version);
        let with = memtable.erasures.read().with(erasure);
        memtable.erased_bytes.store(
            with.bytes() + with.fragment_count() * BYTES_OF_SEARCH,
            Ordering::Relaxed,
        );
        *memtable.erasures.write() = Arc::new(with);
        memtable.has_erasures.store(true, Ordering::Release);
    }
}

impl Drop for Committer<'_> {
    fn drop(&mut self) {
        self.memtable
            .bytes
            .store(self.inserter.bytes(), Ordering::Relaxed);
        self.memtable
            .entry_count
            .fetch_add(self.inserted, Ordering::Relaxed);
    }
}
