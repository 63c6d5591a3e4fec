//! How records and what is derived from them are stored, for the crates that load and check whole databases.
//!
//! These crates see the keys of nodes, relationships, labels, index entries and adjacency, as bytes. Keys of buckets,
//! files and replication stay within this crate. All other access is through [`Transaction`].

use isomer_value::{NodeId, TypeId};

use crate::{
    Catalog, Counted, DataError, DataStore, IndexDef, RelRow, Transaction,
    index::RequiredEntries,
    keyspace::{self, Side, TAG_BUCKET_ENTRY},
};

pub use crate::{
    graph::{KEY, NodeState, encode_key, row_of, without_nulls},
    index::{IndexEntry, entries_of as index_entries},
    keyspace::{
        IdSpace, TAG_ADJACENCY, TAG_KEY, TAG_LABEL, TAG_NODE, TAG_REL, entries_of, entry_node,
        keys_of, member, node, push_id, relationship, reserved, sole_id, take_id,
    },
    properties::brief,
    stream::StoredChange,
};

/// The entry of adjacency of a relationship, at its source if `outgoing`, else at its target.
pub fn adjacency(row: &RelRow, outgoing: bool) -> Vec<u8> {
    match outgoing {
        true => keyspace::adjacency(row.source, Side::Out, row.type_id, row.target, row.id),
        false => keyspace::adjacency(row.target, Side::In, row.type_id, row.source, row.id),
    }
}

/// Decodes what [`adjacency`] returns: the relationship, and whether the entry is the one at its source.
pub fn take_adjacency(key: &[u8]) -> Result<(RelRow, bool), DataError> {
    let mut rest = key.get(1..).unwrap_or_default();
    let node = take_id(&mut rest)
        .map(NodeId)
        .ok_or_else(|| DataError::corrupt("an adjacency entry is malformed"))?;
    let (side, type_id, other, id) = keyspace::take_adjacency(rest)?;
    let outgoing = side == Side::Out;
    let (source, target) = match outgoing {
        true => (node, other),
        false => (other, node),
    };
    let row = RelRow {
        id,
        type_id,
        source,
        target,
    };
    Ok((row, outgoing))
}

/// Describes the content under a key, for messages.
pub fn describe_key(key: &[u8], catalog: &Catalog) -> String {
    let mut rest = key.get(1..).unwrap_or_default();
    let id = take_id(&mut rest).unwrap_or_default();
    match key.first() {
        Some(&TAG_NODE) => format!("node {id}"),
        Some(&TAG_REL) => format!("relationship {id}"),
        Some(&TAG_BUCKET_ENTRY) => {
            let bucket = u32::try_from(id)
                .ok()
                .and_then(|id| catalog.bucket_name(id))
                .unwrap_or_default();
            let key = rest[..rest.len().min(40)].escape_ascii();
            format!("the key `{key}` of bucket `{bucket}`")
        }
        _ => format!("the stored key {}", key[..key.len().min(60)].escape_ascii()),
    }
}

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

    /// A node that has the values of an index entry.
    pub fn holder(&self, entry: &IndexEntry) -> Result<Option<NodeId>, DataError> {
        // No node has the largest id: none is excluded.
        self.tx.indexes().holder(entry, NodeId(u64::MAX))
    }

    /// The entries that a node should have in an index, its convergent fields included: ascending.
    ///
    /// # Errors
    /// [`DataError::Corrupt`] where the node holds a convergent field that the index cannot hold.
    pub fn required_entries(
        &self,
        index: &IndexDef,
        id: NodeId,
        state: &NodeState,
    ) -> Result<Vec<IndexEntry>, DataError> {
        match self.tx.indexes().wanted_entries(index, id, state)? {
            RequiredEntries::Entries(entries) => Ok(entries),
            RequiredEntries::NotIndexable(kind) => Err(DataError::corrupt(format!(
                "it holds a convergent {}, and the index is not given up",
                kind.name()
            ))),
        }
    }

    /// The stored count; `None` where the version is too old for it to be known.
    pub fn count(&self, counted: Counted) -> Result<Option<u64>, DataError> {
        self.tx.store().count_at(counted, self.tx.version())
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
