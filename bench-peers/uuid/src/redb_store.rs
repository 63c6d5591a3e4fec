//! redb without this project's layers: `Durability::None`, and every thousandth transaction durable so that
//! it can free pages.

use std::{
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    sync::RwLock,
};

use anyhow::{Context, Result};
use redb::{
    Database, Durability, ReadOnlyTable, ReadableDatabase, ReadableTable, TableDefinition,
};

use crate::{
    BUDGET_BYTES,
    uuid::{
        pairs::Pair,
        work::{Reader, Subject, Visit},
    },
};

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("uuid");

struct Redb {
    db: RwLock<Database>,
    commits: AtomicU64,
}

pub fn open(folder: &Path) -> Result<Box<dyn Subject>> {
    let db = Database::builder()
        .set_cache_size(BUDGET_BYTES)
        .create(folder.join("db"))?;
    let transaction = db.begin_write()?;
    transaction.open_table(TABLE)?;
    transaction.commit()?;
    Ok(Box::new(Redb {
        db: RwLock::new(db),
        commits: AtomicU64::new(0),
    }))
}

impl Redb {
    fn with<T>(&self, run: impl FnOnce(&Database) -> Result<T>) -> Result<T> {
        run(&*self.db.read().ok().context("a writer panicked")?)
    }
}

impl Subject for Redb {
    fn put_all(&self, pairs: &[Pair], synced: bool) -> Result<()> {
        self.with(|db| {
            let mut transaction = db.begin_write()?;
            let commit = self.commits.fetch_add(1, Ordering::Relaxed);
            if !synced && commit % 1000 != 999 {
                transaction.set_durability(Durability::None)?;
            }
            {
                let mut table = transaction.open_table(TABLE)?;
                for pair in pairs {
                    table.insert(pair.key.as_bytes(), pair.value.as_bytes())?;
                }
            }
            Ok(transaction.commit()?)
        })
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        let table = self.with(|db| Ok(db.begin_read()?.open_table(TABLE)?))?;
        Ok(Box::new(RedbReader(table)))
    }

    fn finish_background_work(&self) -> Result<()> {
        self.with(|db| Ok(db.begin_write()?.commit()?))
    }

    fn compact(&self) -> Result<()> {
        self.db.write().ok().context("a writer panicked")?.compact()?;
        Ok(())
    }
}

struct RedbReader(ReadOnlyTable<&'static [u8], &'static [u8]>);

impl Reader for RedbReader {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let Some(found) = self.0.get(key)? else {
            return Ok(false);
        };
        value.clear();
        value.extend_from_slice(found.value());
        Ok(true)
    }

    fn scan(&mut self, visit: &mut Visit<'_>) -> Result<()> {
        for pair in self.0.iter()? {
            let (key, value) = pair?;
            visit(key.value(), value.value())?;
        }
        Ok(())
    }
}
