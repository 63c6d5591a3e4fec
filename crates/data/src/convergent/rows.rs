//! Storage of convergent state: an ordered map of bytes. A transaction is one, and so is a tree in memory.

use crate::DataError;

/// Called with a key and its value; returns whether to continue.
pub(crate) type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> Result<bool, DataError> + 'a;

/// An ordered map that can be read.
pub(crate) trait Rows {
    /// Calls `visit` with the pairs whose keys begin with `prefix` and are not below `from` (a whole key; empty: all),
    /// ascending. `about` is how many the caller expects to see.
    fn scan(
        &self,
        prefix: &[u8],
        from: &[u8],
        about: usize,
        visit: &mut Visit<'_>,
    ) -> Result<(), DataError>;
}

/// An ordered map that can be changed.
pub(crate) trait RowsMut: Rows {
    fn put_row(&mut self, key: &[u8], value: &[u8]) -> Result<(), DataError>;
    fn delete_row(&mut self, key: &[u8]) -> Result<(), DataError>;
    /// Removes everything with this prefix.
    fn delete_rows(&mut self, prefix: &[u8]) -> Result<(), DataError>;
}

#[cfg(test)]
pub(crate) use memory::MemoryRows;

#[cfg(test)]
mod memory {
    use std::collections::BTreeMap;

    use super::*;

    /// Rows in memory.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub(crate) struct MemoryRows(pub(crate) BTreeMap<Vec<u8>, Vec<u8>>);

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
}
