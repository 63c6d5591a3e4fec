//! Every algorithm is compared with a slow one that follows the definition, on small random graphs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::*;
use crate::random::Random;

/// Why an algorithm ended early.
#[derive(Debug, PartialEq)]
enum Ended {
    Stopped,
    NoMemory,
}

/// Stops when the flag is set.
#[derive(Clone, Copy)]
struct Flag<'f>(&'f AtomicBool);

impl StopCheck for Flag<'_> {
    type Error = Ended;

    fn check(&self) -> Result<(), Ended> {
        if self.0.load(Ordering::Relaxed) {
            Err(Ended::Stopped)
        } else {
            Ok(())
        }
    }
}

static NEVER: AtomicBool = AtomicBool::new(false);

/// A graph as a list of edges.
struct Sketch {
    nodes: usize,
    edges: Vec<(u32, u32)>,
    weights: Vec<f64>,
}

impl Sketch {
    /// Graphs of many kinds: without nodes, without edges, dense, with self loops and parallel edges.
    fn random(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let nodes = random.below(14);
        let count = match nodes {
            0 => 0,
            _ => random.below(nodes * 3 + 1),
        };
        let edges: Vec<(u32, u32)> = (0..count)
            .map(|_| (random.below(nodes) as u32, random.below(nodes) as u32))
            .collect();
        let weights = edges.iter().map(|_| random.below(5) as f64).collect();
        Self {
            nodes,
            edges,
            weights,
        }
    }

    fn rows(&self) -> SparseRows {
        rows(self.nodes, &self.edges, &[])
    }

    fn weighted(&self) -> SparseRows {
        rows(self.nodes, &self.edges, &self.weights)
    }

    fn both(&self, weighted: bool) -> SparseRows {
        let rows = if weighted {
            self.weighted()
        } else {
            self.rows()
        };
        undirected(&rows)
    }

    /// Hops between all pairs, and how many shortest paths there are.
    fn pairs(rows: &SparseRows) -> Vec<Vec<(usize, f64)>> {
        (0..rows.len())
            .map(|source| {
                let mut found = vec![(usize::MAX, 0.0); rows.len()];
                found[source] = (0, 1.0);
                for hops in 0..rows.len() {
                    for node in 0..rows.len() {
                        if found[node].0 != hops {
                            continue;
                        }
                        for other in rows.of(node as u32) {
                            let paths = found[node].1;
                            let there = &mut found[*other as usize];
                            if there.0 > hops {
                                if there.0 == usize::MAX {
                                    *there = (hops + 1, 0.0);
                                }
                                there.1 += paths;
                            }
                        }
                    }
                }
                found
            })
            .collect()
    }
}

/// [`SparseRows::new`], never stopped; the same below.
pub(super) fn rows(nodes: usize, edges: &[(u32, u32)], weights: &[f64]) -> SparseRows {
    SparseRows::new(nodes, edges, weights, &mut StepCounter::new(&stop())).unwrap()
}

pub(super) fn reversed(rows: &SparseRows) -> SparseRows {
    rows.reversed(&mut StepCounter::new(&stop())).unwrap()
}

pub(super) fn undirected(rows: &SparseRows) -> SparseRows {
    let back = reversed(rows);
    rows.undirected(&back, &mut StepCounter::new(&stop()))
        .unwrap()
}

pub(super) fn simple(rows: &SparseRows) -> SparseRows {
    rows.simple(&mut StepCounter::new(&stop())).unwrap()
}

fn stop() -> Flag<'static> {
    Flag(&NEVER)
}

/// Runs `job` with one thread and with three; the results must be equal.
fn run<T: PartialEq + std::fmt::Debug>(
    job: impl Fn(&mut Resources<'_, Flag<'static>>) -> Result<T, Ended>,
) -> T {
    let mut hold = |_| Ok(());
    let one = job(&mut Resources::new(stop(), &mut hold).with_threads(1)).unwrap();
    let three = job(&mut Resources::new(stop(), &mut hold).with_threads(3)).unwrap();
    assert_eq!(one, three, "the number of threads shows");
    one
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs()))
}

