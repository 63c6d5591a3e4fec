//! A disk whose calls fail when a test says so.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{Call, Disk, DiskFile, Kind, Lock, LockError, LockMode, Open};

/// Decides before each call whether it fails, and how.
pub type FaultHook = Arc<dyn Fn(Call, &Path) -> io::Result<()> + Send + Sync>;

/// Another disk, with a hook before each call; a call that fails does nothing.
#[derive(Clone)]
pub struct FaultyDisk {
    disk: Arc<dyn Disk>,
    hook: FaultHook,
}

impl FaultyDisk {
    /// `disk`, with `hook` asked before each call.
    pub fn new(disk: Arc<dyn Disk>, hook: FaultHook) -> Self {
        Self { disk, hook }
    }
}

impl fmt::Debug for FaultyDisk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("FaultyDisk")
            .field("disk", &self.disk)
            .finish_non_exhaustive()
    }
}

impl Disk for FaultyDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        (self.hook)(Call::Open, path)?;
        Ok(Arc::new(FaultyFile {
            file: self.disk.open(path, how)?,
            path: path.to_owned(),
            hook: self.hook.clone(),
        }))
    }

    fn kind(&self, path: &Path) -> io::Result<Kind> {
        (self.hook)(Call::List, path)?;
        self.disk.kind(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        (self.hook)(Call::List, folder)?;
        self.disk.list(folder)
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        (self.hook)(Call::MakeFolder, path)?;
        self.disk.make_folder(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        (self.hook)(Call::Rename, from)?;
        self.disk.rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        (self.hook)(Call::Link, from)?;
        self.disk.link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        (self.hook)(Call::Remove, path)?;
        self.disk.remove(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        (self.hook)(Call::Remove, path)?;
        self.disk.remove_folder(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        (self.hook)(Call::SyncFolder, folder)?;
        self.disk.sync_folder(folder)
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Option<Lock>, LockError> {
        (self.hook)(Call::Lock, path).map_err(LockError::Io)?;
        self.disk.lock(path, mode)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<Option<u64>> {
        self.disk.free_bytes(path)
    }
}

struct FaultyFile {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    hook: FaultHook,
}

impl fmt::Debug for FaultyFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("FaultyFile")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl DiskFile for FaultyFile {
    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        (self.hook)(Call::Read, &self.path)?;
        self.file.read_at(out, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        (self.hook)(Call::Write, &self.path)?;
        self.file.write_at(bytes, offset)
    }

    fn len(&self) -> io::Result<u64> {
        (self.hook)(Call::List, &self.path)?;
        self.file.len()
    }

    fn stored_bytes(&self) -> io::Result<u64> {
        (self.hook)(Call::List, &self.path)?;
        self.file.stored_bytes()
    }

    fn name_count(&self) -> io::Result<u64> {
        (self.hook)(Call::List, &self.path)?;
        self.file.name_count()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        (self.hook)(Call::SetLen, &self.path)?;
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        (self.hook)(Call::Sync, &self.path)?;
        self.file.sync()
    }
}
