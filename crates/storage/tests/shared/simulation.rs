//! Random histories of several engines on one faulty log, each deterministic by its seed.
//!
//! Transactions of all processes are open at once: they read, write and commit, and their change-stream entries say
//! what they read and wrote. Processes load in bulk, read and trim the change stream, take checkpoints and trim the
//! log; they crash between calls and within a call of the log, and are opened again. Within such a call another
//! process, whose connection is good, commits, takes a checkpoint, and trims. Requests and answers are lost, late and
//! duplicated; the log forgets what is trimmed. Afterwards the log alone is the truth:
//! - every transaction in it read what all before it had written (serializable, in the order of the log);
//! - one that was acknowledged is in it once, with its version; one that was refused is not; one with an unknown
//!   outcome is at most once;
//! - a transaction that began after another one was acknowledged reads its writes (strict);
//! - every process has the state of the log up to its version, and so has a cache that its hook keeps;
//! - the change stream was read without gaps.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use isomer_shared_log::{Fate, Faults, Hook, LogId, MemoryLog, Moment, Record, Retry, SharedLog};
use isomer_storage::{
    Commit, CommitHook, Durability, EngineTransaction, Granule, GroupRecord, GuardMode, KeyRange,
    LogRetention, Optimistic, SharedOptions, StorageError, StreamEntry, Version, WriteSet,
};
use isomer_vfs::{SimTime, Time};

use crate::backend::{Checkpoints, Map, MapBackend, apply};

/// Histories of a run; with `ISOMER_TEST_QUICK` a tenth of them.
const HISTORIES: u64 = 4_000;
const STEPS: usize = 60;
const KEYS: u64 = 6;
const GRACE: Duration = Duration::from_secs(60);
/// The change stream keeps this much in the histories that limit it.
const STREAM_MS: u64 = 200_000;

/// SplitMix64.
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ (number >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

/// What a transaction read and wrote: its entry in the change stream. Values are numbers; 0 is a missing key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Entry {
    id: u64,
    reads: Vec<(u64, u64)>,
    writes: Vec<(u64, u64)>,
}

impl Entry {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut put = |number: u64| out.extend_from_slice(&number.to_le_bytes());
        put(self.id);
        for pairs in [&self.reads, &self.writes] {
            put(pairs.len() as u64);
            for (key, value) in pairs {
                put(*key);
                put(*value);
            }
        }
        out
    }

    fn decode(bytes: &[u8]) -> Self {
        let mut numbers = bytes.as_chunks::<8>().0.iter();
        let mut take = || u64::from_le_bytes(*numbers.next().expect("a number"));
        let id = take();
        let mut pairs = || (0..take()).map(|_| (take(), take())).collect();
        let (reads, writes) = (pairs(), pairs());
        Self { id, reads, writes }
    }
}

/// Whether the process is too far behind.
fn is_fence(error: &StorageError) -> bool {
    error.to_string().contains("too far behind")
}

fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

fn value_of(map: &Map, number: u64) -> u64 {
    map.get(&key(number)[..])
        .map_or(0, |value| number_in(value))
}

fn number_in(value: &[u8]) -> u64 {
    u64::from_be_bytes(value.try_into().expect("eight bytes"))
}

/// A cache that a process keeps by its hook.
#[derive(Debug, Default)]
struct Cache(Mutex<(Version, Map)>);

impl Cache {
    fn put(&self, commit: &Commit<'_>) {
        let mut cache = self.0.lock().expect("no panic");
        assert_eq!(
            commit.version,
            cache.0 + 1,
            "the hook hears of every commit"
        );
        cache.0 = commit.version;
        apply(&mut cache.1, commit);
    }
}

impl CommitHook for Cache {
    fn committing(&self, version: Version, stream: &[u8]) {
        // What this process writes it knows from the entry.
        let entry = Entry::decode(stream);
        let mut writes = WriteSet::new();
        write(&entry.writes, &mut |key, value| match value {
            Some(value) => writes.put(key, value),
            None => writes.delete(key),
        });
        self.put(&Commit {
            version,
            writes: &writes,
            stream,
        });
    }

