//! Streaming results.

use std::sync::Arc;

use isomer_data::Version;
use isomer_exec::{Counters, ResultRows};
use isomer_plan::physical::{Notice, StatementClass, StatementMode};
use isomer_value::{Map, Value};

use crate::{
    Database, Error, Query, QueryOptions, ReadTransaction, Result, Row,
    rows::Batch,
    statement::{Statement, StatementRun},
};

impl Database {
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
}

impl ReadTransaction {
    /// Runs a query and streams its rows. Its writes are complete when the last row was read.
    pub fn stream<'q>(&self, query: impl Into<Query<'q>>) -> Result<TransactionRows<'_>> {
        Ok(TransactionRows::new(self, self.open_query(query)?))
    }

    /// Opens a query whose rows are pulled one by one, interleaved with other uses of the transaction:
    ///
    /// ```
    /// # let db = isomerdb::Database::open_in_memory()?;
    /// let tx = db.begin_read()?;
    /// let mut ones = tx.open_query("UNWIND [1, 2] AS n RETURN n")?;
    /// let mut tens = tx.open_query("UNWIND [10, 20] AS n RETURN n")?;
    /// let mut sum = 0;
    /// while let (Some(one), Some(ten)) = (ones.next(&tx)?, tens.next(&tx)?) {
    ///     sum += one.get::<i64>("n")? + ten.get::<i64>("n")?;
    /// }
    /// assert_eq!(sum, 33);
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn open_query<'q>(&self, query: impl Into<Query<'q>>) -> Result<RowCursor> {
        let (text, parameters, options) = query.into().into_parts()?;
        RowCursor::open(self, text, &parameters, &options)
    }
}

/// The rows of a query in its own transaction, computed on demand: see [`Database::stream`].
///
/// It commits after the last row. An error ends the stream; if the commit fails, the error is the last item.
pub struct RowStream {
    /// None after the end.
    transaction: Option<Box<ReadTransaction>>,
    cursor: RowCursor,
    committed: Option<Version>,
}

impl RowStream {
    pub(crate) fn new(
        transaction: ReadTransaction,
        statement: &Statement,
        parameters: &Map,
        options: &QueryOptions,
    ) -> Result<Self> {
        Ok(Self {
            cursor: RowCursor::start(&transaction, statement, parameters, options)?,
            transaction: Some(Box::new(transaction)),
            committed: None,
        })
    }

    /// The names of the columns.
    pub fn columns(&self) -> &[Arc<str>] {
        self.cursor.columns()
    }

    /// Notices that are not errors, such as an unknown label. Those about the data that a query reads are complete
    /// after its last row.
    pub fn notices(&self) -> Vec<Notice> {
        self.cursor.notices()
    }

    /// The class of the statement, from its plan.
    pub fn class(&self) -> StatementClass {
        self.cursor.class()
    }

    /// The counts of changes so far.
    pub fn counters(&self) -> Counters {
        self.cursor.counters()
    }

    /// The query behind the rows.
    pub fn cursor(&self) -> &RowCursor {
        &self.cursor
    }

    /// After the end of the stream: the version that the rows were read from, or the version of its commit. None before
    /// that.
    pub fn version(&self) -> Option<Version> {
        self.committed
    }
}

impl Iterator for RowStream {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Result<Row>> {
        let failed = match self.cursor.next(self.transaction.as_deref()?) {
            Ok(Some(row)) => return Some(Ok(row)),
            Ok(None) => None,
            Err(error) => Some(error),
        };
        let transaction = self.transaction.take()?;
        if let Some(error) = failed {
            return Some(Err(error));
        }
        let read = transaction.version();
        match transaction.finish() {
            Ok(version) => {
                self.committed = Some(version.unwrap_or(read));
                None
            }
            Err(error) => Some(Err(error)),
        }
    }
}

impl std::iter::FusedIterator for RowStream {}

/// The rows of a query in a transaction of the caller, computed on demand: see [`ReadTransaction::stream`]. An error
/// ends them.
pub struct TransactionRows<'t> {
    transaction: &'t ReadTransaction,
    cursor: RowCursor,
}

impl<'t> TransactionRows<'t> {
    pub(crate) fn new(transaction: &'t ReadTransaction, cursor: RowCursor) -> Self {
        Self {
            transaction,
            cursor,
        }
    }

