//! Only one process may open a database for writing: the file `LOCK`, locked, with the holder's process id.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Seek, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use isomer_storage::StorageError;
use rustix::fs::{FlockOperation, flock};

/// Held while the database is open; the system lets it go with the process, however that ends.
#[derive(Debug)]
pub struct DirectoryLock {
    file: Option<File>,
    /// The process that took it: a fork of it holds a copy of the file, and must not let go.
    process: u32,
}

impl DirectoryLock {
    /// Locks `directory` for one writer, or for readers that keep writers out.
    pub fn take(directory: &Path, read_only: bool) -> Result<Self, StorageError> {
        let path = directory.join("LOCK");
        let opened = if read_only {
            OpenOptions::new().read(true).open(&path)
        } else {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(&path)
        };
        let mut file = match opened {
            Ok(file) => file,
            // A copy on a read-only medium may have no lock file, and nobody can write to it.
            Err(error) if read_only && error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self {
                    file: None,
                    process: std::process::id(),
                });
            }
            Err(error) => return Err(crate::open::io_error("locking", &path, &error)),
        };
        let operation = if read_only {
            FlockOperation::NonBlockingLockShared
        } else {
            FlockOperation::NonBlockingLockExclusive
        };
        match flock(&file, operation) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(held_by(directory, &mut file)),
            Err(error) => return Err(crate::open::io_error("locking", &path, &error.into())),
        }
        if !read_only {
            let written = file
                .set_len(0)
                .and_then(|()| file.rewind())
                .and_then(|()| writeln!(file, "{}", std::process::id()));
            // The note is for people; the lock holds without it, on a full disk too.
            drop(written);
        }
        Ok(Self {
            file: Some(file),
            process: std::process::id(),
        })
    }
}

/// Unlocks by word: closing alone leaves the lock with the copy that a child has between its fork and its exec, and the
/// next opening would be refused.
impl Drop for DirectoryLock {
    fn drop(&mut self) {
        if let Some(file) = &self.file
            && self.process == std::process::id()
        {
            // If it cannot be unlocked, closing does it, later.
            let _ = flock(file, FlockOperation::Unlock);
        }
    }
}

fn held_by(directory: &Path, file: &mut File) -> StorageError {
    let mut text = String::new();
    let pid = file
        .take(32)
        .read_to_string(&mut text)
        .ok()
        .and_then(|_| text.trim().parse::<u32>().ok());
    let place = directory.display();
    StorageError::Unavailable(match pid {
        Some(pid) if pid == std::process::id() => {
            format!(
                "the database `{place}` is already open in this process ({pid}): share the open one, or close it first"
            )
        }
        Some(pid) => {
            format!("the database `{place}` is in use by process {pid}: close it there first")
        }
        None => {
            format!("the database `{place}` is in use by another process: close it there first")
        }
    })
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
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let child = Command::new("true").spawn();
                    child.expect("a child").wait().expect("its end");
                }
            });
            let refused = (0..20_000)
                .filter_map(|_| DirectoryLock::take(folder.path(), false).err())
                .next();
            done.store(true, Ordering::Relaxed);
            assert!(refused.is_none(), "{refused:?}");
        });
    }
}
