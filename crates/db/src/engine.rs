//! Choice of the storage engine: the configured one, or the one that a directory was created with.

use std::{
    path::Path,
    str::FromStr,
    sync::{Arc, Weak},
};

use isomer_data::{MemoryBudget, MemoryKind, ProcessLocks, Reservation};
use isomer_lsm::{LogSharing, LsmEngine, LsmOptions, Retention};
use isomer_storage::{Engine, MemoryEngine};
use isomer_vfs::{
    RealDisk, Seal,
    keys::{self, KeyError},
};

use crate::{Builder, EngineKind, Error, ErrorKind, Result, Sharing, layers::LayerResult as _};

/// Maximum memtable size; a database with less memory has smaller ones.
const MAX_MEMTABLE_BYTES: usize = 32 << 20;
const MIN_MEMTABLE_BYTES: usize = 1 << 20;
/// Maximum number of memtables of the LSM engine.
const MEMTABLES: usize = 3;

impl EngineKind {
    /// Its name: `lsm`, `redb`, `memory`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lsm => "lsm",
            Self::Redb => "redb",
            Self::Memory => "memory",
        }
    }

    /// The engine of the database in the directory `path`; none if there is no database.
    ///
    /// ```
    /// use isomerdb::{Database, EngineKind};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// let path = folder.path().join("db");
    /// assert_eq!(EngineKind::at(&path), None);
    /// Database::builder().engine(EngineKind::Lsm).open(&path)?.close()?;
    /// assert_eq!(EngineKind::at(&path), Some(EngineKind::Lsm));
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn at(path: impl AsRef<Path>) -> Option<Self> {
        let path = path.as_ref();
        if LsmEngine::is_at(path, &LsmOptions::default()).is_ok_and(|there| there) {
            return Some(Self::Lsm);
        }
        redb::is_at(path).then_some(Self::Redb)
    }
}

impl Sharing {
    /// How [`Sharing::AsStored`] opens the database in the directory `path`: [`Sharing::Shared`] or
    /// [`Sharing::Exclusive`]; `None` if the path has no database.
    ///
    /// ```
    /// use isomerdb::{Database, Sharing};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// let path = folder.path().join("db");
    /// assert_eq!(Sharing::at(&path), None);
    /// Database::builder().sharing(Sharing::Exclusive).open(&path)?.close()?;
    /// assert_eq!(Sharing::at(&path), Some(Sharing::Exclusive));
    /// Database::builder().sharing(Sharing::Shared).open(&path)?.close()?;
    /// assert_eq!(Sharing::at(&path), Some(Sharing::Shared));
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn at(path: impl AsRef<Path>) -> Option<Self> {
        let path = path.as_ref();
        let is_shared = LsmEngine::is_shared_at(path, &LsmOptions::default());
        if is_shared.is_ok_and(|shared| shared) {
            return Some(Self::Shared);
        }
        EngineKind::at(path).map(|_| Self::Exclusive)
    }

    /// Whether processes can share databases in the folder `path`, which exists.
    ///
    /// # Errors
    /// `Unavailable`, with the reason: `path` is on a network file system, or the system is Windows.
    pub fn check_folder(path: impl AsRef<Path>) -> Result<()> {
        LsmEngine::check_sharing(path, &LsmOptions::default()).lift()
    }
}

/// The engine with a name. Version 0.1.0 called the LSM engine `store`.
///
/// ```
/// use isomerdb::EngineKind;
///
/// assert_eq!("lsm".parse::<EngineKind>()?, EngineKind::Lsm);
/// assert_eq!("store".parse::<EngineKind>()?, EngineKind::Lsm);
/// assert!("rocks".parse::<EngineKind>().is_err());
/// # Ok::<(), isomerdb::Error>(())
/// ```
impl FromStr for EngineKind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "lsm" | "store" => Ok(Self::Lsm),
            "redb" => Ok(Self::Redb),
            "memory" => Ok(Self::Memory),
            _ => Err(Error::new(
                ErrorKind::Invalid,
                format!("unknown engine `{name}`: use lsm, redb or memory"),
            )),
        }
    }
}

/// An opened engine.
pub(crate) struct Opened {
    /// The engine.
    pub(crate) engine: Arc<dyn Engine>,
    /// The engine, if it is the LSM engine; a weak reference.
    pub(crate) lsm: Weak<LsmEngine>,
    /// The key that encrypts its files, for files next to them.
    pub(crate) seal: Seal,
    /// Its cache.
    pub(crate) cache: Option<Reservation>,
    /// The locks between the processes that share it.
    pub(crate) process_locks: Option<Arc<ProcessLocks>>,
}

impl Opened {
    /// Any engine, without further knowledge of it.
    pub(crate) fn plain(engine: Arc<dyn Engine>, cache: Option<Reservation>) -> Self {
        Self {
            engine,
            lsm: Weak::new(),
            seal: Seal::plain(),
            cache,
            process_locks: None,
        }
    }
}

