//! LevelDB (the crate `rusty-leveldb`) as a store for the key design.
//!
//! LevelDB has batches but no transactions: a read-modify-write is correct only while nothing else writes. One thread
//! does all the work, one transaction after the other, which is the lock that the study's program lacked.

use std::{collections::BTreeMap, path::Path, rc::Rc, sync::mpsc, thread};

use anyhow::{Result, anyhow};
use rusty_leveldb::{DB, LdbIterator, Options, WriteBatch};

use crate::{
    keys::{KeyStore, Keys},
    level_files::SyncedFiles,
    store::Durability,
};

type Job = Box<dyn FnOnce(&mut DB) + Send>;

/// The store.
pub struct LevelStore {
    /// Taken on drop, so that the thread ends, too.
    jobs: Option<mpsc::Sender<Job>>,
    worker: Option<thread::JoinHandle<()>>,
    sync: bool,
}

impl Drop for LevelStore {
    /// Waits until the files are closed, so that they can be reopened at once.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(worker) = self.worker.take() {
            // A panic of a job was reported by the panic hook.
            let _ = worker.join();
        }
    }
}

impl LevelStore {
    /// Opens or creates it.
    pub fn open(folder: &Path, durability: Durability) -> Result<Self> {
        let folder = folder.to_owned();
        let (jobs, queue) = mpsc::channel::<Job>();
        let (opened, outcome) = mpsc::channel();
        let worker = thread::spawn(move || {
            let options = Options {
                create_if_missing: true,
                env: Rc::new(Box::new(SyncedFiles::default())),
                ..Options::default()
            };
            let mut db = match DB::open(&folder, options) {
                Ok(db) => {
                    // The receiver may have been dropped.
                    let _ = opened.send(Ok(()));
                    db
                }
                Err(error) => {
                    let _ = opened.send(Err(anyhow!("{error}")));
                    return;
                }
            };
            for job in queue {
                job(&mut db);
            }
            if let Err(error) = db.close() {
                eprintln!("LevelDB failed to close: {error}");
            }
        });
        outcome.recv()??;
        Ok(Self {
            jobs: Some(jobs),
            worker: Some(worker),
            sync: durability == Durability::Synced,
        })
    }

    fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut DB) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (done, outcome) = mpsc::channel();
        let job: Job = Box::new(move |db| {
            // The receiver may have been dropped.
            let _ = done.send(work(db));
        });
        let sent = self.jobs.as_ref().map(|jobs| jobs.send(job));
        if !matches!(sent, Some(Ok(()))) {
            return Err(anyhow!("LevelDB was closed"));
        }
        outcome.recv()?
    }
}

struct Batch<'d> {
    db: &'d mut DB,
    written: BTreeMap<String, Option<String>>,
}

fn text(bytes: &[u8]) -> Result<String> {
    Ok(std::str::from_utf8(bytes)?.to_owned())
}

impl Keys for Batch<'_> {
    fn get(&mut self, key: &str) -> Result<Option<String>> {
        if let Some(own) = self.written.get(key) {
            return Ok(own.clone());
        }
        self.db
            .get(key.as_bytes())
            .map(|bytes| text(&bytes))
            .transpose()
    }

    fn put(&mut self, key: &str, value: &str) -> Result<()> {
        self.written.insert(key.to_owned(), Some(value.to_owned()));
        Ok(())
    }

    fn delete(&mut self, key: &str) -> Result<()> {
        self.written.insert(key.to_owned(), None);
        Ok(())
    }

    fn range(&mut self, from: &str, to: &str, limit: usize) -> Result<Vec<(String, String)>> {
        let mut found = Vec::new();
        let mut cursor = self.db.new_iter().map_err(|error| anyhow!("{error}"))?;
        cursor.seek(from.as_bytes());
        while let Some((key, value)) = cursor.current() {
            if &key[..] >= to.as_bytes() || found.len() >= limit {
                break;
            }
            found.push((text(&key)?, text(&value)?));
            cursor.advance();
        }
        Ok(found)
    }
}

impl KeyStore for LevelStore {
    fn transact<T: Send + 'static>(
        &self,
        mut work: impl FnMut(&mut dyn Keys) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let sync = self.sync;
        self.run(move |db| {
            let mut batch = Batch {
                db,
                written: BTreeMap::new(),
            };
            let outcome = work(&mut batch)?;
            let mut writes = WriteBatch::default();
            for (key, value) in &batch.written {
                match value {
                    Some(value) => writes.put(key.as_bytes(), value.as_bytes()),
                    None => writes.delete(key.as_bytes()),
                }
            }
            if !batch.written.is_empty() {
                batch
                    .db
                    .write(writes, sync)
                    .map_err(|error| anyhow!("{error}"))?;
            }
            Ok(outcome)
        })
    }

    fn read<T: Send + 'static>(
        &self,
        mut work: impl FnMut(&mut dyn Keys) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.run(move |db| {
            work(&mut Batch {
                db,
                written: BTreeMap::new(),
            })
        })
    }

    /// All work is done by one thread.
    fn waits(&self) -> bool {
        true
    }
}
