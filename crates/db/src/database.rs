//! An open database.

use std::{
    hash::{BuildHasher, RandomState},
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::Duration,
};

use isomer_data::{Access, DataStore, DataStoreOptions, Durability, Reservation, Sweeper, Version};
use isomer_exec::Registry;
use isomer_lsm::LsmEngine;
use isomer_storage::Engine;
use isomer_views::Views;
use parking_lot::{Mutex, RwLock};

use crate::{
    At, Builder, Error, ErrorKind, Memory, Prepared, Query, QueryResult, ReadTransaction, Result,
    RowStream, WriteTransaction, cache::PlanCache, engine::Opened, layers::LayerResult as _,
    running::Running, statement::Statement,
};

/// An open database. Clones share it; it may be used from any thread.
///
/// ```
/// use isomerdb::{Database, params};
///
/// let folder = tempfile::tempdir().unwrap();
/// let db = Database::open(folder.path().join("people"))?;
/// db.query("CREATE (:Person {_key: 'ada'})-[:KNOWS {since: 1833}]->(:Person {_key: 'charles'})")?;
/// let known = db.query(("MATCH (:Person {_key: $who})-[k:KNOWS]->(p) RETURN p._key AS who, k.since AS since", params! { "who" => "ada" }))?;
/// assert_eq!(known.deserialize::<(String, i32)>()?, [("charles".to_owned(), 1833)]);
/// # Ok::<(), isomerdb::Error>(())
/// ```
#[derive(Clone)]
pub struct Database {
    pub(crate) inner: Arc<Inner>,
    /// Buckets with this prefix cannot be written through this handle.
    reserved: Option<&'static str>,
}

pub(crate) struct Inner {
    /// Removes expired entries; stops before the store does.
    sweeper: Mutex<Option<Sweeper>>,
    /// Taken when the database is closed.
    store: RwLock<Option<DataStore>>,
    /// The engine, if it is the LSM engine.
    lsm_engine: Weak<LsmEngine>,
    /// The engine's cache.
    cache: Mutex<Option<Reservation>>,
    pub(crate) views: Arc<Views>,
    pub(crate) options: Builder,
    pub(crate) plans: PlanCache,
    pub(crate) registry: Arc<Registry>,
    pub(crate) running: Arc<Running>,
    path: Option<PathBuf>,
    /// Locks of programs that use the database as a directory.
    #[cfg(feature = "files")]
    pub(crate) locks: Arc<crate::files::Locks>,
}

impl Drop for Inner {
    /// When the last handle is dropped, the files are closed.
    fn drop(&mut self) {
        self.views.close();
    }
}

