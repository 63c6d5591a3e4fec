//! The operating system's file system.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{Disk, DiskFile, FileType, Lock, LockError, LockMode, OpenMode, lock, platform};

/// The real disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl RealDisk {
    /// Wraps an open file.
    pub fn file(file: File) -> Arc<dyn DiskFile> {
        Arc::new(RealFile(file))
    }
}

#[derive(Debug)]
struct RealFile(File);

impl Disk for RealDisk {
    fn open(&self, path: &Path, how: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.read(true);
        match how {
            OpenMode::Read => {}
            OpenMode::Write => {
                options.write(true);
            }
            OpenMode::Create => {
                options.write(true).create(true).truncate(true);
                platform::private_file(&mut options);
            }
        }
        Ok(Self::file(options.open(path)?))
    }

    fn kind(&self, path: &Path) -> io::Result<FileType> {
        let metadata = fs::metadata(path)?;
        Ok(if metadata.is_file() {
            FileType::File
        } else if metadata.is_dir() {
            FileType::Folder
        } else {
            FileType::Other
        })
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        fs::read_dir(folder)?
            .map(|entry| Ok(entry?.file_name().into()))
            .collect()
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        platform::private_folder().recursive(true).create(path)
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
        platform::sync_folder(folder)
    }

    fn lock(&self, path: &Path, mode: LockMode) -> Result<Option<Lock>, LockError> {
        lock::take(path, mode)
    }

    fn free_bytes(&self, path: &Path) -> io::Result<Option<u64>> {
        platform::free_bytes(path)
    }
}

impl DiskFile for RealFile {
    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        platform::read_at(&self.0, out, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        platform::write_at(&self.0, bytes, offset)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn stored_bytes(&self) -> io::Result<u64> {
        Ok(platform::stored_bytes(&self.0.metadata()?))
    }

    fn name_count(&self) -> io::Result<u64> {
        platform::name_count(&self.0)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        // `fdatasync` includes the length; timestamps need not be durable.
        self.0.sync_data()
    }
}
