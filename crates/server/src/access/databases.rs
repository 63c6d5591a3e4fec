//! The databases that are served. Only sessions hand them out.

mod metrics;

use std::{
    collections::BTreeMap,
    fs::{File, TryLockError},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use isomer_db::{
    Builder, Database, EngineKind, RestoreTask, Restored, Sharing,
    internals::{DatabaseInternals as _, LayerResult as _, data::MemoryBudget},
};
use isomer_vfs::{Disk as _, Lock, LockError, LockMode, RealDisk};
use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::{Result, ServerError, feed::Feed};

pub use metrics::Metric;

/// A database that is served.
pub struct Served {
    pub(super) name: Arc<str>,
    pub(super) db: Database,
    pub(super) feed: Arc<Feed>,
    location: Option<Location>,
}

/// Location of a database.
#[derive(Clone, Debug)]
struct Location {
    path: PathBuf,
    /// Whether it is in `databases_folder`, so that it may be dropped over the network.
    is_ours: bool,
}

/// A database that cannot be opened. Its name stays reserved, so that a client that names it never reaches another
/// database.
#[derive(Clone, Debug)]
struct Failed {
    location: Location,
    why: String,
}

/// All named databases. A name is in exactly one of the two maps.
#[derive(Default)]
struct Table {
    open: BTreeMap<Arc<str>, Arc<Served>>,
    failed: BTreeMap<Arc<str>, Failed>,
}

impl Table {
    fn has(&self, name: &str) -> bool {
        self.open.contains_key(name) || self.failed.contains_key(name)
    }
}

/// All databases, by name.
pub struct Databases {
    builder: Builder,
    folder: Option<PathBuf>,
    /// Whether other servers may serve the same databases.
    is_shared: bool,
    table: RwLock<Table>,
    /// Locked while databases are created, named or dropped.
    changing: Mutex<()>,
    /// Whether all databases were closed.
    has_closed: AtomicBool,
    /// Locks the folder against other servers, or against those that do not share it.
    lock: Mutex<Option<File>>,
    /// The database of administration, once a client has named it.
    administration: Mutex<Option<Arc<Served>>>,
}

/// Memory budget of the database of administration, which has no data.
const ADMINISTRATION_BYTES: usize = 16 << 20;
/// File in `databases_folder` that the serving process locks.
const LOCK: &str = "databases.lock";
/// Longest wait of a stop for a database that is being made or dropped.
const CLOSE_WAIT: Duration = Duration::from_secs(1);

/// Prefix of the names of buckets that only the server writes.
const OWN_BUCKETS: &str = "isomer.";

/// Prefixes of folders that hold an incomplete restore, or a dropped database until it is removed.
const UNNAMED: [&str; 2] = [".restored-", ".dropped-"];

/// Validates a name: it becomes part of paths.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.is_empty() || name.len() > 64 || !name.chars().all(allowed) {
        return Err(ServerError::Invalid(
            "the name of a database must be 1 to 64 letters, digits, `_` or `-`".into(),
        ));
    }
    Ok(())
}

impl Databases {
    /// Creates an empty table; `folder` is where further databases are created. Other servers may serve those that are
    /// shared, too, if `is_shared`.
    pub fn new(builder: Builder, folder: Option<PathBuf>, is_shared: bool) -> Self {
        Self {
            builder,
            folder,
            is_shared,
            table: RwLock::default(),
            changing: Mutex::new(()),
            has_closed: AtomicBool::new(false),
            lock: Mutex::new(None),
            administration: Mutex::new(None),
        }
    }

    /// Serves an open database under a name.
    pub fn add(&self, name: &str, db: Database) -> Result<()> {
        self.insert(name, db, None)
    }

    /// Opens a database given by its path, and serves it.
    pub fn add_at(&self, name: &str, path: &Path, create: bool) -> Result<()> {
        let db = self.builder.clone().create(create).open(path)?;
        let location = Location {
            path: path.to_owned(),
            is_ours: false,
        };
        self.insert(name, db, Some(location))
    }

