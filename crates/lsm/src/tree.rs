//! The tables of a database: opening them, changing the levels, flushing memtables.
//!
//! ```text
//! folder     MANIFEST, NUMBER.tab (tables), NUMBER.val (blob files); MANIFEST.new while it is being written
//! ```
//!
//! Readers take [`Tree::current`] and keep it for as long as they read. Every change creates new levels, writes
//! the manifest, then publishes them. Obsolete files are removed after their last reader is gone, by background
//! work.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    fmt,
    path::{Path, PathBuf},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use isomer_storage::sync::{Mutex, RwLock};
use isomer_storage::{LogPoint, StorageError, Version, io_error};
use isomer_vfs::{Disk, DiskFile, Seal};

use crate::{
    BlockCache, EntryCursor, RangeTombstones,
    blob::{BlobFile, Blobs},
    codec::corrupt,
    compaction::{
        rule::{Horizon, Rule},
        write::{Limits, NewFiles, Output, write_merged},
    },
    levels::{Levels, Part, Run},
    log::{Chain, Links},
    manifest::{MANIFEST, NEW_MANIFEST, Stored, StoredBlob, StoredRun, Whole},
    merge::Merge,
    processes::ManifestNumbers,
    table::{Table, TableFile, builder::TableOptions, sealed::Pace},
};

const TABLE_ENDING: &str = "tab";
const BLOB_ENDING: &str = "val";
/// Memtables, runs flushed from them, and the last level.
const MIN_LEVELS: usize = 3;

/// Options for the tables.
#[derive(Clone)]
pub struct TreeOptions {
    /// The disk.
    pub disk: Arc<dyn Disk>,
    /// The folder on it.
    pub folder: PathBuf,
    /// Encryption of the files.
    pub seal: Seal,
    /// The cache of blocks.
    pub cache: BlockCache,
    /// Options for writing tables.
    pub table: TableOptions,
    /// Bytes of a table; those of large levels are larger.
    pub table_bytes: u64,
    /// Bytes that a compaction writes between two changes of the levels.
    pub slice_bytes: u64,
    /// Values of at least this many bytes go into blob files.
    pub blob_threshold: usize,
    /// Random numbers, for identities of files.
    pub random: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// Called with the bytes that background work writes; blocks to limit the rate.
    pub pace: Option<Pace>,
    /// Whether the tables are opened read-only.
    pub read_only: bool,
    /// Identity of the database.
    pub database: u128,
    /// The segments of the log that the manifest names.
    pub chain: Arc<Chain>,
    /// Whether several processes share the log: the manifest names a place in it, and no segments.
    pub shared: bool,
    /// Whether another process may maintain the tables: nothing is written before `begin_maintenance`.
    pub follows: bool,
    /// Where the sequence of each manifest is published for other processes.
    pub numbers: Option<Arc<dyn ManifestNumbers>>,
}

impl TreeOptions {
    /// The usual sizes.
    pub fn new(disk: Arc<dyn Disk>, folder: PathBuf, cache: BlockCache) -> Self {
        Self {
            disk,
            folder,
            seal: Seal::plain(),
            cache,
            table: TableOptions::default(),
            table_bytes: 32 << 20,
            slice_bytes: 96 << 20,
            blob_threshold: 1 << 10,
            random: Arc::new(|| {
                use std::hash::{BuildHasher, Hasher, RandomState};
                RandomState::new().build_hasher().finish()
            }),
            pace: None,
            read_only: false,
            database: 0,
            chain: Arc::default(),
            shared: false,
            follows: false,
            numbers: None,
        }
    }
}

/// Names and numbers of files.
pub(crate) struct Files {
    pub(crate) options: TreeOptions,
    next: AtomicU64,
}

impl Files {
    fn new_file(&self, ending: &str) -> (u64, u128, PathBuf) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number, self.new_identity(), self.path(number, ending))
    }

    fn new_identity(&self) -> u128 {
        let random = &self.options.random;
        u128::from(random()) << 64 | u128::from(random())
    }

    pub(crate) fn new_table(&self) -> (u64, u128, PathBuf) {
        self.new_file(TABLE_ENDING)
    }

    pub(crate) fn new_blob(&self) -> (u64, u128, PathBuf) {
        self.new_file(BLOB_ENDING)
    }

    fn path(&self, number: u64, ending: &str) -> PathBuf {
        self.options.folder.join(format!("{number:012}.{ending}"))
    }

    pub(crate) fn open_table(&self, file: &TableFile) -> Result<Arc<Table>, StorageError> {
        let path = self.path(file.number, TABLE_ENDING);
        let options = &self.options;
        let table = Table::open(
            &*options.disk,
            path,
            file,
            &options.cache,
            options.seal.clone(),
        );
        Ok(Arc::new(table?))
    }

    pub(crate) fn open_blob(&self, blob: &StoredBlob) -> Result<Arc<BlobFile>, StorageError> {
        let path = self.path(blob.number, BLOB_ENDING);
        let options = &self.options;
        let file = BlobFile::open(
            &*options.disk,
            path,
            blob.number,
            blob.identity,
            blob.bytes,
            options.seal.clone(),
        );
        Ok(Arc::new(file?))
    }

    /// Makes the names of new files durable.
    pub(crate) fn sync_folder(&self) -> Result<(), StorageError> {
        let folder = &self.options.folder;
        self.options
            .disk
            .sync_folder(folder)
            .map_err(|error| io_error("syncing", folder, &error))
    }
}

