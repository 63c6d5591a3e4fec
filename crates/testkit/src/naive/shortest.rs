//! Shortest paths against brute force: enumerates all paths and counts the shortest.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use isomer_db::Database;

use super::graph::{Graph, TYPES};
use super::matching::walks_between;
use super::query::{Direction, RelationshipPattern};
use crate::random::Random;

/// Compares `count` random queries for all pairs of nodes of small graphs. The first difference is the error.
pub fn compare(count: usize, seed: u64) -> Result<usize> {
    let mut random = Random::new(seed);
    let mut compared = 0;
    for _ in 0..count {
        let graph = Graph::random(&mut random);
        let database = Database::open_in_memory()?;
        database.query(&graph.to_cypher())?;
        for _ in 0..4 {
            let pattern = RelationshipPattern {
                variable: None,
                types: (0..TYPES.len()).filter(|_| random.once_in(4)).collect(),
                direction: *random.pick(&[Direction::Right, Direction::Left, Direction::Either]),
                length: Some((
                    1,
                    if random.once_in(2) {
                        2 + random.below(3)
                    } else {
                        12
                    },
                )),
                w: random.once_in(6).then(|| random.below(3) as i64),
            };
            let expected = expected(&graph, &pattern);
            for (function, counts_all) in [("allShortestPaths", true), ("shortestPath", false)] {
                let text = format!(
                    "MATCH (a), (b) WHERE a <> b MATCH p = {function}((a){pattern}(b)) RETURN a.i, b.i, length(p), count(*)"
                );
                let mut wanted: Vec<String> = expected
                    .iter()
                    .map(|((from, to), (length, paths))| {
                        format!(
                            "{from} | {to} | {length} | {}",
                            if counts_all { *paths } else { 1 }
                        )
                    })
                    .collect();
                wanted.sort();
                let answer = super::run_query(&database, &text)?;
                ensure!(
                    answer == wanted,
                    "the answers differ for\n{text}\non {}\n{}",
                    graph.to_cypher(),
                    super::first_difference(&answer, &wanted)
                );
                compared += wanted.len();
            }
        }
    }
    Ok(compared)
}

/// For each pair of different nodes with a path: the shortest length, and how many paths have it.
fn expected(
    graph: &Graph,
    pattern: &RelationshipPattern,
) -> BTreeMap<(usize, usize), (usize, usize)> {
    let mut shortest: BTreeMap<(usize, usize), (usize, usize)> = BTreeMap::new();
    for from in 0..graph.nodes.len() {
        for (walk, to) in walks_between(graph, pattern, from) {
            if to == from {
                continue;
            }
            let best = shortest.entry((from, to)).or_insert((walk.len(), 0));
            if walk.len() < best.0 {
                *best = (walk.len(), 0);
            }
            if walk.len() == best.0 {
                best.1 += 1;
            }
        }
    }
    shortest
}
