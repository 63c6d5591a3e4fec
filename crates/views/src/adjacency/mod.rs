//! The relationships of one type seen from one end: compressed sparse rows (base) and later changes (delta).

mod at;
mod base;
mod build;
mod overlay;
mod stored;

pub use at::{AdjacencyAt, LinkScratch, NodeLinks};
pub(crate) use base::{AdjacencyBase, Link};
pub(crate) use build::{build, merge, transpose};
pub(crate) use stored::AdjacencyWriter;
