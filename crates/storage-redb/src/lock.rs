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
    _file: Option<File>,
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
                return Ok(Self { _file: None });
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
        Ok(Self { _file: Some(file) })
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
