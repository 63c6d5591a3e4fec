//! The handles through which a transaction works with what replicas keep.

use isomer_layout::{DataError, convergent::position::ConvergentOwner, keyspace};
use isomer_storage::KeyRange;

use crate::{
    Conflict, Transaction,
    replicated::{FileNote, ReplicationHooks},
};

/// What a transaction is to other replicas: whether its writes are sent to them, and the conflicts between them.
///
/// Costs nothing in a database that is not a replica.
#[derive(Clone, Copy)]
pub struct Replication<'t> {
    pub(crate) tx: &'t Transaction,
}

/// Writes what replicas keep in addition to records: rows of metadata, and notes for the log entry.
pub struct ReplicationMut<'t> {
    pub(crate) tx: &'t mut Transaction,
}

impl Transaction {
    /// What the transaction is to other replicas.
    pub fn replication(&self) -> Replication<'_> {
        Replication { tx: self }
    }

    /// Writes of what replicas keep.
    pub fn replication_mut(&mut self) -> ReplicationMut<'_> {
        ReplicationMut { tx: self }
    }
}

impl Replication<'_> {
    /// The current conflicts between replicas, at most ten thousand; none in a database that is not a replica.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn conflicts(self) -> Result<Vec<Conflict>, DataError> {
        self.hooks()
            .map_or(Ok(Vec::new()), |hooks| hooks.conflicts(self.tx))
    }

    /// Whether the writes of this transaction are sent to other replicas.
    #[doc(hidden)]
    pub fn is_replicated(self) -> bool {
        self.tx.store().is_replicated() && !self.tx.noted.is_merging
    }

    /// Whether it applies changes of another replica.
    #[doc(hidden)]
    pub fn is_merging(self) -> bool {
        self.tx.noted.is_merging
    }

    /// What replication does in this transaction, where the database is a replica.
    pub(crate) fn hooks(self) -> Option<&'static dyn ReplicationHooks> {
        let store = self.tx.store();
        store.hooks().filter(|_| store.is_replicated())
    }

    /// The same, where its writes are sent to other replicas.
    pub(crate) fn logging_hooks(self) -> Option<&'static dyn ReplicationHooks> {
        self.hooks().filter(|_| !self.tx.noted.is_merging)
    }

    /// Whether changes of files are sent to other replicas.
    pub(crate) fn replicates_files(self) -> bool {
        let hooks = self.logging_hooks();
        hooks.is_some_and(|hooks| hooks.replicates_files(self.tx.store()))
    }
}

impl ReplicationMut<'_> {
    /// Properties were set, perhaps to their values: this resolves recorded conflicts between replicas.
    pub(crate) fn resolve_conflicts(
        &mut self,
        owner: ConvergentOwner,
        names: &mut dyn Iterator<Item = &str>,
    ) -> Result<(), DataError> {
        match self.tx.replication().logging_hooks() {
            Some(hooks) => hooks.resolve_conflict_notes(self.tx, owner, names),
            None => Ok(()),
        }
    }

    /// Records what this transaction does to a file.
    pub(crate) fn note_file(&mut self, note: impl FnOnce() -> FileNote) {
        if self.tx.replication().replicates_files() {
            self.tx.noted.files.push(note());
        }
    }

    /// Writes a row that replication merges: its metadata, or a value under it.
    #[doc(hidden)]
    pub fn put_row(&mut self, key: &[u8], value: &[u8]) -> Result<(), DataError> {
        assert!(
            keyspace::is_replica_row(key),
            "only this crate writes records and what is derived from them"
        );
        self.tx.put(key, value)
    }

    /// Deletes a row that replication merges.
    #[doc(hidden)]
    pub fn delete_row(&mut self, key: &[u8]) -> Result<(), DataError> {
        assert!(
            keyspace::is_replica_row(key),
            "only this crate deletes records and what is derived from them"
        );
        self.tx.delete(key)
    }

    /// Deletes a range of rows that replication merges.
    ///
    /// # Panics
    /// If the range holds keys of another kind than its start, which must be of a row that replication merges.
    #[doc(hidden)]
    pub fn delete_rows(&mut self, range: KeyRange<'_>) -> Result<(), DataError> {
        assert!(
            keyspace::is_replica_row(range.start),
            "only this crate deletes records and what is derived from them"
        );
        assert_eq!(
            range.end.and_then(<[u8]>::first),
            range.start.first(),
            "a range of rows begins and ends among keys of one kind"
        );
        self.tx.write(0, |tx| tx.delete_range(range))
    }
}

#[cfg(test)]
mod tests {
    use std::{
        panic::{AssertUnwindSafe, catch_unwind},
        sync::Arc,
    };

    use isomer_storage::MemoryEngine;

    use super::*;
    use crate::{Access, DataStore, DataStoreOptions};

    /// Replication deletes ranges of its own rows; a range that reaches other keys deletes nothing.
    #[test]
    fn a_range_of_rows_ends_among_rows_of_its_kind() {
        let engine = Arc::new(MemoryEngine::new());
        let store = DataStore::open(engine, DataStoreOptions::default()).unwrap();
        let mut tx = Transaction::begin(store, Access::Write).unwrap();
        let chunks = keyspace::file_chunks(7);
        let after = keyspace::after_prefix(&chunks).unwrap();
        let log = keyspace::log_entry(1, 1);
        let node = [keyspace::TAG_NODE, 0];
        let mut delete = |start: &[u8], end: Option<&[u8]>| {
            let range = KeyRange { start, end };
            let deleted =
                catch_unwind(AssertUnwindSafe(|| tx.replication_mut().delete_rows(range)));
            deleted.is_ok_and(|deleted| deleted.is_ok())
        };
        assert!(delete(&chunks, Some(&after)));
        for (start, end) in [
            (&chunks[..], None),
            (&chunks, Some(&log[..])),
            (&chunks, Some(&[])),
            (&node, Some(&chunks)),
            (&node, Some(&[keyspace::TAG_NODE, 9])),
        ] {
            assert!(!delete(start, end), "{start:?}..{end:?}");
        }
    }
}
