//! Transactions.

use std::{ops::Bound, sync::Arc};

use isomer_storage::{Durability, Version};
use isomer_value::{
    LabelId, Map, NodeContent, NodeId, PropId, RelId, RelationshipContent, TypeId, Value,
};

use crate::{
    Access, Catalog, DataError, Direction, GraphRead, IndexCursor, IndexSeek, Neighbours,
    NodeLabels, RelRow, SchemaChange, SchemaOutcome, Store,
};

/// A mark inside a transaction, to undo a failed statement alone.
#[derive(Clone, Copy, Debug)]
pub struct Mark(usize);

/// A transaction: one version of the database and, on top, its own changes. Owned and `Send`; dropping it without a
/// commit leaves no trace.
///
/// Reads (see [`GraphRead`]) work on `&self`; writes need `&mut self` and [`Access::Write`].
pub struct Transaction {
    store: Store,
    access: Access,
}

fn later<T>() -> Result<T, DataError> {
    Err(DataError::Unsupported("not built yet".into()))
}

#[allow(missing_docs, unused_variables)] // bodies and docs follow within the hour
impl Transaction {
    pub(crate) fn new(store: Store, access: Access) -> Result<Self, DataError> {
        Ok(Self { store, access })
    }

    /// The store it belongs to.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// What it may do.
    pub fn access(&self) -> Access {
        self.access
    }

    /// The version that it reads.
    pub fn version(&self) -> Version {
        0
    }

    /// The label's number; a new name is entered into the catalog at once.
    pub fn intern_label(&self, name: &str) -> Result<LabelId, DataError> {
        later()
    }

    /// The relationship type's number; a new name is entered into the catalog at once.
    pub fn intern_type(&self, name: &str) -> Result<TypeId, DataError> {
        later()
    }

    /// The property name's number; a new name is entered into the catalog at once.
    pub fn intern_prop(&self, name: &str) -> Result<PropId, DataError> {
        later()
    }

    /// Creates a node. `_key` among `properties` must be a string or an integer, new in each of the labels. Nulls are left out.
    pub fn create_node(
        &mut self,
        labels: &[LabelId],
        properties: &Map,
    ) -> Result<NodeId, DataError> {
        later()
    }

    /// Creates a relationship between two existing nodes.
    pub fn create_relationship(
        &mut self,
        type_id: TypeId,
        source: NodeId,
        target: NodeId,
        properties: &Map,
    ) -> Result<RelId, DataError> {
        later()
    }

    /// Sets the property at `path` (one name, or names through nested maps, which are made where absent); `Null` removes it.
    pub fn set_node_property(
        &mut self,
        id: NodeId,
        path: &[&str],
        value: Value,
    ) -> Result<(), DataError> {
        later()
    }

    /// Replaces all properties.
    pub fn replace_node_properties(
        &mut self,
        id: NodeId,
        properties: &Map,
    ) -> Result<(), DataError> {
        later()
    }

    /// Sets the properties given, removes those given as `Null`, keeps the others.
    pub fn merge_node_properties(&mut self, id: NodeId, properties: &Map) -> Result<(), DataError> {
        later()
    }

    /// As [`Transaction::set_node_property`].
    pub fn set_relationship_property(
        &mut self,
        id: RelId,
        path: &[&str],
        value: Value,
    ) -> Result<(), DataError> {
        later()
    }

    /// As [`Transaction::replace_node_properties`].
    pub fn replace_relationship_properties(
        &mut self,
        id: RelId,
        properties: &Map,
    ) -> Result<(), DataError> {
        later()
    }

    /// As [`Transaction::merge_node_properties`].
    pub fn merge_relationship_properties(
        &mut self,
        id: RelId,
        properties: &Map,
    ) -> Result<(), DataError> {
        later()
    }

    /// Adds a label; returns whether it was new.
    pub fn add_label(&mut self, id: NodeId, label: LabelId) -> Result<bool, DataError> {
        later()
    }

    /// Removes a label; returns whether it was there.
    pub fn remove_label(&mut self, id: NodeId, label: LabelId) -> Result<bool, DataError> {
        later()
    }

    /// Deletes a node; with relationships it is refused ([`DataError::StillConnected`]) unless `detach`, which deletes them too.
    /// Returns the relationships that were deleted with it. A node that does not exist (any more) is no error.
    pub fn delete_node(&mut self, id: NodeId, detach: bool) -> Result<Vec<RelId>, DataError> {
        later()
    }

    /// Deletes a relationship; returns whether it was there.
    pub fn delete_relationship(&mut self, id: RelId) -> Result<bool, DataError> {
        later()
    }

    /// Inserts a document: a node of the label `collection` with a `_key`, generated (UUIDv7) where `document` has none. Returns its key.
    pub fn insert_document(
        &mut self,
        collection: &str,
        document: &Map,
    ) -> Result<Value, DataError> {
        later()
    }

    /// The document under `key`.
    pub fn get_document(&self, collection: &str, key: &Value) -> Result<Option<Map>, DataError> {
        later()
    }

    /// Replaces the document under `key`, which must exist.
    pub fn replace_document(
        &mut self,
        collection: &str,
        key: &Value,
        document: &Map,
    ) -> Result<(), DataError> {
        later()
    }

