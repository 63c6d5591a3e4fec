//! Locks of programs that use the database as a directory, by name: between the threads of this process.

use std::{collections::BTreeSet, io, sync::Arc};

use parking_lot::{Condvar, Mutex};

/// The held locks of a database.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    held: Mutex<BTreeSet<String>>,
    let_go: Condvar,
}

impl Locks {
    /// Takes the lock with this name. If it is held, waits for it with `wait`, and fails with
    /// [`io::ErrorKind::WouldBlock`] without.
    pub(super) fn lock(self: &Arc<Self>, name: &str, wait: bool) -> io::Result<DirectoryLock> {
        let mut held = self.held.lock();
        while held.contains(name) {
            if !wait {
                return Err(io::Error::new(
                    io::ErrorKind::WouldBlock,
                    format!("the lock `{name}` is held: wait until it is released"),
                ));
            }
            self.let_go.wait(&mut held);
        }
        held.insert(name.to_owned());
        drop(held);
        Ok(DirectoryLock {
            locks: self.clone(),
            name: name.to_owned(),
        })
    }
}

/// A lock, released on drop: see [`Directory::lock`](super::Directory::lock).
#[derive(Debug)]
#[must_use = "the lock is released when this is dropped"]
pub struct DirectoryLock {
    locks: Arc<Locks>,
    name: String,
}

impl Drop for DirectoryLock {
    fn drop(&mut self) {
        self.locks.held.lock().remove(&self.name);
        self.locks.let_go.notify_all();
    }
}