    fn committing_remote(&self, commit: &Commit<'_>) {
        self.put(commit);
    }

    fn abandoned(&self, from: Version) {
        panic!("the commits from {from} on are in the log");
    }

    fn unsettled(&self, from: Version) {
        panic!("the backend applies all from {from} on");
    }
}

/// Called with a key and its value; `None` for a deletion.
type Writer<'a> = dyn FnMut(&[u8], Option<&[u8]>) + 'a;

/// Calls `write` with each write; 0 is a deletion.
fn write(writes: &[(u64, u64)], write: &mut Writer<'_>) {
    for (number, value) in writes {
        let bytes = value.to_be_bytes();
        write(&key(*number), (*value != 0).then_some(&bytes));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Acknowledged(Version),
    Refused,
    Unknown,
}

/// A part of the change stream, as a process read it.
#[derive(Debug)]
struct StreamPart {
    after: Version,
    /// It was trimmed up to here when it had been read.
    trimmed: Version,
    /// No commit above this was asked for.
    upto: Version,
    /// Whether `upto` was reached.
    is_all: bool,
    entries: Vec<StreamEntry>,
}

/// What the processes reported, and the source of all chance.
#[derive(Debug)]
struct Ledger {
    random: Random,
    outcomes: BTreeMap<u64, (Entry, Outcome)>,
    /// The highest version that was acknowledged.
    acknowledged: Version,
    streams: Vec<StreamPart>,
    /// The highest version up to which a trim of the change stream was asked for.
    trimmed: Version,
    ids: u64,
    crashes: u64,
    /// Processes whose records were trimmed before they had applied them.
    fenced: u64,
    trims: u64,
}

/// What all processes share. Clones share it.
#[derive(Clone)]
struct Common {
    log: MemoryLog,
    checkpoints: Checkpoints,
    time: SimTime,
    ledger: Arc<Mutex<Ledger>>,
    limits_stream: bool,
}

/// A process.
struct Process {
    engine: Optimistic<MapBackend>,
    log: MemoryLog,
    cache: Arc<Cache>,
}

/// An open transaction.
struct Begun {
    entry: Entry,
    transaction: Box<dyn EngineTransaction>,
}

/// The process has crashed, or its engine is unusable: it is to be opened again.
struct Ended;

impl Common {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // A process that is closed while a test fails is not to hide the failure.
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn below(&self, limit: u64) -> u64 {
        self.ledger().random.below(limit)
    }

    fn some_faults(&self) -> Faults {
        let mut ledger = self.ledger();
        let mut some = |most| match ledger.random.below(3) {
            0 => 0,
            _ => ledger.random.below(most) as u32,
        };
        Faults {
            lost_requests: some(100),
            lost_answers: some(200),
            late: some(150),
            duplicated: some(150),
            unavailable: some(100),
            stale_lists: 0,
        }
    }

    fn open(&self, faults: Faults, rival: Option<&Rival>) -> Result<Process, StorageError> {
        let (seed, draws) = {
            let mut ledger = self.ledger();
            (ledger.random.next(), ledger.random.next())
        };
        let hook = rival.map(Rival::hook);
        let log = self.log.with_faults(faults, seed, hook);
        let draws = Mutex::new(Random(draws));
        let time = self.time.clone();
        let skew_ms = self.below(20_000);
        let options = SharedOptions {
            clock: Arc::new(move || 1_000_000 + skew_ms + time.now().as_millis() as u64),
            random: Arc::new(move || draws.lock().expect("no panic").next()),
            time: Arc::new(self.time.clone()),
            retry: Retry {
                deadline: Duration::from_millis(self.below(200)),
                ..Retry::default()
            },
            retention: LogRetention {
                stream_ms: self.limits_stream.then_some(STREAM_MS),
                ..LogRetention::default()
            },
            follow: false,
        };
        let backend = MapBackend::open(&self.checkpoints);
        let engine = Optimistic::shared(backend, Arc::new(log.clone()), options)?;
        let cache = Arc::new(Cache(Mutex::new(engine.backend().content())));
        engine.set_hook(cache.clone());
        Ok(Process { engine, log, cache })
    }

    /// The outcome of a call that only reads.
    fn ended<T>(&self, process: &Process, outcome: Result<T, StorageError>) -> Result<T, Ended> {
        outcome.map_err(|error| {
            let crashed = process.log.is_crashed();
            let passes = matches!(error, StorageError::Unavailable(_));
            assert!(passes || crashed, "{error}");
            self.note_fence(&error);
            Ended
        })
    }

    fn note_fence(&self, error: &StorageError) {
        self.ledger().fenced += u64::from(is_fence(error));
    }

    /// A transaction that has read some keys.
    fn begin(&self, process: &Process) -> Result<Begun, Ended> {
        let acknowledged = self.ledger().acknowledged;
        let mut transaction = self.ended(process, process.engine.begin())?;
        assert!(
            transaction.version() >= acknowledged,
            "version {} is read after {acknowledged} was acknowledged",
            transaction.version()
        );
        let mut ledger = self.ledger();
        ledger.ids += 1;
        let mut entry = Entry {
            id: ledger.ids,
            ..Entry::default()
        };
        for _ in 0..ledger.random.below(4) {
            let number = ledger.random.below(KEYS);
            transaction.guard(Granule(number.into()), GuardMode::Read);
            let value = transaction.get(&key(number)).expect("a value in memory");
            let value = value.map_or(0, |value| number_in(&value));
            entry.reads.push((number, value));
        }
        Ok(Begun { entry, transaction })
    }

    /// Writes and commits.
    fn commit(&self, process: &Process, begun: Begun) -> Result<(), Ended> {
        let Begun {
            mut entry,
            mut transaction,
        } = begun;
        let durability = {
            let mut ledger = self.ledger();
            for number in 0..KEYS {
                if ledger.random.below(4) > 0 {
                    continue;
                }
                let is_deleted = ledger.random.below(5) == 0;
                let value = if is_deleted { 0 } else { entry.id };
                entry.writes.push((number, value));
                let was_read = entry.reads.iter().any(|(read, _)| *read == number);
                let mode = match was_read {
                    true => GuardMode::Write,
                    false => GuardMode::Add,
                };
                transaction.guard(Granule(number.into()), mode);
                let (key, bytes) = (key(number), value.to_be_bytes());
                let written = match (is_deleted, ledger.random.below(2)) {
                    (false, _) => transaction.put(&key, &bytes),
                    (true, 0) => transaction.delete(&key),
                    (true, _) => transaction.delete_range(KeyRange {
                        start: &key,
                        end: Some(&crate::simulation::key(number + 1)),
                    }),
                };
                written.expect("it fits");
            }
            match ledger.random.below(2) {
                0 => Durability::Synced,
                _ => Durability::Buffered,
            }
        };
        transaction.append_stream_owned(entry.encode());
        let committed = transaction.commit(durability);
        self.note(process, entry, committed)
    }

    /// Loads keys that no transaction has: a commit that conflicts with all that began before it.
    fn load(&self, process: &Process) -> Result<(), Ended> {
        let id = {
            let mut ledger = self.ledger();
            ledger.ids += 1;
            ledger.ids
        };
        let entry = Entry {
            id,
            reads: Vec::new(),
            writes: vec![(1000 + id, id)],
        };
        let pair = (key(1000 + id).to_vec(), id.to_be_bytes().to_vec());
        let stream = entry.encode();
        let loaded = process
            .engine
            .ingest(&mut std::iter::once(Ok(pair)), Some(&stream));
        self.note(process, entry, loaded)
    }

    fn note(
        &self,
        process: &Process,
        entry: Entry,
        committed: Result<Version, StorageError>,
    ) -> Result<(), Ended> {
        let is_crashed = process.log.is_crashed();
        let mut ledger = self.ledger();
        let (outcome, ends) = match committed {
            // A process that crashed reports nothing.
            _ if is_crashed => (Outcome::Unknown, true),
            Ok(version) => (Outcome::Acknowledged(version), false),
            Err(StorageError::Conflict { .. }) => (Outcome::Refused, false),
            Err(StorageError::CommitUnknown(_)) => (Outcome::Unknown, false),
            Err(error @ StorageError::Unavailable(_)) => {
                ledger.fenced += u64::from(is_fence(&error));
                (Outcome::Refused, true)
            }
            Err(error) => panic!("{error}"),
        };
        if let Outcome::Acknowledged(version) = outcome {
            ledger.acknowledged = ledger.acknowledged.max(version);
        }
        ledger.outcomes.insert(entry.id, (entry, outcome));
        match ends {
            true => Err(Ended),
            false => Ok(()),
        }
    }

    /// Reads a part of the change stream.
    fn read_stream(&self, process: &Process) -> Result<(), Ended> {
        let engine = &process.engine;
        let (after, most) = {
            let mut ledger = self.ledger();
            let upto = ledger.acknowledged + 1;
            (
                ledger.random.below(upto),
                1 + ledger.random.below(10) as usize,
            )
        };
        let upto = engine.version();
        let entries = self.ended(process, engine.stream(after, most, 1 << 20, false))?;
        let trimmed = self.ended(process, engine.stream_trimmed())?;
        let is_all = entries.len() < most;
        self.ledger().streams.push(StreamPart {
            after,
            trimmed,
            upto,
            is_all,
            entries,
        });
        Ok(())
    }

    fn trim_stream(&self, process: &Process) -> Result<(), Ended> {
        let upto = {
            let mut ledger = self.ledger();
            let upto = ledger.acknowledged.saturating_sub(ledger.random.below(6));
            ledger.trimmed = ledger.trimmed.max(upto);
            upto
        };
        match process.engine.trim_stream(upto) {
            Err(StorageError::CommitUnknown(_)) => Ok(()),
            outcome => self.ended(process, outcome),
        }
    }

    fn trim_log(&self, process: &Process) -> Result<(), Ended> {
        let before = self.log.first().expect("a good connection");
        let trimmed = match process.engine.trim_log() {
            Err(StorageError::CommitUnknown(_)) => Ok(()),
            outcome => outcome,
        };
        let mut ledger = self.ledger();
        ledger.trims += u64::from(self.log.first().expect("a good connection") > before);
        drop(ledger);
        self.ended(process, trimmed)
    }

    /// The cache of the process has what the process has.
    fn check_cache(&self, process: &Process) {
        let content = process.engine.backend().content();
        let cache = process.cache.0.lock().expect("no panic");
        assert_eq!(*cache, content, "the cache of a process");
    }
}

/// A process that works while others are within a call.
#[derive(Clone)]
struct Rival {
    common: Common,
    process: Arc<Mutex<Process>>,
}

impl Rival {
    fn new(common: &Common) -> Self {
        let process = common.open(Faults::default(), None);
        Self {
            common: common.clone(),
            process: Arc::new(Mutex::new(process.expect("a good connection"))),
        }
    }

    fn hook(&self) -> Hook {
        let rival = self.clone();
        Arc::new(move |moment| rival.pass(moment))
    }

    fn pass(&self, _: Moment) -> Fate {
        let common = &self.common;
        match common.below(120) {
            0 => {
                common.ledger().crashes += 1;
                return Fate::Crash;
            }
            1 => common.time.advance(GRACE / 3),
            2..8 => self.work(|process| {
                let begun = common.begin(process)?;
                common.commit(process, begun)
            }),
            8 => self.work(|process| common.load(process)),
            9 => {
                // The other process is stopped for long, and all that it has not applied is trimmed.
                common.time.advance(GRACE * 2);
                self.work(|process| {
                    process.engine.backend().checkpoint();
                    common.trim_stream(process)?;
                    common.trim_log(process)
                });
            }
            _ => {}
        }
        Fate::Continue
    }

    /// Runs a call of the rival. It is opened again when it was too far behind.
    fn work(&self, call: impl FnOnce(&Process) -> Result<(), Ended>) {
        let Ok(mut process) = self.process.try_lock() else {
            return;
        };
        if call(&process).is_err() {
            let common = &self.common;
            *process = common
                .open(Faults::default(), None)
                .expect("the newest checkpoint is not too old");
        }
    }
}

struct World {
    common: Common,
    rival: Rival,
    processes: Vec<Option<Process>>,
    /// The open transactions of each process.
    open: Vec<Vec<Begun>>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let count = 1 + random.below(4) as usize;
        let ledger = Ledger {
            random,
            outcomes: BTreeMap::new(),
            acknowledged: 0,
            streams: Vec::new(),
            trimmed: 0,
            ids: 0,
            crashes: 0,
            fenced: 0,
            trims: 0,
        };
        let common = Common {
            log: MemoryLog::forgetful(LogId(seed.into()), GRACE),
            checkpoints: Checkpoints::default(),
            time: SimTime::default(),
            ledger: Arc::new(Mutex::new(ledger)),
            limits_stream: seed.is_multiple_of(4),
        };
        let mut world = Self {
            rival: Rival::new(&common),
            common,
            processes: (0..count).map(|_| None).collect(),
            open: (0..count).map(|_| Vec::new()).collect(),
        };
        for _ in 0..STEPS {
            world.step();
        }
        world
    }

    fn step(&mut self) {
        let common = self.common.clone();
        let at = common.below(self.processes.len() as u64) as usize;
        let action = common.below(100);
        let Some(process) = &self.processes[at] else {
            let faults = common.some_faults();
            // It may fail for a fault; then it is tried again later.
            self.processes[at] = common.open(faults, Some(&self.rival)).ok();
            return;
        };
        let open = &mut self.open[at];
        let outcome = match action {
            0..35 if open.len() < 4 => common.begin(process).map(|begun| open.push(begun)),
            0..70 if !open.is_empty() => {
                let begun = open.swap_remove(common.below(open.len() as u64) as usize);
                common.commit(process, begun)
            }
            70..74 => common.load(process),
            74..79 => common.read_stream(process),
            79..82 => common.trim_stream(process),
            82..86 => common.trim_log(process),
            86..90 => {
                process.engine.backend().checkpoint();
                Ok(())
            }
            90..94 => {
                common.time.advance(GRACE / 2);
                Ok(())
            }
            94..96 => Err(Ended),
            96.. => {
                common.check_cache(process);
                Ok(())
            }
            _ => Ok(()),
        };
        if outcome.is_err() {
            self.processes[at] = None;
            open.clear();
        }
    }

    /// Compares everything that was reported with the log.
    fn check(&self) {
        // First, because late appends may take effect during its calls.
        let newest = self.common.open(Faults::default(), None);
        let newest = newest.expect("the log has everything behind the newest checkpoint");
        let mut map = Map::new();
        let mut states = vec![map.clone()];
        let mut found: BTreeMap<u64, (Version, Entry)> = BTreeMap::new();
        let mut entries: Vec<StreamEntry> = Vec::new();
        let mut last_ms = 0;
        for (at, bytes) in (1..).zip(self.common.log.history()) {
            let (record, _) = Record::decode(&bytes, at, self.common.log.id()).expect("a record");
            let group = GroupRecord::decode(record.content).expect("a group");
            assert_eq!(
                group.head.first as usize,
                states.len(),
                "no version is left out"
            );
            assert!(group.head.time_ms >= last_ms, "the time goes back at {at}");
            last_ms = group.head.time_ms;
            for logged in group.commits().expect("a group") {
                let entry = Entry::decode(logged.stream);
                for (number, value) in &entry.reads {
                    let before = value_of(&map, *number);
                    assert_eq!(before, *value, "{entry:?} at {at} read another value");
                }
                let writes = logged.writes().expect("writes");
                let commit = Commit {
                    version: logged.version,
                    writes: &writes,
                    stream: logged.stream,
                };
                apply(&mut map, &commit);
                for (number, value) in &entry.writes {
                    assert_eq!(value_of(&map, *number), *value, "{entry:?} is not applied");
                }
                states.push(map.clone());
                entries.push(StreamEntry {
                    version: logged.version,
                    bytes: logged.stream.to_vec(),
                });
                let twice = found.insert(entry.id, (logged.version, entry));
                assert_eq!(twice, None, "committed twice");
            }
        }
        let ledger = self.common.ledger();
        for (id, (entry, outcome)) in &ledger.outcomes {
            match (outcome, found.get(id)) {
                (Outcome::Acknowledged(at), Some((found_at, found))) => {
                    assert_eq!((at, entry), (found_at, found));
                }
                // A transaction that writes nothing but its entry is in the log as well.
                (Outcome::Acknowledged(at), None) => {
                    panic!("{entry:?} was acknowledged at {at} and is not in the log");
                }
                (Outcome::Refused, Some(found)) => panic!("{found:?} was refused"),
                (Outcome::Refused, None) | (Outcome::Unknown, _) => {}
            }
        }
        for part in &ledger.streams {
            check_part(part, &entries);
            let limit = match self.common.limits_stream {
                true => Version::MAX,
                false => ledger.trimmed,
            };
            assert!(
                part.trimmed <= limit,
                "no process trimmed up to {}",
                part.trimmed
            );
        }
        drop(ledger);
        let rival = self.rival.process.lock().expect("no panic");
        let processes = self.processes.iter().flatten();
        for process in processes.chain([&*rival, &newest]) {
            let (version, content) = process.engine.backend().content();
            assert_eq!(content, states[version as usize], "the state {version}");
            self.common.check_cache(process);
        }
    }
}

