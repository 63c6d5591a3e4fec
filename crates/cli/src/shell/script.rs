//! Scripts: statements and commands from files and pipes, in sequence.

use std::{
    fmt,
    io::{BufRead, ErrorKind},
    path::Path,
};

use anyhow::{Context, Error, Result, anyhow, bail};
use isomer_cypher::script::{Piece, Splitter};

use super::session::{Next, OnError, Shell};
use crate::{output::is_broken_pipe, style::counted};

/// The error of a script that ended early because standard output was closed.
#[derive(Debug)]
pub struct OutputClosed(String);

impl fmt::Display for OutputClosed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for OutputClosed {}

/// Maximum nesting of scripts by `:source`.
const MAX_DEPTH: usize = 16;

/// A running script.
struct Script<'s> {
    name: &'s str,
    on_error: OnError,
    /// Statements and commands that succeeded.
    succeeded: u64,
    failed: u64,
    /// Line of the statement that opened the current transaction.
    begun_at: Option<usize>,
    /// Line of the statement whose result was not written, or not completely, because standard output was closed.
    closed_at: Option<usize>,
}

impl Shell {
    /// Runs a script. Returns the number of its statements and commands, or [`Next::Quit`] after `:quit`.
    ///
    /// # Errors
    /// The first one, with the script's name and the line; with [`OnError::KeepGoing`] the number of statements that
    /// failed. A script that ends inside a transaction that it opened is an error. In each case the transaction is
    /// rolled back. If standard output is closed, the script ends after the statement whose result was to be written:
    /// [`OutputClosed`] if others follow or a transaction is rolled back, the I/O error otherwise.
    pub fn run_script(
        &mut self,
        name: &str,
        input: impl BufRead,
        on_error: OnError,
    ) -> Result<(u64, Next)> {
        if self.depth == MAX_DEPTH {
            bail!(
                "{name} is the {MAX_DEPTH}th nested script: is there a cycle of `:source` commands?"
            );
        }
        self.depth += 1;
        let outcome = Script {
            name,
            on_error,
            succeeded: 0,
            failed: 0,
            begun_at: None,
            closed_at: None,
        }
        .run(self, input);
        self.depth -= 1;
        outcome
    }

    /// Runs the script in a file.
    pub fn run_file(&mut self, path: &Path, on_error: OnError) -> Result<(u64, Next)> {
        let name = path.display().to_string();
        let file = std::fs::File::open(path).with_context(|| format!("cannot read {name}"))?;
        // With `--keep-going` a cycle would run its scripts exponentially often before it is too deep.
        let canonical = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if self.running.contains(&canonical) {
            bail!("{name} is running already: a cycle of `:source` commands");
        }
        self.running.push(canonical);
        let outcome = self.run_script(&name, std::io::BufReader::new(file), on_error);
        self.running.pop();
        outcome
    }
}

