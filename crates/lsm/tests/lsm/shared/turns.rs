//! Engines that take turns pass the conformance scripts, and agree with a model on random histories.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use isomer_lsm::{LsmEngine, LsmOptions};
use isomer_storage::{
    Capabilities, CommitHook, Engine, EngineTransaction, MemoryEngine, Snapshot, Statistics,
    StorageError, StreamEntry, Version,
    conformance::{Random, Subject, SubjectOptions, random_history},
};
use tempfile::TempDir;

use super::{assert_sound, open, small};

/// Each call goes to another engine than the call before. Engines without threads flush, compact and follow in between.
struct InTurns {
    engines: Vec<Arc<LsmEngine>>,
    turn: AtomicU64,
    by_hand: bool,
    /// Commits before the last reopening.
    commits_before: u64,
}

impl InTurns {
    fn next(&self) -> &LsmEngine {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let mut random = Random(turn);
        if self.by_hand && random.below(8) == 0 {
            let count = self.engines.len() as u64;
            let engine = &self.engines[random.below(count) as usize];
            match random.below(4) {
                0 if engine.maintains() => engine.flush().expect("flushed"),
                1 if engine.maintains() => engine.compact().expect("merged"),
                2 if engine.maintains() => engine.compact_all().expect("merged"),
                _ => engine.follow().expect("follows"),
            }
        }
        &self.engines[turn as usize % self.engines.len()]
    }
}

impl Engine for InTurns {
    fn capabilities(&self) -> Capabilities {
        self.next().capabilities()
    }

    fn version(&self) -> Version {
        self.next().version()
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>, StorageError> {
        self.next().snapshot()
    }

    fn begin(&self) -> Result<Box<dyn EngineTransaction>, StorageError> {
        self.next().begin()
    }

    fn stream(
        &self,
        after: Version,
        max_entries: usize,
        max_bytes: usize,
        durable_only: bool,
    ) -> Result<Vec<StreamEntry>, StorageError> {
        self.next()
            .stream(after, max_entries, max_bytes, durable_only)
    }

    fn trim_stream(&self, upto: Version) -> Result<(), StorageError> {
        self.next().trim_stream(upto)
    }

    fn stream_trimmed(&self) -> Result<Version, StorageError> {
        self.next().stream_trimmed()
    }

    fn sync(&self) -> Result<(), StorageError> {
        self.next().sync()
    }

    fn wait_for_background_work(&self) -> Result<(), StorageError> {
        let maintainer = self.engines.iter().find(|engine| engine.maintains());
        maintainer.map_or(Ok(()), |engine| engine.wait_for_background_work())
    }

    fn compact(&self) -> Result<(), StorageError> {
        let maintainer = self.engines.iter().find(|engine| engine.maintains());
        maintainer.map_or(Ok(()), |engine| Engine::compact(&**engine))
    }

    fn checkpoint(&self, target: &Path) -> Result<(), StorageError> {
        self.next().checkpoint(target)
    }

    fn ingest(
        &self,
        pairs: &mut dyn Iterator<Item = Result<(Vec<u8>, Vec<u8>), StorageError>>,
        stream: Option<&[u8]>,
    ) -> Result<Version, StorageError> {
        self.next().ingest(pairs, stream)
    }

    fn set_hook(&self, hook: Arc<dyn CommitHook>) {
        for engine in &self.engines {
            engine.set_hook(hook.clone());
        }
    }

    fn statistics(&self) -> Result<Statistics, StorageError> {
        let mut sum: Option<Statistics> = None;
        for engine in &self.engines {
            let statistics = engine.statistics()?;
            match &mut sum {
                None => sum = Some(statistics),
                Some(sum) => {
                    assert_eq!(sum.key_count, statistics.key_count);
                    assert_eq!(sum.stream_entries, statistics.stream_entries);
                    sum.commits += statistics.commits;
                    sum.conflicts += statistics.conflicts;
                }
            }
        }
        let mut sum = sum.ok_or_else(|| StorageError::Invalid("no engine is open".to_owned()))?;
        sum.commits -= self.commits_before;
        Ok(sum)
    }

    fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<Vec<String>, StorageError> {
        self.next().verify(progress)
    }
}

/// Some engines on one folder.
struct Several {
    folder: TempDir,
    options: LsmOptions,
    count: usize,
    reopened: usize,
    engine: Option<Arc<InTurns>>,
}

impl Several {
    fn new(count: usize, options: LsmOptions) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let engines = (0..count).map(|_| Arc::new(open(folder.path(), &options)));
        let engine = InTurns {
            engines: engines.collect(),
            turn: AtomicU64::new(0),
            by_hand: !options.background,
            commits_before: 0,
        };
        Self {
            engine: Some(Arc::new(engine)),
            folder,
            options,
            count,
            reopened: 0,
        }
    }
}

