//! The engine's backend: groups of commits go into the log and the memtable, then become visible.

use std::{
    collections::HashSet,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock, Weak, atomic::Ordering},
    time::Duration,
};

use isomer_storage::sync::{Mutex, MutexGuard, RwLock};
use isomer_storage::{
    Backend, Capabilities, Commit, Durability, KeyRange, MAX_KEY_BYTES, MAX_VALUE_BYTES, Order,
    Pairs, Statistics, StorageError, StreamEntry, Version, View, damaged, io_error,
    version_not_kept,
};
use isomer_vfs::Open;

use crate::{
    BlockCache, Erasure, LevelStatistics, OnChange, StoreOptions, Tree, TreeOptions, agreement,
    background::{Background, is_flushing},
    backup::{begin, end},
    core::{Core, Progress},
    limit::{Limiter, Work},
    log::{Change, Flushed, Log, LogOptions, Replayed},
    memtable::{Chunks, Committer, Memtable},
    open,
    state::{Shared, State, StoreView},
};

/// Everything that is open, and the last version.
pub struct StoreBackend {
    core: Arc<Core>,
    published: RwLock<Arc<StoreView>>,
    /// Held by whoever changes something.
    writer: Mutex<()>,
    background: Option<Background>,
}

const ALL: KeyRange<'static> = KeyRange {
    start: b"",
    end: None,
};

/// A deleted range with more keys than this becomes an erasure.
const FEW_KEYS: usize = 32;
/// What is replayed at an opening is flushed where it is at least such a part of a memtable.
const MUCH_REPLAYED: usize = 8;

/// At most so many threads read ahead of long scans.
const MOST_HELPERS: usize = 4;

/// A scan that has taken nothing for so long loses its thread.
const PATIENCE: Duration = Duration::from_secs(1);

/// With more entries than this, pairs are not counted one by one.
const MANY_ENTRIES: u64 = 200_000;

impl StoreBackend {
    /// `unfinished`: also where a database is being made by restoring.
    pub fn open(
        directory: &Path,
        mut options: StoreOptions,
        unfinished: bool,
    ) -> Result<Self, StorageError> {
        open::prepare(directory, &options, unfinished)?;
        // Two that make a database at once must not both make its keys.
        let lock = open::lock(directory, &options)?;
        options.seal = open::seal(directory, &options)?;
        open::identity(directory, &options)?;
        open::settle(directory, &options)?;
        if !options.read_only {
            crate::StoreEngine::remove_checkpoint(directory, &options);
        }
        let progress = Arc::new(Progress::default());
        let limiter = options
            .background_bytes_per_second
            .map(|rate| Arc::new(Limiter::new(rate, options.time.clone())));
        // Who is told of new tables is made out of them.
        let shared: Arc<OnceLock<Weak<Shared>>> = Arc::default();
        let spare = options.spare_memory.as_ref();
        let cache = BlockCache::new(
            options.cache_bytes,
            spare.map(|(memory, most)| (memory, *most)),
        );
        let (tree, tables) = Tree::open(
            tree_options(directory, &options, cache.clone(), &progress, &limiter),
            on_change(&shared),
        )?;

        let chunks = Chunks::new(options.memtable_bytes);
        let memtable = Arc::new(Memtable::filling(&chunks));
        let log_options = LogOptions {
            disk: options.disk.clone(),
            seal: options.seal.clone(),
            segment_bytes: options.segment_bytes,
            random: options.random.clone(),
            read_only: options.read_only,
        };
        let flushed = Flushed {
            version: tables.flushed,
            needed_from: tables.log_needed_from,
            ingested: tables.ingested,
        };
        let state = State {
            active: memtable,
            sealed: Vec::new(),
            levels: tree.current(),
        };
        let (log, last) = Log::open(
            &directory.join(open::LOG),
            log_options,
            &flushed,
            &mut |replayed| replay(&state, replayed, directory),
        )?;
        let opened = Arc::new(Shared::new(state, tables.collected_below));
        // Nobody else has set it.
        let _ = shared.set(Arc::downgrade(&opened));
        let published = RwLock::new(opened.publish(last));
        if options.background {
            // One processor is left to whoever scans.
            let processors = std::thread::available_parallelism().map_or(1, usize::from);
            cache.allow_helpers((processors - 1).min(MOST_HELPERS), PATIENCE);
        }
        let threads = options.background && !options.read_only;
        let core = Arc::new(Core::new(
            directory.to_owned(),
            options,
            log,
            tree,
            cache,
            opened,
            chunks,
            progress,
            limiter,
            lock,
        ));
        let background = threads.then(|| Background::start(&core)).transpose()?;
        if background.is_some() {
            let merges = Arc::downgrade(&core);
            core.tree.current().detours.tell(move || {
                if let Some(core) = merges.upgrade()
                    && core.tree.needs_compaction()
                {
                    core.signal(|signals| signals.compact = true);
                }
            });
            // Who only reads from now on would look into it for ever, and the next opening would replay it once more.
            if core.shared.state().active.bytes()
                >= (core.options.memtable_bytes / MUCH_REPLAYED).max(1)
            {
                core.seal(last);
            }
        }
        Ok(Self {
            core,
            published,
            writer: Mutex::new(()),
            background,
        })
    }

