//! How many nodes carry each label, how many relationships have each type.
//!
//! Nobody writes a counter: that would make every two creations collide. Each commit's entry in the change stream says
//! at its head how it changed the numbers, and the numbers at a version are those at an earlier one plus the entries
//! between. Memory holds the newest and the last few changes, so that readers of slightly older versions are answered
//! too. Now and then the numbers are stored with their version, which bounds what an opening has to read, and lets the
//! stream forget its oldest entries.
//!
//! The stored value: id version, then the numbers as the change stream spells changes.

use std::collections::VecDeque;

use isomer_storage::{Durability, Engine, Read, Version};
use isomer_value::{LabelId, TypeId};
use parking_lot::{Mutex, MutexGuard};

use crate::{
    DataError, Store,
    keyspace::{COUNTS, push_id, take_id},
    stream::{self, Counted, Deltas},
};

/// Commits after which the numbers are stored again.
pub(crate) const COMMITS_BETWEEN_SAVES: u64 = 1024;
/// Bytes of change stream after which the numbers are stored again.
const BYTES_BETWEEN_SAVES: u64 = 32 << 20;
/// How much of the change stream is read at once: where somebody waits for all of it, and where a commit does that came to be
/// the one that stores the numbers.
const MOST_AT_ONCE: Piece = Piece {
    entries: 1024,
    bytes: 8 << 20,
};
const A_LITTLE: Piece = Piece {
    entries: 64,
    bytes: 256 << 10,
};
/// Changes kept for readers of older versions.
const RECENT: usize = 1024;

/// The numbers as of `version`.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    version: Version,
    numbers: Deltas,
    /// The changes that led here, oldest first; complete for versions from `recent_from` on.
    recent: VecDeque<(Version, Deltas)>,
    recent_from: Version,
}

/// A part of the change stream, at most.
#[derive(Clone, Copy, Debug)]
struct Piece {
    entries: usize,
    bytes: usize,
}

/// What the commits since opening changed, as they are told: nobody has to read the stream for it.
#[derive(Debug, Default)]
pub(crate) struct Told(Mutex<Tellings>);

#[derive(Debug, Default)]
struct Tellings {
    /// The first version that is told of; `None` once something was told that did not happen, or may not have.
    after: Option<Version>,
    changes: VecDeque<(Version, Deltas)>,
}

impl Told {
    /// Every commit above `version` will be told of.
    pub(crate) fn begin(&self, version: Version) {
        self.0.lock().after = Some(version);
    }

    pub(crate) fn committing(&self, version: Version, stream: &[u8]) {
        if stream.is_empty() {
            return;
        }
        let mut told = self.0.lock();
        match stream::counts(stream) {
            Ok(changes) if changes.is_empty() => {}
            Ok(changes) => told.changes.push_back((version, changes)),
            Err(_) => told.after = None,
        }
    }

    pub(crate) fn abandoned(&self) {
        let mut told = self.0.lock();
        (told.after, told.changes) = (None, VecDeque::new());
    }
}

/// What happened since the numbers were stored.
#[derive(Debug, Default)]
pub(crate) struct SinceSave {
    commits: u64,
    bytes: u64,
    total_bytes: u64,
}

impl Counts {
    pub(crate) fn load(read: &dyn Read) -> Result<Self, DataError> {
        let Some(value) = read.get(COUNTS)? else {
            return Ok(Self::default());
        };
        let mut rest = value.as_slice();
        let parsed = (|| {
            let version = take_id(&mut rest)?;
            let numbers = Deltas::take(&mut rest)?;
            rest.is_empty().then_some(Self {
                version,
                numbers,
                recent: VecDeque::new(),
                recent_from: version,
            })
        })();
        parsed.ok_or_else(|| DataError::corrupt("the stored counts are malformed"))
    }

    /// Takes what was told up to `version`, and reads the change stream for what was not.
    fn advance(
        &mut self,
        engine: &dyn Engine,
        told: &Told,
        version: Version,
    ) -> Result<(), DataError> {
        while !self.advance_by(engine, told, version, MOST_AT_ONCE)? {}
        Ok(())
    }

