//! Shortest walks from a node back to itself, breadth first: each relationship is looked at once from each of its ends.

use isomer_data::{GraphRead, Neighbours, RelRow};
use isomer_plan::physical::{self, Direction};
use isomer_value::{NodeId, RelId, TypeId};
use rustc_hash::FxHashMap;

use super::{
    expand::end_of,
    shortest::{Walk, joined, walks_bytes},
    varlength::step_holds,
};
use crate::{
    context::{Cx, data_direction},
    error::Result,
    eval::Row,
};

/// Nodes that are expanded at once.
const PIECE: usize = 256;

/// A search for the shortest walks of one step and more that lead back to `start` and use no relationship twice.
///
/// Along a direction, the first level that leads back closes them. Without one, a walk back must not use the relationships
/// that it went out by: it closes where two ways meet that began with different relationships, on the middle node of an
/// even number of steps or over the middle relationship of an odd one. Every node of a shortest round is reached by a
/// shortest way, as a shorter one would close a shorter round; and before the first round closes, all ways to a node begin
/// with the same relationship, so that one of them stands for all.
pub(super) struct Round<'a> {
    pub(super) plan: &'a physical::ShortestPath,
    /// None where no such type exists.
    pub(super) types: Option<&'a [TypeId]>,
    pub(super) start: NodeId,
    pub(super) row: Row<'a>,
}

/// How a node was reached.
struct Reached {
    depth: u64,
    /// The relationship that its ways begin with.
    branch: RelId,
    /// From where, on the level before; one, unless all walks are asked for or the branches differ.
    back: Vec<(RelRow, NodeId)>,
}

type Level = FxHashMap<NodeId, Reached>;

/// Where walks close: after a way to `before` and the step to `to`, along the way back from `after` or, without a direction
/// and on a middle node, over a step of its own.
struct Closing {
    before: NodeId,
    step: (RelRow, NodeId),
    after: Option<NodeId>,
}

/// What one level closes.
#[derive(Default)]
struct Closed {
    /// Walks of `2 * depth + 1` steps, or along a direction of `depth + 1`.
    over: Vec<Closing>,
    /// Middle nodes of walks of `2 * depth + 2` steps.
    at: Vec<NodeId>,
}

impl Round<'_> {
    /// The shortest walks of at most `max` steps; one unless all are asked for. None where there may be longer ones.
    pub(super) fn shortest(&self, max: u64, cx: &mut Cx<'_>) -> Result<Option<Vec<Walk>>> {
        let Some(types) = self.types else {
            return Ok(Some(Vec::new()));
        };
        let mut reached = Level::default();
        let start = Reached {
            depth: 0,
            branch: RelId(u64::MAX),
            back: Vec::new(),
        };
        reached.insert(self.start, start);
        let (mut frontier, mut depth) = (vec![self.start], 0_u64);
        let mut steps_kept = 0;
        while !frontier.is_empty() {
            // The fewest steps that a walk closed on this level has.
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
                return match steps < max {
                    true => self.at(&closed.at, &reached, cx).map(Some),
                    false => Ok(None),
                };
            }
            depth += 1;
        }
        Ok(Some(Vec::new()))
    }

    /// Looks at the relationships of a level; `frontier` is the next one then.
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
        let direction = data_direction(self.plan.direction);
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
                    self.look(*node, *rel, depth, reached, &mut next, &mut closed);
                }
            }
            let steps = size_of::<(RelRow, NodeId)>() * (*steps_kept + closed.over.len());
            cx.run.watch.allow(reached.len() * 96 + steps)?;
        }
        *frontier = next;
        Ok(closed)
    }

    /// Notes what a relationship of a node on level `depth` leads to.
    fn look(
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
            // Without a direction it led here from the start, unless it is a self loop.
            if !both || node == to {
                closed.over.push(over(None));
            }
            return;
        }
        let Some(known) = reached.get_mut(&to) else {
            let first = Reached {
                depth: depth + 1,
                branch,
                back: vec![(rel, node)],
            };
            reached.insert(to, first);
            next.push(to);
            return;
        };
        if known.depth == depth + 1 {
            let differs = both && known.branch != branch;
            if differs && closed.at.last() != Some(&to) {
                closed.at.push(to);
            }
            if differs || self.plan.all {
                known.back.push((rel, node));
            }
        } else if known.depth == depth && both && known.branch != branch {
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

    /// The walks through middle nodes: out by one branch, back by another one.
    fn at(&self, closed: &[NodeId], reached: &Level, cx: &mut Cx<'_>) -> Result<Vec<Walk>> {
        let mut walks = Vec::new();
        let mut middles = closed.to_vec();
        middles.sort_unstable();
        middles.dedup();
        for middle in middles {
            let Some(known) = reached.get(&middle) else {
                continue;
            };
            let branch = |(rel, from): &(RelRow, NodeId)| match *from == self.start {
                true => rel.id,
                false => reached.get(from).map_or(rel.id, |reached| reached.branch),
            };
            // The ways of each branch.
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

    /// Adds `head` and each of `tails`, which begin at the start too, walked backwards.
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

    /// The shortest ways from the start to a node; one unless all walks are asked for.
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
