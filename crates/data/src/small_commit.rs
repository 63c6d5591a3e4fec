//! Small separate commits, before a transaction uses what they store: names, ids, numbers.

use isomer_layout::DataError;
use isomer_storage::{Durability, Engine, EngineTransaction, StorageError};

/// Commits what `write` writes. It runs again where another process was faster, which its guards tell: the threads of
/// this process exclude each other before.
pub(crate) fn commit_small<T>(
    engine: &dyn Engine,
    durability: Durability,
    mut write: impl FnMut(&mut dyn EngineTransaction) -> Result<T, DataError>,
) -> Result<T, DataError> {
    loop {
        let mut tx = engine.begin()?;
        let written = write(&mut *tx)?;
        match tx.commit(durability) {
            Ok(_) => return Ok(written),
            // Each conflict is a commit of another process: all of them together make progress.
            Err(StorageError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