impl Database {
    /// Opens the database in the directory `path`; creates it if there is none.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("db");
    /// let db = isomerdb::Database::open(&path)?;
    /// db.query("CREATE (:Note {text: 'kept'})")?;
    /// db.close()?;
    ///
    /// let db = isomerdb::Database::open(&path)?;
    /// assert_eq!(db.query("MATCH (n:Note) RETURN n.text")?.single()?.get::<String>("n.text")?, "kept");
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Builder::default().open(path)
    }

    /// Opens an empty database in memory: everything works, nothing is stored on disk.
    ///
    /// ```
    /// let db = isomerdb::Database::open_in_memory()?;
    /// assert_eq!(db.query("RETURN 6 * 7 AS answer")?.single()?.get::<i64>("answer")?, 42);
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn open_in_memory() -> Result<Self> {
        Builder::default().open_in_memory()
    }

    /// Returns a builder for opening a database with custom options.
    ///
    /// ```
    /// use isomerdb::{Database, Durability, EngineKind};
    ///
    /// let db = Database::builder().engine(EngineKind::Memory).cache_bytes(64 << 20).max_retries(10).open_in_memory()?;
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn open_with(options: Builder, path: Option<PathBuf>) -> Result<Self> {
        let mut options = options;
        let memory = options
            .memory
            .get_or_insert_with(isomer_data::Memory::of_this_machine)
            .clone();
        if memory.total_bytes() < LEAST_MEMORY_BYTES {
            return Err(Error::invalid(format!(
                "a database needs at least {} MiB of memory, not {} bytes: raise the memory option",
                LEAST_MEMORY_BYTES >> 20,
                memory.total_bytes()
            )));
        }
        let opened = crate::engine::open(&options, path.as_deref(), &memory)?;
        Self::with_engine(opened, options, path)
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
        } = opened;
        let mut store_options = DataStoreOptions::default();
        store_options.read_only = options.read_only;
        store_options.seal = seal;
        if let Some((bytes, time)) = options.hold_changes {
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
        let store = isomer_replication::open(engine, store_options).lift()?;
        if own_folder.is_some() && options.temporary_folder.is_none() {
            // No other process has this directory open. A leftover that cannot be removed is empty and harmless.
            let _ = store.spill_folder().clean();
        }
        if own_folder.is_some() {
            // Files that were being written at a crash. A full disk must not prevent opening.
            let _ = store.remove_unnamed_files();
        }
        let mut view_options = options.views.clone();
        if view_options.folder.is_none() {
            view_options.folder = path.as_ref().map(|path| path.join("views"));
        }
        let views = Views::open(&store, view_options).lift()?;
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
            options,
            path,
            #[cfg(feature = "files")]
            locks: Arc::default(),
        };
        Ok(Self {
            inner: Arc::new(inner),
            reserved: None,
        })
    }

    /// The directory; none for a database in memory.
    pub fn path(&self) -> Option<&Path> {
        self.inner.path.as_deref()
    }

    /// The memory budget, and its use by kind.
    pub fn memory(&self) -> Result<Memory> {
        Ok(Memory::of(self.store()?.memory().clone()))
    }

    /// The engine, if it is an open store.
    pub(crate) fn lsm_engine(&self) -> Result<Arc<LsmEngine>> {
        self.store()?;
        self.inner.lsm_engine.upgrade().ok_or_else(|| {
            let engine = self.store().map_or("", |store| store.engine().capabilities().name);
            Error::new(
                ErrorKind::Unsupported,
                format!("the engine {engine} can be neither backed up nor merged: export the database, or import it into one of the engine lsm"),
            )
        })
    }

    /// The layer below: catalog, engine, statistics. `Closed` after [`Database::close`].
    pub(crate) fn store(&self) -> Result<DataStore> {
        self.inner.store.read().clone().ok_or_else(Error::closed)
    }

    /// Runs one query in its own transaction and collects its rows. If another transaction conflicts, the query is
    /// retried.
    ///
    /// ```
    /// use isomerdb::{Database, params, to_value};
    ///
    /// let db = Database::open_in_memory()?;
    /// db.query(("UNWIND $names AS name CREATE (:Person {_key: name})", params! { "names" => to_value(&["ada", "bob"])? }))?;
    /// let people = db.query("MATCH (p:Person) RETURN p._key AS key ORDER BY key")?;
    /// assert_eq!(people.deserialize::<String>()?, ["ada", "bob"]);
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    ///
    /// ```
    /// use isomerdb::{CancelHandle, Database, ErrorKind, Query};
    ///
    /// let db = Database::open_in_memory()?;
    /// let handle = CancelHandle::new();
    /// handle.cancel(); // from another thread, as a rule
    /// let query = Query::new("UNWIND range(1, 1000000) AS n RETURN sum(n)").cancel(handle);
    /// let error = db.query(query).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Cancelled);
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn query<'q>(&self, query: impl Into<Query<'q>>) -> Result<QueryResult> {
        let (text, parameters, options) = query.into().into_parts()?;
        self.retrying(|| {
            let (transaction, statement) = self.begin_for(text)?;
            let result = transaction.gather(&statement, &parameters, &options)?;
            transaction.finish()?;
            Ok(result)
        })
    }

    /// Runs one query in its own transaction and streams its rows: nothing is buffered. Writes of the query are
    /// committed after its last row was read; a stream that is dropped earlier is rolled back.
    ///
    /// ```
    /// let db = isomerdb::Database::open_in_memory()?;
    /// let mut sum = 0;
    /// for row in db.stream("UNWIND range(1, 100000) AS n RETURN n")? {
    ///     sum += row?.get::<i64>("n")?;
    /// }
    /// assert_eq!(sum, 5_000_050_000);
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn stream<'q>(&self, query: impl Into<Query<'q>>) -> Result<RowStream> {
        let (text, parameters, options) = query.into().into_parts()?;
        let (transaction, statement) = self.begin_for(text)?;
        RowStream::new(transaction, &statement, &parameters, &options)
    }

    /// Prepares a query that will run many times with other parameters.
    ///
    /// ```
    /// use isomerdb::{Database, params};
    ///
    /// let db = Database::open_in_memory()?;
    /// db.query("UNWIND range(1, 10) AS n CREATE (:Number {_key: n, square: n * n})")?;
    /// let square = db.prepare("MATCH (n:Number {_key: $n}) RETURN n.square AS square")?;
    /// for n in 1..=10 {
    ///     assert_eq!(square.query(params! { "n" => n })?.single()?.get::<i32>("square")?, n * n);
    /// }
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn prepare(&self, text: &str) -> Result<Prepared> {
        Prepared::new(self.clone(), text)
    }

    /// Begins a transaction that reads and writes, at the last committed version. Prefer [`Database::transact`] unless
    /// the transaction's end is decided elsewhere: a commit may conflict (`Retry`).
    ///
    /// ```
    /// let db = isomerdb::Database::open_in_memory()?;
    /// let tx = db.begin()?;
    /// tx.query("CREATE (:Draft)")?;
    /// tx.rollback();
    /// assert_eq!(db.query("MATCH (d:Draft) RETURN d")?.len(), 0);
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn begin(&self) -> Result<WriteTransaction> {
        WriteTransaction::begin(self.clone(), self.most_access())
    }

    /// The access of transactions that write: only reading if the database was opened read-only.
    pub(crate) fn most_access(&self) -> Access {
        match self.inner.options.read_only {
            true => Access::Read,
            false => Access::Write,
        }
    }

    /// Begins a transaction that reads one version: it never waits and never conflicts.
    pub fn begin_read(&self) -> Result<ReadTransaction> {
        ReadTransaction::begin(self.clone(), Access::Read)
    }

    /// Begins a transaction that reads an earlier version, given by its number or by a time. Readable versions: see
    /// [`Database::oldest_version`]; `Invalid` for others. At a time, entries with an expiry are visible as they were
    /// then.
    ///
    /// ```
    /// use isomerdb::{At, Database, EngineKind};
    /// use std::time::Duration;
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// let db = Database::builder().engine(EngineKind::Lsm).keep_versions(Duration::from_secs(3600)).open(folder.path().join("db"))?;
    /// db.query("CREATE (:Sheep)")?;
    /// let before = db.version()?;
    /// db.query("MATCH (s:Sheep) DELETE s")?;
    /// let sheep = "MATCH (s:Sheep) RETURN count(s) AS sheep";
    /// assert_eq!(db.query(sheep)?.single()?.get::<u32>("sheep")?, 0);
    /// assert_eq!(db.begin_at(At::Version(before))?.query(sheep)?.single()?.get::<u32>("sheep")?, 1);
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn begin_at(&self, at: At) -> Result<ReadTransaction> {
        let store = self.store()?;
        let (version, now_ms) = match at {
            At::Version(version) => (version, None),
            At::Time(ms) => {
                let version = store.engine().version_at(ms).lift()?.ok_or_else(|| {
                    let time = i64::try_from(ms).ok().and_then(|ms| isomer_value::jiff::Timestamp::from_millisecond(ms).ok());
                    let time = time.map_or_else(|| format!("{ms} ms after 1970"), |time| time.to_string());
                    Error::invalid(format!(
                        "no version history for {time}: the oldest readable version is {}; increase `keep_versions`, or restore a backup",
                        store.engine().oldest_version()
                    ))
                })?;
                (version, Some(ms))
            }
        };
        let inner = store.begin_at(version, now_ms).lift()?;
        Ok(ReadTransaction::of(self.clone(), inner))
    }

    /// The last committed version.
    pub fn version(&self) -> Result<Version> {
        Ok(self.store()?.engine().version())
    }

    /// The oldest version that is guaranteed to be readable now: see [`Builder::keep_versions`].
    pub fn oldest_version(&self) -> Result<Version> {
        Ok(self.store()?.engine().oldest_version())
    }

    /// Runs `body` in one transaction, commits it, and retries it after a pause if another transaction changed what it
    /// had read. An error of `body` rolls everything back. `body` may run several times: it must not have side effects
    /// outside of the transaction that cannot be repeated.
    ///
    /// ```
    /// use isomerdb::{Database, Error, params};
    ///
    /// let db = Database::open_in_memory()?;
    /// db.query("CREATE (:Account {_key: 'a', euros: 100}), (:Account {_key: 'b', euros: 0})")?;
    /// let left = db.transact(|tx| {
    ///     let from = tx.query("MATCH (a:Account {_key: 'a'}) SET a.euros = a.euros - 30 RETURN a.euros AS euros")?;
    ///     let left: i64 = from.single()?.get("euros")?;
    ///     if left < 0 {
    ///         return Err(Error::invalid("not enough money"));
    ///     }
    ///     tx.query("MATCH (b:Account {_key: 'b'}) SET b.euros = b.euros + 30")?;
    ///     Ok(left)
    /// })?;
    /// assert_eq!(left, 70);
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn transact<T>(&self, body: impl FnMut(&WriteTransaction) -> Result<T>) -> Result<T> {
        self.try_transact(body)
    }

    /// Like [`Database::transact`], with the caller's own type of errors.
    ///
    /// ```
    /// use isomerdb::Database;
    ///
    /// type AnyError = Box<dyn std::error::Error + Send + Sync>;
    ///
    /// let db = Database::open_in_memory()?;
    /// db.try_transact(|tx| {
    ///     tx.bucket("ages").put("ada", "36".parse::<i64>()?)?;
    ///     Ok::<_, AnyError>(())
    /// })?;
    /// # Ok::<(), AnyError>(())
    /// ```
    pub fn try_transact<T, E: From<Error>>(
        &self,
        mut body: impl FnMut(&WriteTransaction) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut pauses = Pauses::new(self.inner.options.max_retries);
        loop {
            let transaction = self.begin()?;
            match body(&transaction) {
                Ok(value) => match transaction.commit() {
                    Ok(_) => return Ok(value),
                    Err(error) if error.kind() == ErrorKind::Retry && pauses.pause() => {}
                    Err(error) => return Err(error.into()),
                },
                Err(_) if transaction.lost_race() && pauses.pause() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Runs `body` on one version of the database. A query that writes is refused (`Denied`).
    ///
    /// ```
    /// let db = isomerdb::Database::open_in_memory()?;
    /// db.query("CREATE (:Sheep), (:Sheep)")?;
    /// let count: u32 = db.read(|tx| tx.query("MATCH (s:Sheep) RETURN count(s) AS sheep")?.single()?.get("sheep"))?;
    /// assert_eq!(count, 2);
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn read<T>(&self, body: impl FnOnce(&ReadTransaction) -> Result<T>) -> Result<T> {
        self.try_read(body)
    }

    /// Like [`Database::read`], with the caller's own type of errors.
    pub fn try_read<T, E: From<Error>>(
        &self,
        body: impl FnOnce(&ReadTransaction) -> Result<T, E>,
    ) -> Result<T, E> {
        body(&self.begin_read()?)
    }

    /// Cancels the query with this number (see `SHOW QUERIES`); false if there is none.
    pub fn cancel_query(&self, id: u64) -> bool {
        self.inner.running.cancel(id)
    }

    /// The next number of a sequence with gaps: larger than all numbers issued before, and never issued again, even
    /// after a crash. Never waits, in contrast to [`crate::Bucket::next_number`]; numbers whose transaction is not
    /// committed are missing.
    ///
    /// ```
    /// let db = isomerdb::Database::open_in_memory()?;
    /// assert!(db.take_number("shop", "ticket")? < db.take_number("shop", "ticket")?);
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn take_number(&self, bucket: &str, sequence: &str) -> Result<u64> {
        self.store()?.sequence_take(bucket, sequence).lift()
    }

    /// Removes expired entries of all buckets now; returns how many.
    pub fn sweep_expired(&self) -> Result<u64> {
        self.store()?.sweep_expired(u64::MAX).lift()
    }

    /// Makes all commits so far durable, including those with [`Durability::Buffered`].
    pub fn sync(&self) -> Result<()> {
        self.store()?.engine().sync().lift()
    }

    /// Writes a copy of the last committed version to the directory `target`, which must be new or empty, concurrently
    /// with reads and writes. The copy opens as a separate database. `Invalid` for a database in memory.
    ///
    /// ```
    /// use isomerdb::Database;
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let (path, backup) = (folder.path().join("db"), folder.path().join("backup"));
    /// let db = Database::open(&path)?;
    /// db.query("CALL kv.put('sessions', 's-17', {user: 'ada', since: datetime()}, 3600000)")?;
    /// db.checkpoint(&backup)?;
    /// db.query("CALL kv.delete('sessions', 's-17')")?;
    ///
    /// let copy = Database::open(&backup)?;
    /// let found = copy.query("CALL kv.scan('sessions', 's-', 's.') YIELD key, value RETURN key, value.user AS user")?;
    /// assert_eq!(found.single()?.get::<String>("user")?, "ada");
    /// assert!(db.query("RETURN kv.get('sessions', 's-17') AS session")?.single()?.get::<Option<String>>("session")?.is_none());
    /// assert_eq!(db.checkpoint(&backup).unwrap_err().kind(), isomerdb::ErrorKind::Invalid);
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn checkpoint(&self, target: impl AsRef<Path>) -> Result<()> {
        self.store()?.checkpoint(target.as_ref()).lift()
    }

    /// Closes the database for all clones of this handle: later calls return `Closed`. Open transactions and file
    /// readers ([`Database::open_file`]) can finish; the directory is released for another process or
    /// [`Database::rotate_key`] when the last of them has. Closing twice is not an error.
    ///
    /// ```
    /// use isomerdb::{Database, ErrorKind};
    ///
    /// let db = Database::open_in_memory()?;
    /// let clone = db.clone();
    /// db.close()?;
    /// assert_eq!(clone.query("RETURN 1").unwrap_err().kind(), ErrorKind::Closed);
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn close(&self) -> Result<()> {
        drop(self.inner.sweeper.lock().take());
        self.inner.views.close();
        let store = self.inner.store.write().take();
        drop(self.inner.cache.lock().take());
        self.inner.plans.clear();
        if let Some(store) = &store {
            // They are derived: if they cannot be stored, they are sampled again.
            let _ = store.statistics().save();
        }
        match store {
            Some(store)
                if self.inner.options.durability == Durability::Buffered
                    && !self.inner.options.read_only =>
            {
                store.engine().sync().lift()
            }
            _ => Ok(()),
        }
    }

    /// A handle for other users of the database: buckets whose names begin with `prefix` cannot be written through it
    /// (`Denied`), neither by transactions nor by queries. The owner writes them with
    /// [`WriteTransaction::reserved_bucket`].
    ///
    /// ```
    /// use isomerdb::{Database, ErrorKind};
    ///
    /// let db = Database::open_in_memory()?;
    /// let handed_on = db.reserving("own.");
    /// handed_on.query("CALL kv.put('others', 'k', 1)")?;
    /// let error = handed_on.query("CALL kv.put('own.notes', 'k', 1)").unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Denied);
    /// handed_on.transact(|tx| tx.reserved_bucket("own.notes").put("k", 1))?;
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn reserving(&self, prefix: &'static str) -> Self {
        Self {
            inner: self.inner.clone(),
            reserved: Some(prefix),
        }
    }

    /// The prefix given to [`Database::reserving`].
    pub(crate) fn reserved(&self) -> Option<&'static str> {
        self.reserved
    }

    /// Whether [`Database::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.inner.store.read().is_none()
    }

    /// A query's plan and a transaction for it, which is read-only if the query only reads.
    fn begin_for(&self, text: &str) -> Result<(ReadTransaction, Statement)> {
        let lookup = Statement::cached(self, text);
        let writes = lookup
            .known
            .as_ref()
            .is_some_and(|statement| !statement.reads());
        if writes && !self.inner.options.read_only {
            let transaction = ReadTransaction::begin(self.clone(), Access::Write)?;
            let statement = Statement::reuse_or_plan(self, &*transaction.borrow()?, text, lookup)?;
            return Ok((transaction, statement));
        }
        let transaction = self.begin_read()?;
        let statement = Statement::reuse_or_plan(self, &*transaction.borrow()?, text, lookup)?;
        if statement.reads() || self.inner.options.read_only {
            return Ok((transaction, statement));
        }
        let transaction = ReadTransaction::begin(self.clone(), Access::Write)?;
        Ok((transaction, statement))
    }

    /// Retries `attempt` after a pause while it returns `Retry`: for attempts that begin their own transaction.
    ///
    /// ```
    /// use isomerdb::{Database, Error};
    ///
    /// let db = Database::open_in_memory()?;
    /// let first = db.retrying(|| {
    ///     let mut rows = db.stream("MERGE (v:Visit {_key: 1}) ON MATCH SET v.again = true RETURN v.again IS NULL AS first")?;
    ///     let first = rows.next().transpose()?.ok_or_else(|| Error::invalid("no row"))?.get::<bool>("first")?;
    ///     rows.next().transpose()?; // commits
    ///     Ok(first)
    /// })?;
    /// assert!(first);
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn retrying<T>(&self, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
        let mut pauses = Pauses::new(self.inner.options.max_retries);
        loop {
            match attempt() {
                Err(error) if error.kind() == ErrorKind::Retry && pauses.pause() => {}
                outcome => return outcome,
            }
        }
    }
}

/// Minimum memory of a database.
const LEAST_MEMORY_BYTES: usize = 16 << 20;

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database")
            .field("path", &self.inner.path)
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

/// Delays between attempts: random, doubled each time, so that conflicting transactions spread out.
struct Pauses {
    left: u32,
    longest: Duration,
}

impl Pauses {
    const FIRST: Duration = Duration::from_micros(50);
    const LONGEST: Duration = Duration::from_millis(20);

    fn new(max_retries: u32) -> Self {
        Self {
            left: max_retries,
            longest: Self::FIRST,
        }
    }

    /// Sleeps, unless all attempts are used up.
    fn pause(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        let share = RandomState::new().hash_one(self.left) as f64 / u64::MAX as f64;
        std::thread::sleep(self.longest.mul_f64(share));
        self.longest = (self.longest * 2).min(Self::LONGEST);
        true
    }
}
