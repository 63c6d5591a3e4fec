//! Storage of convergent state: an ordered map of bytes. A transaction is one, and so is a tree in memory.

use crate::DataError;

/// Called with a key and its value; returns whether to continue.
pub type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> Result<bool, DataError> + 'a;

/// An ordered map that can be read.
pub trait Rows {
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
pub trait RowsMut: Rows {
    /// Puts a pair.
    fn put_row(&mut self, key: &[u8], value: &[u8]) -> Result<(), DataError>;
    /// Removes a pair, where it exists.
    fn delete_row(&mut self, key: &[u8]) -> Result<(), DataError>;
    /// Removes everything with this prefix.
    fn delete_rows(&mut self, prefix: &[u8]) -> Result<(), DataError>;
}
