//! IsomerDB's own engine: a log-structured store behind the storage contract.
//!
//! A commit is one record of the log; its writes go into a memtable that readers share without waiting. A full
//! memtable becomes sorted tables, and tables are merged in the background. What all of them hold are *entries*, in one
//! order: keys ascend, and within a key versions descend.

mod entry;

pub use entry::{Cursor, Erasure, Kind};
