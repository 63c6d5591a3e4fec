//! A process that is behind the others: it has not applied what they have put into tables.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use isomer_lsm::{LogSharing, LsmEngine, LsmOptions, Retention};
use isomer_shared_log::{Append, LogError, LogId, MemoryLog, Position, SharedLog};
use isomer_storage::{Durability, Engine, KeyRange, StorageError};

use super::{Map, all, assert_sound, commit, contents, open, small};

const GRACE: Duration = Duration::from_secs(60);

/// A log of which a process sees the records before some position, as a process that is stopped has.
#[derive(Debug)]
struct Stalled {
    log: MemoryLog,
    seen: AtomicU64,
    /// How often its end was asked for.
    looks: AtomicU64,
}

impl Stalled {
    fn new(log: &MemoryLog) -> Arc<Self> {
        Arc::new(Self {
            log: log.clone(),
            seen: AtomicU64::new(u64::MAX),
            looks: AtomicU64::new(0),
        })
    }

    /// Shows the records before `end` and no others.
    fn show(&self, end: Position) {
        self.seen.store(end, Ordering::SeqCst);
    }

    fn seen(&self) -> Position {
        self.seen.load(Ordering::SeqCst)
    }
}

impl SharedLog for Stalled {
    fn append(&self, at: Position, record: &[u8]) -> Result<Append, LogError> {
        self.log.append(at, record)
    }

    fn read(&self, from: Position, max_bytes: usize) -> Result<Vec<Vec<u8>>, LogError> {
        let mut records = self.log.read(from, max_bytes)?;
        records.truncate(self.seen().saturating_sub(from) as usize);
        Ok(records)
    }

    fn end(&self) -> Result<Position, LogError> {
        self.looks.fetch_add(1, Ordering::SeqCst);
        Ok(self.log.end()?.min(self.seen()))
    }

    fn sync(&self, upto: Position) -> Result<(), LogError> {
        self.log.sync(upto)
    }

