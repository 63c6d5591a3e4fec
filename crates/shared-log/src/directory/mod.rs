//! A shared log in a directory of one machine, for any number of its processes.
//!
//! | file | content |
//! |---|---|
//! | `manifest` | what all processes agree on: [`manifest`] |
//! | `NNNNNNNNNNNNNNNNNNNN.log` | segments with the records: [`frame`] |
//! | `page` | shared memory, made from the other files: [`page`]; its lock is the *append lock* |
//! | `sync` | empty; its lock is the *sync lock* |
//!
//! The files are the truth. An append writes a frame after the last one under the append lock, and then publishes the new
//! tail in the page. A process that ends in between leaves a page that says so: the next appender makes it again from the
//! files. A frame that is complete is part of the log, whether its process lived to say so or not. One that is not complete
//! was not acknowledged, and is dropped.
//!
//! The append lock is released before the sync. One process syncs for all that wait, under the sync lock.
//!
//! A process that has the log open for appending has a shared lock on the folder. The one that finds no other makes the page
//! again from the files, whatever it contains: after a loss of power it may be anything.

mod appending;
mod blobs;
mod frame;
mod manifest;
mod page;
mod process_lock;
mod recovery;
mod segments;

use std::{
    hash::{BuildHasher as _, Hasher as _, RandomState},
    io,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use isomer_vfs::{Disk, Open, RealDisk, process::ProcessId, remote_file_system};
use parking_lot::Mutex;

pub use self::blobs::DirectoryBlobs;
use self::{
    appending::Appending,
    manifest::Manifest,
    segments::{Cursor, Segments},
};
use crate::{Append, LogError, LogId, Position, SharedLog};

/// Largest record.
const MAX_RECORD_BYTES: usize = 64 << 20;
/// A process that only reads looks that often for new records while it waits: it cannot be woken, because it writes nothing.
const SHORTEST_LOOK: Duration = Duration::from_millis(1);
const LONGEST_LOOK: Duration = Duration::from_millis(20);

/// How a log in a directory is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// For reading and appending. A log that does not exist is created.
    Shared,
    /// For reading. Nothing is written, so that it works for a user without rights to write and on a medium that cannot be
    /// written. Calls that only look take system calls, and waiting is looking every 1 to 20 ms.
    ReadOnly,
}

/// Settings of a process that opens a log in a directory.
#[derive(Clone, Debug)]
pub struct DirectoryOptions {
    /// How it is opened.
    pub mode: Mode,
    /// The grace period of a log that is created; an existing one keeps its own.
    pub grace: Duration,
    /// A segment that is larger is followed by another one.
    pub segment_bytes: u64,
    /// How long an append waits for that of another process, which may be stopped.
    pub patience: Duration,
    /// The file system; locks and shared memory are always those of the operating system.
    pub disk: Arc<dyn Disk>,
}

impl Default for DirectoryOptions {
    fn default() -> Self {
        Self {
            mode: Mode::Shared,
            grace: Duration::from_secs(60),
            segment_bytes: 64 << 20,
            patience: Duration::from_secs(5),
            disk: Arc::new(RealDisk),
        }
    }
}

/// A shared log in a directory. Each process that uses it opens it once, and any number of processes do.
///
/// A record is visible to all processes when its append has returned, and survives the end of any process from then on; it
/// survives a loss of power when [`SharedLog::sync`] has returned. [`SharedLog::end`] is no system call.
#[derive(Debug)]
pub struct DirectoryLog {
    id: LogId,
    grace: Duration,
    access: Access,
}

#[derive(Debug)]
enum Access {
    Shared(Appending),
    ReadOnly(Following),
}

impl DirectoryLog {
    /// Opens the log in `folder`.
    ///
    /// # Errors
    /// `Refused` on a network file system, for another version of the format, where memory cannot be shared, without the
    /// rights, and in read-only mode if there is no log; `Unavailable` if another process takes long to open it; `Damaged`.
    pub fn open(folder: &Path, options: &DirectoryOptions) -> Result<Self, LogError> {
        let disk = &options.disk;
        if options.mode == Mode::Shared {
            let made = disk.make_folder(folder);
            made.map_err(|error| io_error(folder, &error))?;
        }
        check_file_system(folder).map_err(LogError::Refused)?;
        let (manifest, access) = match options.mode {
            Mode::Shared => {
                let (manifest, appending) = Appending::open(folder, options)?;
                (manifest, Access::Shared(appending))
            }
            Mode::ReadOnly => {
                let following = Following::open(folder, options)?;
                (following.manifest()?, Access::ReadOnly(following))
            }
        };
        Ok(Self {
            id: manifest.id,
            grace: manifest.grace,
            access,
        })
    }

    /// The processes that have the log open for appending, as far as they can be seen from here; none in read-only mode.
    /// For people: nothing depends on it.
    pub fn processes(&self) -> Vec<ProcessId> {
        match &self.access {
            Access::Shared(appending) => appending.processes(),
            Access::ReadOnly(_) => Vec::new(),
        }
    }

    fn appending(&self) -> Result<&Appending, LogError> {
        match &self.access {
            Access::Shared(appending) => Ok(appending),
            Access::ReadOnly(_) => Err(LogError::Refused("it was opened read-only".into())),
        }
    }
}

impl SharedLog for DirectoryLog {
    fn append(&self, at: Position, record: &[u8]) -> Result<Append, LogError> {
        let (bytes, max) = (record.len(), MAX_RECORD_BYTES);
        if bytes > max {
            return Err(LogError::TooLarge { bytes, max });
        }
        self.appending()?.append(at, record)
    }

