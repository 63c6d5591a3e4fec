//! An engine that loses commits that were not synced, when its process ends.

use std::{path::Path, sync::Arc};

use isomer_storage::{
    Capabilities, CommitHook, Durability, Engine, EngineSavepoint, EngineTransaction, Granule,
    GuardMode, KeyRange, MemoryEngine, Order, Page, PageLimit, Read, Snapshot, Statistics,
    StorageError, StreamEntry, ValueVisitor, Version,
};
use parking_lot::Mutex;

use super::small::copy_of;

/// The content on disk.
type Synced = Arc<Mutex<Arc<dyn Snapshot>>>;

pub(super) struct Volatile {
    memory: Arc<MemoryEngine>,
    synced: Synced,
}

impl Volatile {
    pub(super) fn new(memory: Arc<MemoryEngine>) -> Arc<Self> {
        let synced = memory.snapshot().unwrap();
        Arc::new(Self {
            memory,
            synced: Arc::new(Mutex::new(synced)),
        })
    }

    /// The state that the next process finds.
    pub(super) fn after_crash(&self) -> Arc<Self> {
        let synced = self.synced.lock().clone();
        Self::new(copy_of(&*synced))
    }
}

impl Engine for Volatile {
    fn capabilities(&self) -> Capabilities {
        self.memory.capabilities()
    }

    fn version(&self) -> Version {
        self.memory.version()
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>, StorageError> {
        self.memory.snapshot()
    }

    fn begin(&self) -> Result<Box<dyn EngineTransaction>, StorageError> {
        Ok(Box::new(Writing {
            inner: self.memory.begin()?,
            memory: self.memory.clone(),
            synced: self.synced.clone(),
        }))
    }

    fn stream(
        &self,
        after: Version,
        max_entries: usize,
        max_bytes: usize,
        durable_only: bool,
    ) -> Result<Vec<StreamEntry>, StorageError> {
        self.memory
            .stream(after, max_entries, max_bytes, durable_only)
    }

    fn trim_stream(&self, upto: Version) -> Result<(), StorageError> {
        self.memory.trim_stream(upto)
    }

    fn stream_trimmed(&self) -> Result<Version, StorageError> {
        self.memory.stream_trimmed()
    }

    fn sync(&self) -> Result<(), StorageError> {
        self.memory.sync()?;
        *self.synced.lock() = self.memory.snapshot()?;
        Ok(())
    }

    fn checkpoint(&self, target: &Path) -> Result<(), StorageError> {
        self.memory.checkpoint(target)
    }

    fn ingest(
        &self,
        pairs: &mut dyn Iterator<Item = Result<(Vec<u8>, Vec<u8>), StorageError>>,
        stream: Option<&[u8]>,
    ) -> Result<Version, StorageError> {
        self.memory.ingest(pairs, stream)
    }

    fn set_hook(&self, hook: Arc<dyn CommitHook>) {
        self.memory.set_hook(hook);
    }

    fn statistics(&self) -> Result<Statistics, StorageError> {
        self.memory.statistics()
    }

    fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<Vec<String>, StorageError> {
        self.memory.verify(progress)
    }
}

struct Writing {
    inner: Box<dyn EngineTransaction>,
    memory: Arc<MemoryEngine>,
    synced: Synced,
}

impl Read for Writing {
    fn version(&self) -> Version {
        self.inner.version()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        self.inner.get(key)
    }

    fn visit_many(&self, keys: &[&[u8]], visit: &mut ValueVisitor<'_>) -> Result<(), StorageError> {
        self.inner.visit_many(keys, visit)
    }

    fn scan(
        &self,
        range: KeyRange<'_>,
        order: Order,
        limit: PageLimit,
        page: &mut Page,
    ) -> Result<(), StorageError> {
        self.inner.scan(range, order, limit, page)
    }
}

impl EngineTransaction for Writing {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StorageError> {
        self.inner.put(key, value)
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StorageError> {
        self.inner.delete(key)
    }

    fn delete_range(&mut self, range: KeyRange<'_>) -> Result<(), StorageError> {
        self.inner.delete_range(range)
    }

    fn guard(&mut self, granule: Granule, mode: GuardMode) {
        self.inner.guard(granule, mode);
    }

    fn append_stream(&mut self, bytes: &[u8]) {
        self.inner.append_stream(bytes);
    }

    fn savepoint(&mut self) -> EngineSavepoint {
        self.inner.savepoint()
    }

    fn rollback_to(&mut self, savepoint: EngineSavepoint) {
        self.inner.rollback_to(savepoint);
    }

    fn release(&mut self, savepoint: EngineSavepoint) {
        self.inner.release(savepoint);
    }

    fn write_bytes(&self) -> usize {
        self.inner.write_bytes()
    }

    /// A synced commit makes all earlier ones durable, as with a log.
    fn commit(self: Box<Self>, durability: Durability) -> Result<Version, StorageError> {
        let version = self.inner.commit(durability)?;
        if durability == Durability::Synced {
            *self.synced.lock() = self.memory.snapshot()?;
        }
        Ok(version)
    }
}
