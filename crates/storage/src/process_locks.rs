//! Locks between the processes that share a database, in its folder `locks`.
//!
//! They save work, and order what only one process at a time does: changes of the schema, sweeps, files of read views.
//! Correctness does not rest on them: what they order is also checked by the footprints of commits, or is derived data.
//! The operating system releases the locks of a process that ends, however it ends. The files stay.
//!
//! | file | its lock is held by |
//! |---|---|
//! | `opening` | the process that opens or closes the database at the moment |
//! | `members` | every process that has the database open, shared |
//! | `schema` | the process that changes indexes or constraints |
//! | `sweep` | the process that deletes expired entries |
//! | `views` | the process that writes the files of read views |
//! | `copy` | the processes that copy the database, together; alone, the last of them, which removes their mark |
//! | `trim` | the process that trims the change stream, or begins to hold a part of it |
//! | `hold-N` | the process whose readers need the change stream above the version in this file |
//! | `name-H` | a program that holds a lock with a name that it chose; H is a hash of it |

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use isomer_vfs::{LockFile, LockMode, private_folder};
use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_128;

use crate::StorageError;

/// How long an opening waits for another one.
const OPENING_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a lock that is waited for is tried.
const RETRY_PAUSE: Duration = Duration::from_millis(1);

/// The locks of one process that has a shared database open.
#[derive(Debug)]
pub struct ProcessLocks {
    folder: PathBuf,
    members: LockFile,
    /// Held while this process opens the database alone.
    opening: Mutex<Option<ProcessLock>>,
    was_alone: AtomicBool,
}

/// A lock of a process; released when it is dropped, and when the process ends.
#[derive(Debug)]
#[must_use = "the lock is released when this is dropped"]
pub struct ProcessLock {
    _file: LockFile,
}

impl ProcessLocks {
    /// Joins the processes that have the database with these locks open. `folder` is created; its parent exists. The
    /// first process opens alone: others wait until it calls [`ProcessLocks::opened`].
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] if another process opens the database for longer than ten seconds; errors of the
    /// file system.
    pub fn join(folder: &Path) -> io::Result<Arc<Self>> {
        match private_folder().create(folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let opening = lock_file_within(&folder.join("opening"), OPENING_TIMEOUT)?;
        let opening = opening.ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::TimedOut,
                format!(
                    "another process has been opening this database for more than {} s: wait, or end it if it is stopped",
                    OPENING_TIMEOUT.as_secs()
                ),
            )
        })?;
        // Only the holder of `opening` changes the mode of its lock on `members`.
        let members = LockFile::open(&folder.join("members"))?;
        let is_alone = members.try_lock(LockMode::Exclusive)?;
        let locks = Self {
            folder: folder.to_owned(),
            members,
            opening: Mutex::new(Some(opening)),
            was_alone: AtomicBool::new(is_alone),
        };
        if !is_alone {
            locks.opened()?;
        }
        Ok(Arc::new(locks))
    }

    /// Whether no other process had the database open when this one joined. Until [`ProcessLocks::opened`] none does.
    pub fn was_alone(&self) -> bool {
        self.was_alone.load(Ordering::Relaxed)
    }

    /// Lets others open the database.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn opened(&self) -> io::Result<()> {
        let mut opening = self.opening.lock();
        if opening.is_some() {
            // No other process has it exclusively, as that takes the lock `opening`.
            if !self.members.try_lock(LockMode::Shared)? {
                return Err(io::Error::new(
                    io::ErrorKind::WouldBlock,
                    "a program that does not follow the protocol has locked `locks/members`",
                ));
            }
            *opening = None;
        }
        Ok(())
    }

    /// Keeps others from opening the database, if no other process has it open: for work at its end. The process is no
    /// member afterwards, with either result.
    pub fn leave(&self) -> Option<LastProcess<'_>> {
        let leaving = Leaving(&self.members);
        let opening = self.try_lock("opening").ok().flatten()?;
        match self.members.try_lock(LockMode::Exclusive) {
            Ok(true) => Some(LastProcess {
                _leaving: leaving,
                _opening: opening,
            }),
            _ => None,
        }
    }

    /// Takes the lock with a name, unless another process, or another part of this one, has it.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn try_lock(&self, name: &str) -> io::Result<Option<ProcessLock>> {
        try_lock_file(&self.folder.join(name))
    }

    /// The same, and waits for it as long as `timeout`: a process that is stopped keeps its locks.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn lock_within(&self, name: &str, timeout: Duration) -> io::Result<Option<ProcessLock>> {
        lock_file_within(&self.folder.join(name), timeout)
    }

    /// Takes the lock with a name together with others that do; waits as long as `timeout` for one that has it alone.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn share_within(&self, name: &str, timeout: Duration) -> io::Result<Option<SharedLock>> {
        let file = LockFile::open(&self.folder.join(name))?;
        let began = Instant::now();
        while !file.try_lock(LockMode::Shared)? {
            if began.elapsed() >= timeout {
                return Ok(None);
            }
            std::thread::sleep(RETRY_PAUSE);
        }
        Ok(Some(SharedLock { file }))
    }

    /// Takes the lock with a name, and waits while another process, or another part of this one, has it.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn lock(&self, name: &str) -> io::Result<ProcessLock> {
        let file = LockFile::open(&self.folder.join(name))?;
        file.lock(LockMode::Exclusive)?;
        Ok(ProcessLock { _file: file })
    }

    /// The name of the lock for a name that a program chose: any text.
    pub fn name_of(text: &str) -> String {
        format!("name-{:032x}", xxh3_128(text.as_bytes()))
    }

    /// The folder of the files of the locks.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

