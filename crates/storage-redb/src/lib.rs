//! redb behind the storage contract: a durable engine in one directory.
//!
//! ```text
//! DIR/LOCK   locked while the database is open, contains the id of the locking process
//! DIR/data   redb's pages in checksummed blocks (see `block_file`), in three redb tables:
//!              "pairs"   key → value
//!              "stream"  version (u64) → change-stream entry
//!              "meta"    "version" → last version (u64)
//! ```
//!
//! Invariants in addition to the contract: no result depends on a block with a wrong checksum; a failed sync
//! ends the handle; a full disk rejects the commit and nothing else.

mod backend;
mod block_file;
mod open;

use std::{path::Path, sync::Arc};

use isomer_storage::{MAX_TRANSACTION_BYTES, Optimistic, StorageError, delegate_engine};
use isomer_vfs::{Disk, RealDisk};

/// How to open a database.
#[derive(Clone)]
pub struct RedbOptions {
    /// Creates the database if it does not exist.
    pub create: bool,
    /// Opens without writing a byte; commits are rejected.
    pub read_only: bool,
    /// Bytes of memory for cached pages, read and dirty ones together.
    pub cache_bytes: usize,
    /// Largest write set of a transaction.
    pub max_transaction_bytes: usize,
    /// The disk that holds the files.
    pub disk: Arc<dyn Disk>,
}

impl Default for RedbOptions {
    fn default() -> Self {
        Self {
            create: true,
            read_only: false,
            cache_bytes: 256 << 20,
            max_transaction_bytes: MAX_TRANSACTION_BYTES,
            disk: Arc::new(RealDisk),
        }
    }
}

/// An open database directory.
///
/// Memory: the cache of the options, 8 bytes for each 4 KiB of the file, and what transactions hold.
pub struct RedbEngine {
    engine: Optimistic<backend::RedbBackend>,
}

impl RedbEngine {
    /// Opens the database in the directory `path`; creates it if it does not exist and the options allow it.
    ///
    /// After a crash redb reads the whole database once to determine what was committed. Errors:
    /// [`StorageError::InUse`] if it is open elsewhere; [`StorageError::Unavailable`] if it is missing or not
    /// accessible; [`StorageError::Corrupt`] if it is damaged, of a newer format, or not a database.
    pub fn open(path: impl AsRef<Path>, options: RedbOptions) -> Result<Self, StorageError> {
        Ok(Self {
            engine: Optimistic::new(backend::RedbBackend::open(path.as_ref(), options)?),
        })
    }

    /// Whether the directory `path` holds a database of this engine, or an incomplete one.
    pub fn is_at(path: impl AsRef<Path>) -> bool {
        let path = path.as_ref();
        path.join(open::DATA).is_file() || path.join(open::NEW_DATA).is_file()
    }
}

delegate_engine!(RedbEngine, engine);

impl std::fmt::Debug for RedbEngine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("RedbEngine").finish_non_exhaustive()
    }
}
