//! Walks of several relationships, none used twice.
//!
//! Walks of one row are enumerated depth first, resumable between chunks: a stack holds, per step, the relationships
//! that are still to be tried. If only distinct ends are read and the bounds allow it, a breadth-first search visits
//! each node once instead.

use std::sync::Arc;

use isomer_data::{GraphRead, Neighbours, RelRow};
use isomer_plan::{
    expr::{BoundExpr, LocalId},
    physical::{self, Direction, Op, OpId},
};
use isomer_value::{NodeId, RelId, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    Argument, Batch, Child, FULL_BATCH, Operate, OperatorRef,
    expand::{Used, end_of},
    input::{RowInput, set_live},
    scan::misplaced,
};
use crate::{
    chunk::Chunk,
    column::{Column, relationship_value},
    context::{Cx, TypeFilter},
    dense::{Marks, WalkScratch, small, undirected},
    error::{ExecError, Result},
    eval::{Row, holds},
};

/// Walks from a bound node.
pub(super) struct VarExpand {
    op_ref: OperatorRef,
    input: RowInput,
    batch: Batch,
    walker: Option<Walker>,
}

/// The walks of one row.
struct Walker {
    operator: OpId,
    filter: TypeFilter,
    /// Relationships of the clause's other patterns, which walks must not use.
    barred: FxHashSet<RelId>,
    /// The required end of the walks, if it is bound.
    into: Option<NodeId>,
    start: NodeId,
    /// The current walk: relationships and the nodes that they lead to.
    walk: Vec<(RelRow, NodeId)>,
    used: FxHashSet<RelId>,
    /// Per step of the walk, plus one: the steps that are still to be tried, last first.
    open: Vec<Vec<(RelRow, NodeId)>>,
    /// The empty walk was not considered yet.
    fresh: bool,
    max: u64,
    /// Whether `max` is the execution's limit instead of the pattern's bound.
    limited: bool,
    /// Ends found by the breadth-first search, if walks are not enumerated.
    ends: Option<std::vec::IntoIter<NodeId>>,
}

impl VarExpand {
    pub(super) fn new(op_ref: OperatorRef, input: Child) -> Self {
        Self {
            op_ref,
            input: RowInput::new(input),
            batch: Batch::default(),
            walker: None,
        }
    }

    fn start(&self, plan: &physical::VarExpand, cx: &mut Cx<'_>) -> Result<Option<Walker>> {
        let row = self.input.row()?;
        let Some(start) = row
            .chunk
            .column(plan.from)
            .and_then(|column| column.node(row.row))
        else {
            return Ok(None);
        };
        let into = if plan.into {
            match row
                .chunk
                .column(plan.to)
                .and_then(|column| column.node(row.row))
            {
                Some(node) => Some(node),
                None => return Ok(None),
            }
        } else {
            None
        };
        let limit = cx.run.watch.limits().path_steps;
        let mut walker = Walker {
            operator: self.op_ref.id,
            filter: cx.type_filter(&plan.types),
            barred: Used::new(&plan.distinct_from, row.chunk)
                .ids(row.row)
                .into_iter()
                .collect(),
            into,
            start,
            walk: Vec::new(),
            used: FxHashSet::default(),
            open: Vec::new(),
            fresh: true,
            max: plan.max.unwrap_or(limit),
            limited: plan.max.is_none(),
            ends: None,
        };
        // With a longer minimum, a node may be an end only over a detour: then walks are enumerated.
        if plan.distinct_ends && plan.min <= 1 {
            let ends = walker.search(plan, row, cx)?;
            walker.ends = Some(ends.into_iter());
        }
        Ok(Some(walker))
    }
}

