//! What the readers of this process need of the change stream of a shared database, published for the other processes.
//!
//! A process whose readers hold a part of the stream has a file `hold-N` among the locks of the database, and keeps it
//! locked: the lowest version that it needs, and a check of it (16 bytes, big endian). A process that trims the stream
//! reads these files, and removes those whose process has ended. Lowering a version, and trimming, exclude each other
//! by the lock `trim`; a version is raised without it, now and then.

use std::{
    fs::File,
    io::{self, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use isomer_storage::{ProcessLock, ProcessLocks, Version, files_named, try_lock_file};
use parking_lot::Mutex;
use xxhash_rust::xxh3::xxh3_64;

/// No part of the stream is needed.
const NOTHING: Version = Version::MAX;
/// The file is written again when the lowest version has risen by this much: up to as many more commits are retained.
const RAISED_AFTER: u64 = 1024;
/// How often a file that is being written is read again.
const READINGS: usize = 8;
/// How long a reader waits for a process that trims.
const LOWERING_TIMEOUT: Duration = Duration::from_millis(200);
const START: &str = "hold-";

/// The file of this process, and those of the others.
#[derive(Debug)]
pub(crate) struct SharedHolds {
    locks: Arc<ProcessLocks>,
    /// What the file says.
    published: AtomicU64,
    own: Mutex<Option<OwnFile>>,
}

#[derive(Debug)]
struct OwnFile {
    path: PathBuf,
    file: File,
    _lock: ProcessLock,
}

impl SharedHolds {
    pub(crate) fn new(locks: Arc<ProcessLocks>) -> Self {
        Self {
            locks,
            published: AtomicU64::new(NOTHING),
            own: Mutex::new(None),
        }
    }

    /// The lock under which versions are lowered; none if another process keeps it for long, or the file system
    /// fails: then a reader may find that what it held was trimmed.
    pub(crate) fn lock_lowering(&self) -> Option<ProcessLock> {
        let lock = self.locks.lock_within("trim", LOWERING_TIMEOUT);
        lock.ok().flatten()
    }

    /// The same lock, under which the stream is trimmed; none while another process has it.
    pub(crate) fn lock_trimming(&self) -> Option<ProcessLock> {
        self.locks.try_lock("trim").ok().flatten()
    }

    /// Whether the others do not know yet that a version is needed.
    pub(crate) fn lacks(&self, version: Version) -> bool {
        version < self.published.load(Ordering::Acquire)
    }

    /// Lowers the published version. The caller holds [`SharedHolds::lock_lowering`].
    pub(crate) fn lower(&self, version: Version) {
        if self.lacks(version) {
            self.publish(version);
        }
    }

    /// Raises the published version to the lowest one that is needed now, if it has risen far.
    pub(crate) fn raise(&self, lowest: Option<Version>) {
        let lowest = lowest.unwrap_or(NOTHING);
        let published = self.published.load(Ordering::Acquire);
        if lowest == NOTHING && published != NOTHING
            || lowest > published && lowest - published >= RAISED_AFTER
        {
            self.publish(lowest);
        }
    }

    fn publish(&self, version: Version) {
        let mut own = self.own.lock();
        // A hold that cannot be published is not a reason to refuse a reader: it gets an error if it falls far behind.
        if self.write(&mut own, version).is_ok() {
            self.published.store(version, Ordering::Release);
        }
    }

    fn write(&self, own: &mut Option<OwnFile>, version: Version) -> io::Result<()> {
        let own = match own {
            Some(own) => own,
            None => own.insert(self.create()?),
        };
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&version.to_be_bytes());
        let check = xxh3_64(&bytes[..8]);
        bytes[8..].copy_from_slice(&check.to_be_bytes());
        own.file.seek(SeekFrom::Start(0))?;
        own.file.write_all(&bytes)
    }

    fn create(&self) -> io::Result<OwnFile> {
        let number = uuid::Uuid::new_v4().simple();
        let path = self.locks.folder().join(format!("{START}{number}"));
        let lock = try_lock_file(&path)?.ok_or(io::ErrorKind::AlreadyExists)?;
        let file = File::options().write(true).open(&path)?;
        Ok(OwnFile {
            path,
            file,
            _lock: lock,
        })
    }

    /// The lowest versions that the other processes need. The caller holds [`SharedHolds::lock_trimming`].
    ///
    /// # Errors
    /// Those of the file system: the stream must not be trimmed then.
    pub(crate) fn of_others(&self) -> io::Result<Vec<Version>> {
        let own = self.own.lock().as_ref().map(|own| own.path.clone());
        let mut versions = Vec::new();
        for path in files_named(self.locks.folder(), START)? {
            if Some(&path) == own.as_ref() {
                continue;
            }
            if let Some(_ended) = try_lock_file(&path)? {
                std::fs::remove_file(&path)?;
                continue;
            }
            versions.push(read_version(&path)?);
        }
        versions.retain(|version| *version != NOTHING);
        Ok(versions)
    }
}

impl Drop for SharedHolds {
    fn drop(&mut self) {
        if let Some(own) = self.own.get_mut() {
            // It is removed by the next process that trims otherwise.
            let _ = std::fs::remove_file(&own.path);
        }
    }
}

/// The version in a file; 0, for the whole stream, where the file is malformed.
fn read_version(path: &Path) -> io::Result<Version> {
    for _ in 0..READINGS {
        let bytes = std::fs::read(path)?;
        if let Some((version, check)) = bytes.split_first_chunk::<8>()
            && *check == xxh3_64(version).to_be_bytes()
        {
            return Ok(Version::from_be_bytes(*version));
        }
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_see_the_lowest_version_until_the_process_ends() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("locks");
        let join = || {
            let locks = ProcessLocks::join(&path).expect("no error");
            locks.opened().expect("no error");
            SharedHolds::new(locks)
        };
        let (one, other) = (join(), join());
        let seen = || other.of_others().expect("no error");
        assert!(seen().is_empty());
        assert!(one.lacks(7));
        one.lower(7);
        assert!(!one.lacks(7) && one.lacks(6));
        assert_eq!(seen(), [7]);
        one.raise(Some(8));
        assert_eq!(seen(), [7], "it has not risen far");
        one.raise(Some(7 + RAISED_AFTER));
        assert_eq!(seen(), [7 + RAISED_AFTER]);
        one.raise(None);
        assert!(seen().is_empty());
        one.lower(3);
        assert_eq!(seen(), [3]);
        // A process that was killed leaves its file behind, unlocked.
        let left = path.join("hold-left");
        std::fs::write(&left, [0; 16]).expect("written");
        assert_eq!(seen(), [3]);
        assert!(!left.exists());
        drop(one);
        assert!(seen().is_empty());
    }
}
