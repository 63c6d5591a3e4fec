//! Finding nodes and relationships by their identities, and the shadows of records.

use isomer_value::{LabelId, NodeId, PropId, RelId, Value, key, record::RecordRef};
use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_128;

use super::{
    files::FileNote,
    identity::Identity,
    shadow::{NodeShadow, RelShadow, identity_of},
};
use crate::{
    DataError, Transaction,
    footprint::{Item, NONE},
    graph::{KEY, NodeState, encode_key},
    keyspace::{self, IdSpace, push_id, sole_id},
    store::Shared,
};

/// What a transaction records for its log entry.
#[derive(Debug, Default)]
pub(crate) struct ReplicationNotes {
    /// Identities of nodes before they were changed.
    pub(super) identities: FxHashMap<NodeId, Identity>,
    /// Whether changed nodes are in the replicated space, where one is declared.
    pub(super) homes: FxHashMap<NodeId, bool>,
    /// Whether it applies changes of another replica: constraints refuse nothing then.
    pub(super) is_merging: bool,
    /// The node that is being merged, which may have no record yet, and its identity.
    pub(super) merged: Option<(NodeId, Identity)>,
    /// What it did to files, by their paths at that time.
    pub(crate) files: Vec<FileNote>,
}

impl Transaction {
    pub(super) fn shared(&self) -> &Shared {
        self.store().shared()
    }

    /// Whether the writes of this transaction are sent to other replicas.
    pub(crate) fn is_replicated(&self) -> bool {
        self.shared().replication.is_on() && !self.noted.is_merging
    }

    /// Whether it applies changes of another replica.
    pub(crate) fn is_merging(&self) -> bool {
        self.noted.is_merging
    }

    /// Local transactions and merges conflict over a record's metadata, too: a merge may change that alone.
    fn change_metadata(&mut self, space: IdSpace, id: u64) {
        let of_rel = space == IdSpace::Relationships;
        self.footprint_mut()
            .change_metadata(Item::Metadata { of_rel, id });
    }

    /// A local transaction has seen the content of its snapshot; a merge depends on the current metadata.
    pub(super) fn observe_metadata(&self, space: IdSpace, id: u64) {
        if self.is_merging() {
            let of_rel = space == IdSpace::Relationships;
            self.footprint()
                .read_metadata(Item::Metadata { of_rel, id });
        }
    }

    /// Records the identity of a node before it changes.
    pub(crate) fn note_identity(&mut self, id: NodeId, old: &NodeState) -> Result<(), DataError> {
        if !self.is_replicated() || self.noted.identities.contains_key(&id) {
            return Ok(());
        }
        let stored = self.read().get(&keyspace::shadow(IdSpace::Nodes, id.0))?;
        if let Some(space) = self.space() {
            let is_home = stored.is_some() || space.has_any(&old.labels);
            if !*self.noted.homes.entry(id).or_insert(is_home) {
                return Ok(());
            }
        }
        let identity = match stored {
            Some(stored) => identity_of(&stored)?,
            None => {
                let key = old.properties.get(KEY).map(encode_key).transpose()?;
                self.implied_identity(id, &old.labels, key)?
            }
        };
        self.noted.identities.insert(id, identity);
        Ok(())
    }

    /// The identity of a node that is older than replication.
    fn implied_identity(
        &self,
        id: NodeId,
        labels: &[LabelId],
        key: Option<Vec<u8>>,
    ) -> Result<Identity, DataError> {
        let replica = self.shared().replication.base()?.dot.replica;
        let keyed = self.first_by_name(labels).zip(key);
        Ok(match keyed {
            Some((label, key)) => Identity::Keyed { label, key },
            None => Identity::Made { replica, id: id.0 },
        })
    }

    /// The first label by name, of those of the space.
    pub(super) fn first_by_name(&self, labels: &[LabelId]) -> Option<LabelId> {
        let (names, space) = (self.catalog_ref(), self.space());
        let is_meant =
            |label: &LabelId| space.as_ref().is_none_or(|space| space.has_any(&[*label]));
        labels
            .iter()
            .copied()
            .filter(is_meant)
            .min_by_key(|label| names.label_name(*label))
    }

    fn implied_of(&self, id: NodeId, record: &RecordRef<'_>) -> Result<Identity, DataError> {
        let labels: Vec<LabelId> = record.labels().collect();
        let key = self.key_of(record)?;
        self.implied_identity(id, &labels, key)
    }

