//! Counting rows by one node: groups are found by the node's number in an array, and rows that a list group or a factor
//! stands for are added up without being multiplied out.

use isomer_plan::{
    Plan,
    expr::{Expr, Kind, SlotId},
    function::Aggregation,
    physical::{self, Op},
};
use isomer_value::{GroupKey, NodeId, Value};
use rustc_hash::FxHashMap;

use super::{
    Argument, Child, FULL_BATCH, Operate, Spot,
    aggregate::{multiplicities, spill_chunk},
    scan::misplaced,
};
use crate::{
    accumulate::Accumulator,
    chunk::Chunk,
    column::Column,
    context::Cx,
    dense::{Marks, Numbers, small},
    error::{ExecError, Result},
    function::node_value,
    spill::{MergedRows, group::GroupSpill},
};

/// `count(*)` by one node, in the order in which the nodes were first seen.
pub(super) struct GroupNodes {
    spot: Spot,
    input: Child,
    groups: Option<Groups>,
    /// The result, where the groups did not fit into memory.
    merged: Option<MergedRows>,
    at: usize,
    held: usize,
}

/// Arrays are made for no more ids than this: 64 MiB.
const MOST_DENSE: usize = 1 << 24;
/// The arrays take no more than this part of a query's memory.
const PART_OF_MEMORY: usize = 16;
/// Bytes that a group holds.
const GROUP_BYTES: usize = 24;

struct Groups {
    /// Nodes with ids below this are found in arrays.
    dense: u32,
    /// Those of them that have a group, and its position.
    known: Marks,
    positions: Numbers,
    /// The same for all others.
    large: FxHashMap<NodeId, u32>,
    nodes: Vec<NodeId>,
    counts: Vec<u64>,
    /// Rows without a node.
    nulls: u64,
}

/// Whether an aggregation only counts rows by one node.
pub(super) fn fits(aggregate: &physical::Aggregate, plan: &Plan) -> bool {
    let by_node = match aggregate.keys.as_slice() {
        [(_, Expr::Slot(slot))] => matches!(plan.slots[slot.index()].kind, Kind::Node),
        _ => false,
    };
    by_node
        && aggregate.aggregates.iter().all(|(_, call)| {
            call.function == Aggregation::CountRows
                || call.function == Aggregation::Count
                    && !call.distinct
                    && matches!(call.arguments.as_slice(), [Expr::Const(value)] if !value.is_null())
        })
}

fn overflow() -> ExecError {
    ExecError::overflow("the number of paths does not fit into 64 bits")
}

impl Groups {
    /// No group yet; the arrays take a small part of the memory that a query may hold.
    fn new(memory_bytes: usize) -> Self {
        let dense = (memory_bytes / PART_OF_MEMORY / size_of::<u32>()).min(MOST_DENSE);
        Self {
            dense: dense as u32,
            known: Marks::take(),
            positions: Numbers::take(),
            large: FxHashMap::default(),
            nodes: Vec::new(),
            counts: Vec::new(),
            nulls: 0,
        }
    }

    #[inline]
    fn add(&mut self, node: NodeId, times: u64) -> Result<()> {
        let position = match small(node).filter(|id| *id < self.dense) {
            Some(id) if self.known.insert(id) => {
                self.positions.put(id, self.nodes.len() as u32);
                None
            }
            Some(id) => Some(self.positions.get(id)),
            None => {
                let next = self.nodes.len() as u32;
                let position = *self.large.entry(node).or_insert(next);
                (position != next).then_some(position)
            }
        };
        match position {
            Some(position) => {
                let count = &mut self.counts[position as usize];
                *count = count.checked_add(times).ok_or_else(overflow)?;
            }
            None => {
                self.nodes.push(node);
                self.counts.push(times);
            }
        }
        Ok(())
    }

    fn add_null(&mut self, times: u64) -> Result<()> {
        self.nulls = self.nulls.checked_add(times).ok_or_else(overflow)?;
        Ok(())
    }

    /// Takes in the rows of a chunk.
    fn take_chunk(&mut self, plan: &physical::Aggregate, key: SlotId, chunk: &Chunk) -> Result<()> {
        if let Some((offsets, Column::Nodes(nodes))) = chunk.listed(key) {
            let factors = multiplicities_of_rows(plan, chunk)?;
            for (row, pair) in offsets.windows(2).enumerate() {
                let times = factors.as_ref().map_or(1, |factors| factors[row]);
                if times == 0 {
                    continue;
                }
                for node in &nodes[pair[0] as usize..pair[1] as usize] {
                    self.add(*node, times)?;
                }
            }
            return Ok(());
        }
        let times = multiplicities(plan, chunk)?;
        match chunk.column(key) {
            Some(Column::Nodes(nodes)) => {
                for (node, times) in nodes.iter().zip(times).filter(|(_, times)| *times > 0) {
                    self.add(*node, times)?;
                }
            }
            column => {
                for (row, times) in times
                    .into_iter()
                    .enumerate()
                    .filter(|(_, times)| *times > 0)
                {
                    match column.and_then(|column| column.node(row)) {
                        Some(node) => self.add(node, times)?,
                        None => self.add_null(times)?,
                    }
                }
            }
        }
        Ok(())
    }
}

