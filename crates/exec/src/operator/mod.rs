//! The operators of the physical plan, pulled chunk by chunk.
//!
//! The plan is shared and immutable; an execution builds a tree of states over it ([`Child`]): one for each operator,
//! of the type that the operator names. An operator that cannot run passes on the rows of its fallback in the plan.
//! [`Child::pull`] returns the next chunk, or none at the end; [`Child::open`] restarts the tree with other outer rows,
//! so that the right side of an apply is built once and run many times.

mod aggregate;
mod apply;
mod blocking;
mod calls;
mod converge;
mod count;
mod count_by_column;
mod count_by_node;
mod count_paths;
mod csv;
mod delete;
mod distinct_ends;
mod exchange;
mod expand;
mod expand_into;
mod fallback;
mod group_by_key;
mod input;
mod join;
mod merge;
mod pieces;
mod round;
mod row;
mod scan;
mod seek;
mod shortest;
mod source;
mod varlength;
mod walk;
mod write;

use std::sync::Arc;

use isomer_plan::{
    Plan,
    expr::SlotId,
    physical::{Op, OpId},
};

pub(crate) use delete::check_owed_relationships;
pub(crate) use exchange::Morsels;
pub(crate) use pieces::Pieces;
pub(crate) use scan::node_by_key;

use crate::{chunk::Chunk, context::Cx, error::Result, profiler::Call};

/// Rows in the first chunk of a source: small, so that LIMIT and point queries stay cheap.
const FIRST_BATCH: usize = 64;
/// Rows in a chunk at full size.
pub(crate) const FULL_BATCH: usize = 2048;

/// Rows per chunk, growing from one chunk to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch(usize);

impl Default for Batch {
    fn default() -> Self {
        Self(FIRST_BATCH)
    }
}

impl Batch {
    /// Target size of the next chunk.
    pub(crate) fn next(&mut self) -> usize {
        let now = self.0;
        self.0 = (now * 2).min(FULL_BATCH);
        now
    }
}

/// The outer rows that a tree's leaves return: one row, or many if the tree treats each row independently.
#[derive(Clone)]
pub(crate) struct Argument(Arc<Chunk>);

impl Argument {
    /// One row without slots.
    pub(crate) fn root() -> Self {
        Self(Arc::new(Chunk::new(1, 0)))
    }

    /// These rows.
    pub(crate) fn new(rows: Chunk) -> Self {
        Self(Arc::new(rows))
    }

    pub(crate) fn chunk(&self) -> &Chunk {
        &self.0
    }
}

/// The state of one operator.
pub(crate) trait Operate: Send {
    /// The next rows; none at the end. A chunk may be empty.
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>>;
    /// Restarts with these outer rows.
    fn open(&mut self, argument: &Argument);
    /// Releases its memory: no more rows will be pulled.
    fn close(&mut self, cx: &mut Cx<'_>);
}

/// An operator in the tree of its execution.
pub(crate) struct Child {
    op_ref: OperatorRef,
    state: Box<dyn Operate>,
    /// Whether its rows were counted for `PROFILE` before, and its calls are part of the reader's.
    is_counted: bool,
}

/// An operator's position in its plan.
#[derive(Clone)]
pub(crate) struct OperatorRef {
    pub(crate) plan: Arc<Plan>,
    pub(crate) id: OpId,
}

impl OperatorRef {
    /// The operator.
    pub(crate) fn op(&self) -> &Op {
        &self.plan.operator(self.id).op
    }

    /// The slots that are read above.
    pub(crate) fn live(&self) -> &[SlotId] {
        &self.plan.operator(self.id).live
    }

    /// Whether `slot` is read above. Slots past the plan's own carry the executor's bookkeeping and always are.
    pub(crate) fn is_live(&self, slot: SlotId) -> bool {
        slot.index() >= self.plan.slots.len() || self.live().binary_search(&slot).is_ok()
    }

    /// Drops the columns that no operator above reads.
    pub(crate) fn prune(&self, chunk: &mut Chunk) {
        chunk.prune(|slot| self.is_live(slot));
    }
}

impl Child {
    /// The state of an operator.
    fn of(op_ref: OperatorRef, state: Box<dyn Operate>) -> Self {
        Self {
            op_ref,
            state,
            is_counted: false,
        }
    }

