//! `isomer shell`: queries one after the other, with history, several lines and completion.

mod commands;
mod complete;

use std::{
    io::{BufRead, IsTerminal, Write},
    path::PathBuf,
    sync::Arc,
    time::Instant,
};

use anyhow::{Result, bail};
use clap::Args;
use isomer_db::{CancelHandle, Database, Map, QueryOptions, Transaction};
use parking_lot::Mutex;
use rustyline::{Config, Editor, error::ReadlineError, history::FileHistory};

use crate::{
    open,
    output::{Mode, Printer, TABLE_ROWS, changes},
    style::{Style, counted, duration},
};
use commands::Command;
use complete::ShellHelper;

/// Options of `isomer shell`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  isomer shell people.db
  isomer shell
  echo 'MATCH (n) RETURN count(n) AS nodes;' | isomer shell people.db

Queries end with a semicolon or an empty line. `:help` lists the commands.")]
pub struct ShellOptions {
    /// The database; made where nothing is. Without one the shell works in memory
    pub db: Option<PathBuf>,
    /// How results are printed
    #[arg(long, short, value_enum, default_value_t = Mode::Table)]
    pub format: Mode,
}

/// The query at work, for Ctrl-C.
type AtWork = Arc<Mutex<Option<CancelHandle>>>;

/// A shell: a database, perhaps a transaction, and how to print.
struct Shell {
    db: Database,
    transaction: Option<Transaction>,
    params: Map,
    mode: Mode,
    timer: bool,
    at_work: AtWork,
    style: Style,
}

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Go,
    Quit,
}

/// Runs the command.
pub fn command(options: &ShellOptions) -> Result<()> {
    let db = match &options.db {
        Some(path) => open::open(path)?,
        None => open::open_in_memory()?,
    };
    let at_work = AtWork::default();
    let interrupted = at_work.clone();
    // Where no handler can be set, Ctrl-C ends the shell: queries run all the same.
    let _ = ctrlc::set_handler(move || match interrupted.lock().as_ref() {
        Some(handle) => handle.cancel(),
        None if !std::io::stdin().is_terminal() => std::process::exit(130),
        None => {}
    });
    let interactive = std::io::stdin().is_terminal();
    let mut shell = Shell {
        db,
        transaction: None,
        params: Map::new(),
        mode: options.format,
        timer: interactive,
        at_work,
        style: Style::stdout(),
    };
    if interactive {
        shell.talk(options)?;
    } else {
        shell.read(std::io::stdin().lock())?;
    }
    if let Some(transaction) = shell.transaction.take() {
        transaction.rollback();
        eprintln!("the open transaction was rolled back");
    }
    Ok(shell.db.close()?)
}

impl Shell {
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
            let _ = editor.load_history(path); // the first time there is none
        }
        let place = options
            .db
            .as_ref()
            .map_or("in memory, nothing is kept".into(), |path| {
                path.display().to_string()
            });
        println!(
            "{} {}: {place}",
            self.style.bold("isomer"),
            env!("CARGO_PKG_VERSION")
        );
        println!(
            "End a query with a semicolon; {} lists the commands, Ctrl-D leaves.",
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
                Err(error) => bail!("the terminal cannot be read: {error}"),
            }
        }
        if let Some(path) = &history {
            if let Some(folder) = path.parent() {
                let _ = std::fs::create_dir_all(folder);
            }
            if let Err(error) = editor.save_history(path) {
                eprintln!("the history cannot be kept in {}: {error}", path.display());
            }
        }
        Ok(())
    }

    /// Reads statements from a pipe. Goes on after an error, and tells at the end.
    fn read(&mut self, input: impl BufRead) -> Result<()> {
        let mut pending = String::new();
        let mut failed = 0;
        let mut run = |shell: &mut Self, text: &str| -> Next {
            match shell.run_one(text) {
                Ok(next) => next,
                Err(error) => {
                    eprintln!("error: {error:#}");
                    failed += 1;
                    Next::Go
                }
            }
        };
        for line in input.lines() {
            let line = line?;
            if pending.trim().is_empty() && line.trim_start().starts_with(':') {
                pending.clear();
                if run(self, line.trim()) == Next::Quit {
                    pending.clear();
                    break;
                }
                continue;
            }
            pending.push_str(&line);
            pending.push('\n');
            if is_complete(&pending) {
                for text in statements(&std::mem::take(&mut pending)) {
                    run(self, &text);
                }
            }
        }
        for text in statements(&pending) {
            run(self, &text);
        }
        match failed {
            0 => Ok(()),
            failed => bail!("{} failed", counted(failed, "statement")),
        }
    }

    /// Runs what was typed; errors are shown and forgotten.
    fn run_input(&mut self, input: &str) -> Next {
        let texts = if input.trim_start().starts_with(':') {
            vec![input.trim().to_owned()]
        } else {
            statements(input)
        };
        for text in texts {
            match self.run_one(&text) {
                Ok(Next::Go) => {}
                Ok(Next::Quit) => return Next::Quit,
                Err(error) => {
                    eprintln!("error: {error:#}");
                    break;
                }
            }
        }
        Next::Go
    }

    /// Runs one command or one query.
    fn run_one(&mut self, text: &str) -> Result<Next> {
        if text.starts_with(':') {
            return Command::parse(text)?.run(self);
        }
        self.query(text)?;
        Ok(Next::Go)
    }

    /// Runs a query and prints its result.
    fn query(&mut self, text: &str) -> Result<()> {
        let handle = CancelHandle::new();
        *self.at_work.lock() = Some(handle.clone());
        let outcome = self.query_with(text, &QueryOptions::new().cancel(handle));
        *self.at_work.lock() = None;
        outcome
    }

    fn query_with(&mut self, text: &str, options: &QueryOptions) -> Result<()> {
        let start = Instant::now();
        let mut out = std::io::BufWriter::new(std::io::stdout().lock());
        let rows = match &mut self.transaction {
            None => {
                crate::query::print(&self.db, text, &self.params, options, self.mode, &mut out)?
            }
            Some(transaction) => {
                let result = transaction.query_with(text, &self.params, options)?;
                let columns = result.columns().to_vec();
                let changed = changes(result.counters());
                let mut rows = 0;
                if !columns.is_empty() || self.mode != Mode::Table {
                    let mut printer = Printer::new(&mut out, self.mode, &columns, TABLE_ROWS)?;
                    for row in result {
                        printer.row(row)?;
                    }
                    rows = printer.finish()?;
                }
                if let Some(changed) = changed {
                    writeln!(out, "{changed} (not committed yet)")?;
                }
                rows
            }
        };
        out.flush()?;
        drop(out);
        if self.timer {
            let told = match rows {
                0 => format!("done in {}", duration(start.elapsed())),
                rows => format!("{} in {}", counted(rows, "row"), duration(start.elapsed())),
            };
            println!("{}", self.style.dim(&told));
        }
        Ok(())
    }
}

