//! Runs the commands of golden scripts on the public API.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use isomer_db::{
    Database, Error, Map, QueryResult, Row, WriteTransaction,
    internals::{DatabaseInternals as _, data::Access},
    json,
};

use super::{World, buckets};

/// A fresh database and the sessions of one script.
pub struct DatabaseWorld {
    db: Option<Database>,
    path: Option<PathBuf>,
    sessions: BTreeMap<String, Session>,
}

#[derive(Default)]
struct Session {
    open: Option<WriteTransaction>,
    params: Map,
}

impl DatabaseWorld {
    /// A database in memory.
    pub fn in_memory() -> Result<Self> {
        Ok(Self {
            db: Some(Database::open_in_memory()?),
            path: None,
            sessions: BTreeMap::new(),
        })
    }

    /// A new database in the folder `path`.
    pub fn on_disk(path: &Path) -> Result<Self> {
        Ok(Self {
            db: Some(Database::open(path)?),
            path: Some(path.to_owned()),
            sessions: BTreeMap::new(),
        })
    }

    /// Closes and reopens the database; in memory only the sessions end.
    fn reopen(&mut self) -> Result<()> {
        self.sessions.clear();
        if let Some(path) = &self.path {
            self.db = None;
            self.db = Some(Database::open(path)?);
        }
        Ok(())
    }
}

impl World for DatabaseWorld {
    fn run(&mut self, session: &str, command: &str) -> Result<String> {
        if command == "reopen" {
            self.reopen()?;
            return Ok(String::new());
        }
        let db = self
            .db
            .as_ref()
            .context("the database could not be opened again")?;
        let session = self.sessions.entry(session.to_owned()).or_default();
        let (word, rest) = command
            .split_once(char::is_whitespace)
            .unwrap_or((command, ""));
        let ran = match word {
            "begin" if session.open.is_some() => bail!("the session has a transaction already"),
            "begin" => {
                let open = match rest {
                    "read" => db.begin_with(Access::Read),
                    _ => db.begin(),
                };
                open.map(|open| {
                    session.open = Some(open);
                    String::new()
                })
            }
            "commit" => session
                .open
                .take()
                .context("the session has no transaction")?
                .commit()
                .map(|_| String::new()),
            "rollback" => {
                session
                    .open
                    .take()
                    .context("the session has no transaction")?
                    .rollback();
                Ok(String::new())
            }
            "param" => {
                let (name, value) = rest.split_once(' ').context("param NAME JSON")?;
                session.params.insert(name, json::parse(value)?);
                Ok(String::new())
            }
            _ if buckets::is_command(command) => match &session.open {
                Some(open) => buckets::run(open, command)?,
                None => {
                    let alone = db.begin()?;
                    let ran = buckets::run(&alone, command)?;
                    ran.and_then(|printed| alone.commit().map(|_| printed))
                }
            },
            _ => match &session.open {
                Some(open) => open.query((command, &session.params)).map(printed),
                None => db.query((command, &session.params)).map(printed),
            },
        };
        Ok(ran.unwrap_or_else(message_of))
    }
}

/// The error message without version numbers, which are not part of the contract.
fn message_of(error: Error) -> String {
    let text = format!("error: {}: {error}", error.kind().name());
    let mut parts = text.split("(version ");
    let mut message = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        message.push_str("(version …");
        message.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    message
}

/// A line of column names and a line per row; empty for a statement without a result.
fn printed(result: QueryResult) -> String {
    if let Some(plan) = result.plan() {
        return plan.to_owned();
    }
    if result.columns().is_empty() {
        return String::new();
    }
    let header = result.columns().join(" | ");
    std::iter::once(header)
        .chain(result.iter().map(line))
        .collect::<Vec<_>>()
        .join("\n")
}

fn line(row: &Row) -> String {
    let values: Vec<String> = row
        .values()
        .iter()
        .map(|value| json::to_string(value).unwrap_or_else(|error| error.to_string()))
        .collect();
    values.join(" | ")
}
