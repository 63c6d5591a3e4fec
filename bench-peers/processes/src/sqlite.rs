//! SQLite in WAL mode, `synchronous=FULL`: each commit syncs the log.

use std::{path::Path, sync::Mutex, time::Duration};

use anyhow::Result;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use crate::Store;

const WAIT: Duration = Duration::from_secs(60);

/// Each thread takes a connection out, and puts it back: a connection has one transaction at a time.
pub struct Sqlite {
    path: std::path::PathBuf,
    idle: Mutex<Vec<Connection>>,
}

impl Sqlite {
    pub fn open(folder: &Path) -> Result<Self> {
        let path = folder.join("db.sqlite");
        let first = connect(&path)?;
        first.execute_batch(
            "CREATE TABLE IF NOT EXISTS pairs (key TEXT PRIMARY KEY, value INTEGER) WITHOUT ROWID",
        )?;
        let idle = Mutex::new(vec![first]);
        Ok(Self { path, idle })
    }

    fn with<T>(&self, work: impl FnOnce(&mut Connection) -> Result<T>) -> Result<T> {
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => connect(&self.path)?,
        };
        let outcome = work(&mut connection);
        self.idle
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
            .push(connection);
        outcome
    }
}

fn connect(path: &Path) -> Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(WAIT)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    Ok(connection)
}

impl Store for Sqlite {
    fn put(&self, pairs: &mut dyn Iterator<Item = (String, i64)>) -> Result<()> {
        self.with(|connection| {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            {
                let mut insert =
                    transaction.prepare_cached("INSERT OR REPLACE INTO pairs VALUES (?1, ?2)")?;
                for (key, value) in pairs {
                    insert.execute((key, value))?;
                }
            }
            Ok(transaction.commit()?)
        })
    }

    fn get(&self, key: &str) -> Result<Option<i64>> {
        self.with(|connection| {
            let mut select = connection.prepare_cached("SELECT value FROM pairs WHERE key = ?1")?;
            Ok(select.query_row([key], |row| row.get(0)).optional()?)
        })
    }
}
