//! Transactions: one version of the database and, on top, the transaction's own changes.

pub(crate) mod commit;
mod covered;

use std::{
    cell::{OnceCell, RefCell, RefMut},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use isomer_storage::{
    EngineSavepoint, KeyRange, Order, Page, PageLimit, Read, Snapshot, StorageError, Version,
};
use isomer_value::{LabelId, PropId, TypeId};

use self::covered::{Covered, covers_small};
use crate::{
    Access, Catalog, Conflict, ConvergentOwner, DataError, DataStore, Dirty, IdSet, SchemaChange,
    SchemaOutcome,
    catalog::NameKind,
    convergent::Ongoing,
    deferred::Deferred,
    footprint::Footprint,
    keyspace,
    kv::{BucketCache, bucket::KnownBuckets},
    replicated::{FileNote, ReplicationHooks, ReplicationNotes},
    statistics::Changed,
    store::Shared,
    stream::change::{Change, Deltas},
};

/// Keys, in their order.
type Keys = Vec<Vec<u8>>;

/// A savepoint inside a transaction, to roll a failed statement back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint {
    /// Its index among those that exist.
    at: usize,
    /// The number of savepoints of the transaction before it: an index is used again after a release.
    number: u64,
}

/// A transaction: one version of the database and, on top, its own changes. Owned and `Send`; dropping it without a
/// commit leaves no trace.
///
/// Reads (see [`crate::GraphRead`]) work on `&self`; writes need `&mut self` and [`Access::Write`]. A write that is
/// refused changes nothing. A write that the *engine* fails half-way (full disk, write set over its limit) breaks the
/// transaction: it can be rolled back, to a mark or whole, but not committed.
pub struct Transaction {
    store: DataStore,
    catalog: Arc<Catalog>,
    state: State,
    footprint: RefCell<Footprint>,
    /// The change stream's operations so far.
    operations: Vec<u8>,
    deltas: Deltas,
    /// Approximate input of the statistics: rolled-back changes stay in it.
    changed: Changed,
    marks: Vec<SavepointState>,
    /// Number of savepoints that were set.
    mark_count: u64,
    /// Most bytes of writes and operations.
    max_bytes: usize,
    /// The reserved part of the memory budget.
    covered: Covered,
    /// Whether any key was written, also outside the change stream.
    wrote: bool,
    /// A write failed half-way.
    broken: bool,
    /// See [`Transaction::refuse_commit`].
    refused: bool,
    /// Transaction timestamp (ms), fixed at first use.
    now: OnceCell<u64>,
    /// Buckets that were looked up, by number; nothing for one that does not exist.
    buckets: RefCell<KnownBuckets>,
    dropped_buckets: Vec<String>,
    /// Whether it created, dropped or changed a bucket.
    changed_buckets: bool,
    dirty: Dirty,
    /// Checks that are due at the end of the current statement.
    deferred: Deferred,
    /// Nodes that were found to exist, as ends of relationships; cleared where one may be deleted.
    ends: IdSet,
    /// Buffers for keys and records.
    scratch: Vec<Vec<u8>>,
    stamp: Stamp,
    /// Its number and its vector, after its first convergent operation.
    pub(crate) converging: Option<Box<Ongoing>>,
    /// Recorded for the commit, where it is sent to other replicas.
    pub(crate) noted: ReplicationNotes,
    /// Buckets whose names begin with this are read-only.
    reserved: Option<&'static str>,
}

/// A state of a transaction: unique among all states of all transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    transaction: u64,
    writes: u64,
}

impl Stamp {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            transaction: NEXT.fetch_add(1, Ordering::Relaxed),
            writes: 0,
        }
    }
}

enum State {
    Reading(Arc<dyn Snapshot>),
    Writing(Box<dyn isomer_storage::EngineTransaction>),
}

struct SavepointState {
    number: u64,
    savepoint: EngineSavepoint,
    operations: usize,
    /// The number of file notes.
    files: usize,
    deltas: Deltas,
}

impl Transaction {
    #[doc(hidden)]
    pub fn begin(store: DataStore, access: Access) -> Result<Self, DataError> {
        let state = match access {
            Access::Read => State::Reading(store.engine().snapshot()?),
            Access::Write => {
                store.store_last_epoch()?;
                State::Writing(store.engine().begin()?)
            }
        };
        Self::with_state(store, state)
    }

