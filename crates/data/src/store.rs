//! An open database.

use std::{
    any::Any,
    sync::{Arc, OnceLock, Weak},
    time::{Duration, Instant},
};

use isomer_layout::{
    DataError,
    catalog::{
        Catalog,
        keepers::Keepers,
        names::{NameKind, NameTables},
    },
    keyspace,
};
use isomer_storage::{
    AloneHold, Durability, Engine, GuardMode, MemoryBudget, SpillFolder, Version,
};
use isomer_value::{DatabaseId, Interner, LabelId, NodeId, PropId, ValueError};
use parking_lot::{Mutex, RwLock};

use crate::{
    Transaction,
    convergent::replica::{self, OwnReplica},
    counts::{SharedCounts, SinceSave},
    current_schema::CurrentSchema,
    extents::Extents,
    files::FileNumbers,
    footprint::{Item, NONE},
    graph::KeyHints,
    kv::{BucketCache, Sequences, Signals},
    observer::{CommitObserver, LoadSinks, Loading, Observers},
    replicated::{ReplicaState, ReplicationHooks, joining_error},
    small_commit::commit_small,
    statistics::Statistics,
    store_options::DataStoreOptions,
    store_state::{Copying, OwnEra},
    stream::{Holds, shared_holds::SharedHolds},
};

/// How long an operation that needs a shared database alone waits for other processes to close it: commands are short.
const ALONE_PATIENCE: Duration = Duration::from_millis(500);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(5);

/// Longest name of a label, type, property, bucket, index or constraint in bytes.
pub(crate) const MAX_NAME_BYTES: usize = 16 * 1024;

/// What a transaction may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads one version; never waits and never fails to commit.
    Read,
    /// Reads and writes; checked at commit.
    Write,
}

/// An opened database. Clones share it.
#[derive(Clone)]
pub struct DataStore {
    pub(crate) shared: Arc<Shared>,
}

impl std::fmt::Debug for WeakDataStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WeakDataStore").finish_non_exhaustive()
    }
}

/// A weak handle: does not keep the store open.
#[derive(Clone)]
pub struct WeakDataStore {
    pub(crate) shared: Weak<Shared>,
}

impl WeakDataStore {
    /// The store, unless it is closed.
    pub fn upgrade(&self) -> Option<DataStore> {
        let shared = self.shared.upgrade()?;
        Some(DataStore { shared })
    }
}

/// The state of an open store. What caches the database is also in [`Caches`](crate::remote::Caches), which correct it
/// when other processes commit.
pub struct Shared {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) options: DataStoreOptions,
    pub(crate) identity: DatabaseId,
    pub(crate) names: Arc<NameTables>,
    /// Held while a new name is added.
    pub(crate) interning: Mutex<()>,
    pub(crate) schema: Arc<CurrentSchema>,
    /// Held during a change of the schema.
    pub schema_change: Mutex<()>,
    pub nodes: Arc<Extents>,
    pub relationships: Arc<Extents>,
    pub(crate) counts: SharedCounts,
    /// The readers that retain a part of the change stream.
    pub(crate) stream_holds: Mutex<Holds>,
    /// What other processes know of them, in a shared database.
    pub(crate) shared_holds: Option<SharedHolds>,
    /// The eras, by which files outside identify states.
    pub(crate) era: Mutex<OwnEra>,
    pub(crate) observers: Arc<Observers>,
    /// Held shared by every commit, exclusively by a bulk load while it writes.
    pub(crate) gate: Arc<RwLock<()>>,
    pub(crate) since_save: Arc<Mutex<SinceSave>>,
    /// Held while the counts are stored.
    pub(crate) saving: Mutex<()>,
    pub copies: Mutex<Copying>,
    pub sequences: Arc<Sequences>,
    pub(crate) bucket_cache: Arc<BucketCache>,
    pub files: FileNumbers,
    /// Notified of each commit that is visible to others.
    pub(crate) signal: Signals,
    pub(crate) spill: Arc<SpillFolder>,
    /// A cache of the nodes that keys led to.
    pub(crate) key_hints: KeyHints,
    pub statistics: Arc<Statistics>,
    /// Its name and numbers as a replica.
    pub own_replica: Arc<OwnReplica>,
    /// Keeps other processes out of a shared database, from [`DataStore::become_exclusive`] on until it is closed.
    pub(crate) alone: OnceLock<AloneHold>,
    /// Whether it is a replica.
    pub replica_state: ReplicaState,
    /// Types whose relationships keep their ends.
    pub keepers: Arc<RwLock<Keepers>>,
    pub(crate) hooks: Option<Hooks>,
}

/// What replication does in the transactions of this store, and the state that it keeps with it.
pub struct Hooks {
    pub(crate) calls: &'static dyn ReplicationHooks,
    pub(crate) state: Box<dyn Any + Send + Sync>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.options.read_only {
            return;
        }
        match &self.options.process_locks {
            Some(locks) if self.alone.get().is_none() => {
                // Where this fails, numbers that were not used are given up later.
                if let Some(_alone) = locks.leave() {
                    drop(replica::close_shared(&*self.engine));
                }
            }
            _ => replica::close(&self.own_replica, &*self.engine),
        }
    }
}

