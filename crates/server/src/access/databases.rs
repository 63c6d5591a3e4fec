//! The databases that are served. Only sessions hand them out.

use std::{
    collections::BTreeMap,
    fs::{File, TryLockError},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use isomer_db::{Builder, Database, EngineKind, MemoryKind, RestoreOptions, Restored};
use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::{Result, ServerError, feed::Feed};

/// A database that is served.
pub struct Served {
    pub(super) name: Arc<str>,
    pub(super) db: Database,
    pub(super) feed: Arc<Feed>,
    place: Option<Place>,
}

/// Where a database is.
#[derive(Clone, Debug)]
struct Place {
    path: PathBuf,
    /// Whether it is in the folder of databases, and may be dropped over the network.
    is_ours: bool,
}

/// A database that does not open. It keeps its name: nobody who asks for it may land in another one.
#[derive(Clone, Debug)]
struct Failed {
    place: Place,
    why: String,
}

/// All that have a name. One name is in one of both.
#[derive(Default)]
struct Known {
    open: BTreeMap<Arc<str>, Arc<Served>>,
    failed: BTreeMap<Arc<str>, Failed>,
}

impl Known {
    fn has(&self, name: &str) -> bool {
        self.open.contains_key(name) || self.failed.contains_key(name)
    }
}

/// All of them, by name.
pub struct Databases {
    builder: Builder,
    folder: Option<PathBuf>,
    known: RwLock<Known>,
    /// Held while databases are made, named or dropped.
    changing: Mutex<()>,
    /// Whether all were closed.
    has_closed: AtomicBool,
    /// Keeps other servers out of the folder.
    lock: Mutex<Option<File>>,
}

/// The file in the folder of databases that is locked by the server that serves them.
const LOCK: &str = "databases.lock";
/// Longest wait of a stop for a database that is being made or dropped.
const CLOSE_WAIT: Duration = Duration::from_secs(1);

/// What the names of buckets begin with that only the server writes.
const OWN_BUCKETS: &str = "isomer.";

/// What folders of databases that are put together, or were dropped, are called until they have a name, or are gone.
const UNNAMED: [&str; 2] = [".restored-", ".dropped-"];

/// Refuses names that are no plain words: they stand in paths.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.is_empty() || name.len() > 64 || !name.chars().all(allowed) {
        return Err(ServerError::Invalid(
            "the name of a database has 1 to 64 letters, digits, `_` or `-`".into(),
        ));
    }
    Ok(())
}

impl Databases {
    /// No database yet; `folder` is where further ones are made.
    pub fn new(builder: Builder, folder: Option<PathBuf>) -> Self {
        Self {
            builder,
            folder,
            known: RwLock::default(),
            changing: Mutex::new(()),
            has_closed: AtomicBool::new(false),
            lock: Mutex::new(None),
        }
    }

    /// Serves an open database under a name.
    pub fn add(&self, name: &str, db: Database) -> Result<()> {
        self.insert(name, db, None)
    }

    /// Opens a database that was given by its folder, and serves it.
    pub fn add_at(&self, name: &str, path: &Path, create: bool) -> Result<()> {
        let db = self.builder.clone().create(create).open(path)?;
        let place = Place {
            path: path.to_owned(),
            is_ours: false,
        };
        self.insert(name, db, Some(place))
    }

