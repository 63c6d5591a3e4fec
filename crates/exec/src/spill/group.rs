//! Grouping when the groups do not fit into memory.
//!
//! The groups in memory are written as *states* and all later rows as *arguments*; both are partitioned by their keys.
//! In each partition values are added in the order of their arrival, as without spilling: a sum of floats has the same
//! last bit.

use isomer_plan::{
    function::Aggregation,
    physical::{Aggregate, OpId},
};
use isomer_value::{GroupKey, Value};
use rustc_hash::FxHashMap;

use super::{
    Layout, MergedRows, SortedRuns,
    partition::{Partition, Partitions, number},
};
use crate::{
    accumulate::Accumulator,
    context::Cx,
    error::{ExecError, Result},
    value_size::value_bytes,
};

/// Bytes of a group without its key and its accumulators.
const GROUP_BYTES: usize = 160;

/// Groups and rows on disk.
///
/// A row of a partition: its number; whether it is a state; the keys; then per aggregation its state, or its arguments
/// (value and percentile), and finally its repetition count.
pub(crate) struct GroupSpill {
    op: OpId,
    partitions: Partitions,
    count: i64,
    row: Vec<Value>,
}

impl GroupSpill {
    /// An empty spill.
    pub(crate) fn new(op: OpId, cx: &Cx<'_>) -> Result<Self> {
        Ok(Self {
            op,
            partitions: Partitions::new(op, 0, cx)?,
            count: 0,
            row: Vec::new(),
        })
    }

    /// Adds a group with its state. Groups come first, in the order in which they were seen.
    pub(crate) fn add_group(
        &mut self,
        key: &[GroupKey],
        accumulators: Vec<Accumulator>,
    ) -> Result<()> {
        self.row.clear();
        self.row.push(Value::Int(self.count));
        self.row.push(Value::Bool(true));
        self.row.extend(key.iter().map(|part| part.0.clone()));
        for accumulator in accumulators {
            self.row.push(accumulator.into_state());
        }
        self.count += 1;
        self.partitions.push(key, &self.row)
    }

    /// Adds a row: for each aggregation its argument and its percentile, null if absent.
    pub(crate) fn add_row(
        &mut self,
        key: &[GroupKey],
        arguments: impl IntoIterator<Item = (Value, Value)>,
        times: u64,
    ) -> Result<()> {
        self.row.clear();
        self.row.push(Value::Int(self.count));
        self.row.push(Value::Bool(false));
        self.row.extend(key.iter().map(|part| part.0.clone()));
        for (value, percentile) in arguments {
            self.row.push(value);
            self.row.push(percentile);
        }
        let times = i64::try_from(times)
            .map_err(|_| ExecError::overflow("the number of paths does not fit into 64 bits"))?;
        self.row.push(Value::Int(times));
        self.count += 1;
        self.partitions.push(key, &self.row)
    }

    /// One row per group, keys and results, in the order in which the groups were first seen.
    pub(crate) fn finish(self, plan: &Aggregate, cx: &mut Cx<'_>) -> Result<MergedRows> {
        let keys = plan.keys.iter().map(|(slot, _)| *slot);
        let results = plan.aggregates.iter().map(|(slot, _)| *slot);
        let layout = Layout::of(keys.chain(results));
        let mut runs = SortedRuns::new(self.op, [false], cx);
        for partition in self.partitions.finish(cx)? {
            groups_of(self.op, plan, partition, &mut runs, cx)?;
        }
        runs.merge(layout, cx)
    }
}

/// Groups of one partition in memory.
#[derive(Default)]
struct Groups {
    index: FxHashMap<Vec<GroupKey>, usize>,
    list: Vec<Group>,
    held: usize,
}

struct Group {
    number: i64,
    key: Vec<GroupKey>,
    accumulators: Vec<Accumulator>,
}

fn groups_of(
    op: OpId,
    plan: &Aggregate,
    partition: Partition,
    runs: &mut SortedRuns,
    cx: &mut Cx<'_>,
) -> Result<()> {
    if partition.is_empty() {
        return Ok(());
    }
    let mut groups = Groups::default();
    let outcome = (|| -> Result<Option<Partitions>> {
        // Recursion is bounded by the bits of the hash that each level uses: see `MAX_LEVELS`.
        let again = gather(op, plan, &partition, &mut groups, cx)?;
        drop(partition);
        if again.is_none() {
            let list = std::mem::take(&mut groups.list);
            runs.add(cx, |writer, cx| {
                let mut row = Vec::new();
                for group in list {
                    cx.tick(1)?;
                    row.clear();
                    row.push(Value::Int(group.number));
                    row.extend(group.key.into_iter().map(|part| part.0));
                    // A group keeps the number of its first row, by which the merge orders the result.
                    for accumulator in group.accumulators {
                        row.push(accumulator.finish(cx)?);
                    }
                    writer.push(&row)?;
                }
                Ok(())
            })?;
        }
        Ok(again)
    })();
    cx.run.watch.release(groups.held);
    drop(groups);
    if let Some(again) = outcome? {
        for partition in again.finish(cx)? {
            groups_of(op, plan, partition, runs, cx)?;
        }
    }
    Ok(())
}