    /// Puts everything that was committed into tables.
    pub fn flush(&self) -> Result<(), StorageError> {
        {
            let _writer = self.writer.lock();
            self.core.check_writable()?;
            if !self.core.shared.state().active.is_empty() {
                self.core.seal(self.version());
            }
        }
        self.core.flush_noting()?;
        let _tidying = self.core.tidying.lock();
        self.core.tidy()
    }

    /// Makes segments of the log ahead.
    pub fn prepare(&self) -> Result<(), StorageError> {
        self.core.check_writable()?;
        self.core.log.prepare()
    }

    /// Merges tables as far as there is anything to merge; `whole` makes one run of everything.
    pub fn compact(&self, whole: bool) -> Result<(), StorageError> {
        self.core.check_writable()?;
        if whole {
            self.core.tree.compact_all(&*self.core)?;
            self.core.chunks.clear();
            let _tidying = self.core.tidying.lock();
            return self.core.log.shrink();
        }
        while self.core.tree.compact_once(&*self.core)? {}
        Ok(())
    }

    /// The right to make a backup: one at a time.
    pub fn begin_backup(&self) -> Result<MutexGuard<'_, ()>, StorageError> {
        self.core.backing_up.try_lock().ok_or_else(|| {
            StorageError::Unavailable(format!(
                "another backup of `{}` is on its way: wait for its end",
                self.core.directory.display()
            ))
        })
    }

    /// Its folder.
    pub fn directory(&self) -> &Path {
        &self.core.directory
    }

    /// How it was opened.
    pub fn options(&self) -> &StoreOptions {
        &self.core.options
    }

    /// As [`Backend::checkpoint`], as the database of that identity; answers the version of the copy.
    pub fn checkpoint_as(&self, target: &Path, identity: u128) -> Result<Version, StorageError> {
        let core = &*self.core;
        let disk = &core.options.disk;
        let occupied = match disk.list(target) {
            Ok(names) => !names.is_empty(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => false,
            Err(error) => return Err(io_error("reading", target, &error)),
        };
        if occupied {
            return Err(StorageError::Invalid(format!(
                "`{}` is there already: give a new or an empty directory",
                target.display()
            )));
        }
        if !core.options.read_only {
            self.sync()?;
        }
        // Half of a copy is no database, and least of all an older one.
        let marker = begin(&**disk, target)?;
        // Until the log is copied, what the manifest needs of it must stay.
        let _tidying = core.tidying.lock();
        // No bulk load may come between: the log would tell of one that the manifest does not have.
        let writer = self.writer.lock();
        let (_levels, names, manifest) = core.tree.live_files();
        let view = self.view()?;
        drop(writer);
        copy_tables(core, target, &names, &manifest)?;
        let folder = target.join(open::LOG);
        disk.make_folder(&folder)
            .map_err(|error| io_error("making", &folder, &error))?;
        core.log.copy_to(&folder, view.version())?;
        open::copy_keys(&core.directory, target, &**disk)?;
        open::create(target, &core.options, identity)?;
        end(&**disk, target, &marker)?;
        Ok(view.version())
    }

    /// The last published version.
    pub fn version(&self) -> Version {
        self.published.read().version()
    }

    fn publish(&self, version: Version) {
        let view = self.core.shared.publish(version);
        let old = std::mem::replace(&mut *self.published.write(), view);
        drop(old);
    }
}