    /// The encoded `_key` of a record.
    pub(super) fn key_of(&self, record: &RecordRef<'_>) -> Result<Option<Vec<u8>>, DataError> {
        let Some(prop) = self.catalog_ref().prop_id(KEY) else {
            return Ok(None);
        };
        match record.get(prop, &*self.catalog_ref().names)? {
            Some(value @ (Value::Int(_) | Value::String(_))) => Ok(Some(key::encode(&value)?)),
            _ => Ok(None),
        }
    }

    /// The shadow of a node, stored or implied; none where there is neither record nor ghost.
    pub(super) fn node_shadow(&self, id: NodeId) -> Result<Option<NodeShadow>, DataError> {
        self.observe_metadata(IdSpace::Nodes, id.0);
        let shadow_key = keyspace::shadow(IdSpace::Nodes, id.0);
        let record_key = keyspace::node(id);
        let mut found = self.read().get_many(&[&shadow_key, &record_key])?;
        let (record, stored) = (found.pop().flatten(), found.pop().flatten());
        let record = record.as_deref().map(RecordRef::new).transpose()?;
        match (stored, record) {
            (Some(stored), record) => NodeShadow::decode(&stored, record.as_ref()).map(Some),
            (None, None) => Ok(None),
            (None, Some(record)) => {
                let base = self.shared().replication.base()?;
                let identity = self.implied_of(id, &record)?;
                NodeShadow::implied(identity, base, &record).map(Some)
            }
        }
    }

    pub(super) fn rel_shadow(&self, id: RelId) -> Result<Option<RelShadow>, DataError> {
        self.observe_metadata(IdSpace::Relationships, id.0);
        let shadow_key = keyspace::shadow(IdSpace::Relationships, id.0);
        let record_key = keyspace::relationship(id);
        let mut found = self.read().get_many(&[&shadow_key, &record_key])?;
        let (record, stored) = (found.pop().flatten(), found.pop().flatten());
        let Some(record) = record else {
            return Ok(None);
        };
        let record = RecordRef::new(&record)?;
        match stored {
            Some(stored) => RelShadow::decode(&stored, &record).map(Some),
            None => {
                let base = self.shared().replication.base()?;
                RelShadow::implied(self.implied_relationship(id)?, base, &record).map(Some)
            }
        }
    }

    fn implied_relationship(&self, id: RelId) -> Result<Identity, DataError> {
        let replica = self.shared().replication.base()?.dot.replica;
        Ok(Identity::Made { replica, id: id.0 })
    }

    /// The identity of a node.
    pub(super) fn node_identity(&self, id: NodeId) -> Result<Identity, DataError> {
        if let Some(identity) = self.noted.identities.get(&id) {
            return Ok(identity.clone());
        }
        if let Some(stored) = self.read().get(&keyspace::shadow(IdSpace::Nodes, id.0))? {
            return identity_of(&stored);
        }
        match self.read().get(&keyspace::node(id))? {
            Some(record) => self.implied_of(id, &RecordRef::new(&record)?),
            None => Err(DataError::Internal(format!("node {id} has no name"))),
        }
    }

    /// Type and ends of a relationship.
    pub(super) fn ends_of(&self, id: RelId) -> Result<Option<crate::RelRow>, DataError> {
        match self.read().get(&keyspace::relationship(id))? {
            Some(record) => crate::graph::row_of(id, &RecordRef::new(&record)?).map(Some),
            None => Ok(None),
        }
    }

    pub(super) fn rel_identity(&self, id: RelId) -> Result<Identity, DataError> {
        let stored = self
            .read()
            .get(&keyspace::shadow(IdSpace::Relationships, id.0))?;
        match stored {
            Some(stored) => identity_of(&stored),
            None => self.implied_relationship(id),
        }
    }

    /// The node of that identity, or a ghost.
    pub(super) fn find_node(&self, identity: &Identity) -> Result<Option<NodeId>, DataError> {
        if let Some(id) = self.find_identity(IdSpace::Nodes, identity)? {
            return Ok(Some(NodeId(id)));
        }
        // Not stored: it may be older than replication.
        let id = match identity {
            Identity::Keyed { label, key } => {
                let stored = [&keyspace::keys_of(*label)[..], key].concat();
                match self.read().get(&stored)? {
                    Some(value) => NodeId(sole_id(&value, "the node under a key")?),
                    None => return Ok(None),
                }
            }
            Identity::Made { replica, id } => {
                if *replica != self.shared().replication.base()?.dot.replica {
                    return Ok(None);
                }
                NodeId(*id)
            }
        };
        let shadow = self.read().get(&keyspace::shadow(IdSpace::Nodes, id.0))?;
        let record = self.read().get(&keyspace::node(id))?;
        match (shadow, record) {
            (None, Some(record)) => {
                let record = RecordRef::new(&record)?;
                let implied = self.implied_of(id, &record)?;
                let is_home = self.space().is_none_or(|space| space.has_label_of(&record));
                Ok((is_home && implied == *identity).then_some(id))
            }
            _ => Ok(None),
        }
    }