    fn durable(&self) -> Result<Position, LogError> {
        self.log.durable()
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
        let end = self.log.wait_unless(seen, time, stop)?;
        if end > self.seen() {
            // What the process does not see does not wake it; it must not spin either.
            thread::sleep(Duration::from_millis(1));
        }
        self.end()
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

fn over(log: Arc<dyn SharedLog>, background: bool) -> LsmOptions {
    LsmOptions {
        sharing: LogSharing::Over(log),
        ..small(background)
    }
}

fn adopted(engine: &LsmEngine) -> u64 {
    let statistics = engine.statistics().expect("statistics");
    let found = statistics.details.iter();
    let mut found = found.filter(|(name, _)| name == "adopted_tables");
    let number = found.next().expect("a detail").1.parse();
    number.expect("a number")
}

/// Commits the step with this number, here and in the model.
fn step(engine: &LsmEngine, model: &mut Map, number: u32) {
    let value = number.to_be_bytes().repeat(20);
    if number % 7 == 6 {
        let (start, end) = ([(number % 5 * 8) as u8], [(number % 5 * 8 + 6) as u8]);
        let range = KeyRange {
            start: &start,
            end: Some(&end),
        };
        let mut transaction = engine.begin().expect("begins");
        transaction.delete_range(range).expect("fits");
        transaction.commit(Durability::Buffered).expect("committed");
        model.retain(|key, _| !(&start[..]..&end[..]).contains(&&key[..]));
    } else {
        let keys = [number % 40, number * 7 % 40].map(|key| [key as u8]);
        commit(engine, &[(&keys[0], &value), (&keys[1], &value)]);
        model.extend(keys.map(|key| (key.to_vec(), value.clone())));
    }
}

/// A follower adopts tables when it has applied everything that is in them. Until then it reads what it has applied,
/// though the tables lack the versions that it reads.
#[test]
fn tables_ahead_of_what_is_applied_wait() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = MemoryLog::new(LogId(3), GRACE);
    let stalled = Stalled::new(&log);
    let first = open(folder.path(), &over(Arc::new(log.clone()), false));
    let second = open(folder.path(), &over(stalled.clone(), false));
    assert!(first.maintains() && !second.maintains());
    let mut model = Map::new();
    let mut states = Vec::new();
    let mut number = 0;
    for round in 1..=4 {
        let begin = log.end().expect("an end");
        stalled.show(begin);
        for _ in 0..30 {
            step(&first, &mut model, number);
            number += 1;
            states.push((log.end().expect("an end"), model.clone()));
        }
        first.flush().expect("flushed");
        first.compact_all().expect("merged");
        let end = log.end().expect("an end");
        let before = states.iter().rposition(|(at, _)| *at <= begin);
        let mut expected = before.map_or_else(Map::new, |at| states[at].1.clone());
        for shown in begin..end {
            stalled.show(shown);
            if let Some((_, state)) = states.iter().find(|(at, _)| *at == shown) {
                expected = state.clone();
            }
            second.follow().expect("follows");
            assert_eq!(adopted(&second), round - 1, "record {shown} of {end}");
            assert!(all(&second) == expected, "record {shown} of {end}");
        }
        let held = second.snapshot().expect("a snapshot");
        stalled.show(u64::MAX);
        second.follow().expect("follows");
        assert_eq!(adopted(&second), round);
        assert!(contents(&*held) == expected, "a snapshot never changes");
        assert!(all(&second) == model);
    }
    assert_sound(&second);
    drop(first);
    second.follow().expect("follows");
    assert!(second.maintains());
    assert!(all(&second) == model);
    assert_sound(&second);
}

/// A process that was stopped while others filled more memtables than it keeps catches up: it waits for no flush, for
/// all that it applies is in tables.
#[test]
fn a_process_far_behind_catches_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = MemoryLog::new(LogId(3), GRACE);
    let stalled = Stalled::new(&log);
    let first = open(folder.path(), &over(Arc::new(log.clone()), true));
    let second = open(folder.path(), &over(stalled.clone(), true));
    stalled.show(log.end().expect("an end"));
    let mut model = Map::new();
    // Of 48 KiB each: 40 memtables.
    for number in 0..1000_u32 {
        let key = number.to_be_bytes();
        let value = number.to_be_bytes().repeat(500);
        commit(&first, &[(&key, &value)]);
        model.insert(key.to_vec(), value);
    }
    first.flush().expect("flushed");
    first.compact_all().expect("merged");
    stalled.show(u64::MAX);
    assert!(contents(&*second.begin().expect("it catches up")) == model);
    second.follow().expect("follows");
    assert!(adopted(&second) >= 1);
    commit(&second, &[(b"later", b"value")]);
    assert_sound(&second);
    assert_all_seen(&first, folder.path());
}

fn assert_all_seen(engine: &LsmEngine, folder: &Path) {
    let found = contents(&*engine.begin().expect("begins"));
    assert_eq!(found.len(), 1001, "{}", folder.display());
}

/// Commits until the memory for commits is full, which no process flushes; returns the error.
fn fill(engine: &LsmEngine, model: &mut Map) -> StorageError {
    for number in 0..5000_u32 {
        let (key, value) = (number.to_be_bytes(), number.to_be_bytes().repeat(300));
        match try_commit(engine, &key, &value) {
            Ok(()) => drop(model.insert(key.to_vec(), value)),
            Err(error) => return error,
        }
    }
    panic!("the memory for commits has no limit");
}

fn try_commit(engine: &LsmEngine, key: &[u8], value: &[u8]) -> Result<(), StorageError> {
    let mut transaction = engine.begin()?;
    transaction.put(key, value)?;
    transaction.commit(Durability::Buffered).map(drop)
}

fn assert_names_maintainer(error: &StorageError) {
    let is_clear = matches!(error, StorageError::Unavailable(what)
        if what.contains("has not flushed for") && what.contains("let it continue, or end it"));
    assert!(is_clear, "{error:?}");
}

