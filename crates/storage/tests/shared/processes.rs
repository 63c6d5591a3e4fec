//! What one process sees of another one, case by case.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use isomer_shared_log::{
    Append, LogError, LogId, MemoryLog, Position, Record, RecordHash, SharedLog,
};
use isomer_storage::{
    Commit, CommitHook, Durability, Engine, EngineTransaction, Granule, GuardMode, LogPoint,
    LogRetention, MemoryEngine, Optimistic, SharedOptions, StorageError, StreamEntry, Version,
};
use isomer_vfs::{SimTime, Time};

use crate::backend::{Checkpoints, MapBackend};

const GRACE: Duration = Duration::from_secs(60);

/// A log that knows what is durable, and whose syncs can fail.
#[derive(Debug)]
struct SlowLog {
    log: MemoryLog,
    durable: AtomicU64,
    syncs: AtomicU64,
    fails: AtomicBool,
}

impl SlowLog {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            log: MemoryLog::new(LogId(1), GRACE),
            durable: AtomicU64::new(1),
            syncs: AtomicU64::new(0),
            fails: AtomicBool::new(false),
        })
    }
}

impl SharedLog for SlowLog {
    fn append(&self, at: Position, record: &[u8]) -> Result<Append, LogError> {
        self.log.append(at, record)
    }

    fn read(&self, from: Position, max_bytes: usize) -> Result<Vec<Vec<u8>>, LogError> {
        self.log.read(from, max_bytes)
    }

    fn end(&self) -> Result<Position, LogError> {
        self.log.end()
    }

    fn sync(&self, upto: Position) -> Result<(), LogError> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        if self.fails.load(Ordering::Relaxed) {
            return Err(LogError::Refused("the disk is gone".into()));
        }
        self.durable.fetch_max(upto, Ordering::Relaxed);
        Ok(())
    }

    fn durable(&self) -> Result<Position, LogError> {
        Ok(self.durable.load(Ordering::Relaxed))
    }

    fn first(&self) -> Result<Position, LogError> {
        self.log.first()
    }

    fn trim(&self, below: Position) -> Result<(), LogError> {
        self.log.trim(below)
    }

    fn wait_unless(
        &self,
        seen: Position,
        time: Duration,
        stop: &AtomicBool,
    ) -> Result<Position, LogError> {
        self.log.wait_unless(seen, time, stop)
    }

    fn wake(&self) {
        self.log.wake();
    }

    fn max_record_bytes(&self) -> usize {
        self.log.max_record_bytes()
    }

    fn id(&self) -> LogId {
        self.log.id()
    }

    fn grace(&self) -> Duration {
        self.log.grace()
    }
}

fn open(log: Arc<dyn SharedLog>) -> MemoryEngine {
    MemoryEngine::shared(log, SharedOptions::default()).expect("the log can be read")
}

fn writing(engine: &dyn Engine, key: &[u8], value: &[u8]) -> Box<dyn EngineTransaction> {
    let mut transaction = engine.begin().expect("a transaction");
    transaction.put(key, value).expect("a put");
    transaction.append_stream(value);
    transaction
}

fn get(engine: &dyn Engine, key: &[u8]) -> Option<Vec<u8>> {
    let snapshot = engine.snapshot().expect("a snapshot");
    snapshot.get(key).expect("a value in memory")
}

fn durable_entries(engine: &dyn Engine) -> usize {
    let entries = engine.stream(0, 100, 1 << 20, true);
    entries.expect("the change stream").len()
}

/// A buffered commit is visible everywhere at once, and durable with the next synced one. A failed sync is an unknown
/// outcome of those that asked for it.
#[test]
fn only_synced_commits_wait_for_a_sync() {
    let log = SlowLog::new();
    let (one, other) = (open(log.clone()), open(log.clone()));
    let commit = |key: &[u8], durability| writing(&one, key, b"value").commit(durability);
    commit(b"a", Durability::Buffered).expect("a commit");
    commit(b"b", Durability::Buffered).expect("a commit");
    assert_eq!(get(&other, b"a"), Some(b"value".to_vec()));
    assert_eq!(log.syncs.load(Ordering::Relaxed), 0);
    assert_eq!((durable_entries(&one), durable_entries(&other)), (0, 0));
    commit(b"c", Durability::Synced).expect("a commit");
    assert_eq!(log.syncs.load(Ordering::Relaxed), 1);
    commit(b"d", Durability::Buffered).expect("a commit");
    assert_eq!((durable_entries(&one), durable_entries(&other)), (3, 3));
    other.sync().expect("a sync");
    assert_eq!((durable_entries(&one), durable_entries(&other)), (4, 4));

    log.fails.store(true, Ordering::Relaxed);
    let unknown = commit(b"e", Durability::Synced).expect_err("the sync fails");
    assert!(
        matches!(unknown, StorageError::CommitUnknown(_)),
        "{unknown}"
    );
    assert!(
        unknown.to_string().contains("the disk is gone"),
        "{unknown}"
    );
    assert_eq!(get(&other, b"e"), Some(b"value".to_vec()), "it is visible");
    commit(b"f", Durability::Buffered).expect("no sync is needed");
    assert_eq!(durable_entries(&other), 4);
    log.fails.store(false, Ordering::Relaxed);
    drop((one, other));
    let end = log.log.end().expect("an end");
    assert_eq!(log.durable.load(Ordering::Relaxed), end, "closing syncs");
}

