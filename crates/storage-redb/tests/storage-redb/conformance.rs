//! redb passes the conformance scripts of all engines, and behaves like the memory engine and a sorted map.

use std::sync::Arc;

use isomer_storage::{
    Engine, MemoryEngine,
    conformance::{Subject, SubjectOptions, random_history},
};
use isomer_storage_redb::{RedbEngine, RedbOptions};
use tempfile::TempDir;

struct Redb {
    folder: TempDir,
    options: RedbOptions,
    engine: Option<Arc<RedbEngine>>,
}

impl Subject for Redb {
    fn engine(&self) -> Arc<dyn Engine> {
        self.engine.clone().expect("open")
    }

    fn reopen(&mut self) {
        let engine = self.engine.take().expect("open");
        assert_eq!(
            Arc::strong_count(&engine),
            1,
            "the engine is still referenced"
        );
        drop(engine);
        self.engine = Some(open(&self.folder, &self.options));
    }
}

fn open(folder: &TempDir, options: &RedbOptions) -> Arc<RedbEngine> {
    Arc::new(RedbEngine::open(folder.path(), options.clone()).expect("opens"))
}

fn redb(options: SubjectOptions) -> Box<dyn Subject> {
    let folder = tempfile::tempdir().expect("a folder");
    let options = RedbOptions {
        max_transaction_bytes: options.max_transaction_bytes,
        ..RedbOptions::default()
    };
    let engine = Some(open(&folder, &options));
    Box::new(Redb {
        folder,
        options,
        engine,
    })
}

struct Memory(Arc<MemoryEngine>);

impl Subject for Memory {
    fn engine(&self) -> Arc<dyn Engine> {
        self.0.clone()
    }

    fn reopen(&mut self) {}
}

isomer_storage::conformance_tests!(redb);

/// Memory and redb match the model over random histories that include reopenings.
#[test]
fn random_histories_match_the_model() {
    for seed in 1000..1012 {
        let memory: Box<dyn Subject> = Box::new(Memory(Arc::default()));
        random_history(seed, 1200, &mut [memory, redb(SubjectOptions::default())]);
    }
}
