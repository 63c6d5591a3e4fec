//! Grouping and aggregation, by hashing.

use std::{borrow::Cow, sync::Arc};

use isomer_plan::{expr::AggregateCall, function::Aggregation, physical::Op};
use isomer_value::{GroupKey, NodeId, Value};
use rustc_hash::FxHashMap;

use super::{
    Argument, Child, FULL_BATCH, Operate, OperatorRef, Pieces, row::reads_list, scan::misplaced,
};
use crate::{
    accumulate::Accumulator,
    chunk::Chunk,
    column::Column,
    context::Cx,
    error::{ExecError, Result},
    eval::{Selection, column},
    function::node_value,
    spill::{MergedRows, group::GroupSpill},
    value_size::value_bytes,
};

/// Groups all rows, then returns one row per group, in the order in which the groups were first seen.
pub(super) struct Aggregate {
    op_ref: OperatorRef,
    input: Child,
    groups: Option<Groups>,
    /// The result, if the groups exceeded the memory.
    merged: Option<MergedRows>,
    at: usize,
    held: usize,
}

struct Groups {
    index: FxHashMap<Vec<GroupKey>, u32>,
    /// Groups of one integer key, found without building a key vector.
    ints: FxHashMap<i64, u32>,
    /// Groups of one key that is a node: all of them are here, none in `index`.
    nodes: FxHashMap<NodeId, u32>,
    /// Likewise for one key that is a string, in any kind of column.
    strings: FxHashMap<Arc<str>, u32>,
    keys: Vec<Vec<GroupKey>>,
    accumulators: Vec<Vec<Accumulator>>,
}

impl Aggregate {
    pub(super) fn new(op_ref: OperatorRef, input: Child) -> Self {
        Self {
            op_ref,
            input,
            groups: None,
            merged: None,
            at: 0,
            held: 0,
        }
    }

    fn gather(
        &mut self,
        plan: &isomer_plan::physical::Aggregate,
        cx: &mut Cx<'_>,
    ) -> Result<Groups> {
        let mut groups = Groups {
            index: FxHashMap::default(),
            ints: FxHashMap::default(),
            nodes: FxHashMap::default(),
            strings: FxHashMap::default(),
            keys: Vec::new(),
            accumulators: Vec::new(),
        };
        if plan.keys.is_empty() {
            groups.add(Vec::new(), plan);
        }
        let mut spilled: Option<GroupSpill> = None;
        let mut pieces = Pieces::default();
        while let Some(mut chunk) = self.input.pull(cx)? {
            // A factorised chunk is aggregated as it is, each flat row with the length of its list as its weight,
            // unless an expression reads the list or a function needs each value.
            let listed = plan
                .keys
                .iter()
                .map(|(_, expr)| expr)
                .chain(plan.aggregates.iter().flat_map(|(_, call)| &call.arguments));
            if chunk.is_factorised()
                && (listed.into_iter().any(|expr| reads_list(expr, &chunk))
                    || plan.aggregates.iter().any(|(_, call)| enumerates(call)))
            {
                chunk.flatten();
            }
            if chunk.is_factorised() {
                // A flat row with an empty list group represents no row: it must not create a group.
                let keep: Vec<bool> = (0..chunk.len())
                    .map(|row| chunk.multiplicity(row) > 0)
                    .collect();
                chunk.retain_grouped(&keep);
            }
            if chunk.is_empty() {
                continue;
            }
            pieces.each(chunk, cx, |chunk, cx| {
                if let Some(spilled) = &mut spilled {
                    // Later rows of a spilled group must meet it on disk, so all of them go there.
                    return spill_chunk(plan, chunk, spilled, cx);
                }
                let bytes = groups.take_chunk(plan, chunk, cx)?;
                if cx.run.watch.try_hold(bytes) {
                    self.held += bytes;
                } else if plan.keys.is_empty() {
                    // A single group holds everything: partitioning it would not help.
                    cx.run.watch.hold(bytes)?;
                    self.held += bytes;
                } else {
                    // Hash aggregation with partitions on disk. Groups found so far are written as
                    // intermediate results, not as their rows: most of the work is kept.
                    let mut spill = GroupSpill::new(self.op_ref.id, cx)?;
                    let all = std::mem::take(&mut groups.keys)
                        .into_iter()
                        .zip(std::mem::take(&mut groups.accumulators));
                    for (key, accumulators) in all {
                        cx.tick(1)?;
                        spill.add_group(&key, accumulators)?;
                    }
                    groups.forget();
                    cx.run.watch.release(std::mem::take(&mut self.held));
                    spilled = Some(spill);
                }
                Ok(())
            })?;
        }
        if let Some(spilled) = spilled {
            self.merged = Some(spilled.finish(plan, cx)?);
        }
        Ok(groups)
    }
}

