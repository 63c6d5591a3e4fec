//! Shortest cycles through a node, breadth first: each relationship is examined once from each of its ends.

use isomer_data::{GraphRead, Neighbours, RelRow};
use isomer_plan::physical::{self, Direction};
use isomer_value::{NodeId, RelId, TypeId};
use rustc_hash::FxHashMap;

use super::{
    expand::end_of,
    shortest::{Walk, joined, walks_bytes},
    varlength::step_holds,
};
use crate::{context::Cx, error::Result, eval::Row};

/// Nodes per expansion.
const PIECE: usize = 256;

/// Searches the shortest walks of one step or more that lead back to `start` and use no relationship twice.
///
/// With a direction, the first level that leads back closes the cycles. Without one, a walk must not return over the
/// relationships that it left by: a cycle closes where two branches meet that began with different relationships, on
/// the middle node of an even number of steps or over the middle relationship of an odd number. Every node of a
/// shortest cycle is reached by a shortest path, because a shorter path would close a shorter cycle. Before the first
/// cycle closes, all paths to a node begin with the same relationship, so keeping one of them is enough.
pub(super) struct CycleSearch<'a> {
    pub(super) plan: &'a physical::ShortestPath,
    /// None if the type does not exist.
    pub(super) types: Option<&'a [TypeId]>,
    pub(super) start: NodeId,
    pub(super) row: Row<'a>,
}

/// How a node was reached.
struct NodePaths {
    depth: u64,
    /// The first relationship of the paths to it.
    branch: RelId,
    /// Predecessors on the level before. One, unless all walks are wanted or the branches differ.
    back: Vec<(RelRow, NodeId)>,
}

type Level = FxHashMap<NodeId, NodePaths>;

/// A closed cycle: the path to `before`, the step to `to`, and the path back from `after`. Without a direction and on a
/// middle node, the return path includes the closing step.
struct Closing {
    before: NodeId,
    step: (RelRow, NodeId),
    after: Option<NodeId>,
}

/// The cycles that one level closes.
#[derive(Default)]
struct Closed {
    /// Walks of `2 * depth + 1` steps, or along a direction of `depth + 1`.
    over: Vec<Closing>,
    /// Middle nodes of walks of `2 * depth + 2` steps.
    at: Vec<NodeId>,
}

