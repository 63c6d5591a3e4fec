//! Entering a database alone or with other processes; making a database that processes can share.

use std::{
    io,
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use isomer_shared_log::{DirectoryLog, DirectoryMode, DirectoryOptions, Record, SharedLog};
use isomer_storage::{LogPoint, StorageError, damaged, io_error};
use isomer_vfs::{Lock, LockError, LockMode, OpenMode, Seal};

use super::{
    Lease, ManifestNumbers,
    convert::{OpenPrivate, convert},
    sealed_log::SealedLog,
    wal::log_error,
};
use crate::{
    BlockCache, LogSharing, LsmOptions, OnChange, Recovered, Tree, TreeOptions,
    manifest::{LOAD_MANIFEST, Stored},
    open::{self, StoreFile},
};

/// How long another process may have the database for itself before it counts as in use.
const MAX_WAIT: Duration = Duration::from_millis(300);
/// The same while it makes the database, or converts it.
const MAX_MAKING_WAIT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(2);
/// The file that a process locks while it makes a backup.
const BACKUP_LOCK: &str = "BACKUP-LOCK";
/// Attempts of a follower to open the tables while they change.
const MAX_ATTEMPTS: usize = 100;

/// A database that this process has entered.
pub struct Entered {
    /// The lock against processes that would exclude this one.
    pub lock: Option<Lock>,
    /// The file `STORE`; `None` if the database is still to be made.
    pub store: Option<StoreFile>,
    /// How it is opened: not [`LogSharing::AsStored`], unless it is opened read-only.
    pub sharing: LogSharing,
}

/// Whether opening a database for several processes converts one that has a private log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Conversion {
    /// Any.
    Any,
    /// Only a copy of a shared database; others are opened exclusively.
    Copies,
}

/// The shared log of a database.
pub struct OpenedLog {
    /// The log.
    pub log: Arc<dyn SharedLog>,
    /// Where processes publish the number of the newest manifest, if they share memory.
    pub numbers: Option<Arc<dyn ManifestNumbers>>,
}

/// Refuses a folder, which exists, whose databases processes cannot share, with the reason.
pub fn check_sharing(directory: &Path, options: &LsmOptions) -> Result<(), StorageError> {
    DirectoryLog::check_folder(&*options.disk, directory).map_err(log_error)
}

/// Whether the first opening for writing makes a new database, or a copy of a shared one, a shared database.
pub fn becomes_shared(directory: &Path, options: &LsmOptions, store: Option<StoreFile>) -> bool {
    store.is_none_or(|store| store.is_shared_copy()) && check_sharing(directory, options).is_ok()
}

/// Takes the lock of the database in `directory`, as the options say. A database that is to be shared is made, or
/// converted, first: afterwards its file `STORE` exists and has the format of a shared one.
pub fn enter(
    directory: &Path,
    options: &LsmOptions,
    open_private: &OpenPrivate<'_>,
) -> Result<Entered, StorageError> {
    if options.read_only {
        let lock = open::lock(directory, options, LockMode::Shared)
            .map_err(|error| in_use_by(error, directory, options))?;
        if load_is_unsettled(directory, options)? {
            return Err(StorageError::Unavailable(format!(
                "a bulk load into the database `{}` was interrupted: open it for writing once",
                directory.display()
            )));
        }
        let store = open::read(directory, options)?;
        let sharing = options.sharing.clone();
        return Ok(Entered {
            lock,
            store,
            sharing,
        });
    }
    match options.sharing {
        LogSharing::Exclusive => enter_exclusive(directory, options),
        LogSharing::Shared | LogSharing::Over(_) => {
            enter_shared(directory, options, open_private, Conversion::Any)
        }
        LogSharing::AsStored => {
            let store = open::read(directory, options)?;
            let is_shared = store.is_some_and(|store| store.is_shared())
                || becomes_shared(directory, options, store);
            let sharing = match is_shared {
                true => LogSharing::Shared,
                false => LogSharing::Exclusive,
            };
            let options = LsmOptions {
                sharing,
                ..options.clone()
            };
            match is_shared {
                true => enter_shared(directory, &options, open_private, Conversion::Copies),
                false => enter_exclusive(directory, &options),
            }
        }
    }
}

