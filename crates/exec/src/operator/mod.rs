//! The operators of the physical plan, pulled chunk by chunk.
//!
//! The plan is shared and never changes; an execution builds a tree of states over it ([`Child`]), one per operator.
//! [`Child::pull`] gives the next chunk or none at the end; [`Child::open`] starts the tree again with another outer row,
//! so that the right side of an apply is built once and run many times.

mod aggregate;
mod apply;
mod blocking;
mod calls;
mod converge;
mod count;
mod count_paths;
mod csv;
mod delete;
mod distinct_ends;
mod exchange;
mod expand;
mod expand_into;
mod group_column;
mod group_keys;
mod group_nodes;
mod input;
mod join;
mod merge;
mod round;
mod row;
mod scan;
mod seek;
mod shortest;
mod source;
mod varlength;
mod walk;
mod write;

use std::{sync::Arc, time::Instant};

use isomer_plan::{
    Plan,
    expr::SlotId,
    physical::{self, Op, OpId},
};

pub(crate) use delete::settle;
pub(crate) use exchange::Morsels;
pub(crate) use scan::node_by_key;

use crate::{chunk::Chunk, context::Cx, error::Result};

/// Rows in the first chunk of a source: small, so that LIMIT and point queries stay cheap.
const FIRST_BATCH: usize = 64;
/// Rows in a chunk once many are wanted.
pub(crate) const FULL_BATCH: usize = 2048;

/// Rows per chunk, growing from one to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch(usize);

impl Default for Batch {
    fn default() -> Self {
        Self(FIRST_BATCH)
    }
}

impl Batch {
    /// How many rows the next chunk should have.
    pub(crate) fn next(&mut self) -> usize {
        let now = self.0;
        self.0 = (now * 2).min(FULL_BATCH);
        now
    }
}

/// The outer rows that a tree's leaves hand out: one row, or many where the tree treats each row by itself.
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
    /// Starts again, with these outer rows.
    fn open(&mut self, argument: &Argument);
    /// Gives back what it holds: nobody will ask for the rest.
    fn close(&mut self, cx: &mut Cx<'_>);
}

/// An operator in the tree of its execution.
pub(crate) struct Child {
    spot: Spot,
    state: Box<dyn Operate>,
}

/// Where in which plan an operator is.
#[derive(Clone)]
pub(crate) struct Spot {
    pub(crate) plan: Arc<Plan>,
    pub(crate) id: OpId,
}

impl Spot {
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

    /// Drops the columns that nobody reads above.
    pub(crate) fn prune(&self, chunk: &mut Chunk) {
        chunk.prune(|slot| self.is_live(slot));
    }
}