/// While the process that maintains the tables is stopped, commits of another one are refused when its memory is full:
/// nothing of them is there, and the process goes on by itself when the other one continues, or ends.
#[test]
fn a_full_process_continues_when_the_maintainer_does() {
    for maintainer_ends in [false, true] {
        let folder = tempfile::tempdir().expect("a folder");
        let patient = LsmOptions {
            maintainer_patience: Duration::from_millis(300),
            ..small(true)
        };
        // Without threads it does nothing by itself, as a stopped process.
        let first = open(folder.path(), &small(false));
        let second = open(folder.path(), &patient);
        assert!(first.maintains() && !second.maintains());
        let mut model = Map::new();
        assert_names_maintainer(&fill(&second, &mut model));
        // Later commits need not wait as long to know it, and reads go on.
        for key in [b"x", b"y"] {
            let refused = try_commit(&second, key, &[7; 4000]).expect_err("no memory");
            assert_names_maintainer(&refused);
        }
        assert!(all(&second) == model);
        // Commits of others cannot be applied either: a transaction that would have to see them is refused.
        for number in 0..200_u8 {
            let key = [b'o', number];
            commit(&first, &[(&key, &[number; 2000])]);
            model.insert(key.to_vec(), vec![number; 2000]);
        }
        let behind = all_or_error(&second).expect_err("no memory");
        assert_names_maintainer(&behind);
        match maintainer_ends {
            true => drop(first),
            false => first.flush().expect("flushed"),
        }
        let until = Instant::now() + Duration::from_secs(20);
        let found = loop {
            match all_or_error(&second) {
                Ok(found) => break found,
                Err(error) => assert!(Instant::now() < until, "{error}"),
            }
        };
        assert!(found == model);
        commit(&second, &[(b"later", b"value")]);
        assert_eq!(second.maintains(), maintainer_ends);
        assert_sound(&second);
    }
}

fn all_or_error(engine: &LsmEngine) -> Result<Map, StorageError> {
    engine.begin().map(|transaction| contents(&*transaction))
}

/// The thread of a process whose next record is trimmed ends: it does not look at the log for ever.
#[test]
fn a_process_that_cannot_follow_any_more_is_idle() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = MemoryLog::new(LogId(3), Duration::ZERO);
    let stalled = Stalled::new(&log);
    let first = open(folder.path(), &over(Arc::new(log.clone()), false));
    let second = open(folder.path(), &over(stalled.clone(), true));
    stalled.show(log.end().expect("an end"));
    for number in 0..50_u8 {
        commit(&first, &[(&[number], &[number; 99])]);
    }
    let upto = first.version();
    first.flush().expect("flushed");
    first.trim_stream(upto).expect("trimmed");
    assert!(log.first().expect("a position") > 40);
    stalled.show(u64::MAX);
    let refused = second
        .begin()
        .map(drop)
        .expect_err("its records are trimmed");
    assert!(
        refused.to_string().contains("open the database again"),
        "{refused}"
    );
    // The thread may be within its last look.
    thread::sleep(Duration::from_millis(300));
    let before = stalled.looks.load(Ordering::SeqCst);
    thread::sleep(Duration::from_millis(700));
    assert_eq!(stalled.looks.load(Ordering::SeqCst), before);
}

/// One commit by a process whose clock is an hour ahead: versions of the time before are dropped in time, and the log
/// is trimmed, while the clocks of the others have not reached that time.
#[test]
fn a_clock_that_is_ahead_does_not_keep_versions() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = MemoryLog::new(LogId(3), Duration::ZERO);
    let windowed = LsmOptions {
        retention: Retention {
            versions_ms: 100,
            ..Retention::default()
        },
        ..over(Arc::new(log.clone()), false)
    };
    let now = windowed.clock.clone();
    let ahead = LsmOptions {
        clock: Arc::new(move || now() + 3_600_000),
        ..windowed.clone()
    };
    let first = open(folder.path(), &windowed);
    commit(&open(folder.path(), &ahead), &[(b"key", b"an hour ahead")]);
    let mut last_ahead = 0;
    for round in 0..20_u8 {
        last_ahead = commit(&first, &[(b"key", &[round])]);
    }
    let end = log.end().expect("an end");
    let until = Instant::now() + Duration::from_secs(20);
    while first.oldest_version() <= last_ahead || log.first().expect("a position") < end {
        assert!(Instant::now() < until, "nothing gets old");
        // Longer than the window.
        thread::sleep(Duration::from_millis(120));
        let version = commit(&first, &[(b"key", b"later")]);
        first.trim_stream(version).expect("trimmed");
        first.flush().expect("flushed");
        first.compact_all().expect("merged");
    }
    assert_sound(&first);
}
