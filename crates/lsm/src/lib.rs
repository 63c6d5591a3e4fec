//! IsomerDB's own storage engine: an LSM tree behind the storage contract.
//!
//! A commit is one record of the log (WAL); its writes go into a memtable that readers share without locks. A
//! full memtable is flushed to sorted tables, and tables are compacted in the background. All of them hold
//! *entries*, in one order: keys ascend, and within a key versions descend.

mod backend;
mod background;
pub mod backup;
mod blob;
mod cache;
mod codec;
mod compaction;
mod core;
mod engine;
mod entry;
#[cfg(any(test, fuzzing))]
pub mod fuzzed;
mod ingest;
mod levels;
mod limit;
mod log;
mod log_check;
mod manifest;
mod memtable;
mod merge;
#[cfg(all(test, feature = "model"))]
mod model_tests;
mod open;
mod options;
mod processes;
mod range_tombstones;
mod seek_budget;
mod sharded;
mod source;
mod state;
mod table;
mod tree;
#[cfg(test)]
mod tree_tests;

pub use blob::BlobRef;
pub use cache::BlockCache;
pub use compaction::rule::{Horizon, Readable};
pub use engine::LsmEngine;
pub use entry::{EntryCursor, EntryKind, RangeTombstone};
pub use ingest::{Ingestion, NextKey};
pub use levels::{Decided, Levels, check::LevelStatistics, cursor::RunCursor};
pub use memtable::{Committer, Memtable, MemtableCursor};
pub use merge::MergeCursor;
pub use options::{LogSharing, LsmOptions, RandomSource, Retention, TimeSource};
pub use processes::ManifestNumbers;
pub use range_tombstones::{RangeTombstones, TombstoneSpan};
pub use table::{builder::TableOptions, sealed::Pace};
pub use tree::{OnChange, Recovered, Tree, TreeOptions};

pub use isomer_shared_log::LogProcess;
