//! The in-memory engine: a copy-on-write tree, one copy per published version.

use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use isomer_shared_log::SharedLog;

use crate::sync::{Mutex, RwLock};

use crate::{
    Backend, Capabilities, Commit, Durability, KeyRange, LogPoint, Optimistic, Order, PairIterator,
    SharedOptions, Statistics, StorageError, StreamEntry, ValueVisitor, Version, View, Visitor,
    errors::{hex, key_exists},
    optimistic::delegate_engine,
    tree::Tree,
};

/// Longest key of the engines in this repository.
pub const MAX_KEY_BYTES: usize = 64 << 10;
/// Longest value of the engines in this repository.
pub const MAX_VALUE_BYTES: usize = 64 << 20;
/// Default limit on a write set.
pub const MAX_TRANSACTION_BYTES: usize = 1 << 30;

/// Pairs of a commit that are put into the tree at once: enough that each tree node is visited once for many of
/// them.
const PAIRS_PER_PUT: usize = 4096;

/// An engine that keeps everything in memory and forgets it when it is dropped.
///
/// Every commit counts as durable: nothing outlives the process here.
pub struct MemoryEngine {
    engine: Optimistic<MemoryBackend>,
}

impl MemoryEngine {
    /// An empty engine.
    pub fn new() -> Self {
        Self::with_max_transaction_bytes(MAX_TRANSACTION_BYTES)
    }

    /// An empty engine that refuses write sets above `max_transaction_bytes`.
    pub fn with_max_transaction_bytes(max_transaction_bytes: usize) -> Self {
        Self {
            engine: Optimistic::new(MemoryBackend::new(max_transaction_bytes)),
        }
    }

    /// An engine in memory that holds what is in a shared log, from its beginning: as long as no node trims it, any
    /// number of processes read and write one database. The log keeps what is committed.
    ///
    /// # Errors
    /// See [`Optimistic::shared`].
    pub fn shared(log: Arc<dyn SharedLog>, options: SharedOptions) -> Result<Self, StorageError> {
        Self::shared_with_max_transaction_bytes(MAX_TRANSACTION_BYTES, log, options)
    }

    /// As [`MemoryEngine::shared`], refusing write sets above `max_transaction_bytes`.
    pub(crate) fn shared_with_max_transaction_bytes(
        max_transaction_bytes: usize,
        log: Arc<dyn SharedLog>,
        options: SharedOptions,
    ) -> Result<Self, StorageError> {
        let backend = MemoryBackend::new(max_transaction_bytes);
        Ok(Self {
            engine: Optimistic::shared(backend, log, options)?,
        })
    }
}

impl Default for MemoryEngine {
    fn default() -> Self {
        Self::new()
    }
}

delegate_engine!(MemoryEngine, engine);

struct MemoryBackend {
    published: RwLock<Arc<MemoryView>>,
    stream: Mutex<BTreeMap<Version, Arc<[u8]>>>,
    trimmed: AtomicU64,
    max_transaction_bytes: usize,
    syncs: AtomicU64,
}

struct MemoryView {
    version: Version,
    tree: Tree,
}

impl View for MemoryView {
    const LENDS: bool = true;

    fn version(&self) -> Version {
        self.version
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        Ok(self.tree.get(key).map(<[u8]>::to_vec))
    }

    fn visit_many(&self, keys: &[&[u8]], visit: &mut ValueVisitor<'_>) -> Result<(), StorageError> {
        // A break is the visitor's choice, not an error.
        let _ = keys.iter().try_for_each(|key| visit(self.tree.get(key)));
        Ok(())
    }

    fn visit(
        &self,
        range: KeyRange<'_>,
        order: Order,
        visit: &mut Visitor<'_>,
    ) -> Result<(), StorageError> {
        self.tree.visit(range, order, visit);
        Ok(())
    }
}

impl MemoryBackend {
    fn new(max_transaction_bytes: usize) -> Self {
        Self {
            published: RwLock::new(Arc::new(MemoryView {
                version: 0,
                tree: Tree::default(),
            })),
            stream: Mutex::default(),
            trimmed: AtomicU64::new(0),
            max_transaction_bytes,
            syncs: AtomicU64::new(0),
        }
    }