    /// Merges `patch` into the document under `key`, nested maps too; nulls remove.
    pub fn patch_document(
        &mut self,
        collection: &str,
        key: &Value,
        patch: &Map,
    ) -> Result<(), DataError> {
        later()
    }

    /// Removes the document under `key`; returns whether it was there. Refused while it has relationships, unless `detach`.
    pub fn remove_document(
        &mut self,
        collection: &str,
        key: &Value,
        detach: bool,
    ) -> Result<bool, DataError> {
        later()
    }

    /// Documents in the order of their keys, from the bounds given, at most `limit`.
    pub fn scan_documents(
        &self,
        collection: &str,
        range: (Bound<&Value>, Bound<&Value>),
        limit: usize,
    ) -> Result<Vec<(Value, NodeId)>, DataError> {
        later()
    }

    /// Changes the schema; only in a transaction that has written nothing. Runs in transactions of its own, after which
    /// this transaction goes on at the new version.
    pub fn change_schema(&mut self, change: SchemaChange) -> Result<SchemaOutcome, DataError> {
        self.store.change_schema(change)
    }

    /// Marks the present state.
    pub fn mark(&mut self) -> Mark {
        Mark(0)
    }

    /// Undoes all writes since `mark`.
    pub fn rollback_to(&mut self, mark: Mark) -> Result<(), DataError> {
        later()
    }

    /// Whether this transaction has written.
    pub fn has_writes(&self) -> bool {
        false
    }

    /// Checks the footprint and applies the writes, durably. Returns the version at which they are visible.
    pub fn commit(self) -> Result<Version, DataError> {
        self.commit_with(Durability::Synced)
    }

    /// As [`Transaction::commit`], with another durability.
    pub fn commit_with(self, durability: Durability) -> Result<Version, DataError> {
        later()
    }

    /// Drops all writes.
    pub fn rollback(self) {}
}

#[allow(unused_variables)] // as above
impl GraphRead for Transaction {
    fn catalog(&self) -> Arc<Catalog> {
        self.store.catalog()
    }
    fn node_count(&self, label: Option<LabelId>) -> Result<u64, DataError> {
        later()
    }
    fn relationship_count(&self, rel_type: Option<TypeId>) -> Result<u64, DataError> {
        later()
    }
    fn exact_node_count(&self, label: Option<LabelId>) -> Result<u64, DataError> {
        later()
    }
    fn exact_relationship_count(&self, rel_type: Option<TypeId>) -> Result<u64, DataError> {
        later()
    }
    fn scan_nodes(
        &self,
        label: Option<LabelId>,
        after: Option<NodeId>,
        limit: usize,
        out: &mut Vec<NodeId>,
    ) -> Result<(), DataError> {
        later()
    }
    fn scan_relationships(
        &self,
        rel_type: Option<TypeId>,
        after: Option<RelId>,
        limit: usize,
        out: &mut Vec<RelRow>,
    ) -> Result<(), DataError> {
        later()
    }
    fn expand(
        &self,
        nodes: &[NodeId],
        direction: Direction,
        types: &[TypeId],
        out: &mut Neighbours,
    ) -> Result<(), DataError> {
        later()
    }
    fn expand_into(
        &self,
        pairs: &[(NodeId, NodeId)],
        direction: Direction,
        types: &[TypeId],
        out: &mut Neighbours,
    ) -> Result<(), DataError> {
        later()
    }
    fn degree(
        &self,
        nodes: &[NodeId],
        direction: Direction,
        types: &[TypeId],
        out: &mut Vec<u64>,
    ) -> Result<(), DataError> {
        later()
    }
    fn nodes_exist(&self, ids: &[NodeId], out: &mut Vec<bool>) -> Result<(), DataError> {
        later()
    }
    fn node_labels(&self, ids: &[NodeId], out: &mut NodeLabels) -> Result<(), DataError> {
        later()
    }
    fn node_properties(
        &self,
        ids: &[NodeId],
        props: &[PropId],
        out: &mut [Vec<Value>],
    ) -> Result<(), DataError> {
        later()
    }
    fn node_contents(
        &self,
        ids: &[NodeId],
        out: &mut Vec<Option<Arc<NodeContent>>>,
    ) -> Result<(), DataError> {
        later()
    }
    fn relationship_rows(
        &self,
        ids: &[RelId],
        out: &mut Vec<Option<RelRow>>,
    ) -> Result<(), DataError> {
        later()
    }
    fn relationship_properties(
        &self,
        ids: &[RelId],
        props: &[PropId],
        out: &mut [Vec<Value>],
    ) -> Result<(), DataError> {
        later()
    }
    fn relationship_contents(
        &self,
        ids: &[RelId],
        out: &mut Vec<Option<Arc<RelationshipContent>>>,
    ) -> Result<(), DataError> {
        later()
    }
    fn node_by_key(&self, label: LabelId, key: &Value) -> Result<Option<NodeId>, DataError> {
        later()
    }
    fn index_seek(
        &self,
        seek: &IndexSeek<'_>,
        cursor: &mut IndexCursor,
        limit: usize,
        out: &mut Vec<NodeId>,
    ) -> Result<(), DataError> {
        later()
    }
}
