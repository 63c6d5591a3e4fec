//! Read views: adjacency, label sets and columns in memory, kept from the change stream.
//!
//! Views are derived and may be dropped at any time: that changes no answer, only its time. What this crate keeps true:
//! - a view answers a version exactly, or declines; who reads through [`Reader`] never notices which;
//! - commits are told to the views before anybody can see them, so that whoever can see a commit finds it in the views;
//! - a transaction's own writes are asked of the rows, and what it observes in a view enters its footprint as if it had
//!   read the row;
//! - memory is taken from the budget; where it has no room, views are dropped, the least recently used first.
//!
//! **Versions.** A view is a *base*, read at one version, and a *delta*, to which each later commit is added with its
//! version. A reader of version `v` sees the base and the entries up to `v`. A thread merges delta and base into a new
//! base now and then; readers that are older keep the old one.

mod adjacency;
mod at;
mod build;
mod check;
mod column;
mod delta;
mod error;
mod feed;
mod inbox;
mod keeping;
mod loading;
mod making;
mod members;
mod reader;
mod registry;
mod segment;
mod slot;
mod status;
mod views;
mod worker;

pub use adjacency::{AdjacencyAt, LinkScratch, Links, Side};
pub use at::ViewsAt;
pub use check::{DamagedFile, ViewCheck};
pub use column::{Cell, ColumnAt, PAGE_ROWS, Page, PageBits, PageValues};
pub use error::ViewError;
pub use reader::Reader;
pub use status::{Owner, ViewKind, ViewState, ViewStatus};
pub use views::{ViewOptions, Views};
