//! Engines on a shared log pass the scripts of the contract, alone and as two processes of one database.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use isomer_shared_log::{LogId, MemoryLog};

use crate::{
    Capabilities, CommitHook, Engine, EngineTransaction, MemoryEngine, SharedOptions, Snapshot,
    Statistics, StorageError, StreamEntry, Version,
    conformance::{Make, Subject, SubjectOptions, random_history},
};

const GRACE: Duration = Duration::from_secs(60);

fn open(log: &MemoryLog, options: SubjectOptions) -> Arc<MemoryEngine> {
    let max = options.max_transaction_bytes;
    let log = Arc::new(log.clone());
    let engine =
        MemoryEngine::shared_with_max_transaction_bytes(max, log, SharedOptions::default());
    Arc::new(engine.expect("the log can be read"))
}

fn new_log() -> MemoryLog {
    MemoryLog::new(LogId(1), GRACE)
}

/// One process.
struct Alone {
    log: MemoryLog,
    options: SubjectOptions,
    engine: Arc<MemoryEngine>,
}

impl Subject for Alone {
    fn engine(&self) -> Arc<dyn Engine> {
        self.engine.clone()
    }

    fn reopen(&mut self) {
        self.engine = open(&self.log, self.options);
    }
}

fn alone(options: SubjectOptions) -> Box<dyn Subject> {
    let log = new_log();
    Box::new(Alone {
        engine: open(&log, options),
        log,
        options,
    })
}

/// Two processes that take turns: each call goes to the other one than the call before.
struct InTurns {
    engines: [Arc<MemoryEngine>; 2],
    turn: AtomicU64,
}

impl InTurns {
    fn next(&self) -> &MemoryEngine {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        &self.engines[turn as usize % 2]
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
        let of_other = self.next().statistics()?;
        let mut statistics = self.next().statistics()?;
        assert_eq!(statistics.key_count, of_other.key_count);
        assert_eq!(statistics.stream_entries, of_other.stream_entries);
        statistics.commits += of_other.commits;
        statistics.conflicts += of_other.conflicts;
        Ok(statistics)
    }

    fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<Vec<String>, StorageError> {
        self.next().verify(progress)
    }
}

struct Two {
    log: MemoryLog,
    options: SubjectOptions,
    engine: Arc<InTurns>,
}

impl Subject for Two {
    fn engine(&self) -> Arc<dyn Engine> {
        self.engine.clone()
    }

    fn reopen(&mut self) {
        // The other one stays open.
        let [first, _] = &self.engine.engines;
        self.engine = Arc::new(InTurns {
            engines: [open(&self.log, self.options), first.clone()],
            turn: AtomicU64::new(0),
        });
    }
}

fn two(options: SubjectOptions) -> Box<dyn Subject> {
    let log = new_log();
    Box::new(Two {
        engine: Arc::new(InTurns {
            engines: [open(&log, options), open(&log, options)],
            turn: AtomicU64::new(0),
        }),
        log,
        options,
    })
}

mod one_process {
    crate::conformance_tests!(super::alone);
}

mod two_processes {
    crate::conformance_tests!(super::two);
}

/// Shared engines agree with the model, and with a local engine, on many random histories.
#[test]
fn random_histories_match_the_model() {
    let makes: [Make; 2] = [alone, two];
    for seed in 0..30 {
        let mut subjects = makes.map(|make| make(SubjectOptions::default()));
        random_history(seed, 1000, &mut subjects);
    }
}