/// How the tables are kept.
fn tree_options(
    directory: &Path,
    options: &StoreOptions,
    cache: BlockCache,
    progress: &Arc<Progress>,
    limiter: &Option<Arc<Limiter>>,
) -> TreeOptions {
    let (progress, limiter) = (progress.clone(), limiter.clone());
    let mut tree = TreeOptions::new(options.disk.clone(), directory.join(open::TABLES), cache);
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
                // Bulk loads wait as merges do: a flush, for which others may wait, goes before.
                if is_flushing() {
                    Work::Flush
                } else {
                    Work::Merge
                },
            );
        }
    }));
    tree
}

/// Shows new tables to readers, and takes the memtables that are in them away, in one step.
fn on_change(shared: &Arc<OnceLock<Weak<Shared>>>) -> OnChange {
    let shared = shared.clone();
    Arc::new(move |levels| {
        if let Some(shared) = shared.get().and_then(Weak::upgrade) {
            shared.change(|state| State {
                active: state.active.clone(),
                sealed: state
                    .sealed
                    .iter()
                    .filter(|sealed| sealed.last > levels.flushed())
                    .cloned()
                    .collect(),
                levels: levels.clone(),
            });
        }
    })
}

/// Gives tables a second name in a copy of the database, or copies them where that cannot be, and writes their manifest.
fn copy_tables(
    core: &Core,
    target: &Path,
    names: &[PathBuf],
    manifest: &[u8],
) -> Result<(), StorageError> {
    let disk = &core.options.disk;
    let folder = target.join(open::TABLES);
    disk.make_folder(&folder)
        .map_err(|error| io_error("making", &folder, &error))?;
    for name in names {
        let (from, to) = (
            core.directory.join(open::TABLES).join(name),
            folder.join(name),
        );
        if disk.link(&from, &to).is_ok() {
            continue;
        }
        let copied = (|| {
            // An error does not say that there is no link, and what is written into one is written into the database.
            match disk.remove(&to) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let (from, to) = (disk.open(&from, Open::Read)?, disk.open(&to, Open::Create)?);
            let (mut bytes, mut at) = (vec![0; 1 << 20], 0);
            loop {
                match from.read_at(&mut bytes, at)? {
                    0 => return to.sync(),
                    count => {
                        to.write_all_at(&bytes[..count], at)?;
                        at += count as u64;
                    }
                }
            }
        })();
        copied.map_err(|error| io_error("copying", &to, &error))?;
    }
    let path = folder.join(crate::manifest::MANIFEST);
    let written = (|| {
        let file = disk.open(&path, Open::Create)?;
        file.write_all_at(manifest, 0)?;
        file.sync()?;
        disk.sync_folder(&folder)
    })();
    written.map_err(|error| io_error("writing", &path, &error))
}

/// Poisons the engine when it is dropped by a panic: a commit broke off in the middle.
struct Unfinished<'a> {
    core: &'a Core,
    /// Whether the thread was in a panic before: a commit can be what it leaves behind.
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
            self.core.poison("a commit broke off in the middle");
        }
    }
}

fn erase(committer: &mut Committer<'_>, range: KeyRange<'_>, version: Version) {
    committer.erase(Erasure {
        start: range.start.into(),
        end: range.end.map(Into::into),
        version,
    });
}

