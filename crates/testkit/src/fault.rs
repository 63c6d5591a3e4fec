//! Fault injection: an engine that fails on request, and one that loses what was not synced.
//!
//! [`Faulty`] forwards every call to the engine below until a planned fault is due: the n-th call of a kind
//! fails, once or from then on. Created with [`Faulty::forgetful`], it also keeps a log of commits, and
//! [`Faulty::cut_power`] rolls the database back to its last synced commit, with the same versions, as a
//! power cut may.

use std::{
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use isomer_storage::{
    Capabilities, CommitHook, Durability, Engine, EngineSavepoint, EngineTransaction, Granule,
    GuardMode, KeyRange, Order, Page, PageLimit, PairIterator, Read, Snapshot, Statistics,
    StorageError, StreamEntry, ValueVisitor, Version,
};

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// [`Engine::snapshot`].
    Snapshot,
    /// [`Engine::begin`].
    Begin,
    /// A point or batched read, in a snapshot or a transaction.
    Get,
    /// A page of a scan.
    Scan,
    /// A put, a deletion, a range deletion.
    Write,
    /// [`EngineTransaction::commit`] of a transaction that wrote.
    Commit,
    /// [`Engine::sync`].
    Sync,
    /// [`Engine::stream`].
    Stream,
    /// [`Engine::ingest`].
    Ingest,
    /// [`Engine::checkpoint`].
    Checkpoint,
}

/// Effect of a failing call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// No effect: the call fails before it begins.
    Refused,
    /// A commit with an unknown outcome that did not happen.
    UnknownAndLost,
    /// A commit with an unknown outcome that did happen.
    UnknownAndDone,
}

/// A planned fault.
#[derive(Clone, Debug)]
struct Planned {
    call: Call,
    /// Calls of the kind that succeed before.
    passing: u64,
    /// Number of calls that fail then.
    failing: u64,
    outcome: Outcome,
}

/// One commit, so that it can be replayed.
#[derive(Clone, Debug, Default)]
struct Logged {
    writes: Vec<Write>,
    stream: Vec<u8>,
}

#[derive(Clone, Debug)]
enum Write {
    Put(Vec<u8>, Vec<u8>),
    Delete(Vec<u8>),
    DeleteRange(Vec<u8>, Option<Vec<u8>>),
}

/// The log of a forgetful engine.
struct Log {
    make: fn() -> Arc<dyn Engine>,
    commits: Vec<Logged>,
    /// Number of commits that survive a power cut.
    synced: usize,
    trimmed: Version,
}

struct Inner {
    engine: Mutex<Arc<dyn Engine>>,
    planned: Mutex<Vec<Planned>>,
    log: Option<Mutex<Log>>,
}

/// See the module documentation.
#[derive(Clone)]
pub struct Faulty {
    inner: Arc<Inner>,
}

impl Faulty {
    /// Wraps `engine`.
    pub fn new(engine: Arc<dyn Engine>) -> Self {
        Self::with(engine, None)
    }

    /// Wraps an empty engine from `make`; for small tests, as every commit is kept in memory.
    pub fn forgetful(make: fn() -> Arc<dyn Engine>) -> Self {
        let log = Log {
            make,
            commits: Vec::new(),
            synced: 0,
            trimmed: 0,
        };
        Self::with(make(), Some(Mutex::new(log)))
    }

    fn with(engine: Arc<dyn Engine>, log: Option<Mutex<Log>>) -> Self {
        let (engine, planned) = (Mutex::new(engine), Mutex::default());
        Self {
            inner: Arc::new(Inner {
                engine,
                planned,
                log,
            }),
        }
    }

    /// Makes calls of a kind fail after `passing` of them, `failing` times.
    pub fn fail(&self, call: Call, passing: u64, failing: u64, outcome: Outcome) {
        locked(&self.inner.planned).push(Planned {
            call,
            passing,
            failing,
            outcome,
        });
    }

    /// Removes all planned faults.
    pub fn heal(&self) {
        locked(&self.inner.planned).clear();
    }

