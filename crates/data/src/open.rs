//! Opening a database: what is loaded from the engine, and what an earlier process left unfinished.

use std::sync::{Arc, OnceLock};

use isomer_layout::{
    DataError,
    catalog::{keepers, names::NameTables},
    keyspace::{FORMAT, FORMAT_VALUE, IDENTITY, IdSpace},
};
use isomer_storage::{
    Durability, Engine, EngineTransaction, GuardMode, KeyRange, Order, Page, PageLimit, Read,
    SpillFolder, StorageError,
};
use isomer_value::DatabaseId;
use isomer_vfs::Seal;
use parking_lot::{Mutex, RwLock};

use crate::{
    DataStore, DataStoreOptions,
    convergent::replica::OwnReplica,
    copies::begin_epoch_of_copy,
    counts::Counts,
    current_schema::CurrentSchema,
    extents::Extents,
    files::FileNumbers,
    footprint::Item,
    graph::KeyHints,
    kv::{BucketCache, Signals},
    observer::Observers,
    remote::Caches,
    replicated::{ReplicaState, ReplicationHooks},
    schema_change::SchemaEditor,
    statistics::Statistics,
    store::{Hooks, Shared},
    stream::shared_holds::SharedHolds,
};

impl DataStore {
    /// Opens what is in `engine`: loads names, schema, extents and counts. An empty engine becomes an empty database.
    /// It cannot become a replica in this opening: `isomer_replication::open` opens one that can.
    ///
    /// # Errors
    /// [`DataError::Unsupported`] for another format and for a replica, [`DataError::Corrupt`] if `engine` does not
    /// contain an IsomerDB database.
    pub fn open(engine: Arc<dyn Engine>, options: DataStoreOptions) -> Result<Self, DataError> {
        Self::open_with(engine, options, None)
    }

    /// As [`DataStore::open`], with what replication does in its transactions.
    ///
    /// # Errors
    /// Those of [`DataStore::open`], and of [`ReplicationHooks::load`].
    #[doc(hidden)]
    pub fn open_with(
        engine: Arc<dyn Engine>,
        options: DataStoreOptions,
        hooks: Option<&'static dyn ReplicationHooks>,
    ) -> Result<Self, DataError> {
        let identity = claim(&*engine, options.read_only)?;
        let observers = Arc::new(Observers::default());
        engine.set_hook(observers.clone());
        let snapshot = engine.snapshot()?;
        let read: &dyn Read = &*snapshot;
        observers.counted.begin(read.version());
        let names = Arc::new(NameTables::load(read)?);
        let schema = Arc::new(CurrentSchema::load(names.clone(), read)?);
        let nodes = Extents::load(IdSpace::Nodes, read)?;
        let relationships = Extents::load(IdSpace::Relationships, read)?;
        let counts = Counts::load(&*engine, read)?;
        let statistics = Statistics::load(read)?;
        let own_replica = OwnReplica::load(read, options.process_locks.is_some())?;
        let replica_state = ReplicaState::load(read)?;
        if options.process_locks.is_some() && (replica_state.is_on() || replica_state.is_joining())
        {
            return Err(DataError::SharedReplica);
        }
        if hooks.is_none() && (replica_state.is_on() || replica_state.is_joining()) {
            return Err(DataError::Unsupported(
                "this database is a replica, and its commits must be logged for the others: open it with a build that has replication (feature `replicas` of isomerdb)".into(),
            ));
        }
        let hooks = hooks
            .map(|calls| -> Result<Hooks, DataError> {
                let state = calls.load(read)?;
                Ok(Hooks { calls, state })
            })
            .transpose()?;
        let keepers = keepers::load(read)?;
        let since = read.version();
        let spill_seal = if options.seal.encrypts() {
            Seal::ephemeral().map_err(|error| {
                StorageError::Unavailable(format!("the system gives no random bytes: {error}"))
            })?
        } else {
            Seal::plain()
        };
        let spill = Arc::new(SpillFolder::sealed(&options.spill_folder, spill_seal));
        let shared_holds = options.process_locks.clone().map(SharedHolds::new);
        let store = Self {
            shared: Arc::new(Shared {
                engine,
                options,
                identity,
                names,
                interning: Mutex::new(()),
                schema,
                schema_change: Mutex::new(()),
                nodes: Arc::new(nodes),
                relationships: Arc::new(relationships),
                counts: Mutex::new(counts),
                stream_holds: Mutex::default(),
                shared_holds,
                era: Mutex::default(),
                observers,
                gate: Arc::default(),
                since_save: Arc::default(),
                saving: Mutex::new(()),
                copies: Mutex::default(),
                sequences: Arc::default(),
                bucket_cache: Arc::new(BucketCache::new(since)),
                files: FileNumbers::default(),
                signal: Signals::default(),
                spill,
                key_hints: KeyHints::default(),
                statistics: Arc::new(statistics),
                own_replica: Arc::new(own_replica),
                alone: OnceLock::new(),
                replica_state,
                keepers: Arc::new(RwLock::new(keepers)),
                hooks,
            }),
        };
        store
            .shared
            .observers
            .remote
            .open(Caches::of(&store.shared), since);
        store.eras().open();
        if !store.options().read_only {
            // A database that is open elsewhere may be marked because it is being copied.
            if store.opened_alone() {
                begin_epoch_of_copy(&store)?;
            }
            if let Some(editor) = SchemaEditor::begin_if_free(&store)? {
                editor.drop_unfinished()?;
            }
        }
        Ok(store)
    }
}