impl DataStore {
    /// A transaction at the last committed version.
    ///
    /// # Errors
    /// [`DataError::Storage`] while a snapshot of another replica is being joined.
    pub fn begin(&self, access: Access) -> Result<Transaction, DataError> {
        let replication = &self.shared().replica_state;
        loop {
            let joins = replication.joins_begun();
            if replication.is_joining() {
                return Err(joining_error());
            }
            let tx = Transaction::begin(self.clone(), access)?;
            // The commits that it sees have been followed by now.
            self.shared().observers.remote.check()?;
            // A join that began in between may have left a part of a state in the snapshot.
            if replication.joins_begun() == joins {
                return Ok(tx);
            }
        }
    }

    /// A transaction that reads an earlier version, from [`isomer_storage::Engine::oldest_version`] on; its timestamp
    /// is `now_ms`, where given: entries that expire exist as they did then.
    ///
    /// # Errors
    /// [`DataError::Invalid`] for versions that the engine does not keep.
    pub fn begin_at(
        &self,
        version: Version,
        now_ms: Option<u64>,
    ) -> Result<Transaction, DataError> {
        if self.is_joining() {
            return Err(joining_error());
        }
        let tx = Transaction::begin_at(self.clone(), version, now_ms)?;
        // At that version a state may have been joined partly.
        match tx.read().get(keyspace::JOINING)? {
            Some(_) => Err(joining_error()),
            None => Ok(tx),
        }
    }

    /// The engine below.
    pub fn engine(&self) -> &Arc<dyn Engine> {
        &self.shared.engine
    }

