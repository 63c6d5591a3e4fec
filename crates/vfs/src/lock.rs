//! File locks across processes: one writer, or several readers that exclude writers.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    path::Path,
};

use crate::platform::private_file;

/// Lock mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// Several readers may hold the lock.
    Shared,
    /// One holder only.
    Exclusive,
}

/// Why a lock was not acquired.
#[derive(Debug)]
pub enum LockError {
    /// Another process holds it; its process id, if it recorded one.
    Held(Option<u32>),
    /// The file cannot be opened or locked.
    Io(io::Error),
}

/// A lock, released on drop or when the process ends.
#[derive(Debug)]
pub struct Lock {
    guard: LockGuard,
}

#[derive(Debug)]
enum LockGuard {
    Real(RealLock),
    Simulated(crate::sim::SimLock),
}

/// Outcome of [`Lock::try_upgrade`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Upgrade {
    /// The lock is exclusive now.
    Exclusive,
    /// Others hold it, too: it is shared, as before.
    Shared,
    /// Another process took it exclusively in between: it is not held any more.
    Lost,
}

impl Lock {
    pub(crate) fn simulated(lock: crate::sim::SimLock) -> Self {
        Self {
            guard: LockGuard::Simulated(lock),
        }
    }

    /// Makes a shared lock exclusive, unless others hold it, too. Does not wait.
    ///
    /// `flock` gives a shared lock up before it takes the exclusive one. If others hold it, the shared one is taken
    /// again, and only a process that takes the exclusive one in between can prevent that.
    ///
    /// # Errors
    /// Those of the file system; the lock may be lost then.
    pub fn try_upgrade(&mut self) -> io::Result<Upgrade> {
        let file = match &mut self.guard {
            LockGuard::Simulated(lock) => return Ok(lock.try_upgrade()),
            LockGuard::Real(lock) => &lock.file,
        };
        match file.try_lock() {
            Ok(()) => return Ok(Upgrade::Exclusive),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
        match file.try_lock_shared() {
            Ok(()) => Ok(Upgrade::Shared),
            Err(TryLockError::WouldBlock) => Ok(Upgrade::Lost),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Makes an exclusive lock shared. Returns whether it is still held: another process may have taken it in between.
    ///
    /// # Errors
    /// Those of the file system; the lock may be lost then.
    pub fn downgrade(&mut self) -> io::Result<bool> {
        let file = match &mut self.guard {
            LockGuard::Simulated(lock) => {
                lock.downgrade();
                return Ok(true);
            }
            LockGuard::Real(lock) => &lock.file,
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

#[derive(Debug)]
struct RealLock {
    file: File,
    /// The process that took the lock: a forked child has a copy of the handle, and must not unlock.
    process: u32,
}

/// Unlocks explicitly: closing the file would leave the lock with the copy that a child holds between fork
/// and exec, and the next open would be refused.
impl Drop for RealLock {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            // If unlocking fails, closing the file unlocks it later.
            let _ = self.file.unlock();
        }
    }
}

/// Locks a file of the operating system.
pub(crate) fn take(path: &Path, mode: LockMode) -> Result<Option<Lock>, LockError> {
    let opened = match mode {
        LockMode::Shared => OpenOptions::new().read(true).open(path),
        LockMode::Exclusive => {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            private_file(&mut options).open(path)
        }
    };
    let mut file = match opened {
        Ok(file) => file,
        // A copy on a read-only medium may have no lock file, and cannot be written anyway.
        Err(error) if mode == LockMode::Shared && error.kind() == io::ErrorKind::NotFound => {
            return Ok(None);
        }
        Err(error) => return Err(LockError::Io(error)),
    };
    // `flock` on Unix; on Windows `LockFileEx`, which also keeps other processes from reading the process id.
    let locked = match mode {
        LockMode::Shared => file.try_lock_shared(),
        LockMode::Exclusive => file.try_lock(),
    };
    match locked {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(LockError::Held(holder(&mut file))),
        Err(TryLockError::Error(error)) => return Err(LockError::Io(error)),
    }
    if mode == LockMode::Exclusive {
        let written = file
            .set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()));
        // The process id is informational; the lock holds without it, also on a full disk.
        drop(written);
    }
    Ok(Some(Lock {
        guard: LockGuard::Real(RealLock {
            file,
            process: std::process::id(),
        }),
    }))
}

/// A file, or a folder, that is locked and unlocked often through one handle. The lock belongs to the handle, not to
/// the process: two handles in one process exclude each other, and the system releases it when the process ends,
/// however it ends. On Unix it is `flock`, whose locks have that owner on every system; those of `fcntl` have it on
/// Linux alone.
#[derive(Debug)]
pub struct LockFile(File);

impl LockFile {
    /// Opens the file `path`, and creates it if it does not exist.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        private_file(&mut options).open(path).map(Self)
    }

    /// Opens the folder `path`, which exists.
    pub fn open_folder(path: &Path) -> io::Result<Self> {
        File::open(path).map(Self)
    }

    /// Takes the lock unless another handle has it; in the mode `Shared` several handles have it. Returns whether it
    /// did. A handle that has the lock changes its mode, and may lose it to another handle in between.
    pub fn try_lock(&self, mode: LockMode) -> io::Result<bool> {
        let locked = match mode {
            LockMode::Shared => self.0.try_lock_shared(),
            LockMode::Exclusive => self.0.try_lock(),
        };
        match locked {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// Takes the lock, and waits while another handle has it.
    pub fn lock(&self, mode: LockMode) -> io::Result<()> {
        match mode {
            LockMode::Shared => self.0.lock_shared(),
            LockMode::Exclusive => self.0.lock(),
        }
    }

    /// Releases the lock.
    pub fn unlock(&self) -> io::Result<()> {
        self.0.unlock()
    }

    /// Whether the file still has a name.
    pub fn has_name(&self) -> io::Result<bool> {
        Ok(crate::platform::name_count(&self.0)? > 0)
    }
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

    #[test]
    fn two_handles_exclude_each_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lock");
        let open = || LockFile::open(&path).expect("a file");
        let (one, other) = (open(), open());
        let try_lock = |file: &LockFile, mode| file.try_lock(mode).expect("no error");
        assert!(try_lock(&one, LockMode::Exclusive));
        assert!(!try_lock(&other, LockMode::Exclusive) && !try_lock(&other, LockMode::Shared));
        one.unlock().expect("no error");
        assert!(try_lock(&one, LockMode::Shared) && try_lock(&other, LockMode::Shared));
        assert!(
            !try_lock(&one, LockMode::Exclusive),
            "the other one has it too"
        );
        drop(other);
        assert!(try_lock(&one, LockMode::Exclusive));
        assert!(one.has_name().expect("no error"));
        std::fs::remove_file(&path).expect("no error");
        assert!(!one.has_name().expect("no error"));
        let whole = LockFile::open_folder(folder.path()).expect("a folder");
        assert!(try_lock(&whole, LockMode::Exclusive));
    }

    #[test]
    fn a_lock_is_upgraded_when_it_is_held_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("LOCK");
        drop(take(&path, LockMode::Exclusive).expect("a lock"));
        let shared = || {
            take(&path, LockMode::Shared)
                .expect("a lock")
                .expect("its file")
        };
        let is_held = |mode| matches!(take(&path, mode), Err(LockError::Held(_)));
        let (mut one, other) = (shared(), shared());
        assert_eq!(one.try_upgrade().expect("no error"), Upgrade::Shared);
        drop(other);
        assert!(is_held(LockMode::Exclusive) && !is_held(LockMode::Shared));
        assert_eq!(one.try_upgrade().expect("no error"), Upgrade::Exclusive);
        assert!(is_held(LockMode::Shared));
        assert!(one.downgrade().expect("no error"));
        assert!(is_held(LockMode::Exclusive) && !is_held(LockMode::Shared));
    }

    /// A child holds copies of all open files until exec.
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
