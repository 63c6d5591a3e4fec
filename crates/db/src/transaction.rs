//! A transaction over all data models.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use isomer_data::{Access, DataError, Durability, Version};
use isomer_value::Map;

use crate::{
    Bucket, Collection, Database, Error, ErrorKind, IntoParameters, Prepared, QueryOptions,
    QueryResult, Reads, Result, RowCursor, RowStream, StatementClass,
    parameters::given,
    statement::{self, Statement},
};

/// A transaction: one version of the database and its own changes. Dropping it without a commit rolls it back.
///
/// A query that fails only rolls back its own changes; the transaction remains usable.
///
/// ```
/// use isomer_db::{Database, params};
///
/// let db = Database::open_in_memory()?;
/// let mut tx = db.begin()?;
/// tx.query("CREATE (:User {_key: 'ada'})", ())?;
/// tx.collection("User").patch("ada", &params! { "age" => 36 })?;
/// tx.bucket("sessions").put("s-1", "ada")?;
/// tx.commit()?;
/// assert_eq!(db.query("MATCH (u:User {_key: 'ada'}) RETURN u.age AS age", ())?.single()?.get::<u8>("age")?, 36);
/// # Ok::<(), isomer_db::Error>(())
/// ```
#[must_use = "a transaction that is dropped without a commit is rolled back"]
pub struct Transaction {
    pub(crate) db: Database,
    pub(crate) inner: isomer_data::Transaction,
    lost_race: bool,
    serial: u64,
}

/// A commit in progress: see [`Transaction::start_commit`].
#[must_use = "the outcome of a commit is returned here"]
pub struct Committing(isomer_data::DataCommit);

impl Future for Committing {
    type Output = Result<Version>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Version>> {
        Pin::new(&mut self.0).poll(context).map_err(Error::from)
    }
}

/// Counter of transactions in this process: a query identifies its transaction by this number.
static SERIAL: AtomicU64 = AtomicU64::new(0);

impl Transaction {
    pub(crate) fn begin(db: Database, access: Access) -> Result<Self> {
        let inner = db.store()?.begin(access)?;
        Ok(Self::of(db, inner))
    }

    pub(crate) fn of(db: Database, mut inner: isomer_data::Transaction) -> Self {
        inner.reserve_buckets(db.reserved());
        Self {
            db,
            inner,
            lost_race: false,
            serial: SERIAL.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Runs a query and collects its rows: see [`Database::query`].
    pub fn query(&mut self, text: &str, parameters: impl IntoParameters) -> Result<QueryResult> {
        self.query_with(text, parameters, &QueryOptions::default())
    }

    /// Like [`Transaction::query`], with its own limits or a cancel handle.
    pub fn query_with(
        &mut self,
        text: &str,
        parameters: impl IntoParameters,
        options: &QueryOptions,
    ) -> Result<QueryResult> {
        self.run(text, &given(parameters)?, options)
    }

    /// Runs a prepared query and collects its rows.
    pub fn query_prepared(
        &mut self,
        prepared: &Prepared,
        parameters: impl IntoParameters,
    ) -> Result<QueryResult> {
        self.run_prepared(prepared, &given(parameters)?, &QueryOptions::default())
    }

    /// Runs a query and streams its rows. Its writes are complete when the last row was read.
    pub fn stream(&mut self, text: &str, parameters: impl IntoParameters) -> Result<RowStream<'_>> {
        self.stream_with(text, parameters, &QueryOptions::default())
    }

    /// Like [`Transaction::stream`], with its own limits or a cancel handle.
    pub fn stream_with(
        &mut self,
        text: &str,
        parameters: impl IntoParameters,
        options: &QueryOptions,
    ) -> Result<RowStream<'_>> {
        RowStream::borrow(self, text, &given(parameters)?, options)
    }

