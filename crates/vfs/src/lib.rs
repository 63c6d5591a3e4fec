//! The files below an engine, behind two small traits, so that what a disk may do wrong can be tried in a test.
//!
//! [`Disk`] is a file system, [`DiskFile`] an open file: positional reads and writes, lengths, syncs of files *and* of
//! folders, renames, links, locks. [`RealDisk`] is the operating system's. [`SimDisk`] is one in memory that loses
//! power at any call and then forgets, tears or keeps what was not synced, deterministically by seed. [`FaultyDisk`]
//! lets calls on either of them fail. [`Seal`] encrypts what is written to any of them, with keys that a database keeps
//! wrapped in a file ([`keys`]). [`Time`] is the clock that work is paced by.
//!
//! What every disk keeps true:
//! - what was written before a sync that returned without error is there after a loss of power;
//! - a file's name is there after a loss of power once its folder was synced; until then it may be the old one;
//! - a call that fails may have done all the same what it was asked for: whoever goes on relies on neither;
//! - everything else may be there or not, in part too.

mod faulty;
pub mod keys;
mod lock;
mod real;
mod seal;
mod sim;
mod time;

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

pub use faulty::{FaultHook, FaultyDisk};
pub use lock::{Lock, LockError, LockMode};
pub use real::RealDisk;
pub use seal::{Place, Seal, Unsealed};
pub use sim::{Loss, Recorder, Recording, Replay, SimDisk};
pub use time::{RealTime, SimTime, Time};

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// An existing file, to read.
    Read,
    /// An existing file, to read and write.
    Write,
    /// A new file, or an existing one emptied, to read and write. Its owner alone may open it.
    Create,
}

/// A call on a disk, for tests that let calls fail and for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Call {
    /// Opening or making a file.
    Open,
    /// Reading from a file.
    Read,
    /// Writing into a file.
    Write,
    /// Changing a file's length.
    SetLen,
    /// Making a file's bytes durable.
    Sync,
    /// Making a folder's names durable.
    SyncFolder,
    /// Renaming a file.
    Rename,
    /// Giving a file a second name.
    Link,
    /// Removing a file or an empty folder.
    Remove,
    /// Making a folder.
    MakeFolder,
    /// Reading a folder, or what is known of a path.
    List,
    /// Locking a file.
    Lock,
}

impl Call {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Open,
        Self::Read,
        Self::Write,
        Self::SetLen,
        Self::Sync,
        Self::SyncFolder,
        Self::Rename,
        Self::Link,
        Self::Remove,
        Self::MakeFolder,
        Self::List,
        Self::Lock,
    ];
}

/// What there is under a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File,
    /// A folder.
    Folder,
    /// Anything else: a device, a socket.
    Other,
}

/// A file system. Paths are taken as the implementation's working folder says; errors are the operating system's.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Opens or makes a file. A new name is durable once the folder was synced.
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>>;
    /// What there is under `path`; `NotFound` where there is nothing.
    fn kind(&self, path: &Path) -> io::Result<Kind>;
    /// The names in a folder, in no order.
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>>;
    /// Makes a folder and those above it that are missing; their owner alone may enter. One that exists is no error.
    fn make_folder(&self, path: &Path) -> io::Result<()>;
    /// Renames a file within its folder, over one that may be there. Atomic; durable once the folder was synced.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives a file a second name; `AlreadyExists` where there is one. Durable once the second name's folder was synced.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file's name. Who has it open keeps it.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty folder.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a folder durable.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
    /// Locks the file `path` until what is returned is dropped, without waiting. A lock for writing makes the file where
    /// it is missing, and notes the process in it; one for reading answers `None` where there is no file.
    fn lock(&self, path: &Path, mode: LockMode) -> Result<Option<Lock>, LockError>;
    /// Bytes that may still be written where `path` is; `None` where nobody knows.
    fn free_bytes(&self, path: &Path) -> io::Result<Option<u64>>;

    /// Whether there is anything under `path`.
    fn exists(&self, path: &Path) -> io::Result<bool> {
        match self.kind(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Makes the names of `path` and of all folders above it durable: any of them may be as new as it is. What may not be synced
/// here (a folder that is not to be read, a file system that knows no such call) was not made here either.
pub fn sync_above(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    use io::ErrorKind::{InvalidInput, PermissionDenied, ReadOnlyFilesystem, Unsupported};
    for folder in path.ancestors().skip(1) {
        let here = Path::new(".");
        let folder = if folder.as_os_str().is_empty() {
            here
        } else {
            folder
        };
        match disk.sync_folder(folder) {
            Err(error)
                if matches!(
                    error.kind(),
                    InvalidInput | PermissionDenied | ReadOnlyFilesystem | Unsupported
                ) => {}
            outcome => outcome?,
        }
    }
    Ok(())
}

/// An open file. Calls may come from many threads at once.
pub trait DiskFile: Send + Sync + fmt::Debug {
    /// Reads at most `out.len()` bytes from `offset`; 0 at and behind the end.
    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes at most `bytes.len()` bytes at `offset`; what lies between the end and it becomes zeros.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Bytes of the file.
    fn len(&self) -> io::Result<u64>;
    /// Bytes that the file takes on the disk.
    fn stored_bytes(&self) -> io::Result<u64>;
    /// Names that the file has; 0 once it was removed.
    fn name_count(&self) -> io::Result<u64>;
    /// Cuts the file, or lengthens it with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Makes everything written so far durable, the length included. After an error nobody knows what is durable, and
    /// a later success says nothing of what was written before the error.
    fn sync(&self) -> io::Result<()>;

    /// Whether the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Fills `out`; `UnexpectedEof` where the file ends before.
    fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        let mut filled = 0;
        while filled < out.len() {
            match self.read_at(&mut out[filled..], offset + filled as u64) {
                Ok(0) => {
                    return Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "the file ends before the data does",
                    ));
                }
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes all of `bytes`.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut written = 0;
        while written < bytes.len() {
            match self.write_at(&bytes[written..], offset + written as u64) {
                Ok(0) => {
                    return Err(io::Error::new(
                        io::ErrorKind::WriteZero,
                        "the disk takes no more bytes",
                    ));
                }
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
