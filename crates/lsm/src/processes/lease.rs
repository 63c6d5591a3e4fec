//! The maintenance lease: which process flushes and compacts.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use isomer_storage::sync::Mutex;
use isomer_storage::{StorageError, io_error};
use isomer_vfs::{Disk, Lock, LockError, LockMode, OpenMode};

/// Its file in the database's folder.
pub const MAINTENANCE: &str = "MAINTENANCE";
/// The file that asks the maintainer to flush.
pub const FLUSH: &str = "FLUSH";
/// The file whose lock asks the maintainer to release the lease for the holder of that lock.
pub const HANDOVER: &str = "HANDOVER";

/// The lease of the tables of a database. It is released when it is dropped, and when the process ends.
pub struct Lease {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    request: PathBuf,
    handover: PathBuf,
    held: Mutex<Option<Lock>>,
    /// The lock by which this process asks for the lease.
    asking: Mutex<Option<Lock>>,
}

/// Outcome of an attempt to take the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseOutcome {
    /// This process has it.
    Here,
    /// Another one has it; with its id if it is known.
    Elsewhere(Option<u32>),
}

impl Lease {
    /// The lease of the database in `directory`, which is not held yet.
    pub fn new(disk: Arc<dyn Disk>, directory: &Path) -> Self {
        Self {
            disk,
            path: directory.join(MAINTENANCE),
            request: directory.join(FLUSH),
            handover: directory.join(HANDOVER),
            held: Mutex::default(),
            asking: Mutex::default(),
        }
    }

    /// Takes the lease unless another process holds it. Does not wait.
    pub fn try_take(&self) -> Result<LeaseOutcome, StorageError> {
        let mut held = self.held.lock();
        if held.is_some() {
            return Ok(LeaseOutcome::Here);
        }
        match self.disk.lock(&self.path, LockMode::Exclusive) {
            Ok(lock) => {
                *held = lock;
                Ok(LeaseOutcome::Here)
            }
            Err(LockError::Held(pid)) => Ok(LeaseOutcome::Elsewhere(pid)),
            Err(LockError::Io(error)) => Err(io_error("locking", &self.path, &error)),
        }
    }

    /// Lets another process take it.
    pub fn release(&self) {
        drop(self.held.lock().take());
    }

    /// The process that holds it, for messages: as it was at some moment. `None` if no process does, or if its id is
    /// unknown.
    pub fn holder(&self) -> Option<u32> {
        if self.held.lock().is_some() {
            return Some(std::process::id());
        }
        // A shared lock is granted, and released at once, if there is no holder.
        match self.disk.lock(&self.path, LockMode::Shared) {
            Err(LockError::Held(pid)) => pid,
            _ => None,
        }
    }

    /// Asks the holder to release the lease for this process, until [`Lease::end_handover`]. Returns whether it did:
    /// another process may be asking.
    pub fn ask_for_handover(&self) -> Result<bool, StorageError> {
        match self.disk.lock(&self.handover, LockMode::Exclusive) {
            Ok(lock) => {
                *self.asking.lock() = lock;
                Ok(true)
            }
            Err(LockError::Held(_)) => Ok(false),
            Err(LockError::Io(error)) => Err(io_error("locking", &self.handover, &error)),
        }
    }

    /// Ends the request.
    pub fn end_handover(&self) {
        drop(self.asking.lock().take());
    }

    /// Whether another process asks for the lease.
    pub fn is_asked_for(&self) -> bool {
        self.asking.lock().is_none()
            && matches!(
                self.disk.lock(&self.handover, LockMode::Shared),
                Err(LockError::Held(_))
            )
    }

    /// Asks the holder to flush.
    pub fn request_flush(&self) -> Result<(), StorageError> {
        let made = self.disk.open(&self.request, OpenMode::Create);
        made.map(drop)
            .map_err(|error| io_error("making", &self.request, &error))
    }

    /// Whether another process asked for a flush since the last call. For the holder.
    pub fn take_request(&self) -> bool {
        let asked = self.disk.exists(&self.request).unwrap_or(false);
        // If it cannot be removed, it is served again: flushing more often than necessary is harmless.
        if asked && let Err(error) = self.disk.remove(&self.request) {
            return error.kind() != io::ErrorKind::NotFound;
        }
        asked
    }
}