/// Opens the engine of `path` with the options of a database, and reserves its cache.
pub(crate) fn open(
    options: &Builder,
    path: Option<&Path>,
    memory: &MemoryBudget,
) -> Result<Opened> {
    let (Some(path), true) = (path, options.engine != Some(EngineKind::Memory)) else {
        let engine = MemoryEngine::with_max_transaction_bytes(options.max_transaction_bytes);
        check_unkeyed(options, EngineKind::Memory)?;
        check_unshared(options, EngineKind::Memory)?;
        return Ok(Opened::plain(Arc::new(engine), None));
    };
    // Before anything in it is looked for: the error of the system would name a path below the file.
    if path.is_file() {
        return Err(Error::new(
            ErrorKind::Corrupt,
            format!(
                "`{}` is not a database: it is a file, a database is a directory: give another path",
                path.display()
            ),
        ));
    }
    let there = EngineKind::at(path);
    if let (Some(asked), Some(there)) = (options.engine, there)
        && asked != there
    {
        return Err(Error::new(
            ErrorKind::Invalid,
            format!(
                "`{}` holds a database of the engine {}, not {}: open it without an engine option, or give another path",
                path.display(),
                there.name(),
                asked.name()
            ),
        ));
    }
    let kind = there.or(options.engine).unwrap_or_else(default_kind);
    if kind == EngineKind::Lsm {
        check_key(options, path, there.is_none())?;
    } else {
        check_unkeyed(options, kind)?;
        check_unshared(options, kind)?;
    }
    match kind {
        EngineKind::Lsm => {
            let (reserved, sizes) = lsm_sizes(memory, options.cache_bytes)?;
            let lsm = LsmOptions {
                create: options.create && !options.read_only,
                read_only: options.read_only,
                sharing: match options.sharing {
                    Sharing::Exclusive => LogSharing::Exclusive,
                    Sharing::Shared => LogSharing::Shared,
                    Sharing::AsStored => LogSharing::AsStored,
                },
                process_kind: options.process_kind.clone(),
                cache_bytes: sizes.cache_bytes,
                spare_memory: sizes
                    .shared
                    .then(|| (memory.clone(), memory.total_bytes() / 2)),
                memory: sizes.shared.then(|| memory.clone()),
                memtable_bytes: sizes.memtable_bytes,
                max_transaction_bytes: options.max_transaction_bytes,
                key: options.key.clone(),
                background_bytes_per_second: options.background_bytes_per_second,
                retention: Retention {
                    versions_ms: u64::try_from(options.keep_versions.as_millis())
                        .unwrap_or(u64::MAX),
                    ..Retention::default()
                },
                ..LsmOptions::default()
            };
            let engine = Arc::new(LsmEngine::open(path, lsm).lift()?);
            let process_locks = match engine.is_shared() && !options.read_only {
                true => Some(join_processes(path)?),
                false => None,
            };
            Ok(Opened {
                lsm: Arc::downgrade(&engine),
                seal: engine.seal().clone(),
                engine,
                cache: Some(reserved),
                process_locks,
            })
        }
        EngineKind::Redb | EngineKind::Memory => redb::open(options, path, memory),
    }
}

/// The engine redb.
#[cfg(feature = "redb")]
mod redb {
    use isomer_storage_redb::{RedbEngine, RedbOptions};

    use super::*;

    pub(super) fn is_at(path: &Path) -> bool {
        RedbEngine::is_at(path)
    }

    pub(super) fn open(options: &Builder, path: &Path, memory: &MemoryBudget) -> Result<Opened> {
        let reserved = reserve_cache(memory, options.cache_bytes)?;
        let redb = RedbOptions {
            create: options.create && !options.read_only,
            read_only: options.read_only,
            cache_bytes: reserved.bytes(),
            max_transaction_bytes: options.max_transaction_bytes,
            ..RedbOptions::default()
        };
        let engine = Arc::new(RedbEngine::open(path, redb).lift()?);
        Ok(Opened::plain(engine, Some(reserved)))
    }
}

/// Recognises its databases, and refuses them.
#[cfg(not(feature = "redb"))]
mod redb {
    use super::*;

    /// The names of its data file, and of one that is being created.
    const DATA: [&str; 2] = ["data", "data.new"];

    pub(super) fn is_at(path: &Path) -> bool {
        DATA.iter().any(|name| path.join(name).is_file())
    }

    pub(super) fn open(_: &Builder, path: &Path, _: &MemoryBudget) -> Result<Opened> {
        Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "`{}` needs the engine redb, which this build does not have: build it with the feature `redb`",
                path.display()
            ),
        ))
    }
}

/// Reports a wrong or missing key with its own error kind, before anything is modified.
fn check_key(options: &Builder, path: &Path, new: bool) -> Result<()> {
    if new && !keys::is_encrypted(&RealDisk, path)? {
        return Ok(());
    }
    keys::open(&RealDisk, path, options.key.as_ref(), false)?;
    Ok(())
}

