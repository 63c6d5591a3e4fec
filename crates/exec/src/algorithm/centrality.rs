//! Betweenness (Brandes 2001) and closeness: a search from every node, or from a sample of them.

use rustc_hash::FxHashMap;

use super::{NOBODY, Random, Rows, Work};
use crate::error::Result;

/// From which nodes betweenness is counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sample {
    /// All: exact.
    All,
    /// So many, chosen by a seed; what they give is scaled up to all.
    Some { count: usize, seed: u64 },
}

/// Sums are kept apart in so many strands and added in order, whatever the number of threads.
const STRANDS: usize = 4;

/// What one search uses again and again.
struct Search {
    distance: Vec<u32>,
    /// Shortest paths from the source, in units of `SCALE` to the power of what `large` says.
    paths: Vec<f64>,
    /// Nodes with more paths than a float counts well, and the power: their number doubles with every other step of some
    /// networks. Few have any.
    large: FxHashMap<u32, u32>,
    dependency: Vec<f64>,
    /// Nodes in the order in which they were reached.
    reached: Vec<u32>,
}

impl Search {
    const BYTES: usize = 24;

    fn new(count: usize) -> Self {
        Self {
            distance: vec![NOBODY; count],
            paths: vec![0.0; count],
            large: FxHashMap::default(),
            dependency: vec![0.0; count],
            reached: Vec::with_capacity(count),
        }
    }

    fn power(&self, node: u32) -> u32 {
        match self.large.is_empty() {
            true => 0,
            false => self.large.get(&node).copied().unwrap_or(0),
        }
    }

    /// Adds the paths of a node on the way to `other`, in units of `SCALE` to the power of `power`.
    fn add(&mut self, other: u32, paths: f64, power: u32) {
        let known = self.power(other);
        let sum = &mut self.paths[other as usize];
        let top = known.max(power);
        *sum = *sum * down(top - known) + paths * down(top - power);
        let top = match *sum > SCALE {
            true => {
                *sum /= SCALE;
                top + 1
            }
            false => top,
        };
        if top > known {
            self.large.insert(other, top);
        }
    }

    /// The share of the paths to `other` that come over `node`.
    fn share(&self, node: u32, other: u32) -> f64 {
        let share = self.paths[node as usize] / self.paths[other as usize];
        match self.large.is_empty() {
            true => share,
            false => share * down(self.power(other).saturating_sub(self.power(node))),
        }
    }
}

/// 2 to the power of 512: sums and quotients of two numbers below it are far from the ends of what a float holds.
const SCALE: f64 = f64::from_bits((1023 + 512) << 52);

/// `SCALE` to the power of minus `times`.
fn down(times: u32) -> f64 {
    match times {
        0 => 1.0,
        1 => 1.0 / SCALE,
        _ => 0.0,
    }
}

/// Of each node the number of shortest paths between others that lead over it, each pair's as a share of all of that pair.
/// `rows` are simple; an undirected pair counts once. With `normalised` as a share of all pairs.
/// Time: nodes × edges, or sample × edges; memory: 56 bytes a node and thread.
pub(crate) fn betweenness(
    rows: &Rows,
    undirected: bool,
    sample: Sample,
    normalised: bool,
    work: &mut Work<'_>,
) -> Result<Vec<f64>> {
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
    work.hold_bytes(count * (4 + STRANDS * (8 + Search::BYTES)))?;
    let steps = sources.len() * (count + rows.edge_count());
    let mut strands = vec![Vec::new(); STRANDS];
    work.fill(&mut strands, 1, steps, |strand, scores, pace| {
        let scores = &mut scores[0];
        *scores = vec![0.0; count];
        let mut search = Search::new(count);
        for source in sources.iter().skip(strand).step_by(STRANDS) {
            count_paths(rows, *source, &mut search, pace)?;
            collect(rows, *source, &mut search, scores, pace)?;
        }
        Ok(())
    })?;
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
fn count_paths(
    rows: &Rows,
    source: u32,
    search: &mut Search,
    pace: &mut super::Pace<'_>,
) -> Result<()> {
    for node in search.reached.drain(..) {
        search.distance[node as usize] = NOBODY;
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
        pace.step(1 + rows.degree(node))?;
        let (next, paths) = (
            search.distance[node as usize] + 1,
            search.paths[node as usize],
        );
        let power = search.power(node);
        for other in rows.of(node) {
            let distance = &mut search.distance[*other as usize];
            if *distance == NOBODY {
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

/// Adds up, from the farthest node back, what of the paths leads over each node.
fn collect(
    rows: &Rows,
    source: u32,
    search: &mut Search,
    scores: &mut [f64],
    pace: &mut super::Pace<'_>,
) -> Result<()> {
    for node in search.reached.iter().rev().copied() {
        pace.step(1 + rows.degree(node))?;
        let next = search.distance[node as usize] + 1;
        let mut sum = 0.0;
        for &other in rows.of(node) {
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

/// Nodes that a thread searches from at once.
const PART: usize = 64;

/// Of each node how near the nodes are that it reaches: their number by the sum of distances to them, times the share of all
/// nodes that they are (Wasserman and Faust 1994); 0 where it reaches nobody. Time: nodes × edges; memory: 8 bytes a node
/// and thread.
pub(crate) fn closeness(rows: &Rows, work: &mut Work<'_>) -> Result<Vec<f64>> {
    let count = rows.len();
    let steps = count.saturating_mul(count + rows.edge_count());
    let threads = work.threads_for(steps);
    work.hold_bytes(count * 8 * (1 + threads))?;
    let mut scores = vec![0.0; count];
    let part = PART.max(count / 256); // a part's arrays are made anew
    work.fill(&mut scores, part, steps, |first, part, pace| {
        let mut distance = vec![NOBODY; count];
        let mut reached: Vec<u32> = Vec::new();
        for (at, score) in part.iter_mut().enumerate() {
            for node in reached.drain(..) {
                distance[node as usize] = NOBODY;
            }
            let source = (first + at) as u32;
            distance[source as usize] = 0;
            reached.push(source);
            let (mut at, mut sum) = (0, 0_u64);
            while let Some(node) = reached.get(at).copied() {
                at += 1;
                pace.step(1 + rows.degree(node))?;
                let here = distance[node as usize];
                sum += u64::from(here);
                for other in rows.of(node) {
                    let there = &mut distance[*other as usize];
                    if *there == NOBODY {
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