    /// Names and schema as of now.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.shared.schema.catalog()
    }

    /// The identity of the database, which its element ids name. It is created with the database, and kept by copies,
    /// backups and restored databases.
    pub fn identity(&self) -> DatabaseId {
        self.shared.identity
    }

    /// The options with which it was opened.
    pub fn options(&self) -> &DataStoreOptions {
        &self.shared.options
    }

    /// The key under which the storage keeps a node's record: for tools that compare what a layer costs with a plain
    /// lookup below it.
    pub fn record_key(&self, node: NodeId) -> Vec<u8> {
        keyspace::node(node)
    }

    /// The budget of memory that everything on this store shares.
    pub fn memory(&self) -> &MemoryBudget {
        &self.shared.options.memory
    }

    /// The folder for spill files.
    pub fn spill_folder(&self) -> &Arc<SpillFolder> {
        &self.shared.spill
    }

    /// A handle that does not keep the store open.
    pub fn downgrade(&self) -> WeakDataStore {
        WeakDataStore {
            shared: Arc::downgrade(&self.shared),
        }
    }

    /// The first label that a node with this id got, if any: a hint, for its labels may have changed.
    pub fn home_label(&self, id: NodeId) -> Option<LabelId> {
        let owner = self.shared.nodes.owner_of(id.0)?;
        (owner != NONE).then_some(LabelId(owner))
    }

    /// Whether this database is a replica: whether its transactions are kept for others.
    pub fn is_replicated(&self) -> bool {
        self.shared.replica_state.is_on()
    }

    /// Whether the state of another replica is being joined, so that transactions are refused.
    pub fn is_joining(&self) -> bool {
        self.shared.replica_state.is_joining()
    }

    /// The hooks of replication; `None` if the store was opened without them, and is not a replica.
    pub(crate) fn hooks(&self) -> Option<&'static dyn ReplicationHooks> {
        self.shared.hooks.as_ref().map(|hooks| hooks.calls)
    }

    /// The state that replication keeps with this store.
    pub(crate) fn replication_state(&self) -> Option<&(dyn Any + Send + Sync)> {
        self.shared.hooks.as_ref().map(|hooks| &*hooks.state)
    }

    /// Whether other processes may have the database open.
    pub fn is_shared(&self) -> bool {
        self.options().process_locks.is_some() && self.shared.alone.get().is_none()
    }

    /// Whether no other process has the database open while this one opens it: leftovers of earlier ones may be
    /// removed.
    pub fn opened_alone(&self) -> bool {
        let locks = self.options().process_locks.as_ref();
        locks.is_none_or(|locks| locks.was_alone())
    }

    /// Keeps other processes from opening a shared database until the result is dropped. Waits for a moment for those
    /// that have it open.
    ///
    /// # Errors
    /// [`isomer_storage::StorageError::NeedsAlone`] if they still have it open.
    pub fn hold_alone(&self) -> Result<AloneHold, DataError> {
        match self.is_shared() {
            true => Ok(self.engine().hold_alone(ALONE_PATIENCE)?),
            false => Ok(AloneHold::default()),
        }
    }

    /// Keeps other processes from opening a shared database until it is closed here: from now on the store is as if it
    /// had been opened exclusively. Waits for a moment for processes that have it open. Transactions under way fail
    /// with a conflict. Costs one small commit; does nothing in a store that is not shared.
    ///
    /// # Errors
    /// [`isomer_storage::StorageError::NeedsAlone`] if other processes still have it open; [`DataError::Denied`] while
    /// transactions with convergent operations are under way; those of a commit. Nothing changes then.
    pub fn become_exclusive(&self) -> Result<(), DataError> {
        if !self.is_shared() {
            return Ok(());
        }
        let began = Instant::now();
        loop {
            let alone = self.hold_alone()?;
            let begun = self.numbering().become_exclusive(|| {
                // Another thread may have been faster, and has one, too.
                let _ = self.shared.alone.set(alone);
            });
            if begun? {
                return Ok(());
            }
            if began.elapsed() >= ALONE_PATIENCE {
                return Err(DataError::Denied(
                    "a shared database cannot become a replica while transactions with convergent operations are under way: end them, and try again".into(),
                ));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Refuses operations that bypass transactions.
    pub(crate) fn refuse_in_replica(&self) -> Result<(), DataError> {
        match self.is_replicated() {
            false => Ok(()),
            true => Err(DataError::Unsupported(
                "a bulk load is not replicated, and this database is a replica: load before its first peer is added, or write in transactions (UNWIND $rows CREATE …)".into(),
            )),
        }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Collects the sinks of a load.
    pub(crate) fn sinks(&self, load: &Loading) -> LoadSinks {
        // Not under the lock: observers may commit.
        let observers: Vec<_> = self.shared().observers.others.read().clone();
        LoadSinks(
            observers
                .iter()
                .filter_map(|one| one.loading(load))
                .collect(),
        )
    }

    /// Lets `observer` follow every commit from now on, for as long as the store is open. Waits for commits that are
    /// under way: each is either visible when this returns or reported.
    pub fn observe(&self, observer: Arc<dyn CommitObserver>) {
        let _settled = self.shared().gate.write();
        self.shared().observers.others.write().push(observer);
        // A commit of another process that was announced before is visible afterwards; an error says that no others
        // come.
        drop(self.engine().snapshot());
    }

    /// Looks up a missing name again, after a concurrent addition of a name has ended.
    pub(crate) fn find_after_interning(&self, kind: NameKind, name: &str) -> Option<u32> {
        let _interning = self.shared.interning.lock();
        self.shared.names.find(kind, name)
    }

    /// The number of a name; a new one is stored immediately, in a separate commit.
    #[doc(hidden)]
    pub fn intern(&self, kind: NameKind, name: &str) -> Result<u32, DataError> {
        if let Some(id) = self.shared.names.find(kind, name) {
            return Ok(id);
        }
        check_name(kind.noun(), name)?;
        let _interning = self.shared.interning.lock();
        if let Some(id) = self.shared.names.find(kind, name) {
            return Ok(id);
        }
        // Transactions that use the name commit later.
        let id = commit_small(&*self.shared.engine, Durability::Buffered, |tx| {
            // Another process may have been faster. What it stored is known: such a commit is entered before this
            // transaction could begin behind it.
            if let Some(id) = self.shared.names.find(kind, name) {
                return Ok(id);
            }
            let id = self.shared.names.next_id(kind);
            let key = keyspace::name(kind, id);
            if tx.get(&key)?.is_some() {
                return Err(DataError::Internal(format!(
                    "the {} number {id} has a name that this process does not know",
                    kind.noun()
                )));
            }
            tx.put(&key, name.as_bytes())?;
            tx.guard(Item::name(kind, name).granule(), GuardMode::Add);
            tx.guard(Item::NextName(kind as u8).granule(), GuardMode::Write);
            Ok(id)
        })?;
        self.shared.names.enter(kind, id, name);
        Ok(id)
    }
}

/// Refuses names that are too long. Any text may be a property name, the empty one too.
pub fn check_name(what: &str, name: &str) -> Result<(), DataError> {
    if name.len() > MAX_NAME_BYTES {
        return Err(DataError::Limit {
            what: format!("the name of a {what}"),
            size: format!("{} bytes", name.len()),
            max: format!("{MAX_NAME_BYTES} bytes"),
            advice: "use a shorter name",
        });
    }
    Ok(())
}

/// Interns property names for the record codec, and keeps the error that the codec cannot carry.
pub struct PropNames<'a> {
    pub(crate) store: &'a DataStore,
    /// The error behind that of the codec.
    pub error: Option<DataError>,
}

impl<'a> PropNames<'a> {
    /// Enters new names into the catalog of `store`.
    pub fn new(store: &'a DataStore) -> Self {
        Self { store, error: None }
    }

    /// The error behind `error`.
    pub fn explain(self, error: ValueError) -> DataError {
        self.error.unwrap_or(DataError::Value(error))
    }
}

impl Interner for PropNames<'_> {
    fn intern(&mut self, name: &str) -> Result<PropId, ValueError> {
        self.store
            .intern(NameKind::Prop, name)
            .map(PropId)
            .map_err(|error| {
                self.error = Some(error);
                ValueError::Fields {
                    what: "record",
                    reason: "its property names cannot be added to the catalog".into(),
                }
            })
    }
}
