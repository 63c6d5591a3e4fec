//! How a database is opened, and how a query runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use isomer_data::{Durability, Memory};
use isomer_exec::{Procedure, Registry};
use isomer_vfs::keys::MasterKey;
use isomer_views::ViewOptions;

use isomer_plan::physical::StatementClass;

use crate::{CancelHandle, Database, Error, ErrorKind, Limits, Result};

/// Which engine keeps the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EngineKind {
    /// Our own log-structured engine, in a directory: durable.
    #[default]
    Store,
    /// redb, in a directory: durable.
    Redb,
    /// Memory: gone when the last handle is dropped.
    Memory,
}

/// A moment in the past of a database: see [`Database::begin_at`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// When this was the last committed version.
    Version(isomer_data::Version),
    /// A time, in milliseconds since 1970 UTC.
    Time(u64),
}

/// How to open a database: see [`Database::builder`].
#[derive(Clone, Debug)]
pub struct Builder {
    pub(crate) engine: Option<EngineKind>,
    pub(crate) create: bool,
    pub(crate) read_only: bool,
    pub(crate) memory: Option<Memory>,
    pub(crate) cache_bytes: Option<usize>,
    pub(crate) temporary_folder: Option<PathBuf>,
    pub(crate) max_transaction_bytes: usize,
    pub(crate) keep_versions: Duration,
    pub(crate) background_bytes_per_second: Option<u64>,
    pub(crate) hold_changes: Option<(u64, Duration)>,
    pub(crate) limits: Limits,
    pub(crate) durability: Durability,
    pub(crate) max_retries: u32,
    pub(crate) cached_plans: usize,
    pub(crate) plan_statistics: bool,
    pub(crate) sweep_interval: Option<Duration>,
    pub(crate) registry: Registry,
    pub(crate) planning: isomer_plan::Options,
    pub(crate) parallel_rows: Option<u64>,
    pub(crate) views: ViewOptions,
    pub(crate) workers: usize,
    pub(crate) csv_folder: Option<Arc<Path>>,
    pub(crate) key: Option<MasterKey>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            engine: None,
            create: true,
            read_only: false,
            memory: None,
            cache_bytes: None,
            temporary_folder: None,
            max_transaction_bytes: 1 << 30,
            keep_versions: Duration::ZERO,
            background_bytes_per_second: None,
            hold_changes: None,
            limits: Limits::default(),
            durability: Durability::Synced,
            max_retries: 100,
            cached_plans: 1024,
            plan_statistics: true,
            sweep_interval: Some(Duration::from_secs(30)),
            registry: Registry::with_builtins(),
            planning: isomer_plan::Options::default(),
            parallel_rows: None,
            views: ViewOptions::default(),
            workers: 0,
            csv_folder: None,
            key: None,
        }
    }
}

impl Builder {
    /// The engine. Unless said otherwise, the one that a directory was made with, and the default one for a new directory.
    /// A directory that was made with another engine is refused (`Invalid`). The memory engine ignores the path.
    pub fn engine(mut self, engine: EngineKind) -> Self {
        self.engine = Some(engine);
        self
    }

