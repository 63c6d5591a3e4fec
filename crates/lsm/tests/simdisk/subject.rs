//! The engine under test, opened on any disk, without background threads.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use isomer_lsm::{LogSharing, LsmEngine, LsmOptions, backup::RestoreTarget};
use isomer_storage::{Engine, StorageError, Version};
use isomer_vfs::{Disk, keys::MasterKey};

/// Folder of the database.
pub const DATABASE: &str = "/db";

/// An open engine.
pub struct Tended(LsmEngine, Arc<dyn Disk>);

impl Tended {
    /// The engine.
    pub fn engine(&self) -> &dyn Engine {
        &self.0
    }

    /// Flushes the memtable.
    pub fn flush(&self) -> Result<(), StorageError> {
        self.0.flush()
    }

    /// Compacts tables as far as necessary.
    pub fn compact(&self) -> Result<(), StorageError> {
        self.0.compact()
    }

    /// Adds a backup to the earlier ones; returns its version.
    pub fn backup(&self, target: &Path) -> Result<Version, StorageError> {
        let taken = self.0.backup(&*self.1, target, &mut |_, _| {})?;
        Ok(taken.version)
    }

    /// Creates segments of the log in advance.
    pub fn prepare(&self) -> Result<(), StorageError> {
        self.0.prepare()
    }

    /// Adopts newer tables of another process, or takes over from one that has ended.
    pub fn follow(&self) -> Result<(), StorageError> {
        self.0.follow()
    }

    /// Whether it flushes and compacts.
    pub fn maintains(&self) -> bool {
        self.0.maintains()
    }

    /// Compacts all tables into one run.
    pub fn compact_all(&self) -> Result<(), StorageError> {
        self.0.compact_all()
    }
}

/// Opens the database in `folder`, creating it if the folder is empty.
pub fn open(disk: Arc<dyn Disk>, folder: &Path) -> Result<Tended, StorageError> {
    open_with(disk, folder, true)
}

/// Opens the database in `folder`, which must exist.
pub fn open_existing(disk: Arc<dyn Disk>, folder: &Path) -> Result<Tended, StorageError> {
    open_with(disk, folder, false)
}

/// If this exists, databases on the disk are encrypted.
pub const ENCRYPTED: &str = "/encrypted";
/// If this exists, the database is one that processes share.
pub const SHARED: &str = "/shared";

/// Whether a file that says something about a disk exists.
fn has_mark(disk: &dyn Disk, mark: &str) -> Result<bool, StorageError> {
    let exists = disk.exists(Path::new(mark));
    exists.map_err(|error| StorageError::Unavailable(error.to_string()))
}

fn open_with(disk: Arc<dyn Disk>, folder: &Path, create: bool) -> Result<Tended, StorageError> {
    let mut options = options(disk.clone(), create)?;
    if folder == Path::new(DATABASE) && has_mark(&*disk, SHARED)? {
        options.sharing = LogSharing::Shared;
    }
    Ok(Tended(LsmEngine::open(folder, options)?, disk))
}

/// Restores a database into `folder` from a backup of a version.
pub fn restore(
    disk: Arc<dyn Disk>,
    source: &Path,
    version: Version,
    folder: &Path,
) -> Result<(), StorageError> {
    let options = options(disk.clone(), true)?;
    let (point, key) = (RestoreTarget::Version(version), options.key.clone());
    LsmEngine::restore(
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

fn options(disk: Arc<dyn Disk>, create: bool) -> Result<LsmOptions, StorageError> {
    // One sequence per process: a salt is never drawn twice, and runs are reproducible as far as that matters.
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let encrypted = has_mark(&*disk, ENCRYPTED)?;
    let key = encrypted.then(|| MasterKey::from_bytes(&[0x42; 32]).expect("a key"));
    Ok(LsmOptions {
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
        ..LsmOptions::default()
    })
}
