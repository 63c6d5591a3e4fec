//! Copies that become separate databases.
//!
//! A copy that is used in addition to its original must number its operations under another name: two operations with
//! one number would pass for the same one. So there is a mark in the database while it is copied, and with it in the
//! copy. Opening a marked database begins a new epoch before anything is numbered. If the process ends while it copies,
//! the mark stays in the original, too, which then begins a new epoch itself: that costs a replica name, and nothing
//! else.

use std::{path::Path, time::Duration};

use isomer_layout::{DataError, keyspace::COPY};
use isomer_storage::{Durability, ProcessLocks, SharedLock, StorageError, lock_error};

use crate::DataStore;

/// How long a copy waits for another process that removes the mark.
const JOINING_TIMEOUT: Duration = Duration::from_secs(10);

/// The mark in the database, until dropped.
struct CopyMark<'a> {
    store: &'a DataStore,
}

impl<'a> CopyMark<'a> {
    /// Marks the database, unless it is marked for another copy.
    fn set(store: &'a DataStore) -> Result<Self, DataError> {
        let mut copying = store.shared().copies.lock();
        if copying.count == 0 {
            let locks = store.options().process_locks.as_ref();
            let joined = locks.map(|locks| join_copying(locks));
            copying.among_processes = joined.transpose()?;
            if let Err(error) = change_mark(store, true) {
                copying.among_processes = None;
                return Err(error);
            }
        }
        copying.count += 1;
        Ok(Self { store })
    }
}

/// Holds the lock `copy` together with other processes that copy. It is held by one alone only while that removes the
/// mark.
fn join_copying(locks: &ProcessLocks) -> Result<SharedLock, DataError> {
    let joined = locks.share_within("copy", JOINING_TIMEOUT);
    let joined = joined.map_err(lock_error)?.ok_or_else(|| {
        StorageError::Unavailable(format!(
            "another process has been ending its copy of the database for {} s, and may be stopped: let it continue, or end it",
            JOINING_TIMEOUT.as_secs()
        ))
    })?;
    Ok(joined)
}

impl Drop for CopyMark<'_> {
    fn drop(&mut self) {
        let mut copying = self.store.shared().copies.lock();
        copying.count -= 1;
        if copying.count > 0 {
            return;
        }
        // The mark stays for the copies of other processes. A leftover one only begins an unnecessary epoch.
        let is_last = match copying.among_processes.take() {
            None => Some(None),
            Some(shared) => shared.into_exclusive().map(Some),
        };
        if let Some(_alone) = is_last {
            let _ = change_mark(self.store, false);
        }
    }
}

fn change_mark(store: &DataStore, set: bool) -> Result<(), DataError> {
    let mut tx = store.engine().begin()?;
    match set {
        true => tx.put(COPY, &[])?,
        false => tx.delete(COPY)?,
    }
    tx.commit(Durability::Buffered)?; // the copy is made of what is on disk, and the engine sees to that
    Ok(())
}

/// At opening: a copy begins a new epoch under a new replica name.
pub(crate) fn begin_epoch_of_copy(store: &DataStore) -> Result<(), DataError> {
    if store.engine().snapshot()?.get(COPY)?.is_none() {
        return Ok(());
    }
    store.numbering().begin_epoch_alone()?;
    change_mark(store, false)
}

impl DataStore {
    /// Copies the last committed version into the folder `target` ([`isomer_storage::Engine::checkpoint`]), as a
    /// separate database: as a replica it begins a new epoch under another name. Reads and writes continue.
    ///
    /// # Errors
    /// [`DataError::Denied`] for a replica that is opened for reading only, which cannot be marked.
    /// [`DataError::Invalid`] for an unusable target. Those of the engine.
    pub fn checkpoint(&self, target: &Path) -> Result<(), DataError> {
        let _marked = match self.options().read_only {
            false => Some(CopyMark::set(self)?),
            // No operations are numbered here.
            true if self.numbering().replica_id().is_none() => None,
            true => {
                return Err(DataError::Denied(
                    "copying a replica needs it open for writing, to mark it as copied".into(),
                ));
            }
        };
        match self.engine().checkpoint(target) {
            // The caller chose the folder: an error of the engine about it is invalid input.
            Err(StorageError::Invalid(message)) => Err(DataError::invalid(message)),
            copied => Ok(copied?),
        }
    }
}
