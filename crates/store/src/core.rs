//! What the engine consists of, for its backend and its threads alike.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use isomer_storage::sync::{Condvar, Mutex};
use isomer_storage::{StorageError, Version};
use isomer_vfs::Lock;

use crate::{
    BlockCache, Erasures, Horizon, Readable, StoreOptions, Tree,
    limit::Limiter,
    log::{Failure, Keep, Log},
    memtable::{Chunks, Memtable},
    state::{Sealed, Shared, State},
};

/// Sealed memtables at which a writer waits for the flush of one before it fills another.
const MAX_SEALED: usize = 2;
/// Runs of the first level from which on writers are slowed down: a merge begins at 8, and more come while it runs.
const MANY_RUNS: usize = 16;
/// Longest sleep of a commit.
const MAX_SLEEP: Duration = Duration::from_millis(4);
/// Shorter sleeps are saved up.
const MIN_SLEEP: Duration = Duration::from_micros(250);

/// Everything that is open.
pub struct Core {
    pub directory: PathBuf,
    pub options: StoreOptions,
    pub log: Log,
    pub tree: Tree,
    pub cache: BlockCache,
    pub shared: Arc<Shared>,
    /// Memory that memtables leave for the next ones.
    pub chunks: Arc<Chunks>,
    poisoned: AtomicBool,
    /// Why nothing may be trusted until reopening.
    poison: Mutex<Option<String>>,
    /// Why the last work in the background did not succeed.
    trouble: Mutex<Option<String>>,
    /// Why the last merge that failed did so.
    merge_trouble: Mutex<Option<String>>,
    /// Held while a backup is on its way.
    pub backing_up: Mutex<()>,
    /// What the threads wait for.
    pub signals: Mutex<Signals>,
    pub signalled: Condvar,
    /// Told when a memtable was flushed, or could not be.
    flushed: Condvar,
    /// Held while memtables are flushed.
    flushing: Mutex<()>,
    /// Held while files of the log go, or while they must not.
    pub tidying: Mutex<()>,
    pub progress: Arc<Progress>,
    /// How fast the threads may write.
    pub limiter: Option<Arc<Limiter>>,
    /// Nanoseconds that writers still have to sleep, and have slept or waited since opening.
    debt: AtomicU64,
    slowed: AtomicU64,
    pub _lock: Option<Lock>,
}

/// What the threads wait for.
#[derive(Debug, Default)]
pub struct Signals {
    pub stop: bool,
    /// The segment of the log that comes next is to be made.
    pub prepare: bool,
    pub flush: bool,
    pub compact: bool,
}

/// How far the flush is, in bytes.
#[derive(Debug, Default)]
pub struct Progress {
    pub written: AtomicUsize,
    pub expected: AtomicUsize,
}

impl Progress {
    fn done(&self) -> f64 {
        let expected = self.expected.load(Ordering::Relaxed).max(1);
        (self.written.load(Ordering::Relaxed) as f64 / expected as f64).min(1.0)
    }
}

