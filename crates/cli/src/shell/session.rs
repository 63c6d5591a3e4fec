//! A shell's state: its database, the open transaction, parameters and output options; what commands and queries do to
//! it.

use std::{
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use anyhow::{Result, anyhow, bail};
use isomer_db::{
    CancelHandle, Counters, Database, Map, Query, QueryOptions, Value, WriteTransaction, json,
};
use parking_lot::Mutex;

use crate::{
    open,
    output::{Mode, is_broken_pipe},
    query,
    style::{Style, counted, duration},
};

/// Behaviour after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// The script ends, and the open transaction is rolled back.
    Stop,
    /// The error is reported, and the script continues.
    KeepGoing,
}

/// The running query, for Ctrl-C.
type AtWork = Arc<Mutex<Option<CancelHandle>>>;

/// A shell: a database, an optional transaction, and the output options.
pub struct Shell {
    pub(super) db: Database,
    pub(super) transaction: Option<WriteTransaction>,
    /// The transaction covers the whole run: scripts neither begin nor end one.
    pub(super) is_single: bool,
    /// Values of `$name`.
    pub params: Map,
    pub(super) mode: Mode,
    pub(super) timer: bool,
    /// Changes are summed up in `changed` and not printed after each statement.
    pub sums_changes: bool,
    /// Changes since this was last taken, without those that were rolled back.
    pub changed: Counters,
    /// `changed` as it was before the open transaction.
    pub(super) changed_before: Counters,
    /// The open transaction changed indexes or constraints, which are not rolled back.
    pub(super) has_changed_schema: bool,
    /// What a script does after an error.
    pub(super) on_error: OnError,
    /// Nesting depth of running scripts.
    pub(super) depth: usize,
    /// The files of the running scripts.
    pub(super) running: Vec<PathBuf>,
    pub(super) at_work: AtWork,
    pub(super) style: Style,
}

/// Whether to continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Go,
    Quit,
}

impl Shell {
    /// Opens a database, creating it if it is missing; in memory without a path. On a terminal, Ctrl-C only stops a
    /// statement; otherwise it also ends the process.
    pub fn open(path: Option<&Path>, mode: Mode, interactive: bool) -> Result<Self> {
        let db = match path {
            Some(path) => open::open(path)?,
            None => open::open_in_memory()?,
        };
        let at_work = AtWork::default();
        let interrupted = at_work.clone();
        // If the handler cannot be installed, Ctrl-C ends the shell: queries run nevertheless.
        let _ = ctrlc::set_handler(move || match interrupted.lock().as_ref() {
            Some(handle) => handle.cancel(),
            None if !interactive => std::process::exit(130),
            None => {}
        });
        Ok(Self {
            db,
            transaction: None,
            is_single: false,
            params: Map::new(),
            mode,
            timer: interactive,
            sums_changes: false,
            changed: Counters::default(),
            changed_before: Counters::default(),
            has_changed_schema: false,
            on_error: OnError::Stop,
            depth: 0,
            running: Vec::new(),
            at_work,
            style: Style::stdout(),
        })
    }

    /// Closes the database. An open transaction is rolled back.
    pub fn close(self) -> Result<()> {
        drop(self.transaction);
        Ok(self.db.close()?)
    }

    /// Begins the transaction of a whole run.
    pub fn begin_single(&mut self) -> Result<()> {
        self.begin()?;
        self.is_single = true;
        Ok(())
    }

    /// Begins a transaction over several statements.
    pub(super) fn begin(&mut self) -> Result<()> {
        self.transaction = Some(self.db.begin()?);
        self.changed_before = self.changed;
        self.has_changed_schema = false;
        Ok(())
    }

