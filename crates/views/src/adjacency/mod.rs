//! The relationships of one type seen from one end: compressed sparse rows and what changed since.

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

/// From which end relationships are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Side {
    /// From where they start.
    Out,
    /// From where they end.
    In,
}

impl Side {
    /// Both, outgoing first as in the rows.
    pub const BOTH: [Self; 2] = [Self::Out, Self::In];

    /// The other one.
    pub fn reversed(self) -> Self {
        match self {
            Self::Out => Self::In,
            Self::In => Self::Out,
        }
    }
}

/// Largest id of a node or relationship that views hold. (The greatest number itself stands for nothing.)
pub(crate) const MAX_ID: u64 = u32::MAX as u64 - 1;

/// An id as views hold it.
pub(crate) fn small(id: u64) -> Option<u32> {
    u32::try_from(id).ok().filter(|id| u64::from(*id) <= MAX_ID)
}

impl Weighed for Link {}
