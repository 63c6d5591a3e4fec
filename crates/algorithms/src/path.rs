//! Distances from one node: by levels if edges have no weight, otherwise by Dijkstra's algorithm.

use std::{cmp::Ordering, collections::BinaryHeap};

use crate::{
    graph::{NO_NODE, SparseRows},
    work::{PACE, Resources, StopCheck},
};

/// A node that was reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NodeDistance {
    /// The node.
    pub node: u32,
    /// Its distance: the sum of weights, or the number of edges if they have no weights.
    pub distance: f64,
    /// The node before it on the path; [`NO_NODE`] for the source.
    pub previous: u32,
}

/// All nodes that are reachable from `source`, nearest first, then by number; the source itself is the first. Weights
/// are not negative. Time: edges, × log(edges) with weights; memory: 28 bytes a node and, with weights, 16 an edge at
/// worst.
pub fn distances<S: StopCheck>(
    rows: &SparseRows,
    source: u32,
    work: &mut Resources<'_, S>,
) -> Result<Vec<NodeDistance>, S::Error> {
    let mut reached = if rows.is_weighted() {
        dijkstra(rows, source, None, work)?
    } else {
        levels(rows, source, work)?
    };
    reached.sort_unstable_by(|a, b| a.distance.total_cmp(&b.distance).then(a.node.cmp(&b.node)));
    Ok(reached)
}

fn levels<S: StopCheck>(
    rows: &SparseRows,
    source: u32,
    work: &mut Resources<'_, S>,
) -> Result<Vec<NodeDistance>, S::Error> {
    work.hold::<NodeDistance>(rows.len())?;
    work.hold::<bool>(rows.len())?;
    let mut pace = work.pace();
    let mut seen = vec![false; rows.len()];
    let mut reached = vec![NodeDistance {
        node: source,
        distance: 0.0,
        previous: NO_NODE,
    }];
    seen[source as usize] = true;
    let mut at = 0;
    while let Some(from) = reached.get(at).copied() {
        at += 1;
        pace.count_steps(1 + rows.degree(from.node))?;
        for other in rows.of(from.node) {
            if !std::mem::replace(&mut seen[*other as usize], true) {
                reached.push(NodeDistance {
                    node: *other,
                    distance: from.distance + 1.0,
                    previous: from.node,
                });
            }
        }
    }
    Ok(reached)
}

/// The nodes of a lightest path from `source` to `target`, the source first; none if the target is not reached. Edges
/// without weights weigh 1. Time: as [`distances`], up to the target; memory: 16 bytes a node.
pub fn lightest_path<S: StopCheck>(
    rows: &SparseRows,
    source: u32,
    target: u32,
    work: &mut Resources<'_, S>,
) -> Result<Option<Vec<NodeDistance>>, S::Error> {
    let reached = dijkstra(rows, source, Some(target), work)?;
    if reached.last().is_none_or(|last| last.node != target) {
        return Ok(None);
    }
    let mut path: Vec<NodeDistance> = Vec::new();
    let mut wanted = target;
    // A node comes after the one before it.
    for one in reached.into_iter().rev() {
        if one.node == wanted {
            wanted = one.previous;
            path.push(one);
        }
    }
    path.reverse();
    Ok(Some(path))
}

/// A node in the queue; the nearest compares as the greatest.
#[derive(PartialEq)]
struct Candidate {
    distance: f64,
    node: u32,
}

impl Eq for Candidate {}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        other
            .distance
            .total_cmp(&self.distance)
            .then(other.node.cmp(&self.node))
    }
}

/// The nodes in the order in which they are reached: all, or those up to a target.
fn dijkstra<S: StopCheck>(
    rows: &SparseRows,
    source: u32,
    target: Option<u32>,
    work: &mut Resources<'_, S>,
) -> Result<Vec<NodeDistance>, S::Error> {
    let count = rows.len();
    work.hold::<NodeDistance>(count)?;
    work.hold::<(f64, u32, bool)>(count)?;
    let mut held = 0;
    let mut best = vec![(f64::INFINITY, NO_NODE, false); count]; // distance, previous, final
    let mut queue = BinaryHeap::new();
    best[source as usize].0 = 0.0;
    queue.push(Candidate {
        distance: 0.0,
        node: source,
    });
    let mut reached = Vec::new();
    let mut left = PACE;
    while let Some(nearest) = queue.pop() {
        let (distance, previous, done) = &mut best[nearest.node as usize];
        if std::mem::replace(done, true) {
            continue;
        }
        reached.push(NodeDistance {
            node: nearest.node,
            distance: *distance,
            previous: *previous,
        });
        if target == Some(nearest.node) {
            break;
        }
        for (other, weight) in rows.weighted(nearest.node) {
            let there = nearest.distance + weight;
            let known = &mut best[other as usize];
            // A sum may overflow to infinity, and the path still counts.
            if !known.2 && (known.1 == NO_NODE || there < known.0) {
                (known.0, known.1) = (there, nearest.node);
                queue.push(Candidate {
                    distance: there,
                    node: other,
                });
            }
        }
        if queue.capacity() > held {
            work.hold::<Candidate>(queue.capacity() - held)?;
            held = queue.capacity();
        }
        left = left.saturating_sub(1 + rows.degree(nearest.node));
        if left == 0 {
            left = PACE;
            work.check()?;
        }
    }
    Ok(reached)
}
