//! The engine's backend: published views, group commit, recovery from a full disk.

use std::{
    cell::Cell,
    ops::{Bound, ControlFlow},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use isomer_storage::{
    Backend, Capabilities, Commit, Durability, KeyRange, MAX_KEY_BYTES, MAX_VALUE_BYTES, Order,
    PairIterator, Statistics, StorageError, StreamEntry, Version, View, Visitor, damaged, hex,
    io_error, key_exists,
};
use isomer_vfs::{Call, Lock};
use parking_lot::{Mutex, RwLock};
use redb::{
    CursorMut, Database, ReadOnlyTable, ReadableDatabase, ReadableTable, ReadableTableMetadata,
    Table, WriteTransaction,
};

use crate::{
    RedbOptions,
    block_file::BLOCK_BYTES,
    open::{
        self, Instance, META, PAIRS, STREAM, TRIMMED, VERSION, damaged_blocks, guarded, redb_error,
    },
};

/// Buffered bytes and commits after which a commit is synced anyway, so that redb can reuse space.
const MAX_BUFFERED_BYTES: u64 = 64 << 20;
const MAX_BUFFERED_COMMITS: u64 = 1000;
/// Free space that a commit must leave on the disk.
const SPACE_MARGIN: u64 = 256 << 10;

pub struct RedbBackend {
    directory: PathBuf,
    options: RedbOptions,
    published: RwLock<Arc<RedbView>>,
    durable_version: AtomicU64,
    /// The change stream was trimmed up to this version.
    trimmed: AtomicU64,
    buffered: Mutex<Buffered>,
    /// Why the handle is unusable until the database is reopened.
    poison: Mutex<Option<String>>,
    /// Whether the published view reads an overlay, because the file could not yet be reopened for writing.
    stranded: AtomicBool,
    /// Held while the instance is written to or replaced.
    exclusive: Mutex<()>,
    /// Syncs of instances that were replaced.
    past_syncs: AtomicU64,
    _lock: Arc<Option<Lock>>,
}

/// What redb buffers and has not synced.
#[derive(Default)]
struct Buffered {
    bytes: u64,
    commits: u64,
}

/// One version, with its tables open.
pub struct RedbView {
    version: Version,
    pairs: ReadOnlyTable<&'static [u8], &'static [u8]>,
    stream: ReadOnlyTable<u64, &'static [u8]>,
    instance: Arc<Instance>,
    directory: Arc<Path>,
    _lock: Arc<Option<Lock>>,
}

impl RedbView {
    fn open(
        instance: Arc<Instance>,
        directory: Arc<Path>,
        lock: Arc<Option<Lock>>,
    ) -> Result<Self, StorageError> {
        let before = instance.blocks.damage_count();
        let opened = guarded(&directory, || {
            let convert = |error: redb::Error| redb_error(&directory, error);
            let read = instance
                .database
                .begin_read()
                .map_err(|error| convert(error.into()))?;
            let pairs = read
                .open_table(PAIRS)
                .map_err(|error| convert(error.into()))?;
            let stream = read
                .open_table(STREAM)
                .map_err(|error| convert(error.into()))?;
            let meta = read
                .open_table(META)
                .map_err(|error| convert(error.into()))?;
            let version =
                ReadableTable::get(&meta, VERSION).map_err(|error| convert(error.into()))?;
            let version = version
                .ok_or_else(|| damaged(&directory, "the record of its version is missing"))?
                .value();
            Ok((version, pairs, stream))
        });
        if instance.blocks.damage_count() != before {
            return Err(damaged_blocks(&directory, &instance.blocks.damaged()));
        }
        let (version, pairs, stream) = opened?;
        Ok(Self {
            version,
            pairs,
            stream,
            instance,
            directory,
            _lock: lock,
        })
    }

    /// Runs a read; its result is withheld if it met a damaged block.
    fn read<T>(&self, run: impl FnOnce() -> Result<T, StorageError>) -> Result<T, StorageError> {
        let before = self.instance.blocks.damage_count();
        let answer = guarded(&self.directory, run);
        if self.instance.blocks.damage_count() != before {
            return Err(damaged_blocks(
                &self.directory,
                &self.instance.blocks.damaged(),
            ));
        }
        answer
    }

    fn error(&self, error: redb::StorageError) -> StorageError {
        redb_error(&self.directory, error)
    }
}

impl View for RedbView {
    fn version(&self) -> Version {
        self.version
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        self.read(|| {
            let found = self.pairs.get(key).map_err(|error| self.error(error))?;
            Ok(found.map(|value| value.value().to_vec()))
        })
    }

    fn visit(
        &self,
        range: KeyRange<'_>,
        order: Order,
        visit: &mut Visitor<'_>,
    ) -> Result<(), StorageError> {
        // The visitor must never see a pair from a damaged block, so check before each pair.
        let blocks = &self.instance.blocks;
        let before = blocks.damage_count();
        self.read(|| {
            let bounds = (
                Bound::Included(range.start),
                range.end.map_or(Bound::Unbounded, Bound::Excluded),
            );
            let mut pairs = self
                .pairs
                .range::<&[u8]>(bounds)
                .map_err(|error| self.error(error))?;
            loop {
                let pair = match order {
                    Order::Ascending => pairs.next(),
                    Order::Descending => pairs.next_back(),
                };
                if blocks.damage_count() != before {
                    return Err(damaged_blocks(&self.directory, &blocks.damaged()));
                }
                let Some(pair) = pair else { return Ok(()) };
                let (key, value) = pair.map_err(|error| self.error(error))?;
                if visit(key.value(), value.value()).is_break() {
                    return Ok(());
                }
            }
        })
    }
}

impl RedbBackend {
    pub fn open(directory: &Path, options: RedbOptions) -> Result<Self, StorageError> {
        open::prepare(directory, &options)?;
        let lock = Arc::new(open::lock(directory, &options)?);
        if !options.read_only {
            open::create_if_missing(directory, &options)?;
        }
        let instance = Arc::new(open::open_data(directory, &options, options.read_only)?);
        let trimmed = open::stored_number(directory, &instance.database, TRIMMED)?;
        let view = RedbView::open(instance, directory.into(), lock.clone())?;
        Ok(Self {
            directory: directory.to_owned(),
            durable_version: AtomicU64::new(view.version),
            trimmed: AtomicU64::new(trimmed.unwrap_or(0)),
            published: RwLock::new(Arc::new(view)),
            options,
            buffered: Mutex::default(),
            poison: Mutex::default(),
            stranded: AtomicBool::new(false),
            exclusive: Mutex::default(),
            past_syncs: AtomicU64::new(0),
            _lock: lock,
        })
    }

    fn check_poison(&self) -> Result<(), StorageError> {
        match &*self.poison.lock() {
            Some(why) => Err(StorageError::Unavailable(why.clone())),
            None => Ok(()),
        }
    }

    fn poison(&self, why: &str) -> StorageError {
        let text = format!(
            "the database `{}` must be reopened: {why}",
            self.directory.display()
        );
        self.poison.lock().get_or_insert(text.clone());
        StorageError::Unavailable(text)
    }

    /// The instance to write to.
    fn writable(&self) -> Result<Arc<Instance>, StorageError> {
        self.check_poison()?;
        if self.options.read_only {
            let place = self.directory.display();
            return Err(StorageError::Unavailable(format!(
                "the database `{place}` was opened read-only: open it for writing"
            )));
        }
        let failed = self.published.read().instance.blocks.failure().is_some();
        if self.stranded.load(Ordering::SeqCst) || failed {
            self.reopen(false)?;
        }
        Ok(self.published.read().instance.clone())
    }

    /// Rejects a write that would not fit on the disk before redb starts it: an error in the middle would
    /// require reopening the file.
    fn check_space(&self, bytes: u64) -> Result<(), StorageError> {
        let Ok(Some(free)) = self.options.disk.free_bytes(&self.directory) else {
            return Ok(());
        };
        let needed = bytes + SPACE_MARGIN;
        if free < needed {
            let place = self.directory.display();
            return Err(StorageError::Unavailable(format!(
                "the disk of `{place}` is full: {free} bytes are free, this commit may need {needed}: free some space and try again"
            )));
        }
        Ok(())
    }

    fn publish(&self, instance: Arc<Instance>) -> Result<(), StorageError> {
        let view = Arc::new(RedbView::open(
            instance,
            self.directory.as_path().into(),
            self._lock.clone(),
        )?);
        // The old view is dropped after the lock is released.
        let _old = std::mem::replace(&mut *self.published.write(), view);
        Ok(())
    }

    /// Reopens the file after an error; with `overlay` for reading only.
    fn reopen(&self, overlay: bool) -> Result<(), StorageError> {
        let old = self.published.read().instance.clone();
        let version = self.published.read().version;
        old.blocks.supersede();
        let instance = open::open_data(&self.directory, &self.options, overlay)?;
        let stored = open::stored_version(&self.directory, &instance.database)?;
        if stored < version {
            instance.blocks.supersede();
            return Err(self.poison(&format!(
                "after an error, the buffered commits from {} to {version} are lost",
                stored + 1
            )));
        }
        self.past_syncs
            .fetch_add(old.blocks.syncs(), Ordering::Relaxed);
        self.publish(Arc::new(instance))?;
        self.stranded.store(overlay, Ordering::SeqCst);
        if !overlay {
            self.durable_version.store(stored, Ordering::SeqCst);
            *self.buffered.lock() = Buffered::default();
        }
        Ok(())
    }

    /// Determines the outcome of a failed write, and recovers the engine if that is safe.
    fn after_failure(
        &self,
        instance: &Instance,
        error: StorageError,
        last: Version,
    ) -> Result<(), StorageError> {
        let failure = instance.blocks.failure();
        if let Some(failure) = &failure
            && failure.call == Call::Sync
        {
            self.poison(&format!("a sync failed ({})", failure.message));
            return Err(StorageError::CommitUnknown(format!(
                "a sync of `{}` failed ({}): the outcome of the commit is unknown: reopen the database and check",
                self.directory.display(),
                failure.message
            )));
        }
        let error = match &failure {
            Some(failure) => open::failure_error(&self.directory, failure),
            None => error,
        };
        // For writing if possible; otherwise at least reads keep working.
        if let Err(first) = self.reopen(false).or_else(|_| self.reopen(true)) {
            self.poison(&format!(
                "after an error ({error}) it could not be read again ({first})"
            ));
            if let StorageError::Corrupt(_) = first {
                return Err(first);
            }
            return Err(StorageError::CommitUnknown(format!(
                "{error}; the outcome of the commit is unknown: reopen the database and check"
            )));
        }
        if self.published.read().version >= last {
            Ok(())
        } else {
            Err(error)
        }
    }

    /// Runs `write` in one redb transaction and publishes its result.
    fn transact(
        &self,
        instance: &Arc<Instance>,
        last: Version,
        durability: redb::Durability,
        write: impl FnOnce(&WriteTransaction) -> Result<(), Stop>,
    ) -> Result<(), StorageError> {
        let before = instance.blocks.damage_count();
        let mut refused = None;
        let committing = Cell::new(false);
        let written = guarded(&self.directory, || {
            let convert = |error: redb::Error| redb_error(&self.directory, error);
            let mut transaction = instance
                .database
                .begin_write()
                .map_err(|error| convert(error.into()))?;
            transaction
                .set_durability(durability)
                .map_err(|error| convert(error.into()))?;
            let wrote = write(&transaction).and_then(|()| {
                let mut meta = transaction.open_table(META)?;
                meta.insert(VERSION, last)?;
                Ok(())
            });
            match wrote {
                Ok(()) if instance.blocks.damage_count() != before => {
                    transaction.abort().map_err(|error| convert(error.into()))?;
                    Err(damaged_blocks(&self.directory, &instance.blocks.damaged()))
                }
                Ok(()) => {
                    committing.set(true);
                    transaction.commit().map_err(|error| convert(error.into()))
                }
                Err(Stop::Refused(error)) => {
                    transaction.abort().map_err(|error| convert(error.into()))?;
                    refused = Some(error);
                    Ok(())
                }
                Err(Stop::Failed(error)) => Err(convert(*error)),
            }
        });
        match (written, refused) {
            (Ok(()), Some(error)) => Err(error),
            (Ok(()), None) => self.publish(instance.clone()),
            // Damage was met before the commit began: nothing was changed, and intact data can still be read.
            (Err(error @ StorageError::Corrupt(_)), _)
                if !committing.get() && instance.blocks.failure().is_none() =>
            {
                Err(error)
            }
            (Err(error), _) => self.after_failure(instance, error, last),
        }
    }

    /// Makes everything durable, including the block checksums.
    fn sync_all(&self) -> Result<(), StorageError> {
        let version = self.published.read().version;
        let instance = self.writable()?;
        self.transact(&instance, version, redb::Durability::Immediate, |_| Ok(()))?;
        self.note_durable(version);
        Ok(())
    }

    fn note_durable(&self, version: Version) {
        self.published.read().instance.blocks.note_durable(version);
        self.durable_version.fetch_max(version, Ordering::SeqCst);
        *self.buffered.lock() = Buffered::default();
    }
}

/// Why a write was aborted.
enum Stop {
    /// redb failed.
    Failed(Box<redb::Error>),
    /// The request was rejected; the database is unchanged.
    Refused(StorageError),
}

impl<E: Into<redb::Error>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(Box::new(error.into()))
    }
}