    /// The same, as far as one piece of the stream goes. Whether that was far enough.
    fn advance_by(
        &mut self,
        engine: &dyn Engine,
        told: &Told,
        version: Version,
        piece: Piece,
    ) -> Result<bool, DataError> {
        let told_after = told.0.lock().after;
        let read_upto = told_after.map_or(version, |after| after.min(version));
        if self.version < read_upto {
            // What comes behind is told, and may be much.
            let versions = usize::try_from(read_upto - self.version).unwrap_or(usize::MAX);
            let most = piece.entries.min(versions);
            let entries = engine.stream(self.version, most, piece.bytes, false)?;
            let is_far = entries.last().is_none_or(|last| last.version >= read_upto);
            for entry in entries {
                if entry.version > read_upto {
                    break;
                }
                self.apply(entry.version, stream::counts(&entry.bytes)?);
                self.version = entry.version;
            }
            if !is_far {
                return Ok(false);
            }
            self.version = read_upto;
        }
        let told = told.0.lock();
        if told.after != told_after {
            return Ok(false);
        }
        self.take(told, version);
        // The commits in between change nothing that is counted.
        self.version = self.version.max(version);
        while self.recent.len() > RECENT {
            if let Some((version, _)) = self.recent.pop_front() {
                self.recent_from = version;
            }
        }
        Ok(true)
    }

    /// What was told of versions up to `version`, except what was read.
    fn take(&mut self, mut told: MutexGuard<'_, Tellings>, version: Version) {
        while let Some((told_of, _)) = told.changes.front()
            && *told_of <= version
        {
            if let Some((told_of, changes)) = told.changes.pop_front()
                && told_of > self.version
            {
                self.apply(told_of, changes);
            }
        }
    }

    fn apply(&mut self, version: Version, changes: Deltas) {
        changes
            .iter()
            .for_each(|(counted, change)| self.numbers.add(counted, change));
        if !changes.is_empty() {
            self.recent.push_back((version, changes));
        }
    }

    /// One number at `version`; `None` where that is too long ago.
    fn at(&self, counted: Counted, version: Version) -> Option<u64> {
        if version < self.recent_from {
            return None;
        }
        let later = self
            .recent
            .iter()
            .rev()
            .take_while(|(changed, _)| *changed > version);
        let change: i64 = later.map(|(_, changes)| changes.get(counted)).sum();
        u64::try_from(self.numbers.get(counted) - change).ok()
    }

    fn value(&self) -> Vec<u8> {
        let mut value = Vec::new();
        push_id(&mut value, self.version);
        self.numbers.push(&mut value);
        value
    }
}

impl Store {
    /// The number of `counted` at `version`; `None` where that is too long ago to say without counting.
    pub(crate) fn count_at(
        &self,
        counted: Counted,
        version: Version,
    ) -> Result<Option<u64>, DataError> {
        let mut counts = self.shared().counts.lock();
        counts.advance(&**self.engine(), self.told(), version)?;
        Ok(counts.at(counted, version))
    }

    /// The newest number known.
    pub(crate) fn count_now(&self, counted: Counted) -> Result<u64, DataError> {
        let mut counts = self.shared().counts.lock();
        let version = self.engine().version();
        counts.advance(&**self.engine(), self.told(), version)?;
        Ok(u64::try_from(counts.numbers.get(counted)).unwrap_or_default())
    }

    /// About how many nodes carry `label`, or exist, now.
    pub fn node_count_now(&self, label: Option<LabelId>) -> u64 {
        let counted = label.map_or(Counted::Nodes, Counted::Label);
        self.count_now(counted).unwrap_or(0)
    }

    /// About how many relationships have `rel_type`, or exist, now.
    pub fn relationship_count_now(&self, rel_type: Option<TypeId>) -> u64 {
        let counted = rel_type.map_or(Counted::Relationships, Counted::Type);
        self.count_now(counted).unwrap_or(0)
    }

    fn told(&self) -> &Told {
        &self.shared().observers.counted
    }

