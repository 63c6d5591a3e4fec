//! Options for opening a database and for running a query.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use isomer_data::Durability;
use isomer_exec::{CancelHandle, CsvUrls, Limits, Registry, UrlClient};
use isomer_vfs::keys::MasterKey;
use isomer_views::ViewOptions;

use isomer_plan::physical::StatementClass;

use crate::layers::LayerResult as _;
use crate::{Error, ErrorKind, Memory, Result};

/// The storage engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum EngineKind {
    /// The project's log-structured engine, in a directory: durable.
    #[default]
    Lsm,
    /// redb, in a directory: durable. Needs the feature `redb`.
    Redb,
    /// In memory: lost when the last handle is dropped.
    Memory,
}

/// Whether other processes may have a database open at the same time: see [`Builder::sharing`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Sharing {
    /// This process alone. Others are refused, except that several may read a database that none has open for writing.
    Exclusive,
    /// Any number of processes of this machine, each of which reads and writes.
    Shared,
    /// As the database is stored: [`Sharing::Shared`] if it was opened in that way before, otherwise
    /// [`Sharing::Exclusive`]. A replica is opened exclusively.
    ///
    /// A new database becomes a shared one where that is possible: with the engine [`EngineKind::Lsm`], in a folder
    /// that [`Sharing::check_folder`] accepts. Elsewhere it is an exclusive one. The same holds for a copy (a
    /// checkpoint, a restored backup) of a shared database, when it is first opened for writing.
    #[default]
    AsStored,
}

/// A point in the past of a database: see [`Database::begin_at`](crate::Database::begin_at).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum At {
    /// By version.
    Version(isomer_data::Version),
    /// By time, in milliseconds since 1970 UTC.
    Time(u64),
}

/// Builder for opening a database: see [`Database::builder`](crate::Database::builder).
#[derive(Clone, Debug)]
pub struct Builder {
    pub(crate) engine: Option<EngineKind>,
    pub(crate) create: bool,
    pub(crate) read_only: bool,
    pub(crate) sharing: Sharing,
    pub(crate) process_kind: String,
    pub(crate) memory: Option<isomer_data::MemoryBudget>,
    pub(crate) cache_bytes: Option<usize>,
    pub(crate) temporary_folder: Option<PathBuf>,
    pub(crate) max_transaction_bytes: usize,
    pub(crate) keep_versions: Duration,
    pub(crate) background_bytes_per_second: Option<u64>,
    pub(crate) change_retention: Option<(u64, Duration)>,
    pub(crate) limits: Limits,
    pub(crate) durability: Durability,
    pub(crate) max_retries: u32,
    pub(crate) cached_plans: usize,
    pub(crate) plan_statistics: bool,
    pub(crate) sweep_interval: Option<Duration>,
    pub(crate) registry: Registry,
    pub(crate) planning: isomer_plan::PlanningOptions,
    pub(crate) parallel_rows: Option<u64>,
    pub(crate) views: ViewOptions,
    pub(crate) workers: usize,
    pub(crate) csv_folder: Option<Arc<Path>>,
    pub(crate) csv_urls: Option<CsvUrls>,
    pub(crate) key: Option<MasterKey>,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            engine: None,
            create: true,
            read_only: false,
            sharing: Sharing::default(),
            process_kind: "library".to_owned(),
            memory: None,
            cache_bytes: None,
            temporary_folder: None,
            max_transaction_bytes: 1 << 30,
            keep_versions: Duration::ZERO,
            background_bytes_per_second: None,
            change_retention: None,
            limits: Limits::default(),
            durability: Durability::Synced,
            max_retries: 100,
            cached_plans: 1024,
            plan_statistics: true,
            sweep_interval: Some(Duration::from_secs(30)),
            registry: Registry::with_builtins(),
            planning: isomer_plan::PlanningOptions::default(),
            parallel_rows: None,
            views: ViewOptions::default(),
            workers: 0,
            csv_folder: None,
            csv_urls: None,
            key: None,
        }
    }
}

