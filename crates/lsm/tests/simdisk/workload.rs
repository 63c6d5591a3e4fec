//! A random workload, and the journal of its operations.

use std::{
    collections::BTreeMap,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use isomer_storage::{
    Durability, EngineTransaction, KeyRange, Order, Snapshot, StorageError, Version,
    conformance::{ALL, Random, scan},
};
use isomer_vfs::{Call, Disk, FaultyDisk, Loss, SimDisk};

use crate::subject::{self, DATABASE, Tended};

/// Folder of backups.
pub const BACKUPS: &str = "/backups";

/// Contents of a database.
pub type Pairs = BTreeMap<Vec<u8>, Arc<[u8]>>;

/// The contents after a commit.
#[derive(Clone)]
pub struct State {
    /// The commit; 0 initially.
    pub version: Version,
    /// All pairs.
    pub pairs: Arc<Pairs>,
    /// The commit's entry in the change stream.
    pub stream: Vec<u8>,
    /// The caller does not know whether it took effect.
    pub unknown: bool,
}

/// A copy of the database made during the workload.
pub struct Copied {
    /// Its folder.
    pub folder: PathBuf,
    /// Its version.
    pub version: Version,
    /// The change of the disk before which it was complete; `None` if it was not.
    pub finished: Option<u64>,
    /// The change of the disk before which it was started.
    pub begun: u64,
}

/// The operations, and their times (in changes of the disk).
#[derive(Default)]
pub struct Journal {
    /// After each commit, versions ascending.
    pub states: Vec<State>,
    /// From the change on, the version must survive.
    pub durable: Vec<(u64, Version)>,
    /// From the change on, the change stream up to the version may be gone.
    pub trims: Vec<(u64, Version)>,
    /// Copies of the database.
    pub copies: Vec<Copied>,
    /// Backups of it, all in one folder.
    pub backups: Vec<Copied>,
    /// Error messages.
    pub refused: Vec<String>,
    /// The disk after a loss of power when the database was reopened after the first fault, and the change at
    /// which it would have been lost.
    pub reopened: Option<(SimDisk, u64)>,
}

impl Journal {
    /// The newest version that must be there after a loss of power at `change`.
    pub fn durable_at(&self, change: u64) -> Version {
        let before = self.durable.iter().filter(|(at, _)| *at <= change);
        before.map(|(_, version)| *version).max().unwrap_or(0)
    }

    /// The trim watermark at `change`, at most.
    pub fn trimmed_at(&self, change: u64) -> Version {
        let before = self.trims.iter().filter(|(at, _)| *at <= change);
        before.map(|(_, version)| *version).max().unwrap_or(0)
    }

    /// The last state that is known to exist if nothing is lost.
    pub fn last(&self) -> &State {
        let known = self.states.iter().rev().find(|state| !state.unknown);
        known.expect("the state before all")
    }
}

/// The log of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalKind {
    /// Its own.
    Private,
    /// One that so many processes share. Each operation is one of any of them.
    Shared { processes: u64 },
}

impl WalKind {
    fn processes(self) -> u64 {
        match self {
            Self::Private => 1,
            Self::Shared { processes } => processes,
        }
    }
}

/// A write of a transaction.
enum Write {
    Put(Vec<u8>, Arc<[u8]>),
    Delete(Vec<u8>),
    DeleteRange(Vec<u8>, Vec<u8>),
}

impl Write {
    fn apply(&self, pairs: &mut Pairs) {
        match self {
            Self::Put(key, value) => drop(pairs.insert(key.clone(), value.clone())),
            Self::Delete(key) => drop(pairs.remove(key)),
            Self::DeleteRange(start, end) => pairs.retain(|key, _| key < start || key >= end),
        }
    }

    fn make(&self, transaction: &mut dyn EngineTransaction) -> Result<(), StorageError> {
        match self {
            Self::Put(key, value) => transaction.put(key, value),
            Self::Delete(key) => transaction.delete(key),
            Self::DeleteRange(start, end) => transaction.delete_range(KeyRange {
                start,
                end: Some(end),
            }),
        }
    }
}

/// Size of a workload, and its behaviour when a call on the disk fails.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Operations.
    pub rounds: u64,
    /// Whether errors are expected: they are recorded, and the work continues.
    pub faults: bool,
    /// The log of the database.
    pub log: WalKind,
}

