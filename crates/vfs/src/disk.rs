//! The traits of file systems and files.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    lock::{Lock, LockError, LockMode},
    platform,
};

/// Mode of opening a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Opens an existing file for reading.
    Read,
    /// Opens an existing file for reading and writing.
    Write,
    /// Creates or truncates a file, for reading and writing; readable by its owner only.
    Create,
}

/// Kinds of disk calls, for fault injection and for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Call {
    /// Opening or creating a file.
    Open,
    /// Reading from a file.
    Read,
    /// Writing to a file.
    Write,
    /// Changing a file's length.
    SetLen,
    /// Syncing a file's bytes.
    Sync,
    /// Syncing a folder's names.
    SyncFolder,
    /// Renaming a file.
    Rename,
    /// Creating a hard link.
    Link,
    /// Removing a file or an empty folder.
    Remove,
    /// Creating a folder.
    MakeFolder,
    /// Listing a folder, or reading a path's metadata.
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

/// The kind of object at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileType {
    /// A file.
    File,
    /// A folder.
    Folder,
    /// Anything else: a device, a socket.
    Other,
}

/// A file system. Relative paths follow the implementation's working folder; errors are the operating
/// system's.
pub trait Disk: Send + Sync + fmt::Debug {
    /// Opens or creates a file. A new name is durable once the folder was synced.
    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Arc<dyn DiskFile>>;
    /// The kind of object at `path`; `NotFound` if there is none.
    fn kind(&self, path: &Path) -> io::Result<FileType>;
    /// The names in a folder, in unspecified order.
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>>;
    /// Creates a folder and its missing parents, accessible by their owner only. An existing folder is not an
    /// error.
    fn make_folder(&self, path: &Path) -> io::Result<()>;
    /// Renames a file within its folder and replaces an existing target. Atomic; durable once the folder was
    /// synced.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Creates a hard link; `AlreadyExists` if the name is in use. Durable once the new name's folder was
    /// synced.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file's name. Handles that are open stay valid.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Removes an empty folder.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;
    /// Syncs a folder: makes its names durable.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
    /// Locks the file `path` until the returned lock is dropped, without waiting. An exclusive lock creates a
    /// missing file and records the process id in it; a shared lock of a missing file is `None`.
    fn lock(&self, path: &Path, mode: LockMode) -> Result<Option<Lock>, LockError>;
    /// The existing folder of the operating system for the locks and the shared memory of the processes that use
    /// `folder`, which exists. By default `folder` itself; a simulated disk has another one.
    fn local_folder(&self, folder: &Path) -> io::Result<PathBuf> {
        Ok(folder.to_owned())
    }
    /// The kind of a network file system, or of one that a program provides, if `folder`, which exists, is on one; only
    /// Linux and macOS say so. Locks and mapped memory need not work there as on a local disk.
    fn remote_file_system(&self, folder: &Path) -> io::Result<Option<&'static str>> {
        platform::remote_file_system(&self.local_folder(folder)?)
    }
    /// Free bytes on the file system of `path`; `None` if unknown.
    fn free_bytes(&self, path: &Path) -> io::Result<Option<u64>>;

    /// Whether `path` exists.
    fn exists(&self, path: &Path) -> io::Result<bool> {
        match self.kind(path) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Makes the names of `path` and of all its parent folders durable, since any of them may be new. A folder
/// that cannot be synced (an unreadable one, or a file system without such a call) was not created here
/// either, so that error is ignored.
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

/// An open file. May be used from many threads at once.
pub trait DiskFile: Send + Sync + fmt::Debug {
    /// Reads at most `out.len()` bytes at `offset`; returns 0 at and past the end.
    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes at most `bytes.len()` bytes at `offset`; a gap after the end is filled with zeros.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    /// Length of the file in bytes.
    fn len(&self) -> io::Result<u64>;
    /// Bytes allocated on the disk.
    fn stored_bytes(&self) -> io::Result<u64>;
    /// Number of hard links; 0 once the file was removed.
    fn name_count(&self) -> io::Result<u64>;
    /// Truncates the file, or extends it with zeros.
    fn set_len(&self, len: u64) -> io::Result<()>;
    /// Syncs the file: makes all writes so far durable, the length included. After an error it is unknown
    /// what is durable, and a later success does not cover writes from before the error.
    fn sync(&self) -> io::Result<()>;

    /// Maps the `bytes` at `offset` into memory, so that writing to them needs no system call. They have a place on the
    /// disk from then on. `None` if this disk does not map files, or could run out of space in a later write to them.
    ///
    /// What is written there is seen by every `read_at`, and covered by [`DiskFile::sync`]. No process may shorten the
    /// file to less than the mapped part while it is mapped: the operating system ends a process that writes to memory
    /// whose part of the file is gone.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file ends before the bytes do, `StorageFull` if there is no space for them, and those of
    /// the file system.
    fn map(&self, offset: u64, bytes: usize) -> io::Result<Option<Box<dyn FileMapping>>> {
        let _ = (offset, bytes);
        Ok(None)
    }

    /// Writes `bytes` zeros at `offset`. A part of the file that is mapped later is best written by this call: see
    /// [`RealDisk`](crate::RealDisk).
    fn write_zeros(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.write_all_at(&vec![0; bytes as usize], offset)
    }

    /// Whether the file is empty.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Fills `out`; `UnexpectedEof` if the file is too short.
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
                        "the disk accepts no more bytes",
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

/// A part of a file that is mapped into memory for writing.
pub trait FileMapping: Send + fmt::Debug {
    /// Writes all of `bytes` at `offset` of the file. If this process ends during the call, any part of them may be
    /// written; if others write the same bytes at once, the file has a mix.
    ///
    /// # Errors
    /// None on the real disk.
    ///
    /// # Panics
    /// If the bytes are not within the mapped part.
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()>;
}
