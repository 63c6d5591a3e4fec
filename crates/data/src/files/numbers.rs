//! Numbers of files and folders: never used twice.

use isomer_layout::{DataError, keyspace};
use isomer_storage::{Durability, Engine, GuardMode};
use parking_lot::Mutex;

use crate::{footprint::Item, small_commit::commit_small};

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
            // Transactions that use a number commit later.
            let first = commit_small(engine, Durability::Buffered, |tx| {
                let first = match tx.get(keyspace::FILE_NUMBERS)? {
                    Some(stored) => keyspace::sole_id(&stored, "the next number of a file")?,
                    None => FIRST_FILE,
                };
                let mut next = Vec::new();
                keyspace::push_id(&mut next, first + BLOCK);
                tx.put(keyspace::FILE_NUMBERS, &next)?;
                tx.guard(Item::FileNumbers.granule(), GuardMode::Write);
                Ok(first)
            })?;
            *reserved = (first, first + BLOCK);
        }
        reserved.0 += 1;
        Ok(reserved.0 - 1)
    }
}

/// The first number that is assigned to a file or folder.
pub(crate) const FIRST_FILE: u64 = 16;