impl CycleSearch<'_> {
    /// The shortest walks of at most `max` steps; one unless all are wanted. None if only longer walks may exist.
    pub(super) fn shortest(&self, max: u64, cx: &mut Cx<'_>) -> Result<Option<Vec<Walk>>> {
        let Some(types) = self.types else {
            return Ok(Some(Vec::new()));
        };
        let mut reached = Level::default();
        let start = NodePaths {
            depth: 0,
            branch: RelId(u64::MAX),
            back: Vec::new(),
        };
        reached.insert(self.start, start);
        let (mut frontier, mut depth) = (vec![self.start], 0_u64);
        let mut steps_kept = 0;
        while !frontier.is_empty() {
            // The minimum length of a walk that is closed on this level.
            let both = self.plan.direction == Direction::Both;
            let steps = if both { 2 * depth + 1 } else { depth + 1 };
            if steps > max {
                return Ok(None);
            }
            let closed = self.advance(
                types,
                &mut frontier,
                depth,
                &mut reached,
                &mut steps_kept,
                cx,
            )?;
            if !closed.over.is_empty() {
                return self.over(&closed.over, depth, &reached, cx).map(Some);
            }
            if !closed.at.is_empty() {
                return if steps < max {
                    self.at(&closed.at, &reached, cx).map(Some)
                } else {
                    Ok(None)
                };
            }
            depth += 1;
        }
        Ok(Some(Vec::new()))
    }

    /// Expands the relationships of a level; afterwards `frontier` is the next level.
    fn advance(
        &self,
        types: &[TypeId],
        frontier: &mut Vec<NodeId>,
        depth: u64,
        reached: &mut Level,
        steps_kept: &mut usize,
        cx: &mut Cx<'_>,
    ) -> Result<Closed> {
        let mut next = Vec::new();
        let mut closed = Closed::default();
        let mut found = Neighbours::new();
        let direction = self.plan.direction;
        for piece in std::mem::take(frontier).chunks(PIECE) {
            found.clear();
            cx.reader().expand(piece, direction, types, &mut found)?;
            cx.tick(found.rows().len() + piece.len())?;
            for (at, node) in piece.iter().enumerate() {
                for rel in found.of(at) {
                    if !step_holds(&self.plan.step_predicate, *rel, self.row, cx)? {
                        continue;
                    }
                    *steps_kept += 1;
                    self.visit_relationship(*node, *rel, depth, reached, &mut next, &mut closed);
                }
            }
            let steps = size_of::<(RelRow, NodeId)>() * (*steps_kept + closed.over.len());
            cx.run.watch.allow(reached.len() * 96 + steps)?;
        }
        *frontier = next;
        Ok(closed)
    }

    /// Records where a relationship of a node on level `depth` leads.
    fn visit_relationship(
        &self,
        node: NodeId,
        rel: RelRow,
        depth: u64,
        reached: &mut Level,
        next: &mut Vec<NodeId>,
        closed: &mut Closed,
    ) {
        let both = self.plan.direction == Direction::Both;
        let to = end_of(&rel, node, self.plan.direction);
        let branch = match depth {
            0 => rel.id,
            _ => reached.get(&node).map_or(rel.id, |reached| reached.branch),
        };
        let over = |after| Closing {
            before: node,
            step: (rel, to),
            after,
        };
        if to == self.start {
            // Without a direction it was followed from the start to this node, unless it is a self loop.
            if !both || node == to {
                closed.over.push(over(None));
            }
            return;
        }
        let Some(known) = reached.get_mut(&to) else {
            let first = NodePaths {
                depth: depth + 1,
                branch,
                back: vec![(rel, node)],
            };
            reached.insert(to, first);
            next.push(to);
            return;
        };
        if known.depth == depth + 1 {
            // A second path of the same length: if it began with another relationship, the two close a cycle of 2 *
            // depth + 2 steps.
            let differs = both && known.branch != branch;
            if differs && closed.at.last() != Some(&to) {
                closed.at.push(to);
            }
            if differs || self.plan.all {
                known.back.push((rel, node));
            }
        } else if known.depth == depth && both && known.branch != branch {
            // A relationship within the level joins two branches: a cycle of 2 * depth + 1 steps.
            closed.over.push(over(Some(to)));
        }
    }

    /// The walks over a middle relationship, or along a direction.
    fn over(
        &self,
        closed: &[Closing],
        depth: u64,
        reached: &Level,
        cx: &mut Cx<'_>,
    ) -> Result<Vec<Walk>> {
        let mut walks = Vec::new();
        for Closing {
            before,
            step,
            after,
        } in closed
        {
            let tails = match after {
                Some(after) => self.ways(*after, reached, cx)?,
                None => vec![Walk::new()],
            };
            for mut head in self.ways(*before, reached, cx)? {
                head.push(*step);
                self.join(&head, &tails, 2 * depth as usize + 1, &mut walks, cx)?;
            }
            if !self.plan.all {
                break;
            }
        }
        if !self.plan.all {
            walks.truncate(1);
        }
        Ok(walks)
    }

    /// The walks through middle nodes: out by one branch, back by another.
    fn at(&self, closed: &[NodeId], reached: &Level, cx: &mut Cx<'_>) -> Result<Vec<Walk>> {
        let mut walks = Vec::new();
        let mut middles = closed.to_vec();
        middles.sort_unstable();
        middles.dedup();
        for middle in middles {
            let Some(known) = reached.get(&middle) else {
                continue;
            };
            let branch = |(rel, from): &(RelRow, NodeId)| {
                if *from == self.start {
                    rel.id
                } else {
                    reached.get(from).map_or(rel.id, |reached| reached.branch)
                }
            };
            // The paths of each branch.
            let mut branches: Vec<(RelId, Vec<Walk>)> = Vec::new();
            let mut count = 0;
            for step in &known.back {
                let mut ways = self.ways(step.1, reached, cx)?;
                ways.iter_mut().for_each(|way| way.push((step.0, middle)));
                count += ways.len();
                cx.run
                    .watch
                    .allow(walks_bytes(count, known.depth as usize + 1))?;
                let branch = branch(step);
                match branches.iter_mut().find(|(known, _)| *known == branch) {
                    Some((_, known)) => known.append(&mut ways),
                    None => branches.push((branch, ways)),
                }
            }
            for (out, heads) in &branches {
                for (_, tails) in branches.iter().filter(|(back, _)| back != out) {
                    for head in heads {
                        self.join(head, tails, 2 * known.depth as usize, &mut walks, cx)?;
                        if !self.plan.all {
                            walks.truncate(1);
                            return Ok(walks);
                        }
                    }
                }
            }
        }
        Ok(walks)
    }

    /// Adds `head` combined with each of `tails`, which also begin at the start and are walked backwards.
    fn join(
        &self,
        head: &Walk,
        tails: &[Walk],
        steps: usize,
        walks: &mut Vec<Walk>,
        cx: &mut Cx<'_>,
    ) -> Result<()> {
        let middle = head.last().map_or(self.start, |(_, node)| *node);
        let count = if self.plan.all { tails.len() } else { 1 };
        cx.tick(1 + count)?;
        let all = walks.len() + 2 * count;
        cx.run.watch.allow(walks_bytes(all, steps))?;
        let tails = tails.iter().take(count);
        walks.extend(tails.map(|tail| joined(head, tail, middle)));
        Ok(())
    }

    /// The shortest paths from the start to a node; one unless all walks are wanted.
    fn ways(&self, node: NodeId, reached: &Level, cx: &mut Cx<'_>) -> Result<Vec<Walk>> {
        let depth = reached.get(&node).map_or(0, |reached| reached.depth) as usize;
        let mut done = Vec::new();
        // Steps so far, last first, and the node where they begin.
        let mut open: Vec<(Walk, NodeId)> = vec![(Vec::new(), node)];
        while let Some((mut walk, at)) = open.pop() {
            let back = reached.get(&at).map_or(&[][..], |reached| &reached.back);
            cx.tick(1 + back.len())?;
            if back.is_empty() {
                walk.reverse();
                done.push(walk);
                if !self.plan.all {
                    break;
                }
                continue;
            }
            let back = &back[..if self.plan.all { back.len() } else { 1 }];
            let made = open.len() + done.len() + back.len();
            cx.run.watch.allow(walks_bytes(made, depth))?;
            for (rel, from) in back {
                let mut longer = Vec::with_capacity(depth);
                longer.extend_from_slice(&walk);
                longer.push((*rel, at));
                open.push((longer, *from));
            }
        }
        Ok(done)
    }
}