impl Operate for VarExpand {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        let Op::VarExpand(plan) = op_ref.op() else {
            return Err(misplaced(op_ref.op()));
        };
        let wants_rels = plan.relationships.filter(|slot| op_ref.is_live(*slot));
        let limit = self.batch.next();
        let (mut rows, mut ends, mut lists, mut bytes) =
            (Vec::new(), Vec::new(), Vec::new(), 0_usize);
        while ends.len() < limit {
            let Some(walker) = &mut self.walker else {
                // The rows found so far are positions in the current input chunk,
                // which `advance` would replace.
                if !ends.is_empty() && !self.input.has_more() {
                    break;
                }
                if !self.input.advance(cx)? {
                    return Ok(None);
                }
                self.walker = self.start(plan, cx)?;
                continue;
            };
            if let Some(found) = &mut walker.ends {
                // Already computed: emitted in chunks of the maximum size.
                let room = limit.max(FULL_BATCH) - ends.len();
                ends.extend(found.by_ref().take(room));
                rows.resize(ends.len(), self.input.position());
                if found.as_slice().is_empty() {
                    self.walker = None;
                }
                continue;
            }
            if !walker.advance(plan, self.input.row()?, cx)? {
                self.walker = None;
                continue;
            }
            rows.push(self.input.position());
            ends.push(walker.end());
            if wants_rels.is_some() {
                bytes += walker.walk.len() * 80;
                cx.run.watch.allow(bytes)?;
                lists.push(walker.relationships(plan.reversed));
            }
        }
        let mut chunk = self.input.gather(&op_ref, &rows);
        if !plan.into {
            set_live(&op_ref, &mut chunk, plan.to, Column::Nodes(ends));
        }
        if let Some(slot) = wants_rels {
            chunk.set(slot, Column::Values(lists));
        }
        Ok(Some(chunk))
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
        self.walker = None;
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
        self.walker = None;
    }
}

impl Walker {
    fn end(&self) -> NodeId {
        self.walk.last().map_or(self.start, |(_, node)| *node)
    }

    fn relationships(&self, reversed: bool) -> Value {
        let made = self.walk.iter().map(|(rel, _)| relationship_value(*rel));
        Value::List(Arc::new(if reversed {
            made.rev().collect()
        } else {
            made.collect()
        }))
    }

    fn accepts(&self, min: u64) -> bool {
        self.walk.len() as u64 >= min && self.into.is_none_or(|into| into == self.end())
    }

