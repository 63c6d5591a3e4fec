//! Retention: which readers still need a part of the change stream, and up to where it may be trimmed.
//!
//! The stream is kept for its slowest reader: a watch, a feed, a file of a view. A reader that is too far behind, by
//! bytes or by age, is not waited for any longer, or a reader that has stopped would fill the disk. It gets an error at
//! its next read: [`ChangeStream::after`] never omits entries silently.

use isomer_layout::DataError;
use isomer_storage::{StreamEntry, Version};

use crate::{DataStore, WeakDataStore};

/// The change stream of an open store: reading it, and retaining it for a reader.
#[derive(Clone, Copy)]
pub struct ChangeStream<'s> {
    store: &'s DataStore,
}

impl DataStore {
    /// The change stream.
    pub fn change_stream(&self) -> ChangeStream<'_> {
        ChangeStream { store: self }
    }

    /// The result of `read` on a complete state; `None` while a state is being joined, which is not visible before it
    /// is complete: the caller reads again later.
    pub fn while_whole<T>(
        &self,
        read: impl FnOnce() -> Result<T, DataError>,
    ) -> Result<Option<T>, DataError> {
        let replication = &self.shared().replica_state;
        let joins = replication.joins_begun();
        if replication.is_joining() {
            return Ok(None);
        }
        let found = read()?;
        // A join that began in between may have left a part of a state in the result.
        Ok((replication.joins_begun() == joins).then_some(found))
    }
}

impl ChangeStream<'_> {
    /// Retains the change stream above `version` until the returned hold is dropped, or it is too much
    /// ([`DataStoreOptions::stream_hold_bytes`]) or too old ([`DataStoreOptions::stream_hold_ms`]). Does not keep the
    /// store open.
    pub fn hold(self, version: Version) -> StreamHold {
        self.retain(version, false)
    }

    /// The same without limits, for as long as a bulk load takes.
    pub(crate) fn hold_firmly(self, version: Version) -> StreamHold {
        self.retain(version, true)
    }

    fn retain(self, version: Version, is_firm: bool) -> StreamHold {
        let shared = self.store.shared();
        loop {
            let others = shared.shared_holds.as_ref();
            // In this order, as where the stream is trimmed.
            let trimming = others
                .filter(|others| others.lacks(version))
                .map(|others| (others, others.lock_lowering()));
            let mut holds = shared.stream_holds.lock();
            match &trimming {
                Some((others, _)) => others.lower(version),
                // Another reader of this process was the lowest one, and has ended.
                None if others.is_some_and(|others| others.lacks(version)) => continue,
                None => {}
            }
            *holds.of(is_firm).entry(version).or_default() += 1;
            break;
        }
        StreamHold {
            store: self.store.downgrade(),
            version,
            is_firm,
        }
    }

    /// Entries of the change stream as in [`isomer_storage::Engine::stream`], without a gap from `after` up to the last
    /// one returned.
    ///
    /// # Errors
    /// [`DataError::Forgotten`] if the stream was trimmed beyond `after`.
    pub fn after(
        self,
        after: Version,
        max_entries: usize,
        max_bytes: usize,
        durable_only: bool,
    ) -> Result<Vec<StreamEntry>, DataError> {
        let entries = self
            .store
            .engine()
            .stream(after, max_entries, max_bytes, durable_only)?;
        // Checked afterwards: entries may be trimmed while they are read.
        self.check_changes_since(after)?;
        Ok(entries)
    }

    /// The entries of the change stream after `after`, as far as they are durable. Where no commit up to the visible
    /// version has an entry, `after` advances past them: later entries have later versions.
    ///
    /// # Errors
    /// As [`ChangeStream::after`].
    pub fn durable_after(
        self,
        after: &mut Version,
        max_entries: usize,
        max_bytes: usize,
    ) -> Result<Vec<StreamEntry>, DataError> {
        let visible = self.store.engine().version();
        let entries = self.after(*after, max_entries, max_bytes, true)?;
        // Nothing is durable yet, or there is no entry, or it was trimmed concurrently, which is an error here, too.
        if entries.is_empty() && visible > *after && self.after(*after, 1, 1, false)?.is_empty() {
            *after = visible;
        }
        Ok(entries)
    }

    /// Checks that the change stream has all commits after a version.
    ///
    /// # Errors
    /// [`DataError::Forgotten`] if it does not.
    pub fn check_changes_since(self, after: Version) -> Result<(), DataError> {
        let trimmed = self.store.engine().stream_trimmed()?;
        if trimmed <= after {
            return Ok(());
        }
        Err(DataError::Forgotten {
            after,
            since: trimmed,
        })
    }
}

