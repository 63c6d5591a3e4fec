//! The ends of undirected trails (walks that repeat no relationship).

use super::{Marks, Numbers, WalkScratch, Walks};
use crate::error::Result;

/// Neighbours that are examined between two checks of the clock.
const TICK_NODES: usize = 256;

/// The ends of walks of one step and more, none of which uses a relationship twice.
pub(crate) struct Trails {
    /// Each end once, nearest first; the start last if a walk returns to it.
    pub(crate) ends: Vec<u32>,
    /// Whether longer walks than allowed may reach other nodes.
    pub(crate) more: bool,
}

/// The ends of walks of at most `max` steps in both directions of the relationships, `walks`.
///
/// Every other node is found over a shortest walk, which repeats nothing. A walk returns to the start over a self loop,
/// one of two parallel relationships, or a relationship between nodes that were reached over different neighbours of
/// the start: the paths to both share no relationship. No shorter walk returns, because every closed walk contains such
/// a relationship. Memory: a bit and 8 bytes per node id up to the largest that is met, kept by the thread.
pub(crate) fn undirected(
    walks: &Walks,
    start: u32,
    max: u64,
    tick: &mut dyn FnMut(usize, usize) -> Result<()>,
) -> Result<Trails> {
    let mut search = Search::new(start, max);
    let mut scratch = WalkScratch::default();
    let mut level = vec![start];
    while !level.is_empty() && search.depth < max {
        search.depth += 1;
        let first = search.ends.len();
        for piece in level.chunks(TICK_NODES) {
            let mut examined = piece.len();
            for &node in piece {
                let neighbours = walks.neighbours(node, &mut scratch);
                examined += neighbours.len();
                for &to in neighbours {
                    search.extend_trail(node, to);
                }
            }
            tick(examined, search.bytes())?;
        }
        level.clear();
        level.extend_from_slice(&search.ends[first..]);
    }
    // The start is an end itself only if a walk returns to it; the search marked it before it began.
    if search.returns {
        search.ends.push(start);
    }
    Ok(Trails {
        ends: search.ends,
        more: !level.is_empty(),
    })
}

/// A breadth-first search that also notices the first walk back to its start.
struct Search {
    start: u32,
    max: u64,
    /// Steps from the start to the level that is being found.
    depth: u64,
    marks: Marks,
    /// The neighbour of the start over which a node was reached.
    branches: Numbers,
    depths: Numbers,
    /// Nodes reached, without the start.
    ends: Vec<u32>,
    /// Whether a walk of at most `max` steps returns to the start.
    returns: bool,
}

impl Search {
    fn new(start: u32, max: u64) -> Self {
        let mut marks = Marks::take();
        marks.insert(start);
        Self {
            start,
            max,
            depth: 0,
            marks,
            branches: Numbers::take(),
            depths: Numbers::take(),
            ends: Vec::new(),
            returns: false,
        }
    }

    /// Follows a relationship from a node of the level before.
    #[inline]
    fn extend_trail(&mut self, node: u32, to: u32) {
        if self.marks.insert(to) {
            let branch = if node == self.start {
                to
            } else {
                self.branches.get(node)
            };
            self.branches.put(to, branch);
            // Depths only matter for walks that return within `max`; longer ones are cut off.
            let depth = u32::try_from(self.depth).unwrap_or(u32::MAX);
            self.depths.put(to, depth);
            self.ends.push(to);
        } else if !self.returns {
            self.returns = self.closes(node, to);
        }
    }

    /// Whether a relationship between two nodes that were reached before closes a walk through the start.
    fn closes(&self, node: u32, to: u32) -> bool {
        match (node == self.start, to == self.start) {
            // A self loop.
            (true, true) => true,
            // A second relationship to a neighbour: out over one of the two, and back over the other.
            (true, false) => self.max >= 2,
            // Over the relationship that led here, or a parallel one: already handled at the start.
            (false, true) => false,
            // The walks to both nodes begin at different neighbours, so they share no relationship.
            (false, false) => {
                self.branches.get(node) != self.branches.get(to)
                    && self.depth + u64::from(self.depths.get(to)) <= self.max
            }
        }
    }

    fn bytes(&self) -> usize {
        self.ends.len() * 8 + self.marks.bytes() + self.branches.bytes() + self.depths.bytes()
    }
}
