//! Counts rows per node: groups are found in an array by the node's number, and rows that are represented by a list
//! group or a factor are added up without being multiplied out.

use isomer_plan::{
    expr::{BoundExpr, SlotId},
    physical::{self, Op, OpId},
};
use isomer_value::{GroupKey, NodeId, Value};
use rustc_hash::FxHashMap;

use super::{
    Argument, Child, FULL_BATCH, Operate, OperatorRef, aggregate::multiplicities,
    expand::bound_nodes, fallback::LazyChild, scan::misplaced,
};
use crate::{
    accumulate::Accumulator,
    chunk::Chunk,
    column::Column,
    context::Cx,
    dense::{Counts, WalkScratch, Walks, small},
    error::{ExecError, Result},
    function::node_value,
    spill::{MergedRows, group::GroupSpill},
};

/// `count(*)` by one node of the input's rows.
pub(super) struct CountByNode {
    op_ref: OperatorRef,
    input: Child,
    result: NodeCounts,
}

/// `count(*)` by the ends of an expand that does not run: its ends are counted in the adjacency.
pub(super) struct CountByNeighbour {
    op_ref: OperatorRef,
    /// The rows that would be expanded.
    input: LazyChild,
    fallback: LazyChild,
    strategy: Strategy,
    result: NodeCounts,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Strategy {
    Undecided,
    Views,
    Fallback,
}

/// The groups, once all rows were read.
#[derive(Default)]
struct NodeCounts {
    groups: Option<Groups>,
    /// The groups, if they exceeded the memory.
    merged: Option<MergedRows>,
    at: usize,
    held: usize,
}

/// Arrays cover at most this many ids: 128 MiB.
const MAX_DENSE_IDS: usize = 1 << 24;
/// The arrays take at most this fraction of a query's memory.
const PART_OF_MEMORY: usize = 16;
/// Bytes of a group in the hash table.
const GROUP_BYTES: usize = 48;

struct Groups {
    /// Nodes with ids below this are counted in an array.
    dense: u32,
    counts: Counts,
    /// The counts of all others.
    large: FxHashMap<NodeId, u64>,
    large_nodes: Vec<NodeId>,
    /// Rows without a node.
    nulls: u64,
    /// All rows: because their number fits into 64 bits, every count does.
    total: u64,
}

fn overflow() -> ExecError {
    ExecError::overflow("the number of paths does not fit into 64 bits")
}

impl Groups {
    /// No group yet; the array takes a small part of the query's memory.
    fn new(memory_bytes: usize) -> Self {
        // Ids are dense, so an array is both the hash table and the hash. Its size is limited because a single large
        // id makes it that long.
        let dense = (memory_bytes / PART_OF_MEMORY / size_of::<u64>()).min(MAX_DENSE_IDS);
        Self {
            dense: dense as u32,
            counts: Counts::take(dense),
            large: FxHashMap::default(),
            large_nodes: Vec::new(),
            nulls: 0,
            total: 0,
        }
    }

    fn len(&self) -> usize {
        self.counts.met().len() + self.large_nodes.len()
    }

    /// What the groups hold.
    fn bytes(&self) -> usize {
        self.counts.bytes() + self.large.capacity() * GROUP_BYTES
    }

    /// Counts rows towards the total.
    fn count_all(&mut self, rows: usize, times: u64) -> Result<()> {
        let more = (rows as u64).checked_mul(times).ok_or_else(overflow)?;
        self.total = self.total.checked_add(more).ok_or_else(overflow)?;
        Ok(())
    }

    /// Adds a row with weight `times` for a node; it was already added to the total.
    #[inline]
    fn add(&mut self, node: NodeId, times: u64) {
        if times == 0 {
            return;
        }
        match small(node).filter(|id| *id < self.dense) {
            Some(id) => {
                if id as usize >= self.counts.bound() {
                    self.counts.cover((id + 1).max(self.dense.min(4096)));
                }
                self.counts.add_all(&[id], times);
            }
            None => {
                let count = self.large.entry(node).or_insert_with(|| {
                    self.large_nodes.push(node);
                    0
                });
                *count += times;
            }
        }
    }

    /// Adds rows with weight `times` each for several nodes, whose ids are below `bound`.
    fn add_ends(&mut self, ends: &[u32], times: u64, bound: u32) -> Result<()> {
        if times == 0 {
            return Ok(());
        }
        self.count_all(ends.len(), times)?;
        // One check for all ends of a node, instead of one per end.
        if bound <= self.dense {
            self.counts.cover(bound);
            self.counts.add_all(ends, times);
        } else {
            let nodes = ends.iter().map(|end| NodeId(u64::from(*end)));
            nodes.for_each(|node| self.add(node, times));
        }
        Ok(())
    }

    /// The groups from `start` to `end`, in the order in which they were first seen, those with large ids last.
    fn range(&self, start: usize, end: usize) -> (Vec<NodeId>, Vec<u64>) {
        let met = self.counts.met();
        let dense = &met[start.min(met.len())..end.min(met.len())];
        let large =
            &self.large_nodes[start.saturating_sub(met.len())..end.saturating_sub(met.len())];
        let nodes = dense.iter().map(|id| NodeId(u64::from(*id)));
        let counts = dense.iter().map(|id| self.counts.get(*id));
        let of_large = large.iter().map(|node| self.large.get(node).copied());
        (
            nodes.chain(large.iter().copied()).collect(),
            counts
                .chain(of_large.map(Option::unwrap_or_default))
                .collect(),
        )
    }

