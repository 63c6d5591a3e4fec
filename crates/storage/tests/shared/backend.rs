//! A backend that keeps everything in a map, and is opened from a checkpoint that all processes share.

use std::{
    collections::BTreeMap,
    ops::{Bound, ControlFlow},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, RwLock},
};

use isomer_storage::{
    Backend, Capabilities, Commit, Durability, KeyRange, LogPoint, Order, PairIterator, Statistics,
    StorageError, StreamEntry, Version, View, Visitor,
};

pub type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// What a process that opens the database begins with: the tables and the manifest of a real engine.
#[derive(Clone, Debug, Default)]
pub struct Checkpoint {
    pub map: Map,
    pub version: Version,
    pub point: LogPoint,
}

/// The newest checkpoint; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Checkpoints(Arc<Mutex<Checkpoint>>);

impl Checkpoints {
    pub fn newest(&self) -> MutexGuard<'_, Checkpoint> {
        self.0.lock().expect("no panic")
    }
}

/// Pairs at a version.
#[derive(Debug)]
pub struct MapView {
    version: Version,
    map: Map,
}

impl View for MapView {
    fn version(&self) -> Version {
        self.version
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        Ok(self.map.get(key).cloned())
    }

    fn visit(
        &self,
        range: KeyRange<'_>,
        order: Order,
        visit: &mut Visitor<'_>,
    ) -> Result<(), StorageError> {
        let end = range.end.map_or(Bound::Unbounded, Bound::Excluded);
        let bounds = (Bound::Included(range.start), end);
        let mut pairs = self.map.range::<[u8], _>(bounds);
        while let Some((key, value)) = match order {
            Order::Ascending => pairs.next(),
            Order::Descending => pairs.next_back(),
        } {
            if visit(key, value) == ControlFlow::Break(()) {
                break;
            }
        }
        Ok(())
    }
}

/// One process.
#[derive(Debug)]
pub struct MapBackend {
    view: RwLock<Arc<MapView>>,
    applied: Mutex<LogPoint>,
    checkpoints: Checkpoints,
}

impl MapBackend {
    /// A process that begins with the newest checkpoint.
    pub fn open(checkpoints: &Checkpoints) -> Self {
        let Checkpoint {
            map,
            version,
            point,
        } = checkpoints.newest().clone();
        Self {
            view: RwLock::new(Arc::new(MapView { version, map })),
            applied: Mutex::new(point),
            checkpoints: checkpoints.clone(),
        }
    }

    /// Makes what this process has applied the newest checkpoint, unless there is a newer one.
    pub fn checkpoint(&self) {
        let applied = self.applied.lock().expect("no panic");
        let mut newest = self.checkpoints.newest();
        if newest.point.next < applied.next {
            let view = self.view.read().expect("no panic");
            *newest = Checkpoint {
                map: view.map.clone(),
                version: view.version,
                point: *applied,
            };
        }
    }

    /// What it holds, and the version.
    pub fn content(&self) -> (Version, Map) {
        let view = self.view.read().expect("no panic");
        (view.version, view.map.clone())
    }
}

/// Applies a commit.
pub fn apply(map: &mut Map, commit: &Commit<'_>) {
    for range in commit.writes.deleted_ranges() {
        map.retain(|key, _| **key < *range.start || range.end.is_some_and(|end| **key >= *end));
    }
    for (key, value) in commit.writes.slots() {
        match value {
            Some(value) => drop(map.insert(key.to_vec(), value.to_vec())),
            None => drop(map.remove(key)),
        }
    }
}

fn not_here<T>() -> Result<T, StorageError> {
    Err(StorageError::Unavailable("the log answers this".into()))
}

impl Backend for MapBackend {
    type View = MapView;

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "map",
            max_key_bytes: 100,
            max_value_bytes: 1000,
            max_transaction_bytes: 1 << 20,
            ingest: true,
            durable: true,
            several_processes: false,
        }
    }

    fn view(&self) -> Result<Arc<MapView>, StorageError> {
        Ok(self.view.read().expect("no panic").clone())
    }

    fn apply(&self, _: &[Commit<'_>], _: Durability) -> Result<(), StorageError> {
        not_here()
    }

    fn apply_logged(
        &self,
        commits: &[Commit<'_>],
        _: u64,
        after: LogPoint,
    ) -> Result<(), StorageError> {
        let mut applied = self.applied.lock().expect("no panic");
        assert_eq!(after.next, applied.next + 1, "each record is applied once");
        *applied = after;
        let mut view = self.view.write().expect("no panic");
        Commit::assert_order(view.version, commits);
        let mut map = view.map.clone();
        for commit in commits {
            apply(&mut map, commit);
        }
        let version = commits.last().map_or(view.version, |last| last.version);
        *view = Arc::new(MapView { version, map });
        Ok(())
    }

    fn record_batch_bytes(&self) -> usize {
        // A few records.
        1000
    }

    fn log_point(&self) -> LogPoint {
        self.checkpoints.newest().point
    }

    fn durable_version(&self) -> Version {
        0
    }

    fn stream(
        &self,
        _: Version,
        _: Version,
        _: usize,
        _: usize,
    ) -> Result<Vec<StreamEntry>, StorageError> {
        not_here()
    }

    fn trim_stream(&self, _: Version) -> Result<(), StorageError> {
        not_here()
    }

    fn stream_trimmed(&self) -> Result<Version, StorageError> {
        not_here()
    }

    fn sync(&self) -> Result<(), StorageError> {
        not_here()
    }

    fn checkpoint(&self, _: &Path) -> Result<(), StorageError> {
        not_here()
    }

    fn ingest(
        &self,
        _: Version,
        _: &mut PairIterator<'_>,
        _: Option<&[u8]>,
    ) -> Result<(), StorageError> {
        not_here()
    }

    fn statistics(&self) -> Result<Statistics, StorageError> {
        Ok(Statistics::default())
    }

    fn verify(&self, _: &mut dyn FnMut(u64, u64)) -> Result<Vec<String>, StorageError> {
        Ok(Vec::new())
    }
}
