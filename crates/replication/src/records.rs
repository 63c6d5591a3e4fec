//! Finding nodes and relationships by their identities, and the metadata rows of records.

use isomer_data::{
    DataError, Transaction,
    internals::{
        allocate_node,
        footprint::{Item, NONE},
        notes, notes_mut, own_replica,
    },
};
use isomer_layout::{
    graph::{
        key::encode_key,
        state::{KEY, NodeState},
    },
    keyspace::{self, IdSpace, push_id, sole_id},
    replicated::identity::Identity,
};
use isomer_value::{LabelId, NodeId, PropId, RelId, Value, key, record::RecordRef};
use xxhash_rust::xxh3::xxh3_128;

use crate::{
    metadata::{NodeMetadata, RelMetadata, identity_of},
    property_conflicts, scope,
    state::replication_of,
};

/// Local transactions and merges conflict over a record's metadata, too: a merge may change that alone.
fn change_metadata(tx: &mut Transaction, space: IdSpace, id: u64) {
    let of_rel = space == IdSpace::Relationships;
    tx.footprint_mut()
        .change_metadata(Item::Metadata { of_rel, id });
}

/// A local transaction has seen the content of its snapshot; a merge depends on the current metadata.
pub(crate) fn observe_metadata(tx: &Transaction, space: IdSpace, id: u64) {
    if tx.replication().is_merging() {
        let of_rel = space == IdSpace::Relationships;
        tx.footprint().read_metadata(Item::Metadata { of_rel, id });
    }
}

/// Records the identity of a node before it changes.
pub(crate) fn note_identity(
    tx: &mut Transaction,
    id: NodeId,
    old: &NodeState,
) -> Result<(), DataError> {
    if !tx.replication().is_replicated() || notes(tx).identities.contains_key(&id) {
        return Ok(());
    }
    let stored = tx
        .read()
        .get(&keyspace::metadata_row(IdSpace::Nodes, id.0))?;
    if let Some(space) = scope::space(tx) {
        let is_home = stored.is_some() || space.has_any(&old.labels);
        if !*notes_mut(tx).homes.entry(id).or_insert(is_home) {
            return Ok(());
        }
    }
    let identity = match stored {
        Some(stored) => identity_of(&stored)?,
        None => {
            let key = old.properties.get(KEY).map(encode_key).transpose()?;
            implied_identity(tx, id, &old.labels, key)?
        }
    };
    notes_mut(tx).identities.insert(id, identity);
    Ok(())
}

/// The identity of a node that is older than replication.
fn implied_identity(
    tx: &Transaction,
    id: NodeId,
    labels: &[LabelId],
    key: Option<Vec<u8>>,
) -> Result<Identity, DataError> {
    let replica = replication_of(tx.store()).base()?.dot.replica;
    let keyed = first_by_name(tx, labels).zip(key);
    Ok(match keyed {
        Some((label, key)) => Identity::Keyed { label, key },
        None => Identity::Made { replica, id: id.0 },
    })
}

/// The first label by name, of those of the space.
pub(crate) fn first_by_name(tx: &Transaction, labels: &[LabelId]) -> Option<LabelId> {
    let (names, space) = (tx.names(), scope::space(tx));
    let is_meant = |label: &LabelId| space.as_ref().is_none_or(|space| space.has_any(&[*label]));
    labels
        .iter()
        .copied()
        .filter(is_meant)
        .min_by_key(|label| names.label_name(*label))
}

fn implied_of(tx: &Transaction, id: NodeId, record: &RecordRef<'_>) -> Result<Identity, DataError> {
    let labels: Vec<LabelId> = record.labels().collect();
    let key = key_of(tx, record)?;
    implied_identity(tx, id, &labels, key)
}

/// The encoded `_key` of a record.
pub(crate) fn key_of(
    tx: &Transaction,
    record: &RecordRef<'_>,
) -> Result<Option<Vec<u8>>, DataError> {
    let Some(prop) = tx.names().prop_id(KEY) else {
        return Ok(None);
    };
    match record.get(prop, &*tx.names().names)? {
        Some(value @ (Value::Int(_) | Value::String(_))) => Ok(Some(key::encode(&value)?)),
        _ => Ok(None),
    }
}

