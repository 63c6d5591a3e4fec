//! Shortest walks between two bound nodes: bidirectional breadth-first search, expanding the smaller frontier first.

use std::sync::Arc;

use isomer_data::{GraphRead, Neighbours, RelRow};
use isomer_plan::physical::{self, Direction, Op, OpId};
use isomer_value::{Node, NodeId, Path, RelId, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    Argument, Child, Operate, OperatorRef,
    expand::end_of,
    input::RowInput,
    scan::misplaced,
    shortest_cycle::CycleSearch,
    varlength::{step_holds, too_long},
};
use crate::{
    chunk::Chunk,
    column::{Column, relationship, relationship_value},
    context::{Cx, TypeFilter},
    dense::{BidirectionalSearch, MAX_IDS, SearchOutcome, small},
    error::Result,
    eval::{Row, holds},
};

/// Shortest walks between two bound nodes.
pub(super) struct ShortestPath {
    op_ref: OperatorRef,
    input: RowInput,
}

/// A walk: the steps from its start.
pub(super) type Walk = Vec<(RelRow, NodeId)>;

/// Bytes of this number of walks of `steps` steps.
pub(super) fn walks_bytes(count: usize, steps: usize) -> usize {
    let one = steps * size_of::<(RelRow, NodeId)>() + size_of::<Walk>() + 16;
    count.saturating_mul(one)
}

impl ShortestPath {
    pub(super) fn new(op_ref: OperatorRef, input: Child) -> Self {
        Self {
            op_ref,
            input: RowInput::new(input),
        }
    }
}

impl Operate for ShortestPath {
    fn next(&mut self, cx: &mut Cx<'_>) -> Result<Option<Chunk>> {
        let op_ref = self.op_ref.clone();
        let Op::ShortestPath(plan) = op_ref.op() else {
            return Err(misplaced(op_ref.op()));
        };
        loop {
            if !self.input.advance(cx)? {
                return Ok(None);
            }
            let row = self.input.row()?;
            let node = |slot| {
                row.chunk
                    .column(slot)
                    .and_then(|column| column.node(row.row))
            };
            let (Some(from), Some(to)) = (node(plan.from), node(plan.to)) else {
                continue;
            };
            let filter = cx.type_filter(&plan.types);
            let search = Search {
                plan,
                filter,
                from,
                to,
                row,
                operator: op_ref.id,
            };
            let walks = match &plan.predicate {
                None => search.shortest(cx)?,
                Some(_) => search.by_length(cx)?,
            };
            if walks.is_empty() {
                continue;
            }
            let mut chunk = self.input.repeat(&op_ref, walks.len());
            // As walks and as values.
            let steps = walks.iter().map(Vec::len).max().unwrap_or(0);
            cx.run.watch.allow(walks_bytes(walks.len(), 3 * steps))?;
            if let Some(slot) = plan.path.filter(|slot| op_ref.is_live(*slot)) {
                chunk.set(
                    slot,
                    Column::Values(walks.iter().map(|walk| path_value(from, walk)).collect()),
                );
            }
            if let Some(slot) = plan.relationships.filter(|slot| op_ref.is_live(*slot)) {
                chunk.set(
                    slot,
                    Column::Values(walks.iter().map(|walk| list_value(walk)).collect()),
                );
            }
            return Ok(Some(chunk));
        }
    }

    fn open(&mut self, argument: &Argument) {
        self.input.open(argument);
    }

    fn close(&mut self, cx: &mut Cx<'_>) {
        self.input.close(cx);
    }
}

fn path_value(from: NodeId, walk: &[(RelRow, NodeId)]) -> Value {
    let node = |id| Node { id, content: None };
    Value::from(Path {
        nodes: std::iter::once(node(from))
            .chain(walk.iter().map(|(_, id)| node(*id)))
            .collect(),
        relationships: walk.iter().map(|(rel, _)| relationship(*rel)).collect(),
    })
}

fn list_value(walk: &[(RelRow, NodeId)]) -> Value {
    Value::List(Arc::new(
        walk.iter()
            .map(|(rel, _)| relationship_value(*rel))
            .collect(),
    ))
}

/// One search.
struct Search<'a> {
    plan: &'a physical::ShortestPath,
    filter: TypeFilter,
    from: NodeId,
    to: NodeId,
    row: Row<'a>,
    operator: OpId,
}

/// What the search has reached from one end: per node its distance and its predecessors.
struct Side {
    direction: Direction,
    reached: FxHashMap<NodeId, NodePaths>,
    frontier: Vec<NodeId>,
    depth: u64,
}

struct NodePaths {
    depth: u64,
    /// Relationships that lead here from the level before, with their origin. One, unless all walks are wanted.
    back: Vec<(RelRow, NodeId)>,
}

