//! Locks on files: one writer, or readers that keep writers out, across processes.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use rustix::fs::{FlockOperation, flock};

/// Who else may hold the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// Others that read.
    Shared,
    /// Nobody.
    Exclusive,
}

/// Why a lock was not given.
#[derive(Debug)]
pub enum LockError {
    /// Somebody has it; the process, where it left its number.
    Held(Option<u32>),
    /// The file cannot be opened or locked.
    Io(io::Error),
}

/// A lock; dropping it lets go, and so does the end of the process.
#[derive(Debug)]
pub struct Lock {
    /// Held for its drop.
    _held: Held,
}

#[derive(Debug)]
enum Held {
    Real { _lock: RealLock },
    Simulated { _lock: crate::sim::SimLock },
}

impl Lock {
    pub(crate) fn simulated(lock: crate::sim::SimLock) -> Self {
        Self {
            _held: Held::Simulated { _lock: lock },
        }
    }
}

#[derive(Debug)]
struct RealLock {
    file: File,
    /// The process that took it: a fork of it holds a copy of the file, and must not let go.
    process: u32,
}

/// Unlocks by word: closing alone leaves the lock with the copy that a child has between its fork and its exec, and the
/// next opening would be refused.
impl Drop for RealLock {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            // If it cannot be unlocked, closing does it, later.
            let _ = flock(&self.file, FlockOperation::Unlock);
        }
    }
}

/// Locks a file of the operating system.
pub(crate) fn take(path: &Path, mode: LockMode) -> Result<Option<Lock>, LockError> {
    let opened = match mode {
        LockMode::Shared => OpenOptions::new().read(true).open(path),
        LockMode::Exclusive => OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path),
    };
    let mut file = match opened {
        Ok(file) => file,
        // A copy on a read-only medium may have no lock file, and nobody can write to it.
        Err(error) if mode == LockMode::Shared && error.kind() == io::ErrorKind::NotFound => {
            return Ok(None);
        }
        Err(error) => return Err(LockError::Io(error)),
    };
    let operation = match mode {
        LockMode::Shared => FlockOperation::NonBlockingLockShared,
        LockMode::Exclusive => FlockOperation::NonBlockingLockExclusive,
    };
    match flock(&file, operation) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => return Err(LockError::Held(holder(&mut file))),
        Err(error) => return Err(LockError::Io(error.into())),
    }
    if mode == LockMode::Exclusive {
        let written = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        // The note is for people; the lock holds without it, on a full disk too.
        drop(written);
    }
    Ok(Some(Lock {
        _held: Held::Real {
            _lock: RealLock {
                file,
                process: std::process::id(),
            },
        },
    }))
}

fn holder(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::{
        process::Command,
        sync::atomic::{AtomicBool, Ordering},
        thread,
    };

    use super::*;

    /// A child holds copies of all open files until it has become another program.
    #[test]
    fn starting_children_keeps_no_lock() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("LOCK");
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let child = Command::new("true").spawn();
                    child.expect("a child").wait().expect("its end");
                }
            });
            let refused = (0..20_000)
                .filter_map(|_| take(&path, LockMode::Exclusive).err())
                .next();
            done.store(true, Ordering::Relaxed);
            assert!(refused.is_none(), "{refused:?}");
        });
    }
}