/// State found when the tables were opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// Everything up to this version is in tables.
    pub flushed: Version,
    /// The first segment of the log that is needed.
    pub log_needed_from: u64,
    /// The last ingestion that became visible.
    pub ingested: Option<Version>,
    /// Versions below it may have been dropped by compactions.
    pub collected_below: Version,
    /// The log segments that must exist; `None` if the manifest's format does not name them.
    pub links: Option<Links>,
    /// The place in a shared log behind everything in the tables.
    pub log_point: LogPoint,
    /// Files in the folder that the manifest does not name.
    orphans: Vec<PathBuf>,
}

/// State that changes with the manifest.
struct Editing {
    stored: Stored,
    poisoned: Option<String>,
}

impl Editing {
    fn check(&self) -> Result<(), StorageError> {
        match &self.poisoned {
            Some(why) => Err(StorageError::Unavailable(why.clone())),
            None => Ok(()),
        }
    }
}

/// An obsolete file, until its last reader is gone.
struct ObsoleteFile {
    path: PathBuf,
    reader: Reader,
}

enum Reader {
    Table(Weak<Table>),
    Blob(Weak<BlobFile>),
}

/// What a flush adds to the tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlushedUpto {
    /// Memtables up to this number.
    pub(crate) memtables: u64,
    /// Everything up to this version.
    pub(crate) version: Version,
    /// The first log segment that is still needed.
    pub(crate) log_needed_from: u64,
    /// The place in a shared log behind everything in the tables.
    pub(crate) log_point: LogPoint,
}

/// Called with each new state of the levels, before other threads use it.
pub type OnChange = Arc<dyn Fn(&Arc<Levels>) + Send + Sync>;

/// The tables of a database.
pub struct Tree {
    pub(crate) files: Files,
    current: RwLock<Arc<Levels>>,
    editing: Mutex<Editing>,
    /// Held during a compaction.
    pub(crate) compacting: Mutex<()>,
    /// The key range that a compaction is reading: new tables in it may only be put on top.
    flight: Mutex<Option<KeyBounds>>,
    /// Bytes of tables that compactions, and flushes, have written since opening. For statistics only.
    pub(crate) compacted_bytes: AtomicU64,
    pub(crate) flushed_bytes: AtomicU64,
    obsolete: Mutex<Vec<ObsoleteFile>>,
    stop: AtomicBool,
    /// Whether compactions stop so that another process can maintain the tables.
    yields: AtomicBool,
    /// Whether this process may write the manifest, and remove files.
    maintains: AtomicBool,
    on_change: OnChange,
}

type KeyBounds = (Box<[u8]>, Option<Box<[u8]>>);

/// Ends the reservation of a slice's key range.
pub(crate) struct InFlight<'a>(&'a Tree);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        *self.0.flight.lock() = None;
    }
}

