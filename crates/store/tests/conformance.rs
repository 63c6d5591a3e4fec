//! The store passes the scripts of every engine, and answers as the memory engine and a sorted map do.

use std::sync::Arc;

use isomer_storage::{
    Engine, MemoryEngine,
    conformance::{Subject, SubjectOptions, random_history},
};
use isomer_store::{StoreEngine, StoreOptions};
use tempfile::TempDir;

struct Store {
    folder: TempDir,
    options: StoreOptions,
    engine: Option<Arc<StoreEngine>>,
    /// Whether reopening flushes and merges before.
    flushes: bool,
}

impl Subject for Store {
    fn engine(&self) -> Arc<dyn Engine> {
        self.engine.clone().expect("open")
    }

    fn reopen(&mut self) {
        let engine = self.engine.take().expect("open");
        assert_eq!(
            Arc::strong_count(&engine),
            1,
            "somebody still holds the engine"
        );
        if self.flushes {
            engine.flush().expect("flushed");
            engine.compact().expect("merged");
        }
        drop(engine);
        self.engine = Some(open(&self.folder, &self.options));
    }
}

fn open(folder: &TempDir, options: &StoreOptions) -> Arc<StoreEngine> {
    Arc::new(StoreEngine::open(folder.path(), options.clone()).expect("opens"))
}

fn open_in_new_folder(options: StoreOptions) -> Store {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = Some(open(&folder, &options));
    Store {
        folder,
        options,
        engine,
        flushes: false,
    }
}

fn store_with(options: StoreOptions) -> Box<dyn Subject> {
    Box::new(open_in_new_folder(options))
}

fn store(options: SubjectOptions) -> Box<dyn Subject> {
    store_with(StoreOptions {
        max_transaction_bytes: options.max_transaction_bytes,
        ..StoreOptions::default()
    })
}

/// Segments and memtables of a few pages, so that everything is flushed and merged all the time.
fn small(background: bool) -> StoreOptions {
    StoreOptions {
        segment_bytes: 16 << 10,
        memtable_bytes: 48 << 10,
        blob_threshold_bytes: 500,
        cache_bytes: 1 << 20,
        background,
        ..StoreOptions::default()
    }
}

fn small_store(options: SubjectOptions) -> Box<dyn Subject> {
    store_with(StoreOptions {
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

/// Memory and stores of several sizes answer as the model does, over random histories with reopening among the
/// operations; one of them flushes and merges when it is reopened and at no other time.
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
