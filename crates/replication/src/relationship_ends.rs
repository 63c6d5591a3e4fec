//! The ends of relationships.

use isomer_data::{DataError, Transaction};
use isomer_layout::keyspace;
use isomer_value::{RelId, record::RecordRef};

/// Type and ends of a relationship.
pub(crate) fn ends_of(
    tx: &Transaction,
    id: RelId,
) -> Result<Option<isomer_data::RelRow>, DataError> {
    match tx.read().get(&keyspace::relationship(id))? {
        Some(record) => isomer_layout::graph::rows::row_of(id, &RecordRef::new(&record)?).map(Some),
        None => Ok(None),
    }
}
