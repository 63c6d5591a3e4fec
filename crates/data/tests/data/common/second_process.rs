//! With `ISOMER_TEST_SHARED=1`, the stores of [`memory`](super::memory) are in folders, shared, and a second process
//! writes to each of them until the test ends. It is a thread with its own engine and store, which share nothing with
//! those of the test but files, locks and the shared log.

use std::{
    cell::RefCell,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Sender, channel},
    },
    thread::{JoinHandle, sleep, spawn},
    time::Duration,
};

use isomer_data::{Access, DataError, DataStore, DataStoreOptions, ErrorKind, ProcessLocks};
use isomer_lsm::{LogSharing, LsmEngine, LsmOptions};
use isomer_value::Map;
use tempfile::TempDir;

/// The bucket, label and relationship type of the second process.
pub const OWN_NAME: &str = "of the second process";
/// Most second processes of one test at a time.
const MAX_RUNNING: usize = 4;
/// The pause between its transactions.
const PAUSE: Duration = Duration::from_millis(3);

/// Whether tests have a second process.
pub fn is_wanted() -> bool {
    std::env::var_os("ISOMER_TEST_SHARED").is_some_and(|value| value != "0" && !value.is_empty())
}

/// Reports that a test does not run with a second process, if there are any; returns whether to skip it.
pub fn needs_alone(reason: &str) -> bool {
    if is_wanted() {
        println!("skipped: it needs the database alone: {reason}");
    }
    is_wanted()
}

/// An empty store, to which a second process writes until the thread of the caller ends.
pub fn open_empty(options: DataStoreOptions) -> DataStore {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("db");
    let store = open(&path, options);
    let stop = Arc::new(AtomicBool::new(false));
    let (ready, first_commit) = channel();
    let stopped = stop.clone();
    let thread = spawn(move || {
        let store = open(&path, DataStoreOptions::default());
        write(&store, &stopped, &ready);
    });
    first_commit.recv().expect("the second process commits");
    RUNNING.with_borrow_mut(|running| {
        // A property test opens hundreds of stores, and uses few at once.
        if running.len() == MAX_RUNNING {
            running.remove(0);
        }
        running.push(Running {
            stop,
            thread: Some(thread),
            _folder: folder,
        });
    });
    store
}

fn open(path: &Path, mut options: DataStoreOptions) -> DataStore {
    let engine = LsmOptions {
        sharing: LogSharing::Shared,
        cache_bytes: 4 << 20,
        memtable_bytes: 4 << 20,
        ..LsmOptions::default()
    };
    let engine = LsmEngine::open(path, engine).expect("opened");
    let locks = ProcessLocks::join(&path.join("locks")).expect("joined");
    options.process_locks = Some(locks.clone());
    let store = DataStore::open(Arc::new(engine), options).expect("opened");
    locks.opened().expect("no error");
    store
}

thread_local! {
    static RUNNING: RefCell<Vec<Running>> = const { RefCell::new(Vec::new()) };
}

struct Running {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    _folder: TempDir,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            // This thread ends, and a panic would hide the reason.
            eprintln!("the second process failed");
            std::process::exit(101);
        }
    }
}

/// Writes until `stop`: pairs, and names and ids for nodes and relationships that it deletes again.
fn write(store: &DataStore, stop: &AtomicBool, ready: &Sender<()>) {
    let mut number = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        number += 1;
        while let Err(error) = write_one(store, number) {
            assert_eq!(error.kind(), ErrorKind::Retry, "{error}");
        }
        let tx = store.begin(Access::Read).expect("begun");
        let found = tx.kv().get(OWN_NAME, b"number").expect("read");
        let expected = number.to_be_bytes().to_vec();
        assert_eq!(found, Some(expected), "it has committed {number}");
        // The test may have ended.
        let _ = ready.send(());
        sleep(PAUSE);
    }
}

fn write_one(store: &DataStore, number: u64) -> Result<(), DataError> {
    let mut tx = store.begin(Access::Write)?;
    if number % 8 == 1 {
        let label = tx.name_ids().intern_label(OWN_NAME)?;
        let rel_type = tx.name_ids().intern_type(OWN_NAME)?;
        let ends = [0, 1].map(|_| tx.graph_mut().create_node(&[label], &Map::new()));
        let [source, target] = ends;
        let (source, target) = (source?, target?);
        let relationship =
            tx.graph_mut()
                .create_relationship(rel_type, source, target, &Map::new())?;
        tx.graph_mut().delete_relationship(relationship)?;
        for node in [source, target] {
            tx.graph_mut().delete_node(node, false)?;
        }
    }
    tx.kv_mut()
        .put(OWN_NAME, b"number", &number.to_be_bytes())?;
    tx.commit().map(drop)
}