    /// Rolls back to the last synced commit; returns the number of lost commits. Earlier snapshots and
    /// transactions keep using the database from before.
    ///
    /// # Panics
    /// If it was not created by [`Faulty::forgetful`].
    pub fn cut_power(&self) -> usize {
        let mut log = locked(
            self.inner
                .log
                .as_ref()
                .expect("made by `Faulty::forgetful`"),
        );
        let lost = log.commits.len() - log.synced;
        let synced = log.synced;
        log.commits.truncate(synced);
        let engine = (log.make)();
        for (number, commit) in log.commits.iter().enumerate() {
            let mut transaction = engine.begin().expect("an engine that does not fail");
            for write in &commit.writes {
                write
                    .apply(&mut *transaction)
                    .expect("it was applied before");
            }
            transaction.append_stream(&commit.stream);
            let version = transaction
                .commit(Durability::Synced)
                .expect("there is no other writer");
            assert_eq!(
                version,
                number as u64 + 1,
                "a commit that was one is one again"
            );
        }
        engine
            .trim_stream(log.trimmed)
            .expect("it was trimmed before");
        *locked(&self.inner.engine) = engine;
        lost
    }

    fn engine(&self) -> Arc<dyn Engine> {
        locked(&self.inner.engine).clone()
    }
}

impl Inner {
    /// Whether a fault is due at this call.
    fn due(&self, call: Call) -> Option<Outcome> {
        let mut planned = locked(&self.planned);
        for at in 0..planned.len() {
            let fault = &mut planned[at];
            if fault.call != call {
                continue;
            }
            if fault.passing > 0 {
                fault.passing -= 1;
                continue;
            }
            let outcome = fault.outcome;
            fault.failing = fault.failing.saturating_sub(1);
            if fault.failing == 0 {
                planned.remove(at);
            }
            return Some(outcome);
        }
        None
    }

    fn pass(&self, call: Call) -> Result<(), StorageError> {
        match self.due(call) {
            None => Ok(()),
            Some(_) => Err(StorageError::Unavailable(format!(
                "an injected fault: {call:?}"
            ))),
        }
    }

    /// Logs a commit; with [`Durability::Synced`] it and all earlier ones become safe.
    fn note(&self, commit: Logged, durability: Durability) {
        if let Some(log) = &self.log {
            let mut log = locked(log);
            log.commits.push(commit);
            if durability == Durability::Synced {
                log.synced = log.commits.len();
            }
        }
    }
}

