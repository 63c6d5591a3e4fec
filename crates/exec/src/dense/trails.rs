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
    let (mut marks, mut branches, mut depths) = (Marks::take(), Numbers::take(), Numbers::take());
    let mut scratch = WalkScratch::default();
    let mut ends: Vec<u32> = Vec::new();
    let (mut back, mut depth) = (false, 0_u64);
    marks.insert(start);
    let mut level = vec![start];
    while !level.is_empty() && depth < max {
        depth += 1;
        let first = ends.len();
        for piece in level.chunks(TICK_NODES) {
            let mut looked_at = piece.len();
            for &node in piece {
                let neighbours = walks.neighbours(node, &mut scratch);
                looked_at += neighbours.len();
                for &to in neighbours {
                    if marks.insert(to) {
                        let branch = if node == start {
                            to
                        } else {
                            branches.get(node)
                        };
                        branches.put(to, branch);
                        depths.put(to, u32::try_from(depth).unwrap_or(u32::MAX));
                        ends.push(to);
                    } else if !back {
                        back = match (node == start, to == start) {
                            (true, true) => true,
                            (true, false) => max >= 2,
                            // Over the relationship that led here, or a parallel one: already handled at the start.
                            (false, true) => false,
                            (false, false) => {
                                branches.get(node) != branches.get(to)
                                    && depth + u64::from(depths.get(to)) <= max
                            }
                        };
                    }
                }
            }
            let bytes = ends.len() * 8 + marks.bytes() + branches.bytes() + depths.bytes();
            tick(looked_at, bytes)?;
        }
        level.clear();
        level.extend_from_slice(&ends[first..]);
    }
    if back {
        ends.push(start);
    }
    Ok(Trails {
        ends,
        more: !level.is_empty(),
    })
}
