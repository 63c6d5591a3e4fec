//! The engine's backend: groups of commits are written to the log and the memtable, then become visible.

mod copy;
mod insert;
mod inspect;

use std::{
    path::Path,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use isomer_shared_log::{LogProcess, SharedLog};
use isomer_storage::sync::RwLock;
use isomer_storage::{
    AloneHold, Backend, Capabilities, Commit, Durability, KeyRange, LogPoint, LoggedEnd,
    MAX_KEY_BYTES, MAX_VALUE_BYTES, MemoryKind, PairIterator, Reservation, Statistics,
    StorageError, StreamEntry, Version, View, damaged, version_not_kept,
};
use isomer_vfs::Lock;

use crate::{
    BlockCache, LogSharing, LsmOptions, MergeCursor, OnChange, Tree, TreeOptions,
    background::{Background, is_flushing},
    core::{Core, Progress, no_memory},
    limit::{Limiter, Work},
    log::{Chain, Flushed, LARGE_RECORD_BYTES, Log, LogOptions},
    manifest::{MANIFEST, Stored},
    memtable::{Chunks, Memtable},
    open,
    processes::{self, Entered, Lease, LeaseOutcome, OpenedLog, PrivateDatabase, SharedWal, Wal},
    source::Source,
    state::{LsmView, Shared, State},
};

pub use copy::{BackupLock, Copied};
use insert::{content_bytes, insert, insert_large, replay, room_for};

/// All open parts of the engine, and the last version.
pub struct LsmBackend {
    core: Arc<Core>,
    published: RwLock<Arc<LsmView>>,
    background: Option<Background>,
}

const ALL: KeyRange<'static> = KeyRange {
    start: b"",
    end: None,
};

/// Entries replayed when opening are flushed if they fill at least this fraction of a memtable.
const REPLAY_FLUSH_SHARE: usize = 8;

/// Largest number of threads that read ahead of long scans.
const MAX_READ_AHEAD_THREADS: usize = 4;

/// A scan that has read nothing for this long loses its read-ahead thread.
const READ_AHEAD_IDLE: Duration = Duration::from_secs(1);

impl LsmBackend {
    /// `unfinished`: also opens a database that is being restored.
    pub fn open(
        directory: &Path,
        options: LsmOptions,
        unfinished: bool,
    ) -> Result<Self, StorageError> {
        open::prepare(directory, &options, unfinished)?;
        let open_private = |options, store| {
            let opened = Self::open_own(directory, options, None, Some(store))?;
            Ok(Box::new(opened) as Box<dyn PrivateDatabase>)
        };
        let Entered {
            lock,
            store,
            sharing,
        } = processes::enter(directory, &options, &open_private)?;
        let options = LsmOptions { sharing, ..options };
        match store {
            Some(store) if store.is_shared() => Self::open_shared(directory, options, lock, store),
            Some(store) if store.is_shared_copy() && !options.read_only && !unfinished => {
                let opened = Self::open_own(directory, options, lock, Some(store))?;
                // It stays exclusive from now on.
                let own = open::StoreFile::with_own_log(store.identity);
                open::create(directory, opened.options(), own)?;
                Ok(opened)
            }
            store => Self::open_own(directory, options, lock, store),
        }
    }

