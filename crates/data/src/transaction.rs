//! Transactions: one version of the database and, on top, the transaction's own changes.

mod commit;

use std::{
    cell::{OnceCell, RefCell, RefMut},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use isomer_storage::{Read, Savepoint, Snapshot, StorageError, Version};
use isomer_value::{LabelId, NodeId, PropId, TypeId};
use rustc_hash::FxHashSet;

use crate::{
    Access, Catalog, DataError, Dirty, SchemaChange, SchemaOutcome, Store,
    catalog::NameKind,
    convergent::Ongoing,
    footprint::Footprint,
    kv::{KnownBuckets, SettledBuckets},
    replication::Noted,
    statistics::Changed,
    stream::{Change, Deltas},
};

pub use self::commit::Committing;

/// A mark inside a transaction, to undo a failed statement alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(usize);

/// A transaction: one version of the database and, on top, its own changes. Owned and `Send`; dropping it without a
/// commit leaves no trace.
///
/// Reads (see [`crate::GraphRead`]) work on `&self`; writes need `&mut self` and [`Access::Write`]. A write that is
/// refused changes nothing. A write that the *engine* fails half-way (full disk, write set over its limit) breaks the
/// transaction: it can be rolled back, to a mark or whole, but not committed.
pub struct Transaction {
    store: Store,
    catalog: Arc<Catalog>,
    state: State,
    footprint: RefCell<Footprint>,
    /// The change stream's operations so far.
    operations: Vec<u8>,
    deltas: Deltas,
    /// Word for the statistics, roughly: what is undone stays in it.
    changed: Changed,
    marks: Vec<Marked>,
    /// Most bytes that writes and operations may hold.
    max_bytes: usize,
    /// Whether any key was written, also outside the change stream.
    wrote: bool,
    broken: bool,
    /// When it first looked at the clock, in ms: one present for the whole transaction.
    now: OnceCell<u64>,
    /// Buckets that were looked up, by number; nothing where there is none.
    buckets: RefCell<KnownBuckets>,
    dropped_buckets: Vec<String>,
    /// Whether it made, dropped or changed a bucket.
    changed_buckets: bool,
    dirty: Dirty,
    /// Nodes that were found to exist, as ends of relationships; forgotten where one may be gone.
    ends: FxHashSet<NodeId>,
    /// Room for keys and records in the making.
    scratch: Vec<Vec<u8>>,
    stamp: Stamp,
    /// Its number and what it has seen, once it made a convergent operation.
    pub(crate) converging: Option<Box<Ongoing>>,
    /// For its end, where it is told to other replicas.
    pub(crate) noted: Noted,
    /// Buckets whose names begin so are not written.
    reserved: Option<&'static str>,
}

/// A state of a transaction: no two states have the same one, neither of one transaction nor of two.
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
    Writing(Box<dyn isomer_storage::Transaction>),
}

struct Marked {
    savepoint: Savepoint,
    operations: usize,
    /// How many notes of files there were.
    files: usize,
    deltas: Deltas,
}

impl Transaction {
    pub(crate) fn begin(store: Store, access: Access) -> Result<Self, DataError> {
        let state = match access {
            Access::Read => State::Reading(store.engine().snapshot()?),
            Access::Write => {
                store.settle_last_epoch()?;
                State::Writing(store.engine().begin()?)
            }
        };
        Self::with_state(store, state)
    }

    pub(crate) fn begin_at(
        store: Store,
        version: Version,
        now_ms: Option<u64>,
    ) -> Result<Self, DataError> {
        let snapshot = store.engine().snapshot_at(version)?;
        let begun = Self::with_state(store, State::Reading(snapshot))?;
        if let Some(now) = now_ms {
            // Nobody has looked at the clock yet.
            let _ = begun.now.set(now);
        }
        Ok(begun)
    }

    /// A reader of a version that is held.
    pub(crate) fn begin_of(store: Store, snapshot: Arc<dyn Snapshot>) -> Result<Self, DataError> {
        Self::with_state(store, State::Reading(snapshot))
    }