fn enter_exclusive(directory: &Path, options: &LsmOptions) -> Result<Entered, StorageError> {
    let lock = open::lock(directory, options, LockMode::Exclusive);
    let lock = lock.map_err(|error| in_use_by(error, directory, options))?;
    settle_load(directory, options)?;
    let store = open::read(directory, options)?;
    Ok(Entered {
        lock,
        store,
        sharing: LogSharing::Exclusive,
    })
}

fn enter_shared(
    directory: &Path,
    options: &LsmOptions,
    open_private: &OpenPrivate<'_>,
    conversion: Conversion,
) -> Result<Entered, StorageError> {
    let sharing = options.sharing.clone();
    let began = Instant::now();
    loop {
        let store = open::read(directory, options)?;
        let is_ready = store.is_some_and(|made| made.is_shared());
        let mode = match is_ready && !load_is_unsettled(directory, options)? {
            true => LockMode::Shared,
            false => LockMode::Exclusive,
        };
        match open::lock(directory, options, mode) {
            Ok(None) => make_lock_file(directory, options)?,
            Ok(lock) if mode == LockMode::Shared => {
                // It may have been replaced before it was locked.
                let store = open::read(directory, options)?;
                if store.is_some_and(|made| made.is_shared())
                    && !load_is_unsettled(directory, options)?
                {
                    return Ok(Entered {
                        lock,
                        store,
                        sharing,
                    });
                }
            }
            Ok(lock) => {
                let store = open::read(directory, options)?;
                let is_exclusive =
                    store.is_some_and(|store| !store.is_shared() && !store.is_shared_copy());
                if is_exclusive && conversion == Conversion::Copies {
                    // Another process has created it in between, for itself.
                    return Ok(Entered {
                        lock,
                        store,
                        sharing: LogSharing::Exclusive,
                    });
                }
                make_shared(directory, options, open_private)?;
                settle_load(directory, options)?;
                // Other processes may enter before this one does.
                drop(lock);
            }
            Err(StorageError::InUse { path, pid }) => {
                let patience = match is_being_made(directory, options)? {
                    true => MAX_MAKING_WAIT,
                    false => MAX_WAIT,
                };
                if began.elapsed() >= patience {
                    let error = StorageError::InUse { path, pid };
                    return Err(in_use_by(error, directory, options));
                }
                thread::sleep(PAUSE);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Whether a bulk load into a shared database has not ended, or was interrupted.
fn load_is_unsettled(directory: &Path, options: &LsmOptions) -> Result<bool, StorageError> {
    let path = directory.join(open::TABLES).join(LOAD_MANIFEST);
    let exists = options.disk.exists(&path);
    exists.map_err(|error| io_error("opening", &path, &error))
}

/// Ends a bulk load that was interrupted, in a database for which this process has the exclusive lock: it took place if
/// the log has a record behind everything that was in tables before.
fn settle_load(directory: &Path, options: &LsmOptions) -> Result<(), StorageError> {
    if !load_is_unsettled(directory, options)? {
        return Ok(());
    }
    let mut options = options.clone();
    options.seal = open::seal(directory, &options)?;
    let (disk, tables) = (&*options.disk, directory.join(open::TABLES));
    let load = Stored::read_load(disk, &tables, &options.seal)?;
    let Some(point) = load.and_then(|load| load.log_point) else {
        let path = tables.join(LOAD_MANIFEST);
        let what = format!("its file `{}` is of no bulk load", path.display());
        return Err(damaged(directory, &what));
    };
    check_log_exists(directory, &options)?;
    let OpenedLog { log, .. } = open_log(directory, &options)?;
    let end = log.end().map_err(log_error)?;
    if end > point.next {
        log.sync(end).map_err(log_error)?;
    }
    Stored::settle_load(disk, &tables, end > point.next)
}

/// A copy of a database may have no lock file: a shared lock does not create it.
fn make_lock_file(directory: &Path, options: &LsmOptions) -> Result<(), StorageError> {
    let path = directory.join(open::LOCK);
    let made = options.disk.open(&path, OpenMode::Create);
    made.map(drop)
        .map_err(|error| io_error("making", &path, &error))
}

/// Whether a process that has the database for itself makes it, makes it a shared one, or ends an interrupted bulk
/// load, which ends.
fn is_being_made(directory: &Path, options: &LsmOptions) -> Result<bool, StorageError> {
    let Some(store) = open::read(directory, options)? else {
        return Ok(true);
    };
    if store.is_shared() {
        return load_is_unsettled(directory, options);
    }
    let shared = directory.join(open::SHARED);
    let exists = options.disk.exists(&shared);
    exists.map_err(|error| io_error("opening", &shared, &error))
}

/// The lock file of a shared database has the id of the process that made it: the one that maintains it is running.
fn in_use_by(error: StorageError, directory: &Path, options: &LsmOptions) -> StorageError {
    match error {
        StorageError::InUse { path, pid } => {
            let is_shared = open::read(directory, options)
                .is_ok_and(|made| made.is_some_and(|made| made.is_shared()));
            let pid = match is_shared {
                true => Lease::new(options.disk.clone(), directory).holder(),
                false => pid,
            };
            StorageError::InUse { path, pid }
        }
        error => error,
    }
}

/// Makes the database in `directory`, for which this process has the exclusive lock, a shared one.
fn make_shared(
    directory: &Path,
    options: &LsmOptions,
    open_private: &OpenPrivate<'_>,
) -> Result<(), StorageError> {
    match open::read(directory, options)? {
        Some(store) if store.is_shared() => Ok(()),
        Some(store) => convert(directory, options, store, open_private),
        None => create(directory, options),
    }
}

/// Creates a shared database. Its file `STORE` is the last step: an attempt that is interrupted is repeated.
fn create(directory: &Path, options: &LsmOptions) -> Result<(), StorageError> {
    let mut options = options.clone();
    options.seal = open::seal(directory, &options)?;
    let identity = open::begin(directory, &options)?;
    open::sync_names(directory, &options)?;
    let OpenedLog { log, .. } = open_log(directory, &options)?;
    if log.end().map_err(log_error)? > 1 {
        return Err(StorageError::Corrupt(format!(
            "`{}` is not a database: its file `{}` is missing, and its shared log holds commits: put the file back, or restore the database from a backup",
            directory.display(),
            open::STORE
        )));
    }
    let folder = directory.join(open::TABLES);
    let mut tree = TreeOptions::new(options.disk.clone(), folder, BlockCache::new(0, None));
    tree.seal = options.seal.clone();
    tree.random = options.random.clone();
    (tree.database, tree.shared) = (identity, true);
    let (tree, _) = Tree::open(tree, Arc::new(|_| {}))?;
    // An earlier attempt may have left one of another format.
    tree.store_chain()?;
    open::create(directory, &options, StoreFile::with_shared_log(identity))
}

/// Opens the shared log of a database; creates it if it does not exist and the options allow to write.
pub fn open_log(directory: &Path, options: &LsmOptions) -> Result<OpenedLog, StorageError> {
    if let LogSharing::Over(log) = &options.sharing {
        let log = log.clone();
        return Ok(OpenedLog { log, numbers: None });
    }
    let log_options = DirectoryOptions {
        mode: match options.read_only {
            true => DirectoryMode::ReadOnly,
            false => DirectoryMode::Shared,
        },
        segment_bytes: options.segment_bytes,
        disk: options.disk.clone(),
        kind: options.process_kind.clone(),
        ..DirectoryOptions::default()
    };
    let log = DirectoryLog::open(&directory.join(open::SHARED), &log_options);
    let log = Arc::new(log.map_err(log_error)?);
    // A process that only reads does not see the shared memory.
    let numbers = (!options.read_only).then(|| log.clone() as Arc<dyn ManifestNumbers>);
    Ok(OpenedLog {
        log: sealed(log, &options.seal),
        numbers,
    })
}

/// Seals the records of a log, if the database is encrypted.
fn sealed(log: Arc<dyn SharedLog>, seal: &Seal) -> Arc<dyn SharedLog> {
    match seal.encrypts() {
        true => Arc::new(SealedLog::new(log, seal.clone())),
        false => log,
    }
}

/// Refuses a database whose shared log is missing: opening would make an empty one.
pub fn check_log_exists(directory: &Path, options: &LsmOptions) -> Result<(), StorageError> {
    if let LogSharing::Over(_) = options.sharing {
        return Ok(());
    }
    let path = directory.join(open::SHARED).join("manifest");
    let exists = options.disk.exists(&path);
    match exists.map_err(|error| io_error("opening", &path, &error))? {
        true => Ok(()),
        false => {
            let what = format!(
                "the manifest `{}` of its shared log is missing",
                path.display()
            );
            Err(damaged(directory, &what))
        }
    }
}

/// Compares the tables, which hold everything before `point`, with the log: nothing is changed before they match.
/// Returns whether the log still has what follows; otherwise the tables are older than what is trimmed.
fn check_point(
    directory: &Path,
    log: &dyn SharedLog,
    point: LogPoint,
) -> Result<bool, StorageError> {
    let (first, end) = (
        log.first().map_err(log_error)?,
        log.end().map_err(log_error)?,
    );
    if end < point.next {
        return Err(damaged(
            directory,
            &format!(
                "its shared log ends before the record {end}, and its tables hold everything before the record {}",
                point.next
            ),
        ));
    }
    if first > point.next {
        return Ok(false);
    }
    let at = point.next - 1;
    if at >= first {
        let records = log.read(at, 0).map_err(log_error)?;
        let bytes = records.first().map_or(&[][..], Vec::as_slice);
        let (_, hash) = Record::decode(bytes, at, log.id())
            .map_err(|error| damaged(directory, &error.to_string()))?;
        if hash.0 != point.hash {
            let what = format!(
                "the record {at} of its shared log is not the one that its tables contain: put all files back as they were"
            );
            return Err(damaged(directory, &what));
        }
    }
    Ok(true)
}

/// Opens the tables, as the process that maintains them or as a follower, and compares them with the log.
pub fn open_tables(
    directory: &Path,
    options: &TreeOptions,
    log: &dyn SharedLog,
    on_change: impl Fn() -> OnChange,
) -> Result<(Tree, Recovered), StorageError> {
    let mut attempts = 0;
    loop {
        let sequence = Stored::read_sequence(&*options.disk, &options.folder)?;
        let opened =
            Tree::open(options.clone(), on_change()).and_then(|(tree, tables)| match check_point(
                directory,
                log,
                tables.log_point,
            )? {
                true => Ok((tree, tables)),
                false => Err(damaged(
                    directory,
                    "its shared log lacks records that are not in its tables",
                )),
            });
        // The process that maintains the tables may have removed one of them, or have trimmed the log, in between.
        let is_newer =
            options.follows && Stored::read_sequence(&*options.disk, &options.folder)? > sequence;
        attempts += 1;
        if opened.is_ok() || !is_newer || attempts == MAX_ATTEMPTS {
            return opened;
        }
    }
}

/// The lock of the process that makes a backup; `None` if another one has it.
pub fn lock_backup(directory: &Path, options: &LsmOptions) -> Result<Option<Lock>, StorageError> {
    let path = directory.join(BACKUP_LOCK);
    match options.disk.lock(&path, LockMode::Exclusive) {
        Ok(lock) => Ok(lock),
        Err(LockError::Held(_)) => Ok(None),
        Err(LockError::Io(error)) => Err(io_error("locking", &path, &error)),
    }
}

/// Removes the log that the database had before it was shared: the shared one has what is still needed of it.
pub fn remove_own_log(directory: &Path, options: &LsmOptions) -> Result<(), StorageError> {
    let (disk, folder) = (&options.disk, directory.join(open::LOG));
    let names = match disk.list(&folder) {
        Ok(names) if names.is_empty() => return Ok(()),
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io_error("reading", &folder, &error)),
    };
    let removed = names
        .iter()
        .try_for_each(|name| disk.remove(&folder.join(name)))
        .and_then(|()| disk.sync_folder(&folder));
    removed.map_err(|error| io_error("removing", &folder, &error))
}
