//! Counts rows per key of a node: since each node has a different key, the nodes are the groups.
//!
//! The planner groups by the node before it reads keys. A column of `_key` holds one label's nodes, and no two of them
//! share a key: if it has a key for every node, no further grouping is needed. If only the first rows in the order of
//! the counts are wanted, the keys of all other groups are never read.

use std::collections::VecDeque;

use isomer_plan::physical::{self, Op};
use isomer_value::NodeId;
use isomer_views::ColumnAt;

use super::{
    Argument, Child, FULL_BATCH, Operate, OperatorRef,
    aggregate::Aggregate,
    scan::{misplaced, row_count},
};
use crate::{
    chunk::Chunk,
    column::Column,
    context::Cx,
    error::{ExecError, Result},
};

/// The property that holds a node's key.
const KEY: &str = "_key";

/// `count(*)` by `x._key` over rows grouped by `x`; its fallback runs if nodes may share keys.
pub(super) struct GroupByKey {
    op_ref: OperatorRef,
    /// The rows below: nodes and their counts. The fallback takes them over.
    input: Option<Child>,
    strategy: Strategy,
    held: usize,
}

enum Strategy {
    Undecided,
    Groups(Groups),
    Fallback(Child),
}

/// The groups that are wanted.
struct Groups {
    nodes: Vec<u32>,
    counts: Vec<i64>,
    keys: ColumnAt,
    at: usize,
}

/// Which groups are wanted; none if that is unknown. An invalid limit is reported by the operator above.
fn group_limit(first: &physical::FirstGroups, cx: &mut Cx<'_>) -> Option<GroupLimit> {
    Some(GroupLimit {
        count: usize::try_from(row_count(&first.limit, "LIMIT", cx).ok()?).ok()?,
        largest: first.largest,
    })
}

/// How many of the first groups are wanted, and whether these are the largest.
struct GroupLimit {
    count: usize,
    largest: bool,
}

impl GroupByKey {
    pub(super) fn new(op_ref: OperatorRef, input: Child) -> Self {
        Self {
            op_ref,
            input: Some(input),
            strategy: Strategy::Undecided,
            held: 0,
        }
    }

    fn decide(&mut self, plan: &physical::GroupByKey, cx: &mut Cx<'_>) -> Result<Strategy> {
        let Some(mut input) = self.input.take() else {
            return Err(ExecError::Internal("an operator lost its input".into()));
        };
        let mut taken = Vec::new();
        let groups = self.groups(plan, &mut input, &mut taken, cx)?;
        cx.run.watch.release(std::mem::take(&mut self.held));
        if let Some(groups) = groups {
            cx.run.note_view(self.op_ref.id);
            self.input = Some(input);
            return Ok(Strategy::Groups(groups));
        }
        cx.run.note_fallback(self.op_ref.id);
        let fallback = OperatorRef {
            plan: self.op_ref.plan.clone(),
            id: plan.fallback,
        };
        let replay = Child {
            op_ref: input.op_ref().clone(),
            state: Box::new(Replay {
                first: taken.into(),
                rest: input,
            }),
            is_counted: true,
        };
        Ok(Strategy::Fallback(Child::of(
            fallback.clone(),
            Box::new(Aggregate::new(fallback, replay)),
        )))
    }