impl Tree {
    /// Opens the tables in a folder, which is created if it is missing. Files that the manifest does not name
    /// are left for [`Tree::remove_orphans`].
    pub fn open(
        options: TreeOptions,
        on_change: OnChange,
    ) -> Result<(Self, Recovered), StorageError> {
        let folder = options.folder.clone();
        let disk = options.disk.clone();
        let fail = |error| io_error("opening", &folder, &error);
        let writes = !options.read_only && !options.follows;
        if writes {
            disk.make_folder(&folder).map_err(fail)?;
        }
        let names = match disk.list(&folder) {
            Ok(names) => names,
            Err(error) if !writes && error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(fail(error)),
        };
        let found: Vec<(u64, PathBuf)> =
            names.iter().filter_map(|name| file_number(name)).collect();
        let stored = match Stored::read(&*disk, &folder, &options.seal)? {
            Some(stored) => stored,
            None if found.is_empty() => Stored {
                next_file: 1,
                next_run: 1,
                log_needed_from: 1,
                ..Stored::default()
            },
            None => {
                return Err(corrupt(
                    &folder.join(MANIFEST),
                    0,
                    "the manifest is missing, but there are tables",
                ));
            }
        };
        check_identity(&stored, &options)?;
        let numbers = options.numbers.as_ref();
        let is_published = numbers.is_some_and(|numbers| numbers.newest() >= stored.sequence);
        if !(options.read_only || options.follows && is_published) {
            // The rename may be in the operating system's memory only, if the process that made it ended or
            // failed before the name was durable. Later records of the log, and removals of files, rely on it.
            disk.sync_folder(&folder).map_err(fail)?;
        }
        let highest = found.iter().map(|(number, _)| number + 1).max();
        let files = Files {
            // Above every file that is there: one that a crash left before the manifest named it must not
            // be overwritten while it may belong to a manifest that is put back (`remove_orphans`).
            next: AtomicU64::new(stored.next_file.max(highest.unwrap_or(1))),
            options,
        };
        let levels = load(&files, &stored, &Levels::default())?;
        let is_new = stored.sequence == 0;
        let links = match is_new {
            true => Some(Links::new()),
            false => stored.whole.as_ref().map(|whole| whole.links.clone()),
        };
        let orphans = orphans(&levels, &found, &names);
        let recovered = Recovered {
            flushed: stored.flushed,
            log_needed_from: stored.log_needed_from,
            ingested: stored.ingested,
            collected_below: stored.collected_below,
            links,
            log_point: stored.log_point.unwrap_or_default(),
            orphans: orphans.map(|name| folder.join(name)).collect(),
        };
        let tree = Self {
            files,
            current: RwLock::new(Arc::new(levels)),
            editing: Mutex::new(Editing {
                stored,
                poisoned: None,
            }),
            compacting: Mutex::new(()),
            flight: Mutex::new(None),
            compacted_bytes: AtomicU64::new(0),
            flushed_bytes: AtomicU64::new(0),
            obsolete: Mutex::default(),
            stop: AtomicBool::new(false),
            yields: AtomicBool::new(false),
            maintains: AtomicBool::new(writes),
            on_change,
        };
        if is_new && writes {
            // A new database gets its manifest before its first record is logged: a folder with tables and
            // no manifest is damaged, not new.
            tree.change(|_, _| Ok(()))?;
            // The folder's own name as well.
            let folder = &tree.files.options.folder;
            if let Some(parent) = folder.parent().filter(|path| !path.as_os_str().is_empty()) {
                let synced = disk.sync_folder(parent);
                synced.map_err(|error| io_error("syncing", parent, &error))?;
            }
        }
        Ok((tree, recovered))
    }

    /// Removes files that the manifest does not name. Only after the log was found to match the manifest: the
    /// files may belong to a later manifest, which can be put back.
    pub fn remove_orphans(&self, recovered: &Recovered) -> Result<(), StorageError> {
        if !self.maintains() {
            return Ok(());
        }
        self.remove_files(&recovered.orphans)
    }

    fn remove_files(&self, paths: &[PathBuf]) -> Result<(), StorageError> {
        for path in paths {
            match self.files.options.disk.remove(path) {
                // The first manifest was renamed over it.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                outcome => outcome.map_err(|error| io_error("removing", path, &error))?,
            }
        }
        Ok(())
    }

    /// The current levels.
    pub fn current(&self) -> Arc<Levels> {
        self.current.read().clone()
    }

    /// Returns an error if it is unknown which manifest is on disk: before files are written that could not be
    /// used.
    pub(crate) fn check(&self) -> Result<(), StorageError> {
        self.editing.lock().check()
    }

    /// Changes the levels: `edit` modifies a copy, with a source of numbers for runs. The change is durable and
    /// visible when this returns.
    pub(crate) fn change(
        &self,
        edit: impl FnOnce(&mut Levels, &mut dyn FnMut() -> u64) -> Result<(), StorageError>,
    ) -> Result<Arc<Levels>, StorageError> {
        self.change_and(None, edit)
    }

