//! Transactions over all data models: one type that reads, and one that also writes.

use std::{
    cell::{Cell, Ref, RefCell, RefMut},
    ops::Deref,
    pin::Pin,
    sync::atomic::{AtomicU64, Ordering},
    task::{Context, Poll},
};

use isomer_data::{Access, BucketOptions, DataError, Durability, Version};
use isomer_plan::{physical::StatementClass, reads::QueryDependencies};
use isomer_value::Map;

use crate::{
    Database, Error, ErrorKind, Query, QueryOptions, QueryResult, Result,
    layers::{LayerError, LayerResult as _},
    statement::{self, Statement, TransactionOwner},
};

/// A transaction that reads one version of the database: see [`Database::begin_read`] and [`Database::read`].
///
/// Its handles ([`ReadBucket`](crate::ReadBucket), [`ReadCollection`](crate::ReadCollection),
/// [`ReadFiles`](crate::ReadFiles)) have no writing methods. A query that writes is refused when it runs (`Denied`).
/// Several handles and streams can be used alternately. The transaction is `Send`; its handles borrow it and are not.
///
/// ```
/// let db = isomerdb::Database::open_in_memory()?;
/// db.query("CREATE (:User {_key: 'ada', city: 'London'})")?;
/// let tx = db.begin_read()?;
/// let (users, cities) = (tx.collection("User"), tx.bucket("cities"));
/// assert!(users.get("ada")?.is_some() && cities.get("London")?.is_none());
/// # Ok::<(), isomerdb::Error>(())
/// ```
///
/// ```compile_fail
/// let db = isomerdb::Database::open_in_memory()?;
/// db.begin_read()?.bucket("cities").put("London", 1)?; // a bucket of a read transaction has no `put`
/// # Ok::<(), isomerdb::Error>(())
/// ```
///
/// A [`WriteTransaction`] dereferences to it: a function that only reads takes `&ReadTransaction` and serves both.
/// Through the reference of a [`WriteTransaction`], queries that write do write.
pub struct ReadTransaction {
    pub(crate) db: Database,
    inner: RefCell<isomer_data::Transaction>,
    lost_race: Cell<bool>,
    /// Of its commit.
    durability: Cell<Durability>,
    version: Version,
    read_only: bool,
    owner: TransactionOwner,
    serial: u64,
}

/// A transaction that reads one version of the database and its own changes, and writes: see [`Database::begin`] and
/// [`Database::transact`]. Dropping it without a commit rolls it back.
///
/// All methods of [`ReadTransaction`] are available. A query that fails only rolls back its own changes; the
/// transaction remains usable. (A stream that writes and fails after others have written cannot be rolled back alone:
/// then the commit is refused.)
///
/// ```
/// use isomerdb::{Database, params};
///
/// let db = Database::open_in_memory()?;
/// let tx = db.begin()?;
/// tx.query("CREATE (:User {_key: 'ada'})")?;
/// let (users, sessions) = (tx.collection("User"), tx.bucket("sessions"));
/// users.patch("ada", &params! { "age" => 36 })?;
/// sessions.put("s-1", "ada")?;
/// tx.commit()?;
/// assert_eq!(db.query("MATCH (u:User {_key: 'ada'}) RETURN u.age AS age")?.single()?.get::<u8>("age")?, 36);
/// # Ok::<(), isomerdb::Error>(())
/// ```
#[must_use = "a transaction that is dropped without a commit is rolled back"]
pub struct WriteTransaction(ReadTransaction);

impl Deref for WriteTransaction {
    type Target = ReadTransaction;

    fn deref(&self) -> &ReadTransaction {
        &self.0
    }
}

/// A commit in progress: see [`WriteTransaction::start_commit`].
#[must_use = "the outcome of a commit is returned here"]
pub struct PendingCommit(isomer_data::DataCommit);

impl Future for PendingCommit {
    type Output = Result<Version>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Version>> {
        let outcome = Pin::new(&mut self.0).poll(context);
        outcome.map_err(LayerError::lift)
    }
}

/// Counter of transactions in this process: a query identifies its transaction by this number.
static SERIAL: AtomicU64 = AtomicU64::new(0);

impl ReadTransaction {
    /// Begins one; with [`Access::Write`], the caller wraps it in a [`WriteTransaction`] or calls
    /// [`ReadTransaction::finish`].
    pub(crate) fn begin(db: Database, access: Access) -> Result<Self> {
        let inner = db.store()?.begin(access).lift()?;
        Ok(Self::of(db, inner))
    }

    /// As [`ReadTransaction::begin`], for one statement.
    pub(crate) fn begin_for_statement(db: Database, access: Access) -> Result<Self> {
        let mut begun = Self::begin(db, access)?;
        begun.owner = TransactionOwner::Statement;
        Ok(begun)
    }