impl Backend for RedbBackend {
    type View = RedbView;

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "redb",
            max_key_bytes: MAX_KEY_BYTES,
            max_value_bytes: MAX_VALUE_BYTES,
            max_transaction_bytes: self.options.max_transaction_bytes,
            ingest: true,
            durable: true,
            several_processes: false,
        }
    }

    fn view(&self) -> Result<Arc<RedbView>, StorageError> {
        self.check_poison()?;
        let view = self.published.read().clone();
        if view.instance.blocks.failure().is_none() {
            return Ok(view);
        }
        // After a failed read redb refuses reads through this instance. A concurrent writer handles that.
        let Some(_exclusive) = self.exclusive.try_lock() else {
            return Ok(view);
        };
        let current = self.published.read().clone();
        if current.instance.blocks.failure().is_some() {
            let read_only = self.options.read_only;
            self.reopen(read_only).or_else(|error| {
                if read_only {
                    Err(error)
                } else {
                    self.reopen(true)
                }
            })?;
            return Ok(self.published.read().clone());
        }
        Ok(current)
    }

    fn apply(&self, commits: &[Commit<'_>], durability: Durability) -> Result<(), StorageError> {
        let _exclusive = self.exclusive.lock();
        let Some(last) = commits.last().map(|commit| commit.version) else {
            return Ok(());
        };
        let instance = self.writable()?;
        Commit::assert_order(self.published.read().version, commits);
        let bytes: u64 = commits
            .iter()
            .map(|commit| (commit.writes.content_bytes() + commit.stream.len()) as u64)
            .sum();
        let slots: u64 = commits
            .iter()
            .map(|commit| commit.writes.slots().len() as u64)
            .sum();
        let (buffered_bytes, buffered_commits) = {
            let buffered = self.buffered.lock();
            (
                buffered.bytes + bytes,
                buffered.commits + commits.len() as u64,
            )
        };
        let file = instance.blocks.file();
        let known = file.name_count().and_then(|names| Ok((names, file.len()?)));
        let (names, file_bytes) =
            known.map_err(|error| io_error("reading", &self.directory, &error))?;
        if names == 0 {
            return Err(self.poison("its file was deleted or replaced while it was open"));
        }
        let touched = (slots * BLOCK_BYTES as u64).min(file_bytes);
        self.check_space(2 * buffered_bytes + touched)?;
        let synced = durability == Durability::Synced
            || buffered_bytes > MAX_BUFFERED_BYTES
            || buffered_commits > MAX_BUFFERED_COMMITS;
        let durability = if synced {
            redb::Durability::Immediate
        } else {
            redb::Durability::None
        };
        self.transact(&instance, last, durability, |transaction| {
            let mut pairs = transaction.open_table(PAIRS)?;
            for commit in commits {
                for range in commit.writes.deleted_ranges() {
                    let bounds = (
                        Bound::Included(range.start),
                        range.end.map_or(Bound::Unbounded, Bound::Excluded),
                    );
                    pairs.retain_in::<&[u8], _>(bounds, |_, _| false)?;
                }
                for (key, value) in commit.writes.slots() {
                    match value {
                        Some(value) => drop(pairs.insert(key, value)?),
                        None => drop(pairs.remove(key)?),
                    }
                }
            }
            let mut stream = transaction.open_table(STREAM)?;
            for commit in commits.iter().filter(|commit| !commit.stream.is_empty()) {
                stream.insert(commit.version, commit.stream)?;
            }
            Ok(())
        })?;
        if synced {
            self.note_durable(last);
        } else {
            *self.buffered.lock() = Buffered {
                bytes: buffered_bytes,
                commits: buffered_commits,
            };
        }
        Ok(())
    }

    fn durable_version(&self) -> Version {
        self.durable_version.load(Ordering::SeqCst)
    }

    fn stream(
        &self,
        after: Version,
        upto: Version,
        max_entries: usize,
        max_bytes: usize,
    ) -> Result<Vec<StreamEntry>, StorageError> {
        let view = self.view()?;
        let mut entries = Vec::new();
        if after >= upto {
            return Ok(entries);
        }
        view.read(|| {
            let mut bytes = 0;
            for entry in view
                .stream
                .range(after + 1..=upto)
                .map_err(|error| view.error(error))?
            {
                if entries.len() >= max_entries.max(1)
                    || (bytes >= max_bytes && !entries.is_empty())
                {
                    break;
                }
                let (version, entry) = entry.map_err(|error| view.error(error))?;
                let entry = entry.value().to_vec();
                bytes += entry.len();
                entries.push(StreamEntry {
                    version: version.value(),
                    bytes: entry,
                });
            }
            Ok(())
        })?;
        Ok(entries)
    }

    fn trim_stream(&self, upto: Version) -> Result<(), StorageError> {
        let _exclusive = self.exclusive.lock();
        let instance = self.writable()?;
        let version = self.published.read().version;
        let trimmed = self.trimmed.fetch_max(upto.min(version), Ordering::AcqRel);
        let trimmed = trimmed.max(upto.min(version));
        // Synced at once, so that a crash cannot bring entries back; this also makes earlier buffered commits
        // durable.
        self.transact(
            &instance,
            version,
            redb::Durability::Immediate,
            |transaction| {
                transaction
                    .open_table(STREAM)?
                    .retain_in::<u64, _>(..=upto, |_, _| false)?;
                transaction.open_table(META)?.insert(TRIMMED, trimmed)?;
                Ok(())
            },
        )?;
        self.note_durable(version);
        Ok(())
    }

    fn stream_trimmed(&self) -> Result<Version, StorageError> {
        Ok(self.trimmed.load(Ordering::Acquire))
    }

    fn sync(&self) -> Result<(), StorageError> {
        let _exclusive = self.exclusive.lock();
        if self.durable_version() >= self.published.read().version {
            return self.check_poison();
        }
        self.sync_all()
    }

    fn checkpoint(&self, target: &Path) -> Result<(), StorageError> {
        let view = self.view()?;
        let options = RedbOptions {
            create: true,
            read_only: false,
            ..self.options.clone()
        };
        let disk = &*self.options.disk;
        let existed = disk
            .exists(target)
            .map_err(|error| io_error("opening", target, &error))?;
        if existed && disk.list(target).map_or(true, |names| !names.is_empty()) {
            let target = target.display();
            return Err(StorageError::Invalid(format!(
                "`{target}` already exists: copy to a new or an empty directory"
            )));
        }
        open::prepare(target, &options)?;
        let copied = open::create_data(target, &options, |database| {
            copy(&view, &self.trimmed, target, database)
        });
        if copied.is_err() && !existed {
            drop(disk.remove_folder(target));
        }
        copied
    }

    fn ingest(
        &self,
        version: Version,
        pairs: &mut PairIterator<'_>,
        stream: Option<&[u8]>,
    ) -> Result<(), StorageError> {
        let _exclusive = self.exclusive.lock();
        let instance = self.writable()?;
        self.check_space(0)?;
        self.transact(
            &instance,
            version,
            redb::Durability::Immediate,
            |transaction| {
                let mut table = transaction.open_table(PAIRS)?;
                self.insert_sorted(&mut table, pairs)?;
                if let Some(bytes) = stream.filter(|bytes| !bytes.is_empty()) {
                    transaction.open_table(STREAM)?.insert(version, bytes)?;
                }
                Ok(())
            },
        )?;
        self.note_durable(version);
        Ok(())
    }

    fn statistics(&self) -> Result<Statistics, StorageError> {
        let view = self.view()?;
        let key_count = view.read(|| view.pairs.len().map_err(|error| view.error(error)))?;
        let stream_entries = view.read(|| view.stream.len().map_err(|error| view.error(error)))?;
        let blocks = &view.instance.blocks;
        let file = blocks.file();
        let known = file
            .len()
            .and_then(|bytes| Ok((bytes, file.stored_bytes()?)));
        let (file_bytes, stored_bytes) =
            known.map_err(|error| io_error("reading", &self.directory, &error))?;
        let detail = |name: &str, value: u64| (name.to_owned(), value.to_string());
        let mut statistics = Statistics::default();
        statistics.key_count = key_count;
        statistics.stored_bytes = stored_bytes;
        statistics.syncs = blocks.syncs() + self.past_syncs.load(Ordering::Relaxed);
        statistics.stream_entries = stream_entries;
        statistics.details = vec![
            detail("file_bytes", file_bytes),
            detail("cache_bytes", self.options.cache_bytes as u64),
            detail("checksum_bytes", blocks.sum_bytes()),
            detail("read_bytes", blocks.bytes_read()),
            detail("buffered_commits", self.buffered.lock().commits),
        ];
        Ok(statistics)
    }

    /// Opens the file a second time with an in-memory overlay and lets redb verify every page in use; commits
    /// wait until that is done.
    fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<Vec<String>, StorageError> {
        let _exclusive = self.exclusive.lock();
        if !self.options.read_only {
            self.sync_all()?;
        }
        let view = self.view()?;
        let total = view.instance.blocks.file().len().unwrap_or(0);
        let done = AtomicU64::new(0);
        thread::scope(|scope| {
            let worker =
                scope.spawn(|| verify_copy(&self.directory, &self.options, view.version, &done));
            while !worker.is_finished() {
                progress(done.load(Ordering::Relaxed).min(total), total);
                thread::sleep(Duration::from_millis(20));
            }
            progress(total, total);
            worker.join().unwrap_or_else(|_| {
                Err(damaged(&self.directory, "its verification was interrupted"))
            })
        })
    }
}