    /// Like [`Tree::change`], with the commit of a bulk load into a shared database: it appends the record that decides
    /// whether the change takes place. The manifest has another name until then.
    pub(crate) fn change_and(
        &self,
        commit: Option<&mut dyn FnMut() -> Result<(), StorageError>>,
        edit: impl FnOnce(&mut Levels, &mut dyn FnMut() -> u64) -> Result<(), StorageError>,
    ) -> Result<Arc<Levels>, StorageError> {
        let mut editing = self.editing.lock();
        editing.check()?;
        if !self.maintains() {
            return Err(StorageError::Unavailable(format!(
                "the tables in `{}` are maintained by another process: leave their changes to it",
                self.files.options.folder.display()
            )));
        }
        let old = self.current();
        let mut levels = (*old).clone();
        let mut next_run = editing.stored.next_run;
        edit(&mut levels, &mut || {
            next_run += 1;
            next_run - 1
        })?;
        levels.tidy();
        let stored = self.stored(&levels, editing.stored.sequence + 1, next_run);
        let options = &self.files.options;
        let identity = self.files.new_identity();
        // The manifest is the commit point. A crash before the rename leaves the old levels,
        // and the new files as orphans; after it, the new levels. Nothing in memory has
        // changed until it is durable.
        let (disk, folder, seal) = (&*options.disk, &options.folder, &options.seal);
        let written = match commit {
            None => stored.write(disk, folder, identity, seal),
            Some(commit) => match stored.write_load(disk, folder, identity, seal) {
                Ok(()) => end_load(disk, folder, commit()),
                Err(error) => end_load(disk, folder, Err(error)),
            },
        };
        if let Err((error, unknown)) = written {
            if unknown {
                editing.poisoned = Some(format!(
                    "it is unknown which manifest is on disk: reopen the database ({error})"
                ));
            }
            return Err(error);
        }
        options.chain.end_storing();
        if let Some(numbers) = &options.numbers {
            // Announced to other processes only when it is durable: they replace memtables by these tables.
            numbers.raise(stored.sequence);
        }
        editing.stored = stored;
        let levels = Arc::new(levels);
        let before = std::mem::replace(&mut *self.current.write(), levels.clone());
        (self.on_change)(&levels);
        // After the new manifest is durable: a crash before leaves the old
        // one, which needs the old files.
        self.mark_obsolete(&before, &levels);
        drop(editing);
        Ok(levels)
    }

    /// Like [`Tree::change`], with new files that are adopted if it succeeds, or if the outcome is unknown.
    pub(crate) fn change_with(
        &self,
        files: &mut NewFiles,
        edit: impl FnOnce(&mut Levels, &NewFiles, &mut dyn FnMut() -> u64) -> Result<(), StorageError>,
    ) -> Result<Arc<Levels>, StorageError> {
        self.change_files(None, files, edit)
    }

    /// Like [`Tree::change_and`], with new files.
    pub(crate) fn change_files(
        &self,
        commit: Option<&mut dyn FnMut() -> Result<(), StorageError>>,
        files: &mut NewFiles,
        edit: impl FnOnce(&mut Levels, &NewFiles, &mut dyn FnMut() -> u64) -> Result<(), StorageError>,
    ) -> Result<Arc<Levels>, StorageError> {
        // If the state was unknown before, this change was not attempted.
        self.check()?;
        let changed = self.change_and(commit, |levels, new_run| edit(levels, files, new_run));
        // If the outcome is unknown, the manifest on disk may name the files: removing
        // them could destroy the database.
        if changed.is_ok() || self.check().is_err() {
            files.adopt();
        }
        changed
    }

    fn stored(&self, levels: &Levels, sequence: u64, next_run: u64) -> Stored {
        let mut blobs: Vec<StoredBlob> = levels
            .blobs
            .files
            .values()
            .map(|blob| StoredBlob {
                number: blob.number,
                identity: blob.file.identity(),
                bytes: blob.file.len(),
            })
            .collect();
        blobs.sort_by_key(|blob| blob.number);
        let run = |run: &Arc<Run>| StoredRun {
            id: run.id,
            parts: run.parts.iter().map(Part::stored).collect(),
        };
        Stored {
            sequence,
            next_file: self.files.next.load(Ordering::Relaxed),
            next_run,
            flushed: levels.flushed,
            log_needed_from: levels.log_needed_from,
            ingested: levels.ingested,
            collected_below: levels.collected_below,
            blobs,
            levels: levels
                .levels
                .iter()
                .map(|level| level.iter().map(run).collect())
                .collect(),
            jobs: levels.jobs.clone(),
            whole: Some(Whole {
                database: self.files.options.database,
                links: self.files.options.chain.begin_storing(),
            }),
            log_point: self.files.options.shared.then_some(levels.log_point),
        }
    }

    /// Writes the manifest again, after a change of the log's chain.
    pub(crate) fn store_chain(&self) -> Result<(), StorageError> {
        self.change(|_, _| Ok(())).map(drop)
    }

    /// Marks the files that are in `before` and not in `after` as obsolete.
    fn mark_obsolete(&self, before: &Levels, after: &Levels) {
        // A table is obsolete when none of its parts is left; a compaction takes
        // parts of it away slice by slice.
        let kept: HashSet<u64> = after.parts().map(|part| part.table.number).collect();
        let mut seen = HashSet::new();
        let mut obsolete = self.obsolete.lock();
        for part in before.parts() {
            let number = part.table.number;
            if !kept.contains(&number) && seen.insert(number) {
                obsolete.push(ObsoleteFile {
                    path: part.table.file().path().to_owned(),
                    reader: Reader::Table(Arc::downgrade(&part.table)),
                });
            }
        }
        for (number, blob) in &before.blobs.files {
            if !after.blobs.files.contains_key(number) {
                obsolete.push(ObsoleteFile {
                    path: blob.file.path().to_owned(),
                    reader: Reader::Blob(Arc::downgrade(blob)),
                });
            }
        }
    }