/// Properties of commits.
#[derive(Clone, Copy)]
struct CommitMix {
    /// Whether they have an entry of the change stream.
    streams: bool,
    /// One in this many is buffered only, or all but one in this many are.
    buffered: u64,
    mostly_buffered: bool,
}

struct HeldSnapshot {
    snapshot: Arc<dyn Snapshot>,
    pairs: Arc<Pairs>,
}

/// A process that has the database open.
struct Process {
    engine: Tended,
    /// Set when it is killed: it changes nothing on the disk from then on.
    killed: Arc<AtomicBool>,
}

/// A workload in progress.
pub struct Work<'a> {
    /// The operations so far.
    pub journal: Journal,
    disk: Arc<dyn Disk>,
    sim: &'a SimDisk,
    shape: Shape,
    random: Random,
    /// The processes that have it open; none after an error.
    processes: Vec<Process>,
    /// The one that makes the next operation.
    at: usize,
    /// Set if the process dies by a fault: no call on the disk has an effect until another process begins.
    died: Arc<AtomicBool>,
    /// A call failed.
    failed: bool,
    /// Properties of commits for a while.
    mix: CommitMix,
    held: Vec<HeldSnapshot>,
    what: String,
    /// A failure made the handle unusable, or may have.
    hurt: bool,
    /// A commit had an unknown outcome: no other may succeed until reopening.
    dead: bool,
}

/// Runs the workload of `seed` on `disk`, which counts its changes in `sim`.
pub fn run(disk: Arc<dyn Disk>, sim: &SimDisk, seed: u64, shape: Shape) -> Journal {
    run_mortal(disk, sim, seed, shape, Arc::default())
}

/// The same by a process that dies when `died` is set, and another that continues then.
pub fn run_mortal(
    disk: Arc<dyn Disk>,
    sim: &SimDisk,
    seed: u64,
    shape: Shape,
    died: Arc<AtomicBool>,
) -> Journal {
    let mut work = Work::new(disk, sim, seed, shape);
    work.died = died;
    work.open();
    work.rise();
    for round in 0..shape.rounds {
        if work.processes.is_empty() {
            break;
        }
        work.act(round);
        work.rise();
    }
    work.close();
    work.journal
}

/// The same, but at the end everything is synced and flushed, and the database stays open.
pub fn run_and_leave(
    disk: Arc<dyn Disk>,
    sim: &SimDisk,
    seed: u64,
    shape: Shape,
) -> (Journal, Vec<Tended>) {
    let mut work = Work::new(disk, sim, seed, shape);
    assert!(work.open(), "nothing fails without a fault");
    for round in 0..shape.rounds {
        work.act(round);
    }
    work.commit(shape.rounds);
    work.sync();
    work.flush();
    let engines = work.abandon();
    (work.journal, engines)
}

impl<'a> Work<'a> {
    /// Nothing done yet.
    pub fn new(disk: Arc<dyn Disk>, sim: &'a SimDisk, seed: u64, shape: Shape) -> Self {
        let mut journal = Journal::default();
        journal.states.push(State {
            version: 0,
            pairs: Arc::default(),
            stream: Vec::new(),
            unknown: false,
        });
        Self {
            journal,
            disk,
            sim,
            shape,
            random: Random(seed),
            processes: Vec::new(),
            at: 0,
            died: Arc::default(),
            failed: false,
            mix: CommitMix {
                streams: true,
                buffered: 3,
                mostly_buffered: false,
            },
            held: Vec::new(),
            what: format!("seed {seed}"),
            hurt: false,
            dead: false,
        }
    }

    /// Opens the database in all processes that do not have it open; returns false if that failed in one.
    pub fn open(&mut self) -> bool {
        while (self.processes.len() as u64) < self.shape.log.processes() {
            if !self.open_one() {
                return false;
            }
        }
        true
    }

    fn open_one(&mut self) -> bool {
        let killed: Arc<AtomicBool> = Arc::default();
        let is_killed = killed.clone();
        let hook = move |call: Call, _: &Path| match is_killed.load(Ordering::SeqCst) {
            // A process that has ended does not see that a sync fails, and does not tell others.
            true if call == Call::Sync && !std::thread::panicking() => {
                std::panic::resume_unwind(Box::new("killed"));
            }
            true => Err(io::Error::other("killed")),
            false => Ok(()),
        };
        let disk = FaultyDisk::new(self.disk.clone(), Arc::new(hook));
        let is_alone = self.processes.is_empty();
        match subject::open(Arc::new(disk), Path::new(DATABASE)) {
            Ok(engine) => {
                self.processes.push(Process { engine, killed });
                self.at = self.processes.len() - 1;
                self.settle();
                self.check_opened();
                if is_alone {
                    self.note_opened();
                }
                true
            }
            Err(error) => {
                self.refuse("opening", error);
                false
            }
        }
    }

