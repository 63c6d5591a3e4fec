//! What the crate `replication` uses of this one, and no other crate: no interface for users, and without promises.
//!
//! Keys are still written here alone: replication passes the keys of its metadata rows, as `keyspace` makes them, to
//! the transaction, which asserts that they are such keys.

use std::any::Any;

use isomer_value::NodeId;
use parking_lot::RwLockWriteGuard;

use crate::{DataError, DataStore, Transaction, catalog::Names, convergent::replica::OwnReplica};

pub use crate::replicated::{
    FileNote, Identity, ReplicaState, ReplicationHooks, ReplicationNotes, codec, joining_error,
};

/// The catalog's names.
pub mod catalog {
    pub use crate::catalog::NameKind;
}

/// Convergent fields: operations as other replicas send them, and vectors.
pub mod convergent {
    pub use crate::convergent::{
        Action, Entries, FieldPosition, MAX_NUMBER, counter_amount, entry_dot, entry_parts,
        join_rows,
        replica::{MAX_AHEAD_MS, OwnReplica, decode_seen, encode_seen, seeded},
        stays_alone,
    };
}

/// Records of files, and names in paths.
pub mod files {
    pub use crate::files::{MAX_PATH_NAMES, ROOT, Stored, names};
}

/// Conflict granules.
pub mod footprint {
    pub use crate::footprint::{Item, NONE, Space};
}

/// Nodes as they are changed.
pub mod graph {
    pub use crate::graph::{KEY, KeyChanges, NodeState, encode_key, row_of};
}

/// Entries of indexes.
pub mod index {
    pub use crate::index::{EntryChanges, brief_values, entries_of};
}

/// Keys, and the codec of numbers in them.
pub mod keyspace {
    pub use crate::keyspace::*;
}

/// Entries of buckets.
pub mod kv {
    pub use crate::kv::{encode_entry, entry_parts};
}

/// Properties in messages.
pub mod properties {
    pub use crate::properties::brief;
}

/// Scans.
pub mod read {
    pub use crate::pairs::each_pair;
}

/// Limits of names, and names of properties in records.
pub mod store {
    pub use crate::store::{PropNames, check_name};
}

/// Operations of the change stream.
pub mod stream {
    pub use crate::stream::operations;
}

/// The name and the transaction numbers of this database as a replica.
pub fn own_replica(store: &DataStore) -> &OwnReplica {
    &store.shared().own_replica
}

/// Whether the database is a replica.
pub fn replica_state(store: &DataStore) -> &ReplicaState {
    &store.shared().replica_state
}

/// The state that replication keeps with a store; none where it was opened without replication.
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
pub fn names(store: &DataStore) -> &Names {
    store.shared_names()
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