    /// The groups, if a column has a key for each node. In any case, input that was consumed is in `taken`.
    fn groups(
        &mut self,
        plan: &physical::GroupByKey,
        input: &mut Child,
        taken: &mut Vec<Chunk>,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Groups>> {
        let Some(key) = cx.known_key(KEY) else {
            return Ok(None);
        };
        if !cx.reader().is_plain() || !cx.reader().has_column(key) {
            return Ok(None);
        }
        let (mut nodes, mut counts) = (Vec::new(), Vec::new());
        while let Some(mut chunk) = input.pull(cx)? {
            chunk.flatten();
            let bytes = 2 * chunk.bytes();
            let fits = cx.run.watch.try_hold(bytes);
            self.held += if fits { bytes } else { 0 };
            let columns = (chunk.column(plan.node), chunk.column(plan.count));
            let plain = match columns {
                (Some(Column::Nodes(some)), Some(Column::Ints(times))) if fits => {
                    // Numbers only: a group costs 12 bytes until its key is read.
                    counts.extend_from_slice(times);
                    extend_small(&mut nodes, some)
                }
                _ => false,
            };
            // Kept until it is certain that the column answers: the fallback reads these rows again.
            taken.push(chunk);
            if !plain {
                return Ok(None);
            }
        }
        cx.tick(nodes.len())?;
        let Some(keys) = cx.reader().column_of_all(key, &nodes) else {
            return Ok(None);
        };
        // Before the keys are read: most groups may be dropped here.
        if let Some(wanted) = plan.first.as_ref().and_then(|first| group_limit(first, cx)) {
            keep_first(&mut nodes, &mut counts, &wanted);
        }
        Ok(Some(Groups {
            nodes,
            counts,
            keys,
            at: 0,
        }))
    }
}

/// Appends ids in the views' representation; false if one is too large.
fn extend_small(nodes: &mut Vec<u32>, more: &[NodeId]) -> bool {
    let before = nodes.len();
    nodes.extend(more.iter().map_while(|node| u32::try_from(node.0).ok()));
    nodes.len() == before + more.len()
}

/// Keeps the groups that may be among the first ones in the order of their counts: those, and all that tie with the
/// last.
fn keep_first(nodes: &mut Vec<u32>, counts: &mut Vec<i64>, wanted: &GroupLimit) {
    let Some(last) = wanted.count.checked_sub(1) else {
        nodes.clear();
        counts.clear();
        return;
    };
    if last + 1 >= counts.len() {
        return;
    }
    let mut order = counts.clone();
    let (_, bound, _) = if wanted.largest {
        // Quickselect finds the count of the last wanted group in O(n); groups that tie with it stay, because the
        // sort above decides among them.
        order.select_nth_unstable_by(last, |a, b| b.cmp(a))
    } else {
        order.select_nth_unstable(last)
    };
    let bound = *bound;
    let kept = |count: i64| {
        if wanted.largest {
            count >= bound
        } else {
            count <= bound
        }
    };
    let mut of = counts.iter();
    nodes.retain(|_| of.next().is_some_and(|count| kept(*count)));
    counts.retain(|count| kept(*count));
}

impl Groups {
    fn next(&mut self, plan: &physical::Aggregate, op_ref: &OperatorRef) -> Option<Chunk> {
        let end = (self.at + FULL_BATCH).min(self.nodes.len());
        if self.at >= end {
            return None;
        }
        let nodes = &self.nodes[self.at..end];
        let counts = &self.counts[self.at..end];
        self.at = end;
        self.keys.fetch(nodes.iter().copied());
        let keys = nodes
            .iter()
            .map(|node| self.keys.value(*node).unwrap_or_default());
        let mut chunk = Chunk::new(nodes.len(), op_ref.plan.slots.len());
        for (slot, _) in &plan.keys {
            chunk.set(*slot, Column::Values(keys.clone().collect()));
        }
        for (slot, _) in &plan.aggregates {
            chunk.set(*slot, Column::Ints(counts.to_vec()));
        }
        op_ref.prune(&mut chunk);
        Some(chunk)
    }
}

impl Operate for GroupByKey {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        let Op::GroupByKey(plan) = op_ref.op() else {
            return Err(misplaced(op_ref.op()));
        };
        if let Strategy::Undecided = self.strategy {
            self.strategy = self.decide(plan, cx)?;
        }
        match &mut self.strategy {
            Strategy::Groups(groups) => Ok(groups.next(&plan.aggregate, &op_ref)),
            Strategy::Fallback(fallback) => fallback.pull(cx),
            Strategy::Undecided => Err(ExecError::Internal("an operator did not decide".into())),
        }
    }

    fn open(&mut self, argument: &Argument) {
        if let Some(input) = &mut self.input {
            input.open(argument);
            self.strategy = Strategy::Undecided;
        } else if let Strategy::Fallback(fallback) = &mut self.strategy {
            // The input was moved there, after the rows taken from it.
            fallback.open(argument);
        }
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        if let Some(input) = &mut self.input {
            input.close(cx);
        }
        if let Strategy::Fallback(fallback) = &mut self.strategy {
            fallback.close(cx);
        }
        cx.run.watch.release(std::mem::take(&mut self.held));
    }
}

/// First the rows that were taken, then the rest of the input.
struct Replay {
    first: VecDeque<Chunk>,
    rest: Child,
}

impl Operate for Replay {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        match self.first.pop_front() {
            Some(chunk) => Ok(Some(chunk)),
            None => self.rest.pull(cx),
        }
    }

    fn open(&mut self, argument: &Argument) {
        self.first.clear();
        self.rest.open(argument);
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.first.clear();
        self.rest.close(cx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_may_be_among_the_first_are_kept() {
        let counts = vec![3, 9, 1, 3, 7, 3, 1];
        let first = |count, largest| {
            let (mut nodes, mut kept) = ((0..7).collect(), counts.clone());
            keep_first(&mut nodes, &mut kept, &GroupLimit { count, largest });
            let same = nodes.iter().map(|node| counts[*node as usize]);
            assert!(same.eq(kept));
            nodes
        };
        assert_eq!(first(3, true), [0, 1, 3, 4, 5]);
        assert_eq!(first(2, true), [1, 4]);
        assert_eq!(first(1, false), [2, 6]);
        assert_eq!(first(0, true), Vec::<u32>::new());
        assert_eq!(first(7, true).len(), 7);
        assert_eq!(first(99, false).len(), 7);
    }
}