/// Whether the text ends a statement: with a semicolon outside of quotes and comments, or with an empty line.
fn is_complete(text: &str) -> bool {
    let (complete, rest) = split(text);
    text.trim().is_empty()
        || text.ends_with("\n\n")
        || !complete.is_empty() && rest.trim().is_empty()
}

/// The statements in a text, without their semicolons; empty ones are left out.
fn statements(text: &str) -> Vec<String> {
    let (mut complete, rest) = split(text);
    complete.push(rest);
    complete.retain(|statement| !statement.trim().is_empty());
    complete
        .into_iter()
        .map(|statement| statement.trim().to_owned())
        .collect()
}

/// Statements that a semicolon ends, and what comes after the last one.
fn split(text: &str) -> (Vec<String>, String) {
    let (mut complete, mut current) = (Vec::new(), String::new());
    let mut characters = text.chars().peekable();
    let mut quote: Option<char> = None;
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(_), '\\') if quote != Some('`') => {
                current.push(character);
                current.extend(characters.next());
                continue;
            }
            (Some(open), _) => {
                if character == open {
                    quote = None;
                }
            }
            (None, '\'' | '"' | '`') => quote = Some(character),
            (None, '/') if characters.peek() == Some(&'/') => {
                // The rest of the line is a comment.
                current.push(character);
                while let Some(&next) = characters.peek() {
                    if next == '\n' {
                        break;
                    }
                    current.extend(characters.next());
                }
                continue;
            }
            (None, '/') if characters.peek() == Some(&'*') => {
                current.push(character);
                let mut before = ' ';
                for next in characters.by_ref() {
                    current.push(next);
                    if before == '*' && next == '/' {
                        break;
                    }
                    before = next;
                }
                continue;
            }
            (None, ';') => {
                complete.push(std::mem::take(&mut current));
                continue;
            }
            (None, _) => {}
        }
        current.push(character);
    }
    (complete, current)
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
    fn statements_end_with_semicolons_outside_of_quotes_and_comments() {
        assert_eq!(
            statements("RETURN 1; RETURN ';' ;\n"),
            ["RETURN 1", "RETURN ';'"]
        );
        assert_eq!(
            statements("RETURN 'it\\'s;' // no; end\n;"),
            ["RETURN 'it\\'s;' // no; end"]
        );
        assert_eq!(
            statements("RETURN /* ; */ `a;b`; x"),
            ["RETURN /* ; */ `a;b`", "x"]
        );
        assert!(statements(" ;; ").is_empty());
    }

    #[test]
    fn a_semicolon_or_an_empty_line_ends_the_input() {
        assert!(is_complete("RETURN 1;"));
        assert!(is_complete("RETURN 1; \n"));
        assert!(is_complete("MATCH (n)\nRETURN n\n\n"));
        assert!(is_complete("  "));
        assert!(!is_complete("MATCH (n)\n"));
        assert!(!is_complete("RETURN ';"));
        assert!(!is_complete("RETURN 1; RETURN"));
    }
}