const ROUNDS: u64 = 300;

#[test]
fn page_rank_is_the_walk_of_its_definition() {
    for seed in 0..ROUNDS {
        let sketch = Sketch::random(seed);
        let weighted = seed % 2 == 0;
        let rows = if weighted {
            sketch.weighted()
        } else {
            sketch.rows()
        };
        let mut random = Random::new(seed);
        let sources: Vec<u32> = match sketch.nodes {
            0 => Vec::new(),
            nodes => (0..seed % 3).map(|_| random.below(nodes) as u32).collect(),
        };
        let settings = PageRank {
            damping: 0.85,
            tolerance: 0.0,
            iterations: 40,
            sources: sources.clone(),
        };
        let back = reversed(&rows);
        let scores = run(|work| page_rank(&rows, &back, &settings, work));
        // The same walk, edge by edge.
        let n = sketch.nodes;
        let weight = |at: usize| if weighted { sketch.weights[at] } else { 1.0 };
        let mut naive = vec![1.0 / n as f64; n];
        for _ in 0..40 {
            let mut next = vec![0.0; n];
            let mut again = 0.15;
            for (node, score) in naive.iter().enumerate() {
                let own = |(at, edge): (usize, &(u32, u32))| {
                    (edge.0 as usize == node).then_some((edge.1 as usize, weight(at)))
                };
                let out: Vec<(usize, f64)> =
                    sketch.edges.iter().enumerate().filter_map(own).collect();
                let total: f64 = out.iter().map(|(_, weight)| weight).sum();
                if total == 0.0 {
                    again += 0.85 * score;
                }
                for (other, weight) in out {
                    if total > 0.0 {
                        next[other] += 0.85 * score * weight / total;
                    }
                }
            }
            for (node, score) in next.iter_mut().enumerate() {
                let share = if sources.is_empty() {
                    1.0 / n as f64
                } else {
                    let own = sources.iter().filter(|source| **source as usize == node);
                    own.count() as f64 / sources.len() as f64
                };
                *score += again * share;
            }
            naive = next;
        }
        assert_eq!(scores.len(), naive.len());
        for (score, naive) in scores.iter().zip(&naive) {
            assert!(close(*score, *naive), "seed {seed}: {scores:?} {naive:?}");
        }
        assert!(n == 0 || close(scores.iter().sum(), 1.0));
    }
}

/// The figures of the documentation of Neo4j's library for its example: 20 iterations, the first of which sends.
#[test]
fn ranks_are_those_of_the_library_that_is_followed() {
    let edges = [
        (0, 1),
        (0, 2),
        (0, 3),
        (1, 0),
        (2, 0),
        (3, 0),
        (3, 4),
        (3, 5),
        (3, 6),
        (3, 7),
        (4, 0),
        (5, 0),
        (6, 0),
        (7, 0),
    ];
    let rows = rows(8, &edges, &[]);
    let settings = PageRank {
        damping: 0.85,
        tolerance: 1e-7,
        iterations: 20,
        sources: Vec::new(),
    };
    let back = reversed(&rows);
    let ranks = run(|work| page_ranks(&rows, &back, &settings, work));
    assert!(close(ranks.scores[0], 3.215_681_999_884_452), "{ranks:?}");
    assert!(close(ranks.scores[1], 1.054_270_055_214_672), "{ranks:?}");
    assert!(close(ranks.scores[7], 0.327_857_896_448_853_9), "{ranks:?}");
    assert_eq!((ranks.iterations, ranks.converged), (20, false));
    // Without a tolerance it iterates until the scores are the solution of the equations.
    let long = PageRank {
        iterations: 2_000,
        tolerance: 1e-15,
        ..settings
    };
    let ranks = run(|work| page_ranks(&rows, &back, &long, work));
    assert!(ranks.converged && ranks.iterations < 2_000);
    assert!(close(ranks.scores[1], 0.15 + 0.85 * ranks.scores[0] / 3.0));
}