#[test]
fn a_load_conflicts_with_transactions_of_all_processes() {
    let log = Arc::new(MemoryLog::new(LogId(1), GRACE));
    let (one, other) = (open(log.clone()), open(log));
    let begin = |mode| {
        let mut transaction = writing(&one, b"key", b"value");
        transaction.guard(Granule(7), mode);
        transaction
    };
    let (reader, adder) = (begin(GuardMode::Read), begin(GuardMode::Add));
    let pairs = [b"loaded 1", b"loaded 2"].map(|key| Ok((key.to_vec(), b"value".to_vec())));
    let version = other
        .ingest(&mut pairs.into_iter(), Some(b"entry"))
        .expect("loaded");
    assert_eq!(get(&one, b"loaded 2"), Some(b"value".to_vec()));
    let refused = reader.commit(Durability::Synced);
    assert!(
        matches!(refused, Err(StorageError::Conflict { version: found, .. }) if found == version),
        "{refused:?}"
    );
    adder
        .commit(Durability::Synced)
        .expect("it observed nothing");
    let again = std::iter::once(Ok((b"loaded 1".to_vec(), Vec::new())));
    let refused = one.ingest(&mut { again }, None).expect_err("it exists");
    assert!(
        refused.to_string().contains("in the database already"),
        "{refused}"
    );
}

/// A load that is too large for a record says what to do.
#[test]
fn a_large_load_needs_the_database_alone() {
    let log = MemoryLog::new(LogId(1), GRACE).with_max_record_bytes(64 << 10);
    let engine = open(Arc::new(log));
    assert!(engine.capabilities().max_transaction_bytes < 64 << 10);
    let mut pairs = (0..1000_u32).map(|key| Ok((key.to_be_bytes().to_vec(), vec![7; 100])));
    let refused = engine.ingest(&mut pairs, None).expect_err("too large");
    assert!(
        refused
            .to_string()
            .contains("end the other processes that have the database open"),
        "{refused}"
    );
    let mut transaction = engine.begin().expect("a transaction");
    let refused =
        (0..1000_u32).find_map(|key| transaction.put(&key.to_be_bytes(), &[7; 100]).err());
    assert!(matches!(refused, Some(StorageError::TooLarge { .. })));
    assert_eq!(engine.version(), 0);
}

/// Groups that no record can hold are committed in several.
#[test]
fn a_large_group_is_committed_in_parts() {
    const EACH: u32 = 30;
    let log = Arc::new(MemoryLog::new(LogId(1), GRACE).with_max_record_bytes(16 << 10));
    let engine = open(log.clone());
    let commits: Vec<_> = (0..4)
        .flat_map(|_| {
            (0..EACH).map(|number| {
                let transaction = writing(&engine, &number.to_be_bytes(), &[1; 2000]);
                transaction.start_commit(Durability::Synced, Box::new(()))
            })
        })
        .collect();
    let mut versions: Vec<Version> = commits
        .into_iter()
        .map(|commit| commit.wait().expect("nothing was observed"))
        .collect();
    versions.sort_unstable();
    assert!(versions.into_iter().eq(1..=u64::from(4 * EACH)));
    assert_eq!(open(log).version(), u64::from(4 * EACH));
}

/// A hook that passes on what it hears.
struct Listener(Mutex<mpsc::Sender<(Version, bool)>>);

impl Listener {
    fn pass_on(&self, version: Version, is_remote: bool) {
        // The test may have heard enough.
        let _ = self.0.lock().expect("no panic").send((version, is_remote));
    }
}