/// The keys of the rows of a chunk, and for each aggregation its argument and its percentile, where it has them.
struct Evaluated<'c> {
    keys: Vec<Cow<'c, Column>>,
    arguments: Vec<[Option<Cow<'c, Column>>; 2]>,
}

impl<'c> Evaluated<'c> {
    fn of(
        plan: &isomer_plan::physical::Aggregate,
        chunk: &'c Chunk,
        cx: &mut Cx<'_>,
    ) -> Result<Self> {
        let rows = Selection::All(chunk.len());
        let keys = plan
            .keys
            .iter()
            .map(|(_, expr)| column(expr, chunk, rows, cx))
            .collect::<Result<Vec<_>>>()?;
        let mut arguments = Vec::with_capacity(plan.aggregates.len());
        for (_, call) in &plan.aggregates {
            let mut argument = |at: usize| {
                let argument = call.arguments.get(at);
                argument
                    .map(|argument| column(argument, chunk, rows, cx))
                    .transpose()
            };
            arguments.push([argument(0)?, argument(1)?]);
        }
        cx.run.watch.use_computed();
        Ok(Self { keys, arguments })
    }
}

/// Writes the rows of a chunk as arguments of their groups.
pub(super) fn spill_chunk(
    plan: &isomer_plan::physical::Aggregate,
    chunk: &Chunk,
    spilled: &mut GroupSpill,
    cx: &mut Cx<'_>,
) -> Result<()> {
    let Evaluated { keys, arguments } = Evaluated::of(plan, chunk, cx)?;
    let times = multiplicities(plan, chunk)?;
    cx.tick(chunk.len())?;
    for (row, times) in times.into_iter().enumerate() {
        let key: Vec<GroupKey> = keys
            .iter()
            .map(|column| GroupKey(column.get(row)))
            .collect();
        let value = |column: &Option<Cow<'_, Column>>| {
            column
                .as_ref()
                .map_or(Value::Null, |column| column.get(row))
        };
        let values = arguments
            .iter()
            .map(|[first, second]| (value(first), value(second)));
        spilled.add_row(&key, values, times)?;
    }
    Ok(())
}

/// Whether an aggregation keeps each value, so that repetition counts do not save memory.
fn enumerates(call: &AggregateCall) -> bool {
    matches!(
        call.function,
        Aggregation::Collect
            | Aggregation::ProjectGraph
            | Aggregation::StDev
            | Aggregation::StDevP
            | Aggregation::PercentileCont
            | Aggregation::PercentileDisc
    ) && !call.distinct
}

impl Groups {
    /// Drops the lookup tables: no more rows are added.
    fn forget(&mut self) {
        self.index = FxHashMap::default();
        self.ints = FxHashMap::default();
        self.nodes = FxHashMap::default();
        self.strings = FxHashMap::default();
    }

    fn add(&mut self, key: Vec<GroupKey>, plan: &isomer_plan::physical::Aggregate) -> u32 {
        let group = self.accumulators.len() as u32;
        self.accumulators.push(
            plan.aggregates
                .iter()
                .map(|(_, call)| Accumulator::new(call.function, call.distinct))
                .collect(),
        );
        self.keys.push(key);
        group
    }