    fn read(&self, from: Position, max_bytes: usize) -> Result<Vec<Vec<u8>>, LogError> {
        match &self.access {
            Access::Shared(appending) => appending.read(from, max_bytes),
            Access::ReadOnly(following) => following.read(from, max_bytes),
        }
    }

    fn end(&self) -> Result<Position, LogError> {
        match &self.access {
            Access::Shared(appending) => Ok(appending.glance()?.tail.position),
            Access::ReadOnly(following) => following.end(),
        }
    }

    fn sync(&self, upto: Position) -> Result<(), LogError> {
        self.appending()?.sync(upto)
    }

    fn first(&self) -> Result<Position, LogError> {
        match &self.access {
            Access::Shared(appending) => Ok(appending.glance()?.first),
            Access::ReadOnly(following) => Ok(following.manifest()?.first),
        }
    }

    fn trim(&self, below: Position) -> Result<(), LogError> {
        self.appending()?.trim(below)
    }

    fn wait(&self, seen: Position, time: Duration) -> Result<Position, LogError> {
        match &self.access {
            Access::Shared(appending) => appending.wait(seen, time),
            Access::ReadOnly(following) => following.wait(seen, time),
        }
    }

    fn max_record_bytes(&self) -> usize {
        MAX_RECORD_BYTES
    }

    fn id(&self) -> LogId {
        self.id
    }

    fn grace(&self) -> Duration {
        self.grace
    }
}

/// The log as a process sees it that writes nothing: its end is where the valid frames end.
#[derive(Debug)]
struct Following {
    folder: PathBuf,
    disk: Arc<dyn Disk>,
    segments: Segments,
    end: Mutex<Cursor>,
}

impl Following {
    fn open(folder: &Path, options: &DirectoryOptions) -> Result<Self, LogError> {
        let disk = options.disk.clone();
        let Some(manifest) = Manifest::read(&*disk, folder)? else {
            let what = format!("`{}` has no log", folder.display());
            return Err(LogError::Refused(what));
        };
        let segments = Segments::new(disk.clone(), folder, manifest.id, Open::Read);
        let start = segments.existing(manifest.newest)?.start();
        let following = Self {
            folder: folder.to_owned(),
            disk,
            segments,
            end: Mutex::new(start),
        };
        following.end()?;
        Ok(following)
    }

    fn manifest(&self) -> Result<Manifest, LogError> {
        let manifest = Manifest::read(&*self.disk, &self.folder)?;
        let own = manifest.filter(|manifest| manifest.id == self.segments.id);
        own.ok_or_else(|| LogError::Damaged("its manifest was removed or replaced".into()))
    }

    fn end(&self) -> Result<Position, LogError> {
        let mut end = self.end.lock();
        loop {
            while let Some((_, next)) = self.segments.step(&end)? {
                *end = next;
            }
            // The segments after this one may have been trimmed.
            let newest = self.manifest()?.newest;
            if newest <= end.position {
                return Ok(end.position);
            }
            *end = self.segments.existing(newest)?.start();
        }
    }

    fn read(&self, from: Position, max_bytes: usize) -> Result<Vec<Vec<u8>>, LogError> {
        let end = self.end()?;
        let outcome = self.segments.read(from, end, max_bytes);
        let first = self.manifest()?.first;
        if from < first {
            return Err(LogError::Trimmed { first });
        }
        if from >= end {
            return Ok(Vec::new());
        }
        let found = outcome?;
        match found.ended {
            true => Err(lost(&found.next)),
            false => Ok(found.records),
        }
    }

    fn wait(&self, seen: Position, time: Duration) -> Result<Position, LogError> {
        let until = Instant::now().checked_add(time);
        let mut pause = SHORTEST_LOOK;
        loop {
            let end = self.end()?;
            let left = until.map_or(LONGEST_LOOK, |until| {
                until.saturating_duration_since(Instant::now())
            });
            if end > seen || left.is_zero() {
                return Ok(end);
            }
            thread::sleep(pause.min(left));
            pause = (pause * 2).min(LONGEST_LOOK);
        }
    }
}

/// Refuses file systems whose locks and shared memory need not work between all that use it.
fn check_file_system(folder: &Path) -> Result<(), String> {
    match remote_file_system(folder) {
        Ok(None) => Ok(()),
        Ok(Some(kind)) => Err(format!(
            "`{}` is on {kind}, where locks and shared memory need not work between processes: use a folder on a local \
             disk",
            folder.display()
        )),
        Err(error) => Err(format!("`{}`: {error}", folder.display())),
    }
}

/// There is no valid record at a position below the end.
fn lost(at: &Cursor) -> LogError {
    let Cursor {
        position,
        segment,
        offset,
        ..
    } = at;
    LogError::Damaged(format!(
        "the record {position} in the segment {segment} at byte {offset} is missing or changed"
    ))
}

/// A failed call of the file system at `path`.
fn io_error(path: &Path, error: &io::Error) -> LogError {
    let what = format!("`{}`: {error}", path.display());
    match error.kind() {
        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            LogError::Unavailable(what)
        }
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => LogError::Damaged(what),
        _ => LogError::Refused(what),
    }
}

/// A random number. It only has to be another one each time, not secret.
fn random() -> u64 {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u64(u64::from(std::process::id()));
    hasher.finish()
}

#[cfg(test)]
mod tests;
