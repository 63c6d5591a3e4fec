//! Runs the commands of golden scripts on the public API.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};
use isomer_db::{
    At, Builder, Database, Error, Map, QueryResult, ReadTransaction, Row, Version, Watch,
    WatchScope, WriteTransaction,
    internals::{DatabaseInternals as _, data::Access},
    json,
};

use super::{World, buckets};
use crate::second_process;

/// A fresh database and the sessions of one script.
pub struct DatabaseWorld {
    db: Option<Database>,
    path: Option<PathBuf>,
    sessions: BTreeMap<String, Session>,
    /// Versions by the names that the script gave them.
    versions: BTreeMap<String, Version>,
}

#[derive(Default)]
struct Session {
    open: Option<OpenTransaction>,
    params: Map,
    watch: Option<Watch>,
}

/// The transaction of a session.
enum OpenTransaction {
    Write(WriteTransaction),
    /// Of an earlier version.
    Past(ReadTransaction),
}

impl OpenTransaction {
    fn reading(&self) -> &ReadTransaction {
        match self {
            Self::Write(tx) => tx,
            Self::Past(tx) => tx,
        }
    }
}

/// Earlier versions stay readable for longer than a script runs.
fn builder() -> Builder {
    Database::builder().keep_versions(Duration::from_secs(3600))
}

impl DatabaseWorld {
    /// A database in memory.
    pub fn in_memory() -> Result<Self> {
        Ok(Self::of(builder().open_in_memory()?, None))
    }

    /// A new database in the folder `path`; see [`second_process`].
    pub fn on_disk(path: &Path) -> Result<Self> {
        let db = second_process::open(&[], builder(), path)?;
        Ok(Self::of(db, Some(path.to_owned())))
    }

    fn of(db: Database, path: Option<PathBuf>) -> Self {
        Self {
            db: Some(db),
            path,
            sessions: BTreeMap::new(),
            versions: BTreeMap::new(),
        }
    }

    /// Closes and reopens the database; in memory only the sessions end.
    fn reopen(&mut self) -> Result<()> {
        self.sessions.clear();
        if let Some(path) = &self.path {
            self.db = None;
            self.db = Some(second_process::open(&[], builder(), path)?);
        }
        Ok(())
    }
}

/// An output without what a second process changes: the numbers of nodes and relationships are replaced by their order
/// of appearance, and what that process has made is left out.
fn without_second_process(output: &str) -> String {
    let mut compared = String::new();
    let mut seen: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in output.lines() {
        if line.contains(second_process::BUCKET) {
            continue;
        }
        let mut kind = "";
        for word in line.split_inclusive(|c: char| !c.is_alphanumeric()) {
            let bare = word.trim_end_matches(|c: char| !c.is_alphanumeric());
            let is_id = matches!(kind, "node" | "relationship")
                && !bare.is_empty()
                && bare.bytes().all(|byte| byte.is_ascii_digit());
            match is_id {
                true => {
                    let known = seen.entry(kind).or_default();
                    let at = known.iter().position(|id| *id == bare);
                    let at = at.unwrap_or_else(|| {
                        known.push(bare);
                        known.len() - 1
                    });
                    compared.push_str(&format!("#{at}{}", &word[bare.len()..]));
                }
                false => compared.push_str(word),
            }
            kind = bare;
        }
        compared.push('\n');
    }
    compared
}

impl World for DatabaseWorld {
    fn promised(&self, output: &str) -> String {
        match self.path.is_some() && second_process::is_wanted() {
            true => without_second_process(output),
            false => output.to_owned(),
        }
    }