/// Retains a part of the change stream: see [`ChangeStream::hold`].
pub struct StreamHold {
    pub(crate) store: WeakDataStore,
    pub(crate) version: Version,
    pub(crate) is_firm: bool,
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
        let held = holds.of(self.is_firm);
        if let Some(count) = held.get_mut(&self.version) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.version);
            }
        }
        if let Some(others) = &store.shared().shared_holds {
            others.raise(holds.lowest());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    };

    use isomer_storage::{Durability, MemoryEngine};
    use isomer_value::Map;

    use super::*;
    use crate::{Access, Clock, DataStoreOptions};

    #[derive(Debug, Default)]
    struct ManualClock(AtomicU64);

    impl Clock for ManualClock {
        fn now_ms(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
    }

    fn open(clock: &Arc<ManualClock>, bytes: u64, ms: u64) -> DataStore {
        let options = DataStoreOptions {
            stream_retention: 0,
            stream_hold_bytes: bytes,
            stream_hold_ms: ms,
            clock: clock.clone(),
            ..DataStoreOptions::default()
        };
        DataStore::open(Arc::new(MemoryEngine::new()), options).unwrap()
    }

    fn commit(store: &DataStore, count: u64) -> Version {
        for _ in 0..count {
            let mut tx = store.begin(Access::Write).unwrap();
            tx.graph_mut().create_node(&[], &Map::new()).unwrap();
            tx.commit_with(Durability::Buffered).unwrap();
        }
        store.counts().save().unwrap();
        store.engine().version()
    }

    fn is_lost(store: &DataStore, version: Version) -> bool {
        match store.change_stream().after(version, 1, 1, false) {
            Ok(_) => false,
            Err(DataError::Forgotten { after, since }) => {
                assert!(after == version && since > version);
                true
            }
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn the_slowest_reader_keeps_the_stream_until_it_is_dropped() {
        let store = open(&Arc::default(), u64::MAX, u64::MAX);
        let first = commit(&store, 10);
        let slow = store.change_stream().hold(first);
        let second = commit(&store, 10);
        let same = store.change_stream().hold(second);
        let fast = store.change_stream().hold(second);
        commit(&store, 10);
        assert!(is_lost(&store, first - 1), "no reader needs that");
        assert_eq!(
            store
                .change_stream()
                .after(first, 99, 1 << 20, false)
                .unwrap()
                .len(),
            20
        );
        drop(slow);
        commit(&store, 1);
        assert!(is_lost(&store, first) && !is_lost(&store, second));
        drop(same);
        commit(&store, 1);
        assert!(!is_lost(&store, second), "two held the same");
        drop(fast);
        let last = commit(&store, 1);
        assert!(is_lost(&store, second));
        assert!(!is_lost(&store, last));
    }

    #[test]
    fn a_reader_too_many_bytes_behind_gets_an_error_and_others_do_not() {
        let store = open(&Arc::default(), 1_000, u64::MAX);
        let first = commit(&store, 1);
        let _stopped = store.change_stream().hold(first);
        let firm = store.change_stream().hold_firmly(first);
        // Each of these checks the stream, and earlier commits are measured by it.
        commit(&store, 1);
        commit(&store, 100);
        let near = commit(&store, 1);
        let _near = store.change_stream().hold(near);
        commit(&store, 60);
        assert!(!is_lost(&store, first), "a bulk load still needs it");
        drop(firm);
        commit(&store, 1);
        assert!(is_lost(&store, first));
        assert!(!is_lost(&store, near), "less than the limit is behind it");
    }

    #[test]
    fn a_reader_idle_for_too_long_gets_an_error_unless_it_had_nothing_to_read() {
        let clock = Arc::<ManualClock>::default();
        let store = open(&clock, u64::MAX, 1_000);
        let first = commit(&store, 5);
        let _stopped = store.change_stream().hold(first);
        let second = commit(&store, 5);
        let idle = store.change_stream().hold(second);
        clock.0.store(900, Ordering::Relaxed);
        commit(&store, 1);
        assert!(!is_lost(&store, first));
        clock.0.store(1_100, Ordering::Relaxed);
        commit(&store, 1);
        assert!(is_lost(&store, first));
        // The unread part is 200 ms old, however long this reader has waited for it.
        assert!(!is_lost(&store, second));
        drop(idle);
    }

    #[test]
    fn setting_the_clock_makes_no_reader_late() {
        let clock = Arc::<ManualClock>::default();
        let week = 7 * 24 * 60 * 60 * 1000;
        let store = open(&clock, u64::MAX, week);
        let first = commit(&store, 5);
        let _reader = store.change_stream().hold(first);
        commit(&store, 1);
        // The device gets the time from the network.
        clock.0.store(50 * 52 * week, Ordering::Relaxed);
        commit(&store, 1);
        commit(&store, 1);
        assert!(!is_lost(&store, first));
        // And is set back: later commits are not taken for older ones.
        clock.0.store(week, Ordering::Relaxed);
        commit(&store, 1);
        assert!(!is_lost(&store, first));
        for hour in 1..7 * 24 + 3 {
            clock
                .0
                .store(week + hour * 60 * 60 * 1000, Ordering::Relaxed);
            commit(&store, 1);
        }
        assert!(is_lost(&store, first), "a week is a week");
    }
}