    /// Called after each commit with the size of its entry: stores the numbers now and then.
    pub(crate) fn committed(&self, entry_bytes: usize) {
        self.shared().signal.0.tell();
        let due = {
            let mut since = self.shared().since_save.lock();
            since.commits += 1;
            since.bytes += entry_bytes as u64;
            since.total_bytes += entry_bytes as u64;
            let due = since.commits >= COMMITS_BETWEEN_SAVES || since.bytes >= BYTES_BETWEEN_SAVES;
            if due {
                (since.commits, since.bytes) = (0, 0);
            }
            due
        };
        if due {
            // The numbers are derived: whoever opens next reads a longer stream if this fails, and the commit that
            // came just before has succeeded.
            if let Ok(false) = self.save_counts_by(A_LITTLE) {
                // What was written before this opening is still to be read: the next commit reads on.
                self.shared().since_save.lock().commits = COMMITS_BETWEEN_SAVES;
            }
        }
    }

    /// Stores the numbers, then trims the change stream behind what is kept.
    #[cfg(test)]
    pub(crate) fn save_counts(&self) -> Result<(), DataError> {
        while !self.save_counts_by(MOST_AT_ONCE)? {}
        Ok(())
    }

    /// The same, where a piece of the stream is enough to tell the numbers. Whether it was.
    fn save_counts_by(&self, piece: Piece) -> Result<bool, DataError> {
        // One at a time: an older version must not be stored over a newer one, which the trimmed stream begins at.
        let _saving = self.shared().saving.lock();
        // Locked until the stream is trimmed: who holds a part of it afterwards sees how far it reaches.
        let mut holds = self.shared().stream_holds.lock();
        let (version, value) = {
            let mut counts = self.shared().counts.lock();
            let version = self.engine().version();
            if !counts.advance_by(&**self.engine(), self.told(), version, piece)? {
                return Ok(false);
            }
            (counts.version, counts.value())
        };
        let total_bytes = self.shared().since_save.lock().total_bytes;
        let upto = holds.goes_upto(version, total_bytes, self.options());
        let mut tx = self.engine().begin()?;
        tx.put(COUNTS, &value)?;
        for (key, value) in self.statistics_to_store() {
            tx.put(&key, &value)?;
        }
        self.enter_trimmed(&mut *tx, upto)?;
        tx.commit(Durability::Buffered)?;
        if upto > 0 {
            self.engine().trim_stream(upto)?;
        }
        Ok(true)
    }
}

/// The numbers behind their lock.
pub(crate) type SharedCounts = Mutex<Counts>;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use isomer_storage::MemoryEngine;
    use isomer_value::Map;

    use super::*;
    use crate::{Access, StoreOptions};

    fn create(store: &Store, count: u64) {
        for _ in 0..count {
            let mut tx = store.begin(Access::Write).unwrap();
            tx.create_node(&[], &Map::new()).unwrap();
            tx.commit_with(Durability::Buffered).unwrap();
        }
    }

    fn stored_version(store: &Store) -> Version {
        let snapshot = store.engine().snapshot().unwrap();
        Counts::load(&*snapshot).unwrap().version
    }

    /// What was told is not read, however much it is; what was written before the opening is read in pieces, while commits go on.
    #[test]
    fn no_commit_reads_much_of_the_stream() {
        let engine: Arc<dyn Engine> = Arc::new(MemoryEngine::new());
        let open = || Store::open(engine.clone(), StoreOptions::default()).unwrap();
        let one = Piece {
            entries: 1,
            bytes: 1,
        };
        let store = open();
        create(&store, 300);
        assert!(store.save_counts_by(one).unwrap());
        create(&store, 200);
        drop(store);

        let store = open();
        let mut pieces = 0;
        while !store.save_counts_by(one).unwrap() {
            pieces += 1;
            create(&store, 1);
        }
        assert!((199..=201).contains(&pieces), "{pieces} pieces");
        assert_eq!(store.node_count_now(None), 500 + pieces);
        drop(store);

        // The commit at which they are to be stored, and those behind it, read what is left of them.
        let store = open();
        create(&store, COMMITS_BETWEEN_SAVES - 1);
        drop(store);
        let store = open();
        let opened = store.engine().version();
        create(&store, COMMITS_BETWEEN_SAVES);
        assert!(stored_version(&store) < opened);
        create(&store, COMMITS_BETWEEN_SAVES / A_LITTLE.entries as u64 + 1);
        assert!(stored_version(&store) > opened + COMMITS_BETWEEN_SAVES);
        let count = store.node_count_now(None);
        drop(store);
        assert_eq!(open().node_count_now(None), count);
    }
}
