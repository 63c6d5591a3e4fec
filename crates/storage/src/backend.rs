//! What a storage engine has to implement to get transactions: views of versions, and a way to apply a group of
//! commits.
//!
//! The overlay of a transaction's own writes, guards, validation and group commit are implemented once, in
//! [`crate::optimistic`], on top of these two traits.

use std::{path::Path, sync::Arc, time::Duration};

use crate::{
    AloneHold, Capabilities, Durability, Statistics, StorageError, StreamEntry, Version, View,
    WriteSet, version_not_kept,
};

/// Called with each pair of a bulk load.
pub type PairIterator<'a> = dyn Iterator<Item = Result<(Vec<u8>, Vec<u8>), StorageError>> + 'a;

/// One validated commit of a group, ready to be applied.
#[derive(Clone, Copy, Debug)]
pub struct Commit<'a> {
    /// Its version; the versions of a group ascend.
    pub version: Version,
    /// Its changes: apply [`WriteSet::deleted_ranges`] first, then [`WriteSet::slots`].
    pub writes: &'a WriteSet,
    /// Its entry in the change stream; may be empty.
    pub stream: &'a [u8],
}

impl Commit<'_> {
    /// Asserts that the versions of a group are consecutive and follow the last published one: a version that exists
    /// twice, or is left out, would be lost to readers and to the change stream.
    pub fn assert_order(published: Version, commits: &[Self]) {
        let mut last = commits
            .first()
            .map_or(published, |first| first.version.saturating_sub(1));
        assert!(
            last >= published,
            "a commit after version {published} must not have version {}",
            last + 1
        );
        for commit in commits {
            assert!(
                commit.version == last + 1,
                "the commit after version {last} must not have version {}",
                commit.version
            );
            last = commit.version;
        }
    }
}

/// A place in a shared log: everything before the record `next` is contained in some state.
///
/// The default is the beginning of an empty log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPoint {
    /// Position of the next record; the first one is 1.
    pub next: u64,
    /// Hash of the record before it; 0 at the beginning.
    pub hash: u64,
}

impl Default for LogPoint {
    fn default() -> Self {
        Self { next: 1, hash: 0 }
    }
}

/// The end of a record among several of a shared log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedEnd {
    /// Number of commits in it and the records before it.
    pub commits: usize,
    /// Its time, in milliseconds since 1970.
    pub time_ms: u64,
    /// The place behind it.
    pub after: LogPoint,
}

