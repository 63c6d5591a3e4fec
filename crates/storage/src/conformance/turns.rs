//! Several engines on one database that take turns. They must pass the scripts that one engine passes.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{
    Capabilities, CommitHook, Engine, EngineTransaction, Snapshot, Statistics, StorageError,
    StreamEntry, Version,
};

/// Called before each call with the engines and the number of the turn.
type BeforeTurn<E> = Box<dyn Fn(&[Arc<E>], u64) + Send + Sync>;

/// Engines on one database, as several processes have them. Each call goes to another engine than the call before.
pub struct EngineTurns<E> {
    engines: Vec<Arc<E>>,
    turn: AtomicU64,
    /// Transactions begin in the first ones only.
    writer_count: usize,
    is_maintainer: fn(&E) -> bool,
    before_turn: Option<BeforeTurn<E>>,
    /// Commits that the statistics leave out.
    commits_before: u64,
}

impl<E: Engine> EngineTurns<E> {
    /// At least one engine. Each of them begins transactions and maintains what is stored.
    pub fn new(engines: Vec<Arc<E>>) -> Self {
        assert!(!engines.is_empty(), "a call needs an engine");
        Self {
            writer_count: engines.len(),
            engines,
            turn: AtomicU64::new(0),
            is_maintainer: |_| true,
            before_turn: None,
            commits_before: 0,
        }
    }

    /// Begins transactions in the first `count` engines only.
    pub fn writer_count(mut self, count: usize) -> Self {
        self.writer_count = count.min(self.engines.len());
        self
    }

    /// Which engine compacts and has background work.
    pub fn maintained_by(mut self, is_maintainer: fn(&E) -> bool) -> Self {
        self.is_maintainer = is_maintainer;
        self
    }

    /// Calls `run` before each call.
    pub fn before_turn(mut self, run: impl Fn(&[Arc<E>], u64) + Send + Sync + 'static) -> Self {
        self.before_turn = Some(Box::new(run));
        self
    }

    /// Continues those that were open before: with their turn, and without the commits that the engines counted so far.
    pub fn continued_from(mut self, turn: u64) -> Result<Self, StorageError> {
        self.turn = AtomicU64::new(turn);
        self.commits_before = self.statistics()?.commits;
        Ok(self)
    }

    /// The engines and the number of the next turn.
    pub fn into_parts(self) -> (Vec<Arc<E>>, u64) {
        (self.engines, self.turn.into_inner())
    }

    /// The engines.
    pub fn engines(&self) -> &[Arc<E>] {
        &self.engines
    }

    fn next(&self) -> &E {
        self.next_of(self.engines.len())
    }

    fn next_of(&self, count: usize) -> &E {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        if let Some(run) = &self.before_turn {
            run(&self.engines, turn);
        }
        &self.engines[turn as usize % count]
    }

    fn maintainer(&self) -> Option<&E> {
        let mut engines = self.engines.iter().map(|engine| &**engine);
        engines.find(|engine| (self.is_maintainer)(engine))
    }
}

impl<E: Engine> Engine for EngineTurns<E> {
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
        self.next_of(self.writer_count).begin()
    }

    fn stream(
        &self,
        after: Version,
        max_entries: usize,
        max_bytes: usize,
        durable_only: bool,
    ) -> Result<Vec<StreamEntry>, StorageError> {
        let engine = self.next();
        engine.stream(after, max_entries, max_bytes, durable_only)
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

    fn wait_for_background_work(&self) -> Result<(), StorageError> {
        let maintainer = self.maintainer();
        maintainer.map_or(Ok(()), Engine::wait_for_background_work)
    }

    fn compact(&self) -> Result<(), StorageError> {
        self.maintainer().map_or(Ok(()), Engine::compact)
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

    /// The commits and conflicts of all engines. What is stored is one: they must agree on it.
    fn statistics(&self) -> Result<Statistics, StorageError> {
        let mut sum = self.engines[0].statistics()?;
        (sum.commits, sum.conflicts) = (0, 0);
        for engine in &self.engines {
            let statistics = engine.statistics()?;
            assert_eq!(sum.key_count, statistics.key_count);
            assert_eq!(sum.stream_entries, statistics.stream_entries);
            sum.commits += statistics.commits;
            sum.conflicts += statistics.conflicts;
        }
        sum.commits -= self.commits_before;
        Ok(sum)
    }

    fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<Vec<String>, StorageError> {
        self.next().verify(progress)
    }
}