    pub(super) fn find_rel(&self, identity: &Identity) -> Result<Option<RelId>, DataError> {
        if let Some(id) = self.find_identity(IdSpace::Relationships, identity)? {
            return Ok(Some(RelId(id)));
        }
        let Identity::Made { replica, id } = identity else {
            return Ok(None);
        };
        if *replica != self.shared().replication.base()?.dot.replica {
            return Ok(None);
        }
        let shadow = self
            .read()
            .get(&keyspace::shadow(IdSpace::Relationships, *id))?;
        let record = self.read().get(&keyspace::relationship(RelId(*id)))?;
        let is_implied = shadow.is_none() && record.is_some();
        Ok((is_implied && self.has_relationship(RelId(*id))?).then_some(RelId(*id)))
    }

    pub(super) fn find_identity(
        &self,
        space: IdSpace,
        identity: &Identity,
    ) -> Result<Option<u64>, DataError> {
        let key = keyspace::identity(space, &identity.to_bytes());
        self.footprint().read_metadata(Item::Named(xxh3_128(&key)));
        match self.read().get(&key)? {
            Some(value) => sole_id(&value, "what a name of replication names").map(Some),
            None => Ok(None),
        }
    }

    /// Stores the shadow of a node, and its identity.
    pub(super) fn put_node_shadow(
        &mut self,
        id: NodeId,
        shadow: &NodeShadow,
        contested: &[PropId],
        has_record: bool,
    ) -> Result<(), DataError> {
        let key = |prop| keyspace::conflict_in_node(id, prop);
        self.note_contested(&key, contested, &shadow.properties)?;
        let stored = shadow.encode(has_record, &self.shared().own_replica);
        self.change_metadata(IdSpace::Nodes, id.0);
        self.put(&keyspace::shadow(IdSpace::Nodes, id.0), &stored)?;
        self.put_identity(IdSpace::Nodes, &shadow.identity, id.0)
    }

    pub(super) fn put_rel_shadow(
        &mut self,
        id: RelId,
        shadow: &RelShadow,
        contested: &[PropId],
    ) -> Result<(), DataError> {
        let key = |prop| keyspace::conflict_in_relationship(id, prop);
        self.note_contested(&key, contested, &shadow.properties)?;
        let stored = shadow.encode(true, &self.shared().own_replica);
        self.change_metadata(IdSpace::Relationships, id.0);
        self.put(&keyspace::shadow(IdSpace::Relationships, id.0), &stored)?;
        self.put_identity(IdSpace::Relationships, &shadow.identity, id.0)
    }

    pub(super) fn put_identity(
        &mut self,
        space: IdSpace,
        identity: &Identity,
        id: u64,
    ) -> Result<(), DataError> {
        if self.find_identity(space, identity)? == Some(id) {
            return Ok(());
        }
        let key = keyspace::identity(space, &identity.to_bytes());
        self.footprint_mut()
            .change_metadata(Item::Named(xxh3_128(&key)));
        let mut value = Vec::new();
        push_id(&mut value, id);
        self.put(&key, &value)
    }

    /// Deletes shadow, identity and conflicts of a deleted record.
    pub(super) fn drop_shadow(
        &mut self,
        space: IdSpace,
        id: u64,
        identity: &Identity,
    ) -> Result<(), DataError> {
        self.change_metadata(space, id);
        self.delete(&keyspace::shadow(space, id))?;
        self.forget_conflicts(space, id)?;
        // If it was created again in the same transaction, the identity leads to the new one.
        if self.find_identity(space, identity)? == Some(id) {
            let key = keyspace::identity(space, &identity.to_bytes());
            self.footprint_mut()
                .change_metadata(Item::Named(xxh3_128(&key)));
            self.delete(&key)?;
        }
        Ok(())
    }

    /// An id for a node that is created, or for a ghost.
    pub(super) fn new_node_id(&self, home: Option<LabelId>) -> Result<NodeId, DataError> {
        let owner = home.map_or(NONE, |label| label.0);
        let engine = self.store().engine();
        Ok(NodeId(self.shared().nodes.allocate(&**engine, owner)?))
    }
}