    /// Opens all databases in the folder where they are made. Other folders there, those of users and tokens or of backups, are left
    /// alone; what a restore or a drop that was cut short left behind is removed. One database that does not open holds up none of
    /// the others: it keeps its name, and says why it does not open. A folder, or a database in it, that another process has open is refused: what
    /// is put together there may be that one's.
    pub fn open_folder(&self) -> Result<()> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        let unreadable = |error: std::io::Error| {
            ServerError::Unavailable(format!("{} cannot be read: {error}", folder.display()))
        };
        std::fs::create_dir_all(folder).map_err(unreadable)?;
        self.lock_folder(folder)?;
        let mut left = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(unreadable)? {
            let path = entry.map_err(unreadable)?.path();
            let name = path
                .file_name()
                .and_then(|name| name.to_str())
                .unwrap_or_default();
            if !path.is_dir() {
                continue;
            }
            if UNNAMED.iter().any(|begin| name.starts_with(begin)) {
                left.push(path);
            } else if check_name(name).is_ok() && EngineKind::at(&path).is_some() {
                self.refuse_twice(&self.known.read(), name)?;
                let place = Place {
                    path: path.clone(),
                    is_ours: true,
                };
                match self.open_at(name, &place) {
                    Err(error) if is_in_use(&error) => return Err(error),
                    Err(error) => self.fail(name, place, &error),
                    Ok(()) => {}
                }
            }
        }
        // Nobody else is at work in the folder.
        for path in left {
            if let Err(error) = std::fs::remove_dir_all(&path) {
                tracing::warn!(folder = %path.display(), %error, "what is left of a database was not removed");
            }
        }
        Ok(())
    }

    /// Opens a database where it is and serves it.
    fn open_at(&self, name: &str, place: &Place) -> Result<()> {
        let db = self.builder.clone().create(false).open(&place.path)?;
        let served = self.insert(name, db.clone(), Some(place.clone()));
        if served.is_err() {
            db.close()?;
        }
        served
    }

    /// Notes that a database does not open.
    fn fail(&self, name: &str, place: Place, error: &ServerError) {
        tracing::error!(database = name, %error, "a database does not open");
        let why = format!("{}: {error}", error.kind());
        let mut known = self.known.write();
        known.open.remove(name);
        known.failed.insert(name.into(), Failed { place, why });
    }

    /// Opens a database anew that did not open, or does not answer any more; false where it answers.
    pub(super) fn open_again(&self, name: &str) -> Result<bool> {
        let _changing = self.change()?;
        let place = match self.get(name) {
            Ok(served) => {
                let Some(error) = trouble_of(&served.db) else {
                    return Ok(false);
                };
                let Some(place) = served.place.clone() else {
                    return Err(ServerError::Invalid(format!(
                        "`{name}` was not opened by the server: it is opened again by whoever did"
                    )));
                };
                self.fail(name, place.clone(), &error);
                served.feed.close();
                // What it still has to say was said: it is closed as far as it goes.
                let _ = served.db.close();
                place
            }
            Err(error) => match self.known.read().failed.get(name) {
                Some(failed) => failed.place.clone(),
                None => return Err(error),
            },
        };
        match self.open_at(name, &place) {
            Ok(()) => {
                tracing::info!(database = name, "a database was opened again");
                Ok(true)
            }
            Err(error) => {
                self.fail(name, place, &error);
                Err(ServerError::Unavailable(format!(
                    "`{name}` does not open ({}): {error}",
                    error.kind()
                )))
            }
        }
    }

    /// Keeps other servers out of the folder, until all databases are closed.
    fn lock_folder(&self, folder: &Path) -> Result<()> {
        let path = folder.join(LOCK);
        let unlucky = |error: std::io::Error| {
            ServerError::Unavailable(format!("{} cannot be locked: {error}", path.display()))
        };
        let mut options = File::options();
        let file = options.create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(unlucky)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::Error(error)) => return Err(unlucky(error)),
            Err(TryLockError::WouldBlock) => {
                return Err(ServerError::Unavailable(format!(
                    "the databases in {} are served by another process: stop it first, or set another `databases_folder`",
                    folder.display()
                )));
            }
        }
        *self.lock.lock() = Some(file);
        Ok(())
    }

    /// Makes a database.
    pub(super) fn create(&self, name: &str) -> Result<()> {
        let _changing = self.change()?;
        let path = self.free_path(name)?;
        let db = self.builder.clone().create(true).open(&path)?;
        let is_ours = true;
        self.insert(name, db, Some(Place { path, is_ours }))
    }

    /// Makes a database out of a backup. It is put together under a name that is none, and has its own when it is whole.
    pub(super) fn restore(
        &self,
        name: &str,
        source: &Path,
        options: &RestoreOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Restored> {
        let path = self.free_path(name)?;
        let target = path.with_file_name(format!("{}{name}-{}", UNNAMED[0], super::now_ms()));
        let outcome = Database::restore_with(source, &target, options, progress)
            .map_err(ServerError::from)
            .and_then(|restored| {
                let _changing = self.change()?;
                let path = self.free_path(name)?;
                std::fs::rename(&target, &path).map_err(|error| {
                    ServerError::Unavailable(format!("{} cannot be made: {error}", path.display()))
                })?;
                if let Err(error) = self.serve_restored(name, &path) {
                    // Nobody was told of it: its name is free again.
                    let _ = std::fs::rename(&path, &target);
                    return Err(error);
                }
                Ok(restored)
            });
        if outcome.is_err() {
            // What is left over is no database's name: it is removed now, or when the server starts again.
            let _ = std::fs::remove_dir_all(&target);
        }
        outcome
    }

    fn serve_restored(&self, name: &str, path: &Path) -> Result<()> {
        self.keep_names()?;
        let place = Place {
            path: path.to_owned(),
            is_ours: true,
        };
        self.open_at(name, &place)
    }

    /// The right to make, name or drop databases; refused once all were closed.
    fn change(&self) -> Result<MutexGuard<'_, ()>> {
        let changing = self.changing.lock();
        self.refuse_late()?;
        Ok(changing)
    }

    fn refuse_late(&self) -> Result<()> {
        match self.has_closed.load(Ordering::SeqCst) {
            false => Ok(()),
            true => Err(ServerError::Unavailable(
                "the server is about to stop".into(),
            )),
        }
    }

    /// Where a database of this name would be made; refused where there is one.
    fn free_path(&self, name: &str) -> Result<PathBuf> {
        check_name(name)?;
        let Some(folder) = &self.folder else {
            return Err(ServerError::Invalid(
                "databases cannot be made over the network here: start the server with `databases_folder`".into(),
            ));
        };
        let path = folder.join(name);
        if self.known.read().has(name) || path.exists() {
            return Err(ServerError::Exists(format!(
                "there is a database `{name}` already"
            )));
        }
        Ok(path)
    }

    /// Drops a database that was made over the network.
    pub(super) fn remove(&self, name: &str) -> Result<()> {
        let gone = self.take_name(name)?;
        // It may take long: nobody waits for it.
        std::fs::remove_dir_all(&gone).map_err(|error| {
            ServerError::Unavailable(format!(
                "`{name}` is dropped, but {} cannot be removed before the server starts again: {error}",
                gone.display()
            ))
        })
    }

    /// Closes a database and takes the name from its folder; says where the rest of it is.
    fn take_name(&self, name: &str) -> Result<PathBuf> {
        let _changing = self.change()?;
        let served = self.known.read().open.get(name).cloned();
        let place = match &served {
            Some(served) => served.place.clone(),
            None => Some(self.failed_place(name)?),
        };
        let Some(place) = place.filter(|place| place.is_ours) else {
            return Err(ServerError::Invalid(format!(
                "`{name}` was given when the server was started: it cannot be dropped over the network"
            )));
        };
        match &served {
            Some(served) => {
                served.feed.close();
                served.db.close()?;
            }
            // Somebody may be about to mend it.
            None => match self.builder.clone().create(false).open(&place.path) {
                Ok(db) => db.close()?,
                Err(error) => {
                    let error = ServerError::from(error);
                    if is_in_use(&error) {
                        return Err(error);
                    }
                }
            },
        }
        // Its name is free at once; what is left in the folder is no database's name.
        let gone = place
            .path
            .with_file_name(format!("{}{name}-{}", UNNAMED[1], super::now_ms()));
        let renamed = std::fs::rename(&place.path, &gone).map_err(|error| {
            ServerError::Unavailable(format!(
                "{} cannot be removed: {error}",
                place.path.display()
            ))
        });
        let dropped = renamed.and_then(|()| {
            self.keep_names()
                .inspect_err(|_| drop(std::fs::rename(&gone, &place.path)))
        });
        match dropped {
            Ok(()) => {
                let mut known = self.known.write();
                known.open.remove(name);
                known.failed.remove(name);
                Ok(gone)
            }
            Err(error) => {
                // It is closed, and it is there: it can be opened again.
                self.fail(name, place, &error);
                Err(error)
            }
        }
    }

    fn failed_place(&self, name: &str) -> Result<Place> {
        let known = self.known.read();
        let failed = known.failed.get(name).ok_or_else(|| unknown(name))?;
        Ok(failed.place.clone())
    }

    /// Makes the names in the folder of databases durable: what was answered must be true after a loss of power.
    fn keep_names(&self) -> Result<()> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        let synced = std::fs::File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(|error| {
            ServerError::Unavailable(format!(
                "names in {} may not be on disk: {error}",
                folder.display()
            ))
        })
    }

    /// A database. One that does not open is not there now, whatever its name.
    pub(super) fn get(&self, name: &str) -> Result<Arc<Served>> {
        let known = self.known.read();
        match known.open.get(name) {
            Some(served) => Ok(served.clone()),
            None if known.failed.contains_key(name) => Err(ServerError::Unavailable(format!(
                "the database `{name}` does not open: the list of databases tells administrators why"
            ))),
            None => Err(unknown(name)),
        }
    }

    /// All names, in order, also of those that do not open.
    pub fn names(&self) -> Vec<Arc<str>> {
        let known = self.known.read();
        let mut names: Vec<_> = known
            .open
            .keys()
            .chain(known.failed.keys())
            .cloned()
            .collect();
        names.sort_unstable();
        names
    }

    /// How many are open, and how many did not open.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let known = self.known.read();
        (known.open.len(), known.failed.len())
    }

    /// Why a database does not open, or does not answer any more.
    pub(super) fn trouble(&self, name: &str) -> Option<String> {
        let served = {
            let known = self.known.read();
            if let Some(failed) = known.failed.get(name) {
                return Some(failed.why.clone());
            }
            known.open.get(name)?.clone()
        };
        trouble_of(&served.db).map(|error| format!("{}: {error}", error.kind()))
    }

    /// Those that are open.
    fn open(&self) -> Vec<Arc<Served>> {
        self.known.read().open.values().cloned().collect()
    }

    /// Databases that are replicas, by name.
    pub(crate) fn replicated(&self) -> Vec<(Arc<str>, isomer_db::data::Store)> {
        let served = self.open();
        let stores = served
            .iter()
            .filter_map(|one| Some((one.name.clone(), one.db.store().ok()?)));
        stores.filter(|(_, store)| store.is_replicated()).collect()
    }

    /// Figures of each database for `/metrics`.
    pub fn figures(&self) -> Vec<Figure> {
        let mut figures = Vec::new();
        for one in self.open() {
            let mut add = |name, help, value| {
                figures.push(Figure {
                    database: one.name.clone(),
                    name,
                    help,
                    value,
                });
            };
            if let Ok(store) = one.db.store() {
                of_engine(&store, &mut add);
                of_replication(&store, &mut add);
            }
            let views = one.db.views().status();
            let standing = views.iter().filter(|view| view.bytes > 0);
            let bytes: u64 = standing.clone().map(|view| view.bytes).sum();
            let changes: u64 = views.iter().map(|view| view.delta_count).sum();
            add(
                "views_standing",
                "Read views that are in memory",
                standing.count() as f64,
            );
            add("views_bytes", "Bytes of these read views", bytes as f64);
            add(
                "views_changes",
                "Changes that read views have not merged into their bases yet",
                changes as f64,
            );
        }
        figures
    }

    /// How many databases do not answer, of how many.
    pub(crate) fn check(&self) -> (usize, usize) {
        let (open, failed) = (self.open(), self.counts().1);
        let silent = open.iter().filter(|one| trouble_of(&one.db).is_some());
        (failed + silent.count(), failed + open.len())
    }

    /// Closes all of them. What is still being put together afterwards gets no name; it is not waited for long.
    pub fn close(&self) -> Result<()> {
        self.has_closed.store(true, Ordering::SeqCst);
        let changing = self.changing.try_lock_for(CLOSE_WAIT);
        let known = std::mem::take(&mut *self.known.write());
        let mut outcome = Ok(());
        for one in known.open.values() {
            one.feed.close();
            outcome = outcome.and(one.db.close());
        }
        if changing.is_some() {
            // Otherwise somebody is still at work there, until the process ends.
            *self.lock.lock() = None;
        }
        Ok(outcome?)
    }

    fn insert(&self, name: &str, db: Database, place: Option<Place>) -> Result<()> {
        check_name(name)?;
        let feed = Feed::follow(&db)?;
        let served = Served {
            name: name.into(),
            db: db.reserving(OWN_BUCKETS),
            feed,
            place,
        };
        let mut known = self.known.write();
        // Whoever closes them takes all that are there.
        self.refuse_late()?;
        self.refuse_twice(&known, name)?;
        known.failed.remove(name);
        known.open.insert(served.name.clone(), Arc::new(served));
        Ok(())
    }

    fn refuse_twice(&self, known: &Known, name: &str) -> Result<()> {
        match known.open.contains_key(name) {
            false => Ok(()),
            true => Err(ServerError::Exists(format!(
                "two databases would have the name `{name}`: write NAME=PATH"
            ))),
        }
    }
}

