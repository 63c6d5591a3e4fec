//! Having a shared database alone for a while: other processes wait to open it, or are refused.
//!
//! The process needs the maintenance lease first, so that of two that try at the same time one continues. Then it makes
//! its lock of the database exclusive, which succeeds if no other process has it open, also to read.

use std::{
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use isomer_storage::{AloneHold, StorageError, io_error, sync::Mutex};
use isomer_vfs::{Lock, Upgrade};

use crate::{core::Core, open};

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(5);

/// The lock of an open database.
pub struct DatabaseLock(Mutex<LockState>);

struct LockState {
    lock: Option<Lock>,
    /// Parts of this process that need the database alone. The lock is exclusive while there are any.
    alone_count: usize,
}

impl DatabaseLock {
    /// A lock that was taken when the database was opened.
    pub fn new(lock: Option<Lock>) -> Self {
        Self(Mutex::new(LockState {
            lock,
            alone_count: 0,
        }))
    }
}

impl Core {
    /// Has the database alone until the result is dropped. Waits for other processes at most for `patience`.
    ///
    /// # Errors
    /// [`StorageError::NeedsAlone`] if they still have it open.
    pub fn hold_alone(self: &Arc<Self>, patience: Duration) -> Result<AloneHold, StorageError> {
        self.check_writable()?;
        if self.wal.shared().is_some() && self.options.sharing.is_shared() {
            let began = Instant::now();
            while !self.try_hold_alone()? {
                if began.elapsed() >= patience {
                    return Err(self.needs_alone());
                }
                thread::sleep(PAUSE);
            }
            return Ok(AloneHold::new(Alone(self.clone())));
        }
        // It was opened exclusively.
        Ok(AloneHold::default())
    }

    fn try_hold_alone(&self) -> Result<bool, StorageError> {
        self.follow_tables()?;
        if !self.tree.maintains() {
            return Ok(false);
        }
        let mut held = self.lock.0.lock();
        if held.alone_count > 0 {
            held.alone_count += 1;
            return Ok(true);
        }
        let Some(lock) = &mut held.lock else {
            return Ok(false);
        };
        let failed = |error| {
            self.give_up("its lock was lost");
            io_error("locking", &self.directory.join(open::LOCK), &error)
        };
        match lock.try_upgrade().map_err(failed)? {
            Upgrade::Exclusive => {
                held.alone_count = 1;
                Ok(true)
            }
            Upgrade::Shared => Ok(false),
            Upgrade::Lost => {
                self.give_up("another process took it for itself");
                self.check_poison().map(|()| false)
            }
        }
    }

    fn end_alone(&self) {
        let mut held = self.lock.0.lock();
        held.alone_count -= 1;
        // It may be unknown whether a bulk load took place: others must not open the database before this process has
        // closed it.
        if held.alone_count > 0 || self.is_poisoned() {
            return;
        }
        if let Some(lock) = &mut held.lock
            && !lock.downgrade().unwrap_or(false)
        {
            self.give_up("another process took it for itself");
        }
    }

    fn needs_alone(&self) -> StorageError {
        let own = std::process::id();
        let listed = self.wal.shared().map(|wal| wal.processes());
        let listed = listed.into_iter().flatten();
        let mut processes: Vec<_> = listed
            .map(|process| (process.id.pid, process.kind))
            .collect();
        // This handle; the process may have others.
        if let Some(at) = processes.iter().position(|(pid, _)| *pid == own) {
            processes.remove(at);
        }
        StorageError::NeedsAlone {
            path: self.directory.clone(),
            processes,
        }
    }
}

struct Alone(Arc<Core>);

impl Drop for Alone {
    fn drop(&mut self) {
        self.0.end_alone();
    }
}