    /// In a shared database the processes go on after a commit of unknown outcome: it has taken effect once it is seen.
    fn settle(&mut self) {
        if !self.dead || self.shape.log == WalKind::Private {
            return;
        }
        let unknown = self.journal.states.last_mut().expect("a state");
        let seen = self.processes[self.at].engine.engine().snapshot();
        if unknown.unknown && seen.is_ok_and(|seen| seen.version() == unknown.version) {
            unknown.unknown = false;
            self.dead = false;
        }
    }

    /// Checks the version after opening: a commit of unknown outcome took effect or did not, buffered commits
    /// may be lost if a call failed.
    fn check_opened(&mut self) {
        let version = self.engine().version();
        let known = self.journal.last().version;
        if version == known && !self.dead {
            return;
        }
        let durable = self.journal.durable_at(u64::MAX);
        assert!(
            self.hurt && version >= durable,
            "{}: version {version} is there after opening, {known} was committed, {durable} durably",
            self.what
        );
        self.journal.states.retain(|state| state.version <= version);
        let state = self.journal.states.last_mut().expect("a state");
        assert_eq!(state.version, version, "{}: never committed", self.what);
        state.unknown = false;
        self.dead = false;
        self.check("after opening");
    }

    /// Everything found by opening is durable from then on, whatever failed before.
    fn note_opened(&mut self) {
        if !self.shape.faults {
            return;
        }
        let change = self.sim.changes();
        let version = self.journal.last().version;
        self.journal.durable.push((change, version));
        if self.failed && self.journal.reopened.is_none() {
            let left = self.sim.after_power_loss(Loss::Everything, 0);
            self.journal.reopened = Some((left, change));
        }
    }

    /// Starts another process if this one died.
    fn rise(&mut self) {
        if self.died.load(Ordering::SeqCst) {
            self.held.clear();
            self.processes.clear();
            (self.hurt, self.failed) = (true, true);
            self.died.store(false, Ordering::SeqCst);
            self.open();
        }
    }

    fn engine(&self) -> &dyn isomer_storage::Engine {
        self.tended().engine()
    }

    fn tended(&self) -> &Tended {
        &self.processes[self.at].engine
    }

    /// The process that flushes and compacts; it is another one if the one before has ended.
    fn maintainer(&mut self) -> &Tended {
        let maintainer = self.processes.iter().position(|it| it.engine.maintains());
        self.at = maintainer.unwrap_or(self.at);
        if let Err(error) = self.tended().follow() {
            self.refuse("following", error);
        }
        self.tended()
    }

    /// Flushes the memtable.
    fn flush(&mut self) {
        if let Err(error) = self.maintainer().flush() {
            self.refuse("flushing", error);
        }
    }

    /// Records an error; panics if none is expected.
    fn refuse(&mut self, doing: &str, error: StorageError) {
        let what = &self.what;
        assert!(self.shape.faults, "{what}: {doing}: {error}");
        assert!(
            matches!(
                error,
                StorageError::Unavailable(_) | StorageError::CommitUnknown(_)
            ),
            "{what}: {doing}: a failing disk must not cause {error:?}"
        );
        (self.hurt, self.failed) = (true, true);
        self.journal.refused.push(format!("{doing}: {error}"));
    }

    /// One operation.
    pub fn act(&mut self, round: u64) {
        self.at = match self.processes.len() as u64 {
            0 | 1 => 0,
            count => self.random.below(count) as usize,
        };
        self.settle();
        match self.random.below(100) {
            0..55 => self.commit(round),
            55..57 => self.kill(),
            57..59 => {
                if let Err(error) = self.tended().prepare() {
                    self.refuse("making segments ahead", error);
                }
            }
            59..66 => self.flush(),
            66..74 => {
                let whole = self.random.below(3) == 0;
                let maintainer = self.maintainer();
                let result = match whole {
                    true => maintainer.compact_all(),
                    false => maintainer.compact(),
                };
                if let Err(error) = result {
                    self.refuse("compacting", error);
                }
            }
            74..79 => self.ingest(round),
            79..82 => self.copy(round),
            82 => self.back_up(),
            83..87 => self.trim(),
            87..91 => {
                self.close();
                self.open();
            }
            91..93 => self.sync(),
            93..96 => self.hold(),
            _ => self.check("reading"),
        }
        if !self.processes.is_empty() && self.random.below(8) == 0 {
            self.check_held();
        }
    }

