//! The operating system's files.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{Disk, DiskFile, Kind, Lock, LockError, LockMode, Open, lock};

/// The files of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl RealDisk {
    /// Takes an open file as one of this disk's.
    pub fn file(file: File) -> Arc<dyn DiskFile> {
        Arc::new(RealFile(file))
    }
}

#[derive(Debug)]
struct RealFile(File);

impl Disk for RealDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true);
        match how {
            Open::Read => {}
            Open::Write => {
                options.write(true);
            }
            Open::Create => {
                options.write(true).create(true).truncate(true).mode(0o600);
            }
        }
        Ok(Self::file(options.open(path)?))
    }

    fn kind(&self, path: &Path) -> io::Result<Kind> {
        let metadata = fs::metadata(path)?;
        Ok(if metadata.is_file() {
            Kind::File
        } else if metadata.is_dir() {
            Kind::Folder
        } else {
            Kind::Other
        })
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        fs::read_dir(folder)?
            .map(|entry| Ok(entry?.file_name().into()))
            .collect()
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Option<Lock>, LockError> {
        lock::take(path, mode)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<Option<u64>> {
        let disk = rustix::fs::statvfs(path)?;
        Ok(Some(disk.f_bavail.saturating_mul(disk.f_frsize)))
    }
}

impl DiskFile for RealFile {
    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(out, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn stored_bytes(&self) -> io::Result<u64> {
        // Counted in units of 512 bytes, whatever the file system's blocks are.
        Ok(self.0.metadata()?.blocks() * 512)
    }

    fn name_count(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.nlink())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        // The length goes with the data; times do not matter.
        self.0.sync_data()
    }
}
