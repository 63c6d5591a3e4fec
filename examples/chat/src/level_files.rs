//! The files of `rusty-leveldb`, with one difference: a flush syncs them.
//!
//! The crate's own files ignore flushes, so that a write with `sync` would not be as durable as its caller requests
//! and the other stores guarantee.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

use rusty_leveldb::{
    PosixDiskEnv, Result,
    env::{Env, FileLock, Logger, RandomAccess},
};

/// A file that is synced by a flush.
struct Synced(File);

impl Write for Synced {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }
}

/// The disk.
#[derive(Default)]
pub struct SyncedFiles(PosixDiskEnv);

impl Env for SyncedFiles {
    fn open_writable_file(&self, path: &Path) -> Result<Box<dyn Write>> {
        Ok(Box::new(Synced(File::create(path)?)))
    }
    fn open_appendable_file(&self, path: &Path) -> Result<Box<dyn Write>> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Box::new(Synced(file)))
    }

    fn open_sequential_file(&self, path: &Path) -> Result<Box<dyn Read>> {
        self.0.open_sequential_file(path)
    }
    fn open_random_access_file(&self, path: &Path) -> Result<Box<dyn RandomAccess>> {
        self.0.open_random_access_file(path)
    }
    fn exists(&self, path: &Path) -> Result<bool> {
        self.0.exists(path)
    }
    fn children(&self, path: &Path) -> Result<Vec<PathBuf>> {
        self.0.children(path)
    }
    fn size_of(&self, path: &Path) -> Result<usize> {
        self.0.size_of(path)
    }
    fn delete(&self, path: &Path) -> Result<()> {
        self.0.delete(path)
    }
    fn mkdir(&self, path: &Path) -> Result<()> {
        self.0.mkdir(path)
    }
    fn rmdir(&self, path: &Path) -> Result<()> {
        self.0.rmdir(path)
    }
    fn rename(&self, old: &Path, new: &Path) -> Result<()> {
        self.0.rename(old, new)
    }
    fn lock(&self, path: &Path) -> Result<FileLock> {
        self.0.lock(path)
    }
    fn unlock(&self, lock: FileLock) -> Result<()> {
        self.0.unlock(lock)
    }
    fn new_logger(&self, path: &Path) -> Result<Logger> {
        self.0.new_logger(path)
    }
    fn micros(&self) -> u64 {
        self.0.micros()
    }
    fn sleep_for(&self, micros: u32) {
        self.0.sleep_for(micros);
    }
}