impl RedbBackend {
    /// Inserts ascending new pairs: consecutive ones through one cursor, isolated ones among stored keys
    /// individually.
    fn insert_sorted(
        &self,
        table: &mut Table<'_, &'static [u8], &'static [u8]>,
        pairs: &mut PairIterator<'_>,
    ) -> Result<(), Stop> {
        // A run shorter than this does not pay for a cursor; after it, this many pairs are inserted
        // individually before the next attempt.
        const SHORT_RUN: u64 = 8;
        const SINGLES: u64 = 256;
        let mut feed = Feed {
            pairs,
            backend: self,
            unchecked: 0,
        };
        let mut pending = feed.next()?;
        while let Some((first, _)) = &pending {
            let mut cursor: CursorMut<'_, &[u8], &[u8]> =
                table.lower_bound_mut(Bound::Included(first.as_slice()))?;
            // The run ends where a stored key lies between two new ones.
            let border = cursor.peek_next()?.map(|(key, _)| key.value().to_vec());
            let mut run = 0;
            while let Some((key, value)) = &pending {
                if border.as_ref().is_some_and(|border| border <= key) {
                    if border.as_ref() == Some(key) {
                        return Err(Stop::Refused(key_exists(key)));
                    }
                    break;
                }
                cursor
                    .insert_before(key.as_slice(), value.as_slice())
                    .map_err(|error| match error {
                        redb::CursorError::UnorderedKey => Stop::Refused(key_exists(key)),
                        redb::CursorError::Storage(error) => error.into(),
                        other => Stop::Refused(StorageError::Invalid(format!(
                            "the key {}: {other}",
                            hex(key)
                        ))),
                    })?;
                run += 1;
                pending = feed.next()?;
            }
            cursor.close()?;
            for _ in 0..if run < SHORT_RUN { SINGLES } else { 0 } {
                let Some((key, value)) = &pending else { break };
                if table.insert(key.as_slice(), value.as_slice())?.is_some() {
                    return Err(Stop::Refused(key_exists(key)));
                }
                pending = feed.next()?;
            }
        }
        Ok(())
    }
}