    /// Opens a query whose rows are pulled one by one, interleaved with other uses of the transaction:
    ///
    /// ```
    /// # let db = isomer_db::Database::open_in_memory()?;
    /// let mut tx = db.begin_read()?;
    /// let mut ones = tx.open_query("UNWIND [1, 2] AS n RETURN n", (), &Default::default())?;
    /// let mut tens = tx.open_query("UNWIND [10, 20] AS n RETURN n", (), &Default::default())?;
    /// let mut sum = 0;
    /// while let (Some(one), Some(ten)) = (ones.next(&mut tx)?, tens.next(&mut tx)?) {
    ///     sum += one.get::<i64>("n")? + ten.get::<i64>("n")?;
    /// }
    /// assert_eq!(sum, 33);
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    pub fn open_query(
        &mut self,
        text: &str,
        parameters: impl IntoParameters,
        options: &QueryOptions,
    ) -> Result<RowCursor> {
        RowCursor::start(self, text, &given(parameters)?, options)
    }

    /// The dependencies of a query's rows: a commit that touches none of them does not change the rows. `Unsupported`
    /// if they cannot be derived: see [`Reads`].
    ///
    /// ```
    /// # let db = isomer_db::Database::open_in_memory()?;
    /// let reads = db.begin_read()?.reads("MATCH (a:Person)-[:KNOWS]->(b:Person) RETURN b.name", ())?;
    /// assert!(reads.labels.has("Person") && reads.types.has("KNOWS") && !reads.labels.has("City"));
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    pub fn reads(&self, text: &str, parameters: impl IntoParameters) -> Result<Reads> {
        let statement = Statement::ready(self, text)?;
        let mut parameters = given(parameters)?;
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
    /// use isomer_db::StatementClass;
    /// # let db = isomer_db::Database::open_in_memory()?;
    /// assert_eq!(db.begin_read()?.class_of("MATCH (n:Old) DETACH DELETE n")?, StatementClass::Write);
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    pub fn class_of(&self, text: &str) -> Result<StatementClass> {
        Ok(Statement::ready(self, text)?.ready.plan.class)
    }

    /// The documents of a label: insert, get, replace, patch, remove, by key.
    pub fn collection<'t>(&'t mut self, label: &str) -> Collection<'t> {
        Collection::new(self, label)
    }

    /// A bucket of keys and values.
    pub fn bucket<'t>(&'t mut self, name: &str) -> Bucket<'t> {
        Bucket::new(self, name)
    }

    /// A bucket that is reserved by [`Database::reserving`], writable through this handle.
    pub fn reserved_bucket<'t>(&'t mut self, name: &str) -> Bucket<'t> {
        Bucket::reserved(self, name)
    }

    /// The database that it belongs to.
    pub fn database(&self) -> &Database {
        &self.db
    }

    /// All buckets, by name, with their options.
    ///
    /// ```
    /// let db = isomer_db::Database::open_in_memory()?;
    /// let names = db.transact(|tx| {
    ///     tx.bucket("b").put("k", 1)?;
    ///     tx.bucket("a").put("k", 2)?;
    ///     let buckets = tx.buckets()?;
    ///     Ok::<_, isomer_db::Error>(buckets.into_iter().map(|(name, _)| name).collect::<Vec<_>>())
    /// })?;
    /// assert_eq!(names, ["a", "b"]);
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    pub fn buckets(&mut self) -> Result<Vec<(String, crate::BucketOptions)>> {
        let found = self.below(|data| data.list_buckets())?;
        let named = found.into_iter();
        Ok(named
            .map(|(name, options)| (name.to_string(), options))
            .collect())
    }

    /// The version that it reads.
    pub fn version(&self) -> Version {
        self.inner.version()
    }

    /// Whether it may write.
    pub fn is_read_only(&self) -> bool {
        self.inner.access() == Access::Read
    }

    /// Whether it has written.
    pub fn has_writes(&self) -> bool {
        self.inner.has_writes()
    }

    /// The transaction of the layer below, for functions that this crate does not offer.
    pub fn data(&mut self) -> &mut isomer_data::Transaction {
        &mut self.inner
    }

    /// Like [`Transaction::data`], for reading.
    pub fn data_ref(&self) -> &isomer_data::Transaction {
        &self.inner
    }

    /// The transaction of the layer below, by value.
    pub fn into_data(self) -> isomer_data::Transaction {
        self.inner
    }

    /// Commits the changes. When this returns they are on disk and visible to others. Returns their version.
    ///
    /// `Retry` if another transaction changed what this one read: run it again (or use [`Database::transact`], which
    /// retries). `OutcomeUnknown` if the disk failed during the commit: check before you run it again.
    pub fn commit(self) -> Result<Version> {
        let durability = self.db.inner.options.durability;
        self.commit_with(durability)
    }

    /// Like [`Transaction::commit`], with another durability.
    ///
    /// ```
    /// use isomer_db::{Database, Durability};
    ///
    /// let db = Database::open_in_memory()?;
    /// let mut tx = db.begin()?;
    /// tx.bucket("visits").put("today", 1)?;
    /// tx.commit_with(Durability::Buffered)?; // lost with the machine, until something synced follows
    /// db.sync()?;
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    pub fn commit_with(self, durability: Durability) -> Result<Version> {
        Ok(self.inner.commit_with(durability)?)
    }

    /// Starts a commit without waiting for the disk, with the [`Durability`] of the database: the returned future has
    /// the result of [`Transaction::commit`]. It suits programs with few threads and many clients. Any executor works,
    /// and the commit progresses without being polled. Watchers are notified when the future is polled after its
    /// completion. If it is dropped earlier, the drop blocks until the completion. While a bulk load writes, this call
    /// blocks, as all commits do. Wakers are called one after the other: each should be quick, and none may wait for
    /// another one.
    ///
    /// ```
    /// use isomer_db::{Database, params};
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
    /// let mut tx = db.begin()?;
    /// tx.query("CREATE (:Visit {at: $at})", params! { "at" => 1 })?;
    /// tx.start_commit().await?;
    /// # Ok::<(), isomer_db::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn start_commit(self) -> Committing {
        let durability = self.db.inner.options.durability;
        Committing(self.inner.start_commit(durability))
    }

    /// Rolls back.
    pub fn rollback(self) {
        self.inner.rollback();
    }

    /// Its number in this process.
    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    /// Commits if anything may have been written.
    pub(crate) fn finish(self) -> Result<Option<Version>> {
        if self.inner.access() == Access::Write {
            return self.commit().map(Some);
        }
        Ok(None)
    }

    /// Whether an error was caused by a conflict, so that a retry may succeed.
    pub(crate) fn lost_race(&self) -> bool {
        self.lost_race
    }

    pub(crate) fn run(
        &mut self,
        text: &str,
        parameters: &Map,
        options: &QueryOptions,
    ) -> Result<QueryResult> {
        let result = Statement::ready(self, text)
            .and_then(|statement| statement::gather(self, &statement, parameters, options));
        self.noted(result)
    }

    pub(crate) fn run_prepared(
        &mut self,
        prepared: &Prepared,
        parameters: &Map,
        options: &QueryOptions,
    ) -> Result<QueryResult> {
        let result = prepared
            .statement(self)
            .and_then(|statement| statement::gather(self, &statement, parameters, options));
        self.noted(result)
    }

    /// Records a conflict.
    pub(crate) fn noted<T>(&mut self, result: Result<T>) -> Result<T> {
        self.lost_race |= result
            .as_ref()
            .is_err_and(|error| error.kind() == ErrorKind::Retry);
        result
    }

    /// Runs a function of the layer below.
    pub(crate) fn below<T>(
        &mut self,
        run: impl FnOnce(&mut isomer_data::Transaction) -> Result<T, DataError>,
    ) -> Result<T> {
        let result = run(&mut self.inner).map_err(Error::from);
        self.noted(result)
    }

    /// Names and schema as seen by this transaction.
    pub fn catalog(&self) -> Arc<isomer_data::Catalog> {
        isomer_data::GraphRead::catalog(&self.inner)
    }
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction")
            .field("version", &self.version())
            .finish_non_exhaustive()
    }
}
