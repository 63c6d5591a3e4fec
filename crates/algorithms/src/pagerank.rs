//! PageRank by power iteration (Brin and Page 1998), pulled over incoming edges.

use crate::{
    graph::SparseRows,
    work::{Resources, StopCheck},
};

/// Settings of PageRank.
#[derive(Clone, Debug)]
pub struct PageRank {
    /// Damping factor: the probability of following an edge.
    pub damping: f64,
    /// Tolerance: it ends when the sum of all changes in one iteration is at most this.
    pub tolerance: f64,
    /// Maximum number of iterations.
    pub iterations: usize,
    /// Nodes at which a walk restarts; any node if empty. Repeats count.
    pub sources: Vec<u32>,
}

/// Nodes per partial sum: fixed, so that sums do not depend on threads.
const PART: usize = 4_096;

/// The sum of the weights of each node's outgoing edges.
fn outgoing_weights<S: StopCheck>(
    rows: &SparseRows,
    steps: usize,
    work: &mut Resources<'_, S>,
) -> Result<Vec<f64>, S::Error> {
    let mut weights = vec![0.0; rows.len()];
    work.fill(&mut weights, PART, steps, |first, part, pace| {
        for (at, sum) in part.iter_mut().enumerate() {
            let node = (first + at) as u32;
            pace.count_steps(1 + rows.degree(node))?;
            *sum = if rows.is_weighted() {
                rows.weights_of(node).iter().sum()
            } else {
                rows.degree(node) as f64
            };
        }
        Ok(())
    })?;
    Ok(weights)
}

/// What a node receives from the nodes before it: each divides its score among its outgoing edges by their weights.
fn received(back: &SparseRows, node: u32, scores: &[f64], weights: &[f64]) -> f64 {
    let mut sum = 0.0;
    for (source, weight) in back.weighted(node) {
        let total = weights[source as usize];
        if total > 0.0 {
            sum += scores[source as usize] * weight / total;
        }
    }
    sum
}

/// The probability of being at each node; they sum to 1. A walk at a node without outgoing weight restarts. `back` is
/// `rows` reversed. Time: iterations × (nodes + edges); memory: 24 bytes a node.
pub fn page_rank<S: StopCheck>(
    rows: &SparseRows,
    back: &SparseRows,
    settings: &PageRank,
    work: &mut Resources<'_, S>,
) -> Result<Vec<f64>, S::Error> {
    let count = rows.len();
    if count == 0 {
        return Ok(Vec::new());
    }
    work.hold::<[f64; 3]>(count)?;
    let steps = count + rows.edge_count();
    let start = starts(count, &settings.sources, work)?;
    let weights = outgoing_weights(rows, steps, work)?;
    let mut scores = vec![1.0 / count as f64; count];
    let mut next = vec![0.0; count];
    for _ in 0..settings.iterations {
        // The probability that each edge carries per unit of weight; nodes without outgoing weight restart.
        let stuck: Vec<f64> = work.ranges(count, PART, count, |range, pace| {
            pace.count_steps(range.len())?;
            Ok(range
                .filter(|at| weights[*at] <= 0.0)
                .map(|at| scores[at])
                .sum())
        })?;
        let again = 1.0 - settings.damping + settings.damping * stuck.iter().sum::<f64>();
        let changes: Vec<f64> = work.fill(&mut next, PART, steps, |first, part, pace| {
            let mut change = 0.0;
            for (at, score) in part.iter_mut().enumerate() {
                let node = (first + at) as u32;
                pace.count_steps(1 + back.degree(node))?;
                let sum = received(back, node, &scores, &weights);
                *score = again * start.of(node) + settings.damping * sum;
                change += (*score - scores[first + at]).abs();
            }
            Ok(change)
        })?;
        std::mem::swap(&mut scores, &mut next);
        if changes.iter().sum::<f64>() <= settings.tolerance {
            break;
        }
    }
    Ok(scores)
}

/// Scores that are no probabilities, with what it took to find them.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeRanks {
    /// The score of each node.
    pub scores: Vec<f64>,
    /// Iterations, the first of which sends the initial scores.
    pub iterations: usize,
    /// Whether the last iteration changed no score by more than the tolerance.
    pub converged: bool,
}

/// The original formula of PageRank, as Neo4j's Graph Data Science library computes it: a score is `1 - damping`, plus
/// the damped shares of the nodes before it. What reaches a node without outgoing weight is lost, so that the scores
/// sum to no fixed number. With `sources`, only these get `1 - damping`. It ends when no score changes by
/// more than the tolerance. `back` is `rows` reversed. Time: iterations × (nodes + edges); memory: 32 bytes a node.
pub fn page_ranks<S: StopCheck>(
    rows: &SparseRows,
    back: &SparseRows,
    settings: &PageRank,
    work: &mut Resources<'_, S>,
) -> Result<NodeRanks, S::Error> {
    let count = rows.len();
    work.hold::<[f64; 4]>(count)?;
    let steps = count + rows.edge_count();
    let mut own = vec![1.0 - settings.damping; count];
    if !settings.sources.is_empty() {
        own.fill(0.0);
        for source in &settings.sources {
            own[*source as usize] = 1.0 - settings.damping;
        }
    }
    let weights = outgoing_weights(rows, steps, work)?;
    let mut ranks = NodeRanks {
        scores: own.clone(),
        iterations: settings.iterations.min(1),
        converged: count == 0,
    };
    let mut next = vec![0.0; count];
    while ranks.iterations < settings.iterations && !ranks.converged {
        let scores = &ranks.scores;
        let changes: Vec<f64> = work.fill(&mut next, PART, steps, |first, part, pace| {
            let mut most = 0.0_f64;
            for (at, score) in part.iter_mut().enumerate() {
                let node = (first + at) as u32;
                pace.count_steps(1 + back.degree(node))?;
                let sum = received(back, node, scores, &weights);
                *score = own[first + at] + settings.damping * sum;
                most = most.max((*score - scores[first + at]).abs());
            }
            Ok(most)
        })?;
        std::mem::swap(&mut ranks.scores, &mut next);
        ranks.iterations += 1;
        ranks.converged = changes.iter().all(|change| *change <= settings.tolerance);
    }
    Ok(ranks)
}

/// The probability to restart at a node.
enum Starts {
    Anywhere(f64),
    Given(Vec<f64>),
}

impl Starts {
    #[inline]
    fn of(&self, node: u32) -> f64 {
        match self {
            Self::Anywhere(share) => *share,
            Self::Given(shares) => shares[node as usize],
        }
    }
}

fn starts<S: StopCheck>(
    count: usize,
    sources: &[u32],
    work: &mut Resources<'_, S>,
) -> Result<Starts, S::Error> {
    if sources.is_empty() {
        return Ok(Starts::Anywhere(1.0 / count as f64));
    }
    work.hold::<f64>(count)?;
    let mut shares = vec![0.0; count];
    for source in sources {
        shares[*source as usize] += 1.0 / sources.len() as f64;
    }
    Ok(Starts::Given(shares))
}