    /// Rolls back the open transaction. Returns `None` if there is none, else what a message about it adds.
    pub(super) fn undo(&mut self) -> Option<&'static str> {
        self.transaction.take()?.rollback();
        let all = std::mem::replace(&mut self.changed, self.changed_before);
        self.changed.indexes_added = all.indexes_added;
        self.changed.indexes_removed = all.indexes_removed;
        self.changed.constraints_added = all.constraints_added;
        self.changed.constraints_removed = all.constraints_removed;
        Some(match self.has_changed_schema {
            true => {
                ", except for its indexes and constraints, which are created and dropped at once"
            }
            false => "",
        })
    }

    /// Commits the transaction of a whole run, if there is one.
    pub fn commit_single(&mut self) -> Result<()> {
        if let Some(transaction) = self.transaction.take() {
            transaction.commit()?;
        }
        Ok(())
    }

    /// Rolls back the open transaction, if there is one, and says so in the error that caused it.
    pub fn roll_back(&mut self, error: anyhow::Error) -> anyhow::Error {
        match self.undo() {
            Some(except) => {
                let error = match is_broken_pipe(&error) {
                    true => "standard output was closed by its reader, such as `head`".to_owned(),
                    false => format!("{error:#}"),
                };
                anyhow!("{error}\n  the transaction of the whole run was rolled back{except}")
            }
            None => error,
        }
    }

    /// The value of a JSON text, or of an expression of the query language.
    pub(super) fn evaluate(&mut self, text: &str) -> Result<Value> {
        if let Ok(value) = json::parse(text) {
            return Ok(value);
        }
        let query = format!("RETURN {text} AS value");
        let result = match &mut self.transaction {
            Some(transaction) => transaction.query((&query, &self.params))?,
            None => self.db.query((&query, &self.params))?,
        };
        let row = result.into_rows().into_iter().next();
        row.and_then(|row| row.values().first().cloned())
            .ok_or_else(|| anyhow!("`{text}` has no value"))
    }

    /// Reports the effect of a command; a summed-up run reports it at its end.
    pub(super) fn say(&self, text: &str) -> Result<()> {
        if !self.sums_changes {
            say!("{text}");
        }
        Ok(())
    }

    /// Runs a query and prints its result.
    pub(super) fn query(&mut self, text: &str) -> Result<()> {
        if self.is_single && changes_schema(text) {
            bail!(
                "indexes and constraints are created and dropped at once, and would stay after a rollback: run their \
                 statements first, without --single-transaction"
            );
        }
        let handle = CancelHandle::new();
        *self.at_work.lock() = Some(handle.clone());
        let outcome = self.query_with(text, &QueryOptions::new().cancel(handle));
        *self.at_work.lock() = None;
        outcome
    }

    fn query_with(&mut self, text: &str, options: &QueryOptions) -> Result<()> {
        let start = Instant::now();
        let mut out = std::io::BufWriter::new(std::io::stdout().lock());
        let mut output = query::Output {
            mode: self.mode,
            skips_empty: true,
            out: &mut out,
        };
        let (printed, note) = match &mut self.transaction {
            None => {
                let printed = query::print(&self.db, text, &self.params, options, &mut output)?;
                (printed, "")
            }
            Some(transaction) => {
                let result =
                    transaction.query(Query::new(text).params(&self.params).options(options))?;
                let printed = query::print_result(text, result, &mut output)?;
                (printed, " (not committed yet)")
            }
        };
        let counters = &printed.counters;
        self.has_changed_schema |= counters.indexes_added
            + counters.indexes_removed
            + counters.constraints_added
            + counters.constraints_removed
            > 0;
        match self.sums_changes {
            true => self.changed.add(&printed.counters),
            false => query::print_changes(&printed.counters, note, &mut output)?,
        }
        let rows = printed.rows;
        out.flush()?;
        drop(out);
        if self.timer {
            let summary = match rows {
                0 => format!("done in {}", duration(start.elapsed())),
                rows => format!("{} in {}", counted(rows, "row"), duration(start.elapsed())),
            };
            say!("{}", self.style.dim(&summary));
        }
        Ok(())
    }
}

/// Whether a statement creates or drops an index or a constraint.
fn changes_schema(text: &str) -> bool {
    use isomer_cypher::ast::{StatementBody, StatementMode};
    isomer_cypher::parse(text).is_ok_and(|statement| {
        statement.mode != StatementMode::Explain
            && matches!(
                statement.body,
                StatementBody::CreateIndex(_)
                    | StatementBody::DropIndex(_)
                    | StatementBody::CreateConstraint(_)
                    | StatementBody::DropConstraint(_)
            )
    })
}
