//! The stores, each opened with its defaults.

use std::path::Path;

use anyhow::{Result, bail};
use heed::{EnvOpenOptions, WithoutTls, types::Bytes};
use isomer_storage::{Durability, Engine, KeyRange, Order, Page, PageLimit};
use redb::{ReadableDatabase, ReadableTable, TableDefinition};
use rusqlite::OptionalExtension;

use crate::Batch;

/// Names of all stores.
pub const SYSTEMS: [&str; 5] = ["isomer", "isomer_redb", "sqlite", "lmdb", "redb"];

type Pair = (Vec<u8>, Vec<u8>);

/// The operations that the test needs of a store.
pub trait Store {
    /// Puts and deletes in one transaction.
    fn commit(&self, batch: &Batch) -> Result<()>;
    /// The value under a key.
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>>;
    /// All pairs in order, or an error, which discards what was read before it.
    fn scan(&self) -> Result<Vec<Pair>>;
    /// Closes the store cleanly.
    fn close(self: Box<Self>) -> Result<()>;
}

/// Opens a store in a folder.
pub fn open(system: &str, folder: &Path, create: bool) -> Result<Box<dyn Store>> {
    Ok(match system {
        "isomer" => {
            let options = isomer_lsm::LsmOptions { create, ..Default::default() };
            Box::new(Isomer(Box::new(isomer_lsm::LsmEngine::open(folder.join("db"), options)?)))
        }
        "isomer_redb" => {
            let options = isomer_storage_redb::RedbOptions { create, ..Default::default() };
            Box::new(Isomer(Box::new(isomer_storage_redb::RedbEngine::open(folder.join("db"), options)?)))
        }
        "sqlite" => Box::new(Sqlite::open(&folder.join("db"))?),
        "lmdb" => Box::new(Lmdb::open(folder)?),
        "redb" => {
            let path = folder.join("db");
            Box::new(Redb(if create { redb::Database::create(path)? } else { redb::Database::open(path)? }))
        }
        other => bail!("unknown system {other}"),
    })
}

struct Isomer(Box<dyn Engine>);

impl Store for Isomer {
    fn commit(&self, batch: &Batch) -> Result<()> {
        let mut transaction = self.0.begin()?;
        for (key, value) in batch {
            match value {
                Some(value) => transaction.put(key, value)?,
                None => transaction.delete(key)?,
            }
        }
        transaction.commit(Durability::Synced)?;
        Ok(())
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.0.snapshot()?.get(key)?)
    }

    fn scan(&self) -> Result<Vec<Pair>> {
        let snapshot = self.0.snapshot()?;
        let limit = PageLimit { keys: 1000, bytes: 1 << 20 };
        let (mut pairs, mut page, mut start) = (Vec::new(), Page::new(), Vec::new());
        loop {
            snapshot.scan(KeyRange { start: &start, end: None }, Order::Ascending, limit, &mut page)?;
            pairs.extend(page.iter().map(|(key, value)| (key.to_vec(), value.to_vec())));
            match page.next() {
                Some(rest) => start = rest.start.to_vec(),
                None => return Ok(pairs),
            }
        }
    }

    fn close(self: Box<Self>) -> Result<()> {
        // Flush into tables, as the other stores have their data in their trees.
        self.0.compact()?;
        Ok(())
    }
}

struct Sqlite(rusqlite::Connection);

impl Sqlite {
    fn open(path: &Path) -> Result<Self> {
        let connection = rusqlite::Connection::open(path)?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; CREATE TABLE IF NOT EXISTS pairs (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;",
        )?;
        Ok(Self(connection))
    }
}

impl Store for Sqlite {
    fn commit(&self, batch: &Batch) -> Result<()> {
        let transaction = self.0.unchecked_transaction()?;
        for (key, value) in batch {
            match value {
                Some(value) => transaction.execute("INSERT OR REPLACE INTO pairs VALUES (?1, ?2)", (key, value))?,
                None => transaction.execute("DELETE FROM pairs WHERE key = ?1", (key,))?,
            };
        }
        Ok(transaction.commit()?)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let found = self.0.query_row("SELECT value FROM pairs WHERE key = ?1", (key,), |row| row.get(0));
        Ok(found.optional()?)
    }

    fn scan(&self) -> Result<Vec<Pair>> {
        let mut statement = self.0.prepare("SELECT key, value FROM pairs ORDER BY key")?;
        let rows = statement.query_map((), |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn close(self: Box<Self>) -> Result<()> {
        // The last connection checkpoints the log into the file, and removes it.
        self.0.close().map_err(|(_, error)| error.into())
    }
}

struct Lmdb {
    env: heed::Env<WithoutTls>,
    pairs: heed::Database<Bytes, Bytes>,
}

impl Lmdb {
    fn open(folder: &Path) -> Result<Self> {
        let mut options = EnvOpenOptions::new().read_txn_without_tls();
        options.map_size(1 << 30);
        // SAFETY: no other process has the files open.
        let env = unsafe { options.open(folder)? };
        let mut transaction = env.write_txn()?;
        let pairs = env.create_database(&mut transaction, None)?;
        transaction.commit()?;
        Ok(Self { env, pairs })
    }
}

impl Store for Lmdb {
    fn commit(&self, batch: &Batch) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        for (key, value) in batch {
            match value {
                Some(value) => self.pairs.put(&mut transaction, key, value)?,
                None => drop(self.pairs.delete(&mut transaction, key)?),
            }
        }
        Ok(transaction.commit()?)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let transaction = self.env.read_txn()?;
        Ok(self.pairs.get(&transaction, key)?.map(<[u8]>::to_vec))
    }

    fn scan(&self) -> Result<Vec<Pair>> {
        let transaction = self.env.read_txn()?;
        let pairs = self.pairs.iter(&transaction)?;
        pairs.map(|pair| Ok(pair.map(|(key, value)| (key.to_vec(), value.to_vec()))?)).collect()
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.env.force_sync()?)
    }
}

struct Redb(redb::Database);

const PAIRS: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("pairs");

impl Store for Redb {
    fn commit(&self, batch: &Batch) -> Result<()> {
        let transaction = self.0.begin_write()?;
        {
            let mut table = transaction.open_table(PAIRS)?;
            for (key, value) in batch {
                match value {
                    Some(value) => drop(table.insert(&key[..], &value[..])?),
                    None => drop(table.remove(&key[..])?),
                }
            }
        }
        Ok(transaction.commit()?)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let table = self.0.begin_read()?.open_table(PAIRS)?;
        Ok(table.get(key)?.map(|value| value.value().to_vec()))
    }

    fn scan(&self) -> Result<Vec<Pair>> {
        let table = self.0.begin_read()?.open_table(PAIRS)?;
        let pairs = table.iter()?.map(|pair| {
            let (key, value) = pair?;
            Ok((key.value().to_vec(), value.value().to_vec()))
        });
        pairs.collect()
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
