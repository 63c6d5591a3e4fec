//! LMDB through heed, with its defaults: each commit syncs.

use std::path::Path;

use anyhow::{Context, Result};
use heed::{Database, Env, EnvOpenOptions, WithoutTls, types::Bytes};

use crate::Store;

const MAP_BYTES: usize = 64 << 30;

pub struct Lmdb {
    env: Env<WithoutTls>,
    db: Database<Bytes, Bytes>,
}

impl Lmdb {
    pub fn open(folder: &Path) -> Result<Self> {
        let mut options = EnvOpenOptions::new().read_txn_without_tls();
        options.map_size(MAP_BYTES);
        // SAFETY: only processes of this benchmark have the files open, all through LMDB.
        let env = unsafe { options.open(folder)? };
        let mut transaction = env.write_txn()?;
        let db = env.create_database(&mut transaction, None)?;
        transaction.commit()?;
        Ok(Self { env, db })
    }
}

impl Store for Lmdb {
    fn put(&self, pairs: &mut dyn Iterator<Item = (String, i64)>) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        for (key, value) in pairs {
            self.db
                .put(&mut transaction, key.as_bytes(), &value.to_le_bytes())?;
        }
        Ok(transaction.commit()?)
    }

    fn get(&self, key: &str) -> Result<Option<i64>> {
        let transaction = self.env.read_txn()?;
        let found = self.db.get(&transaction, key.as_bytes())?;
        let bytes = found
            .map(|bytes| bytes.try_into().context("8 bytes"))
            .transpose()?;
        Ok(bytes.map(i64::from_le_bytes))
    }
}
