//! IsomerDB's own engine: a log-structured store behind the storage contract.
//!
//! A commit is one record of the log; its writes go into a memtable that readers share without waiting. A full
//! memtable becomes sorted tables, and tables are merged in the background. What all of them hold are *entries*, in one
//! order: keys ascend, and within a key versions descend.

mod agreement;
mod backend;
mod background;
pub mod backup;
mod blob;
mod cache;
mod codec;
mod compaction;
mod core;
mod detours;
mod engine;
mod entry;
mod erasures;
#[doc(hidden)]
pub mod fuzzed;
mod ingest;
mod lanes;
mod levels;
mod limit;
mod log;
mod manifest;
mod memtable;
mod merge;
#[cfg(all(test, feature = "model"))]
mod model_tests;
#[doc(hidden)]
pub mod mutants;
mod open;
mod options;
mod source;
mod state;
mod table;
mod tree;
#[cfg(test)]
mod tree_tests;

pub use blob::BlobRef;
pub use cache::BlockCache;
pub use compaction::rule::{Horizon, Readable};
pub use engine::StoreEngine;
pub use entry::{Cursor, Erasure, Kind};
pub use erasures::{Erasures, Span};
pub use ingest::{Ingestion, NextKey};
pub use levels::{Decided, Levels, check::LevelStatistics, cursor::RunCursor};
pub use memtable::{Committer, Memtable, MemtableCursor};
pub use merge::MergeCursor;
pub use options::{Clock, Random, Retention, StoreOptions};
pub use table::{builder::TableOptions, sealed::Pace};
pub use tree::{OnChange, Recovered, Tree, TreeOptions};
