//! Core numbers by removing nodes in the order of their degrees (Batagelj and Zaversnik 2003).

use crate::{
    graph::SparseRows,
    work::{Resources, StopCheck},
};

/// Per node the largest `k` such that it belongs to a subgraph in which every node has at least `k` neighbours. `rows`
/// are undirected and simple. Time: nodes + edges; memory: 16 bytes a node.
pub fn core_numbers<S: StopCheck>(
    rows: &SparseRows,
    work: &mut Resources<'_, S>,
) -> Result<Vec<u32>, S::Error> {
    let count = rows.len();
    work.hold::<[u32; 4]>(count)?;
    let mut pace = work.pace();
    let mut degree: Vec<u32> = (0..count as u32)
        .map(|node| rows.degree(node) as u32)
        .collect();
    let most = degree.iter().copied().max().unwrap_or(0) as usize;
    // Nodes sorted by degree; `starts[d]` is the start of the bucket of degree d.
    let mut starts = vec![0_u32; most + 2];
    for degree in &degree {
        starts[*degree as usize + 1] += 1;
    }
    for at in 0..=most {
        starts[at + 1] += starts[at];
    }
    let mut place = vec![0_u32; count];
    let mut sorted = vec![0_u32; count];
    let mut next = starts.clone();
    for node in 0..count {
        let next = &mut next[degree[node] as usize];
        place[node] = *next;
        sorted[*next as usize] = node as u32;
        *next += 1;
    }
    for at in 0..count {
        let node = sorted[at];
        let core = degree[node as usize];
        pace.count_steps(1 + rows.degree(node))?;
        for other in rows.of(node) {
            let other = *other as usize;
            if degree[other] <= core {
                continue;
            }
            // Its degree falls by one: swap it with the first node of its bucket, whose start then moves by one.
            let block = &mut starts[degree[other] as usize];
            let first = (*block).max(at as u32 + 1);
            let swapped = sorted[first as usize];
            sorted.swap(first as usize, place[other] as usize);
            place[swapped as usize] = place[other];
            place[other] = first;
            *block = first + 1;
            degree[other] -= 1;
        }
    }
    Ok(degree)
}