    pub(crate) fn begin_at(
        store: DataStore,
        version: Version,
        now_ms: Option<u64>,
    ) -> Result<Self, DataError> {
        let snapshot = store.engine().snapshot_at(version)?;
        let begun = Self::with_state(store, State::Reading(snapshot))?;
        if let Some(now) = now_ms {
            // The clock was not read before.
            let _ = begun.now.set(now);
        }
        Ok(begun)
    }

    /// A reader of a held version.
    #[doc(hidden)]
    pub fn begin_of(store: DataStore, snapshot: Arc<dyn Snapshot>) -> Result<Self, DataError> {
        Self::with_state(store, State::Reading(snapshot))
    }

    fn with_state(store: DataStore, state: State) -> Result<Self, DataError> {
        let writes = matches!(state, State::Writing(_));
        let catalog = store.catalog_at(state.read())?;
        let mut footprint = Footprint::new(writes, store.options().footprint_limit);
        footprint.read_schema();
        Ok(Self::made(store, catalog, state, footprint))
    }

    fn made(store: DataStore, catalog: Arc<Catalog>, state: State, footprint: Footprint) -> Self {
        let max_bytes = store.engine().capabilities().max_transaction_bytes;
        Self {
            max_bytes,
            covered: Covered::default(),
            store,
            catalog,
            state,
            footprint: RefCell::new(footprint),
            operations: Vec::new(),
            deltas: Deltas::default(),
            changed: Changed::default(),
            marks: Vec::new(),
            wrote: false,
            mark_count: 0,
            broken: false,
            refused: false,
            now: OnceCell::new(),
            buckets: RefCell::default(),
            dropped_buckets: Vec::new(),
            changed_buckets: false,
            dirty: Dirty::default(),
            deferred: Deferred::default(),
            ends: IdSet::default(),
            scratch: Vec::new(),
            stamp: Stamp::new(),
            converging: None,
            noted: ReplicationNotes::default(),
            reserved: None,
        }
    }

    /// Another reader of the same version, for another thread. None for a writing transaction, whose writes and
    /// observations are private.
    pub fn fork(&self) -> Option<Self> {
        let State::Reading(snapshot) = &self.state else {
            return None;
        };
        let footprint = Footprint::new(false, self.store.options().footprint_limit);
        let state = State::Reading(snapshot.clone());
        Some(Self {
            now: self.now.clone(),
            reserved: self.reserved,
            ..Self::made(self.store.clone(), self.catalog.clone(), state, footprint)
        })
    }

    /// The store it belongs to.
    pub fn store(&self) -> &DataStore {
        &self.store
    }

    /// What it may do.
    pub fn access(&self) -> Access {
        match self.state {
            State::Reading(_) => Access::Read,
            State::Writing(_) => Access::Write,
        }
    }

    /// The version that it reads.
    pub fn version(&self) -> Version {
        self.state.read().version()
    }

