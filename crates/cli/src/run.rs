//! `isomer run`: scripts from files.

use std::{path::PathBuf, time::Instant};

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;

use crate::{
    output::{Mode, changes, is_broken_pipe},
    query::parameters,
    shell::{Next, OnError, OutputClosed, Shell},
    style::{counted, duration},
};

/// Options of `isomer run`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:
  isomer run movies.isomer movies.cypher
  isomer run shop.isomer products.cypher orders.cypher --single-transaction
  isomer run shop.isomer orders.cypher --param day='\"2026-11-26\"' --format csv > orders.csv
  generate-statements | isomer run shop.isomer -

Only a semicolon ends a statement: empty lines are part of it. A line that begins with a colon between statements is a command, \
as in `isomer shell`: `:begin`, `:commit` and `:rollback` (also `BEGIN;`, `COMMIT;`, `ROLLBACK;`), `:param NAME VALUE`, `:source FILE`, `:mode`.

The first error ends the run with exit code 1, a message with file and line, and the open transaction rolled back; what was committed before it stays. \
A script that ends inside a transaction is an error, and so is one that cannot go on because the reader of its output has gone (`| head`).")]
pub struct RunOptions {
    /// The database; created if it is missing. `:memory:` for an empty one in memory
    pub db: PathBuf,
    /// Scripts, run in sequence; `-` reads standard input
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// A parameter as JSON: `--param id=7 --param name='"Ada"'`. Text that is not JSON is a string
    #[arg(long = "param", short, value_name = "NAME=JSON")]
    pub params: Vec<String>,
    /// Output format
    #[arg(long, short, value_enum, default_value_t = Mode::Table)]
    pub format: Mode,
    /// Runs all files in one transaction: everything is committed at the end, or nothing; statements
    /// that create or drop indexes and constraints are refused
    #[arg(long, short = '1')]
    pub single_transaction: bool,
    /// Reports an error and continues with the next statement, even in an open transaction; the exit code is still 1
    #[arg(long, conflicts_with = "single_transaction")]
    pub keep_going: bool,
    /// Prints no summary
    #[arg(long, short)]
    pub quiet: bool,
}

/// Runs the command.
pub fn command(options: &RunOptions) -> Result<()> {
    let on_error = match options.keep_going {
        true => OnError::KeepGoing,
        false => OnError::Stop,
    };
    // A file that is missing is noticed before the first one has run and a database is created.
    for file in options.files.iter().filter(|file| file.as_os_str() != "-") {
        std::fs::metadata(file).with_context(|| format!("cannot read {}", file.display()))?;
    }
    let path = Some(&options.db).filter(|db| db.as_os_str() != ":memory:");
    let mut shell = Shell::open(path.map(PathBuf::as_path), options.format, false)?;
    shell.params = parameters(&options.params)?;
    shell.sums_changes = true;
    if options.single_transaction {
        shell.begin_single()?;
    }
    let mut failed = Vec::new();
    for (at, file) in options.files.iter().enumerate() {
        let start = Instant::now();
        let is_stdin = file.as_os_str() == "-";
        let name = match is_stdin {
            true => "standard input".to_owned(),
            false => file.display().to_string(),
        };
        let outcome = match is_stdin {
            true => shell.run_script(&name, std::io::stdin().lock(), on_error),
            false => shell.run_file(file, on_error),
        };
        let changed = std::mem::take(&mut shell.changed);
        let (statements, next) = match outcome {
            Ok(done) => done,
            Err(error)
                if on_error == OnError::KeepGoing
                    && !is_broken_pipe(&error)
                    && !error.is::<OutputClosed>() =>
            {
                report!("error: {error:#}");
                failed.push(name);
                continue;
            }
            Err(error) => {
                let error = match options.files.get(at + 1) {
                    Some(next) if is_broken_pipe(&error) => anyhow!(
                        "standard output was closed by its reader, such as `head`, after {name}: {} did not run",
                        next.display()
                    ),
                    _ => error,
                };
                let error = match had_errors(&failed) {
                    Some(failed) if is_broken_pipe(&error) => {
                        anyhow!(
                            "standard output was closed by its reader, such as `head`\n  {failed}"
                        )
                    }
                    Some(failed) => anyhow!("{error:#}\n  {failed}"),
                    None => error,
                };
                let error = shell.roll_back(error);
                shell.close()?;
                return Err(error);
            }
        };
        if !options.quiet {
            let changed = changes(&changed);
            report!(
                "{name}: {} in {}{}",
                counted(statements, "statement"),
                duration(start.elapsed()),
                changed
                    .map(|changed| format!(": {changed}"))
                    .unwrap_or_default()
            );
        }
        if next == Next::Quit {
            break;
        }
    }
    shell.commit_single()?;
    shell.close()?;
    match had_errors(&failed) {
        Some(failed) => bail!(failed),
        None => Ok(()),
    }
}

/// The message for the scripts that failed before others, with `--keep-going`.
fn had_errors(failed: &[String]) -> Option<String> {
    (!failed.is_empty()).then(|| format!("{} had errors", failed.join(", ")))
}