impl CommitHook for Listener {
    fn committing(&self, version: Version, _: &[u8]) {
        self.pass_on(version, false);
    }

    fn committing_remote(&self, commit: &Commit<'_>) {
        assert_eq!(commit.writes.slots().len(), 1);
        assert_eq!(commit.stream, b"value");
        self.pass_on(commit.version, true);
    }

    fn abandoned(&self, _: Version) {}

    fn unsettled(&self, _: Version) {}
}

/// A process that does nothing hears of the commits of others, and can be closed at any time.
#[test]
fn an_idle_process_hears_of_commits() {
    let log = Arc::new(MemoryLog::new(LogId(1), GRACE));
    let (idle, busy) = (open(log.clone()), open(log.clone()));
    let (sender, heard) = mpsc::channel();
    idle.set_hook(Arc::new(Listener(Mutex::new(sender))));
    for version in 1..=20 {
        let transaction = writing(&busy, b"key", b"value");
        assert_eq!(
            transaction.commit(Durability::Buffered).expect("a commit"),
            version
        );
        let hears = heard.recv_timeout(Duration::from_secs(20));
        assert_eq!(hears, Ok((version, true)), "without a call");
    }
    let own = writing(&idle, b"key", b"value").commit(Durability::Buffered);
    let hears = heard.recv_timeout(Duration::from_secs(20));
    assert_eq!(hears, Ok((own.expect("a commit"), false)));
    let began = Instant::now();
    drop(idle);
    drop(busy);
    assert!(began.elapsed() < Duration::from_secs(20), "the threads end");
    assert_eq!(Arc::strong_count(&log), 1, "nothing uses the log any more");
}

/// A process with a simulated clock over a backend with checkpoints, and without a thread.
fn open_map(
    log: &MemoryLog,
    checkpoints: &Checkpoints,
    time: &SimTime,
    retention: LogRetention,
) -> Result<Optimistic<MapBackend>, StorageError> {
    let clock = time.clone();
    let options = SharedOptions {
        clock: Arc::new(move || 1_000_000 + clock.now().as_millis() as u64),
        time: Arc::new(time.clone()),
        retention,
        follow: false,
        ..SharedOptions::default()
    };
    Optimistic::shared(
        MapBackend::open(checkpoints),
        Arc::new(log.clone()),
        options,
    )
}

fn commit(engine: &Optimistic<MapBackend>, entry: &[u8]) -> Version {
    let mut transaction = engine.begin().expect("a transaction");
    transaction.put(b"key", b"value").expect("a put");
    transaction.append_stream(entry);
    transaction.commit(Durability::Buffered).expect("a commit")
}

/// However much is trimmed, the last record stays: it says up to where the change stream is trimmed.
#[test]
fn the_last_record_stays() {
    let log = MemoryLog::new(LogId(1), GRACE);
    let (checkpoints, time) = (Checkpoints::default(), SimTime::default());
    let open = || open_map(&log, &checkpoints, &time, LogRetention::default()).expect("opened");
    let first = || log.first().expect("a log in memory");
    let engine = open();
    for _ in 0..10 {
        commit(&engine, b"");
        time.advance(GRACE / 50);
    }
    engine.trim_log().expect("nothing to do");
    assert_eq!(first(), 1, "no checkpoint contains anything");
    engine.backend().checkpoint();
    engine.trim_log().expect("too early");
    assert_eq!(first(), 1, "it is younger than the grace period");
    time.advance(2 * GRACE);
    engine.trim_log().expect("trimmed");
    assert_eq!(
        first(),
        10,
        "without entries, nothing but the last record is needed"
    );
    let other = open();
    assert_eq!(
        other.stream_trimmed().expect("a version"),
        0,
        "nothing was lost"
    );
    assert_eq!(other.version(), 10);

    for _ in 0..10 {
        commit(&other, b"entry");
        time.advance(GRACE / 50);
    }
    other.backend().checkpoint();
    time.advance(2 * GRACE);
    other.trim_log().expect("trimmed");
    let read = |after| {
        engine
            .stream(after, 100, 1 << 20, false)
            .expect("the stream")
    };
    assert_eq!(read(0).len(), 10, "the change stream needs them");
    engine.trim_stream(15).expect("trimmed");
    assert_eq!(read(0).len(), 5);
    assert_eq!(other.stream_trimmed().expect("a version"), 15);
    engine.trim_stream(u64::MAX).expect("trimmed");
    engine.trim_stream(3).expect("it is trimmed already");
    assert_eq!(other.stream_trimmed().expect("a version"), 20);
    other.backend().checkpoint();
    time.advance(2 * GRACE);
    other.trim_log().expect("trimmed");
    let end = log.end().expect("a log in memory");
    assert_eq!(first(), end - 1);
    let third = open();
    assert_eq!(third.stream_trimmed().expect("a version"), 20);
    assert_eq!(third.stream(0, 10, 10, false).expect("the stream"), []);
    assert_eq!(commit(&third, b"entry"), 21);
    let next = StreamEntry {
        version: 21,
        bytes: b"entry".to_vec(),
    };
    assert_eq!(read(0), [next]);
}