    pub(crate) fn of(db: Database, mut inner: isomer_data::Transaction) -> Self {
        inner.kv_mut().reserve_buckets(db.reserved());
        Self {
            version: inner.version(),
            read_only: inner.access() == Access::Read,
            durability: Cell::new(db.inner.options.durability),
            db,
            inner: RefCell::new(inner),
            lost_race: Cell::new(false),
            owner: TransactionOwner::Caller,
            serial: SERIAL.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Runs a query and collects its rows: see [`Database::query`].
    pub fn query<'q>(&self, query: impl Into<Query<'q>>) -> Result<QueryResult> {
        let (text, parameters, options) = query.into().into_parts()?;
        self.run(text, &parameters, &options)
    }

    /// The dependencies of a query's rows: a commit that touches none of them does not change the rows. `Unsupported`
    /// if they cannot be derived: see [`QueryDependencies`].
    ///
    /// ```
    /// # let db = isomerdb::Database::open_in_memory()?;
    /// let reads = db.begin_read()?.reads("MATCH (a:Person)-[:KNOWS]->(b:Person) RETURN b.name")?;
    /// assert!(reads.labels.has("Person") && reads.types.has("KNOWS") && !reads.labels.has("City"));
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn reads<'q>(&self, query: impl Into<Query<'q>>) -> Result<QueryDependencies> {
        let (text, mut parameters, _) = query.into().into_parts()?;
        let statement = self.statement(text)?;
        for (name, value) in statement.ready.lifted.iter() {
            parameters.insert(name.clone(), value.clone());
        }
        let reads = statement.ready.plan.reads(&parameters);
        reads.map_err(|why| {
            let message = format!("cannot derive the dependencies of this query: {why}");
            Error::new(ErrorKind::Unsupported, message)
        })
    }

    /// The class of a query, from its plan.
    ///
    /// ```
    /// use isomerdb::StatementClass;
    /// # let db = isomerdb::Database::open_in_memory()?;
    /// assert_eq!(db.begin_read()?.class_of("MATCH (n:Old) DETACH DELETE n")?, StatementClass::Write);
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn class_of(&self, text: &str) -> Result<StatementClass> {
        Ok(self.statement(text)?.ready.plan.class)
    }

    /// The text's plan.
    pub(crate) fn statement(&self, text: &str) -> Result<Statement> {
        Statement::ready(&self.db, &*self.borrow()?, text)
    }

    /// The database that it belongs to.
    pub fn database(&self) -> &Database {
        &self.db
    }

    /// All buckets, by name, with their options.
    ///
    /// ```
    /// let db = isomerdb::Database::open_in_memory()?;
    /// let names = db.transact(|tx| {
    ///     tx.bucket("b").put("k", 1)?;
    ///     tx.bucket("a").put("k", 2)?;
    ///     let buckets = tx.buckets()?;
    ///     Ok(buckets.into_iter().map(|(name, _)| name).collect::<Vec<_>>())
    /// })?;
    /// assert_eq!(names, ["a", "b"]);
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn buckets(&self) -> Result<Vec<(String, BucketOptions)>> {
        let found = self.reading(|data| data.kv().list_buckets())?;
        let named = found.into_iter();
        Ok(named
            .map(|(name, options)| (name.to_string(), options))
            .collect())
    }

    /// The version that it reads.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Who decides what it commits.
    pub(crate) fn owner(&self) -> TransactionOwner {
        self.owner
    }

    /// Its number in this process.
    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    /// Commits if it has write access.
    pub(crate) fn finish(self) -> Result<Option<Version>> {
        if self.read_only {
            return Ok(None);
        }
        let durability = self.durability.get();
        self.into_inner().commit_with(durability).lift().map(Some)
    }

    pub(crate) fn run(
        &self,
        text: &str,
        parameters: &Map,
        options: &QueryOptions,
    ) -> Result<QueryResult> {
        let statement = self.noted(self.statement(text))?;
        self.gather(&statement, parameters, options)
    }

    /// Runs a statement and collects its rows.
    pub(crate) fn gather(
        &self,
        statement: &Statement,
        parameters: &Map,
        options: &QueryOptions,
    ) -> Result<QueryResult> {
        let data = &mut *self.borrow_mut()?;
        let result = statement::gather(&self.db, data, statement, parameters, options, self.owner);
        self.noted(result)
    }

    /// Runs a function of the layer below that reads. A callback of a zero-copy read may do so, too.
    pub(crate) fn reading<T>(
        &self,
        run: impl FnOnce(&isomer_data::Transaction) -> Result<T, DataError>,
    ) -> Result<T> {
        let result = run(&*self.borrow()?);
        self.noted(result)
    }

