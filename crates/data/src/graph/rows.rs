//! Rows of relationships, from their records.

use isomer_value::{NodeId, RelId, TypeId, record::RecordRef};

use crate::{DataError, RelRow};

/// Type and ends of a relationship's record.
pub fn row_of(id: RelId, record: &RecordRef<'_>) -> Result<RelRow, DataError> {
    let (type_id, source, target): (TypeId, NodeId, NodeId) =
        record.endpoints().ok_or_else(|| {
            DataError::corrupt(format!("the record of relationship {id} is a node's"))
        })?;
    Ok(RelRow {
        id,
        type_id,
        source,
        target,
    })
}
