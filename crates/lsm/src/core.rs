//! The parts of the engine, shared by its backend and its threads.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use isomer_storage::sync::{Condvar, Mutex};
use isomer_storage::{OverBudget, StorageError, Version};
use isomer_vfs::Lock;

use crate::{
    BlockCache, Horizon, LsmOptions, RangeTombstones, Readable, Tree,
    limit::Limiter,
    log::{Failure, Keep},
    memtable::{Chunks, Memtable},
    processes::{DatabaseLock, Wal},
    state::{LogEnd, Sealed, Shared, State},
    tree::FlushedUpto,
};

/// Number of sealed memtables at which a writer waits for a flush before it seals another (write stall).
const MAX_SEALED: usize = 2;
/// Runs of the first level from which on writers are slowed down: a compaction starts at 8, and more runs
/// arrive while it works.
const SLOWDOWN_RUN_COUNT: usize = 16;
/// An idle memtable that uses less than this fraction of its limit is not flushed.
const IDLE_SHARE: usize = 16;
/// The same in bytes, if processes share the database: each process that opens it applies what is not flushed first.
const SHARED_IDLE_BYTES: usize = 256 << 10;
/// Longest delay of a commit.
const MAX_SLEEP: Duration = Duration::from_millis(4);
/// Shorter delays are accumulated.
const MIN_SLEEP: Duration = Duration::from_micros(250);

/// Everything that is open.
pub struct Core {
    pub directory: PathBuf,
    pub options: LsmOptions,
    pub wal: Wal,
    pub tree: Arc<Tree>,
    pub cache: BlockCache,
    pub shared: Arc<Shared>,
    /// Held by the thread that changes something.
    pub writer: Mutex<()>,
    /// Memory of memtables, kept for reuse by the next ones.
    pub chunks: Arc<Chunks>,
    /// Whether the active memtable is worth flushing when no more commits arrive.
    filling: AtomicBool,
    /// Number of memtables that were sealed.
    sealed: AtomicU64,
    poisoned: AtomicBool,
    /// Why the engine refuses all further work until it is reopened.
    poison: Mutex<Option<String>>,
    /// The error of the last flush, if it failed.
    flush_error: Mutex<Option<String>>,
    /// The error of the last compaction that failed.
    compaction_error: Mutex<Option<String>>,
    /// Held during a backup.
    pub backing_up: Mutex<()>,
    /// Work requested from the threads.
    pub signals: Mutex<Signals>,
    pub signalled: Condvar,
    /// Notified when a memtable was flushed, or could not be.
    flushed: Condvar,
    /// Held while memtables are flushed.
    flushing: Mutex<()>,
    /// Held while tables of another process are adopted.
    pub following: Mutex<()>,
    /// Held while files of the log are removed, or while they must not be.
    pub tidying: Mutex<()>,
    pub progress: Arc<Progress>,
    /// Limits the write rate of the threads.
    pub limiter: Option<Arc<Limiter>>,
    /// Nanoseconds that writers still have to sleep, and have slept or waited since opening.
    debt: AtomicU64,
    slowed: AtomicU64,
    /// Whether a bulk load writes to the shared log: its record needs no room in memtables.
    pub is_loading: AtomicBool,
    pub lock: DatabaseLock,
}

/// Work requested from the threads.
#[derive(Debug, Default)]
pub struct Signals {
    pub stop: bool,
    /// The next log segment must be created.
    pub prepare: bool,
    pub flush: bool,
    pub compact: bool,
}