/// Deletes the keys of a range one by one where they are few, but for those that the same commit writes: an erasure costs
/// whoever reads beside it, until it has come down to the last level. Whether that was done.
fn delete_few(
    state: &State,
    committer: &mut Committer<'_>,
    version: Version,
    range: KeyRange<'_>,
    is_written: &dyn Fn(&[u8]) -> bool,
) -> Result<bool, StorageError> {
    let mut keys: Vec<Vec<u8>> = Vec::new();
    let mut cursor = state.cursor(range, version - 1)?;
    cursor.visit(range, Order::Ascending, &mut |key, _| {
        keys.push(key.to_vec());
        match keys.len() > FEW_KEYS {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })?;
    if keys.len() > FEW_KEYS {
        return Ok(false);
    }
    for key in keys.iter().filter(|key| !is_written(key)) {
        committer.insert(key, version, None);
    }
    Ok(true)
}

/// Puts a commit that only the log has into the memtable.
///
/// Where a bulk load that is in tables came behind it, a range that it deletes must not become an erasure of what was loaded,
/// above it: there the keys are found again that were deleted one by one before. Were they many, they were erased, and the load
/// waited until that was in tables, or has none of the range.
fn replay(state: &State, replayed: Replayed<'_>, directory: &Path) -> Result<(), StorageError> {
    let Replayed { version, writes } = replayed;
    let undecoded = |_| {
        damaged(
            directory,
            &format!("the commit {version} in its log does not decode"),
        )
    };
    let is_before_load = state.levels.ingested.is_some_and(|load| load > version);
    let mut written: HashSet<Vec<u8>> = HashSet::new();
    if is_before_load {
        let noted = writes.for_each(|change| {
            if let Change::Set(key, _) = change {
                written.insert(key.to_vec());
            }
        });
        noted.map_err(undecoded)?;
    }
    let mut committer = state.active.committer();
    let mut outcome = Ok(());
    let applied = writes.for_each(|change| match change {
        Change::Erase(range) => {
            let is_written = |key: &[u8]| written.contains(key);
            match is_before_load {
                true => match delete_few(state, &mut committer, version, range, &is_written) {
                    Ok(true) => {}
                    Ok(false) => erase(&mut committer, range, version),
                    Err(error) => outcome = Err(error),
                },
                false => erase(&mut committer, range, version),
            }
        }
        Change::Set(key, value) => committer.insert(key, version, value),
    });
    applied.map_err(undecoded)?;
    outcome
}

impl Backend for StoreBackend {
    type View = StoreView;

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "store",
            max_key_bytes: MAX_KEY_BYTES,
            max_value_bytes: MAX_VALUE_BYTES,
            max_transaction_bytes: self.core.options.max_transaction_bytes,
            ingest: true,
            durable: true,
            several_processes: false,
        }
    }

    fn view(&self) -> Result<Arc<StoreView>, StorageError> {
        self.core.check_poison()?;
        Ok(self.published.read().clone())
    }

    fn view_at(&self, version: Version) -> Result<Arc<StoreView>, StorageError> {
        let published = self.view()?.version();
        if version > published {
            return Err(StorageError::Invalid(format!(
                "version {version} is not there yet, the last one is {published}: ask for an earlier one"
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
        self.core.log.version_at(time_ms, published)
    }

    fn apply(&self, commits: &[Commit<'_>], durability: Durability) -> Result<(), StorageError> {
        let (Some(first), Some(last)) = (commits.first(), commits.last()) else {
            return Ok(());
        };
        let _writer = self.writer.lock();
        let core = &*self.core;
        core.check_writable()?;
        core.make_room(first.version - 1)?;
        let _unfinished = Unfinished::of(core);
        core.log
            .append(commits, core.now_ms())
            .map_err(|failure| core.failed(failure))?;
        if self.background.is_some() && core.log.lacks_spare() {
            core.signal(|signals| signals.prepare = true);
        }
        if durability == Durability::Synced {
            core.log.sync().map_err(|failure| core.failed(failure))?;
        }
        let state = core.shared.state();
        let mut committer = state.active.committer();
        for commit in commits {
            for range in commit.writes.erased() {
                let is_written = |key: &[u8]| commit.writes.has_slot(key);
                // What cannot be read can still be erased.
                if !delete_few(&state, &mut committer, commit.version, range, &is_written)
                    .unwrap_or(false)
                {
                    erase(&mut committer, range, commit.version);
                }
            }
            committer.insert_all(commit.version, commit.writes.slots());
        }
        drop(committer);
        self.publish(last.version);
        let bytes = |commit: &Commit<'_>| commit.writes.content_bytes() + commit.stream.len();
        core.pace(&state, commits.iter().map(bytes).sum());
        Ok(())
    }

    fn settle(&self) -> Result<(), StorageError> {
        if self.core.options.read_only {
            return Ok(());
        }
        self.flush()?;
        StoreBackend::compact(self, false)
    }

    fn compact(&self) -> Result<(), StorageError> {
        self.flush()?;
        StoreBackend::compact(self, true)
    }

    fn durable_version(&self) -> Version {
        self.core.log.durable()
    }

    fn stream(
        &self,
        after: Version,
        upto: Version,
        max_entries: usize,
        max_bytes: usize,
    ) -> Result<Vec<StreamEntry>, StorageError> {
        self.core.log.stream(after, upto, max_entries, max_bytes)
    }

    fn trim_stream(&self, upto: Version) -> Result<(), StorageError> {
        let _writer = self.writer.lock();
        let core = &*self.core;
        core.check_writable()?;
        core.log
            .trim(upto, core.now_ms())
            .map_err(|failure| core.failed(failure))
    }

    fn stream_trimmed(&self) -> Result<Version, StorageError> {
        Ok(self.core.log.trimmed())
    }

    fn sync(&self) -> Result<(), StorageError> {
        let _writer = self.writer.lock();
        self.core.check_writable()?;
        self.core
            .log
            .sync()
            .map_err(|failure| self.core.failed(failure))
    }

    fn checkpoint(&self, target: &Path) -> Result<(), StorageError> {
        // It goes on by itself: its backups are not those of this one.
        let identity = open::new_identity(&self.core.options);
        self.checkpoint_as(target, identity).map(drop)
    }

    fn ingest(
        &self,
        version: Version,
        pairs: &mut Pairs<'_>,
        stream: Option<&[u8]>,
    ) -> Result<(), StorageError> {
        let _writer = self.writer.lock();
        let core = &*self.core;
        core.check_writable()?;
        core.tree.check()?;
        let view = self.view()?;
        let mut cursor = view.cursor(ALL)?;
        let mut existing = |key: &[u8]| {
            cursor.seek(key)?;
            Ok(match cursor.valid() {
                true => Some(cursor.pair()?.0.to_vec()),
                false => None,
            })
        };
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
        // Tables are searched behind memtables: nothing older may be in these.
        let touched = bounds
            .is_some_and(|(first, last)| core.shared.state().memtables_touch(&first, Some(&last)));
        if touched {
            core.seal(version - 1);
            core.flush_noting()?;
        }
        let _unfinished = Unfinished::of(core);
        core.log
            .append_ingestion(version, stream.unwrap_or_default(), core.now_ms())
            .map_err(|failure| core.failed(failure))?;
        core.log.sync().map_err(|failure| core.failed(failure))?;
        if let Err(error) = core.tree.commit_ingestion(ingestion) {
            // The log tells of it already: only reopening finds out whether it took place.
            core.poison(&error.to_string());
            return Err(StorageError::CommitUnknown(format!(
                "{error}: the bulk load may be on disk or not: reopen the database and look"
            )));
        }
        self.publish(version);
        Ok(())
    }

    fn statistics(&self) -> Result<Statistics, StorageError> {
        let view = self.view()?;
        let log = self.core.log.statistics(view.version())?;
        let state = self.core.shared.state();
        let levels = state.levels.statistics();
        let sum = |of: fn(&LevelStatistics) -> u64| levels.iter().map(of).sum::<u64>();
        let (value_bytes, _) = state.levels.value_bytes();
        let table_bytes = sum(|level| level.bytes);
        let entries = sum(|level| level.entries)
            + state
                .memtables()
                .map(|memtable| memtable.entry_count())
                .sum::<u64>();
        let mut key_count = 0;
        if entries <= MANY_ENTRIES {
            view.visit(ALL, Order::Ascending, &mut |_, _| {
                key_count += 1;
                ControlFlow::Continue(())
            })?;
        } else {
            // Reading all of them would take seconds: each deletion has taken a key out, and none was put twice.
            key_count = entries.saturating_sub(2 * sum(|level| level.deletions));
        }
        let detail = |name: &str, value: u64| (name.to_owned(), value.to_string());
        let (hits, misses) = self.core.cache.hits_and_misses();
        let mut details = vec![
            detail("log_bytes", log.stored_bytes),
            detail("log_segments", log.segments),
            detail("log_dropped_bytes", log.dropped_bytes),
            detail("table_bytes", table_bytes),
            detail("value_bytes", value_bytes),
            detail("entries", entries),
            detail("memtable_bytes", state.memtable_bytes() as u64),
            detail("sealed_memtables", state.sealed.len() as u64),
            detail("cache_bytes", self.core.cache.used_bytes() as u64),
            detail("pinned_bytes", self.core.cache.pinned_bytes() as u64),
            detail("slowed_ms", self.core.slowed_ms()),
            detail("cache_hits", hits),
            detail("cache_misses", misses),
            detail("runs", levels.iter().map(|level| level.runs as u64).sum()),
            detail("merge_backlog_bytes", self.core.tree.backlog_bytes()),
            detail(
                "merged_bytes",
                self.core.tree.merged_bytes.load(Ordering::Relaxed),
            ),
            detail(
                "flushed_bytes",
                self.core.tree.flushed_bytes.load(Ordering::Relaxed),
            ),
            detail("oldest_version", self.oldest_version()),
        ];
        details.extend(
            self.core
                .merge_trouble()
                .map(|trouble| ("merge_trouble".to_owned(), trouble)),
        );
        for (number, level) in levels.iter().enumerate() {
            let text = format!(
                "{} runs, {} tables, {} bytes, {} entries",
                level.runs, level.tables, level.bytes, level.entries
            );
            details.push((format!("level_{number}"), text));
        }
        Ok(Statistics {
            key_count,
            stored_bytes: log.stored_bytes + table_bytes + value_bytes,
            syncs: log.syncs,
            stream_entries: log.stream_entries,
            details,
            ..Statistics::default()
        })
    }

    fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<Vec<String>, StorageError> {
        let core = &*self.core;
        let (view, state, pinned) = {
            // No segment goes between the one and the other; afterwards what is held here stays.
            let _tidying = core.tidying.lock();
            (self.view()?, core.shared.state(), core.log.pin())
        };
        let levels = state.levels.clone();
        let (in_log, in_tables) = (pinned.record_bytes(), 2 * levels.file_bytes());
        // The log is read again to compare it with the tables.
        let total = 2 * in_log + in_tables;
        let mut done = 0;
        let log = core.log.verify(&pinned, &mut |bytes| {
            done += bytes;
            progress(done.min(in_log), total);
        })?;
        let mut damage = log.damage;
        damage.extend(levels.verify(&mut |done, _| progress(in_log + done.min(in_tables), total))?);
        let upto = view.version();
        if upto > levels.flushed().max(log.last) {
            damage.push(format!(
                "the log ends at the commit {}, the last one is {upto}, and it is not in tables",
                log.last
            ));
        }
        if damage.is_empty() && log.last >= upto && log.whole_from <= upto {
            let mut done = in_log + in_tables;
            damage = agreement::compare(
                &core.log,
                &pinned,
                &state,
                log.whole_from,
                upto,
                &mut |bytes| {
                    done += bytes;
                    progress(done.min(total), total);
                },
            )?;
        }
        progress(total, total);
        Ok(damage)
    }
}

impl Drop for StoreBackend {
    fn drop(&mut self) {
        // The threads end before the log does.
        drop(self.background.take());
        if !self.core.options.read_only && !self.core.is_poisoned() {
            // What cannot be closed is recovered at the next opening.
            let _ = self.core.log.close();
        }
    }
}