/// A figure of a database.
pub struct Figure {
    /// Of this one.
    pub database: Arc<str>,
    /// What it is called behind `isomer_database_`.
    pub name: &'static str,
    /// What it is, in words.
    pub help: &'static str,
    /// What it is now.
    pub value: f64,
}

/// Figures that an engine tells under a name of its own, with the name and the words that they have here.
const ENGINE_FIGURES: [(&str, &str, &str); 15] = [
    (
        "cache_hits",
        "cache_hits_total",
        "Blocks of tables that were found in the cache",
    ),
    (
        "cache_misses",
        "cache_misses_total",
        "Blocks of tables that were read from files",
    ),
    (
        "cache_bytes",
        "cache_bytes",
        "Bytes that the cache of blocks holds, or may hold where the engine does not tell",
    ),
    (
        "pinned_bytes",
        "cache_pinned_bytes",
        "Bytes of filters and indexes of tables, which stay in memory",
    ),
    (
        "runs",
        "compaction_runs",
        "Sorted runs of tables: a read may look into each of them",
    ),
    (
        "merge_backlog_bytes",
        "compaction_backlog_bytes",
        "Bytes of runs that wait for a merge or are in one",
    ),
    (
        "merged_bytes",
        "compaction_written_bytes_total",
        "Bytes of tables that merges have written",
    ),
    (
        "flushed_bytes",
        "flush_written_bytes_total",
        "Bytes of tables that were written from memory",
    ),
    (
        "sealed_memtables",
        "sealed_memtables",
        "Full memtables that wait to be written to tables",
    ),
    ("memtable_bytes", "memtable_bytes", "Bytes of memtables"),
    (
        "slowed_ms",
        "writers_slowed_ms_total",
        "Milliseconds in which writers were held back because flush or merges were behind",
    ),
    ("log_bytes", "log_bytes", "Bytes of the log on disk"),
    ("table_bytes", "table_bytes", "Bytes of tables on disk"),
    (
        "value_bytes",
        "value_bytes",
        "Bytes of large values, which stand apart from tables",
    ),
    (
        "commit_groups",
        "commit_groups_total",
        "Groups of commits that were written together",
    ),
];

