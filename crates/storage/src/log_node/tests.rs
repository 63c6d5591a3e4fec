//! Engines on a shared log pass the scripts of the contract, alone and as two processes of one database.

use std::{sync::Arc, time::Duration};

use isomer_shared_log::{LogId, MemoryLog};

use crate::{
    Durability, Engine, MemoryEngine, SharedOptions,
    conformance::{EngineTurns, Make, Subject, SubjectOptions, random_history},
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

/// Two processes, of which one or both write.
struct Two {
    log: MemoryLog,
    options: SubjectOptions,
    writer_count: usize,
    engine: Arc<EngineTurns<MemoryEngine>>,
}

impl Subject for Two {
    fn engine(&self) -> Arc<dyn Engine> {
        self.engine.clone()
    }

    fn reopen(&mut self) {
        // The other one stays open.
        let engines = vec![
            open(&self.log, self.options),
            self.engine.engines()[0].clone(),
        ];
        self.engine = Arc::new(EngineTurns::new(engines).writer_count(self.writer_count));
    }
}

fn two(options: SubjectOptions, writer_count: usize) -> Box<dyn Subject> {
    let log = new_log();
    let engines = vec![open(&log, options), open(&log, options)];
    Box::new(Two {
        engine: Arc::new(EngineTurns::new(engines).writer_count(writer_count)),
        writer_count,
        log,
        options,
    })
}

fn two_writers(options: SubjectOptions) -> Box<dyn Subject> {
    two(options, 2)
}

fn writer_and_reader(options: SubjectOptions) -> Box<dyn Subject> {
    two(options, 1)
}

mod one_process {
    crate::conformance_tests!(super::alone);
}

mod a_writer_and_a_reader {
    crate::conformance_tests!(super::writer_and_reader);
}

mod two_processes {
    // Not `started_commits_end`: commits that are under way in two processes have no order. See below.
    crate::conformance_tests!(super::two_writers;
        reads_see_commits, get_many_keeps_order, values_of_all_sizes, pages_in_both_directions,
        pages_under_own_writes, own_writes_are_read, delete_ranges_and_own_writes, savepoints_nest,
        dropped_transactions_leave_no_trace, limits_are_errors, what_can_be_undone_is_limited,
        guards_matrix, guards_see_the_group_before_them, snapshots_stay_while_others_write,
        concurrent_counters, stream_keeps_order_and_is_trimmed, commits_survive_reopening,
        buffered_commits_become_durable, checkpoint_is_a_database_of_its_own,
        ingest_is_one_commit, verify_finds_nothing);
}

/// Asynchronous commits of two processes end, each once, whether they are awaited or dropped.
#[test]
fn started_commits_of_two_processes_end() {
    const COMMITS: u64 = 400;
    let log = new_log();
    let options = SubjectOptions::default();
    let engines = [open(&log, options), open(&log, options)];
    let (during, all_ended) = std::sync::mpsc::channel::<()>();
    let mut versions = Vec::new();
    let mut awaited = Vec::new();
    for number in 0..COMMITS {
        let engine = &engines[number as usize % 2];
        let mut transaction = engine.begin().expect("a transaction");
        transaction
            .put(&number.to_be_bytes(), b"there")
            .expect("a put");
        let commit = transaction.start_commit(Durability::Synced, Box::new(during.clone()));
        if number % 3 > 0 {
            awaited.push(commit);
        }
    }
    for commit in awaited {
        versions.push(commit.wait().expect("nothing was observed"));
    }
    versions.sort_unstable();
    assert!(
        versions.is_sorted_by(|one, next| one < next),
        "each has a version"
    );
    drop(during);
    assert!(
        all_ended.recv().is_err(),
        "the dropped ones have ended, too"
    );
    for engine in &engines {
        assert_eq!(engine.version(), COMMITS);
        let statistics = engine.statistics().expect("statistics");
        assert_eq!(statistics.key_count, COMMITS);
        assert_eq!(statistics.commits, COMMITS / 2);
    }
}

/// Shared engines agree with the model, and with a local engine, on many random histories.
#[test]
fn random_histories_match_the_model() {
    let makes: [Make; 2] = [alone, two_writers];
    for seed in 0..30 {
        let mut subjects = makes.map(|make| make(SubjectOptions::default()));
        random_history(seed, 1000, &mut subjects);
    }
}