    /// Names and schema that it sees.
    pub fn names(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// The label's number; a new name is entered into the catalog at once.
    pub fn intern_label(&self, name: &str) -> Result<LabelId, DataError> {
        self.intern(NameKind::Label, name).map(LabelId)
    }

    /// The relationship type's number; a new name is entered into the catalog at once.
    pub fn intern_type(&self, name: &str) -> Result<TypeId, DataError> {
        self.intern(NameKind::Type, name).map(TypeId)
    }

    /// The property name's number; a new name is entered into the catalog at once.
    pub fn intern_prop(&self, name: &str) -> Result<PropId, DataError> {
        self.intern(NameKind::Prop, name).map(PropId)
    }

    /// The label's number where it has one. A missing number is an observation: no node can have the label, and a
    /// transaction that writes conflicts if another one has used the label concurrently.
    pub fn find_label(&self, name: &str) -> Option<LabelId> {
        self.find(NameKind::Label, name).map(LabelId)
    }

    /// As [`Transaction::find_label`], for a relationship type.
    pub fn find_type(&self, name: &str) -> Option<TypeId> {
        self.find(NameKind::Type, name).map(TypeId)
    }

    /// As [`Transaction::find_label`], for a property name.
    pub fn find_prop(&self, name: &str) -> Option<PropId> {
        self.find(NameKind::Prop, name).map(PropId)
    }

    #[doc(hidden)]
    pub fn find(&self, kind: NameKind, name: &str) -> Option<u32> {
        if let Some(id) = self.catalog.names.find(kind, name) {
            return Some(id);
        }
        // Observed before the second lookup: a name added in between is then found, one added later conflicts.
        let news = self.footprint().read_absent_name(kind, name);
        news.then(|| self.store.find_after_interning(kind, name))
            .flatten()
    }

    #[doc(hidden)]
    pub fn intern(&self, kind: NameKind, name: &str) -> Result<u32, DataError> {
        if let Some(id) = self.catalog.names.find(kind, name) {
            return Ok(id);
        }
        if self.access() == Access::Read {
            return Err(reads_only());
        }
        self.store.intern(kind, name)
    }

    /// Refuses writes to buckets whose names begin with `prefix`, from now on; to none where there is none.
    pub fn reserve_buckets(&mut self, prefix: Option<&'static str>) {
        self.reserved = prefix;
    }

    /// Whether this transaction has written.
    pub fn has_writes(&self) -> bool {
        !self.operations.is_empty()
    }

    /// Bytes of memory of the transaction's changes.
    pub fn write_bytes(&self) -> usize {
        match &self.state {
            State::Reading(_) => 0,
            State::Writing(tx) => {
                tx.write_bytes() + self.operations.capacity() + self.deferred.bytes()
            }
        }
    }

    /// Refuses writes from now on that would take [`Transaction::write_bytes`] over `bytes`, or over the limit of the
    /// engine. A transaction with a refused write can only be rolled back.
    pub fn limit_writes(&mut self, bytes: usize) {
        let most = self.store.engine().capabilities().max_transaction_bytes;
        self.max_bytes = most.min(bytes);
    }

    /// Changes the schema; only in a transaction that has neither read nor written. Runs in separate transactions,
    /// after which this transaction continues at the new version.
    ///
    /// # Errors
    /// Those of [`DataStore::change_schema`]; [`DataError::Denied`] after a read or write or in a reading transaction.
    pub fn change_schema(&mut self, change: SchemaChange) -> Result<SchemaOutcome, DataError> {
        self.change_schema_while(change, &mut || true)
    }

    /// As [`Transaction::change_schema`], asking from time to time whether to continue: see
    /// [`DataStore::change_schema_while`].
    pub fn change_schema_while(
        &mut self,
        change: SchemaChange,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<SchemaOutcome, DataError> {
        if self.access() == Access::Read {
            return Err(reads_only());
        }
        if self.has_writes() || self.footprint().is_engaged() {
            return Err(DataError::Denied(
                "indexes and constraints cannot be changed after a read or write in the same transaction: commit it first".into(),
            ));
        }
        let outcome = self.store.change_schema_while(change, go_on)?;
        let reserved = self.reserved;
        *self = Self::begin(self.store.clone(), Access::Write)?;
        self.reserved = reserved;
        Ok(outcome)
    }

    /// Sets a savepoint.
    pub fn savepoint(&mut self) -> Savepoint {
        let State::Writing(tx) = &mut self.state else {
            return Savepoint { at: 0, number: 0 };
        };
        let savepoint = tx.savepoint();
        let number = self.mark_count;
        self.mark_count += 1;
        self.marks.push(SavepointState {
            number,
            savepoint,
            operations: self.operations.len(),
            files: self.noted.files.len(),
            deltas: self.deltas.clone(),
        });
        Savepoint {
            at: self.marks.len() - 1,
            number,
        }
    }

    /// Rolls all writes back to `mark`, which may be used again. Observations are kept; checks are no longer deferred.
    ///
    /// # Errors
    /// [`DataError::Invalid`] for a mark that was released or rolled back.
    pub fn rollback_to(&mut self, mark: Savepoint) -> Result<(), DataError> {
        let State::Writing(tx) = &mut self.state else {
            return Ok(());
        };
        let marked = self.marks.get(mark.at);
        let Some(marked) = marked.filter(|marked| marked.number == mark.number) else {
            return Err(DataError::invalid(
                "this savepoint no longer exists: it was released or rolled back",
            ));
        };
        tx.rollback_to(marked.savepoint);
        self.stamp.writes += 1;
        self.operations.truncate(marked.operations);
        self.covered
            .shrink(tx.write_bytes() + self.operations.capacity());
        self.noted.files.truncate(marked.files);
        self.deltas = marked.deltas.clone();
        self.marks.truncate(mark.at + 1);
        self.broken = false;
        *self.buckets.get_mut() = KnownBuckets::default();
        self.forget_checked();
        self.deferred = Deferred::default();
        self.ends.clear();
        Ok(())
    }

    /// Releases `mark` and those set after it, and keeps the writes.
    pub fn release(&mut self, mark: Savepoint) {
        let State::Writing(tx) = &mut self.state else {
            return;
        };
        let marked = self.marks.get(mark.at);
        if let Some(marked) = marked.filter(|marked| marked.number == mark.number) {
            tx.release(marked.savepoint);
            self.marks.truncate(mark.at);
        }
    }

    /// Number of writes so far, rollbacks included: it differs if anything was written in between.
    pub fn write_count(&self) -> u64 {
        self.stamp.writes
    }

    /// Refuses further writes and the commit: a failed part of the transaction cannot be rolled back alone.
    pub fn refuse_commit(&mut self) {
        self.refused = true;
    }

    /// Drops all writes.
    pub fn rollback(self) {}

    /// The current conflicts between replicas, at most ten thousand; none in a database that is not a replica.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn conflicts(&self) -> Result<Vec<Conflict>, DataError> {
        self.hooks()
            .map_or(Ok(Vec::new()), |hooks| hooks.conflicts(self))
    }

    // ---- for the modules that read and write

    #[doc(hidden)]
    pub fn read(&self) -> &dyn Read {
        self.state.read()
    }

    /// What is shared by all transactions of the store.
    pub(crate) fn shared(&self) -> &Shared {
        self.store.shared()
    }

    /// Whether the writes of this transaction are sent to other replicas.
    #[doc(hidden)]
    pub fn is_replicated(&self) -> bool {
        self.store.is_replicated() && !self.noted.is_merging
    }

    /// Whether it applies changes of another replica.
    #[doc(hidden)]
    pub fn is_merging(&self) -> bool {
        self.noted.is_merging
    }

    /// What replication does in this transaction, where the database is a replica.
    pub(crate) fn hooks(&self) -> Option<&'static dyn ReplicationHooks> {
        self.store.hooks().filter(|_| self.store.is_replicated())
    }

