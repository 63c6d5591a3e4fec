//! Opens a database: from its options to a handle.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use isomer_data::{DataError, DataStore, DataStoreOptions};
use isomer_storage::Engine;
use isomer_views::Views;
use parking_lot::{Mutex, RwLock};

use crate::{
    Builder, Database, EngineKind, Error, Result, Sharing,
    cache::PlanCache,
    database::Inner,
    engine::{self, Opened},
    layers::LayerResult as _,
};

/// Minimum memory of a database.
const MIN_MEMORY_BYTES: usize = 16 << 20;

/// Opens the data of a database. A replica is refused by a build without the feature `replication`, which could not log
/// its commits for the others.
pub(crate) fn open_data(
    engine: Arc<dyn Engine>,
    options: DataStoreOptions,
) -> Result<DataStore, DataError> {
    #[cfg(feature = "replication")]
    return isomer_replication::open(engine, options);
    #[cfg(not(feature = "replication"))]
    DataStore::open(engine, options)
}

impl Builder {
    /// Opens the database in the directory `path`.
    ///
    /// `Unavailable` if another process has it open or the disk fails, `Corrupt` if it is not a database or is damaged,
    /// `Invalid` if the path is an address such as `bolt://127.0.0.1:7687`.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Database> {
        let name = path.as_ref().to_string_lossy();
        if name.contains("://") {
            return Err(Error::invalid(format!(
                "`{name}` is an address, not a folder: a database on a server is reached over HTTP or Bolt"
            )));
        }
        Database::open_with(self, Some(PathBuf::from(path.as_ref())))
    }

    /// Opens an empty database in memory.
    pub fn open_in_memory(self) -> Result<Database> {
        Database::open_with(self.engine(EngineKind::Memory), None)
    }
}

impl Database {
    pub(crate) fn open_with(options: Builder, path: Option<PathBuf>) -> Result<Self> {
        let mut options = options;
        let memory = options
            .memory
            .get_or_insert_with(isomer_data::MemoryBudget::of_this_machine)
            .clone();
        if memory.total_bytes() < MIN_MEMORY_BYTES {
            return Err(Error::invalid(format!(
                "a database needs at least {} MiB of memory, not {} bytes: raise the memory option",
                MIN_MEMORY_BYTES >> 20,
                memory.total_bytes()
            )));
        }
        let open = |options: Builder| {
            let opened = engine::open(&options, path.as_deref(), &memory)?;
            Self::with_engine(opened, options, path.clone())
        };
        match open(options.clone()) {
            Err(error) if options.sharing == Sharing::AsStored && error.is_shared_replica() => {
                open(options.sharing(Sharing::Exclusive))
            }
            opened => opened,
        }
    }

    /// Opens the database of a given engine with custom options: for tests and engines of other crates.
    pub(crate) fn open_engine(engine: Arc<dyn Engine>, options: Builder) -> Result<Self> {
        Self::with_engine(Opened::plain(engine, None), options, None)
    }

    fn with_engine(opened: Opened, options: Builder, path: Option<PathBuf>) -> Result<Self> {
        let Opened {
            engine,
            lsm: lsm_engine,
            seal,
            cache,
            process_locks,
        } = opened;
        let mut store_options = DataStoreOptions::default();
        store_options.read_only = options.read_only;
        store_options.seal = seal;
        store_options.process_locks = process_locks.clone();
        if let Some((bytes, time)) = options.change_retention {
            store_options.stream_hold_bytes = bytes;
            store_options.stream_hold_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        }
        if let Some(memory) = &options.memory {
            store_options.memory = memory.clone();
        }
        let own_folder = path.as_ref().filter(|_| !options.read_only);
        if let Some(folder) = &options.temporary_folder {
            store_options.spill_folder = folder.clone();
        } else if let Some(path) = own_folder {
            store_options.spill_folder = path.join("tmp");
        }
        let store = open_data(engine, store_options).lift()?;
        // Leftovers of processes that ended; others may be using theirs.
        let cleaned = own_folder.filter(|_| store.opened_alone());
        if cleaned.is_some() && options.temporary_folder.is_none() {
            // A leftover that cannot be removed is empty and harmless.
            let _ = store.spill_folder().clean();
        }
        if cleaned.is_some() {
            // Files that were being written at a crash. A full disk must not prevent opening.
            let _ = store.remove_unnamed_files();
        }
        let mut view_options = options.views.clone();
        if view_options.folder.is_none() {
            view_options.folder = path.as_ref().map(|path| path.join("views"));
        }
        let views = Views::open(&store, view_options).lift()?;
        if let Some(locks) = &process_locks {
            locks.opened().map_err(|error| {
                Error::new(
                    crate::ErrorKind::Unavailable,
                    format!("the locks between the processes of the database: {error}"),
                )
            })?;
        }
        let interval = options.sweep_interval.filter(|_| !options.read_only);
        let sweeper = interval.map(|interval| store.start_sweeper(interval));
        let inner = Inner {
            sweeper: Mutex::new(sweeper.transpose().lift()?),
            store: RwLock::new(Some(store)),
            lsm_engine,
            cache: Mutex::new(cache),
            views,
            plans: PlanCache::new(options.cached_plans),
            registry: Arc::new(options.registry.clone()),
            running: Arc::default(),
            #[cfg(feature = "algorithms")]
            graphs: isomer_exec::GraphCatalog::new(),
            options,
            path,
            #[cfg(feature = "files")]
            locks: Arc::new(crate::files::Locks::new(process_locks)),
        };
        Ok(Self {
            inner: Arc::new(inner),
            reserved: None,
        })
    }
}