impl Child {
    /// The states of `id` and everything below, opened with `argument`.
    pub(crate) fn build(plan: &Arc<Plan>, id: OpId, argument: &Argument) -> Self {
        let spot = Spot {
            plan: plan.clone(),
            id,
        };
        let child = |id: OpId| Self::build(plan, id, argument);
        let below = |aggregate: &physical::Aggregate| match exchange::any_order(aggregate) {
            true => exchange::below_aggregation(plan, aggregate.input, argument),
            false => child(aggregate.input),
        };
        let state: Box<dyn Operate> = match spot.op() {
            Op::Argument => Box::new(source::ArgumentRows::new(argument)),
            Op::AllNodesScan { input, .. } | Op::LabelScan { input, .. } => {
                Box::new(scan::NodeScan::new(spot.clone(), child(*input)))
            }
            Op::NodeByKey { input, .. } | Op::NodeById { input, .. } => {
                Box::new(scan::NodeLookup::new(spot.clone(), child(*input)))
            }
            Op::IndexSeek(seek) => Box::new(seek::Seek::new(spot.clone(), child(seek.input))),
            Op::RelationshipScan(scan) => {
                Box::new(scan::RelationshipScan::new(spot.clone(), child(scan.input)))
            }
            Op::RelationshipById { input, .. } => {
                Box::new(scan::RelationshipLookup::new(spot.clone(), child(*input)))
            }
            Op::Expand(expand) if expand.distinct_ends => {
                Box::new(distinct_ends::DistinctEnds::new(spot.clone(), argument))
            }
            Op::Expand(expand) => Box::new(expand::Expand::new(spot.clone(), child(expand.input))),
            Op::ExpandInto(expand) => Box::new(expand_into::ExpandInto::new(
                spot.clone(),
                child(expand.input),
            )),
            Op::Degree(degree) => Box::new(expand::Degree::new(spot.clone(), child(degree.input))),
            Op::Count(count) => Box::new(count::Count::new(spot.clone(), child(count.input))),
            Op::RelationshipEnds(ends) => Box::new(expand::RelationshipEnds::new(
                spot.clone(),
                child(ends.input),
            )),
            Op::VarExpand(expand) => {
                Box::new(varlength::VarExpand::new(spot.clone(), child(expand.input)))
            }
            Op::ShortestPath(shortest) => Box::new(shortest::ShortestPath::new(
                spot.clone(),
                child(shortest.input),
            )),
            Op::PathSearch(search) => {
                Box::new(walk::PathSearch::new(spot.clone(), child(search.input)))
            }
            Op::Apply { input, right } => Box::new(apply::Apply::new(
                spot.clone(),
                child(*input),
                child(*right),
            )),
            Op::OptionalApply { input, right, .. } => Box::new(apply::OptionalApply::new(
                spot.clone(),
                child(*input),
                child(*right),
            )),
            Op::SemiApply { input, right, .. } => Box::new(apply::SemiApply::new(
                spot.clone(),
                child(*input),
                child(*right),
            )),
            Op::CountApply { input, right, .. } => Box::new(apply::CountApply::new(
                spot.clone(),
                child(*input),
                child(*right),
            )),
            Op::CartesianProduct { input, right } => Box::new(join::CartesianProduct::new(
                spot.clone(),
                child(*input),
                child(*right),
            )),
            Op::HashJoin { input, right, .. } => Box::new(join::HashJoin::new(
                spot.clone(),
                child(*input),
                child(*right),
            )),
            Op::Union { inputs } => Box::new(row::Union::new(
                spot.clone(),
                inputs.iter().map(|input| child(*input)).collect(),
            )),
            Op::Filter { input, .. } => Box::new(row::Filter::new(spot.clone(), child(*input))),
            Op::Project { input, .. } => Box::new(row::Project::new(spot.clone(), child(*input))),
            Op::Aggregate(aggregate) if group_nodes::fits(aggregate, plan) => {
                Box::new(group_nodes::GroupNodes::new(spot.clone(), argument))
            }
            Op::Aggregate(aggregate) if group_keys::fits(plan, aggregate) => Box::new(
                group_keys::GroupKeys::new(spot.clone(), aggregate.input, None, argument),
            ),
            Op::Aggregate(aggregate) if group_column::fits(plan, aggregate) => {
                let general = aggregate::Aggregate::new(spot.clone(), below(aggregate));
                Box::new(group_column::GroupColumn::new(
                    spot.clone(),
                    Box::new(general),
                ))
            }
            Op::Aggregate(aggregate) if count_paths::fits(plan, aggregate) => {
                let general = aggregate::Aggregate::new(spot.clone(), below(aggregate));
                Box::new(count_paths::CountPaths::new(
                    spot.clone(),
                    Box::new(general),
                ))
            }
            Op::Aggregate(aggregate) => {
                Box::new(aggregate::Aggregate::new(spot.clone(), below(aggregate)))
            }
            Op::Distinct { input, .. } => {
                let below = exchange::below_distinct(plan, id, *input, argument);
                Box::new(row::Distinct::new(spot.clone(), below))
            }
            Op::Sort { input, .. } => {
                let below = exchange::below_sort(plan, id, *input, argument);
                Box::new(blocking::Sort::new(spot.clone(), below))
            }
            Op::Top { input, .. } => {
                let below = group_keys::below_top(plan, id, argument);
                let below =
                    below.unwrap_or_else(|| exchange::below_sort(plan, id, *input, argument));
                Box::new(blocking::Sort::new(spot.clone(), below))
            }
            Op::Skip { input, .. } | Op::Limit { input, .. } => {
                Box::new(row::SkipLimit::new(spot.clone(), child(*input)))
            }
            Op::Unwind { input, .. } => Box::new(row::Unwind::new(spot.clone(), child(*input))),
            Op::ProcedureCall(call) => {
                Box::new(calls::ProcedureCall::new(spot.clone(), child(call.input)))
            }
            Op::LoadCsv { input, .. } => Box::new(csv::LoadCsv::new(spot.clone(), child(*input))),
            Op::Show { input, .. } => Box::new(calls::Show::new(spot.clone(), child(*input))),
            Op::Eager { input } => Box::new(blocking::Eager::new(spot.clone(), child(*input))),
            Op::Create { input, .. } => Box::new(write::Create::new(spot.clone(), child(*input))),
            Op::Merge(merge) => Box::new(merge::Merge::new(
                spot.clone(),
                child(merge.input),
                child(merge.matching),
            )),
            Op::Set { input, .. } => Box::new(write::Set::new(spot.clone(), child(*input))),
            Op::Delete { input, .. } => Box::new(delete::Delete::new(spot.clone(), child(*input))),
            Op::ForEach { input, body, .. } => Box::new(write::ForEach::new(
                spot.clone(),
                child(*input),
                child(*body),
            )),
            Op::ProduceResult { input, .. } => Box::new(row::ProduceResult::new(child(*input))),
        };
        Self { spot, state }
    }

