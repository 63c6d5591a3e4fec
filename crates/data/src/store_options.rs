//! How a store is opened.

use std::{path::PathBuf, sync::Arc};

use isomer_storage::{MemoryBudget, ProcessLocks};
use isomer_vfs::Seal;

use crate::clock::{Clock, SystemClock};

/// How a store is opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DataStoreOptions {
    /// Change-stream entries kept behind what the store itself needs.
    pub stream_retention: u64,
    /// About how many bytes of them, at most.
    pub stream_retention_bytes: u64,
    /// When a reader of the change stream is behind by more than about this number of bytes of entries (counted since
    /// the opening), they are no longer kept for it, and it gets [`DataError::Forgotten`].
    pub stream_hold_bytes: u64,
    /// The same, where entries that it has not read are older than this number of milliseconds.
    pub stream_hold_ms: u64,
    /// Things of one sort that a transaction names in its footprint; beyond, it declares whole labels and types.
    pub footprint_limit: usize,
    /// The clock by which entries expire.
    pub clock: Arc<dyn Clock>,
    /// Whether the engine accepts no writes: unfinished indexes then stay, unused.
    pub read_only: bool,
    /// The budget of views, queries and bulk loads.
    pub memory: MemoryBudget,
    /// Folder for spill files.
    pub spill_folder: PathBuf,
    /// Encrypts the files of views; if set, spill files are encrypted, too.
    pub seal: Seal,
    /// The locks of a database that several processes have open; none in one that this process has open exclusively.
    pub process_locks: Option<Arc<ProcessLocks>>,
}

impl Default for DataStoreOptions {
    fn default() -> Self {
        Self {
            stream_retention: 10_000,
            stream_retention_bytes: 64 << 20,
            stream_hold_bytes: 4 << 30,
            stream_hold_ms: 7 * 24 * 60 * 60 * 1000,
            footprint_limit: 4_096,
            clock: Arc::new(SystemClock),
            read_only: false,
            memory: MemoryBudget::of_this_machine(),
            spill_folder: std::env::temp_dir(),
            seal: Seal::plain(),
            process_locks: None,
        }
    }
}