/// A lock that several processes hold together.
#[derive(Debug)]
pub struct SharedLock {
    file: LockFile,
}

impl SharedLock {
    /// Holds the lock alone; `None` if others hold it, too: it is released then.
    pub fn into_exclusive(self) -> Option<ProcessLock> {
        let locked = self.file.try_lock(LockMode::Exclusive);
        let is_alone = locked.unwrap_or(false);
        is_alone.then_some(ProcessLock { _file: self.file })
    }
}

/// The last process that has a database open, while it closes it: others wait to open it.
pub struct LastProcess<'l> {
    // Released in this order.
    _leaving: Leaving<'l>,
    _opening: ProcessLock,
}

/// Ends the membership when it is dropped, with any outcome.
struct Leaving<'l>(&'l LockFile);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        // It is released at the end of the process in any case.
        let _ = self.0.unlock();
    }
}

/// The lock of a file, which is created if it is missing; `None` if another process holds it.
pub fn try_lock_file(path: &Path) -> io::Result<Option<ProcessLock>> {
    let file = LockFile::open(path)?;
    let locked = file.try_lock(LockMode::Exclusive)?;
    Ok(locked.then_some(ProcessLock { _file: file }))
}

fn lock_file_within(path: &Path, timeout: Duration) -> io::Result<Option<ProcessLock>> {
    let began = Instant::now();
    loop {
        match try_lock_file(path)? {
            None if began.elapsed() < timeout => std::thread::sleep(RETRY_PAUSE),
            outcome => return Ok(outcome),
        }
    }
}

/// Files of the folder whose names begin with `prefix`.
pub fn files_named(folder: &Path, prefix: &str) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// The error of a lock between processes that cannot be taken.
pub fn lock_error(error: io::Error) -> StorageError {
    StorageError::Unavailable(format!(
        "the locks between the processes of the database: {error}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_process_opens_alone_and_the_last_one_closes_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("locks");
        let first = ProcessLocks::join(&path).expect("the first");
        assert!(first.was_alone());
        let (sender, receiver) = std::sync::mpsc::channel();
        let joining = {
            let path = path.clone();
            std::thread::spawn(move || {
                let second = ProcessLocks::join(&path).expect("the second");
                sender.send(()).expect("the receiver waits");
                second
            })
        };
        let early = receiver.recv_timeout(Duration::from_millis(50));
        assert!(early.is_err(), "the second one waits");
        first.opened().expect("no error");
        receiver.recv().expect("the second one is in");
        let second = joining.join().expect("no panic");
        assert!(!second.was_alone());
        assert!(first.leave().is_none(), "the second one is open");
        let last = second.leave();
        assert!(last.is_some());
        drop(last);
        // Also while the handles of the others still exist.
        assert!(ProcessLocks::join(&path).expect("again").was_alone());
        drop((first, second));
    }

    #[test]
    fn a_shared_lock_is_held_alone_by_its_last_holder() {
        let folder = tempfile::tempdir().expect("a folder");
        let locks = ProcessLocks::join(&folder.path().join("locks")).expect("joined");
        let share = || {
            let shared = locks.share_within("copy", Duration::from_millis(20));
            shared.expect("no error")
        };
        let (one, other) = (share().expect("free"), share().expect("shared"));
        assert!(one.into_exclusive().is_none(), "the other one holds it");
        let alone = other.into_exclusive();
        assert!(alone.is_some());
        assert!(share().is_none(), "held alone, for longer than the timeout");
        drop(alone);
        assert!(share().is_some());
    }

    #[test]
    fn a_named_lock_has_one_holder() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("locks");
        let one = ProcessLocks::join(&path).expect("one");
        one.opened().expect("no error");
        let other = ProcessLocks::join(&path).expect("other");
        let held = one.try_lock("sweep").expect("no error");
        assert!(held.is_some());
        assert!(other.try_lock("sweep").expect("no error").is_none());
        assert!(one.try_lock("sweep").expect("no error").is_none());
        assert!(other.try_lock("views").expect("no error").is_some());
        drop(held);
        assert!(other.try_lock("sweep").expect("no error").is_some());
        let name = ProcessLocks::name_of("../any / name");
        assert!(other.try_lock(&name).expect("no error").is_some());
    }
}
