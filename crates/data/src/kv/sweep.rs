//! Deleting expired entries.
//!
//! An expired entry is invisible already, so that deleting it changes nothing that a transaction may observe: a sweep
//! reads the entries' keys, so that it conflicts with concurrent puts to these keys, and conflicts with no other
//! transaction.

use std::{
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use isomer_layout::{
    DataError, ErrorKind,
    keyspace::{self, TAG_BUCKET_EXPIRY},
    kv::content::BucketEntry,
    stream::change::Change,
};
use isomer_storage::{Durability, KeyRange, Order, Page, PageLimit, StorageError, lock_error};
use parking_lot::{Condvar, Mutex};

use crate::{Access, DataStore, KvMut, kv::bucket::Bucket};

/// Entries deleted in one transaction.
const BATCH: usize = 256;

impl DataStore {
    /// Deletes expired entries of all buckets, at most about `limit`; returns their number.
    pub fn sweep_expired(&self, limit: u64) -> Result<u64, DataError> {
        // One process is enough at a time: two would conflict.
        let mut _sweeping = None;
        if let Some(locks) = &self.options().process_locks {
            _sweeping = locks.try_lock("sweep").map_err(lock_error)?;
            if _sweeping.is_none() {
                return Ok(0);
            }
        }
        let (mut swept, mut batch) = (0, BATCH);
        while swept < limit {
            let mut tx = self.begin(Access::Write)?;
            let found = tx
                .kv_mut()
                .sweep_batch(batch.min(usize::try_from(limit - swept).unwrap_or(usize::MAX)))?;
            if found == 0 {
                break;
            }
            match tx.commit_with(Durability::Buffered) {
                Ok(_) => {
                    swept += found;
                    batch = (batch * 2).min(BATCH);
                }
                // Conflict with a concurrent put: smaller batches conflict less often.
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

    /// Sweeps every `interval` on a background thread, until the returned handle is dropped.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`] if the operating system starts no thread.
    pub fn start_sweeper(&self, interval: Duration) -> Result<Sweeper, DataError> {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let (store, stopped) = (self.clone(), stop.clone());
        let sweeping = thread::Builder::new().name("sweeper".to_owned());
        let thread = sweeping.spawn(move || {
            let mut stopping = stopped.0.lock();
            while !*stopping {
                stopped.1.wait_for(&mut stopping, interval);
                if *stopping {
                    break;
                }
                // Writers get a full disk or a poisoned engine reported, too; the next round tries again.
                parking_lot::MutexGuard::unlocked(&mut stopping, || {
                    drop(store.sweep_expired(1 << 16));
                    if let Some(hooks) = store.hooks() {
                        hooks.release_idle_reads(&store);
                    }
                });
            }
        });
        Ok(Sweeper {
            stop,
            thread: Some(thread.map_err(no_thread)?),
        })
    }
}

/// The operating system cannot start a thread.
pub(crate) fn no_thread(error: std::io::Error) -> DataError {
    StorageError::Unavailable(format!(
        "a thread cannot be started ({error}): end other programs, or raise the limits on threads and address space (`ulimit`)"
    ))
    .into()
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

impl KvMut<'_> {
    /// Deletes a batch; returns how many expiry entries it has processed.
    fn sweep_batch(&mut self, batch: usize) -> Result<u64, DataError> {
        let end = keyspace::bucket_expiry_after(self.tx.now_ms());
        let range = KeyRange {
            start: &[TAG_BUCKET_EXPIRY],
            end: Some(&end),
        };
        let mut page = Page::new();
        self.tx.read().scan(
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
            self.tx.delete(note)?;
        }
        Ok(page.len() as u64)
    }

    /// Deletes one entry, unless it was put again since.
    fn sweep_entry(&mut self, time: u64, id: u32, key: &[u8]) -> Result<(), DataError> {
        let Some(name) = self.tx.names().bucket_name(id) else {
            return Ok(());
        };
        let Some(Bucket { options, .. }) = self.tx.kv().bucket(&name)? else {
            return Ok(());
        };
        let stored_key = keyspace::bucket_entry(id, key);
        let bucket = Bucket { id, options };
        self.tx.footprint_mut().read_key(bucket.space(), key);
        let Some(stored) = self.tx.read().get(&stored_key)? else {
            return Ok(());
        };
        let entry = BucketEntry::decode(&stored)?;
        if entry.expires != Some(time) {
            return Ok(());
        }
        if options.reversible {
            self.tx
                .delete(&keyspace::bucket_reverse(id, entry.value, key))?;
        }
        self.tx.delete(&stored_key)?;
        self.tx.log(&Change::KeyDeleted { bucket: id, key });
        Ok(())
    }
}