type Pair = (Vec<u8>, Vec<u8>);

/// The input of an ingestion, with periodic checks of the free space.
struct Feed<'a, 'b> {
    pairs: &'a mut PairIterator<'b>,
    backend: &'a RedbBackend,
    unchecked: u64,
}

impl Feed<'_, '_> {
    fn next(&mut self) -> Result<Option<Pair>, Stop> {
        const CHECK_BYTES: u64 = 4 << 20;
        let pair = self.pairs.next().transpose().map_err(Stop::Refused)?;
        self.unchecked += pair
            .as_ref()
            .map_or(0, |(key, value)| (key.len() + value.len()) as u64);
        if self.unchecked > CHECK_BYTES {
            self.unchecked = 0;
            // Data that redb still buffers must fit on the disk too.
            let held = (self.backend.options.cache_bytes as u64).min(CHECK_BYTES);
            self.backend.check_space(2 * held).map_err(Stop::Refused)?;
        }
        Ok(pair)
    }
}

/// Copies a view into an empty database.
fn copy(
    view: &RedbView,
    trimmed: &AtomicU64,
    target: &Path,
    database: &Database,
) -> Result<(), StorageError> {
    let convert = |error: redb::Error| redb_error(target, error);
    let transaction = database
        .begin_write()
        .map_err(|error| convert(error.into()))?;
    {
        let mut table = transaction
            .open_table(PAIRS)
            .map_err(|error| convert(error.into()))?;
        let mut cursor = table
            .upper_bound_mut(Bound::<&[u8]>::Unbounded)
            .map_err(|error| convert(error.into()))?;
        let mut failed = None;
        view.visit(
            KeyRange {
                start: b"",
                end: None,
            },
            Order::Ascending,
            &mut |key, value| match cursor.insert_before(key, value) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failed = Some(match error {
                        redb::CursorError::Storage(error) => convert(error.into()),
                        other => {
                            damaged(&view.directory, &format!("the key {}: {other}", hex(key)))
                        }
                    });
                    ControlFlow::Break(())
                }
            },
        )?;
        if let Some(error) = failed {
            return Err(error);
        }
        cursor.close().map_err(|error| convert(error.into()))?;
        let mut stream = transaction
            .open_table(STREAM)
            .map_err(|error| convert(error.into()))?;
        view.read(|| {
            for entry in view
                .stream
                .range::<u64>(..)
                .map_err(|error| view.error(error))?
            {
                let (version, bytes) = entry.map_err(|error| view.error(error))?;
                stream
                    .insert(version.value(), bytes.value())
                    .map_err(|error| convert(error.into()))?;
            }
            Ok(())
        })?;
        let mut meta = transaction
            .open_table(META)
            .map_err(|error| convert(error.into()))?;
        meta.insert(VERSION, view.version)
            .map_err(|error| convert(error.into()))?;
        let trimmed = trimmed.load(Ordering::Acquire).min(view.version);
        meta.insert(TRIMMED, trimmed)
            .map_err(|error| convert(error.into()))?;
    }
    transaction.commit().map_err(|error| convert(error.into()))
}

