//! The engine: the backend under the optimistic layer.

use std::path::Path;

use isomer_storage::{Optimistic, StorageError, Version, delegate_engine};

use isomer_vfs::Seal;

use crate::{StoreOptions, backend::StoreBackend, open};

/// A database directory, open.
pub struct StoreEngine {
    engine: Optimistic<StoreBackend>,
}

impl StoreEngine {
    /// Opens the database in the directory `path`, and makes it first if nothing is there and the options allow it.
    ///
    /// What was committed and is not in tables yet is read from the log.
    /// Errors: [`StorageError::Unavailable`] where it is in use, missing or may not be read or written;
    /// [`StorageError::Corrupt`] where it is damaged, of a newer format, or no database at all.
    pub fn open(path: impl AsRef<Path>, options: StoreOptions) -> Result<Self, StorageError> {
        Ok(Self {
            engine: Optimistic::new(StoreBackend::open(path.as_ref(), options, false)?),
        })
    }

    /// As [`StoreEngine::open`], where the restoring of the database has not ended.
    pub(crate) fn open_restored(path: &Path, options: StoreOptions) -> Result<Self, StorageError> {
        Ok(Self {
            engine: Optimistic::new(StoreBackend::open(path, options, true)?),
        })
    }

    /// What encrypts its files, and should what is kept beside them.
    pub fn seal(&self) -> &Seal {
        &self.options().seal
    }

    /// Its folder.
    pub(crate) fn directory(&self) -> &Path {
        self.engine.backend().directory()
    }

    /// How it was opened.
    pub(crate) fn options(&self) -> &StoreOptions {
        self.engine.backend().options()
    }

    /// The right to make a backup: one at a time.
    pub(crate) fn begin_backup(
        &self,
    ) -> Result<isomer_storage::sync::MutexGuard<'_, ()>, StorageError> {
        self.engine.backend().begin_backup()
    }

    /// As [`isomer_storage::Engine::checkpoint`]; answers the version of the copy.
    pub(crate) fn checkpoint_as(
        &self,
        target: &Path,
        identity: u128,
    ) -> Result<Version, StorageError> {
        self.engine.backend().checkpoint_as(target, identity)
    }

    /// Puts everything that was committed into tables, and lets go of what of the log nobody needs any more.
    pub fn flush(&self) -> Result<(), StorageError> {
        self.engine.backend().flush()
    }

    /// Merges tables as far as their number or what was deleted gives reason to.
    pub fn compact(&self) -> Result<(), StorageError> {
        self.engine.backend().compact(false)
    }

    /// Merges all tables into one run, and takes out of them what nobody can read any more.
    pub fn compact_all(&self) -> Result<(), StorageError> {
        self.engine.backend().flush()?;
        self.engine.backend().compact(true)
    }

    /// Makes segments of the log ahead, as a thread does where there are threads.
    #[doc(hidden)]
    pub fn prepare(&self) -> Result<(), StorageError> {
        self.engine.backend().prepare()
    }

    /// Whether the directory `path` holds a database of this engine.
    pub fn is_at(path: impl AsRef<Path>, options: &StoreOptions) -> Result<bool, StorageError> {
        open::exists(path.as_ref(), options)
    }
}

delegate_engine!(StoreEngine, engine);

impl std::fmt::Debug for StoreEngine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("StoreEngine")
            .finish_non_exhaustive()
    }
}
