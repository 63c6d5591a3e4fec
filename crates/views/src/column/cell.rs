//! Cells of a column: of a record, and as the change stream changes them.

use isomer_data::{Catalog, DataError};
use isomer_value::{
    PropId, Value,
    record::{AtPath, RecordRef, decode_at_path},
};

use crate::{
    column::page::{self, Cell},
    delta::Weighed,
};

/// A change of one node in a column, from the change stream.
#[derive(Clone, Debug)]
pub(crate) enum CellChange {
    /// The node was created with this cell.
    Is(Cell),
    /// The node was deleted, or lost the label.
    Gone,
    /// The node gained the label; the value at the path is unknown.
    Joined,
    /// The value at the path was set, if the node has the label.
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

/// The cell of a record at a path.
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

/// The cell of an encoded value at a path inside it.
pub(crate) fn cell_at(raw: &[u8], path: &[PropId], catalog: &Catalog) -> Result<Cell, DataError> {
    Ok(match decode_at_path(raw, path, catalog)? {
        AtPath::Value(value) => Cell::Value(value),
        AtPath::Missing => Cell::Value(Value::Null),
        AtPath::NoMap => Cell::Rows,
    })
}