    /// Removes obsolete files without readers; part of the background work.
    pub fn collect_files(&self) {
        let mut unread = Vec::new();
        self.obsolete.lock().retain(|obsolete| {
            let read = match &obsolete.reader {
                // Readers hold levels, and levels hold the tables: without a strong reference no
                // reader can reach the file again.
                Reader::Table(table) => table.strong_count() > 0,
                Reader::Blob(blob) => blob.strong_count() > 0,
            };
            if !read {
                unread.push(obsolete.path.clone());
            }
            read
        });
        for path in unread {
            // A file that cannot be removed now is an orphan when the database is opened the next time.
            let _ = self.files.options.disk.remove(&path);
        }
    }

    /// Flushes memtables, given newest first, to tables; from then on the log is needed from `log_needed_from`
    /// on only.
    pub fn flush<C: EntryCursor>(
        &self,
        memtables: Vec<C>,
        range_tombstones: &RangeTombstones,
        flushed: Version,
        log_needed_from: u64,
        horizon: &dyn Horizon,
    ) -> Result<Arc<Levels>, StorageError> {
        let flushed = FlushedUpto {
            memtables: 0,
            version: flushed,
            log_needed_from,
            log_point: LogPoint::default(),
        };
        self.flush_upto(memtables, range_tombstones, flushed, horizon)
    }

    /// Like [`Tree::flush`], with everything that is in tables afterwards.
    pub(crate) fn flush_upto<C: EntryCursor>(
        &self,
        memtables: Vec<C>,
        range_tombstones: &RangeTombstones,
        flushed: FlushedUpto,
        horizon: &dyn Horizon,
    ) -> Result<Arc<Levels>, StorageError> {
        let readable = horizon.readable();
        let levels = self.current();
        // Entries of the memtables that a range tombstone of the memtables covers are superseded as
        // well, and need not be written if no reader sees them.
        let everywhere = levels.range_tombstones.union(range_tombstones);
        let mut merge = Merge::new(memtables);
        merge.seek(&[])?;
        let mut rule = Rule::new(&readable, &everywhere);
        let relocate = HashSet::new();
        let options = &self.files.options;
        let limits = Limits {
            table_bytes: options.table_bytes * 2,
            slice_bytes: u64::MAX,
        };
        let output = Output::new(
            &self.files,
            options.pace.clone(),
            limits,
            range_tombstones,
            &levels.blobs,
            &relocate,
            &[],
        );
        let mut written = write_merged(&mut merge, None, &mut rule, None, &|| false, output)?;
        self.files.sync_folder()?;
        let parts = self.open_parts(&written)?;
        let bytes = parts.iter().map(|part| part.table.file_bytes()).sum();
        self.flushed_bytes.fetch_add(bytes, Ordering::Relaxed);
        let collected = readable.from;
        self.change_with(&mut written, |levels, written, new_run| {
            if !parts.is_empty() {
                let run = Arc::new(Run::new(new_run(), parts));
                // Above every run with older entries of its keys: an ingestion, which may have been added
                // since, flushes the memtables of its range first.
                levels.levels[0].insert(0, run);
            }
            // In the same change as the tables: the log is needed from later on exactly when the
            // tables have what it contained.
            levels.flushed = levels.flushed.max(flushed.version);
            levels.flushed_memtables = levels.flushed_memtables.max(flushed.memtables);
            levels.log_needed_from = levels.log_needed_from.max(flushed.log_needed_from);
            if flushed.log_point.next > levels.log_point.next {
                levels.log_point = flushed.log_point;
            }
            let collected = self.collected(collected, levels.flushed);
            levels.collected_below = levels.collected_below.max(collected);
            levels.add_blobs(&self.files, &written.blobs)
        })
    }

    pub(crate) fn open_parts(&self, written: &NewFiles) -> Result<Vec<Part>, StorageError> {
        written
            .tables
            .iter()
            .map(|new| {
                let table = self.files.open_table(&new.file)?;
                let until = new.until.as_deref().map(Into::into);
                Ok(Part::new(table, (*new.from).into(), until))
            })
            .collect()
    }