impl Builder {
    /// The engine. By default, the one with which a directory was created, and the default engine for a new directory.
    /// A directory of another engine is refused (`Invalid`). The memory engine ignores the path.
    pub fn engine(mut self, engine: EngineKind) -> Self {
        self.engine = Some(engine);
        self
    }

    /// The key of an encrypted database, and of one that is created. All data is then encrypted (XChaCha20-Poly1305):
    /// tables, log, read views, spill files, and backups. A database that was created without a key remains
    /// unencrypted. The engine must be [`EngineKind::Lsm`].
    ///
    /// Opening without the key, or with another one, is refused (`Denied`) before anything is modified.
    ///
    /// ```
    /// use isomerdb::{Query, Database, EngineKind, ErrorKind, MasterKey};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("db");
    /// let key = MasterKey::generate()?; // as a rule MasterKey::from_file or MasterKey::from_env
    /// let db = Database::builder().engine(EngineKind::Lsm).key(key.clone()).open(&path)?;
    /// db.query("CREATE (:Note {text: 'for few eyes'})")?;
    /// db.close()?;
    ///
    /// assert_eq!(Database::open(&path).unwrap_err().kind(), ErrorKind::Denied);
    /// let db = Database::builder().key(key).open(&path)?;
    /// assert_eq!(db.query("MATCH (n:Note) RETURN n")?.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "encryption")]
    pub fn key(mut self, key: MasterKey) -> Self {
        self.key = Some(key);
        self
    }

    /// Whether to create the database if there is none; default: true.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Opens without writing a byte.
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Whether other processes may have the database open at the same time; by default [`Sharing::AsStored`]: a new
    /// database can be open in any number of processes of one machine. Transactions are serializable across processes:
    /// one that begins sees every commit that has returned in any of them.
    ///
    /// - [`Sharing::Shared`] converts a database that was exclusive; earlier versions of this library refuse it from
    ///   then on. `Unsupported` for another engine than [`EngineKind::Lsm`], `Unavailable` where
    ///   [`Sharing::check_folder`] says so.
    /// - [`Sharing::Exclusive`] keeps other processes out until the database is closed; `Unavailable` while one has it
    ///   open. A shared database stays in its format, and the next process that opens it as it is stored shares it. A
    ///   [checkpoint](crate::Database::checkpoint) of it, made in this way, is an exclusive database.
    ///
    /// Bulk loads, replicas and [`Database::rotate_key`](crate::Database::rotate_key) need the database alone: they say
    /// which processes have it open otherwise.
    ///
    /// ```
    /// use isomerdb::{Database, Sharing};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("db");
    /// let one = Database::open(&path)?;
    /// let other = Database::open(&path)?; // as a rule, in another process
    /// one.query("CREATE (:Note {text: 'from the first'})")?;
    /// assert_eq!(other.query("MATCH (n:Note) RETURN n.text")?.len(), 1);
    /// let alone = Database::builder().sharing(Sharing::Exclusive).open(&path);
    /// assert!(alone.is_err(), "it is open elsewhere");
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn sharing(mut self, sharing: Sharing) -> Self {
        self.sharing = sharing;
        self
    }

    /// What this program is, for people: shown by [`Database::processes`](crate::Database::processes). The first 16
    /// bytes count; default: `library`.
    pub fn process_kind(mut self, kind: impl Into<String>) -> Self {
        self.process_kind = kind.into();
        self
    }

    /// The memory budget of the database in bytes, at least 16 MiB: cached pages, read views, all running queries, bulk
    /// loads and write sets, together. By default, a quarter of the memory of the machine (or of the container, or of
    /// the process's address space limit). A query beyond its share spills to disk, or fails with `Limit`.
    ///
    /// ```
    /// use isomerdb::{Database, MemoryKind};
    ///
    /// let db = Database::builder().memory(256 << 20).open_in_memory()?;
    /// assert_eq!(db.memory()?.total_bytes(), 256 << 20);
    /// assert_eq!(db.memory()?.usage(MemoryKind::Queries).used_bytes, 0);
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn memory(self, bytes: usize) -> Self {
        self.shared_memory(&Memory::new(bytes))
    }

