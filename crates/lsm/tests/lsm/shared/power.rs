//! The power is lost while several engines use a database: the log keeps what was synced, and the tables fit it.

use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use isomer_lsm::{LogSharing, LsmEngine, LsmOptions};
use isomer_shared_log::{Append, LogError, LogId, MemoryLog, Position, SharedLog};
use isomer_storage::{Durability, Engine, StorageError, conformance::Random};
use isomer_vfs::{Loss, SimDisk};

use super::{Map, assert_sound, commit, contents, small};

const DB: &str = "/db";
const GRACE: Duration = Duration::from_secs(60);

/// A log that loses records which were not synced, with the power.
#[derive(Debug)]
struct VolatileLog {
    log: Mutex<MemoryLog>,
    synced: AtomicU64,
    is_off: AtomicBool,
}

impl VolatileLog {
    fn new() -> Self {
        Self {
            log: Mutex::new(MemoryLog::new(LogId(7), GRACE)),
            synced: AtomicU64::new(1),
            is_off: AtomicBool::new(false),
        }
    }

    fn check_power(&self) -> Result<(), LogError> {
        match self.is_off.load(Ordering::SeqCst) {
            true => Err(LogError::Refused("the power is gone".to_owned())),
            false => Ok(()),
        }
    }

    fn log(&self) -> MemoryLog {
        self.log.lock().expect("no panic").clone()
    }

    /// Keeps the synced records, and perhaps some others; returns the end. The power is back then.
    fn lose_power(&self, random: &mut Random) -> Position {
        let (log, synced) = (self.log(), self.synced.load(Ordering::SeqCst));
        let end = log.end().expect("an end");
        let kept = synced + random.below(end - synced + 1);
        let new = MemoryLog::new(LogId(7), GRACE);
        for (at, record) in (1..kept).zip(log.history()) {
            assert_eq!(new.append(at, &record), Ok(Append::Appended));
        }
        *self.log.lock().expect("no panic") = new;
        self.synced.store(kept, Ordering::SeqCst);
        self.is_off.store(false, Ordering::SeqCst);
        kept
    }
}

impl SharedLog for VolatileLog {
    fn append(&self, at: Position, record: &[u8]) -> Result<Append, LogError> {
        self.check_power()?;
        self.log().append(at, record)
    }

    fn read(&self, from: Position, max_bytes: usize) -> Result<Vec<Vec<u8>>, LogError> {
        self.log().read(from, max_bytes)
    }

    fn end(&self) -> Result<Position, LogError> {
        self.log().end()
    }

    fn sync(&self, upto: Position) -> Result<(), LogError> {
        self.check_power()?;
        self.synced.fetch_max(upto, Ordering::SeqCst);
        Ok(())
    }

    fn durable(&self) -> Result<Position, LogError> {
        Ok(self.synced.load(Ordering::SeqCst))
    }

    fn first(&self) -> Result<Position, LogError> {
        self.log().first()
    }

    fn trim(&self, below: Position) -> Result<(), LogError> {
        self.log().trim(below)
    }

    fn wait_unless(
        &self,
        seen: Position,
        time: Duration,
        stop: &AtomicBool,
    ) -> Result<Position, LogError> {
        self.log().wait_unless(seen, time, stop)
    }

    fn wake(&self) {
        self.log().wake();
    }

    fn max_record_bytes(&self) -> usize {
        self.log().max_record_bytes()
    }

    fn id(&self) -> LogId {
        self.log().id()
    }

    fn grace(&self) -> Duration {
        GRACE
    }
}

/// Writes some pairs; adds the contents behind each record to `states`. A commit whose outcome is unknown is in the
/// log, whose appends never fail here.
fn write(engine: &LsmEngine, random: &mut Random, step: u32, states: &mut Vec<Map>) {
    let Ok(mut transaction) = engine.begin() else {
        return;
    };
    let mut changed = states[states.len() - 1].clone();
    for _ in 0..1 + random.below(12) {
        let key = vec![random.below(90) as u8];
        match random.below(5) {
            0 => {
                transaction.delete(&key).expect("fits");
                changed.remove(&key);
            }
            _ => {
                let value = step.to_be_bytes().repeat(1 + random.below(200) as usize);
                transaction.put(&key, &value).expect("fits");
                changed.insert(key, value);
            }
        }
    }
    let durability = match random.below(4) {
        0 => Durability::Synced,
        _ => Durability::Buffered,
    };
    match transaction.commit(durability) {
        Ok(_) | Err(StorageError::CommitUnknown(_)) => states.push(changed),
        Err(_) => {}
    }
}