    /// Reserves a key range for a compaction, and returns the levels to read: later tables are put on top.
    pub(crate) fn fly(&self, from: &[u8], until: Option<&[u8]>) -> (InFlight<'_>, Arc<Levels>) {
        // Published before the levels are read. An ingestion that changes the levels afterwards sees
        // the reservation, and puts its tables on top.
        *self.flight.lock() = Some((from.into(), until.map(Into::into)));
        // A concurrent change of the levels may have checked before: wait for its result.
        let editing = self.editing.lock();
        let levels = self.current();
        drop(editing);
        (InFlight(self), levels)
    }

    /// Whether a compaction reads keys of the range now.
    pub(crate) fn is_in_flight(&self, from: &[u8], until: Option<&[u8]>) -> bool {
        self.flight.lock().as_ref().is_some_and(|(start, end)| {
            until.is_none_or(|until| **start < *until)
                && end.as_ref().is_none_or(|end| **end > *from)
        })
    }

    /// Makes compactions stop at the next key, so that background work can end.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Versions below which may lack entries, once tables up to `flushed` have only those that are readable from `from`
    /// on. A process that has applied less than the maintainer must not wait for versions that the tables do not have.
    pub(crate) fn collected(&self, from: Version, flushed: Version) -> Version {
        match self.files.options.shared {
            true => from.min(flushed),
            false => from,
        }
    }

    /// Makes compactions stop at the next key while `yields`.
    pub(crate) fn set_yields(&self, yields: bool) {
        self.yields.store(yields, Ordering::Relaxed);
    }

    /// Leaves the tables to another process. No compaction and no flush is running: they would write files.
    pub(crate) fn end_maintenance(&self) {
        let _editing = self.editing.lock();
        self.maintains.store(false, Ordering::Release);
    }

    /// Whether this process may write the manifest, and remove files.
    pub(crate) fn maintains(&self) -> bool {
        self.maintains.load(Ordering::Acquire)
    }

    /// Number of times the manifest of the current levels was written.
    pub(crate) fn sequence(&self) -> u64 {
        self.editing.lock().stored.sequence
    }