    /// The key of an encrypted database, and of one that is made. Everything that is written is then encrypted
    /// (XChaCha20-Poly1305): tables, log, read views, what does not fit into memory, and backups. A database that was made
    /// without a key has none. The engine must be [`EngineKind::Store`].
    ///
    /// Opening without the key, or with another one, is refused (`Denied`) before anything is touched.
    ///
    /// ```
    /// use isomer_db::{Database, EngineKind, ErrorKind, MasterKey};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("db");
    /// let key = MasterKey::generate()?; // as a rule MasterKey::from_file or MasterKey::from_env
    /// let db = Database::builder().engine(EngineKind::Store).key(key.clone()).open(&path)?;
    /// db.query("CREATE (:Note {text: 'for few eyes'})", ())?;
    /// db.close()?;
    ///
    /// assert_eq!(Database::open(&path).unwrap_err().kind(), ErrorKind::Denied);
    /// let db = Database::builder().key(key).open(&path)?;
    /// assert_eq!(db.query("MATCH (n:Note) RETURN n", ())?.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn key(mut self, key: MasterKey) -> Self {
        self.key = Some(key);
        self
    }

    /// Whether to make the database where nothing is; true unless said otherwise.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Opens without writing a byte.
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// The memory that the database may use, in bytes, at least 16 MiB: cached pages, read views, all running queries and
    /// bulk loads together. Unless said otherwise, a quarter of what the machine (or the container, or the process's
    /// limit on address space) has. A query beyond its part sorts and groups on disk, or answers `Limit`.
    ///
    /// ```
    /// use isomer_db::{Database, MemoryKind};
    ///
    /// let db = Database::builder().memory(256 << 20).open_in_memory()?;
    /// assert_eq!(db.memory()?.total_bytes(), 256 << 20);
    /// assert_eq!(db.memory()?.usage(MemoryKind::Queries).used_bytes, 0);
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    pub fn memory(self, bytes: usize) -> Self {
        self.shared_memory(&Memory::new(bytes))
    }

    /// Lets several databases share one budget.
    pub fn shared_memory(mut self, memory: &Memory) -> Self {
        self.memory = Some(memory.clone());
        self
    }

    /// The part of the memory for cached pages; a quarter of it unless said otherwise.
    pub fn cache_bytes(mut self, bytes: usize) -> Self {
        self.cache_bytes = Some(bytes);
        self
    }

    /// Where queries and bulk loads put what does not fit into memory; `tmp` in the database's directory unless said
    /// otherwise, the system's folder for a database that is in memory or opened to read. Files there are gone when
    /// the query ends.
    pub fn temporary_folder(mut self, path: impl Into<PathBuf>) -> Self {
        self.temporary_folder = Some(path.into());
        self
    }

    /// Largest write set of one transaction; 1 GiB unless said otherwise.
    pub fn max_transaction_bytes(mut self, bytes: usize) -> Self {
        self.max_transaction_bytes = bytes;
        self
    }

    /// How long every version can be read after it was replaced ([`Database::begin_at`]); not at all unless said otherwise. What is
    /// kept takes room. The engine `store` only: others keep the last version.
    pub fn keep_versions(mut self, time: Duration) -> Self {
        self.keep_versions = time;
        self
    }

    /// Bytes per second that work in the background may write to tables, so that reads have the rest of the disk; a commit is held up
    /// where more is written for long. No limit unless said otherwise. The engine `store` only.
    pub fn background_bytes_per_second(mut self, bytes: u64) -> Self {
        self.background_bytes_per_second = Some(bytes);
        self
    }

    /// How far whoever follows changes ([`Database::watch`], a feed of the server) may be behind: the change stream is kept
    /// for the slowest one, but for no more than about so many bytes (counted since the opening), and not for longer than
    /// `time` after the commit that was not read. Who is further behind is told (`Invalid`) when it reads on. 4 GiB and
    /// seven days unless said otherwise.
    pub fn hold_changes(mut self, bytes: u64, time: Duration) -> Self {
        self.hold_changes = Some((bytes, time));
        self
    }

    /// What a query may take unless it says otherwise.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Whether a commit is on disk when it returns ([`Durability::Synced`], unless said otherwise).
    /// [`Durability::Buffered`] loses the last commits with the machine: for bulk loads and benchmarks.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// How often a transaction that lost a race is run again before the race is given up; 100 unless said otherwise.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = retries;
        self
    }

    /// How many plans of queries are kept; 1,024 unless said otherwise.
    pub fn cached_plans(mut self, plans: usize) -> Self {
        self.cached_plans = plans;
        self
    }

    /// Whether queries are planned by statistics (how labels, relationships and values are spread) or by the numbers of
    /// nodes and relationships alone; true unless said otherwise. For comparisons: answers are the same.
    pub fn plan_statistics(mut self, used: bool) -> Self {
        self.plan_statistics = used;
        self
    }

    /// How often expired entries of buckets are taken away, on a thread of its own; 30 seconds unless said otherwise,
    /// `None` for never. They are invisible in any case.
    pub fn sweep_interval(mut self, interval: Option<Duration>) -> Self {
        self.sweep_interval = interval;
        self
    }

    /// From how many expected rows on several threads make them: for tests, which compare the answers.
    #[doc(hidden)]
    pub fn parallel_rows(mut self, rows: u64) -> Self {
        self.parallel_rows = Some(rows);
        self
    }

    /// How statements are planned: for tests, which compare the answers of different plans.
    #[doc(hidden)]
    pub fn planning(mut self, planning: isomer_plan::Options) -> Self {
        self.planning = planning;
        self
    }

    /// Threads that may work for one query at once, the caller's included; as many as the machine has cores unless said
    /// otherwise. 1 keeps every query on its caller's thread. Small queries stay there in any case.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// Whether read views are kept, and when they are made. They take memory from the same budget as all else and give
    /// way first. Without them every answer is the same and comes from the rows.
    pub fn views(mut self, views: ViewOptions) -> Self {
        self.views = views;
        self
    }

    /// The folder from which queries may read files by `LOAD CSV`, and no other; none unless said otherwise. Links that
    /// lead out of it are not followed.
    pub fn csv_folder(mut self, folder: impl AsRef<Path>) -> Self {
        self.csv_folder = Some(folder.as_ref().into());
        self
    }

    /// Adds a procedure that queries can call, or replaces the one of its name.
    pub fn procedure(mut self, procedure: Arc<dyn Procedure>) -> Self {
        self.registry.add_procedure(procedure);
        self
    }

    /// Opens the database in the directory `path`.
    ///
    /// `Unavailable` where another process has it open or the disk refuses, `Corrupt` where it is no database or a
    /// damaged one.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Database> {
        Database::open_with(self, Some(PathBuf::from(path.as_ref())))
    }

    /// Opens an empty database in memory.
    pub fn open_in_memory(self) -> Result<Database> {
        Database::open_with(self.engine(EngineKind::Memory), None)
    }
}