/// Progress of the flush, in bytes.
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
        options: LsmOptions,
        wal: Wal,
        tree: Arc<Tree>,
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
            wal,
            tree,
            cache,
            shared,
            writer: Mutex::new(()),
            chunks,
            filling: AtomicBool::new(false),
            sealed: AtomicU64::new(0),
            poisoned: AtomicBool::new(false),
            poison: Mutex::default(),
            flush_error: Mutex::default(),
            compaction_error: Mutex::default(),
            backing_up: Mutex::default(),
            signals: Mutex::default(),
            signalled: Condvar::new(),
            flushed: Condvar::new(),
            flushing: Mutex::default(),
            following: Mutex::default(),
            tidying: Mutex::default(),
            progress,
            limiter,
            debt: AtomicU64::new(0),
            slowed: AtomicU64::new(0),
            is_loading: AtomicBool::new(false),
            lock: DatabaseLock::new(lock),
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

    /// Refuses all further work until the engine is reopened.
    pub fn poison(&self, why: &str) {
        let text = format!(
            "the database `{}` must be reopened: {why}",
            self.directory.display()
        );
        self.poison.lock().get_or_insert(text);
        self.poisoned.store(true, Ordering::Release);
        // Another process can maintain the tables.
        if let Some(wal) = self.wal.shared() {
            wal.wake();
        }
    }

    /// Refuses all further work, and wakes the threads that wait for background work.
    pub fn give_up(&self, why: &str) {
        self.poison(why);
        self.signalled.notify_all();
        self.flushed.notify_all();
    }

    /// Poisons the engine if the contents of the manifest on disk are unknown.
    pub fn stop_if_tree_failed(&self) {
        if let Err(error) = self.tree.check() {
            self.give_up(&error.to_string());
        }
    }

    /// Lets another process maintain the tables, once no flush and no compaction writes to them.
    pub fn end_maintenance(&self) {
        self.tree.set_yields(true);
        let _flushing = self.flushing.lock();
        let _compacting = self.tree.compacting.lock();
        self.tree.end_maintenance();
        self.tree.set_yields(false);
        if let Some(wal) = self.wal.shared() {
            wal.lease.release();
        }
    }

    /// Wakes the threads that wait for a flush.
    pub fn notify_flushed(&self) {
        self.flushed.notify_all();
    }

    /// Records the error of a failed compaction.
    pub fn note_merge_trouble(&self, error: &StorageError) {
        *self.compaction_error.lock() = Some(error.to_string());
    }

    /// The error of the last compaction that failed.
    pub fn compaction_error(&self) -> Option<String> {
        self.compaction_error.lock().clone()
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

    /// The error of a commit for a failure of the log.
    pub fn failed(&self, failure: Failure) -> StorageError {
        match failure {
            Failure::Refused(error) => {
                // The log may have requested a write of the manifest.
                self.stop_if_tree_failed();
                error
            }
            Failure::Unknown(what) => {
                self.poison(&what);
                StorageError::CommitUnknown(format!(
                    "{what}: the commit may or may not be on disk: reopen the database and check"
                ))
            }
        }
    }

    pub fn now_ms(&self) -> u64 {
        (self.options.clock)()
    }

    /// Seals the active memtable, which holds everything up to `last`. Called by the committing thread only.
    pub fn seal(&self, last: Version) {
        self.seal_before(last, self.wal.rotate());
        self.signal(|signals| signals.flush = true);
    }

    /// Whether the active memtable is worth flushing when no more commits arrive.
    pub fn is_filling(&self) -> bool {
        self.filling.load(Ordering::Relaxed)
    }

    /// Records how full the active memtable is after a commit, for [`Core::seal_idle`]. Only if memtables share
    /// a budget, or if processes share the database: the next one would apply these commits when it opens it.
    pub fn note_filling(&self, state: &State) {
        if (self.options.memory.is_some() || self.wal.shared().is_some())
            && state.active.bytes() >= self.least_flushed_bytes()
            && !self.filling.swap(true, Ordering::Relaxed)
        {
            self.signalled.notify_all();
        }
    }

    /// A memtable that uses less is not flushed before it is full.
    pub fn least_flushed_bytes(&self) -> usize {
        let least = self.options.memtable_bytes / IDLE_SHARE;
        match self.wal.shared() {
            Some(_) => least.min(SHARED_IDLE_BYTES),
            None => least,
        }
    }

    /// Seals the active memtable if nothing was committed since the version `seen`, so that an idle database
    /// uses little memory.
    pub fn seal_idle(&self, seen: &mut Version) {
        let Some(_writer) = self.writer.try_lock() else {
            return;
        };
        let last = self.shared.published();
        if std::mem::replace(seen, last) != last {
            return;
        }
        self.filling.store(false, Ordering::Relaxed);
        let is_worth =
            !self.follows() && self.shared.state().active.bytes() >= self.least_flushed_bytes();
        if is_worth && self.check_writable().is_ok() {
            self.seal(last);
        }
        self.chunks.clear();
    }

    /// Flushes the active memtable, which holds a part of the commits after `last`, and the earlier ones. Those
    /// commits are in the log, in a shared one before the position `record_end`.
    pub fn flush_part(&self, last: Version, record_end: u64) -> Result<(), StorageError> {
        self.seal_before(last, self.wal.within(record_end));
        self.flush_all_sealed()
    }

    /// Seals the active memtable: the log is needed from `log_end` on once it is flushed.
    fn seal_before(&self, last: Version, log_end: LogEnd) {
        self.shared.change(|state| {
            let sealed = Sealed {
                memtable: state.active.clone(),
                number: self.sealed.fetch_add(1, Ordering::Relaxed) + 1,
                last,
                log_end,
            };
            State {
                active: Arc::new(Memtable::filling(&self.chunks)),
                sealed: std::iter::once(sealed)
                    .chain(state.sealed.iter().cloned())
                    .collect(),
                levels: state.levels.clone(),
            }
        });
    }

    pub fn signal(&self, set: impl FnOnce(&mut Signals)) {
        set(&mut self.signals.lock());
        self.signalled.notify_all();
    }

    /// Flushes the sealed memtables; returns whether there were any.
    pub fn flush_sealed(&self) -> Result<bool, StorageError> {
        let _one_at_a_time = self.flushing.lock();
        if self.follows() {
            // The process that maintains the tables flushes.
            return Ok(false);
        }
        self.check_writable()?;
        self.tree.check()?;
        let state = self.shared.state();
        let Some(newest) = state.sealed.first().cloned() else {
            return Ok(false);
        };
        let prepared = self.wal.prepare_flush(&newest);
        prepared.map_err(|failure| self.failed(failure))?;
        let memtables = || state.sealed.iter().map(|sealed| &sealed.memtable);
        let expected = memtables().map(|memtable| memtable.bytes()).sum::<usize>() * 3 / 4;
        self.progress.written.store(0, Ordering::Relaxed);
        self.progress.expected.store(expected, Ordering::Relaxed);
        let range_tombstones = memtables()
            .filter(|memtable| memtable.has_range_tombstones())
            .fold(RangeTombstones::new(), |all, memtable| {
                all.union(&memtable.range_tombstones())
            });
        let cursors = memtables().map(|memtable| memtable.cursor()).collect();
        let flushed = FlushedUpto {
            memtables: newest.number,
            version: newest.last,
            log_needed_from: newest.log_end.segment,
            log_point: newest.log_end.point,
        };
        self.tree
            .flush_upto(cursors, &range_tombstones, flushed, self)?;
        self.wal.note_durable(newest.last);
        drop(state);
        if let Some(_tidying) = self.tidying.try_lock() {
            self.tidy()?;
        }
        Ok(true)
    }

    /// Removes log segments that are no longer needed. The caller holds `tidying`.
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
        self.wal.tidy(keep).map_err(|failure| self.failed(failure))
    }

    /// Flushes until nothing is sealed; records errors for the threads that wait.
    pub fn flush_all_sealed(&self) -> Result<(), StorageError> {
        loop {
            let outcome = self.flush_sealed();
            *self.flush_error.lock() = outcome.as_ref().err().map(ToString::to_string);
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

    /// Whether the active memtable has room for a commit that takes about `need` bytes; reserves it.
    pub fn has_room(&self, need: usize) -> bool {
        let limit = self.options.memtable_bytes;
        self.shared.state().active.bytes() < limit && self.chunks.reserve(need.min(limit)).is_ok()
    }

    /// Makes room in the active memtable for a commit that takes about `need` bytes; a commit larger than a
    /// memtable goes through several. Seals the memtable if it is full or if the budget has no more memory for
    /// it; if too many are sealed already, waits for their flush (write stall).
    pub fn make_room(&self, last: Version, need: usize) -> Result<(), StorageError> {
        let limit = self.options.memtable_bytes;
        let need = need.min(limit);
        if self.follows() {
            return self.make_room_following(last, need);
        }
        let mut waited = Duration::ZERO;
        loop {
            let state = self.shared.state();
            let bytes = state.active.bytes();
            let reserved = self.chunks.reserve(need);
            if bytes < limit && reserved.is_ok() {
                return Ok(());
            }
            let (active, sealed) = (!state.active.is_empty(), state.sealed.len());
            drop(state);
            match reserved {
                Ok(()) if sealed < MAX_SEALED || !self.options.background => {
                    self.seal(last);
                    return Ok(());
                }
                // This one may grow beyond its limit a little, so that no single commit waits for long.
                Ok(()) if waited >= MAX_SLEEP && bytes < limit + limit / 2 => return Ok(()),
                Ok(()) => {}
                Err(_) if active && sealed == 0 => self.seal(last),
                // Nothing is left to flush.
                Err(over) if sealed == 0 => {
                    // A small commit fits into the memory that is always reserved.
                    return match need <= self.chunks.least_bytes() {
                        true => Ok(()),
                        false => Err(no_memory(over)),
                    };
                }
                Err(_) if !self.options.background => drop(self.flush_sealed()?),
                Err(_) => {}
            }
            if let Some(error) = self.flush_error.lock().clone() {
                return Err(StorageError::Unavailable(format!(
                    "the memory for commits is full, and cannot be written to disk: {error}"
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

    pub fn note_slowed(&self, by: Duration) {
        self.slowed
            .fetch_add(by.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Milliseconds for which writers were delayed by back-pressure, since opening.
    pub fn slowed_ms(&self) -> u64 {
        self.slowed.load(Ordering::Relaxed) / 1_000_000
    }

    /// Back-pressure: delays the writer of `bytes` if background work lags, so that writes proceed at its pace.
    pub fn pace(&self, state: &State, bytes: usize) {
        if !self.options.background {
            return;
        }
        let mut nanoseconds_per_byte = 0.0;
        // A flush is running: the delay grows with the distance between its progress and the filling of the
        // active memtable.
        if !state.sealed.is_empty() {
            let filled = state.active.bytes() as f64 / self.options.memtable_bytes.max(1) as f64;
            let ahead = filled + (state.sealed.len() - 1) as f64 - self.progress.done();
            nanoseconds_per_byte += (ahead * 120.0).max(0.0);
        }
        // Compaction lags: the delay grows with the number of runs.
        let runs = state.levels.young_runs().saturating_sub(SLOWDOWN_RUN_COUNT);
        nanoseconds_per_byte += runs as f64 * 0.6;
        if nanoseconds_per_byte == 0.0 {
            return;
        }
        let owed = (nanoseconds_per_byte * bytes as f64) as u64;
        // Sleeping is inexact: small delays are accumulated.
        let debt = Duration::from_nanos(self.debt.fetch_add(owed, Ordering::Relaxed) + owed);
        if debt >= MIN_SLEEP {
            self.debt.store(0, Ordering::Relaxed);
            let sleep = debt.min(MAX_SLEEP);
            std::thread::sleep(sleep);
            self.note_slowed(sleep);
        }
    }
}

/// The error if the budget has no memory for a commit.
pub fn no_memory(over: OverBudget) -> StorageError {
    StorageError::TooLarge {
        what: "what the database needs of the memory budget to commit",
        size: over.asked,
        max: over.limit.saturating_sub(over.in_use),
        advice: "end other work, commit in smaller parts, or raise the memory option",
    }
}

impl Horizon for Core {
    fn readable(&self) -> Readable {
        let window = match self.options.retention.versions_ms {
            0 => Version::MAX,
            // If the log does not reach that far back, no older versions are kept.
            age => self.wal.version_since(self.now_ms(), age),
        };
        self.shared.readable(window)
    }
}