#[test]
fn embeddings_are_sums_of_normalised_means() {
    let settings = RandomProjection {
        dimension: 5,
        weights: vec![0.5, 0.0, 2.0],
        own_weight: 0.25,
        degree_exponent: -0.5,
        seed: 7,
    };
    let own = RandomProjection {
        weights: Vec::new(),
        own_weight: 1.0,
        ..settings.clone()
    };
    for seed in 0..ROUNDS {
        let rows = Sketch::random(seed).weighted();
        let found = run(|work| fast_random_projection(&rows, &settings, work));
        let mut now = run(|work| fast_random_projection(&rows, &own, work));
        let mut naive: Vec<f64> = now.iter().map(|one| 0.25 * one).collect();
        for weight in &settings.weights {
            let mut next = vec![0.0; now.len()];
            for node in 0..rows.len() {
                let mean: Vec<f64> = (0..5)
                    .map(|at| {
                        let parts = rows.weighted(node as u32);
                        let sum: f64 = parts
                            .map(|(other, w)| w * now[other as usize * 5 + at])
                            .sum();
                        sum / rows.degree(node as u32).max(1) as f64
                    })
                    .collect();
                let length = mean.iter().map(|one| one * one).sum::<f64>().sqrt();
                for at in 0..5 {
                    next[node * 5 + at] = mean[at];
                    if length > 0.0 {
                        naive[node * 5 + at] += weight * mean[at] / length;
                    }
                }
            }
            now = next;
        }
        assert_eq!(found.len(), naive.len());
        assert!(
            found.iter().zip(&naive).all(|(a, b)| close(*a, *b)),
            "seed {seed}"
        );
    }
}

#[test]
fn components_match_reachability() {
    for seed in 0..ROUNDS {
        let sketch = Sketch::random(seed);
        let (rows, both) = (sketch.rows(), sketch.both(false));
        let (ahead, around) = (Sketch::pairs(&rows), Sketch::pairs(&both));
        let weak = run(|work| weak(&rows, work));
        let strong = run(|work| strong(&rows, work));
        for a in 0..sketch.nodes {
            for b in 0..sketch.nodes {
                let reaches =
                    |pairs: &[Vec<(usize, f64)>], a: usize, b: usize| pairs[a][b].0 != usize::MAX;
                assert_eq!(weak[a] == weak[b], reaches(&around, a, b), "seed {seed}");
                assert_eq!(
                    strong[a] == strong[b],
                    reaches(&ahead, a, b) && reaches(&ahead, b, a),
                    "seed {seed}"
                );
            }
        }
        let mut firsts = weak.clone();
        firsts.dedup();
        assert!(
            weak.is_empty() || weak[0] == 0,
            "numbered from the first node"
        );
    }
}

#[test]
fn core_numbers_are_what_pruning_leaves() {
    for seed in 0..ROUNDS {
        let sketch = Sketch::random(seed);
        let rows = simple(&sketch.both(false));
        let cores = run(|work| core_numbers(&rows, work));
        for (node, core) in cores.iter().enumerate() {
            let survives = |k: usize| {
                let mut left: Vec<bool> = vec![true; rows.len()];
                loop {
                    let weak = (0..rows.len() as u32).find(|node| {
                        let around = rows.of(*node).iter();
                        left[*node as usize]
                            && around.filter(|other| left[**other as usize]).count() < k
                    });
                    match weak {
                        Some(node) => left[node as usize] = false,
                        None => return left[node],
                    }
                }
            };
            let core = *core as usize;
            assert!(survives(core) && !survives(core + 1), "seed {seed}");
        }
    }
}

#[test]
fn triangles_are_all_triples_of_neighbours() {
    for seed in 0..ROUNDS {
        let rows = simple(&Sketch::random(seed).both(false));
        let found = run(|work| triangles(&rows, work));
        for (node, found) in found.iter().enumerate() {
            let around = rows.of(node as u32);
            let mut count = 0;
            for (at, a) in around.iter().enumerate() {
                let rest = around[at + 1..].iter();
                count += rest.filter(|b| rows.of(*a).contains(b)).count() as u64;
            }
            let pairs = around.len() * around.len().saturating_sub(1) / 2;
            assert_eq!(found.count, count, "seed {seed}");
            let coefficient = count as f64 / pairs.max(1) as f64;
            assert!(close(found.coefficient, coefficient), "seed {seed}");
        }
    }
}

