//! The processes of a shared database, in one process.

use std::{
    ops::ControlFlow,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use isomer_data::{Clock, DataStore, DataStoreOptions, ProcessLocks};
use isomer_shared_log::{LogId, MemoryLog};
use isomer_storage::{Engine, MemoryEngine, SharedOptions};
use tempfile::TempDir;

/// A clock that tests set.
#[derive(Debug, Default)]
pub struct TestClock(AtomicU64);

impl TestClock {
    pub fn advance(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::Relaxed);
    }
}

impl Clock for TestClock {
    fn now_ms(&self) -> u64 {
        1_000_000 + self.0.load(Ordering::Relaxed)
    }
}

/// A database: its log, and the folder of the locks between its processes.
pub struct SharedDatabase {
    log: MemoryLog,
    folder: TempDir,
    pub clock: Arc<TestClock>,
    /// Whether each process applies the commits of others on a thread, or when it reads.
    pub follows: bool,
}

impl SharedDatabase {
    pub fn new(follows: bool) -> Self {
        Self {
            log: MemoryLog::new(LogId(7), Duration::ZERO),
            folder: tempfile::tempdir().expect("a folder"),
            clock: Arc::default(),
            follows,
        }
    }

    fn locks(&self) -> PathBuf {
        self.folder.path().join("locks")
    }

    /// The engine of one more process.
    pub fn open_engine(&self) -> Arc<dyn Engine> {
        let options = SharedOptions {
            follow: self.follows,
            ..SharedOptions::default()
        };
        let log = Arc::new(self.log.clone());
        Arc::new(MemoryEngine::shared(log, options).expect("opened"))
    }

    /// Opens it in one more process.
    pub fn open(&self) -> DataStore {
        let engine = self.open_engine();
        let locks = ProcessLocks::join(&self.locks()).expect("joined");
        let mut options = DataStoreOptions::default();
        options.process_locks = Some(locks.clone());
        options.clock = self.clock.clone();
        let store = DataStore::open(engine, options).expect("opened");
        locks.opened().expect("no error");
        store
    }

    pub fn open_all(&self, count: usize) -> Vec<DataStore> {
        (0..count).map(|_| self.open()).collect()
    }
}

/// Asserts that everything derived agrees with its source.
pub fn assert_sound(store: &DataStore) {
    let found =
        isomer_check::check(store, &mut |_, _| ControlFlow::Continue(())).expect("no error");
    assert!(found.is_empty(), "{found:#?}");
}
