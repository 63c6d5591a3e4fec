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
    DataError, Store, WeakStore,
    keyspace::{COUNTS, push_id, take_id},
    stream::{self, Counted, Deltas},
};

/// Commits after which the numbers are stored again.
pub(crate) const COMMITS_BETWEEN_SAVES: u64 = 1024;
/// Bytes of change stream after which the numbers are stored again.
const BYTES_BETWEEN_SAVES: u64 = 32 << 20;
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
    /// Up to which versions the stream had how many bytes since opening, at each save; oldest first.
    past: VecDeque<(Version, u64)>,
    total_bytes: u64,
}

impl SinceSave {
    /// Up to where the stream may be forgotten so that about `most` bytes remain.
    fn beyond(&mut self, version: Version, most: u64) -> Version {
        self.past.push_back((version, self.total_bytes));
        let mut upto = 0;
        while let Some(&(version, bytes)) = self.past.front()
            && self.total_bytes - bytes >= most
        {
            upto = version;
            self.past.pop_front();
        }
        upto
    }
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
        let mut told_after = told.0.lock().after;
        let told = loop {
            let read_upto = told_after.map_or(version, |after| after.min(version));
            while self.version < read_upto {
                let entries = engine.stream(self.version, 1024, 8 << 20, false)?;
                let Some(last) = entries.last() else { break };
                // Beyond `version` it is as good: those commits are visible too.
                let reached = last.version;
                for entry in entries {
                    self.apply(entry.version, stream::counts(&entry.bytes)?);
                }
                self.version = reached;
            }
            self.version = self.version.max(read_upto);
            let told = told.0.lock();
            if told.after == told_after {
                break told;
            }
            told_after = told.after;
        };
        self.take(told, version);
        // The commits in between change nothing that is counted.
        self.version = self.version.max(version);
        while self.recent.len() > RECENT {
            if let Some((version, _)) = self.recent.pop_front() {
                self.recent_from = version;
            }
        }
        Ok(())
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
            let _ = self.save_counts();
        }
    }

    /// Stores the numbers, then trims the change stream behind what is kept.
    pub(crate) fn save_counts(&self) -> Result<(), DataError> {
        // One at a time: an older version must not be stored over a newer one, which the trimmed stream begins at.
        let _saving = self.shared().saving.lock();
        // Locked until the stream is trimmed: who holds a part of it afterwards sees how far it reaches.
        let holds = self.shared().stream_holds.lock();
        let (version, value) = {
            let mut counts = self.shared().counts.lock();
            counts.advance(&**self.engine(), self.told(), self.engine().version())?;
            (counts.version, counts.value())
        };
        let oldest = holds.keys().next().copied().unwrap_or(version);
        let options = self.options();
        let too_many = version.saturating_sub(options.stream_retention);
        let too_much = self
            .shared()
            .since_save
            .lock()
            .beyond(version, options.stream_retention_bytes);
        let upto = too_many.max(too_much).min(oldest);
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
        Ok(())
    }
}

impl Store {
    /// Keeps the change stream above `version` from being trimmed until the answer is dropped. Holds the store itself not.
    pub fn hold_stream(&self, version: Version) -> StreamHold {
        *self
            .shared()
            .stream_holds
            .lock()
            .entry(version)
            .or_default() += 1;
        StreamHold {
            store: self.downgrade(),
            version,
        }
    }
}

/// Keeps a part of the change stream: see [`Store::hold_stream`].
pub struct StreamHold {
    store: WeakStore,
    version: Version,
}

impl std::fmt::Debug for StreamHold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamHold")
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl Drop for StreamHold {
    fn drop(&mut self) {
        let Some(store) = self.store.upgrade() else {
            return;
        };
        let mut holds = store.shared().stream_holds.lock();
        if let Some(count) = holds.get_mut(&self.version) {
            *count -= 1;
            if *count == 0 {
                holds.remove(&self.version);
            }
        }
    }
}

/// The numbers behind their lock.
pub(crate) type SharedCounts = Mutex<Counts>;