#[test]
fn distances_are_those_of_relaxing_every_edge() {
    for seed in 0..ROUNDS {
        let sketch = Sketch::random(seed);
        if sketch.nodes == 0 {
            continue;
        }
        let source = (seed % sketch.nodes as u64) as u32;
        for weighted in [false, true] {
            let rows = if weighted {
                sketch.weighted()
            } else {
                sketch.rows()
            };
            let mut naive = vec![f64::INFINITY; sketch.nodes];
            naive[source as usize] = 0.0;
            for _ in 0..sketch.nodes {
                for (at, (a, b)) in sketch.edges.iter().enumerate() {
                    let weight = if weighted { sketch.weights[at] } else { 1.0 };
                    naive[*b as usize] = naive[*b as usize].min(naive[*a as usize] + weight);
                }
            }
            let reached = run(|work| distances(&rows, source, work));
            for (target, distance) in naive.iter().enumerate() {
                let path = run(|work| lightest_path(&rows, source, target as u32, work));
                let length = path.as_ref().map(|path| path[path.len() - 1].distance);
                assert_eq!(
                    length,
                    Some(*distance).filter(|one| one.is_finite()),
                    "seed {seed}"
                );
                let Some(path) = path else { continue };
                assert_eq!((path[0].node, path[0].distance), (source, 0.0));
                for pair in path.windows(2) {
                    assert_eq!(pair[1].previous, pair[0].node, "seed {seed}");
                    let step = |(node, weight)| {
                        node == pair[1].node && pair[0].distance + weight == pair[1].distance
                    };
                    assert!(rows.weighted(pair[0].node).any(step), "seed {seed}");
                }
            }
            let all = naive.iter().filter(|distance| distance.is_finite());
            assert_eq!(reached.len(), all.count(), "seed {seed}");
            assert!(reached.is_sorted_by_key(|one| one.distance));
            for one in &reached {
                assert_eq!(one.distance, naive[one.node as usize], "seed {seed}");
                if one.node == source {
                    assert_eq!(one.previous, NO_NODE);
                    continue;
                }
                let before = naive[one.previous as usize];
                let step = |(target, weight)| target == one.node && before + weight == one.distance;
                assert!(rows.weighted(one.previous).any(step), "seed {seed}");
            }
        }
    }
}

#[test]
fn centralities_are_those_of_all_pairs() {
    for seed in 0..ROUNDS {
        let sketch = Sketch::random(seed);
        for undirected in [false, true] {
            let rows = if undirected {
                simple(&sketch.both(false))
            } else {
                simple(&sketch.rows())
            };
            let pairs = Sketch::pairs(&rows);
            let n = sketch.nodes;
            let scores = run(|work| betweenness(&rows, undirected, Sample::All, false, work));
            let shares = run(|work| betweenness(&rows, undirected, Sample::All, true, work));
            let near = run(|work| closeness(&rows, work));
            for node in 0..n {
                let mut sum = 0.0;
                for a in (0..n).filter(|a| *a != node) {
                    for b in (0..n).filter(|b| *b != node && *b != a) {
                        let (there, on) = (pairs[a][node], pairs[node][b]);
                        if pairs[a][b].0 != usize::MAX
                            && there.0.saturating_add(on.0) == pairs[a][b].0
                        {
                            sum += there.1 * on.1 / pairs[a][b].1;
                        }
                    }
                }
                let all = (n as f64 - 1.0) * (n as f64 - 2.0);
                if n > 2 {
                    assert!(close(shares[node], sum / all), "seed {seed}");
                }
                let sum = if undirected { sum / 2.0 } else { sum };
                assert!(close(scores[node], sum), "seed {seed}: {scores:?}");
                let hops = pairs[node].iter().map(|pair| pair.0);
                let hops: Vec<usize> = hops.filter(|hops| *hops != usize::MAX).collect();
                let (others, sum) = (hops.len() as f64 - 1.0, hops.iter().sum::<usize>() as f64);
                let naive = if sum > 0.0 {
                    others / sum * others / (n as f64 - 1.0)
                } else {
                    0.0
                };
                assert!(close(near[node], naive), "seed {seed}");
            }
        }
    }
}

