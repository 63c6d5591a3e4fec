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
        drop(engine);
        self.engine = Some(open(&self.folder, &self.options));
    }
}

fn open(folder: &TempDir, options: &StoreOptions) -> Arc<StoreEngine> {
    Arc::new(StoreEngine::open(folder.path(), options.clone()).expect("opens"))
}

fn store_with(options: StoreOptions) -> Box<dyn Subject> {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = Some(open(&folder, &options));
    Box::new(Store {
        folder,
        options,
        engine,
    })
}

fn store(options: SubjectOptions) -> Box<dyn Subject> {
    store_with(StoreOptions {
        max_transaction_bytes: options.max_transaction_bytes,
        ..StoreOptions::default()
    })
}

struct Memory(Arc<MemoryEngine>);

impl Subject for Memory {
    fn engine(&self) -> Arc<dyn Engine> {
        self.0.clone()
    }

    fn reopen(&mut self) {}
}

isomer_storage::conformance_tests!(store);

/// Memory and the store answer as the model does, over random histories with reopening among the operations, with
/// segments and memtables of a few pages.
#[test]
fn random_histories_match_the_model() {
    for seed in 2000..2012 {
        let memory: Box<dyn Subject> = Box::new(Memory(Arc::default()));
        let small = StoreOptions {
            segment_bytes: 16 << 10,
            memtable_bytes: 64 << 10,
            ..StoreOptions::default()
        };
        random_history(seed, 1200, &mut [memory, store_with(small)]);
    }
}
