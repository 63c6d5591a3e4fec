//! SQLite: a table without row ids, a write-ahead log, `synchronous` off or full.

use std::{path::{Path, PathBuf}, sync::Mutex};

use anyhow::{Context, Result};
use rusqlite::{Connection, OptionalExtension};

use crate::{
    BUDGET_BYTES,
    uuid::{
        pairs::Pair,
        work::{Reader, Subject, Visit},
    },
};

struct Sqlite {
    path: PathBuf,
    /// One writer at a time, and whether it syncs now.
    writer: Mutex<(Connection, bool)>,
}

fn connect(path: &Path) -> Result<Connection> {
    let connection = Connection::open(path)?;
    connection.execute_batch(&format!(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA busy_timeout = 60000; PRAGMA cache_size = -{};
         CREATE TABLE IF NOT EXISTS uuid (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;",
        BUDGET_BYTES / 1024
    ))?;
    Ok(connection)
}

pub fn open(folder: &Path) -> Result<Box<dyn Subject>> {
    let path = folder.join("db");
    let writer = Mutex::new((connect(&path)?, false));
    Ok(Box::new(Sqlite { path, writer }))
}

impl Subject for Sqlite {
    fn put_all(&self, pairs: &[Pair], synced: bool) -> Result<()> {
        let mut writer = self.writer.lock().ok().context("a writer panicked")?;
        let (connection, syncs) = &mut *writer;
        if *syncs != synced {
            let level = if synced { "FULL" } else { "OFF" };
            connection.execute_batch(&format!("PRAGMA synchronous = {level}"))?;
            *syncs = synced;
        }
        let transaction = connection.transaction()?;
        {
            let mut put = transaction.prepare_cached("INSERT OR REPLACE INTO uuid VALUES (?1, ?2)")?;
            for pair in pairs {
                put.execute((pair.key.as_bytes(), pair.value.as_bytes()))?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        Ok(Box::new(SqliteReader(connect(&self.path)?)))
    }

    fn finish_background_work(&self) -> Result<()> {
        let writer = self.writer.lock().ok().context("a writer panicked")?;
        writer.0.execute_batch("PRAGMA wal_checkpoint(TRUNCATE)").map_err(Into::into)
    }

    fn compact(&self) -> Result<()> {
        let writer = self.writer.lock().ok().context("a writer panicked")?;
        Ok(writer.0.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)")?)
    }
}

struct SqliteReader(Connection);

impl Reader for SqliteReader {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let mut get = self.0.prepare_cached("SELECT value FROM uuid WHERE key = ?1")?;
        let found = get.query_row([key], |row| {
            value.clear();
            value.extend_from_slice(row.get_ref(0)?.as_bytes()?);
            Ok(())
        });
        Ok(found.optional()?.is_some())
    }

    fn scan(&mut self, visit: &mut Visit<'_>) -> Result<()> {
        let mut all = self.0.prepare("SELECT key, value FROM uuid ORDER BY key")?;
        let mut rows = all.query(())?;
        while let Some(row) = rows.next()? {
            visit(row.get_ref(0)?.as_bytes()?, row.get_ref(1)?.as_bytes()?)?;
        }
        Ok(())
    }
}