    /// The group of each row of the chunk, and the bytes that new groups hold.
    fn find(
        &mut self,
        plan: &isomer_plan::physical::Aggregate,
        keys: &[Cow<'_, Column>],
        rows: usize,
    ) -> (Vec<u32>, usize) {
        let mut found = Vec::with_capacity(rows);
        let mut bytes = 0;
        let accumulators = plan.aggregates.len() * size_of::<Accumulator>();
        for row in 0..rows {
            if let [column] = keys
                // One key of a simple type is the common case: it is found without building and hashing a vector of
                // values.
                && let Some(int) = int_at(column, row)
            {
                let group = match self.ints.get(&int) {
                    Some(group) => *group,
                    None => {
                        bytes += 128 + accumulators;
                        // A float with an integral value belongs to the integer's group.
                        let key = vec![GroupKey(Value::Int(int))];
                        let group = match self.index.get(&key) {
                            Some(group) => *group,
                            None => {
                                let group = self.add(key.clone(), plan);
                                self.index.insert(key, group);
                                group
                            }
                        };
                        self.ints.insert(int, group);
                        group
                    }
                };
                found.push(group);
                continue;
            }
            if let [column] = keys
                && let Some(node) = column.node(row)
            {
                let group = match self.nodes.get(&node) {
                    Some(group) => *group,
                    None => {
                        bytes += 160 + accumulators;
                        let group = self.add(vec![GroupKey(node_value(node))], plan);
                        self.nodes.insert(node, group);
                        group
                    }
                };
                found.push(group);
                continue;
            }
            if let [column] = keys
                && let Some(text) = string_at(column, row)
            {
                let group = match self.strings.get(text) {
                    Some(group) => *group,
                    None => {
                        bytes += 160 + accumulators + text.len();
                        let group = self.add(vec![GroupKey(Value::String(text.clone()))], plan);
                        self.strings.insert(text.clone(), group);
                        group
                    }
                };
                found.push(group);
                continue;
            }
            let key: Vec<GroupKey> = keys
                .iter()
                .map(|column| GroupKey(column.get(row)))
                .collect();
            let group = match self.index.get(&key) {
                Some(group) => *group,
                None => {
                    bytes += 160
                        + accumulators
                        + 2 * key.iter().map(|part| value_bytes(&part.0)).sum::<usize>();
                    let group = self.add(key.clone(), plan);
                    self.index.insert(key, group);
                    group
                }
            };
            found.push(group);
        }
        (found, bytes)
    }

    /// Adds the rows of a chunk; returns how many bytes more are held.
    fn take_chunk(
        &mut self,
        plan: &isomer_plan::physical::Aggregate,
        chunk: &Chunk,
        cx: &mut Cx<'_>,
    ) -> Result<usize> {
        let evaluated = Evaluated::of(plan, chunk, cx)?;
        let mut bytes = 0;
        let groups = if plan.keys.is_empty() {
            vec![0; chunk.len()]
        } else {
            let (groups, more) = self.find(plan, &evaluated.keys, chunk.len());
            bytes += more;
            groups
        };
        let times = multiplicities(plan, chunk)?;
        let arguments = plan.aggregates.iter().zip(&evaluated.arguments);
        for (number, ((_, call), arguments)) in arguments.enumerate() {
            bytes += self.feed(number, call, arguments, &groups, &times, cx)?;
        }
        Ok(bytes)
    }

    fn feed(
        &mut self,
        number: usize,
        call: &AggregateCall,
        [values, percentiles]: &[Option<Cow<'_, Column>>; 2],
        groups: &[u32],
        times: &[u64],
        cx: &mut Cx<'_>,
    ) -> Result<usize> {
        // The most frequent aggregation: no value is read.
        if call.function == Aggregation::CountRows {
            for (group, times) in groups.iter().zip(times) {
                self.accumulators[*group as usize][number].add_rows(*times)?;
            }
            return Ok(0);
        }
        let values = values
            .as_ref()
            .ok_or_else(|| ExecError::Internal("an aggregation without an argument".into()))?;
        let mut bytes = 0;
        for (row, (group, times)) in groups.iter().zip(times).enumerate() {
            let accumulator = &mut self.accumulators[*group as usize][number];
            if call.function == Aggregation::Count && !call.distinct {
                if !values.is_null(row) {
                    accumulator.add_rows(*times)?;
                }
                continue;
            }
            let percentile = percentiles.as_ref().map(|column| column.get(row));
            bytes += match &**values {
                Column::Values(values) => {
                    accumulator.add(&values[row], percentile.as_ref(), *times, cx)?
                }
                other => accumulator.add(&other.get(row), percentile.as_ref(), *times, cx)?,
            };
        }
        Ok(bytes)
    }
}

fn int_at(column: &Column, row: usize) -> Option<i64> {
    match column {
        Column::Ints(items) => Some(items[row]),
        Column::Values(items) => items[row].as_int(),
        _ => None,
    }
}

fn string_at(column: &Column, row: usize) -> Option<&Arc<str>> {
    match column {
        Column::Values(items) => match &items[row] {
            Value::String(text) => Some(text),
            _ => None,
        },
        Column::Const(Value::String(text)) => Some(text),
        _ => None,
    }
}

/// How many rows each flat row represents: the size of its list group times its factors.
pub(super) fn multiplicities(
    plan: &isomer_plan::physical::Aggregate,
    chunk: &Chunk,
) -> Result<Vec<u64>> {
    let overflow = || ExecError::overflow("the number of paths does not fit into 64 bits");
    (0..chunk.len())
        .map(|row| {
            let mut times = chunk.multiplicity(row) as u64;
            for slot in &plan.factors {
                let factor = match chunk.value(*slot, row) {
                    Value::Int(factor) => u64::try_from(factor).unwrap_or(0),
                    _ => 0,
                };
                times = times.checked_mul(factor).ok_or_else(overflow)?;
            }
            Ok(times)
        })
        .collect()
}

impl Operate for Aggregate {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        let Op::Aggregate(plan) = op_ref.op() else {
            return Err(misplaced(op_ref.op()));
        };
        if self.groups.is_none() {
            cx.run.watch.release(std::mem::take(&mut self.held));
            // A pipeline breaker: the first group is known only after the last row.
            let mut groups = self.gather(plan, cx)?;
            groups.forget();
            self.groups = Some(groups);
            self.at = 0;
        }
        if let Some(merged) = &mut self.merged {
            let mut chunk = merged.next_chunk(FULL_BATCH, cx)?;
            if let Some(chunk) = &mut chunk {
                op_ref.prune(chunk);
            }
            return Ok(chunk);
        }
        let Some(groups) = &mut self.groups else {
            return Ok(None);
        };
        let end = (self.at + FULL_BATCH).min(groups.accumulators.len());
        if self.at >= end {
            return Ok(None);
        }
        let mut keys: Vec<Vec<Value>> = plan
            .keys
            .iter()
            .map(|_| Vec::with_capacity(end - self.at))
            .collect();
        let mut results: Vec<Vec<Value>> = plan
            .aggregates
            .iter()
            .map(|_| Vec::with_capacity(end - self.at))
            .collect();
        for group in self.at..end {
            // Taken, not copied: a group is returned once.
            for (column, key) in keys.iter_mut().zip(std::mem::take(&mut groups.keys[group])) {
                column.push(key.0);
            }
            for (column, accumulator) in results
                .iter_mut()
                .zip(std::mem::take(&mut groups.accumulators[group]))
            {
                column.push(accumulator.finish(cx)?);
            }
        }
        let mut chunk = Chunk::new(end - self.at, op_ref.plan.slots.len());
        for ((slot, _), values) in plan.keys.iter().zip(keys) {
            chunk.set(*slot, Column::of_values(values));
        }
        for ((slot, _), values) in plan.aggregates.iter().zip(results) {
            chunk.set(*slot, Column::of_values(values));
        }
        self.at = end;
        op_ref.prune(&mut chunk);
        Ok(Some(chunk))
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
        self.groups = None;
        self.merged = None;
        self.at = 0;
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
        self.groups = None;
        self.merged = None;
        self.at = 0;
        cx.run.watch.release(std::mem::take(&mut self.held));
    }
}