/// Every diamond doubles the number of paths: more than a float can represent, next to a route with a single path.
#[test]
fn betweenness_counts_more_paths_than_a_float_holds() {
    let diamonds = 1200_u32;
    let mut edges = Vec::new();
    for at in (0..3 * diamonds).step_by(3) {
        edges.extend([
            (at, at + 1),
            (at, at + 2),
            (at + 1, at + 3),
            (at + 2, at + 3),
        ]);
    }
    // From the first node to the last one over a route of the same length without a diamond.
    let (end, alone) = (3 * diamonds, 3 * diamonds + 1);
    edges.push((0, alone));
    edges.extend((0..2 * diamonds - 2).map(|at| (alone + at, alone + at + 1)));
    edges.push((alone + 2 * diamonds - 2, end));
    let count = 3 * diamonds as usize + 1 + 2 * diamonds as usize - 1;
    let rows = simple(&rows(count, &edges, &[]));
    let sample = Sample::Some { count: 60, seed: 5 };
    let scores = run(|work| betweenness(&rows, false, sample, false, work));
    assert!(scores.iter().all(|score| score.is_finite()));
    assert!(scores.iter().any(|score| *score > 0.0));
    assert!(close(scores[1], scores[2]));
}

/// Paths whose weight exceeds the greatest float are still found.
#[test]
fn a_distance_beyond_the_greatest_float_is_reached() {
    let rows = rows(3, &[(0, 1), (1, 2)], &[f64::MAX, f64::MAX]);
    let found = run(|work| distances(&rows, 0, work));
    let last = found.iter().find(|reached| reached.node == 2).unwrap();
    assert_eq!((last.distance, last.previous), (f64::INFINITY, 1));
}

#[test]
fn a_sample_comes_near_and_a_full_one_is_exact() {
    let mut random = Random::new(7);
    let edges: Vec<(u32, u32)> = (0..600)
        .map(|_| (random.below(120) as u32, random.below(120) as u32))
        .collect();
    let rows = simple(&rows(120, &edges, &[]));
    let exact = run(|work| betweenness(&rows, false, Sample::All, false, work));
    let full = Sample::Some {
        count: 120,
        seed: 3,
    };
    assert_eq!(
        exact,
        run(|work| betweenness(&rows, false, full, false, work))
    );
    let mut means = vec![0.0; 120];
    for seed in 0..60 {
        let some = Sample::Some { count: 30, seed };
        let scores = run(|work| betweenness(&rows, false, some, false, work));
        for (mean, score) in means.iter_mut().zip(scores) {
            *mean += score / 60.0;
        }
    }
    let total: f64 = exact.iter().sum();
    let error: f64 = means.iter().zip(&exact).map(|(a, b)| (a - b).abs()).sum();
    assert!(error < 0.1 * total, "{error} of {total}");
}

#[test]
fn labels_end_where_most_neighbours_are() {
    for seed in 0..ROUNDS {
        let sketch = Sketch::random(seed);
        let rows = sketch.both(seed % 2 == 0);
        let labels = run(|work| label_propagation(&rows, 1_000, seed, work));
        for node in 0..sketch.nodes as u32 {
            let mut sums = vec![0.0; sketch.nodes];
            for (other, weight) in rows.weighted(node).filter(|(other, _)| *other != node) {
                sums[labels[other as usize] as usize] += weight;
            }
            let most = sums.iter().copied().fold(0.0, f64::max);
            let own = sums[labels[node as usize] as usize];
            assert!(most == 0.0 || own >= most, "seed {seed}: {labels:?}");
        }
    }
}