    fn run(&mut self, session: &str, command: &str) -> Result<String> {
        if command == "reopen" {
            self.reopen()?;
            return Ok(String::new());
        }
        let db = self
            .db
            .as_ref()
            .context("the database could not be opened again")?;
        let (word, rest) = command
            .split_once(char::is_whitespace)
            .unwrap_or((command, ""));
        if word == "mark" {
            self.versions.insert(rest.to_owned(), db.version()?);
            return Ok(String::new());
        }
        let session = self.sessions.entry(session.to_owned()).or_default();
        let ran = match word {
            "begin" | "commit" | "rollback" => session.transaction(db, command, &self.versions)?,
            "watch" => db.watch(rest, WatchScope::All, None).map(|watch| {
                session.watch = Some(watch);
                String::new()
            }),
            "changes" => session.changes()?,
            "sweep" => db.sweep_expired().map(|count| count.to_string()),
            "param" => {
                let (name, value) = rest.split_once(' ').context("param NAME JSON")?;
                session.params.insert(name, json::parse(value)?);
                Ok(String::new())
            }
            "take" => {
                let (bucket, sequence) = rest.split_once('/').context("take BUCKET/SEQUENCE")?;
                db.allocate_number(bucket, sequence)
                    .map(|number| number.to_string())
            }
            _ if buckets::is_command(command) => match &session.open {
                Some(OpenTransaction::Write(open)) => buckets::run(open, command)?,
                Some(OpenTransaction::Past(open)) => {
                    buckets::read(open, command)?.context("the transaction only reads")?
                }
                None => {
                    let alone = db.begin()?;
                    let ran = buckets::run(&alone, command)?;
                    ran.and_then(|printed| alone.commit().map(|_| printed))
                }
            },
            _ => {
                let query = (command, &session.params);
                match &session.open {
                    Some(open) => open.reading().query(query).map(printed),
                    None => db.query(query).map(printed),
                }
            }
        };
        Ok(ran.unwrap_or_else(message_of))
    }
}

impl Session {
    /// Runs `begin`, `begin read`, `begin at VERSION`, `commit` or `rollback`.
    fn transaction(
        &mut self,
        db: &Database,
        command: &str,
        versions: &BTreeMap<String, Version>,
    ) -> Result<isomer_db::Result<String>> {
        let silent = |()| String::new();
        if let Some(kind) = command.strip_prefix("begin") {
            if self.open.is_some() {
                bail!("the session has a transaction already");
            }
            let open = match kind.trim().split_once(' ') {
                Some(("at", name)) => {
                    let version = versions.get(name).context("`mark` names versions")?;
                    db.begin_at(At::Version(*version))
                        .map(OpenTransaction::Past)
                }
                _ if kind.trim() == "read" => {
                    db.begin_with(Access::Read).map(OpenTransaction::Write)
                }
                _ if kind.is_empty() => db.begin().map(OpenTransaction::Write),
                _ => bail!("`begin`, `begin read` or `begin at VERSION`"),
            };
            return Ok(open.map(|open| self.open = Some(open)).map(silent));
        }
        let open = self.open.take().context("the session has no transaction")?;
        Ok(match (open, command) {
            (OpenTransaction::Write(open), "commit") => open.commit().map(|_| String::new()),
            // Dropping a transaction ends it.
            _ => Ok(String::new()),
        })
    }

    /// The committed changes since the last look at the watch.
    fn changes(&mut self) -> Result<isomer_db::Result<String>> {
        let watch = self.watch.as_mut().context("the session watches nothing")?;
        let mut lines = Vec::new();
        loop {
            match watch.next_within(Duration::ZERO) {
                Ok(Some(change)) => lines.push(buckets::change(&change.kind)),
                Ok(None) => return Ok(Ok(lines.join("\n"))),
                Err(error) => return Ok(Err(error)),
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_records_are_compared_by_their_order() {
        let expected = "relationship 1 and relationship 0 share 7 (node 3)\n\"tags\" | \"plain\"\n";
        let printed = "relationship 17 and relationship 16 share 7 (node 35)\n\"of the second process\" | \"plain\"\n\"tags\" | \"plain\"\n";
        let promised = without_second_process(expected);
        assert_eq!(promised, without_second_process(printed));
        assert!(promised.starts_with("relationship #0 and relationship #1 share 7 (node #0)\n"));
        for other in [
            "relationship 17 and relationship 17 share 7 (node 35)\n\"tags\" | \"plain\"\n",
            "relationship 1 and relationship 0 share 8 (node 3)\n\"tags\" | \"plain\"\n",
            "relationship 1 and relationship 0 share 7 (node 3)\n",
        ] {
            assert_ne!(promised, without_second_process(other), "{other}");
        }
    }
}