    /// Adds the rows of a chunk.
    fn take_chunk(&mut self, plan: &physical::Aggregate, key: SlotId, chunk: &Chunk) -> Result<()> {
        // The key is in the list group: each flat row counts all of its list without being repeated.
        if let Some((offsets, Column::Nodes(nodes))) = chunk.listed(key) {
            let factors = multiplicities_of_rows(plan, chunk)?;
            for (row, pair) in offsets.windows(2).enumerate() {
                let times = factors.as_ref().map_or(1, |factors| factors[row]);
                let nodes = &nodes[pair[0] as usize..pair[1] as usize];
                self.count_all(nodes.len(), times)?;
                nodes.iter().for_each(|node| self.add(*node, times));
            }
            return Ok(());
        }
        let column = chunk.column(key);
        for (row, times) in multiplicities(plan, chunk)?.into_iter().enumerate() {
            self.count_all(1, times)?;
            match column.and_then(|column| column.node(row)) {
                Some(node) => self.add(node, times),
                None => self.nulls += times,
            }
        }
        Ok(())
    }
}

/// The product of the factors of each flat row; empty if there are no factors.
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

impl NodeCounts {
    /// Starts again, and releases its memory.
    fn restart(&mut self, cx: &mut Cx<'_>) {
        self.forget();
        cx.run.watch.release(std::mem::take(&mut self.held));
    }

    fn forget(&mut self) {
        self.groups = None;
        self.merged = None;
        self.at = 0;
    }

    /// Reads all rows with `take`, and groups them.
    fn gather(
        &mut self,
        (operator, plan): (OpId, &physical::Aggregate),
        cx: &mut Cx<'_>,
        take: impl FnOnce(&mut Gathering<'_>, SlotId, &mut Cx<'_>) -> Result<()>,
    ) -> Result<()> {
        let Some((_, BoundExpr::Slot(key))) = plan.keys.first() else {
            return Err(ExecError::Internal("a group without its node".into()));
        };
        cx.run.watch.release(std::mem::take(&mut self.held));
        let mut gathering = Gathering {
            groups: Groups::new(cx.run.watch.limits().memory_bytes),
            spilled: None,
            held: &mut self.held,
            operator,
            plan,
        };
        take(&mut gathering, *key, cx)?;
        let Gathering {
            mut groups,
            spilled,
            ..
        } = gathering;
        if let Some(mut spilled) = spilled {
            groups.spill(plan, &mut spilled, cx)?;
            self.merged = Some(spilled.finish(plan, cx)?);
            cx.run.watch.release(std::mem::take(&mut self.held));
            groups = Groups::new(0);
        }
        self.groups = Some(groups);
        self.at = 0;
        Ok(())
    }

    /// The next groups.
    fn next(
        &mut self,
        plan: &physical::Aggregate,
        op_ref: &OperatorRef,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Chunk>> {
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
        let end = (self.at + FULL_BATCH).min(groups.len());
        let (keys, counts) = if self.at < end {
            let (nodes, counts) = groups.range(self.at, end);
            let counts: Option<Vec<i64>> = counts
                .into_iter()
                .map(|count| i64::try_from(count).ok())
                .collect();
            (Column::Nodes(nodes), counts.ok_or_else(overflow)?)
        } else if groups.nulls > 0 {
            let nulls = i64::try_from(std::mem::take(&mut groups.nulls)).map_err(|_| overflow())?;
            (Column::Const(Value::Null), vec![nulls])
        } else {
            return Ok(None);
        };
        self.at = end;
        let mut chunk = Chunk::new(counts.len(), op_ref.plan.slots.len());
        for (slot, _) in &plan.keys {
            chunk.set(*slot, keys.clone());
        }
        for (slot, _) in &plan.aggregates {
            chunk.set(*slot, Column::Ints(counts.clone()));
        }
        op_ref.prune(&mut chunk);
        Ok(Some(chunk))
    }
}

/// Groups under construction.
struct Gathering<'g> {
    groups: Groups,
    spilled: Option<GroupSpill>,
    held: &'g mut usize,
    operator: OpId,
    plan: &'g physical::Aggregate,
}

/// Ends that are counted between two checks of the clock and the memory, or the ends of one node.
const TICK_ENDS: usize = 1 << 14;

impl Gathering<'_> {
    /// Counts the rows of `input`.
    fn take_rows(&mut self, key: SlotId, input: &mut Child, cx: &mut Cx<'_>) -> Result<()> {
        while let Some(mut chunk) = input.pull(cx)? {
            let listed = |slot: &SlotId| chunk.is_listed(*slot);
            // A factor of each list element cannot be applied to the list as a whole.
            if listed(&key) && self.plan.factors.iter().any(listed) {
                chunk.flatten();
            }
            cx.tick(chunk.row_count())?;
            self.groups.take_chunk(self.plan, key, &chunk)?;
            self.hold(cx)?;
        }
        Ok(())
    }