impl Write {
    fn apply(&self, transaction: &mut dyn EngineTransaction) -> Result<(), StorageError> {
        match self {
            Self::Put(key, value) => transaction.put(key, value),
            Self::Delete(key) => transaction.delete(key),
            Self::DeleteRange(start, end) => transaction.delete_range(KeyRange {
                start,
                end: end.as_deref(),
            }),
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Engine for Faulty {
    fn capabilities(&self) -> Capabilities {
        self.engine().capabilities()
    }

    fn version(&self) -> Version {
        self.engine().version()
    }

    fn snapshot(&self) -> Result<Arc<dyn Snapshot>, StorageError> {
        self.inner.pass(Call::Snapshot)?;
        Ok(Arc::new(FaultySnapshot {
            below: self.engine().snapshot()?,
            inner: self.inner.clone(),
        }))
    }

    fn begin(&self) -> Result<Box<dyn EngineTransaction>, StorageError> {
        self.inner.pass(Call::Begin)?;
        Ok(Box::new(FaultyTransaction {
            below: self.engine().begin()?,
            inner: self.inner.clone(),
            logged: Logged::default(),
            marks: Vec::new(),
            wrote: false,
        }))
    }

    fn stream(
        &self,
        after: Version,
        max_entries: usize,
        max_bytes: usize,
        durable_only: bool,
    ) -> Result<Vec<StreamEntry>, StorageError> {
        self.inner.pass(Call::Stream)?;
        let mut entries = self
            .engine()
            .stream(after, max_entries, max_bytes, durable_only)?;
        if let Some(log) = self.inner.log.as_ref().filter(|_| durable_only) {
            let synced = locked(log).synced as u64;
            entries.retain(|entry| entry.version <= synced);
        }
        Ok(entries)
    }

    fn trim_stream(&self, upto: Version) -> Result<(), StorageError> {
        self.engine().trim_stream(upto)?;
        if let Some(log) = &self.inner.log {
            let mut log = locked(log);
            log.trimmed = log.trimmed.max(upto.min(log.commits.len() as u64));
            log.synced = log.commits.len();
        }
        Ok(())
    }

    fn stream_trimmed(&self) -> Result<Version, StorageError> {
        self.engine().stream_trimmed()
    }

    fn sync(&self) -> Result<(), StorageError> {
        self.inner.pass(Call::Sync)?;
        self.engine().sync()?;
        if let Some(log) = &self.inner.log {
            let mut log = locked(log);
            log.synced = log.commits.len();
        }
        Ok(())
    }

    fn checkpoint(&self, target: &Path) -> Result<(), StorageError> {
        self.inner.pass(Call::Checkpoint)?;
        self.engine().checkpoint(target)
    }

    fn ingest(
        &self,
        pairs: &mut PairIterator<'_>,
        stream: Option<&[u8]>,
    ) -> Result<Version, StorageError> {
        self.inner.pass(Call::Ingest)?;
        if self.inner.log.is_none() {
            return self.engine().ingest(pairs, stream);
        }
        let mut logged = Logged {
            stream: stream.unwrap_or_default().to_vec(),
            ..Logged::default()
        };
        let mut noted = pairs.inspect(|pair| {
            if let Ok((key, value)) = pair {
                logged.writes.push(Write::Put(key.clone(), value.clone()));
            }
        });
        let version = self.engine().ingest(&mut noted, stream)?;
        self.inner.note(logged, Durability::Synced);
        Ok(version)
    }

    fn set_hook(&self, hook: Arc<dyn CommitHook>) {
        self.engine().set_hook(hook);
    }

    fn statistics(&self) -> Result<Statistics, StorageError> {
        self.engine().statistics()
    }

    fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<Vec<String>, StorageError> {
        self.engine().verify(progress)
    }
}

struct FaultySnapshot {
    below: Arc<dyn Snapshot>,
    inner: Arc<Inner>,
}

impl Snapshot for FaultySnapshot {}

impl Read for FaultySnapshot {
    fn version(&self) -> Version {
        self.below.version()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        self.inner.pass(Call::Get)?;
        self.below.get(key)
    }

    fn visit_many(&self, keys: &[&[u8]], visit: &mut ValueVisitor<'_>) -> Result<(), StorageError> {
        self.inner.pass(Call::Get)?;
        self.below.visit_many(keys, visit)
    }

    fn scan(
        &self,
        range: KeyRange<'_>,
        order: Order,
        limit: PageLimit,
        page: &mut Page,
    ) -> Result<(), StorageError> {
        self.inner.pass(Call::Scan)?;
        self.below.scan(range, order, limit, page)
    }
}

struct FaultyTransaction {
    below: Box<dyn EngineTransaction>,
    inner: Arc<Inner>,
    logged: Logged,
    /// Savepoints of the engine below, with the lengths of writes and stream at each.
    marks: Vec<(EngineSavepoint, usize, usize)>,
    wrote: bool,
}

impl FaultyTransaction {
    fn write(&mut self, write: Write) -> Result<(), StorageError> {
        self.inner.pass(Call::Write)?;
        write.apply(&mut *self.below)?;
        self.wrote = true;
        if self.inner.log.is_some() {
            self.logged.writes.push(write);
        }
        Ok(())
    }
}

impl Read for FaultyTransaction {
    fn version(&self) -> Version {
        self.below.version()
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        self.inner.pass(Call::Get)?;
        self.below.get(key)
    }

    fn visit_many(&self, keys: &[&[u8]], visit: &mut ValueVisitor<'_>) -> Result<(), StorageError> {
        self.inner.pass(Call::Get)?;
        self.below.visit_many(keys, visit)
    }

    fn scan(
        &self,
        range: KeyRange<'_>,
        order: Order,
        limit: PageLimit,
        page: &mut Page,
    ) -> Result<(), StorageError> {
        self.inner.pass(Call::Scan)?;
        self.below.scan(range, order, limit, page)
    }
}

impl EngineTransaction for FaultyTransaction {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StorageError> {
        self.write(Write::Put(key.to_vec(), value.to_vec()))
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StorageError> {
        self.write(Write::Delete(key.to_vec()))
    }

    fn delete_range(&mut self, range: KeyRange<'_>) -> Result<(), StorageError> {
        self.write(Write::DeleteRange(
            range.start.to_vec(),
            range.end.map(<[u8]>::to_vec),
        ))
    }

    fn guard(&mut self, granule: Granule, mode: GuardMode) {
        self.below.guard(granule, mode);
    }

    fn append_stream(&mut self, bytes: &[u8]) {
        self.wrote = true;
        self.logged.stream.extend_from_slice(bytes);
        self.below.append_stream(bytes);
    }

    fn savepoint(&mut self) -> EngineSavepoint {
        let below = self.below.savepoint();
        self.marks
            .push((below, self.logged.writes.len(), self.logged.stream.len()));
        EngineSavepoint(self.marks.len() - 1)
    }

    fn rollback_to(&mut self, savepoint: EngineSavepoint) {
        if let Some(&(below, writes, stream)) = self.marks.get(savepoint.0) {
            self.marks.truncate(savepoint.0 + 1);
            self.logged.writes.truncate(writes);
            self.logged.stream.truncate(stream);
            self.below.rollback_to(below);
        }
    }

    fn release(&mut self, savepoint: EngineSavepoint) {
        if let Some(&(below, _, _)) = self.marks.get(savepoint.0) {
            self.marks.truncate(savepoint.0);
            self.below.release(below);
        }
    }

    fn write_bytes(&self) -> usize {
        self.below.write_bytes()
    }

    fn commit(self: Box<Self>, durability: Durability) -> Result<Version, StorageError> {
        let Self {
            below,
            inner,
            logged,
            wrote,
            ..
        } = *self;
        let outcome = if wrote { inner.due(Call::Commit) } else { None };
        let unknown = || {
            StorageError::CommitUnknown("an injected fault: the commit's outcome is lost".into())
        };
        match outcome {
            Some(Outcome::Refused) => {
                return Err(StorageError::Unavailable(
                    "an injected fault: Commit".into(),
                ));
            }
            Some(Outcome::UnknownAndLost) => return Err(unknown()),
            Some(Outcome::UnknownAndDone) | None => {}
        }
        // Commit and log entry are serialised, so that the log is in version order.
        let order = inner.log.as_ref().map(|_| locked(&COMMITTING));
        let before = below.version();
        let version = below.commit(durability)?;
        if wrote && version > before {
            inner.note(logged, durability);
        }
        drop(order);
        if outcome.is_some() {
            return Err(unknown());
        }
        Ok(version)
    }
}

/// Serialises the commits of forgetful engines.
static COMMITTING: Mutex<()> = Mutex::new(());

#[cfg(test)]
mod tests {
    use isomer_storage::MemoryEngine;

    use super::*;

    fn memory() -> Arc<dyn Engine> {
        Arc::new(MemoryEngine::new())
    }

    fn put(engine: &Faulty, key: &str, durability: Durability) -> Result<Version, StorageError> {
        let mut transaction = engine.begin()?;
        transaction.put(key.as_bytes(), b"value")?;
        transaction.append_stream(key.as_bytes());
        transaction.commit(durability)
    }

    fn keys(engine: &Faulty) -> Vec<String> {
        let mut page = Page::new();
        let limit = PageLimit {
            keys: 1000,
            bytes: 1 << 20,
        };
        let all = KeyRange {
            start: b"",
            end: None,
        };
        let snapshot = engine.snapshot().unwrap();
        snapshot
            .scan(all, Order::Ascending, limit, &mut page)
            .unwrap();
        page.iter()
            .map(|(key, _)| String::from_utf8(key.to_vec()).unwrap())
            .collect()
    }

    /// The n-th call of a kind fails, as many times as planned, and no other call.
    #[test]
    fn the_planned_call_fails() {
        let engine = Faulty::new(memory());
        engine.fail(Call::Write, 2, 1, Outcome::Refused);
        engine.fail(Call::Begin, 5, 2, Outcome::Refused);
        let results: Vec<bool> = ["a", "b", "c", "d", "e", "f", "g", "h"]
            .into_iter()
            .map(|key| put(&engine, key, Durability::Synced).is_ok())
            .collect();
        assert_eq!(results, [true, true, false, true, true, false, false, true]);
        assert_eq!(keys(&engine), ["a", "b", "d", "e", "h"]);
        engine.fail(Call::Snapshot, 0, 9, Outcome::Refused);
        assert!(matches!(
            engine.snapshot().map(drop),
            Err(StorageError::Unavailable(text)) if text.contains("Snapshot")
        ));
        engine.heal();
        let snapshot = engine.snapshot().unwrap();
        engine.fail(Call::Get, 1, 1, Outcome::Refused);
        assert!(
            snapshot.get(b"a").is_ok() && snapshot.get(b"a").is_err() && snapshot.get(b"a").is_ok()
        );
    }

    /// A commit with an unknown outcome happened or did not, as planned.
    #[test]
    fn unknown_commits_go_either_way() {
        let engine = Faulty::new(memory());
        engine.fail(Call::Commit, 1, 1, Outcome::UnknownAndLost);
        engine.fail(Call::Commit, 1, 1, Outcome::UnknownAndDone);
        engine.fail(Call::Commit, 1, 1, Outcome::Refused);
        let mut unknown = 0;
        for key in ["a", "lost", "done", "refused", "b"] {
            match put(&engine, key, Durability::Synced) {
                Ok(_) => {}
                Err(StorageError::CommitUnknown(_)) => unknown += 1,
                Err(StorageError::Unavailable(_)) => assert_eq!(key, "refused"),
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(unknown, 2);
        assert_eq!(keys(&engine), ["a", "b", "done"]);
        let reading = engine.begin().unwrap();
        engine.fail(Call::Commit, 0, 1, Outcome::Refused);
        assert_eq!(reading.commit(Durability::Synced).unwrap(), 3);
    }

    /// A power cut removes the commits after the last synced one, their stream entries and their versions.
    #[test]
    fn a_power_cut_loses_unsynced_commits() {
        let engine = Faulty::forgetful(memory);
        put(&engine, "a", Durability::Buffered).unwrap();
        put(&engine, "b", Durability::Synced).unwrap();
        put(&engine, "c", Durability::Buffered).unwrap();
        let mut transaction = engine.begin().unwrap();
        transaction
            .delete_range(KeyRange {
                start: b"a",
                end: Some(b"b"),
            })
            .unwrap();
        let savepoint = transaction.savepoint();
        transaction.put(b"never", b"value").unwrap();
        transaction.rollback_to(savepoint);
        transaction.delete(b"c").unwrap();
        transaction.commit(Durability::Buffered).unwrap();
        assert_eq!(keys(&engine), ["b"]);
        assert_eq!(engine.stream(0, 9, 99, true).unwrap().len(), 2);
        assert_eq!(engine.stream(0, 9, 99, false).unwrap().len(), 3);
        assert_eq!(engine.cut_power(), 2);
        assert_eq!(keys(&engine), ["a", "b"]);
        assert_eq!(engine.version(), 2);
        assert_eq!(engine.stream(0, 9, 99, true).unwrap().len(), 2);
        put(&engine, "d", Durability::Buffered).unwrap();
        engine.sync().unwrap();
        assert_eq!(engine.cut_power(), 0);
        let mut pairs = ["x", "y"]
            .into_iter()
            .map(|key| Ok((key.into(), b"loaded".to_vec())));
        assert_eq!(engine.ingest(&mut pairs, Some(b"load")).unwrap(), 4);
        engine.trim_stream(3).unwrap();
        assert_eq!(engine.cut_power(), 0);
        assert_eq!(keys(&engine), ["a", "b", "d", "x", "y"]);
        assert_eq!(engine.stream(0, 9, 99, true).unwrap().len(), 1);
        assert_eq!(engine.version(), 4);
    }
}
