//! The stored pairs of a version, and what they should be, for the crates that load and check whole databases.
//!
//! What a pair holds is in `isomer_layout`. All other access is through [`Transaction`].

use isomer_layout::{
    DataError,
    catalog::schema::IndexDef,
    graph::state::{RecordId, RecordState},
    index::IndexEntry,
    stream::change::Counted,
};
use isomer_value::TypeId;

use crate::{DataStore, Transaction, index::RequiredEntries};

/// The stored pairs of a transaction's version, and what they should be. Reads do not enter the footprint.
#[derive(Clone, Copy)]
pub struct StoredPairs<'t> {
    tx: &'t Transaction,
}

impl Transaction {
    /// The stored pairs behind a read transaction.
    pub fn stored_pairs(&self) -> StoredPairs<'_> {
        debug_assert!(
            self.access() == crate::Access::Read,
            "a transaction that writes must declare its reads"
        );
        StoredPairs { tx: self }
    }
}

impl StoredPairs<'_> {
    /// The value under a key.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, DataError> {
        Ok(self.tx.read().get(key)?)
    }

    /// The values under keys, in their order.
    pub fn get_many(&self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>, DataError> {
        Ok(self.tx.read().get_many(keys)?)
    }

    /// Calls `visit` with the first `limit` pairs from `start` up to `end`, ascending.
    pub fn scan(
        &self,
        start: &[u8],
        end: Option<&[u8]>,
        limit: usize,
        visit: impl FnMut(&[u8], &[u8]) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        self.tx.raw().each_pair(start, end, limit, visit)
    }

    /// The id of a record that has the values of an index entry.
    pub fn holder(&self, entry: &IndexEntry) -> Result<Option<u64>, DataError> {
        // No record has the largest id: none is excluded.
        self.tx.indexes().holder(entry, u64::MAX)
    }

    /// The entries that a record should have in an index, its convergent fields included: ascending.
    ///
    /// # Errors
    /// [`DataError::Corrupt`] if the record holds a convergent field that the index cannot hold.
    pub fn required_entries(
        &self,
        index: &IndexDef,
        id: RecordId,
        state: &impl RecordState,
    ) -> Result<Vec<IndexEntry>, DataError> {
        if !state.is_in(index.scope) {
            return Ok(Vec::new());
        }
        match self
            .tx
            .indexes()
            .wanted_entries(index, id, state.properties())?
        {
            RequiredEntries::Entries(entries) => Ok(entries),
            RequiredEntries::NotIndexable(kind) => Err(DataError::corrupt(format!(
                "it holds a convergent {}, and the index is not given up",
                kind.name()
            ))),
        }
    }

    /// The stored count; `None` if the version is too old for it to be known.
    pub fn count(&self, counted: Counted) -> Result<Option<u64>, DataError> {
        self.tx.store().counts().at(counted, self.tx.version())
    }
}

impl DataStore {
    /// The ranges of ids (first, number) that were reserved for relationships of a type, ascending.
    pub fn relationship_extents(&self, type_id: TypeId) -> Vec<(u64, u64)> {
        self.shared().relationships.of(type_id.0)
    }

    /// The upper bound of all assigned ids of nodes.
    pub fn node_id_end(&self) -> u64 {
        self.shared().nodes.end()
    }
}