    /// Opens a database with a private log, which is locked; `store` is `None` if it is still to be made.
    pub fn open_own(
        directory: &Path,
        mut options: LsmOptions,
        lock: Option<Lock>,
        store: Option<open::StoreFile>,
    ) -> Result<Self, StorageError> {
        // Under the lock: two processes that create a database concurrently must not both create its keys.
        options.seal = open::seal(directory, &options)?;
        let identity = match store {
            Some(store) => {
                check_manifest(directory, &options, store)?;
                store.identity
            }
            None => open::begin(directory, &options)?,
        };
        open::sync_names(directory, &options)?;
        if !options.read_only {
            crate::LsmEngine::remove_checkpoint(directory, &options);
        }
        let base = Base::new(&options);
        let chain: Arc<Chain> = Arc::default();
        let mut tree_options = base.tree_options(directory, &options);
        (tree_options.database, tree_options.chain) = (identity, chain.clone());
        let (tree, tables) = Tree::open(tree_options, on_change(&base.shared))?;
        let tree = Arc::new(tree);
        let weak = Arc::downgrade(&tree);
        chain.set_writer(Box::new(move || match weak.upgrade() {
            Some(tree) => tree.store_chain(),
            None => Ok(()), // closed: no more writes
        }));
        if store.is_none() {
            open::create(directory, &options, open::StoreFile::with_own_log(identity))?;
        }
        let chunks = chunks(&options)?;
        let log_options = LogOptions {
            disk: options.disk.clone(),
            seal: options.seal.clone(),
            segment_bytes: options.segment_bytes,
            random: options.random.clone(),
            read_only: options.read_only,
            chain,
        };
        let flushed = Flushed {
            version: tables.flushed,
            needed_from: tables.log_needed_from,
            ingested: tables.ingested,
            links: tables.links.clone(),
        };
        let state = State {
            active: Arc::new(Memtable::filling(&chunks)),
            sealed: Vec::new(),
            levels: tree.current(),
        };
        let (log, last) = Log::open(
            &directory.join(open::LOG),
            log_options,
            &flushed,
            &mut |replayed| replay(&state, replayed, directory),
        )?;
        tree.remove_orphans(&tables)?;
        if store.is_some_and(|store| !store.is_whole()) && !options.read_only {
            // The manifest names the log now: earlier versions of the program would not check that.
            tree.store_chain()?;
            open::create(directory, &options, open::StoreFile::with_own_log(identity))?;
        }
        let opened = Opened {
            wal: Wal::Own(Box::new(log)),
            tree,
            state,
            chunks,
            collected_below: tables.collected_below,
            last,
            lock,
        };
        Self::begin(directory, options, base, opened)
    }

    /// Opens a database whose log is the shared one, at the version of its tables: the caller applies what follows in
    /// the log.
    fn open_shared(
        directory: &Path,
        mut options: LsmOptions,
        lock: Option<Lock>,
        store: open::StoreFile,
    ) -> Result<Self, StorageError> {
        options.seal = open::seal(directory, &options)?;
        check_manifest(directory, &options, store)?;
        processes::check_log_exists(directory, &options)?;
        if let LogSharing::Over(_) = options.sharing {
            open::sync_names(directory, &options)?;
        }
        // The first process that opens a log makes the names of the folder around it durable.
        let OpenedLog { log, numbers } = processes::open_log(directory, &options)?;
        let lease = Lease::new(options.disk.clone(), directory);
        let maintains = !options.read_only && lease.try_take()? == LeaseOutcome::Here;
        let base = Base::new(&options);
        let mut tree_options = base.tree_options(directory, &options);
        (tree_options.database, tree_options.shared) = (store.identity, true);
        (tree_options.follows, tree_options.numbers) = (!maintains, numbers.clone());
        let (tree, tables) =
            processes::open_tables(directory, &tree_options, &*log, || on_change(&base.shared))?;
        if maintains {
            // Another process may be making a backup.
            if processes::lock_backup(directory, &options)?.is_some() {
                crate::LsmEngine::remove_checkpoint(directory, &options);
            }
            processes::remove_own_log(directory, &options)?;
            tree.remove_orphans(&tables)?;
        }
        let tree = Arc::new(tree);
        let chunks = chunks(&options)?;
        let state = State {
            active: Arc::new(Memtable::filling(&chunks)),
            sealed: Vec::new(),
            levels: tree.current(),
        };
        let wal = SharedWal::new(log, numbers, lease, tables.log_point);
        // A manifest that its process could not announce, because it ended, is known from here on.
        wal.raise(tree.sequence());
        let opened = Opened {
            wal: Wal::Shared(Box::new(wal)),
            tree,
            state,
            chunks,
            collected_below: tables.collected_below,
            last: tables.flushed,
            lock,
        };
        Self::begin(directory, options, base, opened)
    }