/// What an engine holds and has done.
fn of_engine(
    store: &isomer_db::data::Store,
    add: &mut impl FnMut(&'static str, &'static str, f64),
) {
    add(
        "version",
        "Number of the last commit",
        store.engine().version() as f64,
    );
    for (name, help, kind) in [
        (
            "memory_engine_cache_bytes",
            "Bytes of the memory budget that are reserved for the engine's cache and memtables, used or not",
            MemoryKind::EngineCache,
        ),
        (
            "memory_views_bytes",
            "Bytes of the memory budget that read views hold",
            MemoryKind::Views,
        ),
        (
            "memory_queries_bytes",
            "Bytes of the memory budget that queries hold",
            MemoryKind::Queries,
        ),
        (
            "memory_import_bytes",
            "Bytes of the memory budget that imports hold",
            MemoryKind::Import,
        ),
    ] {
        let usage = store.memory().usage(kind);
        add(name, help, usage.used_bytes as f64);
    }
    let Ok(told) = store.engine().statistics() else {
        return;
    };
    for (name, help, value) in [
        (
            "keys",
            "Pairs that are stored, an estimate where there are many",
            told.key_count,
        ),
        (
            "stored_bytes",
            "Bytes on disk, or in memory where there is no disk",
            told.stored_bytes,
        ),
        ("commits_total", "Commits", told.commits),
        (
            "syncs_total",
            "Times that the disk was waited for; commits share them",
            told.syncs,
        ),
        (
            "conflicts_total",
            "Transactions that lost a race",
            told.conflicts,
        ),
        (
            "change_stream_entries",
            "Commits whose changes are kept",
            told.stream_entries,
        ),
    ] {
        add(name, help, value as f64);
    }
    for (own, name, help) in ENGINE_FIGURES {
        let found = told.details.iter().find(|(detail, _)| detail == own);
        if let Some(value) = found.and_then(|(_, value)| value.parse::<f64>().ok()) {
            add(name, help, value);
        }
    }
}

