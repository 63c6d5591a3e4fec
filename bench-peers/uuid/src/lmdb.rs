//! LMDB through heed: MDB_NOSYNC, and an explicit sync after each transaction that must be durable.

use std::path::Path;

use anyhow::Result;
use heed::{Database, Env, EnvFlags, EnvOpenOptions, RoTxn, WithoutTls, types::Bytes};

use crate::uuid::{
    pairs::Pair,
    work::{Reader, Subject, Visit},
};

const MAP_BYTES: usize = 64 << 30;

struct Lmdb {
    env: Env<WithoutTls>,
    db: Database<Bytes, Bytes>,
}

pub fn open(folder: &Path) -> Result<Box<dyn Subject>> {
    let folder = folder.join("db");
    std::fs::create_dir_all(&folder)?;
    let mut options = EnvOpenOptions::new().read_txn_without_tls();
    options.map_size(MAP_BYTES);
    // SAFETY: no other process opens the files, and a crash of the machine ends the benchmark.
    let env = unsafe {
        options.flags(EnvFlags::NO_SYNC);
        options.open(&folder)?
    };
    let mut transaction = env.write_txn()?;
    let db = env.create_database(&mut transaction, None)?;
    transaction.commit()?;
    Ok(Box::new(Lmdb { env, db }))
}

impl Subject for Lmdb {
    fn put_all(&self, pairs: &[Pair], synced: bool) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        for pair in pairs {
            self.db.put(&mut transaction, pair.key.as_bytes(), pair.value.as_bytes())?;
        }
        transaction.commit()?;
        if synced {
            self.env.force_sync()?;
        }
        Ok(())
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>> {
        let transaction = self.env.read_txn()?;
        Ok(Box::new(LmdbReader { transaction, db: self.db }))
    }

    fn finish_background_work(&self) -> Result<()> {
        Ok(self.env.force_sync()?)
    }

    fn compact(&self) -> Result<()> {
        Ok(()) // LMDB can only compact a copy
    }
}

struct LmdbReader<'a> {
    transaction: RoTxn<'a, WithoutTls>,
    db: Database<Bytes, Bytes>,
}

impl Reader for LmdbReader<'_> {
    fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let Some(found) = self.db.get(&self.transaction, key)? else {
            return Ok(false);
        };
        value.clear();
        value.extend_from_slice(found);
        Ok(true)
    }

    fn scan(&mut self, visit: &mut Visit<'_>) -> Result<()> {
        for pair in self.db.iter(&self.transaction)? {
            let (key, value) = pair?;
            visit(key, value)?;
        }
        Ok(())
    }
}
