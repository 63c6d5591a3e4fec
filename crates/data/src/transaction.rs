//! Transactions: one version of the database and, on top, the transaction's own changes.

pub(crate) mod commit;
mod graph_changes;
pub(crate) mod name_ids;
pub(crate) mod raw_read;
mod scratch;
mod write_reservation;

use std::{
    cell::{OnceCell, RefCell, RefMut},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use self::{
    graph_changes::GraphChanges,
    scratch::ScratchBuffers,
    write_reservation::{WriteReservation, covers_small},
};
use crate::{
    Access, DataStore, convergent::Ongoing, footprint::Footprint, kv::bucket::BucketState,
    replicated::ReplicationNotes, store::Shared,
};
use isomer_layout::{
    DataError,
    catalog::{
        Catalog,
        schema::{SchemaChange, SchemaOutcome},
    },
    stream::change::{Change, Deltas},
};
use isomer_storage::{EngineSavepoint, Read, Snapshot, StorageError, Version};

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
/// It alone writes keys. What it reads and writes is in handles that borrow it, one for each area: [`crate::Graph`] and
/// [`crate::GraphMut`], [`crate::Kv`] and [`crate::KvMut`], [`crate::Documents`], [`crate::FileTree`],
/// [`crate::Fields`], [`crate::Indexes`], [`crate::Constraints`], [`crate::Replication`]. A handle costs nothing: it is
/// a reference.
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
    /// What it changed in the graph, apart from keys.
    pub(crate) changes: GraphChanges,
    marks: Vec<SavepointState>,
    /// Number of savepoints that were set.
    mark_count: u64,
    /// Most bytes of writes and operations.
    max_bytes: usize,
    /// The reserved part of the memory budget.
    covered: WriteReservation,
    /// Whether any key was written, also outside the change stream.
    wrote: bool,
    /// A write failed half-way.
    broken: bool,
    /// See [`Transaction::refuse_commit`].
    refused: bool,
    /// Transaction timestamp (ms), fixed at first use.
    now: OnceCell<u64>,
    /// The buckets that it knows.
    pub(crate) buckets: BucketState,
    /// Buffers for keys and records.
    pub(crate) scratch: ScratchBuffers,
    stamp: Stamp,
    /// Its number and its vector, after its first convergent operation.
    pub(crate) converging: Option<Box<Ongoing>>,
    /// Recorded for the commit, where it is sent to other replicas.
    pub(crate) noted: ReplicationNotes,
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

/// Begins transactions with the access and the reserved buckets of another one.
#[derive(Clone)]
pub struct TransactionStarter {
    store: DataStore,
    access: Access,
    reserved: Option<&'static str>,
}

impl TransactionStarter {
    /// Begins a transaction at the last committed version.
    pub fn begin(&self) -> Result<Transaction, DataError> {
        let mut begun = Transaction::begin(self.store.clone(), self.access)?;
        begun.kv_mut().reserve_buckets(self.reserved);
        Ok(begun)
    }
}

impl Transaction {
    #[doc(hidden)]
    pub fn begin(store: DataStore, access: Access) -> Result<Self, DataError> {
        let state = match access {
            Access::Read => State::Reading(store.engine().snapshot()?),
            Access::Write => {
                store.numbering().store_last_epoch()?;
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
        let catalog = store.shared().schema.catalog_at(state.read())?;
        let mut footprint = Footprint::new(writes, store.options().footprint_limit);
        footprint.read_schema();
        Ok(Self::from_parts(store, catalog, state, footprint))
    }

    fn from_parts(
        store: DataStore,
        catalog: Arc<Catalog>,
        state: State,
        footprint: Footprint,
    ) -> Self {
        let max_bytes = store.engine().capabilities().max_transaction_bytes;
        Self {
            max_bytes,
            covered: WriteReservation::default(),
            store,
            catalog,
            state,
            footprint: RefCell::new(footprint),
            operations: Vec::new(),
            changes: GraphChanges::default(),
            marks: Vec::new(),
            wrote: false,
            mark_count: 0,
            broken: false,
            refused: false,
            now: OnceCell::new(),
            buckets: BucketState::default(),
            scratch: ScratchBuffers::default(),
            stamp: Stamp::new(),
            converging: None,
            noted: ReplicationNotes::default(),
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
            buckets: self.buckets.fork(),
            ..Self::from_parts(self.store.clone(), self.catalog.clone(), state, footprint)
        })
    }

    /// Begins further transactions like this one, also in other threads.
    pub fn starter(&self) -> TransactionStarter {
        TransactionStarter {
            store: self.store.clone(),
            access: self.access(),
            reserved: self.buckets.reserved(),
        }
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

    /// Whether this transaction has written.
    pub fn has_writes(&self) -> bool {
        !self.operations.is_empty()
    }

    /// Bytes of memory of the transaction's changes.
    pub fn write_bytes(&self) -> usize {
        match &self.state {
            State::Reading(_) => 0,
            State::Writing(tx) => {
                tx.write_bytes() + self.operations.capacity() + self.changes.deferred.bytes()
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
        should_continue: &mut dyn FnMut() -> bool,
    ) -> Result<SchemaOutcome, DataError> {
        if self.access() == Access::Read {
            return Err(reads_only());
        }
        if self.has_writes() || self.footprint().is_engaged() {
            return Err(DataError::Denied(
                "indexes and constraints cannot be changed after a read or write in the same transaction: commit it first".into(),
            ));
        }
        let outcome = self.store.change_schema_while(change, should_continue)?;
        let buckets = self.buckets.fork();
        *self = Self::begin(self.store.clone(), Access::Write)?;
        self.buckets = buckets;
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
            deltas: self.changes.deltas.clone(),
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
        self.changes.roll_back(marked.deltas.clone());
        self.marks.truncate(mark.at + 1);
        self.broken = false;
        self.buckets.roll_back();
        self.fields_mut().forget_checked();
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

    // ---- for the modules that read and write

    #[doc(hidden)]
    pub fn read(&self) -> &dyn Read {
        self.state.read()
    }

    /// What is shared by all transactions of the store.
    pub(crate) fn shared(&self) -> &Shared {
        self.store.shared()
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

    /// The timestamp of the whole transaction, in ms.
    #[doc(hidden)]
    pub fn now_ms(&self) -> u64 {
        *self.now.get_or_init(|| self.store.options().clock.now_ms())
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

    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), DataError> {
        self.write(key.len() + value.len(), |tx| tx.put(key, value))
    }

    pub(crate) fn delete(&mut self, key: &[u8]) -> Result<(), DataError> {
        self.write(key.len(), |tx| tx.delete(key))
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
            let deferred = self.changes.deferred.bytes();
            let size = tx.write_bytes() + operations.capacity() + deferred;
            if size > covered.bytes() {
                covered.grow(memory, size + self.changes.dirty.bytes())?;
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
