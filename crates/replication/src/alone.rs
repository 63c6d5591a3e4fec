//! A replica is open in one process at a time.

use isomer_data::{DataError, DataStore};

/// Keeps other processes out of a database that is to become a replica, or to receive a state, until it is closed.
///
/// # Errors
/// Those of [`DataStore::become_exclusive`].
pub(crate) fn keep_others_out(store: &DataStore) -> Result<(), DataError> {
    store.become_exclusive()
}
