//! IsomerDB's key-values as a store for the key design: one bucket.

use std::{ops::ControlFlow, path::Path, sync::Mutex};

use anyhow::{Result, bail};
use isomerdb::{
    Bucket, Database, Durability as Commit, Error, KvChangeKind, Order, ReadBucket,
    ReadTransaction, WatchGuard, WatchScope, WriteTransaction,
};

use crate::{
    keys::{KeyStore, Keys},
    later::{self, Later},
    store::Durability,
};

const BUCKET: &str = "chat";

/// The store.
pub struct IsomerKeys {
    db: Database,
    watching: Mutex<Vec<WatchGuard>>,
}

impl IsomerKeys {
    /// Opens or creates it.
    pub fn open(folder: &Path, durability: Durability) -> Result<Self> {
        let commit = match durability {
            Durability::Synced => Commit::Synced,
            Durability::Asynchronous => Commit::Buffered,
        };
        let db = Database::builder()
            .create(true)
            .durability(commit)
            .open(folder)?;
        Ok(Self {
            db,
            watching: Mutex::default(),
        })
    }
}

enum InTransaction<'t> {
    Reads(&'t ReadTransaction),
    Writes(&'t WriteTransaction),
}

impl<'t> InTransaction<'t> {
    fn bucket(&self) -> ReadBucket<'t> {
        match self {
            Self::Reads(tx) => tx.bucket(BUCKET),
            Self::Writes(tx) => ReadTransaction::bucket(tx, BUCKET),
        }
    }

    fn writable(&self) -> Result<Bucket<'t>> {
        match self {
            Self::Reads(_) => bail!("a transaction that reads was asked to write"),
            Self::Writes(tx) => Ok(tx.bucket(BUCKET)),
        }
    }
}

fn text(bytes: Vec<u8>) -> Result<String> {
    Ok(String::from_utf8(bytes)?)
}

impl Keys for InTransaction<'_> {
    fn get(&mut self, key: &str) -> Result<Option<String>> {
        self.bucket().get_bytes(key)?.map(text).transpose()
    }

    fn visit_many(
        &mut self,
        keys: &[&str],
        visit: &mut dyn FnMut(usize, &str) -> Result<()>,
    ) -> Result<()> {
        let mut outcome = Ok(());
        self.bucket().visit_many(keys, |at, value| {
            if outcome.is_ok() {
                let text = str::from_utf8(value).map_err(anyhow::Error::from);
                outcome = text.and_then(|text| visit(at, text));
            }
        })?;
        outcome
    }

    fn put(&mut self, key: &str, value: &str) -> Result<()> {
        Ok(self.writable()?.put_bytes(key, value)?)
    }

    fn delete(&mut self, key: &str) -> Result<()> {
        Ok(self.writable()?.delete(key)?)
    }

    fn range(&mut self, from: &str, to: &str, limit: usize) -> Result<Vec<(String, String)>> {
        let mut found = Vec::new();
        if from >= to {
            return Ok(found);
        }
        let mut found_bytes = Vec::new();
        self.bucket()
            .visit(from..to, Order::Ascending, |key, value| {
                if found_bytes.len() < limit {
                    found_bytes.push((key.to_vec(), value.to_vec()));
                }
                found_bytes.len() < limit
            })?;
        for (key, value) in found_bytes {
            found.push((text(key)?, text(value)?));
        }
        Ok(found)
    }
}

/// What ends a transaction: errors of the database are checked for conflicts.
enum Ended {
    Database(Error),
    Other(anyhow::Error),
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Self::Database(error)
    }
}

impl From<anyhow::Error> for Ended {
    fn from(error: anyhow::Error) -> Self {
        error
            .downcast::<Error>()
            .map_or_else(Self::Other, Self::Database)
    }
}

impl From<Ended> for anyhow::Error {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Database(error) => error.into(),
            Ended::Other(error) => error,
        }
    }
}

impl KeyStore for IsomerKeys {
    fn transact<T: Send + 'static>(
        &self,
        mut work: impl FnMut(&mut dyn Keys) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let done: Result<T, Ended> = self
            .db
            .try_transact(|tx| Ok(work(&mut InTransaction::Writes(tx))?));
        Ok(done?)
    }

    fn read<T: Send + 'static>(
        &self,
        mut work: impl FnMut(&mut dyn Keys) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let done: Result<T, Ended> = self
            .db
            .try_read(|tx| Ok(work(&mut InTransaction::Reads(tx))?));
        Ok(done?)
    }

    fn transact_later<T: Send + 'static>(
        &self,
        mut work: impl FnMut(&mut dyn Keys) -> Result<T> + Send + 'static,
    ) -> Later<Result<T>> {
        let work =
            move |tx: &WriteTransaction| Ok::<_, Ended>(work(&mut InTransaction::Writes(tx))?);
        later::transact(self.db.clone(), work)
    }

    fn waits(&self) -> bool {
        false
    }

    fn follow(&self, heard: Box<dyn Fn(&str) + Send + Sync>) -> Result<bool> {
        // The bucket is created with its first key, and must exist for the watcher.
        self.db
            .transact(|tx| tx.bucket(BUCKET).put_bytes("feed", "on"))?;
        let watcher = self.db.on_change(
            BUCKET,
            WatchScope::Prefix(b"chat:".to_vec()),
            None,
            move |change| {
                if let Ok(change) = change
                    && let KvChangeKind::Put { key, .. } = change.kind
                    && let Ok(key) = std::str::from_utf8(&key)
                {
                    heard(key);
                }
                ControlFlow::Continue(())
            },
        )?;
        self.watching
            .lock()
            .map_err(|_| anyhow::anyhow!("a watcher panicked"))?
            .push(watcher);
        Ok(true)
    }
}
