//! Grouping and aggregation, by hashing.

use std::sync::Arc;

use isomer_plan::{expr::AggregateCall, function::Aggregation, physical::Op};
use isomer_value::{GroupKey, NodeId, Value};
use rustc_hash::FxHashMap;

use super::{Argument, Child, FULL_BATCH, Operate, Spot, row::reads_list, scan::misplaced};
use crate::{
    accumulate::Accumulator,
    chunk::Chunk,
    column::{Column, value_bytes},
    context::Cx,
    error::{ExecError, Result},
    eval::{Selection, column},
    function::node_value,
    spill::{MergedRows, group::GroupSpill},
};

/// Groups all rows, then gives one row per group, in the order in which the groups were first seen.
pub(super) struct Aggregate {
    spot: Spot,
    input: Child,
    groups: Option<Groups>,
    /// The result, where the groups did not fit into memory.
    merged: Option<MergedRows>,
    at: usize,
    held: usize,
}

struct Groups {
    index: FxHashMap<Vec<GroupKey>, u32>,
    /// Groups of one integer key, found without a vector.
    ints: FxHashMap<i64, u32>,
    /// Groups of one key that is a node: all of them are here, none in `index`.
    nodes: FxHashMap<NodeId, u32>,
    /// The same of one key that is a string, whatever column it comes in.
    strings: FxHashMap<Arc<str>, u32>,
    keys: Vec<Vec<GroupKey>>,
    accumulators: Vec<Vec<Accumulator>>,
}

impl Aggregate {
    pub(super) fn new(spot: Spot, input: Child) -> Self {
        Self {
            spot,
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
        while let Some(mut chunk) = self.input.pull(cx)? {
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
                // A row of which nothing hangs is no row: it must not make a group.
                let keep: Vec<bool> = (0..chunk.len())
                    .map(|row| chunk.multiplicity(row) > 0)
                    .collect();
                chunk.retain_grouped(&keep);
            }
            if !chunk.is_empty() {
                if let Some(spilled) = &mut spilled {
                    spill_chunk(plan, &chunk, spilled, cx)?;
                    continue;
                }
                let bytes = groups.take_chunk(plan, &chunk, cx)?;
                if cx.run.watch.try_hold(bytes) {
                    self.held += bytes;
                } else if plan.keys.is_empty() {
                    // One group alone: it is all there is.
                    cx.run.watch.hold(bytes)?;
                    self.held += bytes;
                } else {
                    let mut spill = GroupSpill::new(self.spot.id, cx)?;
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
            }
        }
        if let Some(spilled) = spilled {
            self.merged = Some(spilled.finish(plan, cx)?);
        }
        Ok(groups)
    }
}

/// Writes the rows of a chunk as arguments of their groups.
pub(super) fn spill_chunk(
    plan: &isomer_plan::physical::Aggregate,
    chunk: &Chunk,
    spilled: &mut GroupSpill,
    cx: &mut Cx<'_>,
) -> Result<()> {
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
        arguments.push((argument(0)?, argument(1)?));
    }
    let times = multiplicities(plan, chunk)?;
    cx.tick(chunk.len())?;
    for (row, times) in times.into_iter().enumerate() {
        let key: Vec<GroupKey> = keys
            .iter()
            .map(|column| GroupKey(column.get(row)))
            .collect();
        let value = |column: &Option<std::borrow::Cow<'_, Column>>| {
            column
                .as_ref()
                .map_or(Value::Null, |column| column.get(row))
        };
        let values = arguments
            .iter()
            .map(|(first, second)| (value(first), value(second)));
        spilled.add_row(&key, values, times)?;
    }
    Ok(())
}

/// Whether an aggregation keeps each value, so that a count of repetitions does not help it.
fn enumerates(call: &AggregateCall) -> bool {
    matches!(
        call.function,
        Aggregation::Collect
            | Aggregation::StDev
            | Aggregation::StDevP
            | Aggregation::PercentileCont
            | Aggregation::PercentileDisc
    ) && !call.distinct
}

impl Groups {
    /// Drops what finds groups: none comes any more.
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
        keys: &[std::borrow::Cow<'_, Column>],
        rows: usize,
    ) -> (Vec<u32>, usize) {
        let mut found = Vec::with_capacity(rows);
        let mut bytes = 0;
        let accumulators = plan.aggregates.len() * size_of::<Accumulator>();
        for row in 0..rows {
            if let [column] = keys
                && let Some(int) = int_at(column, row)
            {
                let group = match self.ints.get(&int) {
                    Some(group) => *group,
                    None => {
                        bytes += 128 + accumulators;
                        // A float that is a whole number is the same group as the integer.
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

    /// Takes in the rows of a chunk; returns how many bytes more are held.
    fn take_chunk(
        &mut self,
        plan: &isomer_plan::physical::Aggregate,
        chunk: &Chunk,
        cx: &mut Cx<'_>,
    ) -> Result<usize> {
        let rows = Selection::All(chunk.len());
        let mut bytes = 0;
        let groups = if plan.keys.is_empty() {
            vec![0; chunk.len()]
        } else {
            let keys = plan
                .keys
                .iter()
                .map(|(_, expr)| column(expr, chunk, rows, cx))
                .collect::<Result<Vec<_>>>()?;
            let (groups, more) = self.find(plan, &keys, chunk.len());
            bytes += more;
            groups
        };
        let times = multiplicities(plan, chunk)?;
        for (number, (_, call)) in plan.aggregates.iter().enumerate() {
            bytes += self.feed(number, call, &groups, &times, chunk, cx)?;
        }
        Ok(bytes)
    }

    fn feed(
        &mut self,
        number: usize,
        call: &AggregateCall,
        groups: &[u32],
        times: &[u64],
        chunk: &Chunk,
        cx: &mut Cx<'_>,
    ) -> Result<usize> {
        if call.function == Aggregation::CountRows {
            for (group, times) in groups.iter().zip(times) {
                self.accumulators[*group as usize][number].add_rows(*times)?;
            }
            return Ok(0);
        }
        let rows = Selection::All(chunk.len());
        let first = call
            .arguments
            .first()
            .ok_or_else(|| ExecError::Internal("an aggregation without an argument".into()))?;
        let values = column(first, chunk, rows, cx)?;
        let percentiles = call
            .arguments
            .get(1)
            .map(|argument| column(argument, chunk, rows, cx))
            .transpose()?;
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
            bytes += match &*values {
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

/// How many rows each flat row stands for: its list group's share times its factors.
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
        let spot = self.spot.clone();
        let Op::Aggregate(plan) = spot.op() else {
            return Err(misplaced(spot.op()));
        };
        if self.groups.is_none() {
            cx.run.watch.release(std::mem::take(&mut self.held));
            let mut groups = self.gather(plan, cx)?;
            groups.forget();
            self.groups = Some(groups);
            self.at = 0;
        }
        if let Some(merged) = &mut self.merged {
            let mut chunk = merged.next_chunk(FULL_BATCH, cx)?;
            if let Some(chunk) = &mut chunk {
                spot.prune(chunk);
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
        let mut chunk = Chunk::new(end - self.at, spot.plan.slots.len());
        for ((slot, _), values) in plan.keys.iter().zip(keys) {
            chunk.set(*slot, Column::of_values(values));
        }
        for ((slot, _), values) in plan.aggregates.iter().zip(results) {
            chunk.set(*slot, Column::of_values(values));
        }
        self.at = end;
        spot.prune(&mut chunk);
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