    /// The states of `id` and everything below, opened with `argument`.
    pub(crate) fn build(plan: &Arc<Plan>, id: OpId, argument: &Argument) -> Self {
        let op_ref = OperatorRef {
            plan: plan.clone(),
            id,
        };
        let child = |id: OpId| Self::build(plan, id, argument);
        let state: Box<dyn Operate> = match op_ref.op() {
            Op::Argument => Box::new(source::ArgumentRows::new(argument)),
            Op::AllNodesScan { input, .. } | Op::LabelScan { input, .. } => {
                Box::new(scan::NodeScan::new(op_ref.clone(), child(*input)))
            }
            Op::NodeByKey { input, .. } | Op::NodeById { input, .. } => {
                Box::new(scan::NodeLookup::new(op_ref.clone(), child(*input)))
            }
            Op::IndexSeek(seek) => Box::new(seek::Seek::new(op_ref.clone(), child(seek.input))),
            Op::RelationshipScan(scan) => Box::new(scan::RelationshipScan::new(
                op_ref.clone(),
                child(scan.input),
            )),
            Op::RelationshipById { input, .. } => {
                Box::new(scan::RelationshipLookup::new(op_ref.clone(), child(*input)))
            }
            Op::Expand(expand) => {
                Box::new(expand::Expand::new(op_ref.clone(), child(expand.input)))
            }
            Op::DistinctEnds(ends) => Box::new(distinct_ends::DistinctEnds::new(
                op_ref.clone(),
                ends,
                argument,
            )),
            Op::ExpandInto(expand) => Box::new(expand_into::ExpandInto::new(
                op_ref.clone(),
                child(expand.input),
            )),
            Op::Degree(degree) => {
                Box::new(expand::Degree::new(op_ref.clone(), child(degree.input)))
            }
            Op::Count(count) => Box::new(count::Count::new(op_ref.clone(), child(count.input))),
            Op::RelationshipEnds(ends) => Box::new(expand::RelationshipEnds::new(
                op_ref.clone(),
                child(ends.input),
            )),
            Op::VarExpand(expand) => Box::new(varlength::VarExpand::new(
                op_ref.clone(),
                child(expand.input),
            )),
            Op::ShortestPath(shortest) => Box::new(shortest::ShortestPath::new(
                op_ref.clone(),
                child(shortest.input),
            )),
            Op::PathSearch(search) => {
                Box::new(walk::PathSearch::new(op_ref.clone(), child(search.input)))
            }
            Op::Apply { input, right } => Box::new(apply::Apply::new(
                op_ref.clone(),
                child(*input),
                child(*right),
            )),
            Op::OptionalApply { input, right, .. } => Box::new(apply::OptionalApply::new(
                op_ref.clone(),
                child(*input),
                child(*right),
            )),
            Op::SemiApply { input, right, .. } => Box::new(apply::SemiApply::new(
                op_ref.clone(),
                child(*input),
                child(*right),
            )),
            Op::CountApply { input, right, .. } => Box::new(apply::CountApply::new(
                op_ref.clone(),
                child(*input),
                child(*right),
            )),
            Op::CartesianProduct { input, right } => Box::new(join::CartesianProduct::new(
                op_ref.clone(),
                child(*input),
                child(*right),
            )),
            Op::HashJoin { input, right, .. } => Box::new(join::HashJoin::new(
                op_ref.clone(),
                child(*input),
                child(*right),
            )),
            Op::Union { inputs } => Box::new(row::Union::new(
                op_ref.clone(),
                inputs.iter().map(|input| child(*input)).collect(),
            )),
            Op::Filter { input, .. } => Box::new(row::Filter::new(op_ref.clone(), child(*input))),
            Op::Project { input, .. } => Box::new(row::Project::new(op_ref.clone(), child(*input))),
            Op::Aggregate(aggregate) => Box::new(aggregate::Aggregate::new(
                op_ref.clone(),
                child(aggregate.input),
            )),
            Op::CountByNode(aggregate) => Box::new(count_by_node::CountByNode::new(
                op_ref.clone(),
                child(aggregate.input),
            )),
            Op::CountByNeighbour(count) => Box::new(count_by_node::CountByNeighbour::new(
                op_ref.clone(),
                count,
                argument,
            )),
            Op::GroupByKey(group) => Box::new(group_by_key::GroupByKey::new(
                op_ref.clone(),
                child(group.aggregate.input),
            )),
            Op::CountByColumn(count) => Box::new(count_by_column::CountByColumn::new(
                op_ref.clone(),
                count,
                argument,
            )),
            Op::CountPaths(count) => Box::new(count_paths::CountPaths::new(
                op_ref.clone(),
                count,
                argument,
            )),
            Op::Exchange(exchange) => Box::new(exchange::Exchange::new(
                op_ref.clone(),
                exchange.scan,
                child(exchange.input),
                argument,
            )),
            Op::Distinct { input, .. } => {
                Box::new(row::Distinct::new(op_ref.clone(), child(*input)))
            }
            Op::Sort { input, .. } | Op::Top { input, .. } => {
                Box::new(blocking::Sort::new(op_ref.clone(), child(*input)))
            }
            Op::Skip { input, .. } | Op::Limit { input, .. } => {
                Box::new(row::SkipLimit::new(op_ref.clone(), child(*input)))
            }
            Op::Unwind { input, .. } => Box::new(row::Unwind::new(op_ref.clone(), child(*input))),
            Op::ProcedureCall(call) => {
                Box::new(calls::ProcedureCall::new(op_ref.clone(), child(call.input)))
            }
            Op::LoadCsv { input, .. } => Box::new(csv::LoadCsv::new(op_ref.clone(), child(*input))),
            Op::Show { input, .. } => Box::new(calls::Show::new(op_ref.clone(), child(*input))),
            Op::Eager { input } => Box::new(blocking::Eager::new(op_ref.clone(), child(*input))),
            Op::Create { input, .. } => Box::new(write::Create::new(op_ref.clone(), child(*input))),
            Op::Merge(merge) => Box::new(merge::Merge::new(
                op_ref.clone(),
                child(merge.input),
                child(merge.matching),
            )),
            Op::Set { input, .. } => Box::new(write::Set::new(op_ref.clone(), child(*input))),
            Op::Delete { input, .. } => {
                Box::new(delete::Delete::new(op_ref.clone(), child(*input)))
            }
            Op::ForEach { input, body, .. } => Box::new(write::ForEach::new(
                op_ref.clone(),
                child(*input),
                child(*body),
            )),
            Op::ProduceResult { input, .. } => Box::new(row::ProduceResult::new(child(*input))),
        };
        Self::of(op_ref, state)
    }

