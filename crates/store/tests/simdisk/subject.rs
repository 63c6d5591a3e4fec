//! The engine under test, opened on any disk, with its work in the background done only when told.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use isomer_storage::{Engine, StorageError, Version};
use isomer_store::{StoreEngine, StoreOptions, backup::Point};
use isomer_vfs::{Disk, keys::MasterKey};

/// Where the database is.
pub const DATABASE: &str = "/db";

/// An open engine.
pub struct Tended(StoreEngine, Arc<dyn Disk>);

impl Tended {
    /// It.
    pub fn engine(&self) -> &dyn Engine {
        &self.0
    }

    /// Writes what is in memory into tables.
    pub fn flush(&self) -> Result<(), StorageError> {
        self.0.flush()
    }

    /// Merges tables as far as there is reason to.
    pub fn compact(&self) -> Result<(), StorageError> {
        self.0.compact()
    }

    /// Puts a backup beside earlier ones; answers the version that it holds.
    pub fn backup(&self, target: &Path) -> Result<Version, StorageError> {
        let taken = self.0.backup(&*self.1, target, &mut |_, _| {})?;
        Ok(taken.version)
    }

    /// Makes segments of the log ahead.
    pub fn prepare(&self) -> Result<(), StorageError> {
        self.0.prepare()
    }

    /// Merges all tables into one run.
    pub fn compact_all(&self) -> Result<(), StorageError> {
        self.0.compact_all()
    }
}

/// Opens the database in `folder`, making it where nothing is.
pub fn open(disk: Arc<dyn Disk>, folder: &Path) -> Result<Tended, StorageError> {
    open_with(disk, folder, true)
}

/// Opens the database in `folder`, which must be one.
pub fn open_existing(disk: Arc<dyn Disk>, folder: &Path) -> Result<Tended, StorageError> {
    open_with(disk, folder, false)
}

/// Where this is, databases on the disk are encrypted.
pub const ENCRYPTED: &str = "/encrypted";

fn open_with(disk: Arc<dyn Disk>, folder: &Path, create: bool) -> Result<Tended, StorageError> {
    let options = options(disk.clone(), create)?;
    Ok(Tended(StoreEngine::open(folder, options)?, disk))
}

/// Makes a database in `folder` out of a backup of a version.
pub fn restore(
    disk: Arc<dyn Disk>,
    source: &Path,
    version: Version,
    folder: &Path,
) -> Result<(), StorageError> {
    let options = options(disk.clone(), true)?;
    let (point, key) = (Point::Version(version), options.key.clone());
    StoreEngine::restore(
        &*disk,
        source,
        folder,
        point,
        key.as_ref(),
        &options,
        &mut |_, _| {},
    )
    .map(drop)
}

fn options(disk: Arc<dyn Disk>, create: bool) -> Result<StoreOptions, StorageError> {
    // One process, one sequence: a salt is never drawn twice, and a run is the same each time as far as that matters.
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let encrypted = disk
        .exists(Path::new(ENCRYPTED))
        .map_err(|error| StorageError::Unavailable(error.to_string()))?;
    let key = encrypted.then(|| MasterKey::from_bytes(&[0x42; 32]).expect("a key"));
    Ok(StoreOptions {
        disk,
        key,
        create,
        cache_bytes: 1 << 20,
        memtable_bytes: 16 << 10,
        segment_bytes: 8 << 10,
        background: false,
        clock: Arc::new(|| NEXT.fetch_add(1, Ordering::Relaxed)),
        random: Arc::new(|| {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            isomer_storage::conformance::Random(number).number()
        }),
        ..StoreOptions::default()
    })
}