    /// The names of the columns.
    pub fn columns(&self) -> &[Arc<str>] {
        self.cursor.columns()
    }

    /// The query behind the rows.
    pub fn cursor(&self) -> &RowCursor {
        &self.cursor
    }
}

impl Iterator for TransactionRows<'_> {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Result<Row>> {
        self.cursor.next(self.transaction).transpose()
    }
}

impl std::iter::FusedIterator for TransactionRows<'_> {}

/// A running query in a transaction that is used by others, too: see [`ReadTransaction::open_query`]. It does not own
/// the transaction: each step is given the one in which it was opened; `Invalid` for another one.
///
/// The query writes when its first row is pulled. Rows that are found later may or may not reflect writes of other
/// queries of the transaction in the meantime: pull them first.
pub struct RowCursor {
    transaction: u64,
    pub(crate) run: StatementRun,
    rows: ResultRows,
    /// The last batch of rows, their number, and the index of the next one.
    batch: Arc<Batch>,
    count: usize,
    at: usize,
    more: bool,
}

impl RowCursor {
    /// Opens a text in a transaction of the caller.
    pub(crate) fn open(
        transaction: &ReadTransaction,
        text: &str,
        parameters: &Map,
        options: &QueryOptions,
    ) -> Result<Self> {
        let statement = transaction.noted(transaction.statement(text))?;
        Self::start(transaction, &statement, parameters, options)
    }

    fn start(
        transaction: &ReadTransaction,
        statement: &Statement,
        parameters: &Map,
        options: &QueryOptions,
    ) -> Result<Self> {
        let data = &mut *transaction.borrow_mut()?;
        let owner = transaction.owner();
        let started =
            StatementRun::start(&transaction.db, data, statement, parameters, options, owner);
        let run = transaction.noted(started)?;
        Ok(Self {
            transaction: transaction.serial(),
            batch: Batch::new(run.columns.clone(), Vec::new(), 0),
            run,
            rows: ResultRows::new(),
            count: 0,
            at: 0,
            more: true,
        })
    }

    /// The next row; none at the end. An error ends the query and rolls back its writes, or refuses the commit if
    /// others have written since its first row.
    pub fn next(&mut self, transaction: &ReadTransaction) -> Result<Option<Row>> {
        if self.at >= self.count && !self.fetch(transaction)? {
            return Ok(None);
        }
        let row = Row::of(self.batch.clone(), self.at);
        self.at += 1;
        Ok(Some(row))
    }

    /// Fetches the next rows; false at the end.
    fn fetch(&mut self, transaction: &ReadTransaction) -> Result<bool> {
        if transaction.serial() != self.transaction {
            return Err(Error::invalid(
                "the query was opened in another transaction: give it that one",
            ));
        }
        (self.at, self.count) = (0, 0);
        while self.more {
            let data = &mut *transaction.borrow_mut()?;
            let outcome = self.run.next_rows(data, &mut self.rows);
            self.more = transaction
                .noted(outcome)
                .inspect_err(|_| self.more = false)?;
            self.count = self.rows.len();
            if self.count > 0 {
                let values = self.rows.take_values();
                self.batch = Batch::new(self.run.columns.clone(), values, self.count);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The names of the columns.
    pub fn columns(&self) -> &[Arc<str>] {
        &self.run.columns
    }

    /// The class of the statement, from its plan.
    pub fn class(&self) -> StatementClass {
        self.run.class()
    }

    /// The counts of changes so far.
    pub fn counters(&self) -> Counters {
        self.run.counters()
    }

    /// Notices that are not errors, with their names and positions in the text. Those about the data that a query
    /// reads are complete after its last row.
    pub fn notices(&self) -> Vec<Notice> {
        self.run.notices()
    }

    /// Whether the text begins with `EXPLAIN`: it has a plan and no rows.
    pub fn is_explain(&self) -> bool {
        self.run.mode() == StatementMode::Explain
    }

    /// Whether it begins with `PROFILE`: its plan has a profile.
    pub fn is_profile(&self) -> bool {
        self.run.mode() == StatementMode::Profile
    }

    /// The plan after `EXPLAIN`, and after `PROFILE` the plan with the profile so far, in the form of
    /// [`QueryResult::plan_json`](crate::QueryResult::plan_json).
    pub fn plan_value(&self) -> Option<Value> {
        self.run.plan_value()
    }
}