impl Subject for Several {
    fn engine(&self) -> Arc<dyn Engine> {
        self.engine.clone().expect("open")
    }

    /// Each time another one is closed and opened again, and now and then all of them are.
    fn reopen(&mut self) {
        let before = self.engine.take().expect("open");
        let before = Arc::into_inner(before).expect("the engine is still in use");
        let turn = before.turn.load(Ordering::Relaxed);
        let mut engines = before.engines;
        self.reopened += 1;
        let at = self.reopened % (self.count + 1);
        if at == self.count {
            engines.clear();
        } else {
            engines.remove(at);
        }
        while engines.len() < self.count {
            engines.push(Arc::new(open(self.folder.path(), &self.options)));
        }
        for engine in &engines {
            engine.follow().expect("follows");
        }
        let maintainers = engines.iter().filter(|engine| engine.maintains());
        assert_eq!(maintainers.count(), 1, "one process maintains the tables");
        let commits = engines.iter().map(|engine| {
            let statistics = engine.statistics().expect("statistics");
            statistics.commits
        });
        let commits_before = commits.sum();
        self.engine = Some(Arc::new(InTurns {
            engines,
            turn: AtomicU64::new(turn),
            by_hand: !self.options.background,
            commits_before,
        }));
    }
}

impl Drop for Several {
    fn drop(&mut self) {
        let is_open = self.engine.take().is_some();
        if is_open && !std::thread::panicking() {
            assert_sound(&open(self.folder.path(), &self.options));
        }
    }
}

fn with(options: SubjectOptions, count: usize, background: bool) -> Box<dyn Subject> {
    let options = LsmOptions {
        max_transaction_bytes: options.max_transaction_bytes,
        ..small(background)
    };
    Box::new(Several::new(count, options))
}

fn usual(options: SubjectOptions) -> Box<dyn Subject> {
    let options = LsmOptions {
        max_transaction_bytes: options.max_transaction_bytes,
        sharing: isomer_lsm::LogSharing::Shared,
        ..LsmOptions::default()
    };
    Box::new(Several::new(1, options))
}

fn one(options: SubjectOptions) -> Box<dyn Subject> {
    with(options, 1, true)
}

fn two(options: SubjectOptions) -> Box<dyn Subject> {
    with(options, 2, true)
}

mod usual_sizes {
    isomer_storage::conformance_tests!(super::usual);
}

mod one_process {
    isomer_storage::conformance_tests!(super::one);
}

mod two_processes {
    isomer_storage::conformance_tests!(super::two);
}

struct Memory(Arc<MemoryEngine>);

impl Subject for Memory {
    fn engine(&self) -> Arc<dyn Engine> {
        self.0.clone()
    }

    fn reopen(&mut self) {}
}

/// One, two and three engines on a folder, with threads and without, agree with the memory engine and the model.
#[test]
fn random_histories_match_the_model() {
    for seed in 3000..3012 {
        let memory: Box<dyn Subject> = Box::new(Memory(Arc::default()));
        let mut subjects = vec![memory];
        for (count, background) in [(1, true), (2, false), (2, true), (3, false)] {
            subjects.push(with(SubjectOptions::default(), count, background));
        }
        random_history(seed, 1000, &mut subjects);
    }
}
