//! `isomer shell`: runs queries interactively, with history, multi-line input and completion.

mod commands;
mod complete;
mod script;

use std::{
    io::{IsTerminal, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use anyhow::{Result, anyhow, bail};
use clap::Args;
use isomer_cypher::script::{Splitter, pieces};
use isomer_db::{
    CancelHandle, Counters, Database, Map, Query, QueryOptions, Value, WriteTransaction, json,
};
use parking_lot::Mutex;
use rustyline::{Config, Editor, error::ReadlineError, history::FileHistory};

use crate::{
    open,
    output::Mode,
    query,
    style::{Style, counted, duration},
};
use commands::Command;
use complete::ShellHelper;
pub use script::{OnError, OutputClosed};

/// Options of `isomer shell`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  isomer shell people.db
  isomer shell
  isomer shell people.db < script.cypher
  echo 'MATCH (n) RETURN count(n) AS nodes;' | isomer shell people.db

Only a semicolon ends a statement: empty lines are part of it. `:help` lists the commands.

From a pipe or file the first error ends the shell with exit code 1, and the open transaction is rolled back; `isomer run` runs scripts by name.")]
pub struct ShellOptions {
    /// The database; created if it is missing. Without one the shell works in memory
    pub db: Option<PathBuf>,
    /// Output format
    #[arg(long, short, value_enum, default_value_t = Mode::Table)]
    pub format: Mode,
    /// After an error in a script from standard input, continues with the next statement, even in an open transaction;
    /// the exit code is still 1
    #[arg(long)]
    pub keep_going: bool,
}

/// The running query, for Ctrl-C.
type AtWork = Arc<Mutex<Option<CancelHandle>>>;

/// A shell: a database, an optional transaction, and the output options.
pub struct Shell {
    db: Database,
    transaction: Option<WriteTransaction>,
    /// The transaction covers the whole run: scripts neither begin nor end one.
    is_single: bool,
    /// Values of `$name`.
    pub params: Map,
    mode: Mode,
    timer: bool,
    /// Changes are summed up in `changed` and not printed after each statement.
    pub sums_changes: bool,
    /// Changes since this was last taken, without those that were rolled back.
    pub changed: Counters,
    /// `changed` as it was before the open transaction.
    changed_before: Counters,
    /// The open transaction changed indexes or constraints, which are not rolled back.
    has_changed_schema: bool,
    /// What a script does after an error.
    on_error: OnError,
    /// Nesting depth of running scripts.
    depth: usize,
    /// The files of the running scripts.
    running: Vec<PathBuf>,
    at_work: AtWork,
    style: Style,
}

/// Whether to continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Go,
    Quit,
}

/// Runs the command.
pub fn command(options: &ShellOptions) -> Result<()> {
    let interactive = std::io::stdin().is_terminal();
    let mut shell = Shell::open(options.db.as_deref(), options.format, interactive)?;
    if interactive {
        shell.talk(options)?;
        if let Some(except) = shell.undo() {
            report!("the open transaction was rolled back{except}");
        }
        return shell.close();
    }
    let on_error = match options.keep_going {
        true => OnError::KeepGoing,
        false => OnError::Stop,
    };
    let outcome = shell.run_script("standard input", std::io::stdin().lock(), on_error);
    shell.close()?;
    outcome.map(|_| ())
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
    fn begin(&mut self) -> Result<()> {
        self.transaction = Some(self.db.begin()?);
        self.changed_before = self.changed;
        self.has_changed_schema = false;
        Ok(())
    }

    /// Rolls back the open transaction. Returns `None` where there is none, else what a message about it adds.
    fn undo(&mut self) -> Option<&'static str> {
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
                let error = match crate::is_broken_pipe(&error) {
                    true => "standard output was closed by its reader, such as `head`".to_owned(),
                    false => format!("{error:#}"),
                };
                anyhow!("{error}\n  the transaction of the whole run was rolled back{except}")
            }
            None => error,
        }
    }

    /// Reads lines from a terminal.
    fn talk(&mut self, options: &ShellOptions) -> Result<()> {
        let config = Config::builder()
            .auto_add_history(true)
            .max_history_size(10_000)?
            .completion_type(rustyline::CompletionType::List)
            .build();
        let mut editor: Editor<ShellHelper, FileHistory> = Editor::with_config(config)?;
        editor.set_helper(Some(ShellHelper::new(self.db.clone())));
        let history = history_file();
        if let Some(path) = &history {
            let _ = editor.load_history(path); // the first time there is no history
        }
        let place = options
            .db
            .as_ref()
            .map_or("in memory".into(), |path| path.display().to_string());
        say!(
            "{} {}: {place}",
            self.style.bold("isomer"),
            env!("CARGO_PKG_VERSION")
        );
        say!(
            "A statement ends with a semicolon; {} lists the commands, Ctrl-D leaves.",
            self.style.bold(":help")
        );
        loop {
            let prompt = if self.transaction.is_some() {
                "isomer*> "
            } else {
                "isomer> "
            };
            match editor.readline(prompt) {
                Ok(input) => {
                    if self.run_input(&input) == Next::Quit {
                        break;
                    }
                }
                Err(ReadlineError::Interrupted) => {}
                Err(ReadlineError::Eof) => break,
                Err(error) => bail!("cannot read the terminal: {error}"),
            }
        }
        if let Some(path) = &history {
            if let Some(folder) = path.parent() {
                let _ = std::fs::create_dir_all(folder);
            }
            if let Err(error) = editor.save_history(path) {
                report!("cannot save the history in {}: {error}", path.display());
            }
        }
        Ok(())
    }

    /// Runs the input; errors are printed, and the shell continues.
    fn run_input(&mut self, input: &str) -> Next {
        for piece in pieces(input) {
            match self.run_one(&piece.text) {
                Ok(Next::Go) => {}
                Ok(Next::Quit) => return Next::Quit,
                Err(error) => {
                    report!("error: {error:#}");
                    break;
                }
            }
        }
        Next::Go
    }

    /// Runs one command or one query.
    fn run_one(&mut self, text: &str) -> Result<Next> {
        let command = match text.starts_with(':') {
            true => Some(Command::parse(text)?),
            false => Command::of_words(text),
        };
        match command {
            Some(command) => command.run(self),
            None => {
                self.query(text)?;
                Ok(Next::Go)
            }
        }
    }

    /// The value of a JSON text, or of an expression of the query language.
    fn evaluate(&mut self, text: &str) -> Result<Value> {
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
    fn say(&self, text: &str) -> Result<()> {
        if !self.sums_changes {
            say!("{text}");
        }
        Ok(())
    }

    /// Runs a query and prints its result.
    fn query(&mut self, text: &str) -> Result<()> {
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
    use isomer_cypher::ast::{Mode, StatementBody};
    isomer_cypher::parse(text).is_ok_and(|statement| {
        statement.mode != Mode::Explain
            && matches!(
                statement.body,
                StatementBody::CreateIndex(_)
                    | StatementBody::DropIndex(_)
                    | StatementBody::CreateConstraint(_)
                    | StatementBody::DropConstraint(_)
            )
    })
}

/// Whether the input is complete: a command, or statements with their semicolons.
fn is_complete(text: &str) -> bool {
    let mut splitter = Splitter::new();
    splitter.push(text);
    // A command or a comment ends with its line.
    splitter.push("\n");
    splitter.is_between()
}

/// `$XDG_STATE_HOME/isomer/history`, or under `~/.local/state`.
fn history_file() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    let folder =
        state.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state")))?;
    Some(folder.join("isomer").join("history"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_semicolon_ends_the_input_and_an_empty_line_does_not() {
        for whole in [
            "RETURN 1;",
            "RETURN 1; \n",
            "RETURN 1; // done",
            "  ",
            "// nothing",
            ":begin",
            "RETURN 1; :commit",
        ] {
            assert!(is_complete(whole), "{whole}");
        }
        for part in [
            "MATCH (n)\n",
            "MATCH (n)\nRETURN n\n\n",
            "RETURN ';",
            "RETURN 1; RETURN",
            "RETURN 1 // ;",
            "/* ; ",
        ] {
            assert!(!is_complete(part), "{part}");
        }
    }
}
