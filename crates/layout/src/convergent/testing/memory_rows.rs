//! Rows in memory, for replicas that are not databases.

use std::collections::BTreeMap;

use crate::{
    DataError,
    convergent::rows::{Rows, RowsMut, Visit},
};

/// Rows in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryRows(
    /// Values by key.
    pub BTreeMap<Vec<u8>, Vec<u8>>,
);

impl Rows for MemoryRows {
    fn scan(
        &self,
        prefix: &[u8],
        from: &[u8],
        _about: usize,
        visit: &mut Visit<'_>,
    ) -> Result<(), DataError> {
        let start = prefix.max(from);
        for (key, value) in self.0.range(start.to_vec()..) {
            if !key.starts_with(prefix) || !visit(key, value)? {
                break;
            }
        }
        Ok(())
    }
}

impl RowsMut for MemoryRows {
    fn put_row(&mut self, key: &[u8], value: &[u8]) -> Result<(), DataError> {
        self.0.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    fn delete_row(&mut self, key: &[u8]) -> Result<(), DataError> {
        self.0.remove(key);
        Ok(())
    }

    fn delete_rows(&mut self, prefix: &[u8]) -> Result<(), DataError> {
        self.0.retain(|key, _| !key.starts_with(prefix));
        Ok(())
    }
}