/// Whom a replica exchanges with, and what others lack as far as is known here; nothing of what is no replica.
fn of_replication(
    store: &isomer_db::data::Store,
    add: &mut impl FnMut(&'static str, &'static str, f64),
) {
    if !store.is_replicated() {
        return;
    }
    if let Ok(peers) = isomer_sync::peers(store) {
        let failing = peers.iter().filter(|peer| peer.state.error.is_some());
        let quarantined = peers.iter().filter(|peer| peer.state.is_quarantined);
        let exchanged = peers.iter().map(|peer| peer.state.exchanged_ms).min();
        add(
            "replication_peers",
            "Peers that this one exchanges with",
            peers.len() as f64,
        );
        add(
            "replication_peers_failing",
            "Peers with which the last exchange went wrong",
            failing.count() as f64,
        );
        add(
            "replication_peers_quarantined",
            "Peers that are left alone until somebody has looked",
            quarantined.count() as f64,
        );
        if let Some(ms) = exchanged.filter(|ms| *ms > 0) {
            let since = super::now_ms().saturating_sub(ms);
            add(
                "replication_oldest_exchange_seconds",
                "Time since the last exchange with the peer that was not heard of for the longest; noted once a minute",
                since as f64 / 1e3,
            );
        }
    }
    if let Ok(members) = store.replica_members() {
        let others = members.iter().filter(|member| !member.is_evicted);
        let lacks = others.clone().map(|member| member.lacks).max();
        let away = others.clone().filter(|member| member.is_away);
        add(
            "replication_members",
            "Other replicas that were heard of",
            others.clone().count() as f64,
        );
        add(
            "replication_members_away",
            "Replicas that were not heard of for so long that they come back by a snapshot",
            away.count() as f64,
        );
        add(
            "replication_behind_transactions",
            "Most transactions that one of the others had not seen when it was heard of last",
            lacks.unwrap_or_default() as f64,
        );
    }
}

