//! The calls from commits up into replication.

use std::any::Any;

use isomer_layout::{
    DataError,
    convergent::position::ConvergentOwner,
    graph::state::{KeyChanges, NodeState, RelState},
    index::EntryChanges,
};
use isomer_storage::Read;
use isomer_value::{NodeId, RelId};

use super::Conflict;
use crate::{DataStore, Transaction};

/// What `replication` does within the transactions of a replica. `data` calls it where the database is a replica; what
/// else is called, and when, each method says.
pub trait ReplicationHooks: Sync {
    /// Loads the state of replication when a store is opened. It is kept with the store
    /// ([`crate::internals::replication_state`]).
    ///
    /// # Errors
    /// [`DataError::Corrupt`]; those of the engine.
    fn load(&self, read: &dyn Read) -> Result<Box<dyn Any + Send + Sync>, DataError>;

    /// The first step of each commit that writes: adds the log entry for other replicas and the metadata rows.
    ///
    /// # Errors
    /// [`DataError::Limit`] for an entry that is too large; those of the engine.
    fn log_for_replicas(&self, tx: &mut Transaction) -> Result<(), DataError>;

    /// Before a local transaction changes or deletes a node: records its identity, which may be gone at the commit.
    ///
    /// # Errors
    /// Those of the engine.
    fn note_identity(
        &self,
        tx: &mut Transaction,
        id: NodeId,
        old: &NodeState,
    ) -> Result<(), DataError>;

    /// After a local transaction set properties, perhaps to their values: this resolves recorded conflicts.
    ///
    /// # Errors
    /// Those of the engine.
    fn resolve_conflict_notes(
        &self,
        tx: &mut Transaction,
        owner: ConvergentOwner,
        names: &mut dyn Iterator<Item = &str>,
    ) -> Result<(), DataError>;

    /// While a change of another replica is applied: records how a node's new state breaks indexes and constraints.
    ///
    /// # Errors
    /// Those of the engine.
    fn note_refused(
        &self,
        tx: &mut Transaction,
        id: NodeId,
        new: Option<&NodeState>,
        entries: &EntryChanges,
    ) -> Result<(), DataError>;

    /// As [`ReplicationHooks::note_refused`], of a relationship.
    ///
    /// # Errors
    /// Those of the engine.
    fn note_refused_relationship(
        &self,
        tx: &mut Transaction,
        id: RelId,
        new: Option<&RelState>,
        entries: &EntryChanges,
    ) -> Result<(), DataError>;

    /// While a change of another replica is applied: returns the keys whose owner changes.
    ///
    /// # Errors
    /// Those of the engine.
    fn merge_keys(
        &self,
        tx: &mut Transaction,
        id: NodeId,
        changes: KeyChanges,
    ) -> Result<KeyChanges, DataError>;

    /// While a local transaction changes keys: one that it releases passes to the next node that has it.
    ///
    /// # Errors
    /// Those of the engine.
    fn release_keys(
        &self,
        tx: &mut Transaction,
        id: NodeId,
        changes: KeyChanges,
    ) -> Result<KeyChanges, DataError>;

    /// Before a local transaction drops a bucket: stores the metadata that is implied until then.
    ///
    /// # Errors
    /// Those of the engine.
    fn keep_bucket_metadata(&self, tx: &mut Transaction, bucket: u32) -> Result<(), DataError>;

    /// Whether changes of files are sent to other replicas: not where a space is declared.
    fn replicates_files(&self, store: &DataStore) -> bool;

    /// Whether another database may continue a file without a path that this one made.
    ///
    /// # Errors
    /// Those of the engine.
    fn may_be_finished_elsewhere(&self, tx: &Transaction, number: u64) -> Result<bool, DataError>;

    /// Distinguishes contents of a file of one size and one time, equally in all replicas.
    ///
    /// # Errors
    /// Those of the engine.
    fn merge_mark(&self, tx: &Transaction, number: u64) -> Result<u64, DataError>;

    /// The current conflicts.
    ///
    /// # Errors
    /// Those of the engine.
    fn conflicts(&self, tx: &Transaction) -> Result<Vec<Conflict>, DataError>;

    /// A new epoch has begun: times in a backup are outdated.
    ///
    /// # Errors
    /// Those of a commit.
    fn epoch_begun(&self, store: &DataStore) -> Result<(), DataError>;

    /// A sweeper calls this periodically: releases old versions that no replica reads any more.
    fn release_idle_reads(&self, store: &DataStore);
}