    /// Counts the neighbours of the nodes in the slot `from` of `input`.
    fn take_neighbours(
        &mut self,
        (from, walks): (SlotId, &Walks),
        input: &mut LazyChild,
        cx: &mut Cx<'_>,
    ) -> Result<()> {
        let mut scratch = WalkScratch::default();
        while let Some(chunk) = input.pull_flat(cx)? {
            let factors = multiplicities_of_rows(self.plan, &chunk)?;
            let (rows, nodes) = bound_nodes(&chunk, from)?;
            let mut since = 0;
            for (row, node) in rows.into_iter().zip(nodes) {
                let times = factors.as_ref().map_or(1, |factors| factors[row as usize]);
                let Some(node) = small(node) else { continue };
                let ends = walks.neighbours(node, &mut scratch);
                self.groups.add_ends(ends, times, walks.id_bound())?;
                since += ends.len();
                if since >= TICK_ENDS {
                    cx.tick(std::mem::take(&mut since))?;
                    self.hold(cx)?;
                }
            }
            cx.tick(since)?;
            self.hold(cx)?;
        }
        Ok(())
    }

    /// Reserves memory for the groups; if it is refused, they spill to disk.
    fn hold(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        let bytes = self.groups.bytes();
        let more = bytes.saturating_sub(*self.held);
        if more == 0 {
            return Ok(());
        }
        if cx.run.watch.try_hold(more) {
            *self.held += more;
            return Ok(());
        }
        let mut spilled = match self.spilled.take() {
            Some(spilled) => spilled,
            None => GroupSpill::new(self.operator, cx)?,
        };
        // What was counted is written as partial counts, which the merge of the partitions adds up.
        // Without an array from here on, which would take the same memory again at once.
        let full = std::mem::replace(&mut self.groups, Groups::new(0));
        full.spill(self.plan, &mut spilled, cx)?;
        cx.run.watch.release(std::mem::take(self.held));
        self.spilled = Some(spilled);
        Ok(())
    }
}

impl Groups {
    /// Writes the current groups to disk.
    fn spill(
        self,
        plan: &physical::Aggregate,
        spilled: &mut GroupSpill,
        cx: &mut Cx<'_>,
    ) -> Result<()> {
        let (nodes, counts) = self.range(0, self.len());
        let nodes = nodes.into_iter().map(node_value).zip(counts);
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

impl CountByNode {
    pub(super) fn new(op_ref: OperatorRef, input: Child) -> Self {
        Self {
            op_ref,
            input,
            result: NodeCounts::default(),
        }
    }
}

impl Operate for CountByNode {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        let Op::CountByNode(plan) = op_ref.op() else {
            return Err(misplaced(op_ref.op()));
        };
        if self.result.groups.is_none() {
            let input = &mut self.input;
            self.result
                .gather((op_ref.id, plan), cx, |gathering, key, cx| {
                    gathering.take_rows(key, input, cx)
                })?;
        }
        self.result.next(plan, &op_ref, cx)
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
        self.result.forget();
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
        self.result.restart(cx);
    }
}

impl CountByNeighbour {
    pub(super) fn new(
        op_ref: OperatorRef,
        plan: &physical::CountByNeighbour,
        argument: &Argument,
    ) -> Self {
        Self {
            input: LazyChild::new(&op_ref, plan.aggregate.input, argument),
            fallback: LazyChild::new(&op_ref, plan.fallback, argument),
            op_ref,
            strategy: Strategy::Undecided,
            result: NodeCounts::default(),
        }
    }

    /// Counts all ends, if the adjacency has views.
    fn count(&mut self, plan: &physical::CountByNeighbour, cx: &mut Cx<'_>) -> Result<Strategy> {
        let filter = cx.type_filter(&plan.step.types);
        let Some(walks) = cx.walks(&filter, plan.step.direction) else {
            cx.run.note_fallback(self.op_ref.id);
            return Ok(Strategy::Fallback);
        };
        cx.run.note_view(self.op_ref.id);
        let input = &mut self.input;
        self.result
            .gather((self.op_ref.id, &plan.aggregate), cx, |gathering, _, cx| {
                gathering.take_neighbours((plan.from, &walks), input, cx)
            })?;
        Ok(Strategy::Views)
    }
}

impl Operate for CountByNeighbour {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        let Op::CountByNeighbour(plan) = op_ref.op() else {
            return Err(misplaced(op_ref.op()));
        };
        if self.strategy == Strategy::Undecided {
            self.strategy = self.count(plan, cx)?;
        }
        match self.strategy {
            Strategy::Fallback => self.fallback.pull(cx),
            _ => self.result.next(&plan.aggregate, &op_ref, cx),
        }
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
        self.fallback.open(argument);
        // Decided again: since the last outer row, the transaction may have written, which the views do not show.
        self.strategy = Strategy::Undecided;
        self.result.forget();
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
        self.fallback.close(cx);
        self.strategy = Strategy::Undecided;
        self.result.restart(cx);
    }
}