    fn with_state(store: Store, state: State) -> Result<Self, DataError> {
        let writes = matches!(state, State::Writing(_));
        let catalog = store.catalog_at(state.read())?;
        let mut footprint = Footprint::new(writes, store.options().footprint_limit);
        footprint.read_schema();
        Ok(Self::made(store, catalog, state, footprint))
    }

    fn made(store: Store, catalog: Arc<Catalog>, state: State, footprint: Footprint) -> Self {
        let max_bytes = store.engine().capabilities().max_transaction_bytes;
        Self {
            max_bytes,
            store,
            catalog,
            state,
            footprint: RefCell::new(footprint),
            operations: Vec::new(),
            deltas: Deltas::default(),
            changed: Changed::default(),
            marks: Vec::new(),
            wrote: false,
            broken: false,
            now: OnceCell::new(),
            buckets: RefCell::default(),
            dropped_buckets: Vec::new(),
            changed_buckets: false,
            dirty: Dirty::default(),
            ends: FxHashSet::default(),
            scratch: Vec::new(),
            stamp: Stamp::new(),
            converging: None,
            noted: Noted::default(),
            reserved: None,
        }
    }

    /// Another reader of the same version, for another thread. None of a transaction that may write: what it writes and
    /// observes is its own.
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
    pub fn store(&self) -> &Store {
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

    /// The label's number where it has one. That it has none is an observation: no node can carry it, and a transaction
    /// that writes is refused if another one has used the label meanwhile.
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

    pub(crate) fn find(&self, kind: NameKind, name: &str) -> Option<u32> {
        if let Some(id) = self.catalog.names.find(kind, name) {
            return Some(id);
        }
        // Noted before the second look: a name entered in between is then found, one entered later collides.
        let news = self.footprint().read_absent_name(kind, name);
        news.then(|| self.store.find_settled(kind, name)).flatten()
    }

    pub(crate) fn intern(&self, kind: NameKind, name: &str) -> Result<u32, DataError> {
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

    /// Bytes that the transaction's changes hold in memory.
    pub fn write_bytes(&self) -> usize {
        match &self.state {
            State::Reading(_) => 0,
            State::Writing(tx) => tx.write_bytes() + self.operations.len(),
        }
    }

    /// Refuses writes from now on that would take [`Transaction::write_bytes`] over `bytes`, or over what the engine takes. A
    /// transaction that was refused can only be rolled back.
    pub fn limit_writes(&mut self, bytes: usize) {
        let most = self.store.engine().capabilities().max_transaction_bytes;
        self.max_bytes = most.min(bytes);
    }

    /// Changes the schema; only in a transaction that has neither read nor written. Runs in transactions of its own, after which
    /// this transaction goes on at the new version.
    ///
    /// # Errors
    /// Those of [`Store::change_schema`]; [`DataError::Denied`] after a read or write or in a reading transaction.
    pub fn change_schema(&mut self, change: SchemaChange) -> Result<SchemaOutcome, DataError> {
        self.change_schema_while(change, &mut || true)
    }

    /// As [`Transaction::change_schema`], asking now and then whether to go on: see [`Store::change_schema_while`].
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

    /// Marks the present state.
    pub fn mark(&mut self) -> Mark {
        let State::Writing(tx) = &mut self.state else {
            return Mark(0);
        };
        let savepoint = tx.savepoint();
        self.marks.push(Marked {
            savepoint,
            operations: self.operations.len(),
            files: self.noted.files.len(),
            deltas: self.deltas.clone(),
        });
        Mark(self.marks.len() - 1)
    }

    /// Undoes all writes since `mark`, which may be used again. What was observed since stays observed.
    ///
    /// # Errors
    /// [`DataError::Invalid`] for a mark that was released or undone.
    pub fn rollback_to(&mut self, mark: Mark) -> Result<(), DataError> {
        let State::Writing(tx) = &mut self.state else {
            return Ok(());
        };
        let Some(marked) = self.marks.get(mark.0) else {
            return Err(DataError::invalid(
                "this mark is no longer set: it was released or undone",
            ));
        };
        tx.rollback_to(marked.savepoint);
        self.stamp.writes += 1;
        self.operations.truncate(marked.operations);
        self.noted.files.truncate(marked.files);
        self.deltas = marked.deltas.clone();
        self.marks.truncate(mark.0 + 1);
        self.broken = false;
        *self.buckets.get_mut() = KnownBuckets::default();
        self.forget_checked();
        self.ends.clear();
        Ok(())
    }

    /// Forgets `mark` and those set after it, and keeps the writes.
    pub fn release(&mut self, mark: Mark) {
        let State::Writing(tx) = &mut self.state else {
            return;
        };
        if let Some(marked) = self.marks.get(mark.0) {
            tx.release(marked.savepoint);
            self.marks.truncate(mark.0);
        }
    }

    /// Drops all writes.
    pub fn rollback(self) {}

    // ---- for the modules that read and write

    pub(crate) fn read(&self) -> &dyn Read {
        self.state.read()
    }

    pub(crate) fn catalog_ref(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Its present state.
    pub(crate) fn stamp(&self) -> Stamp {
        self.stamp
    }

    pub(crate) fn footprint(&self) -> RefMut<'_, Footprint> {
        self.footprint.borrow_mut()
    }

    pub(crate) fn footprint_mut(&mut self) -> &mut Footprint {
        self.footprint.get_mut()
    }

    pub(crate) fn dirty_ref(&self) -> &Dirty {
        &self.dirty
    }

    pub(crate) fn dirty_mut(&mut self) -> &mut Dirty {
        &mut self.dirty
    }

    /// Nodes that are known to exist, as ends of relationships of this transaction.
    pub(crate) fn ends_mut(&mut self) -> &mut FxHashSet<NodeId> {
        &mut self.ends
    }

    /// Empty room for a key or a record, to be given back with [`Transaction::keep_scratch`].
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

    /// The present, in ms: the same for the whole transaction.
    pub(crate) fn now_ms(&self) -> u64 {
        *self.now.get_or_init(|| self.store.options().clock.now_ms())
    }

    pub(crate) fn known_buckets(&self) -> RefMut<'_, KnownBuckets> {
        self.buckets.borrow_mut()
    }

    pub(crate) fn note_changed_bucket(&mut self) {
        self.changed_buckets = true;
    }

    /// What is known of buckets, where this transaction has not changed one itself.
    pub(crate) fn settled_buckets(&self) -> Option<&SettledBuckets> {
        (!self.changed_buckets).then(|| &self.store.shared().settled_buckets)
    }

    pub(crate) fn note_dropped_bucket(&mut self, name: &str) {
        self.dropped_buckets.push(name.to_owned());
    }

    /// Notes an operation for the change stream.
    pub(crate) fn log(&mut self, change: &Change<'_>) {
        change.push(&mut self.operations);
    }

    /// The operations for the change stream so far.
    pub(crate) fn operations_so_far(&self) -> Vec<u8> {
        self.operations.clone()
    }

    pub(crate) fn log_bytes(&mut self, operation: &[u8]) {
        self.operations.extend_from_slice(operation);
    }

    /// Refuses a write where only reads are allowed, and in a broken transaction.
    pub(crate) fn check_writable(&self) -> Result<(), DataError> {
        match self.state {
            State::Reading(_) => Err(reads_only()),
            State::Writing(_) if self.broken => Err(DataError::Closed(
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
                "the bucket `{name}` is not written from outside, as no bucket is whose name begins with `{prefix}`: choose another name"
            ))),
        }
    }

    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), DataError> {
        self.write(|tx| tx.put(key, value))
    }

    pub(crate) fn delete(&mut self, key: &[u8]) -> Result<(), DataError> {
        self.write(|tx| tx.delete(key))
    }

    pub(crate) fn write(
        &mut self,
        write: impl FnOnce(&mut dyn isomer_storage::Transaction) -> Result<(), StorageError>,
    ) -> Result<(), DataError> {
        let State::Writing(tx) = &mut self.state else {
            return Err(reads_only());
        };
        self.wrote = true;
        self.stamp.writes += 1;
        let written = write(&mut **tx).and_then(|()| {
            // The engine counts what it holds; the operations come to it at the commit.
            let (size, max) = (tx.write_bytes() + self.operations.len(), self.max_bytes);
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
