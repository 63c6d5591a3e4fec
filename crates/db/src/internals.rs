//! The layers below, for the server, the command line, replication, benchmarks and tests of this project. No part of
//! the public interface: anything here may change in every version.

use std::{
    cell::{Ref, RefMut},
    sync::Arc,
};

use isomer_data::{Access, DataStore};
use isomer_exec::Procedure;
pub use isomer_exec::{Administration, Host, HostError};
use isomer_storage::Engine;
use isomer_views::{ViewOptions, Views};

#[cfg(feature = "bulk")]
pub use isomer_bulk as bulk;
pub use isomer_cypher::redact;
pub use isomer_data as data;
pub use isomer_data::count_allocations;
pub use isomer_plan::PlanningOptions as Planning;
pub use isomer_plan::schema::Listing;
pub use isomer_views as views;

pub use crate::layers::{LayerError, LayerResult};
use crate::{
    Bucket, Builder, Database, Error, ErrorKind, QueryOptions, QueryResult, ReadTransaction,
    Result, RowCursor, WriteTransaction,
};

/// The layer below a [`Database`].
pub trait DatabaseInternals: Sized {
    /// Opens the database of a given engine: for tests and engines of other crates.
    fn open_engine(engine: Arc<dyn Engine>, options: Builder) -> Result<Self>;
    /// Catalog, engine, statistics. `Closed` after [`Database::close`].
    fn store(&self) -> Result<DataStore>;
    /// The read views: their state, waiting for them, and dropping them, which changes no result, only its time.
    fn views(&self) -> &Arc<Views>;
    /// Begins a transaction of which only the running program knows whether it may write: if not, its writes are
    /// `Denied`.
    fn begin_with(&self, access: Access) -> Result<WriteTransaction>;
    /// Retries `attempt` after a pause while it returns `Retry`: for attempts that begin their own transaction.
    ///
    /// ```
    /// use isomer_db::{Database, Error, internals::DatabaseInternals as _};
    ///
    /// let db = Database::open_in_memory()?;
    /// let text = "MERGE (v:Visit {_key: 1}) ON MATCH SET v.again = true RETURN v.again IS NULL AS first";
    /// let first = db.retrying(|| {
    ///     let mut rows = db.stream(text)?;
    ///     let first = rows.next().transpose()?.ok_or_else(|| Error::invalid("no row"))?.get::<bool>("first")?;
    ///     rows.next().transpose()?; // commits
    ///     Ok(first)
    /// })?;
    /// assert!(first);
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    fn retrying<T>(&self, attempt: impl FnMut() -> Result<T>) -> Result<T>;
    /// A handle for other users of the database: buckets whose names begin with `prefix` cannot be written through it
    /// (`Denied`), neither by transactions nor by queries. The owner writes them by [`reserved_bucket`].
    ///
    /// ```
    /// use isomer_db::{Database, ErrorKind, internals::{DatabaseInternals as _, reserved_bucket}};
    ///
    /// let db = Database::open_in_memory()?;
    /// let handed_on = db.reserving("own.");
    /// handed_on.query("CALL kv.put('others', 'k', 1)")?;
    /// let error = handed_on.query("CALL kv.put('own.notes', 'k', 1)").unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Denied);
    /// handed_on.transact(|tx| reserved_bucket(tx, "own.notes").put("k", 1))?;
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    fn reserving(&self, prefix: &'static str) -> Self;
}

impl DatabaseInternals for Database {
    fn open_engine(engine: Arc<dyn Engine>, options: Builder) -> Result<Self> {
        Self::open_engine(engine, options)
    }

    fn store(&self) -> Result<DataStore> {
        self.store()
    }

    fn views(&self) -> &Arc<Views> {
        &self.inner.views
    }

    fn begin_with(&self, access: Access) -> Result<WriteTransaction> {
        let access = match access {
            Access::Read => Access::Read,
            Access::Write => self.most_access(),
        };
        WriteTransaction::begin(self.clone(), access)
    }

    fn retrying<T>(&self, attempt: impl FnMut() -> Result<T>) -> Result<T> {
        self.retrying(attempt)
    }

    fn reserving(&self, prefix: &'static str) -> Self {
        Self {
            inner: self.inner.clone(),
            reserved: Some(prefix),
        }
    }
}

/// A bucket that [`DatabaseInternals::reserving`] reserves, writable through this handle.
pub fn reserved_bucket<'t>(transaction: &'t WriteTransaction, name: &str) -> Bucket<'t> {
    Bucket::reserved(transaction, name)
}