/// Only the LSM engine supports encryption.
fn check_unkeyed(options: &Builder, kind: EngineKind) -> Result<()> {
    if options.key.is_none() {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        format!(
            "the engine {} does not encrypt: open it without a key, or create a database of the engine {}",
            kind.name(),
            EngineKind::Lsm.name()
        ),
    ))
}

/// Only the LSM engine can be shared by processes.
fn check_unshared(options: &Builder, kind: EngineKind) -> Result<()> {
    match options.sharing {
        Sharing::Exclusive | Sharing::AsStored => Ok(()),
        Sharing::Shared => Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "the engine {} cannot be shared by processes: open it exclusively, or create a database of the engine {}",
                kind.name(),
                EngineKind::Lsm.name()
            ),
        )),
    }
}

/// The folder with the locks between the processes of a shared database.
const LOCKS: &str = "locks";

fn join_processes(path: &Path) -> Result<Arc<ProcessLocks>> {
    ProcessLocks::join(&path.join(LOCKS)).map_err(|error| {
        let message = format!(
            "joining the processes that have the database `{}` open: {error}",
            path.display()
        );
        Error::new(ErrorKind::Unavailable, message).with_source(error)
    })
}

impl From<KeyError> for Error {
    fn from(error: KeyError) -> Self {
        let kind = match error {
            KeyError::Missing(_) | KeyError::Wrong(_) => ErrorKind::Denied,
            KeyError::NotEncrypted(_) | KeyError::Malformed(_) => ErrorKind::Invalid,
            KeyError::Damaged(..) | KeyError::Format(..) => ErrorKind::Corrupt,
            KeyError::Unsupported(_) => ErrorKind::Unsupported,
            _ => ErrorKind::Unavailable,
        };
        Self::new(kind, error.to_string()).with_source(error)
    }
}

/// The engine of new databases. Builds with debug assertions, such as tests, may choose another one by an environment
/// variable, so that all tests run on each engine.
fn default_kind() -> EngineKind {
    if cfg!(debug_assertions) {
        let named = std::env::var("ISOMER_ENGINE").unwrap_or_default();
        if let Ok(kind @ (EngineKind::Lsm | EngineKind::Redb)) = named.parse() {
            return kind;
        }
    }
    EngineKind::default()
}

/// Division of the LSM engine's memory.
struct LsmSizes {
    cache_bytes: usize,
    memtable_bytes: usize,
    /// Whether cache and memtables grow and shrink within the shared budget.
    shared: bool,
}

/// A memtable takes at most this fraction of the budget,
const MEMTABLE_SHARE: usize = 32;
/// and the cache always has at least this fraction, at most [`MIN_CACHE_BYTES`]: many databases may share a budget.
const CACHE_SHARE: usize = 256;

/// Sizes of cache and memtables, and how much of that is reserved immediately: all of it if the caller gave a size,
/// otherwise little, so that an idle database holds almost nothing.
fn lsm_sizes(memory: &MemoryBudget, asked: Option<usize>) -> Result<(Reservation, LsmSizes)> {
    let memtable = |part: usize| part.clamp(MIN_MEMTABLE_BYTES, MAX_MEMTABLE_BYTES);
    if asked.is_some() {
        let reserved = reserve_cache(memory, asked)?;
        let memtable_bytes = memtable(reserved.bytes() / 8);
        let sizes = LsmSizes {
            cache_bytes: reserved.bytes().saturating_sub(MEMTABLES * memtable_bytes),
            memtable_bytes,
            shared: false,
        };
        return Ok((reserved, sizes));
    }
    let cache_bytes = (memory.total_bytes() / CACHE_SHARE).min(MIN_CACHE_BYTES);
    let reserved = memory
        .reserve(MemoryKind::EngineCache, cache_bytes)
        .map_err(isomer_data::DataError::from)
        .lift()?;
    let sizes = LsmSizes {
        cache_bytes,
        memtable_bytes: memtable(memory.total_bytes() / MEMTABLE_SHARE),
        shared: true,
    };
    Ok((reserved, sizes))
}

/// Minimum memory of an engine.
const MIN_CACHE_BYTES: usize = 1 << 20;

/// The memory of an engine that reserves all of it immediately: the configured size, or a quarter of the free memory,
/// so that several databases may share a budget and leave room for queries.
fn reserve_cache(memory: &MemoryBudget, asked: Option<usize>) -> Result<Reservation> {
    let free = memory.total_bytes().saturating_sub(memory.used_bytes());
    let mut bytes = asked.unwrap_or((free / 4).max(MIN_CACHE_BYTES));
    loop {
        match memory.reserve(MemoryKind::EngineCache, bytes) {
            Err(_) if asked.is_none() && bytes > 1 << 20 => bytes /= 2,
            reserved => return reserved.map_err(isomer_data::DataError::from).lift(),
        }
    }
}
