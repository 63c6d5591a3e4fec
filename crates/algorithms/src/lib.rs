//! Graph algorithms over sparse rows of dense numbers.
//!
//! They know no database: [`SparseRows`] in, one result for each node out, as vectors. The caller reads the graph,
//! numbers its nodes, and says when to stop ([`StopCheck`]) and how much memory may be taken ([`Resources`]).
//! Invariants:
//! - the same rows, settings and seed give the same results to the last bit, for any number of threads: parallel sums
//!   are cut into parts of a fixed size, which are added in order;
//! - memory is reserved before it is allocated, and cancellation is noticed within some milliseconds of work;
//! - the depth of recursion is bounded independently of the graph.

mod centrality;
mod community;
mod component;
mod core;
mod embedding;
mod graph;
mod group;
mod pagerank;
mod path;
mod random;
mod triangle;
mod work;

pub use self::{
    centrality::{Sample, betweenness, closeness},
    community::{Louvain, label_propagation, louvain},
    component::{strong, weak},
    core::core_numbers,
    embedding::{RandomProjection, fast_random_projection},
    graph::{NO_NODE, SparseRows},
    pagerank::{NodeRanks, PageRank, page_rank, page_ranks},
    path::{NodeDistance, distances, lightest_path},
    triangle::{Triangles, triangles},
    work::{Resources, StepCounter, StopCheck},
};

#[cfg(test)]
mod tests;
