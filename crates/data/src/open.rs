//! Opening a database: what is loaded from the engine, and what an earlier process left unfinished.

use std::sync::Arc;

use isomer_layout::{
    DataError,
    catalog::{Catalog, keepers, names::Names, schema::Schema},
    keyspace::{FORMAT, FORMAT_VALUE, IDENTITY, IdSpace},
};
use isomer_storage::{
    Durability, Engine, EngineTransaction, KeyRange, Order, Page, PageLimit, Read, StorageError,
};
use isomer_value::DatabaseId;
use isomer_vfs::Seal;
use parking_lot::{Mutex, RwLock};

use crate::{
    DataStore, DataStoreOptions,
    convergent::replica::OwnReplica,
    copies::begin_epoch_of_copy,
    counts::Counts,
    extents::Extents,
    files::FileNumbers,
    graph::KeyHints,
    kv::{BucketCache, Sequences, Signals},
    observer::Observers,
    replicated::{ReplicaState, ReplicationHooks},
    schema_change::SchemaEditor,
    spill::SpillFolder,
    statistics::Statistics,
    store::{CurrentSchema, Hooks, Shared},
    store_state::Copies,
};

impl DataStore {
    /// Opens what is in `engine`: loads names, schema, extents and counts. An empty engine becomes an empty database.
    /// It cannot become a replica in this opening: `isomer_replication::open` opens one that can.
    ///
    /// # Errors
    /// [`DataError::Unsupported`] for another format and for a replica, [`DataError::Corrupt`] where `engine` does not
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
        let names = Arc::new(Names::load(read)?);
        let schema = Arc::new(Schema::load(read)?);
        let nodes = Extents::load(IdSpace::Nodes, read)?;
        let relationships = Extents::load(IdSpace::Relationships, read)?;
        let counts = Counts::load(&*engine, read)?;
        let statistics = Statistics::load(read)?;
        let own_replica = OwnReplica::load(read)?;
        let replica_state = ReplicaState::load(read)?;
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
        let catalog = Arc::new(Catalog {
            names: names.clone(),
            schema,
        });
        let spill_seal = if options.seal.encrypts() {
            Seal::ephemeral().map_err(|error| {
                StorageError::Unavailable(format!("the system gives no random bytes: {error}"))
            })?
        } else {
            Seal::plain()
        };
        let spill = Arc::new(SpillFolder::sealed(&options.spill_folder, spill_seal));
        let store = Self {
            shared: Arc::new(Shared {
                engine,
                options,
                identity,
                names,
                interning: Mutex::new(()),
                schema: RwLock::new(CurrentSchema {
                    catalog,
                    since,
                    changing: false,
                }),
                schema_change: Mutex::new(()),
                nodes,
                relationships,
                counts: Mutex::new(counts),
                stream_holds: Mutex::default(),
                era: Mutex::default(),
                observers,
                gate: Arc::default(),
                since_save: Mutex::default(),
                saving: Mutex::new(()),
                copies: Copies::default(),
                sequences: Sequences::default(),
                bucket_cache: BucketCache::new(since),
                files: FileNumbers::default(),
                signal: Signals::default(),
                spill,
                key_hints: KeyHints::default(),
                statistics,
                own_replica,
                replica_state,
                keepers: RwLock::new(keepers),
                hooks,
            }),
        };
        store.eras().open();
        if !store.options().read_only {
            begin_epoch_of_copy(&store)?;
            SchemaEditor::begin(&store).drop_unfinished()?;
        }
        Ok(store)
    }
}

/// Checks that the engine holds a database of this format, and returns its identity; writes both into an empty one.
fn claim(engine: &dyn Engine, read_only: bool) -> Result<DatabaseId, DataError> {
    let mut tx = engine.begin()?;
    match tx.get(FORMAT)? {
        Some(value) if value == FORMAT_VALUE => return identity(tx, read_only),
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
    tx.commit(Durability::Synced)?;
    Ok(id)
}

/// The identity of an existing database. Version 0.1.0 created databases without one: they get it at the first opening
/// for writing, and have the one of all zeros until then, and on a disk that takes no commit.
fn identity(mut tx: Box<dyn EngineTransaction>, read_only: bool) -> Result<DatabaseId, DataError> {
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
    Ok(match tx.commit(Durability::Buffered) {
        Ok(_) => id,
        Err(_) => DatabaseId::default(),
    })
}
