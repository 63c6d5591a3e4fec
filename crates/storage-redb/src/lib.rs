//! redb behind the storage contract: a durable engine in one directory.
//!
//! ```text
//! DIR/LOCK   locked while the database is open, holds the process id of the one who has it open
//! DIR/data   redb's pages in checksummed blocks (see `block_file`), in three redb tables:
//!              "pairs"   key → value
//!              "stream"  version (u64) → change-stream entry
//!              "meta"    "version" → last version (u64)
//! ```
//!
//! What it keeps true beside the contract: no answer rests on a block whose checksum does not match; a failed sync
//! ends the handle; a full disk refuses the commit and nothing else.

mod backend;
mod block_file;
mod open;

use std::{path::Path, sync::Arc};

use isomer_storage::{MAX_TRANSACTION_BYTES, Optimistic, StorageError, delegate_engine};
use isomer_vfs::{Disk, RealDisk};

/// How to open a database.
#[derive(Clone)]
pub struct RedbOptions {
    /// Makes the database if nothing is there.
    pub create: bool,
    /// Opens without writing a byte; commits are refused.
    pub read_only: bool,
    /// Bytes of memory for cached pages, read and dirty ones together.
    pub cache_bytes: usize,
    /// Largest write set of a transaction.
    pub max_transaction_bytes: usize,
    /// Where the files are.
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

/// A database directory, open.
///
/// Memory: the cache of the options, 8 bytes for each 4 KiB of the file, and what transactions hold.
pub struct RedbEngine {
    engine: Optimistic<backend::RedbBackend>,
}

impl RedbEngine {
    /// Opens the database in the directory `path`, and makes it first if nothing is there and the options allow it.
    ///
    /// After a crash redb reads the whole database once to find out what was committed.
    /// Errors: [`StorageError::Unavailable`] where it is in use, missing or may not be read or written;
    /// [`StorageError::Corrupt`] where it is damaged, of a newer format, or no database at all.
    pub fn open(path: impl AsRef<Path>, options: RedbOptions) -> Result<Self, StorageError> {
        Ok(Self {
            engine: Optimistic::new(backend::RedbBackend::open(path.as_ref(), options)?),
        })
    }

    /// Whether the directory `path` holds a database of this engine, or one that was being made.
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
