//! Databases that several processes have open. Here they are engines of one process, which share nothing but files,
//! locks and the shared log. `processes` has real ones.

mod as_stored;
mod conversion;
mod large_commit;
mod loads;
mod maintenance;
mod power;
mod processes;
mod stalled;
mod turns;

use std::sync::Arc;

use isomer_lsm::{LogSharing, LsmEngine, LsmOptions};
use isomer_storage::{
    Durability, Engine, Read,
    conformance::{ALL, scan},
};
use isomer_vfs::{Call, Disk, FaultyDisk, RealDisk};
use std::{
    collections::BTreeMap,
    io,
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Memtables of a few pages, so that flushes and adoptions happen all the time.
fn small(background: bool) -> LsmOptions {
    LsmOptions {
        sharing: LogSharing::Shared,
        segment_bytes: 64 << 10,
        memtable_bytes: 48 << 10,
        blob_threshold_bytes: 500,
        cache_bytes: 1 << 20,
        background,
        ..LsmOptions::default()
    }
}

fn open(path: &Path, options: &LsmOptions) -> LsmEngine {
    LsmEngine::open(path, options.clone()).expect("opens")
}

fn contents(read: &dyn Read) -> Map {
    scan(read, ALL, isomer_storage::Order::Ascending, 100)
        .into_iter()
        .collect()
}

fn all(engine: &LsmEngine) -> Map {
    contents(&*engine.snapshot().expect("a snapshot"))
}

fn commit(engine: &LsmEngine, pairs: &[(&[u8], &[u8])]) -> u64 {
    let mut transaction = engine.begin().expect("begins");
    for (key, value) in pairs {
        transaction.put(key, value).expect("fits");
    }
    transaction.append_stream(pairs[0].0);
    transaction.commit(Durability::Buffered).expect("committed")
}

fn assert_sound(engine: &LsmEngine) {
    let found = engine.verify(&mut |_, _| {}).expect("readable");
    assert_eq!(found, Vec::<String>::new());
}

/// A disk of a process that ends at some call: all later ones fail, and change nothing.
struct Ending {
    disk: Arc<dyn Disk>,
    left: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
}

impl Ending {
    fn new() -> Self {
        let (left, ended) = (
            Arc::new(AtomicU64::new(u64::MAX)),
            Arc::new(AtomicBool::new(false)),
        );
        let (calls_left, has_ended) = (left.clone(), ended.clone());
        let ends = move |call: Call, _: &Path| {
            let changes = !matches!(call, Call::Read | Call::List | Call::Lock);
            if changes && calls_left.fetch_sub(1, Ordering::SeqCst) <= 1 {
                calls_left.store(1, Ordering::SeqCst);
                has_ended.store(true, Ordering::SeqCst);
            }
            match changes && has_ended.load(Ordering::SeqCst) {
                true => Err(io::Error::other("the process has ended")),
                false => Ok(()),
            }
        };
        Self {
            disk: Arc::new(FaultyDisk::new(Arc::new(RealDisk), Arc::new(ends))),
            left,
            ended,
        }
    }

    fn options(&self, options: LsmOptions) -> LsmOptions {
        LsmOptions {
            disk: self.disk.clone(),
            ..options
        }
    }

    /// Ends at the call number `calls` from now on; 1 is the next one.
    fn end_at(&self, calls: u64) {
        self.left.store(calls, Ordering::SeqCst);
    }

    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::SeqCst)
    }
}
