//! One transaction over all models.

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

/// A transaction: one version of the database and, on top, its own changes. Dropping it without a commit leaves no trace.
///
/// A query that fails undoes its own changes alone; the transaction goes on.
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
#[must_use = "a transaction that is dropped without a commit leaves no trace"]
pub struct Transaction {
    pub(crate) db: Database,
    pub(crate) inner: isomer_data::Transaction,
    lost_race: bool,
    serial: u64,
}

/// A commit that is under way: see [`Transaction::start_commit`].
#[must_use = "the outcome of a commit is told here"]
pub struct Committing(isomer_data::Committing);

impl Future for Committing {
    type Output = Result<Version>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Version>> {
        Pin::new(&mut self.0).poll(context).map_err(Error::from)
    }
}

/// How many transactions there were in this process: a query knows its own by this number.
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

    /// Runs a query and gathers its rows: see [`Database::query`].
    pub fn query(&mut self, text: &str, parameters: impl IntoParameters) -> Result<QueryResult> {
        self.query_with(text, parameters, &QueryOptions::default())
    }

    /// As [`Transaction::query`], with limits of its own or a handle to stop it.
    pub fn query_with(
        &mut self,
        text: &str,
        parameters: impl IntoParameters,
        options: &QueryOptions,
    ) -> Result<QueryResult> {
        self.run(text, &given(parameters)?, options)
    }

    /// Runs a prepared query and gathers its rows.
    pub fn query_prepared(
        &mut self,
        prepared: &Prepared,
        parameters: impl IntoParameters,
    ) -> Result<QueryResult> {
        self.run_prepared(prepared, &given(parameters)?, &QueryOptions::default())
    }

    /// Runs a query and gives its rows as they are found. What it writes is complete when the last row was taken.
    pub fn stream(&mut self, text: &str, parameters: impl IntoParameters) -> Result<RowStream<'_>> {
        self.stream_with(text, parameters, &QueryOptions::default())
    }

    /// As [`Transaction::stream`], with limits of its own or a handle to stop it.
    pub fn stream_with(
        &mut self,
        text: &str,
        parameters: impl IntoParameters,
        options: &QueryOptions,
    ) -> Result<RowStream<'_>> {
        RowStream::borrow(self, text, &given(parameters)?, options)
    }

    /// Opens a query whose rows are taken step by step while the transaction does other things:
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

    /// What the rows of a query depend on: a commit that touches none of it changes none of them. `Unsupported` for what this cannot be
    /// told of: see [`Reads`].
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
            let message = format!("what the rows of this query depend on cannot be told: {why}");
            Error::new(ErrorKind::Unsupported, message)
        })
    }

    /// What a query may do, as its plan says.
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

    /// A bucket that [`Database::reserving`] keeps from being written; it is not, while this is there.
    pub fn reserved_bucket<'t>(&'t mut self, name: &str) -> Bucket<'t> {
        Bucket::reserved(self, name)
    }

    /// The database that it is of.
    pub fn database(&self) -> &Database {
        &self.db
    }

    /// All buckets, by name, and how they were made.
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

    /// The layer below, for what this one does not offer.
    pub fn data(&mut self) -> &mut isomer_data::Transaction {
        &mut self.inner
    }

    /// As [`Transaction::data`], to read.
    pub fn data_ref(&self) -> &isomer_data::Transaction {
        &self.inner
    }

    /// The layer below itself, to end it there.
    pub fn into_data(self) -> isomer_data::Transaction {
        self.inner
    }

    /// Applies the changes. When this returns they are on disk and visible to others. Returns their version.
    ///
    /// `Retry` where another transaction changed first what this one read: run it again (or use
    /// [`Database::transact`], which does). `OutcomeUnknown` where the disk refused in the middle: look before trying again.
    pub fn commit(self) -> Result<Version> {
        let durability = self.db.inner.options.durability;
        self.commit_with(durability)
    }

    /// As [`Transaction::commit`], with a durability of its own.
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

    /// Begins to commit and does not wait for the disk, as [`Durability`] of the database says: what is returned is a future
    /// of what [`Transaction::commit`] returns, for programs with few threads and many users, which have better things to
    /// do meanwhile. Any executor does, and none is needed to make it go on. Watchers hear of it when it is polled after its end.
    /// Dropped before its end, it waits for that. While a bulk load writes, this waits for it, as all commits do. Wakers of
    /// futures that wait are woken one after the other: each should be quick, and none may wait for another one.
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

    /// Drops the changes.
    pub fn rollback(self) {
        self.inner.rollback();
    }

    /// Its number in this process.
    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    /// Commits what was written, if anything may have been.
    pub(crate) fn finish(self) -> Result<Option<Version>> {
        if self.inner.access() == Access::Write {
            return self.commit().map(Some);
        }
        Ok(None)
    }

    /// Whether something failed because of a lost race, so that running everything again may help.
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

    /// Remembers a lost race.
    pub(crate) fn noted<T>(&mut self, result: Result<T>) -> Result<T> {
        self.lost_race |= result
            .as_ref()
            .is_err_and(|error| error.kind() == ErrorKind::Retry);
        result
    }

    /// Runs something of the layer below.
    pub(crate) fn below<T>(
        &mut self,
        run: impl FnOnce(&mut isomer_data::Transaction) -> Result<T, DataError>,
    ) -> Result<T> {
        let result = run(&mut self.inner).map_err(Error::from);
        self.noted(result)
    }

    /// Names and schema as this transaction sees them.
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
