//! Which engine keeps the bytes: what is asked for, or what a directory holds.

use std::{path::Path, sync::Arc};

use isomer_data::{Memory, MemoryKind, Reservation};
use isomer_storage::{Engine, MemoryEngine};
use isomer_storage_redb::{RedbEngine, RedbOptions};
use isomer_store::{StoreEngine, StoreOptions};

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

/// Opens the engine of `path` with the options of a database; what it caches is reserved.
pub(crate) fn open(
    options: &Builder,
    path: Option<&Path>,
    memory: &Memory,
) -> Result<(Arc<dyn Engine>, Option<Reservation>)> {
    let (Some(path), true) = (path, options.engine != Some(EngineKind::Memory)) else {
        let engine = MemoryEngine::with_max_transaction_bytes(options.max_transaction_bytes);
        return Ok((Arc::new(engine), None));
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
    let reserved = reserve_cache(memory, options.cache_bytes)?;
    let bytes = reserved.bytes();
    let kind = there.or(options.engine).unwrap_or_else(default_kind);
    let engine: Arc<dyn Engine> = match kind {
        EngineKind::Store => {
            let memtable_bytes = (bytes / 8).clamp(LEAST_MEMTABLE_BYTES, LARGEST_MEMTABLE_BYTES);
            let store = StoreOptions {
                create: options.create && !options.read_only,
                read_only: options.read_only,
                cache_bytes: bytes.saturating_sub(MEMTABLES * memtable_bytes),
                memtable_bytes,
                max_transaction_bytes: options.max_transaction_bytes,
                ..StoreOptions::default()
            };
            Arc::new(StoreEngine::open(path, store)?)
        }
        EngineKind::Redb | EngineKind::Memory => {
            let redb = RedbOptions {
                create: options.create && !options.read_only,
                read_only: options.read_only,
                cache_bytes: bytes,
                max_transaction_bytes: options.max_transaction_bytes,
                ..RedbOptions::default()
            };
            Arc::new(RedbEngine::open(path, redb)?)
        }
    };
    Ok((engine, Some(reserved)))
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

/// The engine's part of the memory: what was asked for, or a quarter, or less where others have taken theirs.
fn reserve_cache(memory: &Memory, asked: Option<usize>) -> Result<Reservation> {
    let mut bytes = asked.unwrap_or(memory.total_bytes() / 4);
    loop {
        match memory.reserve(MemoryKind::EngineCache, bytes) {
            Err(_) if asked.is_none() && bytes > 1 << 20 => bytes /= 2,
            reserved => return Ok(reserved.map_err(isomer_data::DataError::from)?),
        }
    }
}
