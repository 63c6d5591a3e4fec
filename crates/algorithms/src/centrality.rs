//! Betweenness (Brandes 2001) and closeness: a search from every node, or from a sample of nodes.

use rustc_hash::FxHashMap;

use crate::{
    graph::{NO_NODE, SparseRows},
    random::Random,
    work::{Resources, StepCounter, StopCheck},
};

/// Source nodes of the betweenness computation.
#[derive(Clone, Copy, Debug)]
pub enum Sample {
    /// All: exact.
    All,
    /// A sample; results are scaled up to all nodes.
    Some {
        /// Its size.
        count: usize,
        /// Chooses the nodes.
        seed: u64,
    },
}

/// Number of partial sums, which are added in order: the result does not depend on the number of threads.
const PARTIAL_SUMS: usize = 4;

/// Buffers that are reused from search to search.
struct Search {
    distance: Vec<u32>,
    /// Shortest paths from the source, in units of `SCALE` to the power in `large`.
    paths: Vec<f64>,
    /// Nodes with more paths than a float represents well, and the power: in some networks the number of paths doubles
    /// with every other step. Few nodes have an entry.
    large: FxHashMap<u32, u32>,
    dependency: Vec<f64>,
    /// Nodes in the order in which they were reached.
    reached: Vec<u32>,
}

impl Search {
    const BYTES: usize = 24;

    fn new(count: usize) -> Self {
        Self {
            distance: vec![NO_NODE; count],
            paths: vec![0.0; count],
            large: FxHashMap::default(),
            dependency: vec![0.0; count],
            reached: Vec::with_capacity(count),
        }
    }

    fn power(&self, node: u32) -> u32 {
        if self.large.is_empty() {
            0
        } else {
            self.large.get(&node).copied().unwrap_or(0)
        }
    }

    /// Adds the paths of a node to `other`, in units of `SCALE` to the power of `power`.
    fn add(&mut self, other: u32, paths: f64, power: u32) {
        let known = self.power(other);
        let sum = &mut self.paths[other as usize];
        let top = known.max(power);
        *sum = *sum * down(top - known) + paths * down(top - power);
        let top = if *sum > SCALE {
            *sum /= SCALE;
            top + 1
        } else {
            top
        };
        if top > known {
            self.large.insert(other, top);
        }
    }

    /// The fraction of the paths to `other` that pass through `node`.
    fn share(&self, node: u32, other: u32) -> f64 {
        let share = self.paths[node as usize] / self.paths[other as usize];
        if self.large.is_empty() {
            share
        } else {
            share * down(self.power(other).saturating_sub(self.power(node)))
        }
    }
}

/// 2 to the power of 512: sums and quotients of two numbers below it stay well within the range of a float.
const SCALE: f64 = f64::from_bits((1023 + 512) << 52);

/// `SCALE` to the power of minus `times`.
fn down(times: u32) -> f64 {
    match times {
        0 => 1.0,
        1 => 1.0 / SCALE,
        _ => 0.0,
    }
}

/// Per node, the number of shortest paths between other nodes that pass through it, as a fraction of all shortest paths
/// of each pair. `rows` are simple; an undirected pair counts once. With `normalised`, relative to the number of pairs.
/// Time: nodes × edges, or sample × edges; memory: 56 bytes a node and thread.
pub fn betweenness<S: StopCheck>(
    rows: &SparseRows,
    undirected: bool,
    sample: Sample,
    normalised: bool,
    work: &mut Resources<'_, S>,
) -> Result<Vec<f64>, S::Error> {
    let count = rows.len();
    let mut sources: Vec<u32> = (0..count as u32).collect();
    if let Sample::Some {
        count: chosen,
        seed,
    } = sample
        && chosen < count
    {
        Random::new(seed).shuffle(&mut sources);
        sources.truncate(chosen);
        sources.sort_unstable();
    }
    work.hold_bytes(count * (4 + PARTIAL_SUMS * (8 + Search::BYTES)))?;
    let steps = sources.len() * (count + rows.edge_count());
    let mut strands = vec![Vec::new(); PARTIAL_SUMS];
    // A fixed number of partial sums, whatever the number of threads: floats are added in one order, so the result is
    // the same on every machine.
    work.fill(&mut strands, 1, steps, |strand, scores, pace| {
        let scores = &mut scores[0];
        *scores = vec![0.0; count];
        let mut search = Search::new(count);
        for source in sources.iter().skip(strand).step_by(PARTIAL_SUMS) {
            count_paths(rows, *source, &mut search, pace)?;
            collect(rows, *source, &mut search, scores, pace)?;
        }
        Ok(())
    })?;
    // A sample of the sources estimates the sum over all of them.
    let mut scale = count as f64 / sources.len().max(1) as f64;
    if undirected {
        scale /= 2.0; // each pair was seen from both its ends
    }
    if normalised {
        let pairs = (count as f64 - 1.0) * (count as f64 - 2.0);
        scale *= match pairs {
            pairs if pairs <= 0.0 => 1.0,
            pairs if undirected => 2.0 / pairs,
            pairs => 1.0 / pairs,
        };
    }
    Ok((0..count)
        .map(|node| strands.iter().map(|strand| strand[node]).sum::<f64>() * scale)
        .collect())
}

