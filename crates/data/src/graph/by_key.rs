//! A node with its record by its key, for point reads.
//!
//! A key leads to an id and the id to a record: two searches in the engine. The id is cached, and as the record
//! contains its label and its key, reading it verifies the cached id, at any version: then one search is enough. The
//! cache is only a hint.

use isomer_layout::{
    DataError,
    catalog::names::NameKind,
    graph::{key::encode_found_key, state::KEY},
    keyspace,
};
use isomer_value::{
    LabelId, NodeContent, NodeId, Value,
    record::{RecordRef, RecordSealer},
};

use crate::{
    Access, Graph,
    graph::{key_hints::Slot, records::LabelSets},
};

/// A node's record as it was read.
#[derive(Debug)]
pub struct NodeRecord {
    pub(crate) id: NodeId,
    pub(crate) bytes: Vec<u8>,
}

impl NodeRecord {
    /// The node.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// Bytes of the record.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it is empty; a record never is.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

impl Graph<'_> {
    /// Whether a record alone determines a node, and reading it observes nothing: in a read-only transaction of a
    /// database that has no convergent fields and is not a replica.
    pub fn reads_plain_records(self) -> bool {
        let shared = self.tx.store().shared();
        self.tx.access() == Access::Read
            && !shared.own_replica.has_any()
            && !shared.replica_state.is_on()
    }

    /// The node that has `key` as its `_key` in `label`, with its record: equivalent to
    /// [`crate::GraphRead::node_by_key`] and another read. Only where [`Graph::reads_plain_records`] allows it.
    pub fn record_by_key(
        self,
        label: LabelId,
        key: &Value,
    ) -> Result<Option<NodeRecord>, DataError> {
        debug_assert!(self.reads_plain_records());
        let Some(encoded) = encode_found_key(key) else {
            return Ok(None);
        };
        let hints = &self.tx.store().shared().key_hints;
        let place = Slot::of(label, &encoded);
        if let Some(id) = hints.get(place)
            && let Some(bytes) = self.tx.read().get(&keyspace::node(id))?
            && self.is_keyed(&bytes, label, key)?
        {
            return Ok(Some(NodeRecord { id, bytes }));
        }
        let Some(id) = self.find_encoded_key(label, &encoded)? else {
            return Ok(None);
        };
        let Some(bytes) = self.tx.read().get(&keyspace::node(id))? else {
            return Err(DataError::corrupt(format!(
                "a key leads to node {id}, which does not exist"
            )));
        };
        hints.put(place, id, self.tx.store().memory());
        Ok(Some(NodeRecord { id, bytes }))
    }

    /// Whether a record is of a node of `label` under `key`.
    fn is_keyed(self, bytes: &[u8], label: LabelId, key: &Value) -> Result<bool, DataError> {
        let record = RecordRef::new(bytes)?;
        let names = &self.tx.names().names;
        if !record.has_label(label) {
            return Ok(false);
        }
        let Some(prop) = names.find(NameKind::Prop, KEY) else {
            return Ok(false);
        };
        let own = record.get(isomer_value::PropId(prop), &**names)?;
        Ok(match (own, key) {
            (Some(Value::Int(own)), Value::Int(key)) => own == *key,
            (Some(Value::String(own)), Value::String(key)) => own == *key,
            // Whole floats take the general path.
            _ => false,
        })
    }

    /// The whole node from its record.
    pub fn content_of(self, node: NodeRecord) -> Result<NodeContent, DataError> {
        let catalog = self.tx.names();
        let labels = LabelSets::new(catalog, 1).of(node.id, &RecordRef::new(&node.bytes)?)?;
        let properties = RecordSealer::seal(catalog.names.clone(), node.bytes)?;
        Ok(NodeContent { labels, properties })
    }

    /// One property from a node's record; null if the node has no property of this name.
    pub fn property_of(self, node: &NodeRecord, name: &str) -> Result<Value, DataError> {
        let names = &self.tx.names().names;
        let Some(prop) = names.find(NameKind::Prop, name) else {
            return Ok(Value::Null);
        };
        let record = RecordRef::new(&node.bytes)?;
        let found = record.get(isomer_value::PropId(prop), &**names)?;
        Ok(found.unwrap_or_default())
    }
}