impl Side {
    fn new(start: NodeId, direction: Direction) -> Self {
        let reached = FxHashMap::from_iter([(
            start,
            NodePaths {
                depth: 0,
                back: Vec::new(),
            },
        )]);
        Self {
            direction,
            reached,
            frontier: vec![start],
            depth: 0,
        }
    }

    /// Expands one level; returns the nodes of the new level that the other side has reached.
    fn advance(
        &mut self,
        search: &Search<'_>,
        other: &Self,
        cx: &mut Cx<'_>,
    ) -> Result<Vec<NodeId>> {
        self.depth += 1;
        let Some(types) = search.filter.ids() else {
            // The type does not exist: the frontier has no neighbours.
            self.frontier.clear();
            return Ok(Vec::new());
        };
        let mut next = Vec::new();
        let mut met = Vec::new();
        let mut found = Neighbours::new();
        for piece in std::mem::take(&mut self.frontier).chunks(256) {
            found.clear();
            cx.reader()
                .expand(piece, self.direction, types, &mut found)?;
            cx.tick(found.rows().len() + piece.len())?;
            for (at, node) in piece.iter().enumerate() {
                for rel in found.of(at) {
                    let to = end_of(rel, *node, self.direction);
                    match self.reached.get_mut(&to) {
                        // Reached on this very level: another shortest walk to the same node.
                        Some(reached) if reached.depth == self.depth && search.plan.all => {
                            if step_holds(&search.plan.step_predicate, *rel, search.row, cx)? {
                                reached.back.push((*rel, *node));
                            }
                        }
                        // Reached earlier, by a shorter walk.
                        Some(_) => {}
                        None => {
                            if !step_holds(&search.plan.step_predicate, *rel, search.row, cx)? {
                                continue;
                            }
                            self.reached.insert(
                                to,
                                NodePaths {
                                    depth: self.depth,
                                    back: vec![(*rel, *node)],
                                },
                            );
                            next.push(to);
                            if other.reached.contains_key(&to) {
                                met.push(to);
                            }
                        }
                    }
                }
            }
            cx.run
                .watch
                .allow((self.reached.len() + other.reached.len()) * 96)?;
        }
        self.frontier = next;
        Ok(met)
    }

    /// All paths from `node` back to the origin of this side, as steps in walking order.
    fn ways_back(&self, node: NodeId, all: bool, cx: &mut Cx<'_>) -> Result<Vec<Walk>> {
        let mut done = Vec::new();
        // Steps so far, last first, and the node where they begin.
        let mut open: Vec<(Walk, NodeId)> = vec![(Vec::new(), node)];
        while let Some((walk, at)) = open.pop() {
            cx.tick(1)?;
            let back = self
                .reached
                .get(&at)
                .map_or(&[][..], |reached| &reached.back);
            let made = open.len() + done.len() + if all { back.len() } else { 1 };
            cx.run.watch.allow(walks_bytes(made, self.depth as usize))?;
            if back.is_empty() {
                done.push(walk.into_iter().rev().collect());
                if !all {
                    break;
                }
                continue;
            }
            for (rel, from) in back.iter().take(if all { usize::MAX } else { 1 }) {
                let mut longer = walk.clone();
                longer.push((*rel, at));
                open.push((longer, *from));
            }
        }
        Ok(done)
    }
}

