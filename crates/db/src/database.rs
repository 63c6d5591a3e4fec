//! An open database.

use std::{
    hash::{BuildHasher, RandomState},
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::Duration,
};

use isomer_data::{Access, Durability, Memory, Reservation, Store, StoreOptions, Sweeper, Version};
use isomer_exec::Registry;
use isomer_storage::Engine;
use isomer_store::StoreEngine;
use isomer_views::Views;
use parking_lot::{Mutex, RwLock};

use crate::{
    At, Builder, Error, ErrorKind, IntoParameters, Prepared, QueryOptions, QueryResult, Result,
    RowStream, Transaction,
    cache::PlanCache,
    engine::Opened,
    parameters::given,
    running::Running,
    statement::{Statement, gather},
};

/// An open database. Clones share it; it may be used from any thread.
///
/// ```
/// use isomer_db::{Database, params};
///
/// let folder = tempfile::tempdir().unwrap();
/// let db = Database::open(folder.path().join("people"))?;
/// db.query("CREATE (:Person {_key: 'ada'})-[:KNOWS {since: 1833}]->(:Person {_key: 'charles'})", ())?;
/// let known = db.query("MATCH (:Person {_key: $who})-[k:KNOWS]->(p) RETURN p._key AS who, k.since AS since", params! { "who" => "ada" })?;
/// assert_eq!(known.deserialize::<(String, i32)>()?, [("charles".to_owned(), 1833)]);
/// # Ok::<(), isomer_db::Error>(())
/// ```
#[derive(Clone)]
pub struct Database {
    pub(crate) inner: Arc<Inner>,
    /// Buckets whose names begin so are not written through this handle.
    reserved: Option<&'static str>,
}

pub(crate) struct Inner {
    /// Takes expired entries away; ends before the store does.
    sweeper: Mutex<Option<Sweeper>>,
    /// Taken out when the database is closed.
    store: RwLock<Option<Store>>,
    /// The engine, where it is a store.
    store_engine: Weak<StoreEngine>,
    /// What the engine caches.
    cache: Mutex<Option<Reservation>>,
    pub(crate) views: Arc<Views>,
    pub(crate) options: Builder,
    pub(crate) plans: PlanCache,
    pub(crate) registry: Arc<Registry>,
    pub(crate) running: Arc<Running>,
    path: Option<PathBuf>,
    /// Held by who uses the database as a directory.
    pub(crate) locks: Arc<crate::files::Locks>,
}

impl Drop for Inner {
    /// Nothing keeps the files open once the last handle is gone.
    fn drop(&mut self) {
        self.views.close();
    }
}

