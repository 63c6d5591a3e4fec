//! Bidirectional breadth-first search for shortest paths, over the read views.

use super::{Marks, Numbers, WalkScratch, Walks};
use crate::error::Result;

/// Neighbours that are examined between two checks of the clock.
const TICK_NODES: usize = 256;
/// Arrays cover ids below this: 256 MiB for each end at most.
pub(crate) const MAX_IDS: u32 = 1 << 26;
/// Nodes that are sampled to estimate the work of a frontier.
const SAMPLE: usize = 32;

/// The outcome of a search.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SearchOutcome {
    /// No walk exists.
    Nothing,
    /// None within the allowed number of steps, but a longer one may exist.
    TooLong,
    /// Walks of this many steps.
    Walks(u64),
    /// Some ids are too large for an array.
    TooLarge,
}

/// What the search has reached from one end: each node with its distance.
struct SearchSide {
    marks: Marks,
    depths: Numbers,
    frontier: Vec<u32>,
    depth: u32,
}

impl SearchSide {
    fn new(start: u32) -> Self {
        let (mut marks, mut depths) = (Marks::take(), Numbers::take());
        marks.insert(start);
        depths.put(start, 0);
        Self {
            marks,
            depths,
            frontier: vec![start],
            depth: 0,
        }
    }

    fn bytes(&self) -> usize {
        self.marks.bytes() + self.depths.bytes()
    }

    fn is_at(&self, node: u32, depth: u32) -> bool {
        self.marks.contains(node) && self.depths.get(node) == depth
    }

    /// Estimated number of relationships on the next level.
    fn work(&self, walks: &Walks, scratch: &mut WalkScratch) -> u64 {
        // A sample of the frontier is enough to choose a side; all degrees would cost as much as the step itself.
        let step = self.frontier.len().div_ceil(SAMPLE).max(1);
        let sample = self.frontier.iter().step_by(step);
        let (nodes, degrees) = sample.fold((0, 0), |(nodes, degrees), node| {
            (nodes + 1, degrees + walks.degree(*node, scratch))
        });
        degrees * self.frontier.len() as u64 / u64::max(nodes, 1)
    }
}

/// A search between two different nodes, breadth first from both ends; the end with less work is expanded first.
///
/// Exact: until the sides meet, every node within `depth` steps of its end is marked. When one side is expanded by a
/// level and meets the other, no shorter walk exists, because its middle would have been met before. Memory: a bit and
/// 4 bytes per node id for each side, kept by the thread.
pub(crate) struct BidirectionalSearch<'w> {
    forward: &'w Walks,
    backward: &'w Walks,
    front: SearchSide,
    back: SearchSide,
    /// Nodes at which the sides meet; each is on every shortest walk through it.
    met: Vec<u32>,
    scratch: WalkScratch,
}

impl<'w> BidirectionalSearch<'w> {
    /// A search along `forward`; `backward` is the reverse adjacency.
    pub(crate) fn new(forward: &'w Walks, backward: &'w Walks, from: u32, to: u32) -> Self {
        Self {
            forward,
            backward,
            front: SearchSide::new(from),
            back: SearchSide::new(to),
            met: Vec::new(),
            scratch: WalkScratch::default(),
        }
    }

    /// Searches; finds all middle nodes of shortest walks if `all`, otherwise one. `tick` is called with the number of
    /// nodes and relationships examined; its error stops the search.
    pub(crate) fn search(
        &mut self,
        max: u64,
        all: bool,
        tick: &mut dyn FnMut(usize, usize) -> Result<()>,
    ) -> Result<SearchOutcome> {
        loop {
            if self.front.frontier.is_empty() || self.back.frontier.is_empty() {
                return Ok(SearchOutcome::Nothing);
            }
            let steps = u64::from(self.front.depth) + u64::from(self.back.depth);
            if steps >= max {
                return Ok(SearchOutcome::TooLong);
            }
            let front_work = self.front.work(self.forward, &mut self.scratch);
            let back_work = self.back.work(self.backward, &mut self.scratch);
            let (walks, side, other) = if front_work <= back_work {
                (self.forward, &mut self.front, &self.back)
            } else {
                (self.backward, &mut self.back, &self.front)
            };
            let went_on = advance(
                walks,
                side,
                other,
                all,
                &mut self.met,
                &mut self.scratch,
                tick,
            )?;
            if !went_on {
                return Ok(SearchOutcome::TooLarge);
            }
            if !self.met.is_empty() {
                return Ok(SearchOutcome::Walks(steps + 1));
            }
        }
    }