impl Caches {
    fn of(shared: &Shared) -> Self {
        Self {
            names: shared.names.clone(),
            schema: shared.schema.clone(),
            nodes: shared.nodes.clone(),
            relationships: shared.relationships.clone(),
            keepers: shared.keepers.clone(),
            bucket_cache: shared.bucket_cache.clone(),
            sequences: shared.sequences.clone(),
            statistics: shared.statistics.clone(),
            own_replica: shared.own_replica.clone(),
            since_save: shared.since_save.clone(),
            signal: shared.signal.0.clone(),
        }
    }
}

/// Checks that the engine holds a database of this format, and returns its identity; writes both into an empty one.
fn claim(engine: &dyn Engine, read_only: bool) -> Result<DatabaseId, DataError> {
    let mut tx = engine.begin()?;
    match tx.get(FORMAT)? {
        Some(value) if value == FORMAT_VALUE => return identity(engine, tx, read_only),
        Some(value) if value.starts_with(&FORMAT_VALUE[..6]) => {
            let found = value.get(6).copied().unwrap_or_default();
            return Err(DataError::Unsupported(format!(
                "the database has format {found}, this program reads format {}: use the version that wrote it to export it",
                FORMAT_VALUE[6]
            )));
        }
        Some(_) => return Err(DataError::corrupt("the format record is malformed")),
        None => {}
    }
    let mut page = Page::new();
    tx.scan(
        KeyRange {
            start: &[],
            end: None,
        },
        Order::Ascending,
        PageLimit { keys: 1, bytes: 1 },
        &mut page,
    )?;
    if !page.is_empty() {
        return Err(DataError::corrupt(
            "this is not an IsomerDB database: it holds keys but no format record",
        ));
    }
    let id = DatabaseId::random();
    tx.put(FORMAT, FORMAT_VALUE)?;
    tx.put(IDENTITY, &id.0)?;
    tx.guard(Item::Identity.granule(), GuardMode::Write);
    match tx.commit(Durability::Synced) {
        Ok(_) => Ok(id),
        // Another process was faster.
        Err(StorageError::Conflict { .. }) => claim(engine, read_only),
        Err(error) => Err(error.into()),
    }
}

/// The identity of an existing database. Version 0.1.0 created databases without one: they get it at the first opening
/// for writing, and have the one of all zeros until then, and on a disk that takes no commit.
fn identity(
    engine: &dyn Engine,
    mut tx: Box<dyn EngineTransaction>,
    read_only: bool,
) -> Result<DatabaseId, DataError> {
    if let Some(bytes) = tx.get(IDENTITY)? {
        let bytes = <[u8; 16]>::try_from(bytes.as_slice());
        let id = bytes.map_err(|_| DataError::corrupt("the identity record is malformed"))?;
        return Ok(DatabaseId(id));
    }
    if read_only {
        return Ok(DatabaseId::default());
    }
    let id = DatabaseId::random();
    tx.put(IDENTITY, &id.0)?;
    tx.guard(Item::Identity.granule(), GuardMode::Write);
    Ok(match tx.commit(Durability::Buffered) {
        Ok(_) => id,
        Err(StorageError::Conflict { .. }) => return claim(engine, read_only),
        Err(_) => DatabaseId::default(),
    })
}
