//! Copies that are databases of their own.
//!
//! A copy that goes on beside its original must number its operations apart from it: two that bear one number would pass for
//! the same. So there is a mark in the database while it is copied, and with it in the copy. Whoever opens that begins a new
//! epoch, before anything is numbered. Where the process ends while it copies, the mark stays in the original, too, which
//! then takes a new epoch itself: that costs a name, and nothing else.

use std::path::Path;

use isomer_storage::{Durability, StorageError};
use parking_lot::Mutex;

use crate::{
    DataError, Store,
    keyspace::COPY,
    replication::rules::{Mutant, broken},
};

/// How many copies are being made.
#[derive(Debug, Default)]
pub(crate) struct Copies(Mutex<usize>);

/// Keeps the mark in the database.
struct Marked<'a>(&'a Store);

impl Drop for Marked<'_> {
    fn drop(&mut self) {
        let mut copies = self.0.shared().copies.0.lock();
        *copies -= 1;
        if *copies == 0 {
            // What stays begins an epoch more than need be.
            let _ = self.0.change_mark(false);
        }
    }
}

impl Store {
    /// Copies the last committed version into the folder `target` ([`isomer_storage::Engine::checkpoint`]), as a database of
    /// its own: as a replica it takes another name than this one. Reads and writes go on.
    ///
    /// # Errors
    /// [`DataError::Denied`] for a replica that is opened for reading only: no mark can be put into it.
    /// [`DataError::Invalid`] where the target cannot be. Those of the engine.
    pub fn checkpoint(&self, target: &Path) -> Result<(), DataError> {
        let _marked = match self.options().read_only {
            false => Some(self.mark()?),
            // Nobody numbers anything here.
            true if self.replica_id().is_none() => None,
            true => {
                return Err(DataError::Denied(
                    "copying a replica needs it open for writing: what the copy takes is noted there".into(),
                ));
            }
        };
        match self.engine().checkpoint(target) {
            // Folders are given by the caller: what the engine refuses of them is no fault of ours.
            Err(StorageError::Invalid(message)) => Err(DataError::invalid(message)),
            copied => Ok(copied?),
        }
    }

    fn mark(&self) -> Result<Marked<'_>, DataError> {
        let mut copies = self.shared().copies.0.lock();
        if *copies == 0 {
            self.change_mark(true)?;
        }
        *copies += 1;
        Ok(Marked(self))
    }

    fn change_mark(&self, set: bool) -> Result<(), DataError> {
        let mut tx = self.engine().begin()?;
        match set {
            true => tx.put(COPY, &[])?,
            false => tx.delete(COPY)?,
        }
        tx.commit(Durability::Buffered)?; // the copy is made of what is on disk, and the engine sees to that
        Ok(())
    }

    /// At opening: a copy takes a name of its own.
    pub(crate) fn settle_copy(&self) -> Result<(), DataError> {
        if self.engine().snapshot()?.get(COPY)?.is_none() || broken(Mutant::CopyKeepsName) {
            return Ok(());
        }
        self.begin_epoch()?;
        self.change_mark(false)
    }
}
