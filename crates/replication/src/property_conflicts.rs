//! Conflicts in properties of one record: those with several concurrent values, recorded with the record's metadata.

use isomer_data::{DataError, Transaction, after_prefix};
use isomer_layout::keyspace::{self, IdSpace};
use isomer_value::PropId;

use crate::{cells::differ, metadata::Properties};

/// Properties with several values.
pub(crate) fn conflicting_properties(properties: &Properties) -> Vec<PropId> {
    let several = properties.iter().filter(|(_, own)| differ(own));
    several.map(|(prop, _)| *prop).collect()
}

/// Records properties with several values, and forgets those of `before` that have one value now.
pub(crate) fn record_conflicts(
    tx: &mut Transaction,
    key: &dyn Fn(PropId) -> Vec<u8>,
    before: &[PropId],
    after: &Properties,
) -> Result<(), DataError> {
    let now = conflicting_properties(after);
    for prop in now.iter().filter(|prop| !before.contains(prop)) {
        tx.replication_mut().put_row(&key(*prop), &[])?;
    }
    for prop in before.iter().filter(|prop| !now.contains(prop)) {
        tx.replication_mut().delete_row(&key(*prop))?;
    }
    Ok(())
}

pub(crate) fn delete_conflicts(
    tx: &mut Transaction,
    space: IdSpace,
    id: u64,
) -> Result<(), DataError> {
    let prefix = keyspace::conflicts_of(space, id);
    let end = after_prefix(&prefix);
    for key in tx.raw().keys_between(&prefix, end.as_deref())? {
        tx.replication_mut().delete_row(&key)?;
    }
    Ok(())
}
