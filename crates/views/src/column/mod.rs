//! The values at one path of a label's nodes, as typed arrays.

mod at;
mod base;
mod cell;
mod page;
mod stored;

pub use at::ColumnAt;
pub(crate) use base::{ColumnBase, build, merge};
pub(crate) use cell::{CellChange, cell_at, cell_of};
pub use page::{Cell, ColumnPage, PAGE_ROWS, PageBits, PageValues};
pub(crate) use stored::ColumnWriter;