/// The metadata row of a node, stored or implied; none if there is neither record nor ghost.
pub(crate) fn node_metadata(
    tx: &Transaction,
    id: NodeId,
) -> Result<Option<NodeMetadata>, DataError> {
    observe_metadata(tx, IdSpace::Nodes, id.0);
    let metadata_key = keyspace::metadata_row(IdSpace::Nodes, id.0);
    let record_key = keyspace::node(id);
    let mut found = tx.read().get_many(&[&metadata_key, &record_key])?;
    let (record, stored) = (found.pop().flatten(), found.pop().flatten());
    let record = record.as_deref().map(RecordRef::new).transpose()?;
    match (stored, record) {
        (Some(stored), record) => NodeMetadata::decode(&stored, record.as_ref()).map(Some),
        (None, None) => Ok(None),
        (None, Some(record)) => {
            let base = replication_of(tx.store()).base()?;
            let identity = implied_of(tx, id, &record)?;
            NodeMetadata::implied(identity, base, &record).map(Some)
        }
    }
}

pub(crate) fn rel_metadata(tx: &Transaction, id: RelId) -> Result<Option<RelMetadata>, DataError> {
    observe_metadata(tx, IdSpace::Relationships, id.0);
    let metadata_key = keyspace::metadata_row(IdSpace::Relationships, id.0);
    let record_key = keyspace::relationship(id);
    let mut found = tx.read().get_many(&[&metadata_key, &record_key])?;
    let (record, stored) = (found.pop().flatten(), found.pop().flatten());
    let Some(record) = record else {
        return Ok(None);
    };
    let record = RecordRef::new(&record)?;
    match stored {
        Some(stored) => RelMetadata::decode(&stored, &record).map(Some),
        None => {
            let base = replication_of(tx.store()).base()?;
            RelMetadata::implied(implied_relationship(tx, id)?, base, &record).map(Some)
        }
    }
}

fn implied_relationship(tx: &Transaction, id: RelId) -> Result<Identity, DataError> {
    let replica = replication_of(tx.store()).base()?.dot.replica;
    Ok(Identity::Made { replica, id: id.0 })
}

/// The identity of a node.
pub(crate) fn node_identity(tx: &Transaction, id: NodeId) -> Result<Identity, DataError> {
    if let Some(identity) = notes(tx).identities.get(&id) {
        return Ok(identity.clone());
    }
    if let Some(stored) = tx
        .read()
        .get(&keyspace::metadata_row(IdSpace::Nodes, id.0))?
    {
        return identity_of(&stored);
    }
    match tx.read().get(&keyspace::node(id))? {
        Some(record) => implied_of(tx, id, &RecordRef::new(&record)?),
        None => Err(DataError::Internal(format!("node {id} has no name"))),
    }
}

pub(crate) fn rel_identity(tx: &Transaction, id: RelId) -> Result<Identity, DataError> {
    let stored = tx
        .read()
        .get(&keyspace::metadata_row(IdSpace::Relationships, id.0))?;
    match stored {
        Some(stored) => identity_of(&stored),
        None => implied_relationship(tx, id),
    }
}

/// The node of that identity, or a ghost.
pub(crate) fn find_node(
    tx: &Transaction,
    identity: &Identity,
) -> Result<Option<NodeId>, DataError> {
    if let Some(id) = find_identity(tx, IdSpace::Nodes, identity)? {
        return Ok(Some(NodeId(id)));
    }
    // Not stored: it may be older than replication.
    let id = match identity {
        Identity::Keyed { label, key } => {
            let stored = [&keyspace::keys_of(*label)[..], key].concat();
            match tx.read().get(&stored)? {
                Some(value) => NodeId(sole_id(&value, "the node under a key")?),
                None => return Ok(None),
            }
        }
        Identity::Made { replica, id } => {
            if *replica != replication_of(tx.store()).base()?.dot.replica {
                return Ok(None);
            }
            NodeId(*id)
        }
    };
    let metadata = tx
        .read()
        .get(&keyspace::metadata_row(IdSpace::Nodes, id.0))?;
    let record = tx.read().get(&keyspace::node(id))?;
    match (metadata, record) {
        (None, Some(record)) => {
            let record = RecordRef::new(&record)?;
            let implied = implied_of(tx, id, &record)?;
            let is_home = scope::space(tx).is_none_or(|space| space.has_label_of(&record));
            Ok((is_home && implied == *identity).then_some(id))
        }
        _ => Ok(None),
    }
}