    /// The shortest walks that were found, as their nodes from end to end; at most one unless `all`. `room` is asked
    /// for the bytes of all walks together and may refuse.
    pub(crate) fn walks(
        &mut self,
        all: bool,
        room: &mut dyn FnMut(usize) -> Result<()>,
    ) -> Result<Vec<Vec<u32>>> {
        let mut found: Vec<Vec<u32>> = Vec::new();
        for middle in std::mem::take(&mut self.met) {
            let heads = ways_back(
                self.backward,
                &self.front,
                middle,
                all,
                &mut self.scratch,
                room,
            )?;
            let tails = ways_back(
                self.forward,
                &self.back,
                middle,
                all,
                &mut self.scratch,
                room,
            )?;
            for head in &heads {
                for tail in &tails {
                    // Both halves begin in the middle.
                    let walk = head.iter().rev().chain(&tail[1..]).copied();
                    found.push(walk.collect());
                    let made = found.len() + heads.len() + tails.len();
                    room(walks_bytes(made, head.len() + tail.len()))?;
                }
            }
        }
        Ok(found)
    }
}

/// Expands one level along `walks`; records the nodes of the new level that the other side has reached, one unless
/// `all`. False if a node's id is too large for the arrays.
fn advance(
    walks: &Walks,
    side: &mut SearchSide,
    other: &SearchSide,
    all: bool,
    met: &mut Vec<u32>,
    scratch: &mut WalkScratch,
    tick: &mut dyn FnMut(usize, usize) -> Result<()>,
) -> Result<bool> {
    side.depth += 1;
    let mut next = Vec::new();
    for piece in std::mem::take(&mut side.frontier).chunks(TICK_NODES) {
        let mut looked_at = piece.len();
        for &node in piece {
            let neighbours = walks.neighbours(node, scratch);
            looked_at += neighbours.len();
            for &to in neighbours {
                if to >= MAX_IDS {
                    return Ok(false);
                }
                if !side.marks.insert(to) {
                    continue;
                }
                side.depths.put(to, side.depth);
                next.push(to);
                if other.marks.contains(to) {
                    // Found from both ends: on a shortest walk, because every shorter one would have met before.
                    met.push(to);
                    if !all {
                        return Ok(true);
                    }
                }
            }
        }
        let bytes = side.bytes() + other.bytes() + next.len() * 8;
        tick(looked_at, bytes)?;
    }
    side.frontier = next;
    Ok(true)
}

/// The walks from `middle` back to the origin of `side`, against its direction: along `walks`. One unless `all`.
fn ways_back(
    walks: &Walks,
    side: &SearchSide,
    middle: u32,
    all: bool,
    scratch: &mut WalkScratch,
    room: &mut dyn FnMut(usize) -> Result<()>,
) -> Result<Vec<Vec<u32>>> {
    let depth = side.depths.get(middle);
    let mut done = Vec::new();
    let mut open = vec![vec![middle]];
    while let Some(walk) = open.pop() {
        let Some(left) = (depth as usize + 1)
            .checked_sub(walk.len())
            .filter(|left| *left > 0)
        else {
            done.push(walk);
            if !all {
                break;
            }
            continue;
        };
        let here = walk[walk.len() - 1];
        let nearer = walks
            .neighbours(here, scratch)
            .iter()
            .copied()
            // No predecessors are stored: a neighbour that is one step nearer to the origin is one.
            .filter(|node| side.is_at(*node, left as u32 - 1));
        let mut nearer: Vec<u32> = nearer.take(if all { usize::MAX } else { 1 }).collect();
        nearer.sort_unstable();
        nearer.dedup(); // parallel relationships
        let made = open.len() + done.len() + nearer.len();
        room(walks_bytes(made, depth as usize + 1))?;
        for node in nearer {
            let mut longer = walk.clone();
            longer.push(node);
            open.push(longer);
        }
    }
    Ok(done)
}

/// Bytes of this number of walks with this number of nodes.
fn walks_bytes(count: usize, nodes: usize) -> usize {
    count.saturating_mul(nodes * size_of::<u32>() + size_of::<Vec<u32>>() + 16)
}
