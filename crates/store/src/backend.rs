//! The engine's backend: groups of commits go into the log and the memtable, then become visible.

use std::{
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use isomer_storage::{
    Backend, Capabilities, Commit, Durability, KeyRange, MAX_KEY_BYTES, MAX_VALUE_BYTES, Order,
    Pairs, Statistics, StorageError, StreamEntry, Version, View, WriteSet, key_exists,
};
use isomer_vfs::Lock;
use parking_lot::{Mutex, RwLock};

use crate::{
    Erasure, StoreOptions,
    errors::{damaged, io_error},
    log::{Change, Failure, Flushed, Log, LogOptions},
    memtable::{Committer, Memtable},
    open,
    state::{Shared, State, StoreView},
};

/// Everything that is open.
pub struct StoreBackend {
    core: Arc<Core>,
    published: RwLock<Arc<StoreView>>,
    /// Held by whoever changes something.
    writer: Mutex<()>,
}

struct Core {
    directory: PathBuf,
    options: StoreOptions,
    log: Log,
    shared: Arc<Shared>,
    poisoned: AtomicBool,
    /// Why nothing may be trusted until reopening.
    poison: Mutex<Option<String>>,
    _lock: Option<Lock>,
}

const ALL: KeyRange<'static> = KeyRange {
    start: b"",
    end: None,
};