    /// Opens the tables of the newest manifest, which another process may have written. A table that was compacted
    /// away before it was opened is not in the next manifest, which is read then.
    ///
    /// `applied` is the place behind the last applied record of the shared log, `published` the last version. Tables
    /// with more than that, or that lack versions which are still to be published, are not opened.
    pub(crate) fn newest(
        &self,
        applied: LogPoint,
        published: Version,
    ) -> Result<Newest, StorageError> {
        let options = &self.files.options;
        let known = self.sequence();
        loop {
            if Stored::read_sequence(&*options.disk, &options.folder)? <= known {
                return Ok(Newest::Known);
            }
            let Some(stored) = Stored::read(&*options.disk, &options.folder, &options.seal)? else {
                return Ok(Newest::Known);
            };
            check_identity(&stored, options)?;
            // The memtables of this process are searched before the tables: with tables that are ahead of
            // them, an older entry of a memtable would hide a newer one.
            let point = stored.log_point.unwrap_or_default();
            if point.next > applied.next || stored.collected_below > published {
                return Ok(Newest::Ahead);
            }
            if !options.read_only {
                // The process that wrote it may have ended before its name was durable, and this one may trim the log.
                let synced = options.disk.sync_folder(&options.folder);
                synced.map_err(|error| io_error("syncing", &options.folder, &error))?;
            }
            match load(&self.files, &stored, &self.current()) {
                Ok(levels) => return Ok(Newest::Found(Box::new(Newer { stored, levels }))),
                Err(error) => {
                    // A file was missing or changed: the other process has compacted it away, if the manifest
                    // has changed, too. Otherwise the error is damage.
                    let now = Stored::read_sequence(&*options.disk, &options.folder)?;
                    if now == stored.sequence {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Makes the levels of another process the current ones.
    pub(crate) fn adopt(&self, newer: Newer) -> Arc<Levels> {
        let mut editing = self.editing.lock();
        let Newer { stored, mut levels } = newer;
        let old = self.current();
        // Memtables are counted by each process for itself.
        levels.flushed_memtables = old.flushed_memtables;
        levels.seek_budget = old.seek_budget.clone();
        editing.stored = stored;
        let levels = Arc::new(levels);
        *self.current.write() = levels.clone();
        levels
    }

    /// Takes charge of the tables, whose newest manifest was adopted: the process that had it has ended. Makes
    /// durable what that one may not have, and removes what it left behind.
    pub(crate) fn begin_maintenance(&self) -> Result<(), StorageError> {
        let options = &self.files.options;
        let folder = &options.folder;
        let fail = |error| io_error("opening", folder, &error);
        options.disk.sync_folder(folder).map_err(fail)?;
        let names = options.disk.list(folder).map_err(fail)?;
        let found: Vec<(u64, PathBuf)> =
            names.iter().filter_map(|name| file_number(name)).collect();
        let editing = self.editing.lock();
        let highest = found.iter().map(|(number, _)| number + 1).max();
        let next = editing.stored.next_file.max(highest.unwrap_or(1));
        self.files.next.fetch_max(next, Ordering::Relaxed);
        let levels = self.current();
        let orphans = orphans(&levels, &found, &names);
        let orphans: Vec<PathBuf> = orphans.map(|name| folder.join(name)).collect();
        self.remove_files(&orphans)?;
        self.maintains.store(true, Ordering::Release);
        Ok(())
    }

    pub(crate) fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.yields.load(Ordering::Relaxed)
    }

    /// The current files of the levels, by name, and the manifest's contents. The files stay while the levels
    /// are held.
    pub(crate) fn live_files(&self) -> LiveFiles {
        let editing = self.editing.lock();
        let levels = self.current();
        // Under one lock, so that the manifest describes exactly these levels.
        let stored = editing.stored.clone();
        drop(editing);
        let tables = levels.parts().map(|part| part.table.file());
        let blobs = levels.blobs.files.values().map(|blob| &blob.file);
        let files: BTreeMap<PathBuf, Arc<dyn DiskFile>> = tables
            .chain(blobs)
            .filter_map(|file| Some((file.path().file_name()?.into(), file.handle().clone())))
            .collect();
        let files = files
            .into_iter()
            .map(|(name, file)| LiveFile { name, file });
        LiveFiles {
            files: files.collect(),
            _levels: levels,
            stored,
        }
    }

    /// Writes the manifest of a copy: the database `database` with these log segments.
    pub(crate) fn write_copy(
        &self,
        stored: &Stored,
        folder: &Path,
        whole: Whole,
    ) -> Result<(), StorageError> {
        let options = &self.files.options;
        let identity = self.files.new_identity();
        let whole_from = whole.links.keys().next().copied().unwrap_or(1);
        let stored = Stored {
            whole: Some(whole),
            // The log of the copy is its own, from its first segment on.
            log_needed_from: match stored.log_point {
                Some(_) => whole_from,
                None => stored.log_needed_from,
            },
            log_point: None,
            ..stored.clone()
        };
        let written = stored.write(&*options.disk, folder, identity, &options.seal);
        written.map_err(|(error, _)| error)
    }
}

/// What the newest manifest has for this process.
pub(crate) enum Newest {
    /// It is the one of the current levels.
    Known,
    /// This process has not applied yet what is in the tables.
    Ahead,
    /// Its tables, open.
    Found(Box<Newer>),
}

/// Tables that another process has published, open.
pub(crate) struct Newer {
    stored: Stored,
    pub(crate) levels: Levels,
}

/// The tables at one time, for a copy of the database.
pub(crate) struct LiveFiles {
    _levels: Arc<Levels>,
    /// Tables and blob files, by name.
    pub(crate) files: Vec<LiveFile>,
    /// The manifest's contents.
    pub(crate) stored: Stored,
}

/// A table, or a blob file.
pub(crate) struct LiveFile {
    pub(crate) name: PathBuf,
    /// It stays readable when its name is removed.
    pub(crate) file: Arc<dyn DiskFile>,
}

impl fmt::Debug for Tree {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Tree")
            .field("folder", &self.files.options.folder)
            .finish_non_exhaustive()
    }
}

impl Levels {
    /// Adds new blob files.
    pub(crate) fn add_blobs(
        &mut self,
        files: &Files,
        blobs: &[StoredBlob],
    ) -> Result<(), StorageError> {
        if blobs.is_empty() {
            return Ok(());
        }
        let mut all = (*self.blobs).clone();
        for blob in blobs {
            all.files.insert(blob.number, files.open_blob(blob)?);
        }
        self.blobs = Arc::new(all);
        Ok(())
    }

    /// Removes empty runs and blob files that no table refers to, and recomputes the range tombstones.
    fn tidy(&mut self) {
        let targets: HashSet<u64> = self.jobs.iter().map(|job| job.target).collect();
        for level in &mut self.levels {
            level.retain(|run| !run.parts.is_empty() || targets.contains(&run.id));
        }
        let used = self.blob_use();
        if self
            .blobs
            .files
            .keys()
            .any(|number| !used.contains_key(number))
        {
            let mut blobs = (*self.blobs).clone();
            blobs.files.retain(|number, _| used.contains_key(number));
            self.blobs = Arc::new(blobs);
        }
        self.gather_range_tombstones();
    }
}

/// Refuses the manifest of another database.
fn check_identity(stored: &Stored, options: &TreeOptions) -> Result<(), StorageError> {
    match &stored.whole {
        Some(whole) if whole.database != options.database => Err(StorageError::Corrupt(format!(
            "`{}` belongs to another database: put all files back as they were, or restore the database from a backup",
            options.folder.join(MANIFEST).display()
        ))),
        _ => Ok(()),
    }
}

/// The files in the folder that the manifest does not name.
fn orphans<'a>(
    levels: &Levels,
    found: &'a [(u64, PathBuf)],
    names: &'a [PathBuf],
) -> impl Iterator<Item = &'a PathBuf> {
    let mut known: HashSet<u64> = levels.parts().map(|part| part.table.number).collect();
    known.extend(levels.blobs.files.keys());
    let unnamed = found
        .iter()
        .filter(move |(number, _)| !known.contains(number))
        .map(|(_, name)| name);
    let unfinished = names.iter().filter(|name| *name == Path::new(NEW_MANIFEST));
    unnamed.chain(unfinished)
}

/// The number in a file's name, if it is one of the engine's files.
fn file_number(name: &Path) -> Option<(u64, PathBuf)> {
    let ending = name.extension()?.to_str()?;
    if ending != TABLE_ENDING && ending != BLOB_ENDING {
        return None;
    }
    let number = name.file_stem()?.to_str()?.parse().ok()?;
    Some((number, name.to_owned()))
}

/// Ends a bulk load whose commit ended in this way: the manifest is replaced, stays, or it is unknown (`true`) which of
/// both the next opening will find.
fn end_load(
    disk: &dyn Disk,
    folder: &Path,
    committed: Result<(), StorageError>,
) -> Result<(), (StorageError, bool)> {
    match committed {
        Ok(()) => Stored::settle_load(disk, folder, true).map_err(|error| (error, true)),
        // The next opening finds out.
        Err(error @ StorageError::CommitUnknown(_)) => Err((error, true)),
        Err(error) => {
            let removed = Stored::settle_load(disk, folder, false);
            Err((error, removed.is_err()))
        }
    }
}

/// Opens the files that a manifest names, unless `known` has them open.
fn load(files: &Files, stored: &Stored, known: &Levels) -> Result<Levels, StorageError> {
    let path = files.options.folder.join(MANIFEST);
    let mut blobs = Blobs::default();
    for blob in &stored.blobs {
        let known = known.blobs.files.get(&blob.number);
        let file = match known.filter(|known| known.file.identity() == blob.identity) {
            Some(known) => known.clone(),
            None => files.open_blob(blob)?,
        };
        blobs.files.insert(blob.number, file);
    }
    let known_tables = known.parts().map(|part| &part.table);
    let known_tables: HashMap<u64, &Arc<Table>> =
        known_tables.map(|table| (table.number, table)).collect();
    let mut open: HashMap<u64, Arc<Table>> = HashMap::new();
    let mut levels = Vec::new();
    for level in &stored.levels {
        let mut runs = Vec::new();
        for run in level {
            let mut parts: Vec<Part> = Vec::new();
            for part in &run.parts {
                let table = match open.get(&part.file.number) {
                    Some(table) => table.clone(),
                    None => {
                        let known = known_tables.get(&part.file.number);
                        let known = known.filter(|known| known.identity() == part.file.identity);
                        let table = match known {
                            Some(known) => Arc::clone(known),
                            None => files.open_table(&part.file)?,
                        };
                        open.insert(part.file.number, table.clone());
                        table
                    }
                };
                let overlaps = parts.last().is_some_and(|last| {
                    last.until.as_ref().is_none_or(|until| **until > *part.from)
                });
                if overlaps {
                    return Err(corrupt(&path, 0, "parts of a run overlap"));
                }
                let until = part.until.as_deref().map(Into::into);
                parts.push(Part::new(table, (*part.from).into(), until));
            }
            runs.push(Arc::new(Run::new(run.id, parts)));
        }
        levels.push(runs);
    }
    let known: HashSet<u64> = levels.iter().flatten().map(|run| run.id).collect();
    let sound = stored.jobs.iter().all(|job| {
        job.level < levels.len()
            && levels[job.level].iter().any(|run| run.id == job.target)
            && known.contains(&job.target)
    });
    if !sound {
        return Err(corrupt(&path, 0, "a compaction in progress has no target"));
    }
    levels.resize_with(levels.len().max(MIN_LEVELS), Vec::new);
    let mut levels = Levels {
        levels,
        blobs: Arc::new(blobs),
        jobs: stored.jobs.clone(),
        flushed: stored.flushed,
        log_needed_from: stored.log_needed_from,
        log_point: stored.log_point.unwrap_or_default(),
        ingested: stored.ingested,
        collected_below: stored.collected_below,
        filter_prefixes: files.options.table.filter_prefixes.as_slice().into(),
        ..Levels::default()
    };
    levels.gather_range_tombstones();
    Ok(levels)
}
