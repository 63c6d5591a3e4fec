//! An engine whose transactions never conflict: it proves that the isolation checker detects missing
//! validation.

use std::{path::Path, sync::Arc};

use isomer_storage::{
    Capabilities, CommitHook, Durability, Engine, EngineSavepoint, EngineTransaction, Granule,
    GuardMode, KeyRange, Order, Page, PageLimit, Read, Snapshot, Statistics, StorageError,
    StreamEntry, ValueVisitor, Version,
};

/// Forwards everything to another engine, except guards, which it drops.
pub struct Unchecked(Arc<dyn Engine>);

impl Unchecked {
    /// Disables the validation of `engine`.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self(engine)
    }
}

impl Engine for Unchecked {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn version(&self) -> Version {
        self.0.version()
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>, StorageError> {
        self.0.snapshot()
    }

    fn begin(&self) -> Result<Box<dyn EngineTransaction>, StorageError> {
        Ok(Box::new(Guardless(self.0.begin()?)))
    }

    fn stream(
        &self,
        after: Version,
        max_entries: usize,
        max_bytes: usize,
        durable_only: bool,
    ) -> Result<Vec<StreamEntry>, StorageError> {
        self.0.stream(after, max_entries, max_bytes, durable_only)
    }

    fn trim_stream(&self, upto: Version) -> Result<(), StorageError> {
        self.0.trim_stream(upto)
    }

    fn stream_trimmed(&self) -> Result<Version, StorageError> {
        self.0.stream_trimmed()
    }

    fn sync(&self) -> Result<(), StorageError> {
        self.0.sync()
    }

    fn checkpoint(&self, target: &Path) -> Result<(), StorageError> {
        self.0.checkpoint(target)
    }

    fn ingest(
        &self,
        pairs: &mut dyn Iterator<Item = Result<(Vec<u8>, Vec<u8>), StorageError>>,
        stream: Option<&[u8]>,
    ) -> Result<Version, StorageError> {
        self.0.ingest(pairs, stream)
    }

    fn set_hook(&self, hook: Arc<dyn CommitHook>) {
        self.0.set_hook(hook);
    }

    fn statistics(&self) -> Result<Statistics, StorageError> {
        self.0.statistics()
    }

    fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<Vec<String>, StorageError> {
        self.0.verify(progress)
    }
}

struct Guardless(Box<dyn EngineTransaction>);

impl Read for Guardless {
    fn version(&self) -> Version {
        self.0.version()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        self.0.get(key)
    }

    fn visit_many(&self, keys: &[&[u8]], visit: &mut ValueVisitor<'_>) -> Result<(), StorageError> {
        self.0.visit_many(keys, visit)
    }

    fn scan(
        &self,
        range: KeyRange<'_>,
        order: Order,
        limit: PageLimit,
        page: &mut Page,
    ) -> Result<(), StorageError> {
        self.0.scan(range, order, limit, page)
    }
}

impl EngineTransaction for Guardless {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StorageError> {
        self.0.put(key, value)
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StorageError> {
        self.0.delete(key)
    }

    fn delete_range(&mut self, range: KeyRange<'_>) -> Result<(), StorageError> {
        self.0.delete_range(range)
    }

    fn guard(&mut self, _: Granule, _: GuardMode) {}

    fn append_stream(&mut self, bytes: &[u8]) {
        self.0.append_stream(bytes);
    }

    fn savepoint(&mut self) -> EngineSavepoint {
        self.0.savepoint()
    }

    fn rollback_to(&mut self, savepoint: EngineSavepoint) {
        self.0.rollback_to(savepoint);
    }

    fn release(&mut self, savepoint: EngineSavepoint) {
        self.0.release(savepoint);
    }

    fn write_bytes(&self) -> usize {
        self.0.write_bytes()
    }

    fn commit(self: Box<Self>, durability: Durability) -> Result<Version, StorageError> {
        self.0.commit(durability)
    }
}