    /// Opens all databases in `databases_folder`. Other folders there (users and tokens, backups) are not touched;
    /// the remains of an interrupted restore or drop are removed. A database that cannot be opened does not prevent
    /// the others from being served: it keeps its name and reports its error.
    ///
    /// Fails if another process has the folder or a database in it open: an incomplete restore there may belong to
    /// that process.
    pub fn open_folder(&self) -> Result<()> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        let unreadable = |error: std::io::Error| {
            ServerError::Unavailable(format!("{} cannot be read: {error}", folder.display()))
        };
        std::fs::create_dir_all(folder).map_err(unreadable)?;
        let is_alone = self.lock_folder(folder)?;
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
                self.refuse_twice(&self.table.read(), name)?;
                let location = Location {
                    path: path.clone(),
                    is_ours: true,
                };
                match self.open_at(name, &location) {
                    Err(error) if is_in_use(&error) => return Err(error),
                    Err(error) => self.fail(name, location, &error),
                    Ok(()) => {}
                }
            }
        }
        // Another server may be working in what is left.
        let left = left.into_iter().filter(|_| is_alone);
        for path in left {
            if let Err(error) = std::fs::remove_dir_all(&path) {
                tracing::warn!(folder = %path.display(), %error, "the remains of a database could not be removed");
            }
        }
        if self.is_shared
            && let Some(file) = &*self.lock.lock()
        {
            // Other servers may start now.
            lock_shared(file).map_err(|error| unreadable(error.into()))?;
        }
        Ok(())
    }

    /// Opens a database where it is and serves it.
    fn open_at(&self, name: &str, location: &Location) -> Result<()> {
        let db = self.builder.clone().create(false).open(&location.path)?;
        let served = self.insert(name, db.clone(), Some(location.clone()));
        if served.is_err() {
            db.close()?;
        }
        served
    }

    /// Records that a database cannot be opened.
    fn fail(&self, name: &str, location: Location, error: &ServerError) {
        tracing::error!(database = name, %error, "a database cannot be opened");
        let why = format!("{}: {error}", error.kind());
        let mut table = self.table.write();
        table.open.remove(name);
        table.failed.insert(name.into(), Failed { location, why });
    }

    /// Reopens a database that could not be opened or has failed; returns false if it is healthy.
    pub(super) fn open_again(&self, name: &str) -> Result<bool> {
        let _changing = self.change()?;
        let location = match self.get(name) {
            Ok(served) => {
                let Some(error) = failure_of(&served.db) else {
                    return Ok(false);
                };
                let Some(location) = served.location.clone() else {
                    return Err(ServerError::Invalid(format!(
                        "`{name}` was opened by the embedding program, which has to reopen it"
                    )));
                };
                self.fail(name, location.clone(), &error);
                served.feed.close();
                // Its error was reported already; close as much of it as possible.
                let _ = served.db.close();
                location
            }
            Err(error) => match self.table.read().failed.get(name) {
                Some(failed) => failed.location.clone(),
                None => return Err(error),
            },
        };
        match self.open_at(name, &location) {
            Ok(()) => {
                tracing::info!(database = name, "a database was reopened");
                Ok(true)
            }
            Err(error) => {
                self.fail(name, location, &error);
                Err(ServerError::Unavailable(format!(
                    "`{name}` cannot be opened ({}): {error}",
                    error.kind()
                )))
            }
        }
    }

    /// Locks the folder until all databases are closed: against other servers, or, if they are shared, against servers
    /// that do not share them. Returns whether no other server has it open.
    fn lock_folder(&self, folder: &Path) -> Result<bool> {
        let path = folder.join(LOCK);
        let lock_error = |error: std::io::Error| {
            ServerError::Unavailable(format!("{} cannot be locked: {error}", path.display()))
        };
        let mut options = File::options();
        let file = options.create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(lock_error)?;
        let mut locked = file.try_lock();
        let is_alone = locked.is_ok();
        if self.is_shared && !is_alone {
            locked = lock_shared(&file);
        }
        match locked {
            Ok(()) => {}
            Err(TryLockError::Error(error)) => return Err(lock_error(error)),
            Err(TryLockError::WouldBlock) => {
                return Err(ServerError::Unavailable(format!(
                    "the databases in {} are served by another process: stop it first, set another `databases_folder`, or \
                     start all servers without `sharing = \"exclusive\"`",
                    folder.display()
                )));
            }
        }
        *self.lock.lock() = Some(file);
        Ok(is_alone)
    }

    /// Creates a database.
    pub(super) fn create(&self, name: &str) -> Result<()> {
        let _changing = self.change()?;
        let path = self.free_path(name)?;
        let db = self.builder.clone().create(true).open(&path)?;
        let is_ours = true;
        self.insert(name, db, Some(Location { path, is_ours }))
    }

    /// Creates a database from a backup, with the task that restores it into a folder: one with a temporary name that
    /// is not a valid database name. It is renamed when complete.
    pub(super) fn restore<'a>(
        &self,
        name: &str,
        restore_into: impl FnOnce(&Path) -> RestoreTask<'a>,
    ) -> Result<Restored> {
        let path = self.free_path(name)?;
        let target =
            path.with_file_name(format!("{}{name}-{}", UNNAMED[0], crate::clock::now_ms()));
        let outcome = restore_into(&target)
            .run()
            .map_err(ServerError::from)
            .and_then(|restored| {
                let _changing = self.change()?;
                let path = self.free_path(name)?;
                std::fs::rename(&target, &path).map_err(|error| {
                    ServerError::Unavailable(format!(
                        "{} cannot be created: {error}",
                        path.display()
                    ))
                })?;
                if let Err(error) = self.serve_restored(name, &path) {
                    // The client gets an error, so its name must be free again.
                    let _ = std::fs::rename(&path, &target);
                    return Err(error);
                }
                Ok(restored)
            });
        if outcome.is_err() {
            // The temporary name is not a valid database name: what is left is removed now, or at the next start.
            let _ = std::fs::remove_dir_all(&target);
        }
        outcome
    }

    fn serve_restored(&self, name: &str, path: &Path) -> Result<()> {
        self.keep_names()?;
        let location = Location {
            path: path.to_owned(),
            is_ours: true,
        };
        self.open_at(name, &location)
    }

    /// The right to create, name or drop databases; fails once all were closed.
    fn change(&self) -> Result<MutexGuard<'_, ()>> {
        let changing = self.changing.lock();
        self.refuse_late()?;
        Ok(changing)
    }

    fn refuse_late(&self) -> Result<()> {
        match self.has_closed.load(Ordering::SeqCst) {
            false => Ok(()),
            true => Err(ServerError::Unavailable(
                "the server is shutting down".into(),
            )),
        }
    }

    /// The path at which a database of this name would be created; fails if the name is taken.
    fn free_path(&self, name: &str) -> Result<PathBuf> {
        check_name(name)?;
        let Some(folder) = &self.folder else {
            return Err(ServerError::Invalid(
                "databases cannot be created over the network: start the server with `databases_folder`".into(),
            ));
        };
        let path = folder.join(name);
        if self.table.read().has(name) || path.exists() {
            return Err(ServerError::Exists(format!(
                "the database `{name}` already exists"
            )));
        }
        Ok(path)
    }

    /// Drops a database that was created over the network.
    pub(super) fn remove(&self, name: &str) -> Result<()> {
        let gone = self.take_name(name)?;
        // Removing the files may take long, so no lock is held here.
        std::fs::remove_dir_all(&gone).map_err(|error| {
            ServerError::Unavailable(format!(
                "`{name}` is dropped, but {} cannot be removed until the server restarts: {error}",
                gone.display()
            ))
        })
    }

    /// Closes a database and moves it out of its name; returns the path of what remains.
    fn take_name(&self, name: &str) -> Result<PathBuf> {
        let _changing = self.change()?;
        let served = self.table.read().open.get(name).cloned();
        let location = match &served {
            Some(served) => served.location.clone(),
            None => Some(self.failed_location(name)?),
        };
        let Some(location) = location.filter(|location| location.is_ours) else {
            return Err(ServerError::Invalid(format!(
                "`{name}` was specified when the server was started: it cannot be dropped over the network"
            )));
        };
        // Open transactions keep the database open in this process: the lock is taken while it still can be.
        let mut held = None;
        match &served {
            Some(served) => {
                self.refuse_others(&served.db)?;
                held = Some(served.db.store()?.hold_alone().lift()?);
                served.feed.close();
                served.db.close()?;
            }
            // A concurrent request may be repairing it: open it here to make sure that it is still broken.
            None => match self.builder.clone().create(false).open(&location.path) {
                Ok(db) => db.close()?,
                Err(error) => {
                    let error = ServerError::from(error);
                    if is_in_use(&error) {
                        return Err(error);
                    }
                }
            },
        }
        // The name is free at once; the new name of the remains is not a valid database name.
        let gone = location.path.with_file_name(format!(
            "{}{name}-{}",
            UNNAMED[1],
            crate::clock::now_ms()
        ));
        let is_shared = Sharing::at(&location.path) == Some(Sharing::Shared);
        let alone = match held.is_none() && is_shared {
            true => match lock_alone(&location.path) {
                Ok(lock) => lock,
                Err(error) => {
                    self.fail(name, location.clone(), &error);
                    self.open_at(name, &location)?;
                    return Err(error);
                }
            },
            false => None,
        };
        let renamed = std::fs::rename(&location.path, &gone).map_err(|error| {
            ServerError::Unavailable(format!(
                "{} cannot be removed: {error}",
                location.path.display()
            ))
        });
        let dropped = renamed.and_then(|()| {
            self.keep_names()
                .inspect_err(|_| drop(std::fs::rename(&gone, &location.path)))
        });
        match dropped {
            Ok(()) => {
                drop((held, alone));
                let mut table = self.table.write();
                table.open.remove(name);
                table.failed.remove(name);
                Ok(gone)
            }
            Err(error) => {
                // It is closed, but its files are intact: it can be reopened.
                self.fail(name, location, &error);
                Err(error)
            }
        }
    }

    /// Fails if other processes have a database open that is to be dropped.
    fn refuse_others(&self, db: &Database) -> Result<()> {
        let others = db.processes()?.into_iter();
        let others = others.filter(|process| process.pid != std::process::id());
        let others: Vec<_> = others
            .map(|process| format!("{} ({})", process.pid, process.kind))
            .collect();
        match others.is_empty() {
            true => Ok(()),
            false => Err(ServerError::Unavailable(format!(
                "other processes have this database open: end them first: {}",
                others.join(", ")
            ))),
        }
    }

    fn failed_location(&self, name: &str) -> Result<Location> {
        let table = self.table.read();
        let failed = table.failed.get(name).ok_or_else(|| unknown(name))?;
        Ok(failed.location.clone())
    }

    /// Syncs the names in `databases_folder`: an acknowledged creation or drop must survive a power failure.
    fn keep_names(&self) -> Result<()> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        isomer_vfs::sync_folder(folder).map_err(|error| {
            ServerError::Unavailable(format!(
                "names in {} may not be on disk: {error}",
                folder.display()
            ))
        })
    }

    /// Returns a database; fails if it is not open, even if its name exists.
    pub(super) fn get(&self, name: &str) -> Result<Arc<Served>> {
        if self.is_shared && !self.table.read().has(name) {
            self.open_of_other_server(name)?;
        }
        let table = self.table.read();
        match table.open.get(name) {
            Some(served) => Ok(served.clone()),
            None if table.failed.contains_key(name) => Err(ServerError::Unavailable(format!(
                "the database `{name}` cannot be opened: administrators find the reason in the list of databases"
            ))),
            None => Err(unknown(name)),
        }
    }

    /// Whether the name is taken, also by a database that cannot be opened.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.table.read().has(name)
    }

    /// The database of administration: empty, in memory, opened by the first client that names it.
    pub(super) fn administration(&self, name: &str) -> Result<Arc<Served>> {
        let mut opened = self.administration.lock();
        if let Some(served) = &*opened {
            return Ok(served.clone());
        }
        let db = Database::builder()
            .engine(EngineKind::Memory)
            .memory(ADMINISTRATION_BYTES)
            .open_in_memory()?;
        let served = Arc::new(Served {
            name: name.into(),
            feed: Feed::follow(&db)?,
            db,
            location: None,
        });
        *opened = Some(served.clone());
        Ok(served)
    }

    /// Opens a database that another server has created in the folder since this one started.
    fn open_of_other_server(&self, name: &str) -> Result<()> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        if check_name(name).is_err() || Sharing::at(folder.join(name)) != Some(Sharing::Shared) {
            return Ok(());
        }
        let _changing = self.change()?;
        // Another thread may have opened it by now.
        if self.table.read().has(name) {
            return Ok(());
        }
        let location = Location {
            path: folder.join(name),
            is_ours: true,
        };
        self.open_at(name, &location)
    }

    /// All names in order, including those of databases that cannot be opened.
    pub fn names(&self) -> Vec<Arc<str>> {
        let table = self.table.read();
        let mut names: Vec<_> = table
            .open
            .keys()
            .chain(table.failed.keys())
            .cloned()
            .collect();
        names.sort_unstable();
        names
    }

    /// Numbers of open databases and of databases that cannot be opened.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let table = self.table.read();
        (table.open.len(), table.failed.len())
    }

    /// The error of a database that cannot be opened or has failed.
    pub(super) fn open_error(&self, name: &str) -> Option<String> {
        let served = {
            let table = self.table.read();
            if let Some(failed) = table.failed.get(name) {
                return Some(failed.why.clone());
            }
            table.open.get(name)?.clone()
        };
        failure_of(&served.db).map(|error| format!("{}: {error}", error.kind()))
    }

    /// Databases that are open.
    fn open(&self) -> Vec<Arc<Served>> {
        self.table.read().open.values().cloned().collect()
    }

    /// Databases that are replicas, by name.
    pub(crate) fn replicated(&self) -> Vec<(Arc<str>, isomer_db::internals::data::DataStore)> {
        let served = self.open();
        let stores = served
            .iter()
            .filter_map(|one| Some((one.name.clone(), one.db.store().ok()?)));
        stores.filter(|(_, store)| store.is_replicated()).collect()
    }

    /// The memory budget that all databases share; `None` while no database is open.
    pub fn memory(&self) -> Option<MemoryBudget> {
        let served = self.open();
        let store = served.iter().find_map(|one| one.db.store().ok())?;
        Some(store.memory().clone())
    }

    /// Number of databases that do not respond, and of all.
    pub(crate) fn check(&self) -> (usize, usize) {
        let (open, failed) = (self.open(), self.counts().1);
        let silent = open.iter().filter(|one| failure_of(&one.db).is_some());
        (failed + silent.count(), failed + open.len())
    }

    /// Closes all databases. A restore in progress is abandoned after a short wait, without getting a name.
    pub fn close(&self) -> Result<()> {
        self.has_closed.store(true, Ordering::SeqCst);
        let changing = self.changing.try_lock_for(CLOSE_WAIT);
        let table = std::mem::take(&mut *self.table.write());
        let mut outcome = Ok(());
        for one in table.open.values() {
            one.feed.close();
            outcome = outcome.and(one.db.close());
        }
        if changing.is_some() {
            // Otherwise a restore is still in progress, and the lock is held until the process ends.
            *self.lock.lock() = None;
        }
        Ok(outcome?)
    }

    fn insert(&self, name: &str, db: Database, location: Option<Location>) -> Result<()> {
        check_name(name)?;
        let feed = Feed::follow(&db)?;
        let served = Served {
            name: name.into(),
            db: db.reserving(OWN_BUCKETS),
            feed,
            location,
        };
        let mut table = self.table.write();
        // A concurrent close closes all databases that are in the table.
        self.refuse_late()?;
        self.refuse_twice(&table, name)?;
        table.failed.remove(name);
        table.open.insert(served.name.clone(), Arc::new(served));
        Ok(())
    }

    fn refuse_twice(&self, table: &Table, name: &str) -> Result<()> {
        match table.open.contains_key(name) {
            false => Ok(()),
            true => Err(ServerError::Exists(format!(
                "two databases have the name `{name}`: specify NAME=PATH"
            ))),
        }
    }
}

