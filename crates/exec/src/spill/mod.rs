//! Spilling: operators that buffer rows write them to files when they exceed the memory, and read them back in the
//! order that they would have had in memory.
//!
//! - [`SortedRuns`]: an external merge sort (stable).
//! - [`Spool`]: rows in the order of arrival, read any number of times.
//! - [`distinct`], [`group`], [`join`]: rows are partitioned by the hash of their keys, each partition is processed
//!   alone (partitioned again if it is still too large), and the results are merged by the number of their row.
//!
//! In addition to the memory that is counted (see [`crate::limits::LimitGuard`]), a spill holds a block of 32 KiB for
//! each open run or partition, at most [`most_open`](files::most_open) of them.

mod codec;
pub(crate) mod distinct;
mod files;
pub(crate) mod group;
pub(crate) mod join;
mod partition;
mod rows;
mod runs;
mod spool;
#[cfg(test)]
mod tests;

pub(crate) use rows::Layout;
pub(crate) use runs::{MergedRows, SortedRuns};
pub(crate) use spool::{Spool, SpoolReader};
