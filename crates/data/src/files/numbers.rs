//! Numbers of files and folders: never used twice.

use isomer_layout::{DataError, keyspace};
use isomer_storage::{Durability, Engine};
use parking_lot::Mutex;

/// Numbers that are reserved at a time.
const BLOCK: u64 = 64;

/// The reserved numbers that are not used yet.
#[derive(Debug, Default)]
pub(crate) struct FileNumbers(Mutex<(u64, u64)>);

impl FileNumbers {
    /// Takes a number that was never used.
    pub(crate) fn take(&self, engine: &dyn Engine) -> Result<u64, DataError> {
        let mut reserved = self.0.lock();
        if reserved.0 == reserved.1 {
            let mut tx = engine.begin()?;
            let first = match tx.get(keyspace::FILE_NUMBERS)? {
                Some(stored) => keyspace::sole_id(&stored, "the next number of a file")?,
                None => FIRST_FILE,
            };
            let mut next = Vec::new();
            keyspace::push_id(&mut next, first + BLOCK);
            tx.put(keyspace::FILE_NUMBERS, &next)?;
            tx.commit(Durability::Buffered)?; // transactions that use a number commit later
            *reserved = (first, first + BLOCK);
        }
        reserved.0 += 1;
        Ok(reserved.0 - 1)
    }
}

/// The first number that is assigned to a file or folder.
pub(crate) const FIRST_FILE: u64 = 16;
