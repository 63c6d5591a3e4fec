//! Locks of programs that use the database as a directory, by name: between the threads of this process, and between
//! the processes that share the database.

use std::{collections::BTreeSet, io, sync::Arc};

use isomer_data::{ProcessLock, ProcessLocks};
use parking_lot::{Condvar, Mutex};

/// The held locks of a database.
#[derive(Debug)]
pub(crate) struct Locks {
    held: Mutex<BTreeSet<String>>,
    let_go: Condvar,
    processes: Option<Arc<ProcessLocks>>,
}

impl Locks {
    /// No lock is held; those of a shared database are also held among its processes.
    pub(crate) fn new(processes: Option<Arc<ProcessLocks>>) -> Self {
        Self {
            held: Mutex::default(),
            let_go: Condvar::new(),
            processes,
        }
    }

    /// Takes the lock with this name. If it is held, waits for it with `wait`, and fails with
    /// [`io::ErrorKind::WouldBlock`] without.
    pub(super) fn lock(self: &Arc<Self>, name: &str, wait: bool) -> io::Result<DirectoryLock> {
        let mut held = self.held.lock();
        while held.contains(name) {
            if !wait {
                return Err(is_held(name));
            }
            self.let_go.wait(&mut held);
        }
        held.insert(name.to_owned());
        drop(held);
        // From here on it is released when this is dropped.
        let mut lock = DirectoryLock {
            locks: self.clone(),
            name: name.to_owned(),
            process: None,
        };
        if let Some(processes) = &self.processes {
            let file = ProcessLocks::name_of(name);
            lock.process = match wait {
                true => Some(processes.lock(&file)?),
                false => Some(processes.try_lock(&file)?.ok_or_else(|| is_held(name))?),
            };
        }
        Ok(lock)
    }
}

fn is_held(name: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::WouldBlock,
        format!("the lock `{name}` is held: wait until it is released"),
    )
}

/// A lock, released on drop: see [`Directory::lock`](super::Directory::lock).
#[derive(Debug)]
#[must_use = "the lock is released when this is dropped"]
pub struct DirectoryLock {
    locks: Arc<Locks>,
    name: String,
    process: Option<ProcessLock>,
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        // Before another thread of this process continues.
        drop(self.process.take());
        self.locks.held.lock().remove(&self.name);
        self.locks.let_go.notify_all();
    }
}