fn unknown(name: &str) -> ServerError {
    ServerError::NotFound(format!("there is no database `{name}`"))
}

/// What stands against reading an open database.
fn trouble_of(db: &Database) -> Option<ServerError> {
    db.begin_read().err().map(ServerError::from)
}

/// Whether a database did not open because somebody else has it open.
fn is_in_use(error: &ServerError) -> bool {
    let text = error.to_string();
    error.kind() == "Unavailable"
        && (text.contains("is in use by") || text.contains("is already open in this process"))
}

/// The name under which the database in a folder is served unless said otherwise: `people` for `/data/people.isomer`.
pub fn name_of(path: &Path) -> String {
    let stem = path
        .file_stem()
        .and_then(|stem| stem.to_str())
        .unwrap_or("database");
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    stem.chars()
        .take(64)
        .map(|c| if allowed(c) { c } else { '-' })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_that_are_no_databases_are_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let databases = || Databases::new(Database::builder(), Some(folder.path().to_owned()));
        let first = databases();
        first.open_folder().unwrap();
        first.create("people").unwrap();
        first.close().unwrap();
        // Where users and tokens are kept unless something else was set.
        let system = folder.path().join("isomer-system");
        Database::open(system.join("db")).unwrap().close().unwrap();
        std::fs::create_dir(folder.path().join("backups")).unwrap();

        let second = databases();
        second.open_folder().unwrap();
        let names: Vec<_> = second.names();
        assert_eq!(names, ["people".into()]);
        assert!(second.create("isomer-system").is_err());
    }

    #[test]
    fn a_folder_that_somebody_else_serves_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let databases = || Databases::new(Database::builder(), Some(folder.path().to_owned()));
        let first = databases();
        first.open_folder().unwrap();
        first.create("people").unwrap();
        let restored = folder.path().join(".restored-shop-17");
        std::fs::create_dir(&restored).unwrap();
        let error = databases().open_folder().unwrap_err();
        assert_eq!(error.kind(), "Unavailable", "{error}");
        assert!(error.to_string().contains("another process"), "{error}");
        assert!(restored.is_dir());
        first.close().unwrap();
        // A database that somebody has open, without a server, too.
        let own = Database::open(folder.path().join("people")).unwrap();
        let error = databases().open_folder().unwrap_err();
        assert_eq!(error.kind(), "Unavailable", "{error}");
        assert!(restored.is_dir());
        own.close().unwrap();
        let second = databases();
        second.open_folder().unwrap();
        assert_eq!(second.names(), ["people".into()]);
        assert!(!restored.exists());
    }

    #[test]
    fn a_stop_does_not_wait_for_what_is_being_changed() {
        let folder = tempfile::tempdir().unwrap();
        let databases = Databases::new(Database::builder(), Some(folder.path().to_owned()));
        databases.open_folder().unwrap();
        databases.create("people").unwrap();
        let people = databases.get("people").unwrap();
        let changing = databases.changing.lock();
        databases.close().unwrap();
        assert!(people.db.begin_read().is_err(), "it is closed");
        drop(changing);
        assert!(databases.create("late").is_err());
        let db = Database::open_in_memory().unwrap();
        assert!(databases.add("late", db).is_err());
        assert!(databases.remove("people").is_err());
    }

    /// Whatever stood in its files, it is no database any more that opens; gives what stood there.
    fn damage(database: &Path) -> Vec<(PathBuf, Vec<u8>)> {
        let files = std::fs::read_dir(database).unwrap();
        let paths = files.map(|file| file.unwrap().path());
        paths
            .filter(|path| path.is_file())
            .map(|path| {
                let bytes = std::fs::read(&path).unwrap();
                std::fs::write(&path, "damaged").unwrap();
                (path, bytes)
            })
            .collect()
    }

    #[test]
    fn a_database_that_does_not_open_can_be_dropped_unless_somebody_mends_it() {
        let folder = tempfile::tempdir().unwrap();
        let databases = || Databases::new(Database::builder(), Some(folder.path().to_owned()));
        let first = databases();
        first.create("broken").unwrap();
        first.close().unwrap();
        let path = folder.path().join("broken");
        let damaged = damage(&path);
        let second = databases();
        second.open_folder().unwrap();
        assert_eq!(second.counts(), (0, 1));
        for (path, bytes) in damaged {
            std::fs::write(path, bytes).unwrap();
        }
        let mending = Database::open(&path).unwrap();
        let error = second.remove("broken").unwrap_err();
        assert_eq!(error.kind(), "Unavailable", "{error}");
        mending.close().unwrap();
        damage(&path);
        second.remove("broken").unwrap();
        assert!(!path.exists());
        assert_eq!(second.remove("broken").unwrap_err().kind(), "NotFound");
        second.create("broken").unwrap();
        assert_eq!(second.counts(), (1, 0));
        second.close().unwrap();
    }

    /// The server is told to stop while a backup is restored: the copy gets no name, and nothing is left of it.
    #[test]
    fn a_restore_that_a_stop_overtakes_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let backup = folder.path().join("nightly");
        let builder = Database::builder().engine(EngineKind::Store);
        let home = folder.path().join("databases");
        let databases = || Databases::new(builder.clone(), Some(home.clone()));
        let first = databases();
        first.open_folder().unwrap();
        first.create("shop").unwrap();
        let shop = first.get("shop").unwrap();
        shop.db.query("CREATE (:Item {_key: 'i'})", ()).unwrap();
        shop.db.backup_with(&backup, &mut |_, _| ()).unwrap();
        drop(shop);
        let options = RestoreOptions::new();
        let mut seen = 0;
        let mut overtaken = |_, _| {
            seen += 1;
            first.close().unwrap();
        };
        let error = first.restore("again", &backup, &options, &mut overtaken);
        assert_eq!(error.unwrap_err().kind(), "Unavailable");
        assert!(seen > 0, "it was at work");
        let names = || -> Vec<String> {
            let entries = std::fs::read_dir(&home).unwrap();
            let names = entries.map(|entry| entry.unwrap().file_name());
            names
                .map(|name| name.into_string().unwrap())
                .filter(|name| name != LOCK)
                .collect()
        };
        assert_eq!(names(), ["shop"]);
        let second = databases();
        second.open_folder().unwrap();
        second
            .restore("again", &backup, &options, &mut |_, _| ())
            .unwrap();
        let again = second.get("again").unwrap();
        let found = again.db.query("MATCH (i:Item) RETURN i", ()).unwrap();
        assert_eq!(found.len(), 1);
        second.close().unwrap();
    }

    #[test]
    fn what_was_cut_short_is_removed_and_what_does_not_open_holds_up_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let databases = || Databases::new(Database::builder(), Some(folder.path().to_owned()));
        let first = databases();
        first.create("people").unwrap();
        first.create("broken").unwrap();
        first.close().unwrap();
        assert_eq!(first.create("late").unwrap_err().kind(), "Unavailable");
        assert!(!folder.path().join("late").exists());
        for name in [".restored-shop-1", ".dropped-old-2"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
            std::fs::write(folder.path().join(name).join("table"), "x").unwrap();
        }
        let damaged = damage(&folder.path().join("broken"));
        let second = databases();
        second.open_folder().unwrap();
        assert_eq!(second.names(), ["broken".into(), "people".into()]);
        assert_eq!((second.counts(), second.check()), ((1, 1), (1, 2)));
        let error = second.create("broken").unwrap_err();
        assert_eq!(error.kind(), "Exists", "its name is taken: {error}");
        assert_eq!(second.get("broken").err().unwrap().kind(), "Unavailable");
        assert_eq!(second.get("people").unwrap().name, "people".into());
        assert!(second.trouble("broken").is_some() && second.trouble("people").is_none());
        // It opens when it is whole again, and once.
        let error = second.open_again("broken").unwrap_err();
        assert_eq!(error.kind(), "Unavailable", "{error}");
        for (path, bytes) in damaged {
            std::fs::write(path, bytes).unwrap();
        }
        assert!(second.open_again("broken").unwrap());
        assert!(!second.open_again("broken").unwrap());
        assert_eq!(second.open_again("none").unwrap_err().kind(), "NotFound");
        assert_eq!((second.counts(), second.check()), ((2, 0), (0, 2)));
        assert!(second.get("broken").is_ok() && second.trouble("broken").is_none());
        let left: Vec<_> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .filter(|name| name.to_string_lossy().starts_with('.'))
            .collect();
        assert!(left.is_empty(), "{left:?}");
        second.close().unwrap();
    }
}