fn unknown(name: &str) -> ServerError {
    ServerError::NotFound(format!("no database `{name}`"))
}

/// Longest wait for another server that starts.
const START_WAIT: Duration = Duration::from_secs(10);

/// Takes the lock of the folder together with other servers. One that starts has it exclusively for a while.
fn lock_shared(file: &File) -> std::result::Result<(), TryLockError> {
    let began = Instant::now();
    loop {
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) if began.elapsed() < START_WAIT => {
                std::thread::sleep(Duration::from_millis(10));
            }
            locked => return locked,
        }
    }
}

/// Locks a database, which this server has closed, against all processes.
fn lock_alone(path: &Path) -> Result<Option<Lock>> {
    let locked = RealDisk.lock(&path.join("LOCK"), LockMode::Exclusive);
    locked.map_err(|error| match error {
        LockError::Held(_) => ServerError::Unavailable(format!(
            "other processes have the database {} open: end them first",
            path.display()
        )),
        LockError::Io(error) => {
            ServerError::Unavailable(format!("{} cannot be locked: {error}", path.display()))
        }
    })
}

/// The error that prevents reading an open database.
fn failure_of(db: &Database) -> Option<ServerError> {
    db.begin_read().err().map(ServerError::from)
}

/// Whether a database could not be opened because it is open elsewhere.
fn is_in_use(error: &ServerError) -> bool {
    matches!(error, ServerError::Database(error) if isomer_db::internals::is_in_use(error))
}

