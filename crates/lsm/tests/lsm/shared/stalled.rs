//! A process that is behind the others: it has not applied what they have put into tables.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use isomer_lsm::{LogSharing, LsmEngine, LsmOptions};
use isomer_shared_log::{Append, LogError, LogId, MemoryLog, Position, SharedLog};
use isomer_storage::{Engine, KeyRange};

use super::{Map, all, assert_sound, commit, contents, open, small};

const GRACE: Duration = Duration::from_secs(60);

/// A log of which a process sees the records before some position, as a process that is stopped has.
#[derive(Debug)]
struct Stalled {
    log: MemoryLog,
    seen: AtomicU64,
}

impl Stalled {
    fn new(log: &MemoryLog) -> Arc<Self> {
        Arc::new(Self {
            log: log.clone(),
            seen: AtomicU64::new(u64::MAX),
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
        let durability = isomer_storage::Durability::Buffered;
        transaction.commit(durability).expect("committed");
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