/// Verifies the file through a separate instance; returns the damage found.
fn verify_copy(
    directory: &Path,
    options: &RedbOptions,
    version: Version,
    done: &AtomicU64,
) -> Result<Vec<String>, StorageError> {
    let options = RedbOptions {
        cache_bytes: options.cache_bytes.min(16 << 20),
        ..options.clone()
    };
    let mut instance = match open::open_data(directory, &options, true) {
        Ok(instance) => instance,
        Err(StorageError::Corrupt(what)) => return Ok(vec![what]),
        Err(other) => return Err(other),
    };
    let mut damage = Vec::new();
    if instance.rolled_back {
        damage.push("the last commit is damaged; the one before it is intact".to_owned());
    }
    let blocks = instance.blocks.clone();
    if !options.read_only {
        damage.extend(
            instance
                .healed
                .iter()
                .map(|block| format!("the checksum of block {block} does not match")),
        );
    }
    done.store(blocks.bytes_read(), Ordering::Relaxed);
    // Opening a cleanly closed file does not verify it.
    let sound = guarded(directory, || {
        instance
            .database
            .check_integrity()
            .map_err(|error| redb_error(directory, error))
    });
    match sound {
        Ok(true) => {}
        Ok(false) => damage.push("redb's integrity check found damage".to_owned()),
        Err(error) => damage.push(error.to_string()),
    }
    damage.extend(
        blocks
            .damaged()
            .iter()
            .map(|block| format!("the checksum of block {block} does not match")),
    );
    if !damage.is_empty() {
        return Ok(damage);
    }
    let stored = open::stored_version(directory, &instance.database)?;
    if stored < version {
        damage.push(format!(
            "the last version in the file is {stored}, {version} was committed"
        ));
    }
    if let Err(error) = check_order(directory, &instance, stored, done) {
        damage.push(error.to_string());
    }
    Ok(damage)
}