    /// Which operator it is.
    pub(crate) fn id(&self) -> OpId {
        self.spot.id
    }

    /// The operator's place in its plan.
    pub(crate) fn spot(&self) -> &Spot {
        &self.spot
    }

    /// The next rows; none at the end. A chunk may be empty. Looks at the query's limits.
    pub(crate) fn pull(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        if cx.run.profile.is_none() {
            let chunk = self.state.next(cx)?;
            cx.tick(chunk.as_ref().map_or(1, |chunk| chunk.len() + 1))?;
            return Ok(chunk);
        }
        let before = (cx.run.watch.held_bytes(), cx.run.watch.spilled_bytes());
        let started = Instant::now();
        let chunk = self.state.next(cx)?;
        let time = started.elapsed();
        cx.tick(chunk.as_ref().map_or(1, |chunk| chunk.len() + 1))?;
        let after = (cx.run.watch.held_bytes(), cx.run.watch.spilled_bytes());
        if let Some(profile) = &mut cx.run.profile {
            let children = self.spot.op().children();
            let below = children
                .iter()
                .filter_map(|child| profile.get(child.index()));
            let (held, spilled) = below.fold((0, 0), |(held, spilled), child| {
                (
                    held + child.tree_held_bytes,
                    spilled + child.tree_spilled_bytes,
                )
            });
            if let Some(figures) = profile.get_mut(self.spot.id.index()) {
                figures.calls += 1;
                figures.time += time;
                figures.rows += chunk.as_ref().map_or(0, |chunk| chunk.row_count() as u64);
                figures.tree_held_bytes += after.0 as i64 - before.0 as i64;
                figures.tree_spilled_bytes += after.1 - before.1;
                // What it holds itself is what it and all below it took, without what those below took.
                let own = u64::try_from(figures.tree_held_bytes - held).unwrap_or(0);
                figures.memory_bytes = figures.memory_bytes.max(own);
                figures.spilled_bytes = figures.tree_spilled_bytes.saturating_sub(spilled);
            }
        }
        Ok(chunk)
    }

    /// As [`Child::pull`], with rows multiplied out and at least one row.
    pub(crate) fn pull_flat(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        while let Some(mut chunk) = self.pull(cx)? {
            chunk.flatten();
            if !chunk.is_empty() {
                return Ok(Some(chunk));
            }
        }
        Ok(None)
    }

    /// Starts again, with these outer rows.
    pub(crate) fn open(&mut self, argument: &Argument) {
        self.state.open(argument);
    }

    /// Gives back what the tree holds.
    pub(crate) fn close(&mut self, cx: &mut Cx<'_>) {
        self.state.close(cx);
    }
}
