//! A replica is open in one process at a time.

use isomer_data::{DataError, DataStore};

/// Refuses to make a database a replica while other processes can open it.
pub(crate) fn refuse_shared(store: &DataStore) -> Result<(), DataError> {
    match store.is_shared() {
        false => Ok(()),
        true => Err(DataError::Unsupported(
            "a replica needs a database that no other process can have open: open it exclusively"
                .into(),
        )),
    }
}
