//! Searching over dense node ids: neighbours from the read views, and scratch memory that is used again and again.

mod counts;
mod id_set;
mod kept;
mod marks;
mod shortest;
mod trails;
mod walks;

pub(crate) use counts::Counts;
pub(crate) use id_set::IdSet;
pub(crate) use marks::{Marks, Numbers};
pub(crate) use shortest::{Found, MOST_IDS, Meeting};
pub(crate) use trails::undirected;
pub(crate) use walks::{WalkScratch, Walks, small};