/// Counts the shortest paths from `source` to all others.
fn count_paths<S: StopCheck>(
    rows: &SparseRows,
    source: u32,
    search: &mut Search,
    pace: &mut StepCounter<'_, S>,
) -> Result<(), S::Error> {
    // Only what the last source reached is cleared: a source in a small component costs no pass over all nodes.
    for node in search.reached.drain(..) {
        search.distance[node as usize] = NO_NODE;
        search.paths[node as usize] = 0.0;
        search.dependency[node as usize] = 0.0;
    }
    search.large.clear();
    search.distance[source as usize] = 0;
    search.paths[source as usize] = 1.0;
    search.reached.push(source);
    let mut at = 0;
    while let Some(node) = search.reached.get(at).copied() {
        at += 1;
        pace.count_steps(1 + rows.degree(node))?;
        let (next, paths) = (
            search.distance[node as usize] + 1,
            search.paths[node as usize],
        );
        let power = search.power(node);
        for other in rows.of(node) {
            let distance = &mut search.distance[*other as usize];
            if *distance == NO_NODE {
                *distance = next;
                search.reached.push(*other);
            }
            if *distance == next {
                search.add(*other, paths, power);
            }
        }
    }
    Ok(())
}

/// Accumulates, from the farthest node back, the dependency of the source on each node.
fn collect<S: StopCheck>(
    rows: &SparseRows,
    source: u32,
    search: &mut Search,
    scores: &mut [f64],
    pace: &mut StepCounter<'_, S>,
) -> Result<(), S::Error> {
    // The reverse of the order of discovery: all successors of a node are complete before it (Brandes 2001).
    for node in search.reached.iter().rev().copied() {
        pace.count_steps(1 + rows.degree(node))?;
        let next = search.distance[node as usize] + 1;
        let mut sum = 0.0;
        for &other in rows.of(node) {
            // An edge of the shortest-path graph: the predecessors are not stored, the distances tell them apart.
            if search.distance[other as usize] == next {
                sum += search.share(node, other) * (1.0 + search.dependency[other as usize]);
            }
        }
        search.dependency[node as usize] = sum;
        if node != source {
            scores[node as usize] += sum;
        }
    }
    Ok(())
}

/// Source nodes per unit of work of a thread.
const PART: usize = 64;

/// Closeness of each node: the number of nodes that it reaches divided by the sum of the distances to them, times the
/// fraction of all nodes that it reaches (Wasserman and Faust 1994); 0 if it reaches none. Time: nodes × edges; memory:
/// 8 bytes a node and thread.
pub fn closeness<S: StopCheck>(
    rows: &SparseRows,
    work: &mut Resources<'_, S>,
) -> Result<Vec<f64>, S::Error> {
    let count = rows.len();
    let steps = count.saturating_mul(count + rows.edge_count());
    let threads = work.threads_for(steps);
    work.hold_bytes(count * 8 * (1 + threads))?;
    let mut scores = vec![0.0; count];
    let part = PART.max(count / 256); // each part allocates its arrays
    work.fill(&mut scores, part, steps, |first, part, pace| {
        let mut distance = vec![NO_NODE; count];
        let mut reached: Vec<u32> = Vec::new();
        for (at, score) in part.iter_mut().enumerate() {
            for node in reached.drain(..) {
                distance[node as usize] = NO_NODE;
            }
            let source = (first + at) as u32;
            distance[source as usize] = 0;
            reached.push(source);
            let (mut at, mut sum) = (0, 0_u64);
            while let Some(node) = reached.get(at).copied() {
                at += 1;
                pace.count_steps(1 + rows.degree(node))?;
                let here = distance[node as usize];
                sum += u64::from(here);
                for other in rows.of(node) {
                    let there = &mut distance[*other as usize];
                    if *there == NO_NODE {
                        *there = here + 1;
                        reached.push(*other);
                    }
                }
            }
            let others = (reached.len() - 1) as f64;
            if sum > 0 {
                *score = others / sum as f64 * (others / (count as f64 - 1.0));
            }
        }
        Ok(())
    })?;
    Ok(scores)
}