    /// Shares one budget between several databases.
    pub fn shared_memory(mut self, memory: &Memory) -> Self {
        self.memory = Some(memory.budget().clone());
        self
    }

    /// The part of the memory for cached pages and memtables, reserved immediately. By default, both grow as long as
    /// memory is free: pages up to half of the memory, of which an eighth is not taken by queries.
    pub fn cache_bytes(mut self, bytes: usize) -> Self {
        self.cache_bytes = Some(bytes);
        self
    }

    /// The folder for spill files of queries and bulk loads; by default `tmp` in the database's directory, or the
    /// system's temporary folder for a database that is in memory or opened read-only. The files are deleted when the
    /// query ends.
    pub fn temporary_folder(mut self, path: impl Into<PathBuf>) -> Self {
        self.temporary_folder = Some(path.into());
        self
    }

    /// Maximum write set of one transaction; default: 1 GiB, and never more than the memory allows. In a shared
    /// database ([`Builder::sharing`]) a transaction is one record of the log, and at most 64 MiB. Bulk loads are not
    /// limited.
    pub fn max_transaction_bytes(mut self, bytes: usize) -> Self {
        self.max_transaction_bytes = bytes;
        self
    }

    /// How long replaced versions remain readable ([`Database::begin_at`](crate::Database::begin_at)); by default not
    /// at all. Retained versions take disk space. The engine `lsm` only: others keep the last version.
    pub fn keep_versions(mut self, time: Duration) -> Self {
        self.keep_versions = time;
        self
    }

    /// Limit on the bytes per second that background work writes to tables, which leaves the rest of the disk's
    /// bandwidth to reads; commits are throttled if more is written for long. No limit by default. The engine `lsm`
    /// only.
    pub fn background_bytes_per_second(mut self, bytes: u64) -> Self {
        self.background_bytes_per_second = Some(bytes);
        self
    }

    /// Retention of changes for slow consumers ([`Database::watch`](crate::Database::watch), a change feed of the
    /// server): the change stream is retained for the slowest one, but at most about this number of bytes (since the
    /// opening), and not longer than `time` after the first unread commit. A consumer that is further behind gets
    /// `Invalid` at its next read. Default: 4 GiB and seven days.
    pub fn change_retention(mut self, bytes: u64, time: Duration) -> Self {
        self.change_retention = Some((bytes, time));
        self
    }

