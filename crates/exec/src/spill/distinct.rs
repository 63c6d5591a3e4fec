//! `DISTINCT` when the combinations do not fit into memory.

use isomer_plan::{expr::SlotId, physical::OpId};
use isomer_value::{GroupKey, Value};
use rustc_hash::FxHashSet;

use super::{
    Layout, MergedRows, SortedRuns,
    partition::{Partition, Partitions},
};
use crate::{chunk::Chunk, context::Cx, error::Result, value_size::value_bytes};

/// Rows that may or may not be the first of their combination.
pub(crate) struct DistinctSpill {
    op: OpId,
    partitions: Partitions,
    layout: Layout,
    slots: Vec<SlotId>,
    count: i64,
    row: Vec<Value>,
}

impl DistinctSpill {
    /// Empty; `slots` are those whose combination is compared.
    pub(crate) fn new(op: OpId, slots: &[SlotId], cx: &Cx<'_>) -> Result<Self> {
        Ok(Self {
            op,
            partitions: Partitions::new(op, 0, cx)?,
            layout: Layout::default(),
            slots: slots.to_vec(),
            count: 0,
            row: Vec::new(),
        })
    }

    /// Adds the rows of a chunk for which `keep` is true.
    pub(crate) fn add(&mut self, chunk: &Chunk, keep: &[bool], cx: &mut Cx<'_>) -> Result<()> {
        self.layout.add_columns(chunk);
        cx.tick(chunk.len())?;
        for (row, _) in keep.iter().enumerate().filter(|(_, keep)| **keep) {
            let key: Vec<GroupKey> = self
                .slots
                .iter()
                .map(|slot| GroupKey(chunk.value(*slot, row)))
                .collect();
            self.row.clear();
            self.row.push(Value::Int(self.count));
            self.layout.push_row(chunk, row, &mut self.row);
            self.partitions.push(&key, &self.row)?;
            self.count += 1;
        }
        Ok(())
    }

    /// The first row of each combination, in the order of arrival.
    pub(crate) fn finish(self, cx: &mut Cx<'_>) -> Result<MergedRows> {
        let positions: Vec<Option<usize>> = self
            .slots
            .iter()
            .map(|slot| self.layout.position(*slot).map(|at| at + 1))
            .collect();
        let mut runs = SortedRuns::new(self.op, [false], cx);
        for partition in self.partitions.finish(cx)? {
            first_rows(self.op, &positions, partition, &mut runs, cx)?;
        }
        runs.merge(self.layout, cx)
    }
}

fn first_rows(
    op: OpId,
    positions: &[Option<usize>],
    partition: Partition,
    runs: &mut SortedRuns,
    cx: &mut Cx<'_>,
) -> Result<()> {
    if partition.is_empty() {
        return Ok(());
    }
    let mut seen: FxHashSet<Vec<GroupKey>> = FxHashSet::default();
    let mut held = 0;
    let mut again: Option<Partitions> = None;
    let outcome = runs.add(cx, |writer, cx| {
        let mut rows = partition.rows();
        let mut row = Vec::new();
        while rows.next(&mut row, cx)? {
            let key: Vec<GroupKey> = positions
                .iter()
                .map(|at| GroupKey(at.and_then(|at| row.get(at)).cloned().unwrap_or_default()))
                .collect();
            // A duplicate of a row that was written already, also after the set is full.
            if seen.contains(&key) {
                continue;
            }
            if let Some(again) = &mut again {
                again.push(&key, &row)?;
                continue;
            }
            let bytes = 64 + key.iter().map(|part| value_bytes(&part.0)).sum::<usize>();
            if !cx.run.watch.try_hold(bytes) {
                // The set is full: rows with unknown keys go to smaller partitions. Keys in the set stay, so that no
                // row is returned twice.
                if let Some(level) = partition.next_level().filter(|_| !seen.is_empty()) {
                    let mut parts = Partitions::new(op, level, cx)?;
                    parts.push(&key, &row)?;
                    again = Some(parts);
                    continue;
                }
                cx.run.watch.hold(bytes)?;
            }
            held += bytes;
            seen.insert(key);
            writer.push(&row)?;
        }
        Ok(())
    });
    cx.run.watch.release(held);
    outcome?;
    drop((seen, partition));
    if let Some(again) = again {
        for partition in again.finish(cx)? {
            first_rows(op, positions, partition, runs, cx)?;
        }
    }
    Ok(())
}