impl Core {
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        directory: PathBuf,
        options: StoreOptions,
        log: Log,
        tree: Tree,
        cache: BlockCache,
        shared: Arc<Shared>,
        chunks: Arc<Chunks>,
        progress: Arc<Progress>,
        limiter: Option<Arc<Limiter>>,
        lock: Option<Lock>,
    ) -> Self {
        Self {
            directory,
            options,
            log,
            tree,
            cache,
            shared,
            chunks,
            poisoned: AtomicBool::new(false),
            poison: Mutex::default(),
            trouble: Mutex::default(),
            merge_trouble: Mutex::default(),
            backing_up: Mutex::default(),
            signals: Mutex::default(),
            signalled: Condvar::new(),
            flushed: Condvar::new(),
            flushing: Mutex::default(),
            tidying: Mutex::default(),
            progress,
            limiter,
            debt: AtomicU64::new(0),
            slowed: AtomicU64::new(0),
            _lock: lock,
        }
    }

    /// Whether the engine must be reopened.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned.load(Ordering::Acquire)
    }

    pub fn check_poison(&self) -> Result<(), StorageError> {
        if !self.is_poisoned() {
            return Ok(());
        }
        let why = self.poison.lock().clone().unwrap_or_default();
        Err(StorageError::Unavailable(why))
    }

    /// Trusts nothing until reopening.
    pub fn poison(&self, why: &str) {
        let text = format!(
            "the database `{}` must be reopened: {why}",
            self.directory.display()
        );
        self.poison.lock().get_or_insert(text);
        self.poisoned.store(true, Ordering::Release);
    }

    /// Trusts nothing until reopening, and tells those who wait for the threads.
    pub fn give_up(&self, why: &str) {
        self.poison(why);
        self.signalled.notify_all();
        self.flushed.notify_all();
    }

    /// Trusts nothing any more where nobody knows which tables count.
    pub fn heed_tree(&self) {
        if let Err(error) = self.tree.check() {
            self.give_up(&error.to_string());
        }
    }

    /// Notes why a merge did not succeed.
    pub fn note_merge_trouble(&self, error: &StorageError) {
        *self.merge_trouble.lock() = Some(error.to_string());
    }

    /// Why the last merge that failed did so.
    pub fn merge_trouble(&self) -> Option<String> {
        self.merge_trouble.lock().clone()
    }

    pub fn check_writable(&self) -> Result<(), StorageError> {
        self.check_poison()?;
        if self.options.read_only {
            let place = self.directory.display();
            return Err(StorageError::Unavailable(format!(
                "the database `{place}` was opened read-only: open it for writing"
            )));
        }
        Ok(())
    }

    /// What a failure of the log means to a commit.
    pub fn failed(&self, failure: Failure) -> StorageError {
        match failure {
            Failure::Refused(error) => error,
            Failure::Unknown(what) => {
                self.poison(&what);
                StorageError::CommitUnknown(format!(
                    "{what}: the commit may be on disk or not: reopen the database and look"
                ))
            }
        }
    }

    pub fn now_ms(&self) -> u64 {
        (self.options.clock)()
    }

    /// Ends the active memtable, which holds everything up to `last`. Only by whoever commits.
    pub fn seal(&self, last: Version) {
        let next_segment = self.log.rotate();
        self.shared.change(|state| {
            let sealed = Sealed {
                memtable: state.active.clone(),
                last,
                next_segment,
            };
            State {
                active: Arc::new(Memtable::filling(&self.chunks)),
                sealed: std::iter::once(sealed)
                    .chain(state.sealed.iter().cloned())
                    .collect(),
                levels: state.levels.clone(),
            }
        });
        self.signal(|signals| signals.flush = true);
    }

    pub fn signal(&self, set: impl FnOnce(&mut Signals)) {
        set(&mut self.signals.lock());
        self.signalled.notify_all();
    }

    /// Writes the sealed memtables into tables; whether there were any.
    pub fn flush_sealed(&self) -> Result<bool, StorageError> {
        let _one_at_a_time = self.flushing.lock();
        self.check_writable()?;
        self.tree.check()?;
        let state = self.shared.state();
        let Some(newest) = state.sealed.first().cloned() else {
            return Ok(false);
        };
        // Tables must not hold what the change stream could lose.
        self.log
            .sync_closed(newest.last)
            .map_err(|failure| self.failed(failure))?;
        // Nor would damage of it be told from a loss of power later, were the segments not closed.
        self.log
            .close_full()
            .map_err(|failure| self.failed(failure))?;
        let memtables = || state.sealed.iter().map(|sealed| &sealed.memtable);
        let expected = memtables().map(|memtable| memtable.bytes()).sum::<usize>() * 3 / 4;
        self.progress.written.store(0, Ordering::Relaxed);
        self.progress.expected.store(expected, Ordering::Relaxed);
        let erasures = memtables()
            .filter(|memtable| memtable.has_erasures())
            .fold(Erasures::new(), |all, memtable| {
                all.union(&memtable.erasures())
            });
        let cursors = memtables().map(|memtable| memtable.cursor()).collect();
        self.tree
            .flush(cursors, &erasures, newest.last, newest.next_segment, self)?;
        self.log.note_durable(newest.last);
        drop(state);
        if let Some(_tidying) = self.tidying.try_lock() {
            self.tidy()?;
        }
        Ok(true)
    }

    /// Lets go of what of the log nobody needs. The caller holds `tidying`.
    pub fn tidy(&self) -> Result<(), StorageError> {
        let retention = self.options.retention;
        let now = self.now_ms();
        let keep = Keep {
            needed_from: self.tree.current().log_needed_from(),
            versions_since_ms: (retention.versions_ms > 0)
                .then(|| now.saturating_sub(retention.versions_ms)),
            stream_since_ms: retention.stream_ms.map(|age| now.saturating_sub(age)),
            stream_bytes: retention.stream_bytes,
        };
        self.log.tidy(keep).map_err(|failure| self.failed(failure))
    }

    /// Flushes until nothing is sealed; what goes wrong is noted for those who wait.
    pub fn flush_noting(&self) -> Result<(), StorageError> {
        loop {
            let outcome = self.flush_sealed();
            *self.trouble.lock() = outcome.as_ref().err().map(ToString::to_string);
            {
                let mut signals = self.signals.lock();
                signals.compact = true;
            }
            self.signalled.notify_all();
            self.flushed.notify_all();
            if !outcome? {
                return Ok(());
            }
        }
    }

    /// Makes room in the active memtable, which a commit of some bytes is going to fill: a full one is sealed, and where
    /// too many are sealed already, their flush is waited for.
    pub fn make_room(&self, last: Version) -> Result<(), StorageError> {
        let limit = self.options.memtable_bytes;
        let mut waited = Duration::ZERO;
        loop {
            let state = self.shared.state();
            let bytes = state.active.bytes();
            if bytes < limit {
                return Ok(());
            }
            if state.sealed.len() < MAX_SEALED || !self.options.background {
                self.seal(last);
                return Ok(());
            }
            drop(state);
            // A little more fits into this one, so that no single commit waits for long.
            if waited >= MAX_SLEEP && bytes < limit + limit / 2 {
                return Ok(());
            }
            if let Some(trouble) = self.trouble.lock().clone() {
                return Err(StorageError::Unavailable(format!(
                    "the memory for commits is full, and cannot be written to disk: {trouble}"
                )));
            }
            self.check_poison()?;
            let mut signals = self.signals.lock();
            self.flushed
                .wait_for(&mut signals, Duration::from_millis(1));
            drop(signals);
            waited += Duration::from_millis(1);
            self.note_slowed(Duration::from_millis(1));
        }
    }

    fn note_slowed(&self, by: Duration) {
        self.slowed
            .fetch_add(by.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Milliseconds for which writers were held up for the background work, since opening.
    pub fn slowed_ms(&self) -> u64 {
        self.slowed.load(Ordering::Relaxed) / 1_000_000
    }

    /// Slows whoever has committed `bytes` down, where the background work is behind: writers then get on as it does.
    pub fn pace(&self, state: &State, bytes: usize) {
        if !self.options.background {
            return;
        }
        let mut nanoseconds_per_byte = 0.0;
        if !state.sealed.is_empty() {
            let filled = state.active.bytes() as f64 / self.options.memtable_bytes.max(1) as f64;
            let ahead = filled + (state.sealed.len() - 1) as f64 - self.progress.done();
            nanoseconds_per_byte += (ahead * 120.0).max(0.0);
        }
        let runs = state.levels.young_runs().saturating_sub(MANY_RUNS);
        nanoseconds_per_byte += runs as f64 * 0.6;
        if nanoseconds_per_byte == 0.0 {
            return;
        }
        let owed = (nanoseconds_per_byte * bytes as f64) as u64;
        let debt = Duration::from_nanos(self.debt.fetch_add(owed, Ordering::Relaxed) + owed);
        if debt >= MIN_SLEEP {
            self.debt.store(0, Ordering::Relaxed);
            let sleep = debt.min(MAX_SLEEP);
            std::thread::sleep(sleep);
            self.note_slowed(sleep);
        }
    }
}

impl Horizon for Core {
    fn readable(&self) -> Readable {
        let window = match self.options.retention.versions_ms {
            0 => Version::MAX,
            age => {
                let since = self.now_ms().saturating_sub(age);
                // Where the log does not reach so far back, nothing that is older than it is kept.
                self.log
                    .version_at(since, Version::MAX)
                    .ok()
                    .flatten()
                    .unwrap_or(0)
            }
        };
        self.shared.readable(window)
    }
}
