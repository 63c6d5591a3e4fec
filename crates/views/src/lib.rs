//! Read views: adjacency, label sets and columns in memory, maintained from the change stream.
//!
//! Views are derived data and may be dropped at any time: that changes no result, only the time it takes.
//! Invariants:
//! - a view answers a version exactly, or declines; callers of [`ViewReader`] cannot tell which;
//! - a commit is handed to the views before it becomes visible, so that a reader that sees a commit also
//!   finds it in the views;
//! - a transaction's own writes are read from the rows, and every observation made in a view enters the
//!   footprint as if the row had been read;
//! - memory comes from the budget; if it is exhausted, views are evicted, least recently used first.
//!
//! **Versions.** A view consists of a *base*, built at one version, and a *delta*, to which each later commit
//! is added with its version. A reader of version `v` sees the base and the delta entries up to `v`. A
//! background thread merges delta and base into a new base from time to time; readers of older versions keep
//! the old one.

mod adjacency;
mod at;
mod build;
mod check;
mod column;
mod delta;
mod error;
mod feed;
mod files;
mod id;
mod inbox;
mod keeping;
mod loading;
mod making;
mod members;
mod reader;
mod registry;
mod side;
mod slot;
mod status;
mod view_file;
mod views;
mod worker;

pub use adjacency::{AdjacencyAt, LinkScratch, NodeLinks};
pub use at::ViewsAt;
pub use check::ViewCheck;
pub use column::{Cell, ColumnAt, ColumnPage, PAGE_ROWS, PageBits, PageValues};
pub use error::ViewError;
pub use reader::ViewReader;
pub use side::AdjacencySide;
pub use status::{Owner, ViewKind, ViewState, ViewStatus};
pub use view_file::DamagedFile;
pub use view_file::{ViewFileDamage, ViewFileOverflow, ViewFileRejection};
pub use views::{ViewOptions, Views};
