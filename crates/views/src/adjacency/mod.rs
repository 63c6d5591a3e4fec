//! The relationships of one type seen from one end: compressed sparse rows (base) and later changes (delta).

mod at;
mod base;
mod build;
mod overlay;
mod stored;

use crate::delta::Weighed;

pub use at::{AdjacencyAt, LinkScratch, Links};
pub(crate) use base::{AdjacencyBase, Link};
pub(crate) use build::{build, merge, transpose};
pub(crate) use stored::AdjacencyWriter;

/// The end from which relationships are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// From the source node: outgoing relationships.
    Out,
    /// From the target node: incoming relationships.
    In,
}

impl Side {
    /// Both sides, outgoing first, in the order of the rows.
    pub const BOTH: [Self; 2] = [Self::Out, Self::In];

    /// The opposite side.
    pub fn reversed(self) -> Self {
        match self {
            Self::Out => Self::In,
            Self::In => Self::Out,
        }
    }
}

/// Largest id of a node or relationship that views hold. (`u32::MAX` itself is reserved.)
pub(crate) const MAX_ID: u64 = u32::MAX as u64 - 1;

/// Narrows an id to the 32 bits that views hold.
pub(crate) fn small(id: u64) -> Option<u32> {
    u32::try_from(id).ok().filter(|id| u64::from(*id) <= MAX_ID)
}

impl Weighed for Link {}