/// Engines commit, flush, compact, follow and end until the power is lost.
fn live(engines: &mut Vec<LsmEngine>, disk: &SimDisk, random: &mut Random, states: &mut Vec<Map>) {
    for step in 0..150 {
        let at = random.below(engines.len() as u64) as usize;
        write(&engines[at], random, step, states);
        let at = random.below(engines.len() as u64) as usize;
        let engine = &engines[at];
        // Without power these fail.
        let _ = match random.below(8) {
            0 if engine.maintains() => engine.flush(),
            1 if engine.maintains() => engine.compact(),
            2 | 3 => engine.follow(),
            4 if engines.len() > 1 && random.below(6) == 0 => {
                drop(engines.swap_remove(at));
                Ok(())
            }
            _ => Ok(()),
        };
        if disk.is_off() {
            break;
        }
    }
}

/// A process that syncs makes everything durable that has returned, in whichever process.
#[test]
fn a_sync_covers_the_commits_of_other_processes() {
    let log = Arc::new(VolatileLog::new());
    let options = LsmOptions {
        disk: Arc::new(SimDisk::new()),
        sharing: LogSharing::Over(log.clone()),
        ..small(false)
    };
    let open = || LsmEngine::open(Path::new(DB), options.clone()).expect("opens");
    let (first, second) = (open(), open());
    commit(&first, &[(b"key", b"value")]);
    let end = log.end().expect("an end");
    assert!(log.durable().expect("known") < end);
    second.sync().expect("synced");
    assert_eq!(log.durable(), Ok(end));
}

#[test]
fn a_loss_of_power_leaves_a_prefix_of_the_log() {
    let (mut cuts, mut commits, mut lost) = (0, 0, 0);
    for seed in 0..120 {
        let mut random = Random(seed);
        let loss = Loss::ALL[(seed % 3) as usize];
        let disk = SimDisk::new();
        let log = Arc::new(VolatileLog::new());
        let options = LsmOptions {
            disk: Arc::new(disk.clone()),
            sharing: LogSharing::Over(log.clone()),
            memtable_bytes: 16 << 10,
            ..small(false)
        };
        let open = || LsmEngine::open(Path::new(DB), options.clone()).expect("opens");
        let mut states = vec![Map::new()];
        for life in 0..4 {
            let mut engines: Vec<LsmEngine> = (0..1 + random.below(3)).map(|_| open()).collect();
            for engine in &engines {
                let found = contents(&*engine.begin().expect("begins"));
                assert!(
                    found == states[states.len() - 1],
                    "seed {seed}, life {life}"
                );
                assert_sound(engine);
            }
            disk.cut_power_at(disk.changes() + random.below(150), loss, seed);
            live(&mut engines, &disk, &mut random, &mut states);
            assert_eq!(log.end().expect("an end"), states.len() as u64);
            commits += states.len();
            let is_off = disk.is_off();
            log.is_off.store(is_off, Ordering::SeqCst);
            drop(engines);
            if is_off {
                cuts += 1;
                let kept = log.lose_power(&mut random) as usize;
                lost += states.len() - kept;
                states.truncate(kept);
            }
            disk.restart();
        }
        let engine = open();
        let found = contents(&*engine.begin().expect("begins"));
        assert!(found == states[states.len() - 1], "seed {seed}");
        engine.flush().expect("flushed");
        engine.compact_all().expect("merged");
        assert_sound(&engine);
    }
    assert!(
        cuts > 150 && commits > 5000 && lost > 100,
        "{cuts} cuts, {commits} commits, {lost} lost"
    );
}
