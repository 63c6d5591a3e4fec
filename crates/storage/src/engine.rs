//! The engine, and the hook that it notifies of its commits.

use std::{any::Any, fmt, path::Path, sync::Arc, time::Duration};

use crate::{
    Capabilities, Commit, EngineTransaction, Snapshot, Statistics, StorageError, StreamEntry,
    Version, version_not_kept,
};

/// An engine: one database directory, or one in-memory database, opened once.
pub trait Engine: Send + Sync {
    /// Features and limits of this engine.
    fn capabilities(&self) -> Capabilities;
    /// The last committed and visible version.
    fn version(&self) -> Version;
    /// A read view of the last committed version, valid for as long as it is held, on any thread.
    fn snapshot(&self) -> Result<Arc<dyn Snapshot>, StorageError>;
    /// A read view of an earlier version, from [`Engine::oldest_version`] on; [`StorageError::Invalid`] for
    /// others. An engine that keeps only one version returns a view of that one only.
    fn snapshot_at(&self, version: Version) -> Result<Arc<dyn Snapshot>, StorageError> {
        let last = self.snapshot()?;
        if last.version() == version {
            return Ok(last);
        }
        Err(version_not_kept(version, last.version()))
    }
    /// The oldest version that is guaranteed to be readable at this moment.
    fn oldest_version(&self) -> Version {
        self.version()
    }
    /// The last version that was committed at or before a time, in milliseconds since 1970; `None` if that is
    /// no longer known, or if the engine does not record times.
    fn version_at(&self, time_ms: u64) -> Result<Option<Version>, StorageError> {
        let _ = time_ms;
        Ok(None)
    }
    /// A transaction that reads the last committed version and may write.
    fn begin(&self) -> Result<Box<dyn EngineTransaction>, StorageError>;
    /// Change-stream entries with a version above `after`, ascending, at most `max_entries` and about
    /// `max_bytes` (at least one entry if there is one). Only durable entries are returned if `durable_only`.
    fn stream(
        &self,
        after: Version,
        max_entries: usize,
        max_bytes: usize,
        durable_only: bool,
    ) -> Result<Vec<StreamEntry>, StorageError>;
    /// Trims change-stream entries with a version up to and including `upto`.
    fn trim_stream(&self, upto: Version) -> Result<(), StorageError>;
    /// The change stream is trimmed up to and including this version (its low watermark); 0 if nothing was
    /// trimmed. A consumer that has read up to an earlier version has missed entries: read a part of the stream
    /// first, then check.
    fn stream_trimmed(&self) -> Result<Version, StorageError>;
    /// Makes all commits so far durable, including those with [`crate::Durability::Buffered`].
    fn sync(&self) -> Result<(), StorageError>;
    /// Waits until the background work is done: all commits are flushed, and all pending compactions have run.
    fn wait_for_background_work(&self) -> Result<(), StorageError> {
        self.sync()
    }
    /// Compacts the stored data completely; does nothing if the engine has no compaction.
    fn compact(&self) -> Result<(), StorageError> {
        self.wait_for_background_work()
    }
    /// Writes a copy of the last committed version to `target`, which must not exist or be an empty folder,
    /// while reads and writes continue. The copy opens as an independent database.
    fn checkpoint(&self, target: &Path) -> Result<(), StorageError>;
    /// Loads ascending, distinct pairs past the transaction path, all or nothing, as one commit with one
    /// optional change-stream entry. `pairs` yields sorted runs; the keys must not exist yet. Engines without
    /// [`Capabilities::ingest`] run it as one large transaction.
    fn ingest(
        &self,
        pairs: &mut dyn Iterator<Item = Result<(Vec<u8>, Vec<u8>), StorageError>>,
        stream: Option<&[u8]>,
    ) -> Result<Version, StorageError>;
    /// Keeps other processes from opening the database until the result is dropped. Waits for those that have it open,
    /// at most for `patience`.
    ///
    /// # Errors
    /// [`StorageError::NeedsAlone`] if others still have it open.
    fn hold_alone(&self, patience: Duration) -> Result<AloneHold, StorageError> {
        let _ = patience;
        Ok(AloneHold::default())
    }
    /// Registers the hook that is notified of every commit before it becomes visible; replaces the previous
    /// one.
    fn set_hook(&self, hook: Arc<dyn CommitHook>);
    /// Sizes and counts, for display and for the planner.
    fn statistics(&self) -> Result<Statistics, StorageError>;
    /// Reads all stored data and reports damage; `progress` is called with (done, total) bytes.
    fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<Vec<String>, StorageError>;
}

/// Notified of every commit, on the thread that applies it: time spent here delays all commits. It must not
/// call the engine.
pub trait CommitHook: Send + Sync {
    /// The commit `version` with the change-stream entry `stream` is validated and about to be applied; it is
    /// not visible yet. Versions ascend. Commits without an entry are announced as well.
    fn committing(&self, version: Version, stream: &[u8]);
    /// Like [`CommitHook::committing`], for a commit of another process on a shared database. Its writes are passed
    /// too: what this process caches of them must be corrected. Such a commit always happens.
    fn committing_remote(&self, commit: &Commit<'_>) {
        self.committing(commit.version, commit.stream);
    }
    /// The announced commits with a version of `from` and above were not applied; their versions may be reused.
    fn abandoned(&self, from: Version);
    /// The outcome of the announced commits with a version of `from` and above is unknown; the engine refuses
    /// further writes.
    fn unsettled(&self, from: Version);
}

/// Keeps other processes from opening a database, until it is dropped. The default is for an engine that only one
/// process can have open.
#[derive(Default)]
#[must_use = "others can open the database when this is dropped"]
pub struct AloneHold {
    _held: Option<Box<dyn Any + Send + Sync>>,
}

impl AloneHold {
    /// Ends when `held` is dropped.
    pub fn new(held: impl Any + Send + Sync) -> Self {
        Self {
            _held: Some(Box::new(held)),
        }
    }
}

impl fmt::Debug for AloneHold {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("AloneHold").finish_non_exhaustive()
    }
}