/// Statistics have the number of entries that are left, in a process that has counted before and in one that has not.
#[test]
fn entries_are_counted_while_they_are_trimmed() {
    let log = MemoryLog::new(LogId(1), GRACE);
    let (checkpoints, time) = (Checkpoints::default(), SimTime::default());
    let open = || open_map(&log, &checkpoints, &time, LogRetention::default()).expect("opened");
    let engine = open();
    let mut entries = Vec::new();
    for round in 0..40_u64 {
        for number in 0..7 {
            let entry: &[u8] = if (round + number) % 3 == 0 {
                b""
            } else {
                b"entry"
            };
            let version = commit(&engine, entry);
            if !entry.is_empty() {
                entries.push(version);
            }
        }
        if round % 4 == 1 {
            let upto = entries[(round as usize * 5) % entries.len()];
            engine.trim_stream(upto).expect("trimmed");
            entries.retain(|version| *version > upto);
        }
        if round % 9 == 8 {
            // The records of the entries that were counted go, too.
            engine.backend().checkpoint();
            time.advance(2 * GRACE);
            engine.trim_log().expect("trimmed");
        }
        for (name, engine) in [("before", &engine), ("now", &open())] {
            let statistics = engine.statistics().expect("statistics");
            let count = statistics.stream_entries;
            assert_eq!(count, entries.len() as u64, "{name}, round {round}");
        }
    }
}

/// The first count of a long log does not read its older part, where each commit counts. Later ones are exact again.
#[test]
fn a_long_log_is_counted_from_its_end() {
    const COMMITS: u64 = (1 << 16) + 1000;
    let log = MemoryLog::new(LogId(1), GRACE);
    let (checkpoints, time) = (Checkpoints::default(), SimTime::default());
    let open = || open_map(&log, &checkpoints, &time, LogRetention::default()).expect("opened");
    let engine = open();
    for number in 0..COMMITS {
        let entry: &[u8] = if number % 2 == 0 { b"" } else { b"entry" };
        commit(&engine, entry);
    }
    let count = || engine.statistics().expect("statistics").stream_entries;
    assert_eq!(count(), COMMITS / 2 + 500);
    engine.trim_stream(400).expect("trimmed");
    assert_eq!(count(), COMMITS / 2 + 100);
    engine.trim_stream(1100).expect("trimmed");
    assert_eq!(count(), (COMMITS - 1100) / 2);
    commit(&engine, b"entry");
    assert_eq!(count(), (COMMITS - 1100) / 2 + 1);
}

/// Entries that are too old, or take too much, are dropped; versions are found by their time for as long as asked for.
#[test]
fn retention_limits_the_log() {
    for by_bytes in [false, true] {
        let log = MemoryLog::new(LogId(1), GRACE);
        let (checkpoints, time) = (Checkpoints::default(), SimTime::default());
        let retention = LogRetention {
            versions_ms: 400_000,
            stream_ms: (!by_bytes).then_some(250_000),
            stream_bytes: by_bytes.then_some(1500),
        };
        let engine = open_map(&log, &checkpoints, &time, retention).expect("opened");
        // A commit every 100 s, the first one at 1,000 s.
        for _ in 0..10 {
            commit(&engine, &[7; 300]);
            time.advance(Duration::from_secs(100));
        }
        engine.backend().checkpoint();
        engine.trim_log().expect("trimmed");
        let left = engine.stream(0, 100, 1 << 20, false).expect("the stream");
        let left: Vec<Version> = left.iter().map(|entry| entry.version).collect();
        let expected = if by_bytes {
            vec![8, 9, 10]
        } else {
            vec![9, 10]
        };
        assert_eq!(left, expected, "by bytes: {by_bytes}");
        let trimmed = engine.stream_trimmed().expect("a version");
        assert_eq!(trimmed, expected[0] - 1);
        // It is 2,000 s; versions are found from 1,600 s on.
        let at = |time_ms| engine.version_at(time_ms).expect("a version");
        assert_eq!(at(1_600_000), Some(7));
        assert_eq!(at(1_650_000), Some(7));
        assert_eq!(at(1_900_000), Some(10));
        assert_eq!(at(u64::MAX), Some(10));
        assert_eq!(at(1_000_000), None, "no longer known");
        assert_eq!(log.first(), Ok(7));
    }
}