    /// Default limits of queries.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Whether a commit is on disk when it returns ([`Durability::Synced`], the default). [`Durability::Buffered`] may
    /// lose the last commits in a power failure: for bulk loads and benchmarks.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Maximum number of attempts of a conflicting transaction; default: 100.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = retries;
        self
    }

    /// Capacity of the plan cache; default: 1,024.
    pub fn cached_plans(mut self, plans: usize) -> Self {
        self.cached_plans = plans;
        self
    }

    /// Whether queries are planned with statistics on labels, relationships and values, or only with the numbers of
    /// nodes and relationships; default: true. For comparisons: results are the same.
    pub fn plan_statistics(mut self, used: bool) -> Self {
        self.plan_statistics = used;
        self
    }

    /// How often a background thread removes expired entries of buckets; default: 30 seconds, `None` for never. They
    /// are invisible in any case.
    pub fn sweep_interval(mut self, interval: Option<Duration>) -> Self {
        self.sweep_interval = interval;
        self
    }

    /// Threads that may work for one query at once, including the caller's; by default the number of cores. With 1,
    /// every query runs on its caller's thread. Small queries always do.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// The only folder from which queries may read files by `LOAD CSV`; none by default. Links that lead out of it are
    /// not followed.
    pub fn csv_folder(mut self, folder: impl AsRef<Path>) -> Self {
        self.csv_folder = Some(folder.as_ref().into());
        self
    }

    /// Allows queries to read files at the addresses below each of `allowed` by `LOAD CSV`, with this HTTP client; none
    /// by default. An address is `http` or `https`, a host, and optionally a port and a folder:
    /// `https://data.example.org/public/`. Redirects are followed only to allowed addresses.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for an invalid address.
    ///
    /// ```
    /// use isomerdb::{Database, UrlAnswer, UrlClient};
    /// use std::{sync::Arc, time::Duration};
    ///
    /// /// Answers every request with the same file.
    /// struct OneFile;
    ///
    /// impl UrlClient for OneFile {
    ///     fn get(&self, _url: &str, _time: Option<Duration>) -> Result<UrlAnswer, String> {
    ///         Ok(UrlAnswer::Content(Box::new(&b"name,born\nAda,1815\n"[..])))
    ///     }
    /// }
    ///
    /// let db = Database::builder()
    ///     .csv_urls(["https://data.example.org/"], Arc::new(OneFile))?
    ///     .open_in_memory()?;
    /// let load = "LOAD CSV WITH HEADERS FROM 'https://data.example.org/people.csv' AS row RETURN row.name";
    /// assert_eq!(db.query(load)?.deserialize::<String>()?, ["Ada"]);
    /// assert!(db.query("LOAD CSV FROM 'https://example.com/a.csv' AS row RETURN row").is_err());
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn csv_urls(
        mut self,
        allowed: impl IntoIterator<Item = impl AsRef<str>>,
        client: Arc<dyn UrlClient>,
    ) -> Result<Self> {
        self.csv_urls = Some(CsvUrls::new(allowed, client).lift()?);
        Ok(self)
    }
}

/// Options of one query that differ from the database's.
///
/// ```
/// use isomerdb::{Database, ErrorKind, Query, QueryOptions};
/// use std::time::Duration;
///
/// let db = Database::open_in_memory()?;
/// let options = QueryOptions::new().time_limit(Duration::from_millis(50));
/// let error = db.query(Query::new("UNWIND range(1, 100000) AS a UNWIND range(1, 100000) AS b RETURN count(*)").options(&options)).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Limit);
/// # Ok::<(), isomerdb::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct QueryOptions {
    /// Its limits; the database's if absent.
    pub limits: Option<Limits>,
    /// Timeout; overrides that of `limits`.
    pub time_limit: Option<std::time::Duration>,
    /// Cancels it from another thread.
    pub cancel: CancelHandle,
    /// The class of statements that is allowed; any if absent.
    pub allowed: Option<StatementClass>,
    pub(crate) host: Option<Arc<dyn isomer_exec::Host>>,
}

impl QueryOptions {
    /// The database's own limits, and a new cancel handle.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the limits of the query.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// Sets the timeout of the query.
    pub fn time_limit(mut self, limit: std::time::Duration) -> Self {
        self.time_limit = Some(limit);
        self
    }

    /// Lets `handle` cancel the query.
    pub fn cancel(mut self, handle: CancelHandle) -> Self {
        self.cancel = handle;
        self
    }

    /// Refuses a statement of a higher class than `class`, determined from its plan, before it reads or writes
    /// anything: `Denied`.
    ///
    /// ```
    /// use isomerdb::{Database, ErrorKind, Query, QueryOptions, StatementClass};
    ///
    /// let db = Database::open_in_memory()?;
    /// let reader = QueryOptions::new().allow(StatementClass::Read);
    /// let error = db.query(Query::new("CREATE (:Person)").options(&reader)).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Denied);
    /// assert_eq!(db.query(Query::new("MATCH (p:Person) RETURN count(p) AS n").options(&reader))?.single()?.get::<u8>("n")?, 0);
    /// # Ok::<(), isomerdb::Error>(())
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
                    "the statement has class `{}`, but only classes up to `{}` are allowed",
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