impl StoreBackend {
    pub fn open(directory: &Path, mut options: StoreOptions) -> Result<Self, StorageError> {
        open::prepare(directory, &options)?;
        options.seal = open::seal(directory, &options)?;
        let lock = open::lock(directory, &options)?;
        open::identity(directory, &options)?;
        let memtable = Arc::new(Memtable::new());
        let log_options = LogOptions {
            disk: options.disk.clone(),
            seal: options.seal.clone(),
            segment_bytes: options.segment_bytes,
            random: options.random.clone(),
            read_only: options.read_only,
        };
        let flushed = Flushed {
            version: 0,
            needed_from: 1,
            ingested: None,
        };
        let (log, recovered) = Log::open(
            &directory.join(open::LOG),
            log_options,
            &flushed,
            &mut |replayed| {
                let mut committer = memtable.committer();
                let version = replayed.version;
                let applied = replayed.writes.for_each(|change| match change {
                    Change::Erase(range) => erase(&mut committer, range, version),
                    Change::Set(key, value) => committer.insert(key, version, value),
                });
                applied.map_err(|_| {
                    damaged(
                        directory,
                        &format!("the commit {version} in its log does not decode"),
                    )
                })
            },
        )?;
        let state = State {
            active: memtable,
            sealed: Vec::new(),
        };
        let shared = Arc::new(Shared::new(state, 0));
        let published = RwLock::new(shared.view(recovered.version));
        let core = Core {
            directory: directory.to_owned(),
            options,
            log,
            shared,
            poisoned: AtomicBool::new(false),
            poison: Mutex::default(),
            _lock: lock,
        };
        Ok(Self {
            core: Arc::new(core),
            published,
            writer: Mutex::new(()),
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

    /// As [`Backend::checkpoint`]; answers the version of the copy.
    pub fn checkpoint_of(&self, target: &Path) -> Result<Version, StorageError> {
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
        let view = self.view()?;
        let folder = target.join(open::LOG);
        disk.make_folder(&folder)
            .map_err(|error| io_error("making", &folder, &error))?;
        core.log.copy_to(&folder, view.version())?;
        let identity = open::identity(&core.directory, &core.options)?;
        open::copy_keys(&core.directory, target, &**disk)?;
        open::create(target, &core.options, identity)?;
        Ok(view.version())
    }

    /// The last published version.
    pub fn version(&self) -> Version {
        self.published.read().version()
    }

    fn publish(&self, version: Version) {
        let view = self.core.shared.view(version);
        let old = std::mem::replace(&mut *self.published.write(), view);
        drop(old);
    }

    /// A view of an earlier version.
    pub fn view_at(&self, version: Version) -> Result<Arc<StoreView>, StorageError> {
        let published = self.view()?.version();
        if version > published {
            return Err(StorageError::Invalid(format!(
                "version {version} is not there yet, the last one is {published}: ask for an earlier one"
            )));
        }
        self.core.shared.view_at(version).ok_or_else(|| {
            let floor = self.core.shared.floor();
            StorageError::Invalid(format!(
                "version {version} is not kept any more, the oldest one is {floor}: \
                 ask for a later one, and keep versions for longer next time"
            ))
        })
    }
}

impl Core {
    fn check_poison(&self) -> Result<(), StorageError> {
        if !self.poisoned.load(Ordering::Acquire) {
            return Ok(());
        }
        let why = self.poison.lock().clone().unwrap_or_default();
        Err(StorageError::Unavailable(why))
    }

    fn poison(&self, why: &str) {
        let text = format!(
            "the database `{}` must be reopened: {why}",
            self.directory.display()
        );
        self.poison.lock().get_or_insert(text);
        self.poisoned.store(true, Ordering::Release);
    }

    fn check_writable(&self) -> Result<(), StorageError> {
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
    fn failed(&self, failure: Failure) -> StorageError {
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

    fn now_ms(&self) -> u64 {
        (self.options.clock)()
    }
}

/// Poisons the engine when it is dropped by a panic: a commit broke off in the middle.
struct Unfinished<'a>(&'a Core);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.poison("a commit broke off in the middle");
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

    fn apply(&self, commits: &[Commit<'_>], durability: Durability) -> Result<(), StorageError> {
        let Some(last) = commits.last() else {
            return Ok(());
        };
        let _writer = self.writer.lock();
        let core = &*self.core;
        core.check_writable()?;
        let _unfinished = Unfinished(core);
        core.log
            .append(commits, core.now_ms())
            .map_err(|failure| core.failed(failure))?;
        if durability == Durability::Synced {
            core.log.sync().map_err(|failure| core.failed(failure))?;
        }
        let state = core.shared.state();
        let mut committer = state.active.committer();
        for commit in commits {
            for range in commit.writes.erased() {
                erase(&mut committer, range, commit.version);
            }
            committer.insert_all(commit.version, commit.writes.slots());
        }
        drop(committer);
        self.publish(last.version);
        Ok(())
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

    fn sync(&self) -> Result<(), StorageError> {
        let _writer = self.writer.lock();
        self.core.check_writable()?;
        self.core
            .log
            .sync()
            .map_err(|failure| self.core.failed(failure))
    }

    fn checkpoint(&self, target: &Path) -> Result<(), StorageError> {
        self.checkpoint_of(target).map(drop)
    }

    fn ingest(
        &self,
        version: Version,
        pairs: &mut Pairs<'_>,
        stream: Option<&[u8]>,
    ) -> Result<(), StorageError> {
        let view = self.view()?;
        let mut writes = WriteSet::new();
        for pair in pairs {
            let (key, value) = pair?;
            if view.get(&key)?.is_some() {
                return Err(key_exists(&key));
            }
            writes.put(&key, &value);
        }
        let commit = Commit {
            version,
            writes: &writes,
            stream: stream.unwrap_or_default(),
        };
        self.apply(&[commit], Durability::Synced)
    }

    fn statistics(&self) -> Result<Statistics, StorageError> {
        let view = self.view()?;
        let log = self.core.log.statistics(view.version())?;
        let mut key_count = 0;
        view.visit(ALL, Order::Ascending, &mut |_, _| {
            key_count += 1;
            ControlFlow::Continue(())
        })?;
        let state = self.core.shared.state();
        let detail = |name: &str, value: u64| (name.to_owned(), value.to_string());
        Ok(Statistics {
            key_count,
            stored_bytes: log.stored_bytes,
            syncs: log.syncs,
            stream_entries: log.stream_entries,
            details: vec![
                detail("log_segments", log.segments),
                detail("memtable_bytes", state.active.bytes() as u64),
                detail("memtable_entries", state.active.entry_count()),
            ],
            ..Statistics::default()
        })
    }

    fn verify(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<Vec<String>, StorageError> {
        let log = &self.core.log;
        let version = self.view()?.version();
        let (mut done, total) = (0, log.record_bytes());
        let damage = log.verify(version, &mut |bytes| {
            done += bytes;
            progress(done.min(total), total);
        })?;
        progress(total, total);
        Ok(damage)
    }
}

impl Drop for StoreBackend {
    fn drop(&mut self) {
        if !self.core.options.read_only && !self.core.poisoned.load(Ordering::Acquire) {
            // What cannot be closed is recovered at the next opening.
            let _ = self.core.log.close();
        }
    }
}
