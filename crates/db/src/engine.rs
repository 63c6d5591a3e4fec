//! Which engine keeps the bytes: what is asked for, or what a directory holds.

use std::{
    path::Path,
    sync::{Arc, Weak},
};

use isomer_data::{Memory, MemoryKind, Reservation};
use isomer_storage::{Engine, MemoryEngine};
use isomer_storage_redb::{RedbEngine, RedbOptions};
use isomer_store::{Retention, StoreEngine, StoreOptions};
use isomer_vfs::{
    RealDisk, Seal,
    keys::{self, KeyError},
};

use crate::{Builder, EngineKind, Error, ErrorKind, Result};

/// Largest memtable; a store with less memory has smaller ones.
const LARGEST_MEMTABLE_BYTES: usize = 32 << 20;
const LEAST_MEMTABLE_BYTES: usize = 1 << 20;
/// Memtables that a store holds at worst.
const MEMTABLES: usize = 3;

impl EngineKind {
    /// Its name: `store`, `redb`, `memory`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Redb => "redb",
            Self::Memory => "memory",
        }
    }

    /// The engine of the database in the directory `path`; nothing where there is none.
    ///
    /// ```
    /// use isomer_db::{Database, EngineKind};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// let path = folder.path().join("db");
    /// assert_eq!(EngineKind::at(&path), None);
    /// Database::builder().engine(EngineKind::Redb).open(&path)?.close()?;
    /// assert_eq!(EngineKind::at(&path), Some(EngineKind::Redb));
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    pub fn at(path: impl AsRef<Path>) -> Option<Self> {
        let path = path.as_ref();
        if StoreEngine::is_at(path, &StoreOptions::default()).is_ok_and(|there| there) {
            return Some(Self::Store);
        }
        RedbEngine::is_at(path).then_some(Self::Redb)
    }
}

/// An engine that was opened.
pub(crate) struct Opened {
    /// It.
    pub(crate) engine: Arc<dyn Engine>,
    /// It, where it is a store; keeps nothing open.
    pub(crate) store: Weak<StoreEngine>,
    /// What hides its files, and should hide those beside them.
    pub(crate) seal: Seal,
    /// What it caches.
    pub(crate) cache: Option<Reservation>,
}

impl Opened {
    /// Any engine, with nothing known about it.
    pub(crate) fn plain(engine: Arc<dyn Engine>, cache: Option<Reservation>) -> Self {
        Self {
            engine,
            store: Weak::new(),
            seal: Seal::plain(),
            cache,
        }
    }
}

/// Opens the engine of `path` with the options of a database; what it caches is reserved.
pub(crate) fn open(options: &Builder, path: Option<&Path>, memory: &Memory) -> Result<Opened> {
    let (Some(path), true) = (path, options.engine != Some(EngineKind::Memory)) else {
        let engine = MemoryEngine::with_max_transaction_bytes(options.max_transaction_bytes);
        check_unkeyed(options, EngineKind::Memory)?;
        return Ok(Opened::plain(Arc::new(engine), None));
    };
    let there = EngineKind::at(path);
    if let (Some(asked), Some(there)) = (options.engine, there)
        && asked != there
    {
        return Err(Error::new(
            ErrorKind::Invalid,
            format!(
                "`{}` holds a database of the engine {}, not {}: open it without naming an engine, or give another path",
                path.display(),
                there.name(),
                asked.name()
            ),
        ));
    }
    let kind = there.or(options.engine).unwrap_or_else(default_kind);
    if kind == EngineKind::Store {
        check_key(options, path, there.is_none())?;
    } else {
        check_unkeyed(options, kind)?;
    }
    let reserved = reserve_cache(memory, options.cache_bytes)?;
    let bytes = reserved.bytes();
    match kind {
        EngineKind::Store => {
            let memtable_bytes = (bytes / 8).clamp(LEAST_MEMTABLE_BYTES, LARGEST_MEMTABLE_BYTES);
            let memtables = MEMTABLES * memtable_bytes;
            // Who said how large it shall be means that.
            let elastic = options.cache_bytes.is_none();
            let most = (memory.total_bytes() / 2).saturating_sub(memtables);
            let store = StoreOptions {
                create: options.create && !options.read_only,
                read_only: options.read_only,
                cache_bytes: bytes.saturating_sub(memtables),
                spare_memory: elastic.then(|| (memory.clone(), most)),
                memtable_bytes,
                max_transaction_bytes: options.max_transaction_bytes,
                key: options.key.clone(),
                background_bytes_per_second: options.background_bytes_per_second,
                retention: Retention {
                    versions_ms: u64::try_from(options.keep_versions.as_millis())
                        .unwrap_or(u64::MAX),
                    ..Retention::default()
                },
                ..StoreOptions::default()
            };
            let engine = Arc::new(StoreEngine::open(path, store)?);
            Ok(Opened {
                store: Arc::downgrade(&engine),
                seal: engine.seal().clone(),
                engine,
                cache: Some(reserved),
            })
        }
        EngineKind::Redb | EngineKind::Memory => {
            let redb = RedbOptions {
                create: options.create && !options.read_only,
                read_only: options.read_only,
                cache_bytes: bytes,
                max_transaction_bytes: options.max_transaction_bytes,
                ..RedbOptions::default()
            };
            let engine = Arc::new(RedbEngine::open(path, redb)?);
            Ok(Opened::plain(engine, Some(reserved)))
        }
    }
}