/// Adds a partition's rows; returns smaller partitions if its groups do not fit.
fn gather(
    op: OpId,
    plan: &Aggregate,
    partition: &Partition,
    groups: &mut Groups,
    cx: &mut Cx<'_>,
) -> Result<Option<Partitions>> {
    let mut rows = partition.rows();
    let mut row = Vec::new();
    let mut again: Option<Partitions> = None;
    while rows.next(&mut row, cx)? {
        let key: Vec<GroupKey> = row
            .iter()
            .skip(2)
            .take(plan.keys.len())
            .cloned()
            .map(GroupKey)
            .collect();
        // Once the groups of this partition were split, all later rows follow them.
        if let Some(again) = &mut again {
            again.push(&key, &row)?;
            continue;
        }
        let bytes = groups.take(plan, key, &row, cx)?;
        groups.held += bytes;
        if cx.run.watch.try_hold(bytes) {
            continue;
        }
        // Splitting by other bits of the hash helps unless all rows have one key.
        match partition.next_level().filter(|_| groups.list.len() > 1) {
            Some(level) => {
                groups.held -= bytes;
                let mut parts = Partitions::new(op, level, cx)?;
                groups.spill(&mut parts, cx)?;
                again = Some(parts);
            }
            // A single group: partitioning again would not help.
            None => {
                groups.held -= bytes;
                cx.run.watch.hold(bytes)?;
                groups.held += bytes;
            }
        }
    }
    Ok(again)
}

impl Groups {
    /// Adds a row; returns how many more bytes are held.
    fn take(
        &mut self,
        plan: &Aggregate,
        key: Vec<GroupKey>,
        row: &[Value],
        cx: &mut Cx<'_>,
    ) -> Result<usize> {
        let lost = || ExecError::Internal("a spilled group is cut short".into());
        let is_state = row.get(1) == Some(&Value::Bool(true));
        let parts = row.get(2 + plan.keys.len()..).ok_or_else(lost)?;
        let mut bytes = 0;
        let at = match self.index.get(&key) {
            Some(at) => *at,
            None => {
                bytes += GROUP_BYTES
                    + plan.aggregates.len() * size_of::<Accumulator>()
                    + 2 * key.iter().map(|part| value_bytes(&part.0)).sum::<usize>();
                let accumulators = plan
                    .aggregates
                    .iter()
                    .map(|(_, call)| Accumulator::new(call.function, call.distinct))
                    .collect();
                self.list.push(Group {
                    number: number(row)?,
                    key: key.clone(),
                    accumulators,
                });
                self.index.insert(key, self.list.len() - 1);
                self.list.len() - 1
            }
        };
        let accumulators = &mut self.list[at].accumulators;
        if is_state {
            for (accumulator, state) in accumulators.iter_mut().zip(parts) {
                bytes += accumulator.restore(state)?;
            }
            return Ok(bytes);
        }
        let times = parts.last().and_then(Value::as_int).ok_or_else(lost)? as u64;
        for ((accumulator, (_, call)), arguments) in accumulators
            .iter_mut()
            .zip(&plan.aggregates)
            .zip(parts.chunks_exact(2))
        {
            if call.function == Aggregation::CountRows {
                accumulator.add_rows(times)?;
                continue;
            }
            let percentile = call.arguments.get(1).map(|_| &arguments[1]);
            bytes += accumulator.add(&arguments[0], percentile, times, cx)?;
        }
        Ok(bytes)
    }

    fn spill(&mut self, parts: &mut Partitions, cx: &mut Cx<'_>) -> Result<()> {
        self.index = FxHashMap::default();
        let mut row = Vec::new();
        for group in std::mem::take(&mut self.list) {
            cx.tick(1)?;
            row.clear();
            row.push(Value::Int(group.number));
            row.push(Value::Bool(true));
            row.extend(group.key.iter().map(|part| part.0.clone()));
            for accumulator in group.accumulators {
                row.push(accumulator.into_state());
            }
            parts.push(&group.key, &row)?;
        }
        cx.run.watch.release(std::mem::take(&mut self.held));
        Ok(())
    }
}
