//! The files of a spill: their folder, their errors, and how many are open and written.

use std::{io, sync::Arc};

use isomer_data::{DataError, SPILL_BLOCK_BYTES, SpillFolder};
use isomer_plan::physical::OpId;

use crate::{context::Cx, error::ExecError};

/// Where an operator of this statement spills.
pub(super) fn folder(cx: &Cx<'_>) -> Arc<SpillFolder> {
    cx.tx.store().spill_folder().clone()
}

/// An error on a spill file.
pub(super) fn failed(folder: &SpillFolder) -> impl Fn(io::Error) -> ExecError {
    |error| DataError::from(folder.explain(&error)).into()
}

/// Maximum number of runs or partitions that are open at once: their blocks take about an eighth of the query's memory.
pub(super) fn most_open(cx: &Cx<'_>) -> usize {
    (cx.run.watch.limits().memory_bytes / 8 / SPILL_BLOCK_BYTES).clamp(4, 64)
}

/// Records the bytes that an operator wrote to disk, for `PROFILE`.
pub(super) fn note(cx: &mut Cx<'_>, op: OpId, bytes: u64) {
    cx.run.watch.count_spilled(bytes);
    if let Some(profiler) = &mut cx.run.report.profiler {
        profiler.operator(op).spilled_bytes += bytes;
    }
}
