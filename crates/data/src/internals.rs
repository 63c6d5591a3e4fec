//! What the crate `replication` uses of this one, and no other crate: no interface for users, and without promises.
//!
//! Keys are still written here alone: replication passes the keys of its metadata rows, as `isomer_layout::keyspace`
//! makes them, to the transaction, which asserts that they are such keys.

use std::any::Any;

use isomer_layout::{DataError, catalog::names::NameTables};
use isomer_value::NodeId;
use parking_lot::RwLockWriteGuard;

use crate::{DataStore, Transaction, convergent::replica::OwnReplica};

pub use crate::replicated::{
    FileNote, ReplicaState, ReplicationHooks, ReplicationNotes, joining_error,
};

/// Transaction numbers of this database.
pub mod convergent {
    pub use crate::convergent::replica::{
        MAX_AHEAD_MS, OwnReplica, decode_seen, encode_seen, seeded,
    };
}

/// Conflict granules.
pub mod footprint {
    pub use crate::footprint::{Item, NONE, Space};
}

/// Limits of names, and names of properties in records.
pub mod store {
    pub use crate::store::{PropNames, check_name};
}

/// The name and the transaction numbers of this database as a replica.
pub fn own_replica(store: &DataStore) -> &OwnReplica {
    &store.shared().own_replica
}

/// Whether the database is a replica.
pub fn replica_state(store: &DataStore) -> &ReplicaState {
    &store.shared().replica_state
}

/// The state that replication keeps with a store; none if it was opened without replication.
pub fn replication_state(store: &DataStore) -> Option<&(dyn Any + Send + Sync)> {
    store.replication_state()
}

/// Excludes all commits until it is dropped.
pub fn hold_commits(store: &DataStore) -> RwLockWriteGuard<'_, ()> {
    store.shared().gate.write()
}

/// Notifies those that wait for a commit.
pub fn notify_readers(store: &DataStore) {
    store.shared().signal.0.notify();
}

/// The names of labels, types, properties and buckets, with those that were added since any transaction began.
pub fn names(store: &DataStore) -> &NameTables {
    &store.shared().names
}

/// An id for a node of the label with this number.
///
/// # Errors
/// Those of a commit.
pub fn allocate_node(tx: &Transaction, owner: u32) -> Result<NodeId, DataError> {
    let engine = tx.store().engine();
    Ok(NodeId(tx.shared().nodes.allocate(&**engine, owner)?))
}

/// A number for a file.
///
/// # Errors
/// Those of a commit.
pub fn new_file_number(tx: &Transaction) -> Result<u64, DataError> {
    tx.shared().files.take(&**tx.store().engine())
}

/// What the transaction recorded for its log entry.
pub fn notes(tx: &Transaction) -> &ReplicationNotes {
    &tx.noted
}

/// The same, to be changed.
pub fn notes_mut(tx: &mut Transaction) -> &mut ReplicationNotes {
    &mut tx.noted
}