    /// Applies the writes and publishes the last version.
    fn put(&self, commits: &[Commit<'_>]) {
        let Some(last) = commits.last() else {
            return;
        };
        let mut tree = self.published.read().tree.clone();
        for commit in commits {
            for range in commit.writes.deleted_ranges() {
                tree.delete_range(range);
            }
            let slots = commit.writes.slots();
            let mut put = Vec::with_capacity(slots.len().min(PAIRS_PER_PUT));
            for (key, value) in slots {
                match value {
                    Some(value) => put.push((key, value)),
                    None => tree.delete(key),
                }
                if put.len() == PAIRS_PER_PUT {
                    tree.put_all(&put);
                    put.clear();
                }
            }
            tree.put_all(&put);
        }
        self.publish(last.version, tree);
    }

    fn publish(&self, version: Version, tree: Tree) {
        let view = Arc::new(MemoryView { version, tree });
        // The old view is dropped after the lock is released: freeing it may take long.
        let _old = std::mem::replace(&mut *self.published.write(), view);
    }
}

impl Backend for MemoryBackend {
    type View = MemoryView;

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "memory",
            max_key_bytes: MAX_KEY_BYTES,
            max_value_bytes: MAX_VALUE_BYTES,
            max_transaction_bytes: self.max_transaction_bytes,
            ingest: true,
            durable: false,
            several_processes: false,
        }
    }

    fn view(&self) -> Result<Arc<MemoryView>, StorageError> {
        Ok(self.published.read().clone())
    }

    fn apply(&self, commits: &[Commit<'_>], _durability: Durability) -> Result<(), StorageError> {
        let mut stream = self.stream.lock();
        stream.extend(
            commits
                .iter()
                .filter(|commit| !commit.stream.is_empty())
                .map(|commit| (commit.version, commit.stream.into())),
        );
        drop(stream);
        self.put(commits);
        Ok(())
    }

    fn apply_logged(
        &self,
        commits: &[Commit<'_>],
        _time_ms: u64,
        _after: LogPoint,
    ) -> Result<(), StorageError> {
        // The change stream is in the shared log.
        self.put(commits);
        Ok(())
    }

    fn durable_version(&self) -> Version {
        self.published.read().version
    }

    fn stream(
        &self,
        after: Version,
        upto: Version,
        max_entries: usize,
        max_bytes: usize,
    ) -> Result<Vec<StreamEntry>, StorageError> {
        if after >= upto {
            return Ok(Vec::new());
        }
        let stream = self.stream.lock();
        let mut entries = Vec::new();
        let mut bytes = 0;
        for (&version, entry) in stream.range(after + 1..=upto) {
            if entries.len() >= max_entries.max(1) || (bytes >= max_bytes && !entries.is_empty()) {
                break;
            }
            bytes += entry.len();
            entries.push(StreamEntry {
                version,
                bytes: entry.to_vec(),
            });
        }
        Ok(entries)
    }

    fn trim_stream(&self, upto: Version) -> Result<(), StorageError> {
        let upto = upto.min(self.published.read().version);
        let mut stream = self.stream.lock();
        self.trimmed.fetch_max(upto, Ordering::AcqRel);
        let kept = stream.split_off(&(upto + 1));
        *stream = kept;
        Ok(())
    }

    fn stream_trimmed(&self) -> Result<Version, StorageError> {
        Ok(self.trimmed.load(Ordering::Acquire))
    }

    fn sync(&self) -> Result<(), StorageError> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn checkpoint(&self, target: &Path) -> Result<(), StorageError> {
        Err(StorageError::Invalid(format!(
            "a database in memory has no files to copy to `{}`: export it instead",
            target.display()
        )))
    }

    fn ingest(
        &self,
        version: Version,
        pairs: &mut PairIterator<'_>,
        stream: Option<&[u8]>,
    ) -> Result<(), StorageError> {
        let mut tree = self.published.read().tree.clone();
        for pair in pairs {
            let (key, value) = pair?;
            if tree.get(&key).is_some() {
                return Err(key_exists(&key));
            }
            tree.put(&key, &value);
        }
        if let Some(bytes) = stream.filter(|bytes| !bytes.is_empty()) {
            self.stream.lock().insert(version, bytes.into());
        }
        self.publish(version, tree);
        Ok(())
    }

    fn statistics(&self) -> Result<Statistics, StorageError> {
        let view = self.published.read().clone();
        let stream = self.stream.lock();
        Ok(Statistics {
            key_count: view.tree.len(),
            stored_bytes: view.tree.bytes()
                + stream.values().map(|entry| entry.len() as u64).sum::<u64>(),
            stream_entries: stream.len() as u64,
            ..Statistics::default()
        })
    }

    fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<Vec<String>, StorageError> {
        let view = self.published.read().clone();
        let total = view.tree.bytes();
        let mut done = 0;
        let mut last: Option<Vec<u8>> = None;
        let mut damage = Vec::new();
        view.tree.visit(
            KeyRange {
                start: b"",
                end: None,
            },
            Order::Ascending,
            &mut |key, value| {
                if last.as_deref().is_some_and(|last| last >= key) {
                    damage.push(format!("the key {} is out of order", hex(key)));
                }
                last = Some(key.to_vec());
                let before = done >> 20;
                done += (key.len() + value.len()) as u64;
                if done >> 20 != before {
                    progress(done, total);
                }
                ControlFlow::Continue(())
            },
        );
        progress(done, total);
        Ok(damage)
    }
}
