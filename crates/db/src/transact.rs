//! Transactions of a database: how they begin, and when they are run again.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use isomer_data::Access;

use crate::{
    At, Database, Error, ErrorKind, Query, QueryResult, ReadTransaction, Result, WriteTransaction,
    layers::LayerResult as _, statement::Statement,
};

impl Database {
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
                    let time = i64::try_from(ms)
                        .ok()
                        .and_then(|ms| isomer_value::jiff::Timestamp::from_millisecond(ms).ok());
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

    /// A query's plan and a transaction for it, which is read-only if the query only reads.
    pub(crate) fn begin_for(&self, text: &str) -> Result<(ReadTransaction, Statement)> {
        let lookup = Statement::cached(self, text);
        let writes = lookup
            .known
            .as_ref()
            .is_some_and(|statement| !statement.reads());
        if writes && !self.inner.options.read_only {
            let transaction = ReadTransaction::begin_for_statement(self.clone(), Access::Write)?;
            let statement = Statement::reuse_or_plan(self, &*transaction.borrow()?, text, lookup)?;
            return Ok((transaction, statement));
        }
        let transaction = ReadTransaction::begin_for_statement(self.clone(), Access::Read)?;
        let statement = Statement::reuse_or_plan(self, &*transaction.borrow()?, text, lookup)?;
        if statement.reads() || self.inner.options.read_only {
            return Ok((transaction, statement));
        }
        let transaction = ReadTransaction::begin_for_statement(self.clone(), Access::Write)?;
        Ok((transaction, statement))
    }

    /// Retries `attempt` after a pause while it returns `Retry`: for attempts that begin their own transaction.
    pub(crate) fn retrying<T>(&self, mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
        let mut pauses = Pauses::new(self.inner.options.max_retries);
        loop {
            match attempt() {
                Err(error) if error.kind() == ErrorKind::Retry && pauses.pause() => {}
                outcome => return outcome,
            }
        }
    }
}

/// Delays between attempts: random, doubled each time, so that conflicting transactions spread out.
struct Pauses {
    left: u32,
    longest: Duration,
}

impl Pauses {
    const FIRST_PAUSE: Duration = Duration::from_micros(50);
    const MAX_PAUSE: Duration = Duration::from_millis(20);

    fn new(max_retries: u32) -> Self {
        Self {
            left: max_retries,
            longest: Self::FIRST_PAUSE,
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
        self.longest = (self.longest * 2).min(Self::MAX_PAUSE);
        true
    }
}
