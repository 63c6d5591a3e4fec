//! `isomer shell`: runs queries interactively, with history, multi-line input and completion.

mod commands;
mod complete;
mod script;
mod session;

use std::{io::IsTerminal, path::PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use isomer_cypher::script::pieces;
use rustyline::{Config, Editor, error::ReadlineError, history::FileHistory};

use crate::output::Mode;
use commands::Command;
use complete::ShellHelper;
pub use script::OutputClosed;
pub use session::{Next, OnError, Shell};

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