    /// Closes it; closing makes everything durable, unless a call fails, which is not reported.
    pub fn close(&mut self) {
        self.held.clear();
        self.processes.clear();
        self.hurt |= self.shape.faults;
        if !self.hurt {
            let version = self.journal.last().version;
            self.journal.durable.push((self.sim.changes(), version));
        }
    }

    /// Ends a process and starts another: nothing that it wrote is lost, and if it was alone, opening makes all of it
    /// durable.
    fn kill(&mut self) {
        self.held.clear();
        let process = self.processes.remove(self.at);
        self.at = 0;
        process.killed.store(true, Ordering::SeqCst);
        // It ends at its next sync.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(process)));
        let was_alone = self.processes.is_empty();
        if self.open() && was_alone && !self.shape.faults {
            let version = self.journal.last().version;
            self.journal.durable.push((self.sim.changes(), version));
        }
    }

    /// Stops without closing, as a killed process does. Returns the engines, to be forgotten once their disk is
    /// gone.
    pub fn abandon(&mut self) -> Vec<Tended> {
        self.held.clear();
        self.hurt = true;
        let processes = self.processes.drain(..);
        processes.map(|process| process.engine).collect()
    }

    fn key(&mut self) -> Vec<u8> {
        let number = self.random.below(160);
        match self.random.below(16) {
            0 => format!("long/{}/{number:03}", "x".repeat(200)).into_bytes(),
            1..5 => vec![0, 7, number as u8],
            _ => format!("key/{number:03}").into_bytes(),
        }
    }

    fn value(&mut self, round: u64) -> Arc<[u8]> {
        let len = match self.random.below(40) {
            0 => 6000,
            1..3 => 1500,
            3..6 => 0,
            _ => self.random.below(80),
        };
        let mut value = round.to_be_bytes().to_vec();
        // Neither constant nor random, so that blocks compress a little.
        value.extend((0..len).map(|at| (at % 7 * (round + at / 50)) as u8));
        value.into()
    }

    fn commit(&mut self, round: u64) {
        if self.random.below(10) == 0 {
            self.mix = CommitMix {
                streams: self.random.below(3) > 0,
                buffered: 3 + self.random.below(6),
                mostly_buffered: self.random.below(3) == 0,
            };
        }
        let mix = self.mix;
        let mut stream = round.to_be_bytes().to_vec();
        let buffered = (self.random.below(mix.buffered) == 0) != mix.mostly_buffered;
        let durability = match buffered {
            true => Durability::Buffered,
            false => Durability::Synced,
        };
        let mut transaction = match self.engine().begin() {
            Ok(transaction) => transaction,
            Err(error) => return self.refuse("beginning", error),
        };
        let writes = self.writes(round, mix, &mut stream);
        let made = writes.iter().map(|write| write.make(&mut *transaction));
        if let Some(error) = made.filter_map(Result::err).next() {
            return self.refuse("writing", error);
        }
        match mix.streams {
            true => transaction.append_stream(&stream),
            false => stream.clear(),
        }
        let result = transaction.commit(durability);
        self.committed(result, &writes, stream, durability == Durability::Synced);
    }

    /// The writes of a transaction; adds its keys to its entry of the change stream.
    fn writes(&mut self, round: u64, mix: CommitMix, stream: &mut Vec<u8>) -> Vec<Write> {
        let mut writes = Vec::new();
        for _ in 0..1 + self.random.below(12) {
            let key = self.key();
            writes.push(match self.random.below(10) {
                0 | 1 => Write::Delete(key),
                2 if self.random.below(3) == 0 => Write::DeleteRange(key, self.key()),
                _ => {
                    stream.extend_from_slice(&key);
                    Write::Put(key, self.value(round))
                }
            });
        }
        // Without an entry of the change stream, a commit that changes nothing is not a commit.
        let large = self.random.below(30) == 0;
        if large || !mix.streams {
            // Larger than a segment of the log.
            let len = if large { 9 << 10 } else { 8 };
            writes.push(Write::Put(self.key(), vec![round as u8; len].into()));
        }
        writes
    }