impl Database {
    /// Opens the database in the directory `path`, or makes one there.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("db");
    /// let db = isomer_db::Database::open(&path)?;
    /// db.query("CREATE (:Note {text: 'kept'})", ())?;
    /// db.close()?;
    ///
    /// let db = isomer_db::Database::open(&path)?;
    /// assert_eq!(db.query("MATCH (n:Note) RETURN n.text", ())?.single()?.get::<String>("n.text")?, "kept");
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Builder::default().open(path)
    }

    /// Opens an empty database in memory: everything works, nothing is kept.
    ///
    /// ```
    /// let db = isomer_db::Database::open_in_memory()?;
    /// assert_eq!(db.query("RETURN 6 * 7 AS answer", ())?.single()?.get::<i64>("answer")?, 42);
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    pub fn open_in_memory() -> Result<Self> {
        Builder::default().open_in_memory()
    }

    /// Opens a database with settings of one's own.
    ///
    /// ```
    /// use isomer_db::{Database, Durability, EngineKind};
    ///
    /// let db = Database::builder().engine(EngineKind::Memory).cache_bytes(64 << 20).max_retries(10).open_in_memory()?;
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) fn open_with(options: Builder, path: Option<PathBuf>) -> Result<Self> {
        let mut options = options;
        let memory = options
            .memory
            .get_or_insert_with(Memory::of_this_machine)
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

    /// Opens what an engine holds, with settings of one's own: for tests and engines of other crates.
    pub fn open_engine(engine: Arc<dyn Engine>, options: Builder) -> Result<Self> {
        Self::with_engine(Opened::plain(engine, None), options, None)
    }

    fn with_engine(opened: Opened, options: Builder, path: Option<PathBuf>) -> Result<Self> {
        let Opened {
            engine,
            store: store_engine,
            seal,
            cache,
        } = opened;
        let mut store_options = StoreOptions::default();
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
        let store = Store::open(engine, store_options)?;
        if own_folder.is_some() && options.temporary_folder.is_none() {
            // Nobody else has this directory open. What cannot be removed is empty and harms nobody.
            let _ = store.spill_folder().clean();
        }
        if own_folder.is_some() {
            // What a crash left of files that were being written. A full disk is no reason not to open.
            let _ = store.remove_unnamed_files();
        }
        let mut view_options = options.views.clone();
        if view_options.folder.is_none() {
            view_options.folder = path.as_ref().map(|path| path.join("views"));
        }
        let views = Views::open(&store, view_options)?;
        let interval = options.sweep_interval.filter(|_| !options.read_only);
        let inner = Inner {
            sweeper: Mutex::new(interval.map(|interval| store.start_sweeper(interval))),
            store: RwLock::new(Some(store)),
            store_engine,
            cache: Mutex::new(cache),
            views,
            plans: PlanCache::new(options.cached_plans),
            registry: Arc::new(options.registry.clone()),
            running: Arc::default(),
            options,
            path,
            locks: Arc::default(),
        };
        Ok(Self {
            inner: Arc::new(inner),
            reserved: None,
        })
    }

    /// The directory, for a database that has one.
    pub fn path(&self) -> Option<&Path> {
        self.inner.path.as_deref()
    }

    /// The budget of memory, and who holds how much of it.
    pub fn memory(&self) -> Result<Memory> {
        Ok(self.store()?.memory().clone())
    }

    /// The engine, where it is a store that is open.
    pub(crate) fn store_engine(&self) -> Result<Arc<StoreEngine>> {
        self.store()?;
        self.inner.store_engine.upgrade().ok_or_else(|| {
            let engine = self.store().map_or("", |store| store.engine().capabilities().name);
            Error::new(
                ErrorKind::Unsupported,
                format!("the engine {engine} can be neither backed up nor merged: export the database, or import it into one of the engine store"),
            )
        })
    }

    /// The layer below: catalog, engine, statistics. `Closed` after [`Database::close`].
    pub fn store(&self) -> Result<Store> {
        self.inner.store.read().clone().ok_or_else(Error::closed)
    }

    /// The read views: what there is, and, for tests and benchmarks, waiting for them and dropping them. Dropping them
    /// changes no answer, only its time.
    ///
    /// ```
    /// let db = isomer_db::Database::open_in_memory()?;
    /// db.query("CREATE (:Person)-[:KNOWS]->(:Person)", ())?;
    /// db.views().wait_ready();
    /// db.views().clear();
    /// assert_eq!(db.query("MATCH (:Person)-[:KNOWS]->(p) RETURN p", ())?.len(), 1);
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    pub fn views(&self) -> &Arc<Views> {
        &self.inner.views
    }

    /// Runs one query in a transaction of its own and gathers its rows. A query that lost a race against another
    /// writer is run again.
    ///
    /// ```
    /// use isomer_db::{Database, params, to_value};
    ///
    /// let db = Database::open_in_memory()?;
    /// db.query("UNWIND $names AS name CREATE (:Person {_key: name})", params! { "names" => to_value(&["ada", "bob"])? })?;
    /// let people = db.query("MATCH (p:Person) RETURN p._key AS key ORDER BY key", ())?;
    /// assert_eq!(people.deserialize::<String>()?, ["ada", "bob"]);
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    pub fn query(&self, text: &str, parameters: impl IntoParameters) -> Result<QueryResult> {
        self.query_with(text, parameters, &QueryOptions::default())
    }

    /// As [`Database::query`], with limits of its own or a handle to stop it.
    ///
    /// ```
    /// use isomer_db::{CancelHandle, Database, ErrorKind, QueryOptions};
    ///
    /// let db = Database::open_in_memory()?;
    /// let handle = CancelHandle::new();
    /// handle.cancel(); // from another thread, as a rule
    /// let options = QueryOptions::new().cancel(handle);
    /// let error = db.query_with("UNWIND range(1, 1000000) AS n RETURN sum(n)", (), &options).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Cancelled);
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    pub fn query_with(
        &self,
        text: &str,
        parameters: impl IntoParameters,
        options: &QueryOptions,
    ) -> Result<QueryResult> {
        let parameters = given(parameters)?;
        self.retrying(|| {
            let (mut transaction, statement) = self.begin_for(text)?;
            let result = gather(&mut transaction, &statement, &parameters, options)?;
            transaction.finish()?;
            Ok(result)
        })
    }

    /// Runs one query in a transaction of its own and gives its rows as they are found: nothing is gathered. What the
    /// query writes is committed when its last row was taken; a stream that is dropped before leaves no trace.
    ///
    /// ```
    /// let db = isomer_db::Database::open_in_memory()?;
    /// let mut sum = 0;
    /// for row in db.stream("UNWIND range(1, 100000) AS n RETURN n", ())? {
    ///     sum += row?.get::<i64>("n")?;
    /// }
    /// assert_eq!(sum, 5_000_050_000);
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    pub fn stream(
        &self,
        text: &str,
        parameters: impl IntoParameters,
    ) -> Result<RowStream<'static>> {
        self.stream_with(text, parameters, &QueryOptions::default())
    }

    /// As [`Database::stream`], with limits of its own or a handle to stop it.
    pub fn stream_with(
        &self,
        text: &str,
        parameters: impl IntoParameters,
        options: &QueryOptions,
    ) -> Result<RowStream<'static>> {
        let (transaction, statement) = self.begin_for(text)?;
        RowStream::own(transaction, &statement, &given(parameters)?, options)
    }

    /// Prepares a query that will run many times with other parameters.
    ///
    /// ```
    /// use isomer_db::{Database, params};
    ///
    /// let db = Database::open_in_memory()?;
    /// db.query("UNWIND range(1, 10) AS n CREATE (:Number {_key: n, square: n * n})", ())?;
    /// let square = db.prepare("MATCH (n:Number {_key: $n}) RETURN n.square AS square")?;
    /// for n in 1..=10 {
    ///     assert_eq!(square.query(params! { "n" => n })?.single()?.get::<i32>("square")?, n * n);
    /// }
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    pub fn prepare(&self, text: &str) -> Result<Prepared> {
        Prepared::new(self.clone(), text)
    }

    /// Begins a transaction that reads and writes, at the last committed version. Use [`Database::transact`] unless the
    /// transaction's end is decided elsewhere: a commit may lose a race (`Retry`).
    ///
    /// ```
    /// let db = isomer_db::Database::open_in_memory()?;
    /// let mut tx = db.begin()?;
    /// tx.query("CREATE (:Draft)", ())?;
    /// tx.rollback();
    /// assert_eq!(db.query("MATCH (d:Draft) RETURN d", ())?.len(), 0);
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    pub fn begin(&self) -> Result<Transaction> {
        let access = if self.inner.options.read_only {
            Access::Read
        } else {
            Access::Write
        };
        Transaction::begin(self.clone(), access)
    }

    /// Begins a transaction that reads one version: it never waits and never fails to end.
    pub fn begin_read(&self) -> Result<Transaction> {
        Transaction::begin(self.clone(), Access::Read)
    }

    /// Begins a transaction that reads the database as it was: at a version, or at a time. Which versions can be read:
    /// [`Database::oldest_version`]; `Invalid` for others. At a time, entries that expire are there as they were then.
    ///
    /// ```
    /// use isomer_db::{At, Database, EngineKind};
    /// use std::time::Duration;
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// let db = Database::builder().engine(EngineKind::Store).keep_versions(Duration::from_secs(3600)).open(folder.path().join("db"))?;
    /// db.query("CREATE (:Sheep)", ())?;
    /// let before = db.version()?;
    /// db.query("MATCH (s:Sheep) DELETE s", ())?;
    /// let sheep = "MATCH (s:Sheep) RETURN count(s) AS sheep";
    /// assert_eq!(db.query(sheep, ())?.single()?.get::<u32>("sheep")?, 0);
    /// assert_eq!(db.begin_at(At::Version(before))?.query(sheep, ())?.single()?.get::<u32>("sheep")?, 1);
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    pub fn begin_at(&self, at: At) -> Result<Transaction> {
        let store = self.store()?;
        let (version, now_ms) = match at {
            At::Version(version) => (version, None),
            At::Time(ms) => {
                let version = store.engine().version_at(ms)?.ok_or_else(|| {
                    let time = i64::try_from(ms).ok().and_then(|ms| isomer_value::jiff::Timestamp::from_millisecond(ms).ok());
                    let time = time.map_or_else(|| format!("{ms} ms after 1970"), |time| time.to_string());
                    Error::invalid(format!(
                        "nobody knows which version there was at {time}: the oldest one that can be read is {}; have versions kept for longer, or restore a backup",
                        store.engine().oldest_version()
                    ))
                })?;
                (version, Some(ms))
            }
        };
        let inner = store.begin_at(version, now_ms)?;
        Ok(Transaction::of(self.clone(), inner))
    }

    /// The last committed version.
    pub fn version(&self) -> Result<Version> {
        Ok(self.store()?.engine().version())
    }

    /// The oldest version that can be read for sure, now: see [`Builder::keep_versions`].
    pub fn oldest_version(&self) -> Result<Version> {
        Ok(self.store()?.engine().oldest_version())
    }

    /// Runs `body` in one transaction, commits it, and runs it again, after a pause, where another transaction changed
    /// first what it had read. An error of `body` undoes everything. `body` may run several times: it must not do
    /// anything outside of the transaction that cannot be repeated.
    ///
    /// ```
    /// use isomer_db::{Database, Error, params};
    ///
    /// let db = Database::open_in_memory()?;
    /// db.query("CREATE (:Account {_key: 'a', euros: 100}), (:Account {_key: 'b', euros: 0})", ())?;
    /// let left = db.transact(|tx| {
    ///     let from = tx.query("MATCH (a:Account {_key: 'a'}) SET a.euros = a.euros - 30 RETURN a.euros AS euros", ())?;
    ///     let left: i64 = from.single()?.get("euros")?;
    ///     if left < 0 {
    ///         return Err(Error::invalid("not enough money"));
    ///     }
    ///     tx.query("MATCH (b:Account {_key: 'b'}) SET b.euros = b.euros + 30", ())?;
    ///     Ok(left)
    /// })?;
    /// assert_eq!(left, 70);
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    pub fn transact<T, E, F>(&self, mut body: F) -> Result<T, E>
    where
        E: From<Error>,
        F: FnMut(&mut Transaction) -> Result<T, E>,
    {
        let mut pauses = Pauses::new(self.inner.options.max_retries);
        loop {
            let mut transaction = self.begin()?;
            match body(&mut transaction) {
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

    /// Runs `body` on one version of the database. Writes are refused (`Denied`).
    ///
    /// ```
    /// let db = isomer_db::Database::open_in_memory()?;
    /// db.query("CREATE (:Sheep), (:Sheep)", ())?;
    /// let count: u32 = db.read(|tx| tx.query("MATCH (s:Sheep) RETURN count(s) AS sheep", ())?.single()?.get("sheep"))?;
    /// assert_eq!(count, 2);
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    pub fn read<T, E: From<Error>>(
        &self,
        body: impl FnOnce(&mut Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        body(&mut self.begin_read()?)
    }

    /// Asks the query with this number (see `SHOW QUERIES`) to stop; false where there is none.
    pub fn cancel_query(&self, id: u64) -> bool {
        self.inner.running.cancel(id)
    }

    /// A number of a gapped sequence of a bucket: larger than every one taken before, and never given again, also after
    /// a crash. Waits for nobody, in contrast to [`crate::Bucket::next_number`]; numbers that end in no commit are missing.
    ///
    /// ```
    /// let db = isomer_db::Database::open_in_memory()?;
    /// assert!(db.take_number("shop", "ticket")? < db.take_number("shop", "ticket")?);
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    pub fn take_number(&self, bucket: &str, sequence: &str) -> Result<u64> {
        Ok(self.store()?.sequence_take(bucket, sequence)?)
    }

    /// Takes expired entries of all buckets away now; answers how many went.
    pub fn sweep_expired(&self) -> Result<u64> {
        Ok(self.store()?.sweep_expired(u64::MAX)?)
    }

    /// Makes every commit so far durable, those with [`Durability::Buffered`] included.
    pub fn sync(&self) -> Result<()> {
        Ok(self.store()?.engine().sync()?)
    }

    /// Writes a copy of the last committed version to the directory `target`, which must be new or empty, while reads
    /// and writes go on. The copy opens as a database of its own. `Invalid` for a database in memory.
    ///
    /// ```
    /// use isomer_db::Database;
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let (path, backup) = (folder.path().join("db"), folder.path().join("backup"));
    /// let db = Database::open(&path)?;
    /// db.query("CALL kv.put('sessions', 's-17', {user: 'ada', since: datetime()}, 3600000)", ())?;
    /// db.checkpoint(&backup)?;
    /// db.query("CALL kv.delete('sessions', 's-17')", ())?;
    ///
    /// let copy = Database::open(&backup)?;
    /// let found = copy.query("CALL kv.scan('sessions', 's-', 's.') YIELD key, value RETURN key, value.user AS user", ())?;
    /// assert_eq!(found.single()?.get::<String>("user")?, "ada");
    /// assert!(db.query("RETURN kv.get('sessions', 's-17') AS session", ())?.single()?.get::<Option<String>>("session")?.is_none());
    /// assert_eq!(db.checkpoint(&backup).unwrap_err().kind(), isomer_db::ErrorKind::Invalid);
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    pub fn checkpoint(&self, target: impl AsRef<Path>) -> Result<()> {
        Ok(self.store()?.checkpoint(target.as_ref())?)
    }

    /// Closes the database for all clones of this handle: what is used afterwards answers `Closed`. Transactions that
    /// are under way may end, and so may readers of files ([`Database::open_file`]); the folder is free, for another process or
    /// [`Database::rotate_key`], when the last of them has. Closing twice is no error.
    ///
    /// ```
    /// use isomer_db::{Database, ErrorKind};
    ///
    /// let db = Database::open_in_memory()?;
    /// let clone = db.clone();
    /// db.close()?;
    /// assert_eq!(clone.query("RETURN 1", ()).unwrap_err().kind(), ErrorKind::Closed);
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    pub fn close(&self) -> Result<()> {
        drop(self.inner.sweeper.lock().take());
        self.inner.views.close();
        let store = self.inner.store.write().take();
        drop(self.inner.cache.lock().take());
        self.inner.plans.clear();
        if let Some(store) = &store {
            // They are derived: what cannot be stored is sampled again.
            let _ = store.save_statistics();
        }
        match store {
            Some(store)
                if self.inner.options.durability == Durability::Buffered
                    && !self.inner.options.read_only =>
            {
                Ok(store.engine().sync()?)
            }
            _ => Ok(()),
        }
    }

    /// This database for others: through this handle no bucket is written whose name begins with `prefix` (`Denied`), neither by
    /// transactions nor by queries. Who hands it on writes there through [`Transaction::reserved_bucket`].
    ///
    /// ```
    /// use isomer_db::{Database, ErrorKind};
    ///
    /// let db = Database::open_in_memory()?;
    /// let handed_on = db.reserving("own.");
    /// handed_on.query("CALL kv.put('others', 'k', 1)", ())?;
    /// let error = handed_on.query("CALL kv.put('own.notes', 'k', 1)", ()).unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Denied);
    /// handed_on.transact(|tx| tx.reserved_bucket("own.notes").put("k", 1))?;
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    pub fn reserving(&self, prefix: &'static str) -> Self {
        Self {
            inner: self.inner.clone(),
            reserved: Some(prefix),
        }
    }

    /// What [`Database::reserving`] said.
    pub(crate) fn reserved(&self) -> Option<&'static str> {
        self.reserved
    }

    /// Whether [`Database::close`] was called.
    pub fn is_closed(&self) -> bool {
        self.inner.store.read().is_none()
    }

    /// A query's plan and a transaction for it: one that reads where the query does no more.
    fn begin_for(&self, text: &str) -> Result<(Transaction, Statement)> {
        let lookup = Statement::cached(self, text);
        let writes = lookup
            .known
            .as_ref()
            .is_some_and(|statement| !statement.reads());
        if writes && !self.inner.options.read_only {
            let transaction = self.begin()?;
            let statement = Statement::settle(&transaction, text, lookup)?;
            return Ok((transaction, statement));
        }
        let transaction = self.begin_read()?;
        let statement = Statement::settle(&transaction, text, lookup)?;
        if statement.reads() || self.inner.options.read_only {
            return Ok((transaction, statement));
        }
        Ok((self.begin()?, statement))
    }

    /// Runs `attempt` again, after a pause, while it answers `Retry`: for attempts that begin a transaction of their own.
    ///
    /// ```
    /// use isomer_db::{Database, Error};
    ///
    /// let db = Database::open_in_memory()?;
    /// let first = db.retrying(|| {
    ///     let mut rows = db.stream("MERGE (v:Visit {_key: 1}) ON MATCH SET v.again = true RETURN v.again IS NULL AS first", ())?;
    ///     let first = rows.next().transpose()?.ok_or_else(|| Error::invalid("no row"))?.get::<bool>("first")?;
    ///     rows.next().transpose()?; // commits
    ///     Ok(first)
    /// })?;
    /// assert!(first);
    /// # Ok::<(), isomer_db::Error>(())
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

/// Less is no database.
const LEAST_MEMORY_BYTES: usize = 16 << 20;

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Database")
            .field("path", &self.inner.path)
            .field("closed", &self.is_closed())
            .finish_non_exhaustive()
    }
}

/// Pauses between attempts: random, twice as long each time, so that those who collided drift apart.
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
