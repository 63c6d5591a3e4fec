//! The values at one path of a label's nodes, as typed arrays.

mod at;
mod base;
mod page;
mod stored;

use isomer_data::{Catalog, DataError};
use isomer_value::{
    PropId, Value,
    record::{AtPath, RecordRef, decode_at_path},
};

use crate::delta::Weighed;

pub use at::ColumnAt;
pub(crate) use base::{ColumnBase, build, merge};
pub use page::{Cell, PAGE_ROWS, Page, PageBits, PageValues};
pub(crate) use stored::ColumnWriter;

/// A change of one node, as the change stream tells it.
#[derive(Clone, Debug)]
pub(crate) enum CellChange {
    /// The node has come with this cell.
    Is(Cell),
    /// The node is gone, or carries the label no more.
    Gone,
    /// The node carries the label now; what stands at the path was not told.
    Joined,
    /// This stands at the path now, if the node carries the label.
    Set(Cell),
}

impl Weighed for CellChange {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Is(Cell::Value(value)) | Self::Set(Cell::Value(value)) => page::heap_bytes(value),
            _ => 0,
        }
    }
}

/// What a record has at a path.
pub(crate) fn cell_of(
    record: &RecordRef<'_>,
    path: &[PropId],
    catalog: &Catalog,
) -> Result<Cell, DataError> {
    let Some((first, rest)) = path.split_first() else {
        return Ok(Cell::Rows);
    };
    match record.get_raw(*first)? {
        Some(raw) => cell_at(raw, rest, catalog),
        None => Ok(Cell::Value(Value::Null)),
    }
}

/// What an encoded value has at a path inside it.
pub(crate) fn cell_at(raw: &[u8], path: &[PropId], catalog: &Catalog) -> Result<Cell, DataError> {
    Ok(match decode_at_path(raw, path, catalog)? {
        AtPath::Value(value) => Cell::Value(value),
        AtPath::Missing => Cell::Value(Value::Null),
        AtPath::NoMap => Cell::Rows,
    })
}