/// Default name of the database in a folder: `people` for `/data/people.isomer`.
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
    fn folders_that_hold_no_database_are_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        let databases = || {
            Databases::new(
                Database::builder().sharing(Sharing::Exclusive),
                Some(folder.path().to_owned()),
                false,
            )
        };
        let first = databases();
        first.open_folder().unwrap();
        first.create("people").unwrap();
        first.close().unwrap();
        // Default folder of users and tokens.
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
    fn a_folder_that_another_server_serves_is_refused_and_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        let databases = || {
            Databases::new(
                Database::builder().sharing(Sharing::Exclusive),
                Some(folder.path().to_owned()),
                false,
            )
        };
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
        // Nor may another process have a database in it open.
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

    /// The error of a lock that cannot be taken contains the path; its words do not make the database one in use.
    #[test]
    fn a_folder_named_like_the_message_of_a_database_in_use_is_none() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["is in use by", "is already open in this process"] {
            let home = folder.path().join(name);
            let databases = || {
                Databases::new(
                    Database::builder().sharing(Sharing::Exclusive),
                    Some(home.clone()),
                    false,
                )
            };
            let first = databases();
            first.open_folder().unwrap();
            first.create("people").unwrap();
            first.close().unwrap();
            let lock = home.join("people").join("LOCK");
            std::fs::remove_file(&lock).unwrap();
            std::fs::create_dir(&lock).unwrap();
            let error = Database::open(home.join("people")).unwrap_err();
            assert_eq!(error.kind(), isomer_db::ErrorKind::Unavailable, "{error}");
            assert!(error.to_string().contains(name), "{error}");
            let second = databases();
            second.open_folder().unwrap();
            assert_eq!(second.counts(), (0, 1));
            second.remove("people").unwrap();
            assert!(!home.join("people").exists());
        }
    }

    #[test]
    fn close_does_not_wait_for_a_change_in_progress() {
        let folder = tempfile::tempdir().unwrap();
        let databases = Databases::new(
            Database::builder().sharing(Sharing::Exclusive),
            Some(folder.path().to_owned()),
            false,
        );
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

    /// Damages the database's files so that it cannot be opened; returns their previous contents.
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
    fn a_database_that_cannot_be_opened_can_be_dropped_unless_it_was_repaired() {
        let folder = tempfile::tempdir().unwrap();
        let databases = || {
            Databases::new(
                Database::builder().sharing(Sharing::Exclusive),
                Some(folder.path().to_owned()),
                false,
            )
        };
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

    /// The server stops during a restore: the restored database gets no name, and nothing of it remains.
    #[test]
    fn a_restore_interrupted_by_a_stop_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let backup = folder.path().join("nightly");
        let builder = Database::builder().engine(EngineKind::Lsm);
        let home = folder.path().join("databases");
        let databases = || Databases::new(builder.clone(), Some(home.clone()), false);
        let first = databases();
        first.open_folder().unwrap();
        first.create("shop").unwrap();
        let shop = first.get("shop").unwrap();
        shop.db.query("CREATE (:Item {_key: 'i'})").unwrap();
        shop.db.backup(&backup).run().unwrap();
        drop(shop);
        let mut seen = 0;
        let overtaken = |_, _| {
            seen += 1;
            first.close().unwrap();
        };
        let error = first.restore("again", |target| {
            Database::restore(&backup, target).progress(overtaken)
        });
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
            .restore("again", |target| Database::restore(&backup, target))
            .unwrap();
        let again = second.get("again").unwrap();
        let found = again.db.query("MATCH (i:Item) RETURN i").unwrap();
        assert_eq!(found.len(), 1);
        second.close().unwrap();
    }

    #[test]
    fn interrupted_restores_are_removed_and_a_broken_database_does_not_block_the_others() {
        let folder = tempfile::tempdir().unwrap();
        let databases = || {
            Databases::new(
                Database::builder().sharing(Sharing::Exclusive),
                Some(folder.path().to_owned()),
                false,
            )
        };
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
        assert!(second.open_error("broken").is_some() && second.open_error("people").is_none());
        // After the repair it is reopened, once.
        let error = second.open_again("broken").unwrap_err();
        assert_eq!(error.kind(), "Unavailable", "{error}");
        for (path, bytes) in damaged {
            std::fs::write(path, bytes).unwrap();
        }
        assert!(second.open_again("broken").unwrap());
        assert!(!second.open_again("broken").unwrap());
        assert_eq!(second.open_again("none").unwrap_err().kind(), "NotFound");
        assert_eq!((second.counts(), second.check()), ((2, 0), (0, 2)));
        assert!(second.get("broken").is_ok() && second.open_error("broken").is_none());
        let left: Vec<_> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .filter(|name| name.to_string_lossy().starts_with('.'))
            .collect();
        assert!(left.is_empty(), "{left:?}");
        second.close().unwrap();
    }
}