    /// Publishes what was opened, and starts the background work.
    fn begin(
        directory: &Path,
        options: LsmOptions,
        base: Base,
        opened: Opened,
    ) -> Result<Self, StorageError> {
        let Opened {
            wal,
            tree,
            state,
            chunks,
            collected_below,
            last,
            lock,
        } = opened;
        let shared = Arc::new(Shared::new(state, collected_below));
        // It is set only here.
        let _ = base.shared.set(Arc::downgrade(&shared));
        let published = RwLock::new(shared.publish(last));
        if options.background {
            // One processor is left to the scanning thread.
            let processors = std::thread::available_parallelism().map_or(1, usize::from);
            base.cache.allow_helpers(
                (processors - 1).min(MAX_READ_AHEAD_THREADS),
                READ_AHEAD_IDLE,
            );
        }
        // A read-only process of a shared database adopts new tables, too.
        let threads = options.background && (!options.read_only || wal.shared().is_some());
        let core = Arc::new(Core::new(
            directory.to_owned(),
            options,
            wal,
            tree,
            base.cache,
            shared,
            chunks,
            base.progress,
            base.limiter,
            lock,
        ));
        let background = threads.then(|| Background::start(&core)).transpose()?;
        if background.is_some() {
            begin_background_work(&core, last);
        }
        Ok(Self {
            core,
            published,
            background,
        })
    }

    /// The shared log, if processes share the database.
    pub fn shared_log(&self) -> Option<Arc<dyn SharedLog>> {
        self.core.wal.shared().map(|wal| wal.log().clone())
    }

    /// Flushes what was applied from the shared log while opening, if it is an appreciable part of a memtable.
    pub fn flush_applied(&self) {
        if self.background.is_some() && !self.core.follows() {
            let _writer = self.core.writer.lock();
            seal_replayed(&self.core, self.version());
        }
    }

    /// Follows the process that maintains the tables, or takes over, as a background thread does if there are threads.
    pub fn follow(&self) -> Result<(), StorageError> {
        self.core.follow()
    }

    /// The processes that share the database, as far as they can be seen, and the one that maintains the tables.
    pub fn processes(&self) -> (Vec<LogProcess>, Option<u32>) {
        match self.core.wal.shared() {
            Some(wal) => (wal.processes(), wal.lease.holder()),
            None => (Vec::new(), None),
        }
    }

    /// Whether this process maintains the tables.
    pub fn maintains(&self) -> bool {
        self.core.tree.maintains()
    }

    /// Makes this process the one that maintains the tables.
    pub fn take_over(&self) -> Result<(), StorageError> {
        self.core.take_over()
    }

    /// Flushes all commits to tables; if another process maintains them, waits until that one has.
    pub fn flush(&self) -> Result<(), StorageError> {
        if self.core.follows() && !self.core.flush_following()? {
            return Ok(());
        }
        {
            let _writer = self.core.writer.lock();
            self.core.check_writable()?;
            // Notes of a shared log have no entries, and can be trimmed once the manifest names the place behind them.
            let flushed = self.core.tree.current().log_point.next;
            let has_notes = |wal: &SharedWal| wal.applied().next > flushed;
            if !self.core.shared.state().active.is_empty()
                || self.core.wal.shared().is_some_and(has_notes)
            {
                self.core.seal(self.version());
            }
        }
        self.core.flush_all_sealed()?;
        let _tidying = self.core.tidying.lock();
        self.core.tidy()
    }

    /// Creates segments of the log in advance.
    pub fn prepare(&self) -> Result<(), StorageError> {
        self.core.check_writable()?;
        self.core.wal.prepare()
    }

    /// Compacts tables as long as there is anything to compact; `whole` compacts everything into one run.
    pub fn compact(&self, whole: bool) -> Result<(), StorageError> {
        self.core.check_writable()?;
        self.core.check_maintains()?;
        if whole {
            self.core.tree.compact_all(&*self.core)?;
            self.core.chunks.clear();
            let _tidying = self.core.tidying.lock();
            return self.core.wal.shrink();
        }
        while self.core.tree.compact_once(&*self.core)? {}
        Ok(())
    }

