//! The engine: the backend under the optimistic layer.

use std::path::Path;

use isomer_shared_log::{DirectoryOptions, LogProcess, Retry};

use isomer_storage::{LogRetention, Optimistic, SharedOptions, StorageError, delegate_engine};

use isomer_vfs::Seal;

use crate::{
    LogSharing, LsmOptions,
    backend::{BackupLock, Copied, LsmBackend},
    open, processes,
};

/// A database directory, open.
pub struct LsmEngine {
    engine: Optimistic<LsmBackend>,
}

impl LsmEngine {
    /// Opens the database in the directory `path`, and creates it first if the directory is empty or missing
    /// and the options allow it.
    ///
    /// Commits that are not in tables yet are replayed from the log. Errors: [`StorageError::InUse`] if it is
    /// open elsewhere in a way that excludes this one; [`StorageError::Unavailable`] if it is missing or may not be
    /// read or written; [`StorageError::Corrupt`] if it is damaged, of a newer format, or not a database.
    pub fn open(path: impl AsRef<Path>, options: LsmOptions) -> Result<Self, StorageError> {
        Self::over(LsmBackend::open(path.as_ref(), options, false)?)
    }

    /// The engine over a backend; if its log is a shared one, what follows its tables there is applied first.
    fn over(backend: LsmBackend) -> Result<Self, StorageError> {
        let Some(log) = backend.shared_log() else {
            let engine = Optimistic::new(backend);
            return Ok(Self { engine });
        };
        let options = backend.options();
        let retention = options.retention;
        let retry = match options.sharing {
            LogSharing::Over(_) => Retry::default(),
            // A log in a directory waits by itself for a process that is stopped: no call waits for it twice.
            _ => Retry {
                deadline: DirectoryOptions::default().patience,
                ..Retry::default()
            },
        };
        let shared = SharedOptions {
            clock: options.clock.clone(),
            random: options.random.clone(),
            retention: LogRetention {
                versions_ms: retention.versions_ms,
                stream_ms: retention.stream_ms,
                stream_bytes: retention.stream_bytes,
            },
            follow: options.background,
            retry,
            ..SharedOptions::default()
        };
        let engine = Optimistic::shared(backend, log, shared)?;
        engine.backend().flush_applied();
        Ok(Self { engine })
    }

    /// Like [`LsmEngine::open`], also for a database whose restore is not complete.
    pub(crate) fn open_restored(path: &Path, options: LsmOptions) -> Result<Self, StorageError> {
        Self::over(LsmBackend::open(path, options, true)?)
    }

    /// The encryption of its files, for other files that are kept with them.
    pub fn seal(&self) -> &Seal {
        &self.options().seal
    }

    /// Its folder.
    pub(crate) fn directory(&self) -> &Path {
        self.engine.backend().directory()
    }

    /// The options with which it was opened.
    pub(crate) fn options(&self) -> &LsmOptions {
        self.engine.backend().options()
    }

    /// The lock of a backup: one at a time.
    pub(crate) fn begin_backup(&self) -> Result<BackupLock<'_>, StorageError> {
        self.engine.backend().begin_backup()
    }

    /// Like [`isomer_storage::Engine::checkpoint`], with a given identity of the copy.
    pub(crate) fn checkpoint_as(
        &self,
        target: &Path,
        identity: u128,
    ) -> Result<Copied, StorageError> {
        self.catch_up()?;
        self.engine.backend().checkpoint_as(target, identity)
    }

    /// Flushes all commits to tables, and removes what the log no longer needs. If another process maintains the tables
    /// of a shared database, waits until that one has.
    pub fn flush(&self) -> Result<(), StorageError> {
        self.catch_up()?;
        self.engine.backend().flush()?;
        self.engine.trim_log()
    }

    /// Applies what other processes have committed.
    fn catch_up(&self) -> Result<(), StorageError> {
        self.engine.snapshot().map(drop)
    }

    /// In a shared database: adopts tables that another process has published, and takes over if the process that
    /// maintained them has ended. A background thread does this if there are threads.
    pub fn follow(&self) -> Result<(), StorageError> {
        self.catch_up()?;
        self.engine.backend().follow()
    }

    /// The processes that have a shared database open for writing, and the id of the one that maintains its tables.
    /// For people: nothing depends on it.
    pub fn processes(&self) -> (Vec<LogProcess>, Option<u32>) {
        self.engine.backend().processes()
    }

    /// Whether this process flushes and compacts: always, unless another one of a shared database does.
    pub fn maintains(&self) -> bool {
        self.engine.backend().maintains()
    }

    /// Compacts tables as far as their number or their tombstones require.
    pub fn compact(&self) -> Result<(), StorageError> {
        self.engine.backend().compact(false)
    }

    /// Compacts all tables into one run, without versions that are no longer readable. If another process maintains the
    /// tables of a shared database, that one hands this over.
    pub fn compact_all(&self) -> Result<(), StorageError> {
        self.engine.backend().take_over()?;
        self.engine.backend().flush()?;
        self.engine.backend().compact(true)
    }

    /// Creates log segments in advance, as a background thread does if there are threads.
    #[doc(hidden)]
    pub fn prepare(&self) -> Result<(), StorageError> {
        self.engine.backend().prepare()
    }

    /// Whether the directory `path` holds a database of this engine.
    pub fn is_at(path: impl AsRef<Path>, options: &LsmOptions) -> Result<bool, StorageError> {
        open::exists(path.as_ref(), options)
    }

    /// Whether the directory `path` holds a database that [`LogSharing::AsStored`] opens for several processes: a
    /// shared one, or a copy of one that was not opened for writing yet. Nothing is locked or changed.
    pub fn is_shared_at(
        path: impl AsRef<Path>,
        options: &LsmOptions,
    ) -> Result<bool, StorageError> {
        let path = path.as_ref();
        let store = open::read(path, options)?;
        Ok(store.is_some_and(|made| {
            made.is_shared() || processes::becomes_shared(path, options, Some(made))
        }))
    }

    /// Refuses a folder, which exists, whose databases processes cannot share: on a network file system, and on a
    /// system without shared memory.
    ///
    /// # Errors
    /// [`StorageError::Unavailable`], with the reason.
    pub fn check_sharing(path: impl AsRef<Path>, options: &LsmOptions) -> Result<(), StorageError> {
        processes::check_sharing(path.as_ref(), options)
    }

    /// Whether other processes may have the database open for writing at the same time.
    pub fn is_shared(&self) -> bool {
        let options = self.options();
        self.engine.backend().shared_log().is_some() && options.sharing.is_shared()
    }
}

delegate_engine!(LsmEngine, engine);

impl std::fmt::Debug for LsmEngine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("LsmEngine").finish_non_exhaustive()
    }
}
