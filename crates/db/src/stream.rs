//! Rows as they are found.

use std::sync::Arc;

use isomer_data::Version;
use isomer_exec::Rows;
use isomer_plan::physical::{Mode, Notice, StatementClass};
use isomer_value::{Map, Value};

use crate::{
    Counters, Error, QueryOptions, Result, Row, Transaction,
    rows::Batch,
    statement::{Run, Statement},
};

/// The rows of a query, found while they are taken: see [`Database::stream`](crate::Database::stream).
///
/// An error ends the stream. After the last row of a stream that has a transaction of its own comes its commit; if
/// that fails, the error is the last item.
pub struct RowStream<'t> {
    holder: Holder<'t>,
    cursor: RowCursor,
    committed: Option<Version>,
}

enum Holder<'t> {
    Own(Option<Box<Transaction>>),
    Borrowed(&'t mut Transaction),
}

impl RowStream<'static> {
    pub(crate) fn own(
        mut transaction: Transaction,
        statement: &Statement,
        parameters: &Map,
        options: &QueryOptions,
    ) -> Result<Self> {
        let run = Run::start(&mut transaction, statement, parameters, options)?;
        Ok(Self {
            cursor: RowCursor::new(&transaction, run),
            holder: Holder::Own(Some(Box::new(transaction))),
            committed: None,
        })
    }
}

impl<'t> RowStream<'t> {
    pub(crate) fn borrow(
        transaction: &'t mut Transaction,
        text: &str,
        parameters: &Map,
        options: &QueryOptions,
    ) -> Result<Self> {
        Ok(Self {
            cursor: RowCursor::start(transaction, text, parameters, options)?,
            holder: Holder::Borrowed(transaction),
            committed: None,
        })
    }

    /// The names of the columns.
    pub fn columns(&self) -> &[Arc<str>] {
        self.cursor.columns()
    }

    /// Things worth knowing that are not errors, such as a label that no node has.
    pub fn notices(&self) -> Vec<String> {
        self.cursor.run.notices()
    }

    /// What the statement may do, as its plan says.
    pub fn class(&self) -> StatementClass {
        self.cursor.class()
    }

    /// What was changed so far.
    pub fn counters(&self) -> Counters {
        self.cursor.counters()
    }

    /// The query behind the rows.
    pub fn cursor(&self) -> &RowCursor {
        &self.cursor
    }

    /// The version that the rows were read from, once the stream has ended, or the one that its commit made. Nothing before
    /// that, and for a stream in somebody else's transaction.
    pub fn version(&self) -> Option<Version> {
        self.committed
    }
}

impl Iterator for RowStream<'_> {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Result<Row>> {
        let transaction = match &mut self.holder {
            Holder::Own(Some(transaction)) => transaction.as_mut(),
            Holder::Own(None) => return None,
            Holder::Borrowed(transaction) => transaction,
        };
        let failed = match self.cursor.next(transaction) {
            Ok(Some(row)) => return Some(Ok(row)),
            Ok(None) => None,
            Err(error) => Some(error),
        };
        let Holder::Own(transaction) = &mut self.holder else {
            return failed.map(Err);
        };
        let transaction = transaction.take()?;
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

impl std::iter::FusedIterator for RowStream<'_> {}

/// A query at work in a transaction that others use, too: see [`Transaction::open_query`]. It holds no transaction: each step is
/// given the one that it was opened in, and `Invalid` for another one.
///
/// What the query writes is written when its first row is asked for. Rows that it finds later may or may not show what
/// other queries of the transaction write in between: take them first.
pub struct RowCursor {
    transaction: u64,
    run: Run,
    rows: Rows,
    /// The rows found last, how many they are, and the one to give next.
    batch: Arc<Batch>,
    count: usize,
    at: usize,
    more: bool,
}

impl RowCursor {
    pub(crate) fn start(
        transaction: &mut Transaction,
        text: &str,
        parameters: &Map,
        options: &QueryOptions,
    ) -> Result<Self> {
        let started = Statement::ready(transaction, text)
            .and_then(|statement| Run::start(transaction, &statement, parameters, options));
        let run = transaction.noted(started)?;
        Ok(Self::new(transaction, run))
    }

    fn new(transaction: &Transaction, run: Run) -> Self {
        Self {
            transaction: transaction.serial(),
            batch: Batch::new(run.columns.clone(), Vec::new(), 0),
            run,
            rows: Rows::new(),
            count: 0,
            at: 0,
            more: true,
        }
    }

    /// The next row; nothing at the end. An error ends it and undoes what the query wrote.
    pub fn next(&mut self, transaction: &mut Transaction) -> Result<Option<Row>> {
        if self.at >= self.count && !self.fetch(transaction)? {
            return Ok(None);
        }
        let row = Row::of(self.batch.clone(), self.at);
        self.at += 1;
        Ok(Some(row))
    }

    /// Fetches the next rows; false at the end.
    fn fetch(&mut self, transaction: &mut Transaction) -> Result<bool> {
        if transaction.serial() != self.transaction {
            return Err(Error::invalid(
                "the query was opened in another transaction: give it that one",
            ));
        }
        (self.at, self.count) = (0, 0);
        while self.more {
            let outcome = self.run.next_rows(transaction, &mut self.rows);
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

    /// Bytes that the query holds for what it has not given yet: groups, sorted rows, lists.
    pub fn held_bytes(&self) -> usize {
        self.run.held_bytes()
    }

    /// The names of the columns.
    pub fn columns(&self) -> &[Arc<str>] {
        &self.run.columns
    }

    /// What the statement may do, as its plan says.
    pub fn class(&self) -> StatementClass {
        self.run.class()
    }

    /// What was changed so far.
    pub fn counters(&self) -> Counters {
        self.run.counters()
    }

    /// Things worth knowing that are not errors, with their names and their places in the text.
    pub fn notices(&self) -> &[Notice] {
        self.run.notice_list()
    }

    /// Whether the text begins with `EXPLAIN`: it has a plan and no rows.
    pub fn is_explain(&self) -> bool {
        self.run.mode() == Mode::Explain
    }

    /// Whether it begins with `PROFILE`: its plan has figures.
    pub fn is_profile(&self) -> bool {
        self.run.mode() == Mode::Profile
    }

    /// The plan after `EXPLAIN`, and after `PROFILE` the plan with the figures so far, in the shape of
    /// [`QueryResult::plan_json`](crate::QueryResult::plan_json).
    pub fn plan(&self) -> Option<Value> {
        self.run.plan_value()
    }
}