impl Search<'_> {
    fn max(&self, cx: &Cx<'_>) -> u64 {
        self.plan.max.unwrap_or(cx.run.watch.limits().path_steps)
    }

    fn shortest(&self, cx: &mut Cx<'_>) -> Result<Vec<Walk>> {
        if self.from == self.to {
            return if self.plan.min == 0 {
                Ok(vec![Vec::new()])
            } else {
                self.shortest_cycle(cx)
            };
        }
        let max = self.max(cx);
        if let Some(walks) = self.over_views(max, cx)? {
            return Ok(walks);
        }
        let mut forward = Side::new(self.from, self.plan.direction);
        let mut backward = Side::new(self.to, self.plan.direction.reversed());
        while forward.depth + backward.depth < max {
            // Bidirectional search (Pohl 1971), the smaller frontier first: in a graph with fan-out b, b^(d/2) nodes
            // instead of b^d.
            let met = if forward.frontier.len() <= backward.frontier.len() {
                forward.advance(self, &backward, cx)?
            } else {
                backward.advance(self, &forward, cx)?
            };
            if !met.is_empty() {
                // The level is complete, so every shortest walk goes through one of these nodes.
                return self.join(&forward, &backward, &met, cx);
            }
            if forward.frontier.is_empty() || backward.frontier.is_empty() {
                return Ok(Vec::new());
            }
        }
        match self.plan.max {
            Some(_) => Ok(Vec::new()),
            None => Err(too_long(max)),
        }
    }

    /// The shortest walks from the read views, if they are available and no predicate reads relationships before the
    /// path is known.
    fn over_views(&self, max: u64, cx: &mut Cx<'_>) -> Result<Option<Vec<Walk>>> {
        let (Some(from), Some(to)) = (small(self.from), small(self.to)) else {
            return Ok(None);
        };
        // A predicate on each step reads relationships, which the adjacency does not have.
        if self.plan.step_predicate.is_some() || from.max(to) >= MAX_IDS {
            return Ok(None);
        }
        let direction = self.plan.direction;
        let (Some(forward), Some(backward)) = (
            cx.walks(&self.filter, direction),
            cx.walks(&self.filter, direction.reversed()),
        ) else {
            return Ok(None);
        };
        cx.run.note_view(self.operator);
        let mut search = BidirectionalSearch::new(&forward, &backward, from, to);
        let found = search.search(max, self.plan.all, &mut |looked_at, bytes| {
            cx.run.watch.allow(bytes)?;
            cx.tick(looked_at)
        })?;
        match found {
            SearchOutcome::TooLarge => return Ok(None),
            SearchOutcome::Nothing => return Ok(Some(Vec::new())),
            SearchOutcome::TooLong if self.plan.max.is_some() => return Ok(Some(Vec::new())),
            SearchOutcome::TooLong => return Err(too_long(max)),
            SearchOutcome::Walks(_) => {}
        }
        let nodes = search.walks(self.plan.all, &mut |bytes| {
            cx.run.watch.allow(bytes)?;
            cx.tick(1)
        })?;
        let mut walks = Vec::with_capacity(nodes.len());
        for nodes in &nodes {
            cx.tick(nodes.len())?;
            self.relationships_along(nodes, &mut walks, cx)?;
        }
        Ok(Some(walks))
    }

    /// Appends the walks along these nodes: one per combination of parallel relationships, or a single one.
    fn relationships_along(
        &self,
        nodes: &[u32],
        walks: &mut Vec<Walk>,
        cx: &mut Cx<'_>,
    ) -> Result<()> {
        let node = |at: &u32| NodeId(u64::from(*at));
        let pairs: Vec<(NodeId, NodeId)> = nodes
            .windows(2)
            .map(|pair| (node(&pair[0]), node(&pair[1])))
            .collect();
        let mut found = Neighbours::new();
        // The search was over nodes alone: now the relationships of the few walks found are read.
        cx.reader().expand_into(
            &pairs,
            self.plan.direction,
            self.filter.ids().unwrap_or_default(),
            &mut found,
        )?;
        let mut along: Vec<Walk> = vec![Vec::with_capacity(pairs.len())];
        for (step, (_, to)) in pairs.iter().enumerate() {
            let choices = found.of(step);
            let choices = &choices[..choices
                .len()
                .min(if self.plan.all { usize::MAX } else { 1 })];
            // Parallel relationships multiply the walks: the memory is reserved before they are created.
            let made = along.len().saturating_mul(choices.len());
            let all = made.saturating_add(walks.len() + along.len());
            cx.run.watch.allow(walks_bytes(all, pairs.len()))?;
            let mut longer = Vec::with_capacity(made);
            for walk in &along {
                cx.tick(1 + choices.len())?;
                for rel in choices {
                    let mut one = Vec::with_capacity(step + 1);
                    one.extend_from_slice(walk);
                    one.push((*rel, *to));
                    longer.push(one);
                }
            }
            along = longer;
        }
        walks.extend(along);
        Ok(())
    }

    /// The walks through the nodes where the two sides met. All of them are shortest: the sides meet on the level on
    /// which the first common node appears, and each node of a side has all its predecessors at its distance.
    fn join(
        &self,
        forward: &Side,
        backward: &Side,
        met: &[NodeId],
        cx: &mut Cx<'_>,
    ) -> Result<Vec<Walk>> {
        let depth_of = |side: &Side, node: NodeId| {
            side.reached
                .get(&node)
                .map_or(u64::MAX, |reached| reached.depth)
        };
        let length =
            |node: NodeId| depth_of(forward, node).saturating_add(depth_of(backward, node));
        let shortest = met.iter().map(|node| length(*node)).min().unwrap_or(0);
        let mut walks = Vec::new();
        for node in met.iter().filter(|node| length(**node) == shortest) {
            let heads = forward.ways_back(*node, self.plan.all, cx)?;
            let tails = backward.ways_back(*node, self.plan.all, cx)?;
            for head in &heads {
                for tail in &tails {
                    walks.push(joined(head, tail, *node));
                    let made = walks.len() + heads.len() + tails.len();
                    cx.run.watch.allow(walks_bytes(made, shortest as usize))?;
                    cx.tick(1)?;
                }
            }
            if !self.plan.all {
                break;
            }
        }
        Ok(walks)
    }

    /// The shortest walks from a node back to itself.
    fn shortest_cycle(&self, cx: &mut Cx<'_>) -> Result<Vec<Walk>> {
        if self.plan.min > 1 {
            return self.by_length(cx);
        }
        let max = self.max(cx);
        let cycle = CycleSearch {
            plan: self.plan,
            types: self.filter.ids(),
            start: self.from,
            row: self.row,
        };
        match cycle.shortest(max, cx)? {
            Some(walks) => Ok(walks),
            None if self.plan.max.is_some() => Ok(Vec::new()),
            None => Err(too_long(max)),
        }
    }

    /// Tries all walks in order of length and returns the first (or all of that length) for which the predicate holds.
    fn by_length(&self, cx: &mut Cx<'_>) -> Result<Vec<Walk>> {
        let max = self.max(cx);
        let mut level: Vec<Walk> = vec![Vec::new()];
        let mut length = 0_u64;
        let mut found = Vec::new();
        loop {
            if length >= self.plan.min {
                for walk in &level {
                    if self.end(walk) == self.to && self.fits(walk, cx)? {
                        found.push(walk.clone());
                        if !self.plan.all {
                            return Ok(found);
                        }
                    }
                }
                if !found.is_empty() {
                    return Ok(found);
                }
            }
            if level.is_empty() {
                return Ok(found);
            }
            if length == max {
                return match self.plan.max {
                    Some(_) => Ok(found),
                    None => Err(too_long(max)),
                };
            }
            length += 1;
            level = self.longer(level, length as usize, cx)?;
        }
    }

    fn end(&self, walk: &Walk) -> NodeId {
        walk.last().map_or(self.from, |(_, node)| *node)
    }

    /// The walks of `length` steps that extend those of one step less.
    fn longer(&self, level: Vec<Walk>, length: usize, cx: &mut Cx<'_>) -> Result<Vec<Walk>> {
        let mut next = Vec::new();
        let before = level.len();
        let Some(types) = self.filter.ids() else {
            return Ok(next);
        };
        let mut found = Neighbours::new();
        for walk in level {
            let end = self.end(&walk);
            let used: FxHashSet<RelId> = walk.iter().map(|(rel, _)| rel.id).collect();
            found.clear();
            cx.reader()
                .expand(&[end], self.plan.direction, types, &mut found)?;
            cx.tick(found.rows().len() + length)?;
            // All walks of one length are in memory: this search is exponential, and ends at the memory limit.
            let most = before + next.len() + found.rows().len();
            cx.run.watch.allow(walks_bytes(most, length))?;
            for rel in found.rows() {
                if !used.contains(&rel.id)
                    && step_holds(&self.plan.step_predicate, *rel, self.row, cx)?
                {
                    let mut longer = Vec::with_capacity(length);
                    longer.extend_from_slice(&walk);
                    longer.push((*rel, end_of(rel, end, self.plan.direction)));
                    next.push(longer);
                }
            }
        }
        Ok(next)
    }

    /// Whether the predicate on the whole walk holds.
    fn fits(&self, walk: &Walk, cx: &mut Cx<'_>) -> Result<bool> {
        let Some(predicate) = &self.plan.predicate else {
            return Ok(true);
        };
        let mut row = self.row.chunk.gather(&[self.row.row as u32]);
        if let Some(slot) = self.plan.path {
            row.set(slot, Column::Values(vec![path_value(self.from, walk)]));
        }
        if let Some(slot) = self.plan.relationships {
            row.set(slot, Column::Values(vec![list_value(walk)]));
        }
        holds(
            predicate,
            Row {
                chunk: &row,
                row: 0,
            },
            cx,
        )
    }
}

/// A walk to `middle`, continued along the steps of the other side in reverse.
pub(super) fn joined(head: &[(RelRow, NodeId)], tail: &[(RelRow, NodeId)], middle: NodeId) -> Walk {
    let mut walk = head.to_vec();
    // The other side's steps lead from the far end to `middle`: reversed, each one ends where it began.
    for (at, (rel, _)) in tail.iter().enumerate().rev() {
        let begin = if at == 0 {
            rel.other(tail[0].1)
        } else {
            tail[at - 1].1
        };
        walk.push((*rel, begin));
    }
    debug_assert!(head.last().is_none_or(|(_, node)| *node == middle));
    walk
}