    /// The same, where its writes are sent to other replicas.
    pub(crate) fn logging_hooks(&self) -> Option<&'static dyn ReplicationHooks> {
        self.hooks().filter(|_| !self.noted.is_merging)
    }

    /// Properties were set, perhaps to their values: this resolves recorded conflicts between replicas.
    pub(crate) fn resolve_conflicts(
        &mut self,
        owner: ConvergentOwner,
        names: &mut dyn Iterator<Item = &str>,
    ) -> Result<(), DataError> {
        match self.logging_hooks() {
            Some(hooks) => hooks.resolve_conflict_notes(self, owner, names),
            None => Ok(()),
        }
    }

    /// Records what this transaction does to a file.
    pub(crate) fn note_file(&mut self, note: impl FnOnce() -> FileNote) {
        if self.replicates_files() {
            self.noted.files.push(note());
        }
    }

    /// Whether changes of files are sent to other replicas.
    pub(crate) fn replicates_files(&self) -> bool {
        let hooks = self.logging_hooks();
        hooks.is_some_and(|hooks| hooks.replicates_files(&self.store))
    }

    /// Keys from `start` up to `end`, collected, so that the caller can change them.
    #[doc(hidden)]
    pub fn keys_between(
        &self,
        start: &[u8],
        end: Option<&[u8]>,
    ) -> Result<Vec<Vec<u8>>, DataError> {
        let mut keys = Vec::new();
        self.each_between(start, end, &mut |key, _| keys.push(key.to_vec()))?;
        Ok(keys)
    }

    /// As [`Transaction::keys_between`], at most `most`; returns where to continue.
    #[doc(hidden)]
    pub fn some_keys(
        &self,
        start: &[u8],
        end: Option<&[u8]>,
        most: usize,
    ) -> Result<(Keys, Option<Vec<u8>>), DataError> {
        let mut page = Page::new();
        let limit = PageLimit {
            keys: most,
            bytes: 4 << 20,
        };
        let range = KeyRange { start, end };
        self.read()
            .scan(range, Order::Ascending, limit, &mut page)?;
        let keys = page.iter().map(|(key, _)| key.to_vec()).collect();
        Ok((keys, page.next().map(|next| next.start.to_vec())))
    }

    /// Calls back with the pairs from `start` on up to `end`.
    #[doc(hidden)]
    pub fn each_between(
        &self,
        start: &[u8],
        end: Option<&[u8]>,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), DataError> {
        let mut page = Page::new();
        let mut rest = Some((start.to_vec(), end.map(<[u8]>::to_vec)));
        while let Some((start, end)) = rest.take() {
            let range = KeyRange {
                start: &start,
                end: end.as_deref(),
            };
            let limit = PageLimit {
                keys: 4096,
                bytes: 1 << 20,
            };
            self.read()
                .scan(range, Order::Ascending, limit, &mut page)?;
            page.iter().for_each(|(key, value)| visit(key, value));
            rest = page
                .next()
                .map(|next| (next.start.to_vec(), next.end.map(<[u8]>::to_vec)));
        }
        Ok(())
    }

    /// The first key from `start` on.
    #[doc(hidden)]
    pub fn first_key(
        &self,
        start: &[u8],
        end: Option<&[u8]>,
    ) -> Result<Option<Vec<u8>>, DataError> {
        let mut page = Page::new();
        let limit = PageLimit { keys: 1, bytes: 1 };
        let range = KeyRange { start, end };
        self.read()
            .scan(range, Order::Ascending, limit, &mut page)?;
        Ok(page.iter().next().map(|(key, _)| key.to_vec()))
    }

    #[doc(hidden)]
    pub fn catalog_ref(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Its current state.
    pub(crate) fn stamp(&self) -> Stamp {
        self.stamp
    }

    #[doc(hidden)]
    pub fn footprint(&self) -> RefMut<'_, Footprint> {
        self.footprint.borrow_mut()
    }

    #[doc(hidden)]
    pub fn footprint_mut(&mut self) -> &mut Footprint {
        self.footprint.get_mut()
    }

    pub(crate) fn deferred_ref(&self) -> &Deferred {
        &self.deferred
    }

    pub(crate) fn deferred_mut(&mut self) -> &mut Deferred {
        &mut self.deferred
    }

    pub(crate) fn dirty_ref(&self) -> &Dirty {
        &self.dirty
    }

    pub(crate) fn dirty_mut(&mut self) -> &mut Dirty {
        &mut self.dirty
    }

    /// Nodes that are known to exist, as ends of relationships of this transaction.
    pub(crate) fn ends_mut(&mut self) -> &mut IdSet {
        &mut self.ends
    }

    /// An empty buffer for a key or a record, to be returned by [`Transaction::keep_scratch`].
    pub(crate) fn take_scratch(&mut self) -> Vec<u8> {
        self.scratch.pop().unwrap_or_default()
    }

    pub(crate) fn keep_scratch(&mut self, mut room: Vec<u8>) {
        const MOST_KEPT: usize = 4;
        if self.scratch.len() < MOST_KEPT {
            room.clear();
            self.scratch.push(room);
        }
    }

    pub(crate) fn deltas(&self) -> &Deltas {
        &self.deltas
    }

    pub(crate) fn deltas_mut(&mut self) -> &mut Deltas {
        &mut self.deltas
    }

    pub(crate) fn changed_mut(&mut self) -> &mut Changed {
        &mut self.changed
    }

    /// The timestamp of the whole transaction, in ms.
    #[doc(hidden)]
    pub fn now_ms(&self) -> u64 {
        *self.now.get_or_init(|| self.store.options().clock.now_ms())
    }

    pub(crate) fn known_buckets(&self) -> RefMut<'_, KnownBuckets> {
        self.buckets.borrow_mut()
    }

    pub(crate) fn note_changed_bucket(&mut self) {
        self.changed_buckets = true;
    }

    /// The known buckets, where this transaction has not changed one itself.
    pub(crate) fn bucket_cache(&self) -> Option<&BucketCache> {
        (!self.changed_buckets).then(|| &self.store.shared().bucket_cache)
    }

    pub(crate) fn note_dropped_bucket(&mut self, name: &str) {
        self.dropped_buckets.push(name.to_owned());
    }

    /// Appends an operation for the change stream.
    #[doc(hidden)]
    pub fn log(&mut self, change: &Change<'_>) {
        change.push(&mut self.operations);
    }

    /// The operations for the change stream so far.
    #[doc(hidden)]
    pub fn operations_so_far(&self) -> Vec<u8> {
        self.operations.clone()
    }

    #[doc(hidden)]
    pub fn log_bytes(&mut self, operation: &[u8]) {
        self.operations.extend_from_slice(operation);
    }

    /// Refuses a write in a read-only or broken transaction.
    pub(crate) fn check_writable(&self) -> Result<(), DataError> {
        match self.state {
            State::Reading(_) => Err(reads_only()),
            State::Writing(_) if self.broken || self.refused => Err(DataError::Closed(
                "a write of this transaction failed half-way: roll it back and run it again".into(),
            )),
            State::Writing(_) => Ok(()),
        }
    }

    /// As [`Transaction::check_writable`], for the bucket of that name.
    pub(crate) fn check_bucket_writable(&self, name: &str) -> Result<(), DataError> {
        self.check_writable()?;
        match self.reserved.filter(|prefix| name.starts_with(prefix)) {
            None => Ok(()),
            Some(prefix) => Err(DataError::Denied(format!(
                "the bucket `{name}` is reserved, as are all names that begin with `{prefix}`: choose another name"
            ))),
        }
    }

    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), DataError> {
        self.write(key.len() + value.len(), |tx| tx.put(key, value))
    }

    pub(crate) fn delete(&mut self, key: &[u8]) -> Result<(), DataError> {
        self.write(key.len(), |tx| tx.delete(key))
    }

    /// Writes a row that replication merges: its metadata, or a value under it.
    #[doc(hidden)]
    pub fn put_replica_row(&mut self, key: &[u8], value: &[u8]) -> Result<(), DataError> {
        assert!(
            keyspace::is_replica_row(key),
            "only this crate writes records and what is derived from them"
        );
        self.put(key, value)
    }

    /// Deletes a row that replication merges.
    #[doc(hidden)]
    pub fn delete_replica_row(&mut self, key: &[u8]) -> Result<(), DataError> {
        assert!(
            keyspace::is_replica_row(key),
            "only this crate deletes records and what is derived from them"
        );
        self.delete(key)
    }

    /// Deletes a range of rows that replication merges.
    #[doc(hidden)]
    pub fn delete_replica_rows(&mut self, range: KeyRange<'_>) -> Result<(), DataError> {
        assert!(
            keyspace::is_replica_row(range.start),
            "only this crate deletes records and what is derived from them"
        );
        self.write(0, |tx| tx.delete_range(range))
    }

    /// Announces a write of about this many bytes.
    pub(crate) fn write(
        &mut self,
        bytes: usize,
        write: impl FnOnce(&mut dyn isomer_storage::EngineTransaction) -> Result<(), StorageError>,
    ) -> Result<(), DataError> {
        let State::Writing(tx) = &mut self.state else {
            return Err(reads_only());
        };
        self.wrote = true;
        self.stamp.writes += 1;
        let memory = self.store.memory();
        let (covered, operations) = (&mut self.covered, &mut self.operations);
        let prepared = match covers_small(bytes, operations) {
            true => Ok(()),
            false => covered.prepare(memory, tx.write_bytes(), bytes, operations),
        };
        let written = prepared.and_then(|()| write(&mut **tx)).and_then(|()| {
            // The engine counts its write set; it receives the operations at the commit.
            let deferred = self.deferred.bytes();
            let size = tx.write_bytes() + operations.capacity() + deferred;
            if size > covered.bytes() {
                covered.grow(memory, size + self.dirty.bytes())?;
            }
            let (size, max) = (
                tx.write_bytes() + operations.len() + deferred,
                self.max_bytes,
            );
            if size <= max {
                return Ok(());
            }
            Err(StorageError::TooLarge {
                what: "the write set of a transaction",
                size,
                max,
                advice: "commit in smaller parts, or load in bulk",
            })
        });
        written.map_err(|error| {
            self.broken = true;
            error.into()
        })
    }
}

impl State {
    fn read(&self) -> &dyn Read {
        match self {
            Self::Reading(snapshot) => &**snapshot,
            Self::Writing(tx) => &**tx,
        }
    }
}

fn reads_only() -> DataError {
    DataError::Denied("this transaction only reads: begin one that writes".into())
}
