//! The engine passes the conformance tests of all engines, and agrees with the memory engine and a sorted map.

use std::sync::Arc;

use isomer_lsm::{LsmEngine, LsmOptions};
use isomer_storage::{
    Engine, MemoryEngine,
    conformance::{Subject, SubjectOptions, random_history},
};
use tempfile::TempDir;

struct Store {
    folder: TempDir,
    options: LsmOptions,
    engine: Option<Arc<LsmEngine>>,
    /// Whether it flushes and compacts before reopening.
    flushes: bool,
}

impl Subject for Store {
    fn engine(&self) -> Arc<dyn Engine> {
        self.engine.clone().expect("open")
    }

    fn reopen(&mut self) {
        let engine = self.engine.take().expect("open");
        assert_eq!(Arc::strong_count(&engine), 1, "the engine is still in use");
        if self.flushes {
            engine.flush().expect("flushed");
            engine.compact().expect("merged");
        }
        drop(engine);
        self.engine = Some(open(&self.folder, &self.options));
    }
}

fn open(folder: &TempDir, options: &LsmOptions) -> Arc<LsmEngine> {
    Arc::new(LsmEngine::open(folder.path(), options.clone()).expect("opens"))
}

fn open_in_new_folder(options: LsmOptions) -> Store {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = Some(open(&folder, &options));
    Store {
        folder,
        options,
        engine,
        flushes: false,
    }
}

fn store_with(options: LsmOptions) -> Box<dyn Subject> {
    Box::new(open_in_new_folder(options))
}

fn store(options: SubjectOptions) -> Box<dyn Subject> {
    store_with(LsmOptions {
        max_transaction_bytes: options.max_transaction_bytes,
        ..LsmOptions::default()
    })
}

/// Segments and memtables of a few pages, so that flushes and compactions run all the time.
fn small(background: bool) -> LsmOptions {
    LsmOptions {
        segment_bytes: 16 << 10,
        memtable_bytes: 48 << 10,
        blob_threshold_bytes: 500,
        cache_bytes: 1 << 20,
        background,
        ..LsmOptions::default()
    }
}

fn small_store(options: SubjectOptions) -> Box<dyn Subject> {
    store_with(LsmOptions {
        max_transaction_bytes: options.max_transaction_bytes,
        ..small(true)
    })
}

struct Memory(Arc<MemoryEngine>);

impl Subject for Memory {
    fn engine(&self) -> Arc<dyn Engine> {
        self.0.clone()
    }

    fn reopen(&mut self) {}
}

mod usual {
    isomer_storage::conformance_tests!(super::store);
}

mod with_small_memtables {
    isomer_storage::conformance_tests!(super::small_store);
}

/// The memory engine and databases with several sizes agree with the model, over random histories with
/// reopening among the operations; one of them flushes and compacts when it is reopened and at no other time.
#[test]
fn random_histories_match_the_model() {
    for seed in 2000..2012 {
        let memory: Box<dyn Subject> = Box::new(Memory(Arc::default()));
        let by_hand = Store {
            flushes: true,
            ..open_in_new_folder(small(false))
        };
        let mut subjects = [memory, store_with(small(true)), Box::new(by_hand)];
        random_history(seed, 1200, &mut subjects);
    }
}