#[test]
fn no_single_move_raises_the_modularity_of_louvain() {
    for seed in 0..ROUNDS {
        let sketch = Sketch::random(seed);
        let rows = sketch.both(seed % 2 == 0);
        let settings = Louvain {
            resolution: 1.0 + (seed % 3) as f64 * 0.25,
            tolerance: 0.0,
            levels: 100,
            seed,
        };
        let found = run(|work| louvain(&rows, &settings, work));
        let weight: f64 = (0..rows.len() as u32)
            .flat_map(|node| rows.weighted(node))
            .map(|(_, weight)| weight)
            .sum();
        if weight == 0.0 {
            continue;
        }
        let quality = |groups: &[u32]| community::modularity(&rows, groups, settings.resolution);
        let alone: Vec<u32> = (0..rows.len() as u32).collect();
        let together = vec![0; rows.len()];
        assert!(quality(&found) >= quality(&alone) - 1e-9, "seed {seed}");
        // Communities of a level are nodes of the next: merging any two of them gains nothing.
        for a in &found {
            for b in &found {
                let merged: Vec<u32> = found.iter().map(|c| if c == a { *b } else { *c }).collect();
                assert!(quality(&found) >= quality(&merged) - 1e-9, "seed {seed}");
            }
        }
        if quality(&together) > quality(&alone) {
            assert!(found.iter().any(|group| *group < rows.len() as u32 - 1));
        }
    }
}

#[test]
fn two_cliques_on_a_thread_are_two_communities() {
    let mut edges = vec![(0, 10)];
    for base in [0, 10] {
        for a in 0..10 {
            edges.extend((a + 1..10).map(|b| (base + a, base + b)));
        }
    }
    let rows = rows(20, &edges, &[]);
    let both = undirected(&rows);
    let settings = Louvain {
        resolution: 1.0,
        tolerance: 1e-7,
        levels: 10,
        seed: 1,
    };
    let expected: Vec<u32> = (0..20).map(|node| node / 10).collect();
    assert_eq!(run(|work| louvain(&both, &settings, work)), expected);
    assert_eq!(run(|work| label_propagation(&both, 100, 1, work)), expected);
}

/// A chain of a million nodes: no recursion as deep as the graph.
#[test]
fn long_chains_take_no_stack() {
    let count = 1_000_000;
    let edges: Vec<(u32, u32)> = (1..count).map(|node| (node - 1, node)).collect();
    let rows = rows(count as usize, &edges, &[]);
    let mut hold = |_| Ok(());
    let mut work = Resources::new(stop(), &mut hold);
    let components = strong(&rows, &mut work).unwrap();
    assert_eq!(components.last(), Some(&(count - 1)));
    assert_eq!(weak(&rows, &mut work).unwrap().iter().max(), Some(&0));
    let reached = distances(&rows, 0, &mut work).unwrap();
    assert_eq!(reached.last().unwrap().distance, f64::from(count - 1));
}

#[test]
fn a_request_to_stop_is_seen_soon_and_memory_is_asked_for_first() {
    let mut random = Random::new(1);
    let edges: Vec<(u32, u32)> = (0..100_000)
        .map(|_| (random.below(20_000) as u32, random.below(20_000) as u32))
        .collect();
    let rows = simple(&rows(20_000, &edges, &[]));
    let flag = AtomicBool::new(false);
    let started = std::time::Instant::now();
    let stopped = std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let mut hold = |_| Ok(());
            let mut work = Resources::new(Flag(&flag), &mut hold);
            betweenness(&rows, false, Sample::All, false, &mut work)
        });
        // In the middle of the work, which takes far longer.
        std::thread::sleep(Duration::from_millis(100));
        flag.store(true, Ordering::Relaxed);
        worker.join().unwrap()
    });
    assert_eq!(stopped, Err(Ended::Stopped));
    assert!(started.elapsed() < Duration::from_secs(1));

    let mut hold = |_| Err(Ended::NoMemory);
    let mut work = Resources::new(stop(), &mut hold);
    assert_eq!(closeness(&rows, &mut work), Err(Ended::NoMemory));
}