/// A process that was too far behind, or whose checkpoint is too old, says so.
#[test]
fn a_process_that_is_too_far_behind_is_fenced() {
    let log = MemoryLog::new(LogId(1), GRACE);
    let (checkpoints, time) = (Checkpoints::default(), SimTime::default());
    let open =
        |checkpoints: &Checkpoints| open_map(&log, checkpoints, &time, LogRetention::default());
    let (engine, behind) = (open(&checkpoints), open(&checkpoints));
    let (engine, behind) = (engine.expect("opened"), behind.expect("opened"));
    for _ in 0..5 {
        commit(&engine, b"");
    }
    engine.backend().checkpoint();
    time.advance(2 * GRACE);
    engine.trim_log().expect("trimmed");
    let unavailable = |outcome: Result<(), StorageError>| {
        let error = outcome.expect_err("it is behind");
        assert!(matches!(error, StorageError::Unavailable(_)), "{error}");
        assert!(
            error.to_string().contains("open the database again"),
            "{error}"
        );
    };
    unavailable(behind.begin().map(drop));
    unavailable(behind.begin().map(drop));
    unavailable(open(&Checkpoints::default()).map(drop));
    assert_eq!(
        open(&checkpoints).expect("the newest checkpoint").version(),
        5
    );
}

/// Records that this program cannot apply end the process's part, with the reason.
#[test]
fn records_of_another_program_are_refused() {
    let later_format = [2, 1, 0, 0];
    let mut of_version_9 = vec![1, 2];
    for number in [0_u64, 9, 0, 0] {
        of_version_9.extend_from_slice(&number.to_le_bytes());
    }
    of_version_9.extend_from_slice(&[0; 4]);
    for (content, expected) in [
        (&later_format[..], "has the format 2"),
        (&[1, 7][..], "malformed"),
        (&of_version_9, "it follows the version 8"),
    ] {
        let log = MemoryLog::new(LogId(1), GRACE);
        let engine = open(Arc::new(log.clone()));
        let record = Record {
            log: LogId(1),
            writer: 1,
            nonce: 1,
            previous: RecordHash::default(),
            content,
        };
        let (bytes, _) = record.encode(1);
        assert_eq!(log.append(1, &bytes), Ok(Append::Appended));
        for _ in 0..2 {
            let error = engine.begin().map(drop).expect_err("it cannot be applied");
            assert!(error.to_string().contains(expected), "{error}");
        }
        let opened = MemoryEngine::shared(Arc::new(log), SharedOptions::default());
        let error = opened.map(drop).expect_err("it cannot be applied");
        assert!(error.to_string().contains(expected), "{error}");
    }
}

/// Two processes with threads that raise counters: none is lost.
#[test]
fn counters_of_two_processes() {
    const RAISES: u64 = 100;
    let log = Arc::new(MemoryLog::new(LogId(1), GRACE));
    let engines = [open(log.clone()), open(log.clone())];
    thread::scope(|scope| {
        for (at, engine) in engines.iter().enumerate() {
            for _ in 0..2 {
                scope.spawn(move || crate::directory::raise(engine, RAISES, at % 2 == 0));
            }
        }
    });
    for engine in &engines {
        assert_eq!(crate::directory::counter(engine), 4 * RAISES);
        assert_eq!(engine.version(), 4 * RAISES);
    }
}

/// The place behind what is applied is where a checkpoint of it begins.
#[test]
fn the_applied_place_is_known() {
    let log = MemoryLog::new(LogId(1), GRACE);
    let (checkpoints, time) = (Checkpoints::default(), SimTime::default());
    let engine = open_map(&log, &checkpoints, &time, LogRetention::default()).expect("opened");
    assert_eq!(engine.applied(), Some(LogPoint::default()));
    commit(&engine, b"");
    engine.backend().checkpoint();
    let point = checkpoints.newest().point;
    assert_eq!(engine.applied(), Some(point));
    assert_eq!(point.next, 2);
}
