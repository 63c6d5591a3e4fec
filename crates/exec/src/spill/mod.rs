//! What operators that keep rows do when these do not fit into memory: rows go to files and come back, in the order that they
//! would have had without.
//!
//! - [`SortedRuns`]: an external merge sort (stable).
//! - [`Spool`]: rows in the order of their arrival, read as often as wanted.
//! - [`distinct`], [`group`], [`join`]: rows are dealt out to partitions by the hash of their keys, each partition is done by
//!   itself, dealt out again where it is still too large, and the results are merged by the number of the row they come from.
//!
//! Beside what is counted (see [`crate::limits::Watch`]) a spill holds a block of 32 KiB for each run or partition that is
//! open, at most [`most_open`] of them.

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

/// How many runs or partitions are open at once: an eighth of the query's memory in blocks, within reason.
fn most_open(cx: &Cx<'_>) -> usize {
    (cx.run.watch.limits().memory_bytes / 8 / BLOCK_BYTES).clamp(4, 64)
}

/// Notes what an operator wrote to disk, for `PROFILE`.
fn note(cx: &mut Cx<'_>, op: OpId, bytes: u64) {
    cx.run.watch.count_spilled(bytes);
    if let Some(figures) = cx
        .run
        .profile
        .as_mut()
        .and_then(|profile| profile.get_mut(op.index()))
    {
        figures.spilled_bytes += bytes;
    }
}