/// Reads all tables: keys must ascend, and no stream entry may be newer than the last version.
fn check_order(
    directory: &Path,
    instance: &Instance,
    version: Version,
    done: &AtomicU64,
) -> Result<(), StorageError> {
    guarded(directory, || {
        let convert = |error: redb::Error| redb_error(directory, error);
        let read = instance
            .database
            .begin_read()
            .map_err(|error| convert(error.into()))?;
        let pairs = read
            .open_table(PAIRS)
            .map_err(|error| convert(error.into()))?;
        let mut last: Option<Vec<u8>> = None;
        for (number, pair) in pairs
            .range::<&[u8]>(..)
            .map_err(|error| convert(error.into()))?
            .enumerate()
        {
            let (key, _) = pair.map_err(|error| convert(error.into()))?;
            if last.as_deref().is_some_and(|last| last >= key.value()) {
                return Err(damaged(
                    directory,
                    &format!("the key {} is out of order", hex(key.value())),
                ));
            }
            let last = last.get_or_insert_default();
            last.clear();
            last.extend_from_slice(key.value());
            if number % 4096 == 0 {
                done.store(instance.blocks.bytes_read(), Ordering::Relaxed);
            }
        }
        let stream = read
            .open_table(STREAM)
            .map_err(|error| convert(error.into()))?;
        let newest = stream.last().map_err(|error| convert(error.into()))?;
        match newest {
            Some((newest, _)) if newest.value() > version => Err(damaged(
                directory,
                &format!(
                    "a change-stream entry of version {} is newer than {version}",
                    newest.value()
                ),
            )),
            _ => Ok(()),
        }
    })
}