    fn committed(
        &mut self,
        result: Result<Version, StorageError>,
        writes: &[Write],
        stream: Vec<u8>,
        durable: bool,
    ) {
        if let Ok(version) = result {
            self.settle_before(version);
        }
        let what = &self.what;
        let last = self.journal.last();
        let next = last.version + 1;
        let mut pairs = (*last.pairs).clone();
        writes.iter().for_each(|write| write.apply(&mut pairs));
        let state = |unknown| State {
            version: next,
            pairs: Arc::new(pairs),
            stream,
            unknown,
        };
        match result {
            Ok(version) => {
                assert_eq!(version, next, "{what}: versions go up by one");
                assert!(
                    !self.dead,
                    "{what}: a commit succeeds after one of unknown outcome"
                );
                self.journal.states.push(state(false));
                if durable {
                    self.journal.durable.push((self.sim.changes(), version));
                }
            }
            Err(error) => {
                if matches!(error, StorageError::CommitUnknown(_)) {
                    if !self.dead {
                        self.journal.states.push(state(true));
                    }
                    self.dead = true;
                }
                self.refuse("committing", error);
            }
        }
    }

    /// In a shared database, the version of the next commit says whether one of unknown outcome has taken effect.
    fn settle_before(&mut self, version: Version) {
        if !self.dead || self.shape.log == WalKind::Private {
            return;
        }
        let states = &mut self.journal.states;
        if let Some(state) = states.last_mut().filter(|state| state.unknown) {
            match state.version < version {
                true => state.unknown = false,
                false => drop(states.pop()),
            }
        }
        self.dead = false;
    }

    fn ingest(&mut self, round: u64) {
        let stream = round.to_be_bytes().to_vec();
        let count = self.random.below(60);
        let loaded: Vec<Write> = (0..count)
            .map(|number| {
                let key = format!("load/{round:05}/{number:05}").into_bytes();
                Write::Put(key, self.value(round))
            })
            .collect();
        let mut input = loaded.iter().filter_map(|write| match write {
            Write::Put(key, value) => Some(Ok((key.clone(), value.to_vec()))),
            Write::Delete(_) | Write::DeleteRange(..) => None,
        });
        let result = self.engine().ingest(&mut input, Some(&stream));
        self.committed(result, &loaded, stream, true);
    }

    /// Adds a backup to the earlier ones.
    fn back_up(&mut self) {
        let begun = self.sim.changes();
        let version = self.journal.last().version;
        let result = self.tended().backup(Path::new(BACKUPS));
        let finished = result.is_ok().then(|| self.sim.changes());
        self.journal.backups.push(Copied {
            folder: BACKUPS.into(),
            version,
            finished,
            begun,
        });
        match result {
            Ok(found) => assert_eq!(found, version, "{}: of another version", self.what),
            Err(error) => self.refuse("backing up", error),
        }
    }

    fn copy(&mut self, round: u64) {
        let folder = PathBuf::from(format!("/copy{round}"));
        let begun = self.sim.changes();
        let version = self.journal.last().version;
        let result = self.engine().checkpoint(&folder);
        let finished = result.is_ok().then(|| self.sim.changes());
        self.journal.copies.push(Copied {
            folder,
            version,
            finished,
            begun,
        });
        if let Err(error) = result {
            self.refuse("copying", error);
        }
    }

    fn trim(&mut self) {
        // Often all of it: then nothing else keeps flushed parts of the log.
        let last = self.journal.last().version;
        let upto = match self.random.below(2) {
            0 => last,
            _ => self.random.below(last + 1),
        };
        self.journal.trims.push((self.sim.changes(), upto));
        if let Err(error) = self.engine().trim_stream(upto) {
            self.refuse("trimming", error);
        }
    }

    fn sync(&mut self) {
        match self.engine().sync() {
            Ok(()) => {
                let version = self.journal.last().version;
                self.journal.durable.push((self.sim.changes(), version));
            }
            Err(error) => self.refuse("syncing", error),
        }
    }

