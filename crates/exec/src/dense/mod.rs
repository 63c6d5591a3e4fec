//! Searches over dense node ids: neighbours from the read views, and pooled scratch memory.

mod counts;
mod id_set;
mod marks;
mod pool;
mod shortest;
mod trails;
mod walks;

pub(crate) use counts::Counts;
pub(crate) use id_set::IdSet;
pub(crate) use marks::{Marks, Numbers};
pub(crate) use shortest::{BidirectionalSearch, MAX_IDS, SearchOutcome};
pub(crate) use trails::undirected;
pub(crate) use walks::{WalkScratch, Walks, small};