/// The part of an engine that differs between engines. Calls that change something come from one thread at a
/// time; reads may come from any thread.
pub trait Backend: Send + Sync + 'static {
    /// Its views.
    type View: View;

    /// Features and limits of the engine.
    fn capabilities(&self) -> Capabilities;
    /// The last published version. Cheap: called for every transaction.
    fn view(&self) -> Result<Arc<Self::View>, StorageError>;
    /// An earlier version, as in [`crate::Engine::snapshot_at`].
    fn view_at(&self, version: Version) -> Result<Arc<Self::View>, StorageError> {
        let last = self.view()?;
        if last.version() == version {
            return Ok(last);
        }
        Err(version_not_kept(version, last.version()))
    }
    /// The oldest version that is guaranteed to be readable at this moment.
    fn oldest_version(&self) -> Version {
        self.view().map_or(0, |view| view.version())
    }
    /// The last version that was committed at or before a time, as in [`crate::Engine::version_at`].
    fn version_at(&self, time_ms: u64) -> Result<Option<Version>, StorageError> {
        let _ = time_ms;
        Ok(None)
    }
    /// Applies a group completely or not at all, makes it as durable as requested, then publishes its last
    /// version. Returns [`StorageError::CommitUnknown`] if the outcome cannot be determined.
    fn apply(&self, commits: &[Commit<'_>], durability: Durability) -> Result<(), StorageError>;
    /// Makes room for a group whose record in a shared log has `bytes` bytes: before [`Backend::apply_logged`], and
    /// before a record of this process is appended. May wait for background work.
    ///
    /// # Errors
    /// If memory is full at the moment, or the engine is unusable. Nothing has changed, and a later call may succeed.
    fn make_room(&self, bytes: usize) -> Result<(), StorageError> {
        let _ = bytes;
        Ok(())
    }
    /// Applies a group that is in a shared log, where `after` is the place behind it, and publishes its last version.
    /// The engine writes nothing to another log. `commits` may be empty: then only the place moves.
    ///
    /// # Errors
    /// After any error the engine is incomplete and must be opened again.
    fn apply_logged(
        &self,
        commits: &[Commit<'_>],
        time_ms: u64,
        after: LogPoint,
    ) -> Result<(), StorageError> {
        let _ = (commits, time_ms, after);
        Err(StorageError::Unavailable(
            "this engine cannot be shared by several processes: use `lsm`".to_owned(),
        ))
    }
    /// Bytes of records that one call of [`Backend::apply_logged_records`] gets at most, unless one record has more.
    fn record_batch_bytes(&self) -> usize {
        0
    }
    /// Applies consecutive records of a shared log, as [`Backend::apply_logged`] does one by one; readers need not see
    /// the versions in between. `commits` are those of all records, and `ends` has the end of each record.
    ///
    /// # Errors
    /// After any error the engine is incomplete and must be opened again.
    fn apply_logged_records(
        &self,
        commits: &[Commit<'_>],
        ends: &[LoggedEnd],
    ) -> Result<(), StorageError> {
        let mut from = 0;
        for end in ends {
            self.apply_logged(&commits[from..end.commits], end.time_ms, end.after)?;
            from = end.commits;
        }
        Ok(())
    }
    /// The place in the shared log behind everything that the engine holds durably without the log: where a process
    /// that opens it now begins to read.
    fn log_point(&self) -> LogPoint {
        LogPoint::default()
    }
    /// The last version that survives a crash of the process and of the machine.
    fn durable_version(&self) -> Version;
    /// Change-stream entries with a version above `after` and up to `upto`, as in [`crate::Engine::stream`].
    fn stream(
        &self,
        after: Version,
        upto: Version,
        max_entries: usize,
        max_bytes: usize,
    ) -> Result<Vec<StreamEntry>, StorageError>;
    /// Forgets change-stream entries up to and including `upto`.
    fn trim_stream(&self, upto: Version) -> Result<(), StorageError>;
    /// Like [`crate::Engine::stream_trimmed`]. It is raised before the first entry is removed.
    fn stream_trimmed(&self) -> Result<Version, StorageError>;
    /// Makes everything applied durable.
    fn sync(&self) -> Result<(), StorageError>;
    /// As [`crate::Engine::wait_for_background_work`].
    fn wait_for_background_work(&self) -> Result<(), StorageError> {
        Ok(())
    }
    /// As [`crate::Engine::compact`].
    fn compact(&self) -> Result<(), StorageError> {
        Ok(())
    }
    /// Copies the last published version to a new place.
    fn checkpoint(&self, target: &Path) -> Result<(), StorageError>;
    /// Applies `pairs`, which ascend strictly and fit the limits, as the commit `version`; a key that already
    /// exists is [`StorageError::Invalid`]. All or nothing.
    fn ingest(
        &self,
        version: Version,
        pairs: &mut PairIterator<'_>,
        stream: Option<&[u8]>,
    ) -> Result<(), StorageError>;
    /// As [`crate::Engine::hold_alone`]; `None` if the engine has no bulk loads on a shared log.
    fn hold_alone(&self, patience: Duration) -> Result<Option<AloneHold>, StorageError> {
        let _ = patience;
        Ok(None)
    }
    /// Like [`Backend::ingest`], on a shared log that no other process has open: the pairs bypass the log. `append`
    /// appends the record of the commit, which has no writes, makes it durable, and returns its time and the place
    /// behind it. The pairs are visible if, and only if, that record is in the log, also after a crash.
    ///
    /// # Errors
    /// Those of `append`: after [`StorageError::CommitUnknown`] the engine must be opened again, and after any other
    /// one the record is not in the log.
    fn load(
        &self,
        version: Version,
        pairs: &mut PairIterator<'_>,
        append: &mut dyn FnMut() -> Result<(u64, LogPoint), StorageError>,
    ) -> Result<(), StorageError> {
        let _ = (version, pairs, append);
        Err(StorageError::Unavailable(
            "this engine has no bulk loads on a shared log: use `lsm`".to_owned(),
        ))
    }
    /// Sizes and counts; the caller fills in commits and conflicts.
    fn statistics(&self) -> Result<Statistics, StorageError>;
    /// Reads and checks everything, as in [`crate::Engine::verify`].
    fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<Vec<String>, StorageError>;
}
