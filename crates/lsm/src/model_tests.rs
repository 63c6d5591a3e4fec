//! The engine under a model checker: commits, flushes, compactions and readers in many interleavings. Locks and
//! the memtables' words are the checker's; the disk is simulated and completes each call in one step.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use isomer_storage::{Durability, Engine, Read, StorageError, conformance::Random};
use isomer_vfs::{Loss, SimDisk};

use crate::{LsmEngine, LsmOptions};

/// Commits of a writer.
const ROUNDS: u64 = 3;

fn options(disk: &SimDisk) -> LsmOptions {
    let (random, time) = (AtomicU64::new(1), AtomicU64::new(1_000));
    LsmOptions {
        disk: Arc::new(disk.clone()),
        segment_bytes: 4 << 10,
        // So small that nearly each commit seals one.
        memtable_bytes: 1 << 10,
        cache_bytes: 64 << 10,
        background: false,
        clock: Arc::new(move || time.fetch_add(1, Ordering::Relaxed)),
        random: Arc::new(move || Random(random.fetch_add(1, Ordering::Relaxed)).number()),
        ..LsmOptions::default()
    }
}

fn open(disk: &SimDisk) -> LsmEngine {
    LsmEngine::open(Path::new("/db"), options(disk)).expect("opens")
}

fn number(value: Option<Vec<u8>>) -> u64 {
    let bytes = value.map(|bytes| <[u8; 8]>::try_from(bytes).expect("eight bytes"));
    bytes.map_or(0, u64::from_be_bytes)
}

/// Increments the counters under the two keys of one writer.
fn write(engine: &LsmEngine, writer: u8) {
    for round in 1..=ROUNDS {
        let mut transaction = engine.begin().expect("begins");
        for key in [[writer, 0], [writer, 1]] {
            transaction.put(&key, &round.to_be_bytes()).expect("put");
        }
        transaction.append_stream(&[writer, round as u8]);
        let durability = match round % 2 {
            0 => Durability::Synced,
            _ => Durability::Buffered,
        };
        let version = transaction.commit(durability).expect("commits");
        assert!(engine.version() >= version, "committed and not seen");
    }
}

/// What a reader finds at one version: complete commits, and exactly as many as the version says.
fn look(snapshot: &dyn Read, writers: u8) {
    let mut commits = 0;
    for writer in 0..writers {
        let [one, other] =
            [[writer, 0], [writer, 1]].map(|key| number(snapshot.get(&key).expect("read")));
        assert_eq!(one, other, "half a commit");
        commits += one;
    }
    assert_eq!(commits, snapshot.version(), "as many commits as versions");
}

fn read(engine: &LsmEngine, writers: u8) {
    let held = engine.snapshot().expect("a snapshot");
    let mut last = 0;
    for _ in 0..2 {
        let snapshot = engine.snapshot().expect("a snapshot");
        assert!(snapshot.version() >= last, "time went back");
        last = snapshot.version();
        look(&*snapshot, writers);
        let stream = engine
            .stream(0, 100, 1 << 20, false)
            .expect("the change stream");
        let versions: Vec<u64> = stream.iter().map(|entry| entry.version).collect();
        let whole: Vec<u64> = (1..=versions.len() as u64).collect();
        assert_eq!(versions, whole, "the stream has gaps");
        assert!(versions.len() as u64 >= last, "seen, and not in the stream");
    }
    // The earlier snapshot is unchanged.
    look(&*held, writers);
}

/// Runs the threads in as many interleavings as there is time for.
fn check(iterations: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 20;
    config.max_steps = shuttle::MaxSteps::ContinueAfter(10_000_000);
    let scheduler = shuttle::scheduler::RandomScheduler::new(iterations);
    shuttle::Runner::new(scheduler, config).run(model);
}

#[test]
fn model_commits_are_whole_while_memtables_are_flushed_and_merged() {
    check(400, || {
        const WRITERS: u8 = 2;
        let disk = SimDisk::new();
        let engine = Arc::new(open(&disk));
        let mut threads = Vec::new();
        for writer in 0..WRITERS {
            let engine = engine.clone();
            threads.push(shuttle::thread::spawn(move || write(&engine, writer)));
        }
        let flushing = engine.clone();
        threads.push(shuttle::thread::spawn(move || {
            flushing.flush().expect("flushed");
            flushing.compact_all().expect("merged");
        }));
        let reading = engine.clone();
        threads.push(shuttle::thread::spawn(move || read(&reading, WRITERS)));
        for thread in threads {
            thread.join().expect("a thread");
        }
        let total = u64::from(WRITERS) * ROUNDS;
        assert_eq!(engine.version(), total);
        engine.sync().expect("synced");
        let damage = engine.verify(&mut |_, _| {}).expect("verified");
        assert_eq!(damage, Vec::<String>::new());
        // As a loss of power would leave it now, without closing.
        let left = disk.after_power_loss(Loss::Everything, 0);
        let again = open(&left);
        look(&*again.snapshot().expect("a snapshot"), WRITERS);
        assert_eq!(again.version(), total);
    });
}

/// Backups and trims concurrent with commits: each copy is one version.
#[test]
fn model_copies_are_whole_while_commits_go_on() {
    check(200, || {
        let disk = SimDisk::new();
        let engine = Arc::new(open(&disk));
        let writing = engine.clone();
        let writer = shuttle::thread::spawn(move || write(&writing, 0));
        let copying = engine.clone();
        let copier = shuttle::thread::spawn(move || {
            copying.checkpoint(Path::new("/copy")).expect("a copy");
        });
        let trimming = engine.clone();
        let trimmer = shuttle::thread::spawn(move || -> Result<(), StorageError> {
            trimming.trim_stream(1)?;
            trimming.flush()
        });
        writer.join().expect("the writer");
        copier.join().expect("the copier");
        trimmer.join().expect("the trimmer").expect("trimmed");
        let copy = LsmEngine::open(Path::new("/copy"), options(&disk)).expect("opens");
        look(&*copy.snapshot().expect("a snapshot"), 1);
        let damage = copy.verify(&mut |_, _| {}).expect("verified");
        assert_eq!(damage, Vec::<String>::new());
    });
}
