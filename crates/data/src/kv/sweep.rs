//! Taking expired entries away.
//!
//! An expired entry is invisible already, so that taking it away changes nothing that anybody may observe: a sweep reads
//! the entries' keys, to lose against those who put there meanwhile, and conflicts with nobody else.

use std::{
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use isomer_storage::{KeyRange, Page, PageLimit};
use parking_lot::{Condvar, Mutex};

use super::{Bucket, entries::Entry};
use crate::{
    Access, DataError, Durability, ErrorKind, Order, Store, Transaction,
    keyspace::{self, TAG_BUCKET_EXPIRY},
    stream::Change,
};

/// Entries taken away in one transaction.
const BATCH: usize = 256;

impl Store {
    /// Takes expired entries of all buckets away, at most about `limit`; answers how many went.
    pub fn sweep_expired(&self, limit: u64) -> Result<u64, DataError> {
        let (mut swept, mut batch) = (0, BATCH);
        while swept < limit {
            let mut tx = self.begin(Access::Write)?;
            let found =
                tx.sweep_batch(batch.min(usize::try_from(limit - swept).unwrap_or(usize::MAX)))?;
            if found == 0 {
                break;
            }
            match tx.commit_with(Durability::Buffered) {
                Ok(_) => {
                    swept += found;
                    batch = (batch * 2).min(BATCH);
                }
                // Somebody put there meanwhile: fewer at a time meet fewer of them.
                Err(error) if error.kind() == ErrorKind::Retry => {
                    if batch == 1 {
                        break;
                    }
                    batch /= 8;
                    batch = batch.max(1);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(swept)
    }

    /// Sweeps every `interval` on a thread of its own, until the answer is dropped.
    pub fn start_sweeper(&self, interval: Duration) -> Sweeper {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let (store, stopped) = (self.clone(), stop.clone());
        let thread = thread::spawn(move || {
            let mut stopping = stopped.0.lock();
            while !*stopping {
                stopped.1.wait_for(&mut stopping, interval);
                if *stopping {
                    break;
                }
                // A full disk or a poisoned engine is met by those who write, too; the next round tries again.
                parking_lot::MutexGuard::unlocked(&mut stopping, || {
                    drop(store.sweep_expired(1 << 16));
                    store.let_go_of_served();
                });
            }
        });
        Sweeper {
            stop,
            thread: Some(thread),
        }
    }
}

/// A thread that sweeps; it ends when this is dropped.
#[derive(Debug)]
pub struct Sweeper {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        *self.stop.0.lock() = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl Transaction {
    /// Takes a batch away; answers how many notes of expiry it has dealt with.
    fn sweep_batch(&mut self, batch: usize) -> Result<u64, DataError> {
        let end = keyspace::bucket_expiry_after(self.now_ms());
        let range = KeyRange {
            start: &[TAG_BUCKET_EXPIRY],
            end: Some(&end),
        };
        let mut page = Page::new();
        self.read().scan(
            range,
            Order::Ascending,
            PageLimit {
                keys: batch,
                bytes: 1 << 20,
            },
            &mut page,
        )?;
        for (note, _) in page.iter() {
            let (time, id, key) = keyspace::take_bucket_expiry(note)?;
            self.sweep_entry(time, id, key)?;
            self.delete(note)?;
        }
        Ok(page.len() as u64)
    }

    /// Takes one entry away, unless it was put anew since.
    fn sweep_entry(&mut self, time: u64, id: u32, key: &[u8]) -> Result<(), DataError> {
        let Some(name) = self.catalog_ref().bucket_name(id) else {
            return Ok(());
        };
        let Some(Bucket { options, .. }) = self.bucket(&name)? else {
            return Ok(());
        };
        let stored_key = keyspace::bucket_entry(id, key);
        let bucket = Bucket { id, options };
        self.footprint_mut().read_key(bucket.space(), key);
        let Some(stored) = self.read().get(&stored_key)? else {
            return Ok(());
        };
        let entry = Entry::decode(&stored)?;
        if entry.expires != Some(time) {
            return Ok(());
        }
        if options.reversible {
            self.delete(&keyspace::bucket_reverse(id, entry.value, key))?;
        }
        self.delete(&stored_key)?;
        self.log(&Change::KeyDeleted { bucket: id, key });
        Ok(())
    }
}
