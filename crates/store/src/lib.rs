//! IsomerDB's own engine: a log-structured store behind the storage contract.
//!
//! A commit is one record of the log; its writes go into a memtable that readers share without waiting. A full
//! memtable becomes sorted tables, and tables are merged in the background. What all of them hold are *entries*, in one
//! order: keys ascend, and within a key versions descend.

#[allow(dead_code)]
mod backend;
pub mod backup;
#[allow(dead_code)]
mod blob;
#[allow(dead_code)]
mod cache;
#[allow(dead_code)]
mod codec;
mod engine;
mod entry;
mod erasures;
mod errors;
#[allow(dead_code)]
mod log;
mod memtable;
#[allow(dead_code, clippy::should_implement_trait)]
mod merge;
mod open;
mod options;
#[allow(dead_code)]
mod state;
#[allow(dead_code)]
mod table;

pub use blob::BlobRef;
pub use cache::BlockCache;
pub use engine::StoreEngine;
pub use entry::{Cursor, Erasure, Kind};
pub use erasures::{Erasures, Span};
pub use memtable::{Committer, Memtable, MemtableCursor};
pub use merge::MergeCursor;
pub use options::{Clock, Random, Retention, StoreOptions};