pub(crate) fn find_rel(tx: &Transaction, identity: &Identity) -> Result<Option<RelId>, DataError> {
    if let Some(id) = find_identity(tx, IdSpace::Relationships, identity)? {
        return Ok(Some(RelId(id)));
    }
    let Identity::Made { replica, id } = identity else {
        return Ok(None);
    };
    if *replica != replication_of(tx.store()).base()?.dot.replica {
        return Ok(None);
    }
    let metadata = tx
        .read()
        .get(&keyspace::metadata_row(IdSpace::Relationships, *id))?;
    let record = tx.read().get(&keyspace::relationship(RelId(*id)))?;
    let is_implied = metadata.is_none() && record.is_some();
    Ok((is_implied && scope::has_relationship(tx, RelId(*id))?).then_some(RelId(*id)))
}

pub(crate) fn find_identity(
    tx: &Transaction,
    space: IdSpace,
    identity: &Identity,
) -> Result<Option<u64>, DataError> {
    let key = keyspace::identity(space, &identity.to_bytes());
    tx.footprint().read_metadata(Item::Named(xxh3_128(&key)));
    match tx.read().get(&key)? {
        Some(value) => sole_id(&value, "what a name of replication names").map(Some),
        None => Ok(None),
    }
}

/// Stores the metadata row of a node, and its identity.
pub(crate) fn put_node_metadata(
    tx: &mut Transaction,
    id: NodeId,
    metadata: &NodeMetadata,
    conflicting_properties: &[PropId],
    has_record: bool,
) -> Result<(), DataError> {
    let key = |prop| keyspace::conflict_in_node(id, prop);
    property_conflicts::record_conflicts(tx, &key, conflicting_properties, &metadata.properties)?;
    let stored = metadata.encode(has_record, own_replica(tx.store()));
    change_metadata(tx, IdSpace::Nodes, id.0);
    tx.replication_mut()
        .put_row(&keyspace::metadata_row(IdSpace::Nodes, id.0), &stored)?;
    put_identity(tx, IdSpace::Nodes, &metadata.identity, id.0)
}

pub(crate) fn put_rel_metadata(
    tx: &mut Transaction,
    id: RelId,
    metadata: &RelMetadata,
    conflicting_properties: &[PropId],
) -> Result<(), DataError> {
    let key = |prop| keyspace::conflict_in_relationship(id, prop);
    property_conflicts::record_conflicts(tx, &key, conflicting_properties, &metadata.properties)?;
    let stored = metadata.encode(true, own_replica(tx.store()));
    change_metadata(tx, IdSpace::Relationships, id.0);
    tx.replication_mut().put_row(
        &keyspace::metadata_row(IdSpace::Relationships, id.0),
        &stored,
    )?;
    put_identity(tx, IdSpace::Relationships, &metadata.identity, id.0)
}

pub(crate) fn put_identity(
    tx: &mut Transaction,
    space: IdSpace,
    identity: &Identity,
    id: u64,
) -> Result<(), DataError> {
    if find_identity(tx, space, identity)? == Some(id) {
        return Ok(());
    }
    let key = keyspace::identity(space, &identity.to_bytes());
    tx.footprint_mut()
        .change_metadata(Item::Named(xxh3_128(&key)));
    let mut value = Vec::new();
    push_id(&mut value, id);
    tx.replication_mut().put_row(&key, &value)
}

/// Deletes metadata row, identity and conflicts of a deleted record.
pub(crate) fn delete_metadata(
    tx: &mut Transaction,
    space: IdSpace,
    id: u64,
    identity: &Identity,
) -> Result<(), DataError> {
    change_metadata(tx, space, id);
    tx.replication_mut()
        .delete_row(&keyspace::metadata_row(space, id))?;
    property_conflicts::delete_conflicts(tx, space, id)?;
    // If it was created again in the same transaction, the identity leads to the new one.
    if find_identity(tx, space, identity)? == Some(id) {
        let key = keyspace::identity(space, &identity.to_bytes());
        tx.footprint_mut()
            .change_metadata(Item::Named(xxh3_128(&key)));
        tx.replication_mut().delete_row(&key)?;
    }
    Ok(())
}

/// An id for a node that is created, or for a ghost.
pub(crate) fn new_node_id(tx: &Transaction, home: Option<LabelId>) -> Result<NodeId, DataError> {
    let owner = home.map_or(NONE, |label| label.0);
    allocate_node(tx, owner)
}