/// Memory of a result.
pub trait ResultInternals {
    /// Bytes of the memory budget that it holds: a collected result for its values, none if they are small; a cursor
    /// for rows to come (groups, sorted rows, lists).
    fn held_bytes(&self) -> usize;
}

impl ResultInternals for QueryResult {
    fn held_bytes(&self) -> usize {
        self.held.as_ref().map_or(0, |held| held.bytes())
    }
}

impl ResultInternals for RowCursor {
    fn held_bytes(&self) -> usize {
        self.run.held_bytes()
    }
}

/// The layer below a [`ReadTransaction`].
///
/// # Panics
/// Where the transaction is in use: in a callback of a zero-copy read, a write.
pub trait TransactionInternals {
    /// The transaction of the layer below, for reading.
    fn data_ref(&self) -> Ref<'_, isomer_data::Transaction>;
    /// The transaction of the layer below.
    fn data(&self) -> RefMut<'_, isomer_data::Transaction>;
    /// Names and schema as seen by this transaction.
    fn catalog(&self) -> Arc<isomer_data::Catalog>;
    /// The transaction of the layer below, by value.
    fn into_data(self) -> isomer_data::Transaction;
}

impl TransactionInternals for ReadTransaction {
    fn data_ref(&self) -> Ref<'_, isomer_data::Transaction> {
        self.borrow()
            .expect("no callback writes through the layer below")
    }

    fn data(&self) -> RefMut<'_, isomer_data::Transaction> {
        self.borrow_mut()
            .expect("no callback writes through the layer below")
    }

    fn catalog(&self) -> Arc<isomer_data::Catalog> {
        isomer_data::GraphRead::catalog(&*self.data_ref())
    }

    fn into_data(self) -> isomer_data::Transaction {
        self.into_inner()
    }
}

impl TransactionInternals for WriteTransaction {
    fn data_ref(&self) -> Ref<'_, isomer_data::Transaction> {
        (**self).data_ref()
    }

    fn data(&self) -> RefMut<'_, isomer_data::Transaction> {
        (**self).data()
    }

    fn catalog(&self) -> Arc<isomer_data::Catalog> {
        TransactionInternals::catalog(&**self)
    }

    fn into_data(self) -> isomer_data::Transaction {
        self.into_read().into_inner()
    }
}

/// Options of a [`Builder`] that name types of the layers below.
pub trait BuilderInternals {
    /// Minimum number of expected rows for which several threads are used: for tests, which compare results.
    fn parallel_rows(self, rows: u64) -> Self;
    /// Planner options: for tests, which compare the results of different plans.
    fn planning(self, planning: Planning) -> Self;
    /// Whether read views are built, and when. They take memory from the shared budget and are evicted first. Results
    /// do not depend on them.
    fn views(self, views: ViewOptions) -> Self;
    /// Registers a procedure that queries can call; replaces one of the same name.
    fn procedure(self, procedure: Arc<dyn Procedure>) -> Self;
}

impl BuilderInternals for Builder {
    fn parallel_rows(mut self, rows: u64) -> Self {
        self.parallel_rows = Some(rows);
        self
    }

    fn planning(mut self, planning: Planning) -> Self {
        self.planning = planning;
        self
    }

    fn views(mut self, views: ViewOptions) -> Self {
        self.views = views;
        self
    }

    fn procedure(mut self, procedure: Arc<dyn Procedure>) -> Self {
        self.registry.add_procedure(procedure);
        self
    }
}

/// What a program sets that runs databases for others.
pub trait QueryOptionsInternals {
    /// Answers statements about the program: `SHOW DATABASES`, `SHOW USERS`, `SHOW SETTINGS`.
    fn host(self, host: Arc<dyn Host>) -> Self;
}

impl QueryOptionsInternals for QueryOptions {
    fn host(mut self, host: Arc<dyn Host>) -> Self {
        self.host = Some(host);
        self
    }
}

/// An error of a crate above, with its kind.
pub fn error(kind: ErrorKind, message: impl Into<String>) -> Error {
    Error::new(kind, message)
}

/// Whether a database could not be opened because it is open elsewhere, in this process or another one.
pub fn is_in_use(error: &Error) -> bool {
    error.is_in_use()
}