    fn hold(&mut self) {
        if self.held.len() == 4 {
            self.held.remove(0);
        }
        match self.engine().snapshot() {
            Ok(snapshot) => self.held.push(HeldSnapshot {
                snapshot,
                pairs: self.journal.last().pairs.clone(),
            }),
            Err(error) => self.refuse("taking a snapshot", error),
        }
    }

    fn check_held(&mut self) {
        for held in std::mem::take(&mut self.held) {
            self.compare(&*held.snapshot, &held.pairs.clone(), "an older snapshot");
            self.held.push(held);
        }
    }

    /// Reads everything, in both directions, and single keys.
    pub fn check(&mut self, doing: &str) {
        match self.engine().snapshot() {
            Ok(snapshot) => {
                let pairs = self.journal.last().pairs.clone();
                self.compare(&*snapshot, &pairs, doing);
                self.check_stream(doing);
            }
            Err(error) => self.refuse(doing, error),
        }
    }

    /// The change stream has every commit that was not trimmed.
    fn check_stream(&mut self, doing: &str) {
        let trimmed = self.journal.trimmed_at(u64::MAX);
        match self.engine().stream(trimmed, 100_000, usize::MAX, false) {
            Ok(stream) => {
                let kept = self.journal.states.iter();
                let expected: Vec<_> = kept
                    .filter(|state| state.version > trimmed && !state.unknown)
                    .filter(|state| !state.stream.is_empty())
                    .map(|state| (state.version, &state.stream))
                    .collect();
                let found: Vec<_> = stream
                    .iter()
                    .map(|entry| (entry.version, &entry.bytes))
                    .collect();
                assert!(
                    found == expected,
                    "{}: {doing}: the change stream behind {trimmed} has {} of {} commits",
                    self.what,
                    found.len(),
                    expected.len()
                );
            }
            Err(error) => self.refuse(doing, error),
        }
    }

    fn compare(&mut self, snapshot: &dyn Snapshot, pairs: &Arc<Pairs>, doing: &str) {
        let what = self.what.clone();
        for _ in 0..4 {
            let key = self.key();
            match snapshot.get(&key) {
                Ok(value) => assert_eq!(
                    value.as_deref(),
                    pairs.get(&key).map(|value| &**value),
                    "{what}: {doing}: the value of {key:?}"
                ),
                Err(error) => self.refuse(doing, error),
            }
        }
        if self.shape.faults {
            match read_all(snapshot) {
                Ok(found) => assert!(found == **pairs, "{what}: {doing}: another content"),
                Err(error) => self.refuse(doing, error),
            }
            return;
        }
        let order = [Order::Ascending, Order::Descending][self.random.below(2) as usize];
        let found = scan(snapshot, ALL, order, 1 + self.random.below(60) as usize);
        let found: Pairs = found.into_iter().map(|(k, v)| (k, v.into())).collect();
        assert_same(&found, pairs, &format!("{what}: {doing}"));
    }
}

/// All pairs, or the error of a read.
pub fn read_all(snapshot: &dyn Snapshot) -> Result<Pairs, StorageError> {
    let mut pairs = Pairs::new();
    let mut page = isomer_storage::Page::new();
    let limit = isomer_storage::PageLimit {
        keys: 100_000,
        bytes: usize::MAX,
    };
    snapshot.scan(ALL, Order::Ascending, limit, &mut page)?;
    assert!(page.next().is_none(), "one page holds all");
    for (key, value) in page.iter() {
        pairs.insert(key.to_vec(), value.into());
    }
    Ok(pairs)
}

/// Panics with the first difference.
pub fn assert_same(found: &Pairs, expected: &Pairs, what: &str) {
    if found == expected {
        return;
    }
    let show = |pairs: &Pairs, key: &[u8]| {
        pairs.get(key).map(|value| {
            let round = value.get(..8).and_then(|eight| eight.try_into().ok());
            format!(
                "{} bytes of round {:?}",
                value.len(),
                round.map(u64::from_be_bytes)
            )
        })
    };
    let keys = found.keys().chain(expected.keys());
    let key = keys
        .filter(|key| found.get(*key) != expected.get(*key))
        .min()
        .expect("a difference");
    panic!(
        "{what}: {} pairs instead of {}; {:?} has {:?}, not {:?}",
        found.len(),
        expected.len(),
        String::from_utf8_lossy(key),
        show(found, key),
        show(expected, key)
    );
}