    /// Which operator it is.
    pub(crate) fn id(&self) -> OpId {
        self.op_ref.id
    }

    /// The operator's position in its plan.
    pub(crate) fn op_ref(&self) -> &OperatorRef {
        &self.op_ref
    }

    /// The next rows; none at the end. A chunk may be empty. Checks the query's limits.
    pub(crate) fn pull(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let call = self.begin_call(cx);
        let outcome = self.state.next(cx);
        if let (Some(call), Some(profiler)) = (call, &mut cx.run.profiler) {
            profiler.end(self.op_ref.id, call, &cx.run.watch);
            let profile = profiler.operator(self.op_ref.id);
            profile.calls += 1;
            if let Ok(Some(chunk)) = &outcome {
                profile.rows += chunk.row_count() as u64;
            }
        }
        let chunk = outcome?;
        cx.tick(chunk.as_ref().map_or(1, |chunk| chunk.len() + 1))?;
        Ok(chunk)
    }

    /// Begins to measure a call for `PROFILE`.
    fn begin_call(&self, cx: &mut Cx<'_>) -> Option<Call> {
        if self.is_counted {
            return None;
        }
        let profiler = cx.run.profiler.as_mut()?;
        Some(profiler.begin(&cx.run.watch))
    }

    /// Like [`Child::pull`], with rows multiplied out and at least one row.
    pub(crate) fn pull_flat(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        while let Some(mut chunk) = self.pull(cx)? {
            chunk.flatten();
            if !chunk.is_empty() {
                return Ok(Some(chunk));
            }
        }
        Ok(None)
    }

    /// Restarts with these outer rows.
    pub(crate) fn open(&mut self, argument: &Argument) {
        self.state.open(argument);
    }

    /// Releases the memory of the tree.
    pub(crate) fn close(&mut self, cx: &mut Cx<'_>) {
        let call = self.begin_call(cx);
        self.state.close(cx);
        if let (Some(call), Some(profiler)) = (call, &mut cx.run.profiler) {
            profiler.end(self.op_ref.id, call, &cx.run.watch);
        }
    }
}