/// A part of the change stream has all entries that it must have.
fn check_part(part: &StreamPart, entries: &[StreamEntry]) {
    let StreamPart {
        after,
        trimmed,
        upto,
        is_all,
        entries: read,
    } = part;
    let last = match is_all {
        true => *upto,
        false => read.last().map_or(0, |last| last.version),
    };
    let is_due = |version: Version| version > (*after).max(*trimmed) && version <= last;
    let due: Vec<&StreamEntry> = entries.iter().filter(|it| is_due(it.version)).collect();
    let has: Vec<&StreamEntry> = read.iter().filter(|it| is_due(it.version)).collect();
    assert_eq!(has, due, "the change stream after {after}");
    for entry in read {
        assert!(entry.version > *after && entries.contains(entry));
    }
}

#[test]
fn no_history_of_processes_has_an_anomaly() {
    let (mut acknowledged, mut refused, mut unknown) = (0, 0, 0);
    let (mut crashes, mut fenced, mut trims, mut parts) = (0, 0, 0, 0);
    let histories = match std::env::var_os("ISOMER_TEST_QUICK") {
        None => HISTORIES,
        Some(_) => HISTORIES / 10,
    };
    for seed in 0..histories {
        let run = std::panic::catch_unwind(|| {
            let world = World::new(seed);
            world.check();
            world
        });
        let world = run.unwrap_or_else(|reason| {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(reason)
        });
        let ledger = world.common.ledger();
        for (_, outcome) in ledger.outcomes.values() {
            match outcome {
                Outcome::Acknowledged(_) => acknowledged += 1,
                Outcome::Refused => refused += 1,
                Outcome::Unknown => unknown += 1,
            }
        }
        crashes += ledger.crashes;
        fenced += ledger.fenced;
        trims += ledger.trims;
        parts += ledger
            .streams
            .iter()
            .filter(|part| !part.entries.is_empty())
            .count() as u64;
    }
    // The histories contain what they are about.
    let seen = format!(
        "{acknowledged} acknowledged, {refused} refused, {unknown} unknown, {crashes} crashes within a call, \
         {fenced} too far behind, {trims} trims, {parts} parts of the change stream"
    );
    eprintln!("{seen}");
    assert!(
        acknowledged > 10 * histories && refused > histories,
        "{seen}"
    );
    assert!(unknown > histories / 4 && crashes > histories / 4, "{seen}");
    assert!(parts > histories, "{seen}");
    assert!(trims > histories / 10 && fenced > histories / 100, "{seen}");
}
