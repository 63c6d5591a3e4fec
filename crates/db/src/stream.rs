//! Rows as they are found.

use std::sync::Arc;

use isomer_exec::Rows;
use isomer_plan::physical::StatementClass;
use isomer_value::Map;

use crate::{
    Counters, QueryOptions, Result, Row, Transaction,
    rows::Batch,
    statement::{Run, Statement},
};

/// The rows of a query, found while they are taken: see [`Database::stream`](crate::Database::stream).
///
/// An error ends the stream. After the last row of a stream that has a transaction of its own comes its commit; if
/// that fails, the error is the last item.
pub struct RowStream<'t> {
    holder: Holder<'t>,
    run: Run,
    columns: Arc<[Arc<str>]>,
    rows: Rows,
    /// The rows found last, how many they are, and the one to give next.
    batch: Arc<Batch>,
    count: usize,
    at: usize,
    more: bool,
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
        Ok(Self::new(Holder::Own(Some(Box::new(transaction))), run))
    }
}

impl<'t> RowStream<'t> {
    pub(crate) fn borrow(
        transaction: &'t mut Transaction,
        text: &str,
        parameters: &Map,
        options: &QueryOptions,
    ) -> Result<Self> {
        let started = Run::start_text(transaction, text, parameters, options);
        let run = transaction.noted(started)?;
        Ok(Self::new(Holder::Borrowed(transaction), run))
    }

    fn new(holder: Holder<'t>, run: Run) -> Self {
        Self {
            holder,
            columns: run.columns.clone(),
            batch: Batch::new(run.columns.clone(), Vec::new()),
            run,
            rows: Rows::new(),
            count: 0,
            at: 0,
            more: true,
        }
    }

    /// The names of the columns.
    pub fn columns(&self) -> &[Arc<str>] {
        &self.columns
    }

    /// Things worth knowing that are not errors, such as a label that no node has.
    pub fn notices(&self) -> Vec<String> {
        self.run.notices()
    }

    /// What the statement may do, as its plan says.
    pub fn class(&self) -> StatementClass {
        self.run.class()
    }

    /// What was changed so far.
    pub fn counters(&self) -> Counters {
        self.run.counters()
    }

    /// Fetches the next rows; false at the end, where a transaction of its own was committed.
    fn fetch(&mut self) -> Result<bool> {
        self.at = 0;
        while self.more {
            let transaction = match &mut self.holder {
                Holder::Own(Some(transaction)) => transaction.as_mut(),
                Holder::Own(None) => return Ok(false),
                Holder::Borrowed(transaction) => transaction,
            };
            let outcome = self.run.next_rows(transaction, &mut self.rows);
            self.more = transaction
                .noted(outcome)
                .inspect_err(|_| self.more = false)?;
            self.count = self.rows.len();
            if self.count > 0 {
                self.batch = Batch::new(self.columns.clone(), self.rows.take_values());
                return Ok(true);
            }
        }
        self.count = 0;
        if let Holder::Own(transaction) = &mut self.holder
            && let Some(transaction) = transaction.take()
        {
            transaction.finish()?;
        }
        Ok(false)
    }
}

impl Iterator for RowStream<'_> {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Result<Row>> {
        if self.at >= self.count {
            match self.fetch() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.more = false;
                    if let Holder::Own(transaction) = &mut self.holder {
                        *transaction = None;
                    }
                    return Some(Err(error));
                }
            }
        }
        let row = Row::of(self.batch.clone(), self.at);
        self.at += 1;
        Some(Ok(row))
    }
}

impl std::iter::FusedIterator for RowStream<'_> {}

impl Run {
    /// Starts a text, from the cache of plans where it is there.
    fn start_text(
        transaction: &mut Transaction,
        text: &str,
        parameters: &Map,
        options: &QueryOptions,
    ) -> Result<Self> {
        let statement = Statement::ready(transaction, text)?;
        Self::start(transaction, &statement, parameters, options)
    }
}
