//! Triangles, each found once from the end of lowest degree.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{
    graph::{NO_NODE, SparseRows},
    work::{Resources, StopCheck},
};

/// Triangle counts of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Triangles {
    /// Triangles that it is a corner of.
    pub count: u64,
    /// Local clustering coefficient: the share of pairs of its neighbours that are neighbours; 0 if there is no pair.
    pub coefficient: f64,
}

/// Nodes per unit of work of a thread.
const PART: usize = 512;

/// The triangles of each node. `rows` are undirected and simple. Each edge is kept at its end of lower degree, whose
/// row then has at most √(2·edges) entries. Time: edges × √edges at worst; memory: 28 bytes a node and 2 an edge.
pub fn triangles<S: StopCheck>(
    rows: &SparseRows,
    work: &mut Resources<'_, S>,
) -> Result<Vec<Triangles>, S::Error> {
    let count = rows.len();
    work.hold::<[u64; 2]>(count)?;
    work.hold_bytes(SparseRows::bytes_for(count, rows.edge_count() / 2, false))?;
    let upward = upward(rows, work)?;
    let corners: Vec<AtomicU64> = (0..count).map(|_| AtomicU64::new(0)).collect();
    let parts = work.threads_for(upward.edge_count() * 8).max(1);
    for _ in 0..parts {
        work.hold::<u32>(count)?; // each thread's marks
    }
    // Ranges of many parts are given to each thread, so that the marks are allocated once per thread.
    let stretch = count.div_ceil(parts * 8).max(PART);
    work.ranges(count, stretch, upward.edge_count() * 8, |range, pace| {
        let mut marks = vec![NO_NODE; count];
        for node in range {
            let node = node as u32;
            for other in upward.of(node) {
                marks[*other as usize] = node;
            }
            let mut own = 0;
            for other in upward.of(node) {
                pace.count_steps(1 + upward.degree(*other))?;
                let mut shared = 0;
                for third in upward.of(*other) {
                    if marks[*third as usize] == node {
                        shared += 1;
                        corners[*third as usize].fetch_add(1, Ordering::Relaxed);
                    }
                }
                if shared > 0 {
                    corners[*other as usize].fetch_add(shared, Ordering::Relaxed);
                    own += shared;
                }
            }
            if own > 0 {
                corners[node as usize].fetch_add(own, Ordering::Relaxed);
            }
        }
        Ok(())
    })?;
    let of = |node: usize| {
        let count = corners[node].load(Ordering::Relaxed);
        let degree = rows.degree(node as u32) as f64;
        let pairs = degree * (degree - 1.0) / 2.0;
        let coefficient = if pairs > 0.0 {
            count as f64 / pairs
        } else {
            0.0
        };
        Triangles { count, coefficient }
    };
    Ok((0..count).map(of).collect())
}

/// Each edge, only at its end of lower (degree, number).
fn upward<S: StopCheck>(
    rows: &SparseRows,
    work: &Resources<'_, S>,
) -> Result<SparseRows, S::Error> {
    let mut pace = work.pace();
    let mut offsets = Vec::with_capacity(rows.len() + 1);
    let mut targets = Vec::with_capacity(rows.edge_count() / 2);
    offsets.push(0);
    for node in 0..rows.len() as u32 {
        pace.count_steps(1 + rows.degree(node))?;
        let rank = (rows.degree(node), node);
        targets.extend(
            rows.of(node)
                .iter()
                .filter(|other| rank < (rows.degree(**other), **other)),
        );
        offsets.push(targets.len());
    }
    Ok(SparseRows::from_rows(offsets, targets))
}