    /// See [`copy::begin_backup`].
    pub fn begin_backup(&self) -> Result<BackupLock<'_>, StorageError> {
        copy::begin_backup(&self.core)
    }

    /// Like [`Backend::checkpoint`], with a given identity of the copy.
    pub fn checkpoint_as(&self, target: &Path, identity: u128) -> Result<Copied, StorageError> {
        copy::copy_database(&self.core, target, identity, &|| self.sync(), &|| {
            self.view()
        })
    }

    /// Its folder.
    pub fn directory(&self) -> &Path {
        &self.core.directory
    }

    /// The options with which it was opened.
    pub fn options(&self) -> &LsmOptions {
        &self.core.options
    }

    /// The last published version.
    pub fn version(&self) -> Version {
        self.published.read().version()
    }

    /// Memory for the records of a group of commits if they are encrypted in one piece: others are written in
    /// pieces.
    fn reserve_record(&self, commits: &[Commit<'_>]) -> Result<Option<Reservation>, StorageError> {
        let options = &self.core.options;
        let bytes = commits.iter().map(content_bytes).sum::<usize>();
        let Some(memory) = &options.memory else {
            return Ok(None);
        };
        if !options.seal.encrypts() || bytes < LARGE_RECORD_BYTES {
            return Ok(None);
        }
        let reserved = memory.reserve(MemoryKind::Writes, bytes + bytes / 8);
        reserved.map(Some).map_err(no_memory)
    }

    /// Applies commits that are in a shared log before `end`, and publishes the last version. The caller holds the
    /// writer's lock.
    fn apply_from_log(&self, commits: &[Commit<'_>], end: LogPoint) {
        let core = &*self.core;
        let Some(last) = commits.last() else {
            return;
        };
        Commit::assert_order(self.published.read().version(), commits);
        let room = commits.iter().map(room_for).sum();
        // The commits are in the log: they are applied even if the estimate of the record's room was too low.
        let _ = core.chunks.reserve(room);
        let _unfinished = Unfinished::of(core);
        match room > core.options.memtable_bytes {
            true => insert_large(core, commits, Some(end)),
            false => insert(&core.shared.state(), commits),
        }
        self.publish(last.version);
    }

    /// Back-pressure, after commits from a shared log were published.
    fn note_applied_bytes(&self, commits: &[Commit<'_>]) {
        let core = &*self.core;
        if commits.is_empty() {
            return;
        }
        let state = core.shared.state();
        core.note_filling(&state);
        if !core.follows() {
            core.pace(&state, commits.iter().map(content_bytes).sum());
        }
    }

    fn publish(&self, version: Version) {
        let view = self.core.shared.publish(version);
        let old = std::mem::replace(&mut *self.published.write(), view);
        drop(old);
    }
}

impl PrivateDatabase for LsmBackend {
    fn flush(&self) -> Result<(), StorageError> {
        Self::flush(self)
    }

    fn version(&self) -> Version {
        Self::version(self)
    }

    fn log(&self) -> Result<&Log, StorageError> {
        self.core.wal.own()
    }

    fn options(&self) -> &LsmOptions {
        Self::options(self)
    }
}

/// What is made before the database is opened.
struct Base {
    progress: Arc<Progress>,
    limiter: Option<Arc<Limiter>>,
    cache: BlockCache,
    /// The tree needs the callback before the state that it updates exists.
    shared: Arc<OnceLock<Weak<Shared>>>,
}

/// What was opened: the log, the tables, and what only the log has.
struct Opened {
    wal: Wal,
    tree: Arc<Tree>,
    state: State,
    chunks: Arc<Chunks>,
    collected_below: Version,
    /// The last version.
    last: Version,
    lock: Option<Lock>,
}

impl Base {
    fn new(options: &LsmOptions) -> Self {
        let limiter = options
            .background_bytes_per_second
            .map(|rate| Arc::new(Limiter::new(rate, options.time.clone())));
        let spare = options.spare_memory.as_ref();
        let cache = BlockCache::new(
            options.cache_bytes,
            spare.map(|(memory, most)| (memory, *most)),
        );
        Self {
            progress: Arc::default(),
            limiter,
            cache,
            shared: Arc::default(),
        }
    }

    /// Options for the tables.
    fn tree_options(&self, directory: &Path, options: &LsmOptions) -> TreeOptions {
        tree_options(directory, options, self)
    }
}

/// Memory for memtables.
fn chunks(options: &LsmOptions) -> Result<Arc<Chunks>, StorageError> {
    match &options.memory {
        Some(memory) if !options.read_only => {
            Chunks::within(memory, options.memtable_bytes).map_err(no_memory)
        }
        _ => Ok(Chunks::new(options.memtable_bytes)),
    }
}

fn tree_options(directory: &Path, options: &LsmOptions, base: &Base) -> TreeOptions {
    let (progress, limiter) = (base.progress.clone(), base.limiter.clone());
    let folder = directory.join(open::TABLES);
    let mut tree = TreeOptions::new(options.disk.clone(), folder, base.cache.clone());
    tree.seal = options.seal.clone();
    tree.table.compression = options.compression;
    tree.blob_threshold = options.blob_threshold_bytes;
    tree.table.filter_prefixes = options.filter_prefixes.clone();
    tree.random = options.random.clone();
    tree.read_only = options.read_only;
    tree.pace = Some(Arc::new(move |bytes| {
        if is_flushing() {
            progress.written.fetch_add(bytes, Ordering::Relaxed);
        }
        if let Some(limiter) = &limiter {
            limiter.take(
                bytes,
                // Bulk loads yield to flushes as compactions do: writers may wait for a flush.
                if is_flushing() {
                    Work::Flush
                } else {
                    Work::Compaction
                },
            );
        }
    }));
    tree
}

/// Publishes new tables to readers and removes the memtables that they contain, in one step.
fn on_change(shared: &Arc<OnceLock<Weak<Shared>>>) -> OnChange {
    let shared = shared.clone();
    Arc::new(move |levels| {
        if let Some(shared) = shared.get().and_then(Weak::upgrade) {
            shared.change(|state| State {
                active: state.active.clone(),
                sealed: state
                    .sealed
                    .iter()
                    .filter(|sealed| sealed.number > levels.flushed_memtables())
                    .cloned()
                    .collect(),
                levels: levels.clone(),
            });
        }
    })
}

/// Refuses a database whose manifest is missing or older than its file `STORE` requires.
fn check_manifest(
    directory: &Path,
    options: &LsmOptions,
    store: open::StoreFile,
) -> Result<(), StorageError> {
    if !store.is_whole() {
        return Ok(());
    }
    let folder = directory.join(open::TABLES);
    let is_current = |stored: &Stored| match store.is_shared() {
        true => stored.log_point.is_some(),
        false => stored.whole.is_some(),
    };
    let what = match Stored::read(&*options.disk, &folder, &options.seal)? {
        Some(stored) if is_current(&stored) => return Ok(()),
        Some(_) => "outdated",
        None => "missing",
    };
    let path = folder.join(MANIFEST);
    let what = format!("its manifest `{}` is {what}", path.display());
    Err(damaged(directory, &what))
}

/// Poisons the engine if it is dropped by a panic: a commit was interrupted.
struct Unfinished<'a> {
    core: &'a Core,
    /// Whether the thread was panicking before: a commit may be made by a destructor.
    panicked: bool,
}

impl<'a> Unfinished<'a> {
    fn of(core: &'a Core) -> Self {
        Self {
            core,
            panicked: std::thread::panicking(),
        }
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && !self.panicked {
            self.core.poison("a panic interrupted a commit");
        }
    }
}

/// Says, until it is dropped, that a bulk load writes to the shared log.
struct Loading<'a>(&'a AtomicBool);

