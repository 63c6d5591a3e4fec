//! Spilling: operators that buffer rows write them to files when they exceed the memory, and read them back in the
//! order that they would have had in memory.
//!
//! - [`SortedRuns`]: an external merge sort (stable).
//! - [`Spool`]: rows in the order of arrival, read any number of times.
//! - [`distinct`], [`group`], [`join`]: rows are partitioned by the hash of their keys, each partition is processed
//!   alone (partitioned again if it is still too large), and the results are merged by the number of their row.
//!
//! In addition to the memory that is counted (see [`crate::limits::Watch`]), a spill holds a block of 32 KiB for each
//! open run or partition, at most [`most_open`] of them.

mod codec;
pub(crate) mod distinct;
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

use std::{io, sync::Arc};

use isomer_data::{BLOCK_BYTES, SpillFolder};
use isomer_plan::physical::OpId;

use crate::{context::Cx, error::ExecError};

/// Where an operator of this statement spills.
fn folder(cx: &Cx<'_>) -> Arc<SpillFolder> {
    cx.tx.store().spill_folder().clone()
}

/// An error on a spill file.
fn failed(folder: &SpillFolder) -> impl Fn(io::Error) -> ExecError {
    |error| folder.error(&error).into()
}

/// Maximum number of runs or partitions that are open at once: their blocks take about an eighth of the query's memory.
fn most_open(cx: &Cx<'_>) -> usize {
    (cx.run.watch.limits().memory_bytes / 8 / BLOCK_BYTES).clamp(4, 64)
}

/// Records the bytes that an operator wrote to disk, for `PROFILE`.
fn note(cx: &mut Cx<'_>, op: OpId, bytes: u64) {
    cx.run.watch.count_spilled(bytes);
    if let Some(profiler) = &mut cx.run.profiler {
        profiler.operator(op).spilled_bytes += bytes;
    }
}