/// The product of the factors of each flat row; nothing where there are none.
fn multiplicities_of_rows(plan: &physical::Aggregate, chunk: &Chunk) -> Result<Option<Vec<u64>>> {
    let mut product: Option<Vec<u64>> = None;
    for slot in &plan.factors {
        let factor = |row: usize| match chunk.column(*slot) {
            Some(Column::Ints(ints)) => u64::try_from(ints[row]).unwrap_or(0),
            Some(other) => other
                .get(row)
                .as_int()
                .and_then(|factor| u64::try_from(factor).ok())
                .unwrap_or(0),
            None => 0,
        };
        match &mut product {
            None => product = Some((0..chunk.len()).map(factor).collect()),
            Some(product) => {
                for (row, so_far) in product.iter_mut().enumerate() {
                    *so_far = so_far.checked_mul(factor(row)).ok_or_else(overflow)?;
                }
            }
        }
    }
    Ok(product)
}

impl GroupNodes {
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

    fn gather(&mut self, plan: &physical::Aggregate, cx: &mut Cx<'_>) -> Result<Groups> {
        let Some((_, Expr::Slot(key))) = plan.keys.first() else {
            return Err(ExecError::Internal("a group without its node".into()));
        };
        let mut groups = Groups::new(cx.run.watch.limits().memory_bytes);
        let mut spilled: Option<GroupSpill> = None;
        while let Some(mut chunk) = self.input.pull(cx)? {
            if chunk.is_listed(*key) && plan.factors.iter().any(|slot| chunk.is_listed(*slot)) {
                chunk.flatten();
            }
            cx.tick(chunk.row_count())?;
            if let Some(spilled) = &mut spilled {
                chunk.flatten();
                spill_chunk(plan, &chunk, spilled, cx)?;
                continue;
            }
            let before = groups.nodes.len();
            groups.take_chunk(plan, *key, &chunk)?;
            let bytes = (groups.nodes.len() - before) * GROUP_BYTES;
            if cx.run.watch.try_hold(bytes) {
                self.held += bytes;
                continue;
            }
            let mut spill = GroupSpill::new(self.spot.id, cx)?;
            std::mem::replace(&mut groups, Groups::new(0)).spill(plan, &mut spill, cx)?;
            cx.run.watch.release(std::mem::take(&mut self.held));
            spilled = Some(spill);
        }
        if let Some(spilled) = spilled {
            self.merged = Some(spilled.finish(plan, cx)?);
        }
        Ok(groups)
    }
}

impl Groups {
    /// Writes the groups so far.
    fn spill(
        self,
        plan: &physical::Aggregate,
        spilled: &mut GroupSpill,
        cx: &mut Cx<'_>,
    ) -> Result<()> {
        let nodes = self.nodes.into_iter().map(node_value).zip(self.counts);
        let nulls = (self.nulls > 0).then_some((Value::Null, self.nulls));
        for (key, count) in nodes.chain(nulls) {
            cx.tick(1)?;
            let mut counts = Vec::with_capacity(plan.aggregates.len());
            for (_, call) in &plan.aggregates {
                let mut counted = Accumulator::new(call.function, false);
                counted.add_rows(count)?;
                counts.push(counted);
            }
            spilled.add_group(&[GroupKey(key)], counts)?;
        }
        Ok(())
    }
}

impl Operate for GroupNodes {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let spot = self.spot.clone();
        let Op::Aggregate(plan) = spot.op() else {
            return Err(misplaced(spot.op()));
        };
        if self.groups.is_none() {
            cx.run.watch.release(std::mem::take(&mut self.held));
            self.groups = Some(self.gather(plan, cx)?);
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
        let end = (self.at + FULL_BATCH).min(groups.nodes.len());
        let (keys, counts) = if self.at < end {
            let counts = groups.counts[self.at..end].iter();
            let counts: Option<Vec<i64>> = counts.map(|count| i64::try_from(*count).ok()).collect();
            let nodes = groups.nodes[self.at..end].to_vec();
            (Column::Nodes(nodes), counts.ok_or_else(overflow)?)
        } else if groups.nulls > 0 {
            let nulls = i64::try_from(std::mem::take(&mut groups.nulls)).map_err(|_| overflow())?;
            (Column::Const(Value::Null), vec![nulls])
        } else {
            return Ok(None);
        };
        self.at = end;
        let mut chunk = Chunk::new(counts.len(), spot.plan.slots.len());
        for (slot, _) in &plan.keys {
            chunk.set(*slot, keys.clone());
        }
        for (slot, _) in &plan.aggregates {
            chunk.set(*slot, Column::Ints(counts.clone()));
        }
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