impl<'a> Loading<'a> {
    fn begin(is_loading: &'a AtomicBool) -> Self {
        is_loading.store(true, Ordering::Release);
        Self(is_loading)
    }
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// The first key at or after `key`.
fn next_key(cursor: &mut MergeCursor<Source>, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
    cursor.seek(key)?;
    Ok(match cursor.valid() {
        true => Some(cursor.pair()?.0.to_vec()),
        false => None,
    })
}

/// Bytes that a record of the shared log takes in memtables, for each of its bytes: an estimate.
const RECORD_SHARE: usize = 2;

/// Records of a shared log that are applied together have at most this part of a memtable's bytes, and at most
/// [`MAX_RECORD_BATCH_BYTES`].
const RECORD_BATCH_SHARE: usize = 64;
const MAX_RECORD_BATCH_BYTES: usize = 256 << 10;

impl Backend for LsmBackend {
    type View = LsmView;

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "lsm",
            max_key_bytes: MAX_KEY_BYTES,
            max_value_bytes: MAX_VALUE_BYTES,
            max_transaction_bytes: self.core.options.max_transaction_bytes,
            ingest: true,
            durable: true,
            several_processes: self.core.wal.shared().is_some(),
        }
    }

    fn view(&self) -> Result<Arc<LsmView>, StorageError> {
        self.core.check_poison()?;
        Ok(self.published.read().clone())
    }

    fn view_at(&self, version: Version) -> Result<Arc<LsmView>, StorageError> {
        let published = self.view()?.version();
        if version > published {
            return Err(StorageError::Invalid(format!(
                "version {version} does not exist yet, the last one is {published}: ask for an earlier one"
            )));
        }
        let shared = &self.core.shared;
        shared
            .view_at(version)
            .ok_or_else(|| version_not_kept(version, shared.floor()))
    }

    fn oldest_version(&self) -> Version {
        self.core.shared.floor()
    }

    fn version_at(&self, time_ms: u64) -> Result<Option<Version>, StorageError> {
        let published = self.view()?.version();
        match &self.core.wal {
            Wal::Own(log) => log.version_at(time_ms, published),
            // The layer above answers from the shared log.
            Wal::Shared(_) => Ok(None),
        }
    }

    fn apply(&self, commits: &[Commit<'_>], durability: Durability) -> Result<(), StorageError> {
        let (Some(first), Some(last)) = (commits.first(), commits.last()) else {
            return Ok(());
        };
        let _writer = self.core.writer.lock();
        let core = &*self.core;
        core.check_writable()?;
        let log = core.wal.own()?;
        Commit::assert_order(self.published.read().version(), commits);
        let room = commits.iter().map(room_for).sum();
        core.make_room(first.version - 1, room)?;
        let _record = self.reserve_record(commits)?;
        let _unfinished = Unfinished::of(core);
        // The log first: a commit that is in the memtable can always be recovered.
        log.append(commits, core.now_ms())
            .map_err(|failure| core.failed(failure))?;
        if self.background.is_some() && log.lacks_spare() {
            core.signal(|signals| signals.prepare = true);
        }
        // Tables must not hold commits that the log could lose, and a large commit is flushed before it is
        // published.
        let is_large = room > core.options.memtable_bytes;
        if durability == Durability::Synced || is_large {
            log.sync().map_err(|failure| core.failed(failure))?;
        }
        match is_large {
            true => insert_large(core, commits, None),
            false => insert(&core.shared.state(), commits),
        }
        let state = core.shared.state();
        // Readers see the commits from here on; back-pressure is applied after that.
        self.publish(last.version);
        core.note_filling(&state);
        core.pace(&state, commits.iter().map(content_bytes).sum());
        Ok(())
    }

    fn make_room(&self, bytes: usize) -> Result<(), StorageError> {
        let core = &*self.core;
        if core.is_loading.load(Ordering::Acquire) {
            // Memtables are empty, the record has no writes, and this thread has the writer's lock.
            return Ok(());
        }
        core.check_poison()?;
        // Usually there is room, and only this thread takes of it: others seal memtables, which makes more.
        if core.has_room(RECORD_SHARE * bytes) {
            return Ok(());
        }
        let _writer = core.writer.lock();
        core.check_poison()?;
        let last = self.published.read().version();
        core.make_room(last, RECORD_SHARE * bytes)
    }

    fn apply_logged(
        &self,
        commits: &[Commit<'_>],
        time_ms: u64,
        after: LogPoint,
    ) -> Result<(), StorageError> {
        let core = &*self.core;
        let Some(wal) = core.wal.shared() else {
            return Err(StorageError::Unavailable(
                "this database was opened with a private log: open it as a shared one".to_owned(),
            ));
        };
        let _writer = core.writer.lock();
        core.check_poison()?;
        let committed = commits.last().map(|last| (last.version, time_ms));
        self.apply_from_log(commits, after);
        wal.note_applied(after, committed, core.options.retention.versions_ms);
        self.note_applied_bytes(commits);
        Ok(())
    }

    fn record_batch_bytes(&self) -> usize {
        (self.core.options.memtable_bytes / RECORD_BATCH_SHARE).min(MAX_RECORD_BATCH_BYTES)
    }

    fn apply_logged_records(
        &self,
        commits: &[Commit<'_>],
        ends: &[LoggedEnd],
    ) -> Result<(), StorageError> {
        let core = &*self.core;
        let record_of = |from: &mut usize, end: &LoggedEnd| {
            &commits[std::mem::replace(from, end.commits)..end.commits]
        };
        let room: usize = commits.iter().map(room_for).sum();
        let fits = room <= core.options.memtable_bytes;
        let (Some(wal), [_, .., last], true) = (core.wal.shared(), ends, fits) else {
            let mut from = 0;
            return ends.iter().try_for_each(|end| {
                self.apply_logged(record_of(&mut from, end), end.time_ms, end.after)
            });
        };
        let _writer = core.writer.lock();
        core.check_poison()?;
        self.apply_from_log(commits, last.after);
        let mut from = 0;
        for end in ends {
            let committed = record_of(&mut from, end).last();
            let committed = committed.map(|last| (last.version, end.time_ms));
            wal.note_applied(end.after, committed, core.options.retention.versions_ms);
        }
        self.note_applied_bytes(commits);
        Ok(())
    }

    fn log_point(&self) -> LogPoint {
        self.core.tree.current().log_point
    }

    fn wait_for_background_work(&self) -> Result<(), StorageError> {
        if self.core.options.read_only {
            return Ok(());
        }
        self.flush()?;
        if self.core.follows() {
            // The process that maintains the tables compacts them.
            return Ok(());
        }
        LsmBackend::compact(self, false)
    }

    fn compact(&self) -> Result<(), StorageError> {
        self.take_over()?;
        self.flush()?;
        LsmBackend::compact(self, true)
    }

    fn durable_version(&self) -> Version {
        match &self.core.wal {
            Wal::Own(log) => log.durable(),
            Wal::Shared(_) => self.core.tree.current().flushed(),
        }
    }

    fn stream(
        &self,
        after: Version,
        upto: Version,
        max_entries: usize,
        max_bytes: usize,
    ) -> Result<Vec<StreamEntry>, StorageError> {
        let log = self.core.wal.own()?;
        log.stream(after, upto, max_entries, max_bytes)
    }

    fn trim_stream(&self, upto: Version) -> Result<(), StorageError> {
        let _writer = self.core.writer.lock();
        let core = &*self.core;
        core.check_writable()?;
        let log = core.wal.own()?;
        log.trim(upto, core.now_ms())
            .map_err(|failure| core.failed(failure))
    }

    fn stream_trimmed(&self) -> Result<Version, StorageError> {
        Ok(self.core.wal.own()?.trimmed())
    }

    fn sync(&self) -> Result<(), StorageError> {
        let _writer = self.core.writer.lock();
        self.core.check_writable()?;
        let synced = match &self.core.wal {
            Wal::Own(log) => log.sync(),
            Wal::Shared(wal) => wal.sync(wal.applied().next),
        };
        synced.map_err(|failure| self.core.failed(failure))
    }

    fn checkpoint(&self, target: &Path) -> Result<(), StorageError> {
        // The copy is an independent database: its backups are not mixed with those of this one.
        let identity = open::new_identity(&self.core.options);
        self.checkpoint_as(target, identity).map(drop)
    }

    fn ingest(
        &self,
        version: Version,
        pairs: &mut PairIterator<'_>,
        stream: Option<&[u8]>,
    ) -> Result<(), StorageError> {
        let _writer = self.core.writer.lock();
        let core = &*self.core;
        core.check_writable()?;
        let log = core.wal.own()?;
        core.tree.check()?;
        let view = self.view()?;
        let mut cursor = view.cursor(ALL)?;
        let mut existing = |key: &[u8]| next_key(&mut cursor, key);
        let mut bounds: Option<(Vec<u8>, Vec<u8>)> = None;
        let mut noted = pairs.inspect(|pair| {
            if let Ok((key, _)) = pair {
                let (_, last) = bounds.get_or_insert_with(|| (key.clone(), Vec::new()));
                last.clear();
                last.extend_from_slice(key);
            }
        });
        let ingestion = core
            .tree
            .prepare_ingestion(version, &mut noted, &mut existing)?;
        drop(noted);
        drop(cursor);
        // Lookups search memtables before tables: memtables must not hold older entries of the range.
        let touched = bounds
            .is_some_and(|(first, last)| core.shared.state().memtables_touch(&first, Some(&last)));
        if touched {
            core.seal(version - 1);
            core.flush_all_sealed()?;
        }
        let _unfinished = Unfinished::of(core);
        log.append_ingestion(version, stream.unwrap_or_default(), core.now_ms())
            .map_err(|failure| core.failed(failure))?;
        log.sync().map_err(|failure| core.failed(failure))?;
        if let Err(error) = core.tree.commit_ingestion(ingestion) {
            // The log has the ingestion already: only reopening can tell whether it took place.
            core.poison(&error.to_string());
            return Err(StorageError::CommitUnknown(format!(
                "{error}: the bulk load may or may not be on disk: reopen the database and check"
            )));
        }
        self.publish(version);
        Ok(())
    }

    fn hold_alone(&self, patience: Duration) -> Result<Option<AloneHold>, StorageError> {
        self.core.hold_alone(patience).map(Some)
    }

    fn load(
        &self,
        version: Version,
        pairs: &mut PairIterator<'_>,
        append: &mut dyn FnMut() -> Result<(u64, LogPoint), StorageError>,
    ) -> Result<(), StorageError> {
        let core = &*self.core;
        let _writer = core.writer.lock();
        core.check_writable()?;
        core.check_maintains()?;
        core.tree.check()?;
        let Some(wal) = core.wal.shared() else {
            return Err(StorageError::Unavailable(
                "this database has a private log: load it without a shared one".to_owned(),
            ));
        };
        if !core.shared.state().active.is_empty() {
            core.seal(version - 1);
        }
        core.flush_all_sealed()?;
        let view = self.view()?;
        let mut cursor = view.cursor(ALL)?;
        let mut existing = |key: &[u8]| next_key(&mut cursor, key);
        let ingestion = core.tree.prepare_ingestion(version, pairs, &mut existing)?;
        drop(cursor);
        let state = core.shared.state();
        if !state.memtables().all(|memtable| memtable.is_empty()) {
            return Err(StorageError::Unavailable(
                "commits before a bulk load are not in tables yet: try again".to_owned(),
            ));
        }
        drop(state);
        let _unfinished = Unfinished::of(core);
        let _loading = Loading::begin(&core.is_loading);
        let mut appended = None;
        let mut commit = || append().map(|place| appended = Some(place));
        let point = wal.applied();
        if let Err(error) = core
            .tree
            .commit_load(ingestion, version - 1, point, &mut commit)
        {
            core.stop_if_tree_failed();
            return match appended {
                Some(_) => Err(StorageError::CommitUnknown(format!(
                    "{error}: the bulk load is in the log, and visible when the database is opened again"
                ))),
                None => Err(error),
            };
        }
        let (time_ms, after) = appended.expect("the load was committed");
        self.publish(version);
        let window_ms = core.options.retention.versions_ms;
        wal.note_applied(after, Some((version, time_ms)), window_ms);
        Ok(())
    }

    fn statistics(&self) -> Result<Statistics, StorageError> {
        inspect::statistics(&self.core, &*self.view()?)
    }

    fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<Vec<String>, StorageError> {
        inspect::verify(&self.core, &|| self.view(), progress)
    }
}

impl Drop for LsmBackend {
    fn drop(&mut self) {
        // The threads end before the log does.
        drop(self.background.take());
        if !self.core.options.read_only && !self.core.is_poisoned() {
            // A log that cannot be closed is recovered at the next opening.
            if let Wal::Own(log) = &self.core.wal {
                let _ = log.close();
            }
        }
        // Another process may take over, also while views of this engine are held.
        if self.core.wal.shared().is_some() {
            self.core.end_maintenance();
        }
    }
}

/// Lets reads trigger compactions, and flushes what was replayed.
fn begin_background_work(core: &Arc<Core>, last: Version) {
    let weak = Arc::downgrade(core);
    core.tree.current().seek_budget.on_due(move || {
        if let Some(core) = weak.upgrade()
            && core.tree.needs_compaction()
        {
            core.signal(|signals| signals.compact = true);
        }
    });
    seal_replayed(core, last);
}

/// Seals what was replayed. A database that is only read from now on would search this memtable forever, and the next
/// opening would replay it again.
fn seal_replayed(core: &Core, last: Version) {
    let least = match core.wal.shared() {
        // Other processes would apply it again, too.
        Some(_) => core.least_flushed_bytes(),
        None => core.options.memtable_bytes / REPLAY_FLUSH_SHARE,
    };
    if core.shared.state().active.bytes() >= least.max(1) {
        core.seal(last);
    }
}
