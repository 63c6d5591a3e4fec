//! What replication does within local transactions: the hooks that commits of `data` call.

use std::{any::Any, sync::Arc};

use isomer_data::{
    Conflict, ConvergentOwner, DataError, DataStore, DataStoreOptions, Engine, Transaction,
    internals::ReplicationHooks,
};
use isomer_layout::{
    graph::state::{KeyChanges, NodeState, RecordId, RelState},
    index::EntryChanges,
};
use isomer_storage::Read;
use isomer_value::{NodeId, RelId};

use crate::{
    buckets, conflicts, files, log_builder, members, records, scope,
    state::{NameHash, Replication},
    state_transfer::outgoing,
};

/// Opens a database that is a replica or can become one: as [`DataStore::open`], with replication.
///
/// # Errors
/// Those of [`DataStore::open`].
pub fn open(engine: Arc<dyn Engine>, options: DataStoreOptions) -> Result<DataStore, DataError> {
    DataStore::open_with(engine, options, Some(&HOOKS))
}

static HOOKS: Hooks = Hooks {
    name_hash: NameHash::XXH3,
};

/// The hooks of replication.
pub(crate) struct Hooks {
    pub(crate) name_hash: NameHash,
}

impl ReplicationHooks for Hooks {
    fn load(&self, read: &dyn Read) -> Result<Box<dyn Any + Send + Sync>, DataError> {
        Ok(Box::new(Replication::load(read, self.name_hash)?))
    }

    fn log_for_replicas(&self, tx: &mut Transaction) -> Result<(), DataError> {
        log_builder::log_for_replicas(tx)
    }

    fn note_identity(
        &self,
        tx: &mut Transaction,
        id: NodeId,
        old: &NodeState,
    ) -> Result<(), DataError> {
        records::note_identity(tx, id, old)
    }

    fn resolve_conflict_notes(
        &self,
        tx: &mut Transaction,
        owner: ConvergentOwner,
        names: &mut dyn Iterator<Item = &str>,
    ) -> Result<(), DataError> {
        conflicts::resolve_conflict_notes(tx, owner, names)
    }

    fn note_refused(
        &self,
        tx: &mut Transaction,
        id: NodeId,
        new: Option<&NodeState>,
        entries: &EntryChanges,
    ) -> Result<(), DataError> {
        conflicts::note_refused(tx, RecordId::Node(id), new, entries)
    }

    fn note_refused_relationship(
        &self,
        tx: &mut Transaction,
        id: RelId,
        new: Option<&RelState>,
        entries: &EntryChanges,
    ) -> Result<(), DataError> {
        conflicts::note_refused(tx, RecordId::Relationship(id), new, entries)
    }

    fn merge_keys(
        &self,
        tx: &mut Transaction,
        id: NodeId,
        changes: KeyChanges,
    ) -> Result<KeyChanges, DataError> {
        conflicts::merge_keys(tx, id, changes)
    }

    fn release_keys(
        &self,
        tx: &mut Transaction,
        id: NodeId,
        changes: KeyChanges,
    ) -> Result<KeyChanges, DataError> {
        conflicts::release_keys(tx, id, changes)
    }

    fn keep_bucket_metadata(&self, tx: &mut Transaction, bucket: u32) -> Result<(), DataError> {
        if scope::has_bucket(tx, bucket) {
            buckets::store_bucket_cells(tx, bucket)?;
        }
        Ok(())
    }

    fn replicates_files(&self, store: &DataStore) -> bool {
        scope::is_whole(store)
    }

    fn may_be_finished_elsewhere(&self, tx: &Transaction, number: u64) -> Result<bool, DataError> {
        files::may_be_finished_elsewhere(tx, number)
    }

    fn merge_mark(&self, tx: &Transaction, number: u64) -> Result<u64, DataError> {
        files::merge_mark(tx, number)
    }

    fn conflicts(&self, tx: &Transaction) -> Result<Vec<Conflict>, DataError> {
        conflicts::conflicts(tx)
    }

    fn epoch_begun(&self, store: &DataStore) -> Result<(), DataError> {
        members::wait_anew(store)
    }

    fn release_idle_reads(&self, store: &DataStore) {
        outgoing::release_idle_reads(store);
    }
}