impl Script<'_> {
    fn run(mut self, shell: &mut Shell, input: impl BufRead) -> Result<(u64, Next)> {
        let had_transaction = shell.transaction.is_some();
        let on_error = std::mem::replace(&mut shell.on_error, self.on_error);
        let outcome = self.run_pieces(shell, input);
        shell.on_error = on_error;
        // A transaction of the caller is the caller's to roll back after an error.
        let undone = match had_transaction {
            true => None,
            false => shell.undo(),
        };
        let next = match (outcome, undone) {
            (Err(error), Some(except)) => {
                let error = self.cut_off().map_or(error, Error::new);
                let message = format!("{error:#}\n  {}{except}", self.rolled_back());
                return Err(match error.is::<OutputClosed>() {
                    true => OutputClosed(message).into(),
                    false => anyhow!(message),
                });
            }
            // Failures before a closed output are reported below.
            (Err(error), _) if self.failed > 0 && is_broken_pipe(&error) => Next::Go,
            (Err(error), _) => return Err(error),
            (Ok(_), Some(except)) => bail!(
                "{} ends inside a transaction, a `:commit` is missing: {}{except}",
                self.name,
                self.rolled_back()
            ),
            (Ok(next), None) => next,
        };
        match self.failed {
            0 => Ok((self.succeeded, next)),
            failed => bail!("{}: {} failed", self.name, counted(failed, "statement")),
        }
    }

    fn rolled_back(&self) -> String {
        match self.begun_at {
            Some(line) => format!("the transaction that line {line} began was rolled back"),
            None => "the open transaction was rolled back".into(),
        }
    }

    /// Runs the pieces of the script up to its end, an error or `:quit`.
    fn run_pieces(&mut self, shell: &mut Shell, mut input: impl BufRead) -> Result<Next> {
        let mut splitter = Splitter::new();
        let mut line = String::new();
        for number in 1.. {
            line.clear();
            let length = input.read_line(&mut line).map_err(|error| match error.kind() {
                ErrorKind::InvalidData => anyhow!(
                    "{}, line {number}, is not UTF-8: convert the script first, for example with iconv",
                    self.name
                ),
                _ => Error::new(error).context(format!("cannot read {}, line {number}", self.name)),
            })?;
            if length == 0 {
                break;
            }
            for piece in splitter.push(&line) {
                if self.run_while_open(shell, &piece)? == Next::Quit {
                    return Ok(Next::Quit);
                }
            }
        }
        let next = match splitter.finish() {
            Some(piece) => self.run_while_open(shell, &piece)?,
            None => Next::Go,
        };
        match self.closed_at {
            // Everything ran: as for a single query, only its output is incomplete.
            Some(_) => Err(std::io::Error::from(ErrorKind::BrokenPipe).into()),
            None => Ok(next),
        }
    }

    /// Runs a piece, unless standard output was closed before: the script must not continue without its reader, and not
    /// end early without an error.
    fn run_while_open(&mut self, shell: &mut Shell, piece: &Piece) -> Result<Next> {
        if let Some(cut_off) = self.cut_off() {
            return Err(cut_off.into());
        }
        match self.run_piece(shell, piece) {
            Err(error) if is_broken_pipe(&error) => {
                self.closed_at = Some(piece.line);
                Ok(Next::Go)
            }
            other => other,
        }
    }

    /// The error of a script with statements that did not run because standard output was closed.
    fn cut_off(&self) -> Option<OutputClosed> {
        let line = self.closed_at?;
        Some(OutputClosed(format!(
            "{}: standard output was closed by its reader, such as `head`, at the statement of line {line}: it ran, and the script ends there",
            self.name
        )))
    }

    fn run_piece(&mut self, shell: &mut Shell, piece: &Piece) -> Result<Next> {
        let was_open = shell.transaction.is_some();
        let outcome = shell.run_one(&piece.text);
        if shell.transaction.is_some() && !was_open {
            self.begun_at = Some(piece.line);
        }
        match outcome {
            Ok(next) => {
                self.succeeded += 1;
                Ok(next)
            }
            Err(error) if is_broken_pipe(&error) || error.is::<OutputClosed>() => Err(error),
            Err(error) => {
                let error = self.placed(piece, &error);
                if self.on_error == OnError::Stop {
                    return Err(error);
                }
                report!("error: {error}");
                self.failed += 1;
                Ok(Next::Go)
            }
        }
    }

    /// The error with its position in the script: that of the statement and, if the error has one, the position within
    /// it.
    fn placed(&self, piece: &Piece, error: &Error) -> Error {
        let kind = match piece.is_command() {
            true => "command",
            false => "statement",
        };
        let (text, start) = piece.at_its_place();
        let message = error
            .downcast_ref::<isomer_db::Error>()
            .filter(|_| !piece.is_command())
            .and_then(|error| error.render_in(&text, start))
            .unwrap_or_else(|| format!("{error:#}"));
        anyhow!("{}, {kind} at line {}: {message}", self.name, piece.line)
    }
}