    /// Runs a function of the layer below that writes.
    pub(crate) fn writing<T>(
        &self,
        run: impl FnOnce(&mut isomer_data::Transaction) -> Result<T, DataError>,
    ) -> Result<T> {
        let result = run(&mut *self.borrow_mut()?);
        self.noted(result)
    }

    /// The transaction of the layer below, for reading. `Invalid` while it is written or runs a query.
    pub(crate) fn borrow(&self) -> Result<Ref<'_, isomer_data::Transaction>> {
        self.inner.try_borrow().map_err(|_| in_use())
    }

    /// The transaction of the layer below, for writes and queries. `Invalid` while anything else uses it: a callback.
    pub(crate) fn borrow_mut(&self) -> Result<RefMut<'_, isomer_data::Transaction>> {
        self.inner.try_borrow_mut().map_err(|_| in_use())
    }

    pub(crate) fn into_inner(self) -> isomer_data::Transaction {
        self.inner.into_inner()
    }

    /// Records a conflict.
    pub(crate) fn noted<T, E: LayerError>(&self, result: Result<T, E>) -> Result<T> {
        result.map_err(|error| {
            let error = error.lift();
            if error.kind() == ErrorKind::Retry {
                self.lost_race.set(true);
            }
            error
        })
    }
}

/// The error of a use inside a callback that holds the transaction.
fn in_use() -> Error {
    Error::invalid(
        "the transaction is in use by the callback that makes this call: collect in the callback, and write or run queries after it",
    )
}

impl WriteTransaction {
    /// Begins one. With [`Access::Read`], its writes are `Denied`.
    pub(crate) fn begin(db: Database, access: Access) -> Result<Self> {
        ReadTransaction::begin(db, access).map(Self)
    }

    /// Whether its writes are refused: that the database was opened read-only.
    pub fn is_read_only(&self) -> bool {
        self.0.read_only
    }

    /// Whether it has written.
    pub fn has_writes(&self) -> bool {
        // While a callback writes or runs a query, it may be about to.
        self.0.borrow().map_or(true, |data| data.has_writes())
    }

    /// Commits the changes. When this returns they are on disk and visible to others. Returns their version.
    ///
    /// `Retry` if another transaction changed what this one read: run it again (or use [`Database::transact`], which
    /// retries). `OutcomeUnknown` if the disk failed during the commit: check before you run it again.
    pub fn commit(self) -> Result<Version> {
        let durability = self.0.durability.get();
        self.0.into_inner().commit_with(durability).lift()
    }

    /// Sets the durability of its commit, which is that of the database otherwise.
    ///
    /// ```
    /// use isomerdb::{Database, Durability};
    ///
    /// let db = Database::open_in_memory()?;
    /// let tx = db.begin()?;
    /// tx.bucket("visits").put("today", 1)?;
    /// tx.set_durability(Durability::Buffered);
    /// tx.commit()?; // lost with the machine, until something synced follows
    /// db.sync()?;
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn set_durability(&self, durability: Durability) {
        self.0.durability.set(durability);
    }

    /// Starts a commit without waiting for the disk: the returned future has the result of
    /// [`WriteTransaction::commit`]. It suits programs with few threads and many clients. Any executor works, and the
    /// commit progresses without being polled. Watchers are notified when the future is polled after its completion. If
    /// it is dropped earlier, the drop blocks until the completion. While a bulk load writes, this call blocks, as all
    /// commits do. Wakers are called one after the other: each should be quick, and none may wait for another one.
    ///
    /// ```
    /// use isomerdb::{Database, params};
    ///
    /// # fn block_on<F: Future>(future: F) -> F::Output {
    /// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// #     let mut future = std::pin::pin!(future);
    /// #     loop {
    /// #         if let std::task::Poll::Ready(output) = future.as_mut().poll(&mut context) { return output; }
    /// #         std::thread::yield_now();
    /// #     }
    /// # }
    /// # block_on(async {
    /// let db = Database::open_in_memory()?;
    /// let tx = db.begin()?;
    /// tx.query(("CREATE (:Visit {at: $at})", params! { "at" => 1 }))?;
    /// tx.start_commit().await?;
    /// # Ok::<(), isomerdb::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn start_commit(self) -> PendingCommit {
        let durability = self.0.durability.get();
        PendingCommit(self.0.into_inner().start_commit(durability))
    }

    /// Rolls back.
    pub fn rollback(self) {
        self.0.into_inner().rollback();
    }

    /// Whether an error was caused by a conflict, so that a retry may succeed.
    pub(crate) fn lost_race(&self) -> bool {
        self.0.lost_race.get()
    }

    pub(crate) fn into_read(self) -> ReadTransaction {
        self.0
    }
}

impl std::fmt::Debug for ReadTransaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadTransaction")
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for WriteTransaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WriteTransaction")
            .field("version", &self.0.version)
            .finish_non_exhaustive()
    }
}