    /// Advances to the next matching walk; false at the end.
    fn advance(
        &mut self,
        plan: &physical::VarExpand,
        row: Row<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<bool> {
        if self.fresh {
            self.fresh = false;
            // Deepened before it is returned: the next call continues with its extensions.
            self.deepen(plan, row, cx)?;
            if self.accepts(plan.min) {
                return Ok(true);
            }
        }
        loop {
            cx.tick(1)?;
            let Some(level) = self.open.last_mut() else {
                return Ok(false);
            };
            match level.pop() {
                Some((rel, node)) => {
                    self.used.insert(rel.id);
                    self.walk.push((rel, node));
                    self.deepen(plan, row, cx)?;
                    if self.accepts(plan.min) {
                        return Ok(true);
                    }
                }
                None => {
                    // Backtracking. The relationship may be in other walks again; only within
                    // one walk it must not repeat.
                    self.open.pop();
                    if let Some((rel, _)) = self.walk.pop() {
                        self.used.remove(&rel.id);
                    }
                }
            }
        }
    }

    /// Opens the level after the last node of the walk.
    fn deepen(&mut self, plan: &physical::VarExpand, row: Row<'_>, cx: &mut Cx<'_>) -> Result<()> {
        let mut next = Vec::new();
        if (self.walk.len() as u64) < self.max {
            let mut found = Neighbours::new();
            let end = self.end();
            if let Some(types) = self.filter.ids() {
                cx.reader()
                    .expand(&[end], plan.direction, types, &mut found)?;
            }
            for rel in found.rows() {
                if !self.used.contains(&rel.id)
                    && !self.barred.contains(&rel.id)
                    && step_holds(&plan.step_predicate, *rel, row, cx)?
                {
                    next.push((*rel, end_of(rel, end, plan.direction)));
                }
            }
            // Popped from the end: walks come in the order in which their relationships were found.
            next.reverse();
        // The walk could go on, so an answer without longer walks would be incomplete: an error instead.
        } else if self.limited {
            return Err(too_long(self.max));
        }
        self.open.push(next);
        Ok(())
    }

    /// The distinct ends of walks, by a search that visits each node once. A shortest walk to a node never repeats a
    /// relationship, so the search finds every node within `max` steps; the start itself is reached again over the
    /// shortest cycle.
    fn search(
        &mut self,
        plan: &physical::VarExpand,
        row: Row<'_>,
        cx: &mut Cx<'_>,
    ) -> Result<Vec<NodeId>> {
        if let Some(ends) = self.search_views(plan, cx)? {
            return Ok(ends);
        }
        let mut reached = SearchState {
            closes_cycle: plan.min == 0,
            ..SearchState::default()
        };
        if plan.min == 0 {
            reached.ends.push(self.start);
        }
        let mut frontier = vec![self.start];
        let mut depth = 0;
        let mut found = Neighbours::new();
        let types = self.filter.ids();
        if types.is_none() {
            // The type does not exist, so no relationship has it.
            frontier.clear();
        }
        while !frontier.is_empty() && depth < self.max {
            depth += 1;
            for piece in frontier.chunks(256) {
                found.clear();
                cx.reader()
                    .expand(piece, plan.direction, types.unwrap_or_default(), &mut found)?;
                cx.tick(found.rows().len() + piece.len())?;
                for (at, node) in piece.iter().enumerate() {
                    // The first relationship of the walk to this node: a walk back over another one closes a cycle.
                    let branch = reached.visited.get(node).map(|(_, branch)| *branch);
                    for rel in found.of(at) {
                        if !self.barred.contains(&rel.id)
                            && step_holds(&plan.step_predicate, *rel, row, cx)?
                        {
                            let to = end_of(rel, *node, plan.direction);
                            self.reach(to, rel.id, branch, (depth, plan.direction), &mut reached);
                        }
                    }
                }
                cx.run.watch.allow(reached.visited.len() * 48)?;
            }
            frontier = std::mem::take(&mut reached.next);
        }
        if self.limited && !frontier.is_empty() {
            return Err(too_long(self.max));
        }
        let mut ends = reached.ends;
        if reached.closes_cycle && plan.min == 1 {
            ends.push(self.start);
        }
        if let Some(into) = self.into {
            ends.retain(|end| *end == into);
        }
        Ok(ends)
    }

    /// Reaches `to` over `rel`, at the end of a walk whose first relationship is `branch`, if that is not `rel` itself.
    fn reach(
        &self,
        to: NodeId,
        rel: RelId,
        branch: Option<RelId>,
        (depth, direction): (u64, Direction),
        reached: &mut SearchState,
    ) {
        // The branches are subtrees of the breadth-first tree that share only the start (Itai and
        // Rodeh, "Finding a minimum circuit in a graph", 1978). Walks in two branches have no
        // relationship in common, so together with one that connects them they are a cycle through the
        // start that repeats none. Within a branch such a cycle would use its first relationship twice.
        let is_first_step = branch.is_none();
        let branch = branch.unwrap_or(rel);
        if to == self.start {
            reached.closes_cycle |= direction != Direction::Both || is_first_step || branch != rel;
            return;
        }
        match reached.visited.get(&to) {
            None => {
                reached.visited.insert(to, (depth, branch));
                reached.next.push(to);
                reached.ends.push(to);
            }
            // Two branches that meet close a cycle through the start.
            Some((other_depth, other_branch)) => {
                reached.closes_cycle |= direction == Direction::Both
                    && *other_branch != branch
                    && depth + other_depth <= self.max;
            }
        }
    }
}

/// What a search has reached so far.
#[derive(Default)]
struct SearchState {
    /// The distance of each node, and the first relationship of the walk to it.
    visited: FxHashMap<NodeId, (u64, RelId)>,
    /// The nodes at the present distance.
    next: Vec<NodeId>,
    ends: Vec<NodeId>,
    /// Whether a walk leads back to the start.
    closes_cycle: bool,
}

impl Walker {
    /// Like [`Walker::search`], over the read views: if they are available and no relationship is excluded or tested.
    /// With a direction, any relationship that leads back to the start closes a cycle.
    fn search_views(
        &mut self,
        plan: &physical::VarExpand,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Vec<NodeId>>> {
        let Some(start) = small(self.start) else {
            return Ok(None);
        };
        // The adjacency has only the numbers of the neighbours: nothing to test a predicate on, or to
        // recognise an excluded relationship by.
        if plan.step_predicate.is_some() || !self.barred.is_empty() {
            return Ok(None);
        }
        let Some(walks) = cx.walks(&self.filter, plan.direction) else {
            return Ok(None);
        };
        cx.run.note_view(self.operator);
        if plan.direction == Direction::Both && plan.min > 0 {
            // Without a direction, finding a cycle that repeats no relationship needs the relationships themselves.
            let found = undirected(&walks, start, self.max, &mut |looked_at, bytes| {
                cx.run.watch.allow(bytes)?;
                cx.tick(looked_at)
            })?;
            if self.limited && found.more {
                return Err(too_long(self.max));
            }
            let ends = found.ends.into_iter().map(|end| NodeId(u64::from(end)));
            let wanted = ends.filter(|end| self.into.is_none_or(|into| into == *end));
            return Ok(Some(wanted.collect()));
        }
        let mut marks = Marks::take();
        let mut scratch = WalkScratch::default();
        let mut ends: Vec<NodeId> = Vec::new();
        if plan.min == 0 {
            marks.insert(start);
            ends.push(self.start);
        }
        let mut frontier = vec![start];
        let mut depth = 0;
        while !frontier.is_empty() && depth < self.max {
            depth += 1;
            let first = ends.len();
            for piece in frontier.chunks(256) {
                let mut looked_at = piece.len();
                for &node in piece {
                    let neighbours = walks.neighbours(node, &mut scratch);
                    looked_at += neighbours.len();
                    for &to in neighbours {
                        // A bit per node instead of a hash table: the frontier of a few steps may
                        // be a large part of the graph.
                        if marks.insert(to) {
                            ends.push(NodeId(u64::from(to)));
                        }
                    }
                }
                cx.tick(looked_at)?;
                cx.run.watch.allow(ends.len() * 12 + marks.bytes())?;
            }
            frontier.clear();
            // No walk goes beyond the last step. If that bound is the execution's limit, the error depends on whether
            // one could.
            if depth < self.max || self.limited {
                // The start was already expanded.
                let found = ends[first..].iter().map(|end| end.0 as u32);
                frontier.extend(found.filter(|end| *end != start));
            }
        }
        if self.limited && !frontier.is_empty() {
            return Err(too_long(self.max));
        }
        if let Some(into) = self.into {
            ends.retain(|end| *end == into);
        }
        Ok(Some(ends))
    }
}

/// Whether a step's predicate holds for a relationship.
pub(super) fn step_holds(
    predicate: &Option<(LocalId, BoundExpr)>,
    rel: RelRow,
    row: Row<'_>,
    cx: &mut Cx<'_>,
) -> Result<bool> {
    match predicate {
        None => Ok(true),
        Some((local, predicate)) => {
            cx.set_local(*local, relationship_value(rel));
            holds(predicate, row, cx)
        }
    }
}

pub(super) fn too_long(max: u64) -> ExecError {
    ExecError::limit(
        format!("{max} steps of a path without an upper bound"),
        "give the pattern an upper bound, as in *1..5, or raise the limit",
    )
}