/// Tells of a wrong or missing key by its own kind, before anything is touched.
fn check_key(options: &Builder, path: &Path, new: bool) -> Result<()> {
    if new && !keys::is_encrypted(&RealDisk, path)? {
        return Ok(());
    }
    keys::open(&RealDisk, path, options.key.as_ref(), false)?;
    Ok(())
}

/// Only a store encrypts.
fn check_unkeyed(options: &Builder, kind: EngineKind) -> Result<()> {
    if options.key.is_none() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        format!(
            "the engine {} does not encrypt: open it without a key, or make a database of the engine {}",
            kind.name(),
            EngineKind::Store.name()
        ),
    ))
}

impl From<KeyError> for Error {
    fn from(error: KeyError) -> Self {
        let kind = match error {
            KeyError::Missing(_) | KeyError::Wrong(_) => ErrorKind::Denied,
            KeyError::NotEncrypted(_) | KeyError::Malformed(_) => ErrorKind::Invalid,
            KeyError::Damaged(..) | KeyError::Format(..) => ErrorKind::Corrupt,
            KeyError::Io(..) => ErrorKind::Unavailable,
        };
        Self::new(kind, error.to_string()).with_source(error)
    }
}

/// The engine of new databases. Builds with debug assertions, as tests are, may be told another one, so that all tests
/// run on each engine.
fn default_kind() -> EngineKind {
    if cfg!(debug_assertions) {
        let named = std::env::var("ISOMER_ENGINE").unwrap_or_default();
        let known = [EngineKind::Store, EngineKind::Redb];
        if let Some(kind) = known.into_iter().find(|kind| kind.name() == named) {
            return kind;
        }
    }
    EngineKind::default()
}

/// Least that an engine takes by itself.
const LEAST_CACHE_BYTES: usize = 1 << 20;

/// The engine's own part of the memory: what was asked for, or a quarter of what is free, so that many databases may share it and
/// their queries still find room. (What lies idle a store takes for its cache, and gives back.)
fn reserve_cache(memory: &Memory, asked: Option<usize>) -> Result<Reservation> {
    let free = memory.total_bytes().saturating_sub(memory.used_bytes());
    let mut bytes = asked.unwrap_or((free / 4).max(LEAST_CACHE_BYTES));
    loop {
        match memory.reserve(MemoryKind::EngineCache, bytes) {
            Err(_) if asked.is_none() && bytes > 1 << 20 => bytes /= 2,
            reserved => return Ok(reserved.map_err(isomer_data::DataError::from)?),
        }
    }
}