/// How one query runs, where it differs from the rest of the database.
///
/// ```
/// use isomer_db::{Database, ErrorKind, QueryOptions};
/// use std::time::Duration;
///
/// let db = Database::open_in_memory()?;
/// let options = QueryOptions::new().time_limit(Duration::from_millis(50));
/// let error = db.query_with("UNWIND range(1, 100000) AS a UNWIND range(1, 100000) AS b RETURN count(*)", (), &options).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Limit);
/// # Ok::<(), isomer_db::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct QueryOptions {
    /// What it may take; the database's limits where absent.
    pub limits: Option<Limits>,
    /// Longest running time; over that of `limits`.
    pub time_limit: Option<std::time::Duration>,
    /// Stops it from another thread.
    pub cancel: CancelHandle,
    /// The most that the statement may do; anything where absent.
    pub allowed: Option<StatementClass>,
}

impl QueryOptions {
    /// The database's own limits, and a handle that nobody else holds.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets the query take this much.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// Lets the query run for so long.
    pub fn time_limit(mut self, limit: std::time::Duration) -> Self {
        self.time_limit = Some(limit);
        self
    }

    /// Lets `handle` stop the query.
    pub fn cancel(mut self, handle: CancelHandle) -> Self {
        self.cancel = handle;
        self
    }

    /// Refuses a statement that does more than `class`, as its plan says, before it reads or writes anything: `Denied`.
    ///
    /// ```
    /// use isomer_db::{Database, ErrorKind, QueryOptions, StatementClass};
    ///
    /// let db = Database::open_in_memory()?;
    /// let reader = QueryOptions::new().allow(StatementClass::Read);
    /// let error = db.query_with("CREATE (:Person)", (), &reader).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Denied);
    /// assert_eq!(db.query_with("MATCH (p:Person) RETURN count(p) AS n", (), &reader)?.single()?.get::<u8>("n")?, 0);
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    pub fn allow(mut self, class: StatementClass) -> Self {
        self.allowed = Some(class);
        self
    }

    pub(crate) fn check_allowed(&self, class: StatementClass) -> Result<()> {
        match self.allowed {
            Some(allowed) if class > allowed => Err(Error::new(
                ErrorKind::Denied,
                format!(
                    "the statement is one of class `{}`, here only those up to `{}` are allowed",
                    class.name(),
                    allowed.name()
                ),
            )),
            _ => Ok(()),
        }
    }

    pub(crate) fn resolved_limits(&self, default: &Limits) -> Limits {
        let mut limits = self.limits.clone().unwrap_or_else(|| default.clone());
        if let Some(time) = self.time_limit {
            limits.time = Some(time);
        }
        limits
    }
}
