//! Fault injection: a disk whose calls fail when a test says so.

use std::{
    fmt, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{Call, Disk, DiskFile, FileMapping, FileType, Lock, LockError, LockMode, OpenMode};

/// Decides whether a call fails, and how.
pub type FaultHook = Arc<dyn Fn(Call, &Path) -> io::Result<()> + Send + Sync>;

/// Wraps another disk with a hook before each call and one after it: a failed call has either had no effect
/// or its full effect.
#[derive(Clone)]
pub struct FaultyDisk {
    disk: Arc<dyn Disk>,
    hooks: Hooks,
}

impl FaultyDisk {
    /// Wraps `disk`; calls `before` ahead of each call.
    pub fn new(disk: Arc<dyn Disk>, before: FaultHook) -> Self {
        let hooks = Hooks {
            before,
            behind: None,
        };
        Self { disk, hooks }
    }

    /// The same, with `behind` called after a successful call: an error from it replaces the result, though
    /// the call took effect.
    pub fn and_behind(mut self, behind: FaultHook) -> Self {
        self.hooks.behind = Some(behind);
        self
    }
}

#[derive(Clone)]
struct Hooks {
    before: FaultHook,
    behind: Option<FaultHook>,
}

impl Hooks {
    fn around<T>(
        &self,
        call: Call,
        path: &Path,
        run: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        (self.before)(call, path)?;
        let done = run()?;
        if let Some(behind) = &self.behind {
            behind(call, path)?;
        }
        Ok(done)
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
    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let open = || self.disk.open(path, how);
        Ok(Arc::new(FaultyFile {
            file: self.hooks.around(Call::Open, path, open)?,
            path: path.to_owned(),
            hooks: self.hooks.clone(),
        }))
    }

    fn kind(&self, path: &Path) -> io::Result<FileType> {
        self.hooks.around(Call::List, path, || self.disk.kind(path))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        self.hooks
            .around(Call::List, folder, || self.disk.list(folder))
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        self.hooks
            .around(Call::MakeFolder, path, || self.disk.make_folder(path))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.hooks
            .around(Call::Rename, from, || self.disk.rename(from, to))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.hooks
            .around(Call::Link, from, || self.disk.link(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.hooks
            .around(Call::Remove, path, || self.disk.remove(path))
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        self.hooks
            .around(Call::Remove, path, || self.disk.remove_folder(path))
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        self.hooks
            .around(Call::SyncFolder, folder, || self.disk.sync_folder(folder))
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Option<Lock>, LockError> {
        (self.hooks.before)(Call::Lock, path).map_err(LockError::Io)?;
        self.disk.lock(path, mode)
    }

    fn local_folder(&self, folder: &Path) -> io::Result<PathBuf> {
        self.disk.local_folder(folder)
    }

    fn remote_file_system(&self, folder: &Path) -> io::Result<Option<&'static str>> {
        self.disk.remote_file_system(folder)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<Option<u64>> {
        self.disk.free_bytes(path)
    }
}

struct FaultyFile {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    hooks: Hooks,
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
        self.hooks
            .around(Call::Read, &self.path, || self.file.read_at(out, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.hooks.around(Call::Write, &self.path, || {
            self.file.write_at(bytes, offset)
        })
    }

    fn write_zeros(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.hooks.around(Call::Write, &self.path, || {
            self.file.write_zeros(offset, bytes)
        })
    }

    fn len(&self) -> io::Result<u64> {
        self.hooks
            .around(Call::List, &self.path, || self.file.len())
    }

    fn stored_bytes(&self) -> io::Result<u64> {
        self.hooks
            .around(Call::List, &self.path, || self.file.stored_bytes())
    }

    fn name_count(&self) -> io::Result<u64> {
        self.hooks
            .around(Call::List, &self.path, || self.file.name_count())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.hooks
            .around(Call::SetLen, &self.path, || self.file.set_len(len))
    }

    fn sync(&self) -> io::Result<()> {
        self.hooks
            .around(Call::Sync, &self.path, || self.file.sync())
    }

    /// Only the writes to the mapping can fail: without a mapping the caller writes as usual.
    fn map(&self, offset: u64, bytes: usize) -> io::Result<Option<Box<dyn FileMapping>>> {
        let mapping = self.file.map(offset, bytes)?;
        Ok(mapping.map(|mapping| {
            Box::new(FaultyMapping {
                mapping,
                path: self.path.clone(),
                hooks: self.hooks.clone(),
            }) as Box<dyn FileMapping>
        }))
    }
}

struct FaultyMapping {
    mapping: Box<dyn FileMapping>,
    path: PathBuf,
    hooks: Hooks,
}

impl fmt::Debug for FaultyMapping {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("FaultyMapping")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl FileMapping for FaultyMapping {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.hooks.around(Call::Write, &self.path, || {
            self.mapping.write_at(bytes, offset)
        })
    }
}
