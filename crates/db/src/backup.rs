//! Backups of a database, and restoring them.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use isomer_data::Version;
use isomer_lsm::{
    LsmOptions,
    backup::{self, BackupResult, RestoreTarget, Restoring},
};
use isomer_storage::{Engine, StorageError};
#[cfg(feature = "encryption")]
use isomer_vfs::{Disk, LockError, LockMode};
use isomer_vfs::{
    RealDisk,
    keys::{self, MasterKey},
};

use crate::{
    Database, Error, ErrorKind, Result,
    layers::{LayerError as _, LayerResult as _},
    open::open_data,
};

/// The result of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backup {
    /// Its number in the folder, from 1 on.
    pub number: u64,
    /// The version of the database in it.
    pub version: Version,
    /// Bytes that were copied.
    pub copied_bytes: u64,
    /// Bytes that an earlier backup in the folder already had.
    pub shared_bytes: u64,
}

/// A backup in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackupInfo {
    /// Its number in the folder, from 1 on.
    pub number: u64,
    /// The version of the database in it.
    pub version: Version,
    /// When it was made, in milliseconds since 1970.
    pub time_ms: u64,
    /// Bytes of a database restored from it.
    pub bytes: u64,
}

/// Which state is restored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestorePoint {
    /// The newest backup.
    #[default]
    Newest,
    /// The state at a version.
    Version(Version),
    /// The last state at a time, in milliseconds since 1970.
    Time(u64),
}

/// The result of a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Restored {
    /// The number of the backup that it began with.
    pub backup: u64,
    /// The last version.
    pub version: Version,
    /// The time of that commit, or of the backup, in milliseconds since 1970.
    pub time_ms: u64,
}

/// Called with the bytes done and the total.
type Progress<'a> = Box<dyn FnMut(u64, u64) + 'a>;

/// A backup to be made: see [`Database::backup`].
#[must_use = "`run` makes the backup"]
pub struct BackupTask<'a> {
    db: &'a Database,
    target: PathBuf,
    progress: Option<Progress<'a>>,
}

impl<'a> BackupTask<'a> {
    /// Calls `progress` with the bytes done and the total.
    pub fn progress(mut self, progress: impl FnMut(u64, u64) + 'a) -> Self {
        self.progress = Some(Box::new(progress));
        self
    }

    /// Makes the backup. `Unsupported` with another engine than [`Lsm`](crate::EngineKind::Lsm), `Invalid` if the
    /// folder holds backups of another database.
    pub fn run(self) -> Result<Backup> {
        let engine = self.db.lsm_engine()?;
        let mut progress = self.progress.unwrap_or_else(|| Box::new(|_, _| {}));
        let taken: BackupResult = engine
            .backup(&RealDisk, &self.target, &mut progress)
            .map_err(invalid_request)?;
        Ok(Backup {
            number: taken.number,
            version: taken.version,
            copied_bytes: taken.copied.1,
            shared_bytes: taken.shared.1,
        })
    }
}

/// A restore to be made: see [`Database::restore`].
#[must_use = "`run` restores the database"]
pub struct RestoreTask<'a> {
    source: PathBuf,
    target: PathBuf,
    point: RestorePoint,
    /// Ignored for a database that is not encrypted.
    key: Option<MasterKey>,
    progress: Option<Progress<'a>>,
}

impl<'a> RestoreTask<'a> {
    /// Restores another state than the newest backup.
    pub fn point(mut self, point: RestorePoint) -> Self {
        self.point = point;
        self
    }

    /// The key with which an encrypted database was backed up; ignored for others.
    #[cfg(feature = "encryption")]
    pub fn key(mut self, key: impl Into<Option<MasterKey>>) -> Self {
        self.key = key.into();
        self
    }

    /// Calls `progress` with the bytes done and the total.
    pub fn progress(mut self, progress: impl FnMut(u64, u64) + 'a) -> Self {
        self.progress = Some(Box::new(progress));
        self
    }

    /// Restores the database. `Invalid` if the target is not empty, or the state is not in the backups. A restore that
    /// breaks off leaves a folder that does not open as a database.
    pub fn run(self) -> Result<Restored> {
        let point = match self.point {
            RestorePoint::Newest => RestoreTarget::Newest,
            RestorePoint::Version(version) => RestoreTarget::Version(version),
            RestorePoint::Time(time_ms) => RestoreTarget::Time(time_ms),
        };
        let mut progress = self.progress.unwrap_or_else(|| Box::new(|_, _| {}));
        let restoring = Restoring::begin(
            &RealDisk,
            &self.source,
            &self.target,
            point,
            self.key.as_ref(),
            &LsmOptions::default(),
            &mut progress,
        )
        .map_err(invalid_request)?;
        // Writes made after the backup may exist on other replicas: operations get a new epoch from now on. Until that
        // is on disk the database cannot be opened.
        let engine = Arc::new(restoring.open().lift()?);
        let store = open_data(engine.clone(), Default::default()).lift()?;
        store.numbering().begin_epoch().lift()?;
        drop(store);
        engine.sync().lift()?;
        drop(engine);
        let restored = restoring.end().lift()?;
        Ok(Restored {
            backup: restored.backup,
            version: restored.version,
            time_ms: restored.time_ms,
        })
    }
}

/// Folders and points in time are given by the caller: errors about them are of the kind `Invalid`.
pub(crate) fn invalid_request(error: StorageError) -> Error {
    match error {
        StorageError::Invalid(message) => Error::new(ErrorKind::Invalid, message),
        other => other.lift(),
    }
}

impl Database {
    /// A task that adds a backup to the folder `target`, which may contain earlier ones of the same database,
    /// concurrently with reads and writes. Files that an earlier backup has are not copied again. Each backup is
    /// complete: see [`Database::restore`]. An encrypted database has encrypted backups. Needs the engine
    /// [`Lsm`](crate::EngineKind::Lsm), open for writing.
    ///
    /// ```
    /// use isomerdb::{Database, EngineKind, RestorePoint};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let (path, backups, again) = (folder.path().join("db"), folder.path().join("backups"), folder.path().join("again"));
    /// let db = Database::builder().engine(EngineKind::Lsm).open(&path)?;
    /// db.query("CREATE (:Note {text: 'first'})")?;
    /// let first = db.backup(&backups).run()?;
    /// db.query("CREATE (:Note {text: 'second'})")?;
    /// let second = db.backup(&backups).run()?;
    /// assert_eq!(Database::backups(&backups)?.len(), 2);
    ///
    /// Database::restore(&backups, &again).point(RestorePoint::Version(first.version)).run()?;
    /// let restored = Database::open(&again)?;
    /// assert_eq!(restored.query("MATCH (n:Note) RETURN n")?.len(), 1);
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn backup(&self, target: impl Into<PathBuf>) -> BackupTask<'_> {
        BackupTask {
            db: self,
            target: target.into(),
            progress: None,
        }
    }

    /// The backups in a folder, oldest first.
    pub fn backups(folder: impl AsRef<Path>) -> Result<Vec<BackupInfo>> {
        let found = backup::list(&RealDisk, folder.as_ref()).map_err(invalid_request)?;
        Ok(found
            .iter()
            .map(|backup| BackupInfo {
                number: backup.number,
                version: backup.version,
                time_ms: backup.time_ms,
                bytes: backup.bytes(),
            })
            .collect())
    }

    /// Deletes all backups in a folder except the last `count` (at least one), and the files that only they used.
    /// Returns how many backups were deleted.
    pub fn keep_backups(folder: impl AsRef<Path>, count: usize) -> Result<usize> {
        backup::keep_last(&RealDisk, folder.as_ref(), count).map_err(invalid_request)
    }

    /// A task that restores a database into the folder `target`, which must be empty or missing, from the backups in
    /// `source`: the newest backup, or the state at any version or time between the oldest and the newest, as far as
    /// their log reaches. A state within a bulk load cannot be restored: only one before it, or a backup made after it.
    pub fn restore<'a>(source: impl Into<PathBuf>, target: impl Into<PathBuf>) -> RestoreTask<'a> {
        RestoreTask {
            source: source.into(),
            target: target.into(),
            point: RestorePoint::Newest,
            key: None,
            progress: None,
        }
    }

    /// Merges all tables into one run, and frees the space of versions that are not readable any more, concurrently
    /// with reads and writes. The engine compacts by itself when it pays; this is for large deletions, or before files
    /// are copied.
    ///
    /// ```
    /// use isomerdb::{Database, EngineKind};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("db");
    /// let db = Database::builder().engine(EngineKind::Lsm).open(&path)?;
    /// db.query("UNWIND range(1, 1000) AS n CREATE (:Note {n: n})")?;
    /// db.query("MATCH (n:Note) DELETE n")?;
    /// db.compact()?;
    /// # Ok::<(), isomerdb::Error>(())
    /// ```
    pub fn compact(&self) -> Result<()> {
        let engine = self.lsm_engine()?;
        self.store()?.numbering().sum_up().lift()?;
        engine.compact_all().lift()
    }

    /// Whether the database in `path` is encrypted, and so needs its key to open.
    pub fn is_encrypted(path: impl AsRef<Path>) -> Result<bool> {
        Ok(keys::is_encrypted(&RealDisk, path.as_ref())?)
    }

    /// Changes the master key of the encrypted database in `path`, which must not be open: the data keys are wrapped
    /// with the new key, and later writes use a new data key. The time does not depend on the size of the database.
    /// Earlier backups keep the key with which they were made.
    ///
    /// ```
    /// use isomerdb::{Database, EngineKind, MasterKey};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("db");
    /// let (old, new) = (MasterKey::generate()?, MasterKey::generate()?);
    /// Database::builder().engine(EngineKind::Lsm).key(old.clone()).open(&path)?.close()?;
    /// Database::rotate_key(&path, &old, &new)?;
    /// assert!(Database::builder().key(old.clone()).open(&path).is_err());
    /// Database::builder().key(new.clone()).open(&path)?;
    /// let missing = Database::rotate_key(path.join("missing"), &old, &new).unwrap_err();
    /// assert!(missing.to_string().starts_with("there is no database"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "encryption")]
    pub fn rotate_key(path: impl AsRef<Path>, old: &MasterKey, new: &MasterKey) -> Result<()> {
        let path = path.as_ref();
        if !path.exists() {
            return Err(Error::new(
                ErrorKind::Unavailable,
                format!(
                    "there is no database at `{}`: check the path",
                    path.display()
                ),
            ));
        }
        if !keys::is_encrypted(&RealDisk, path)? {
            return Err(keys::KeyError::NotEncrypted(path.to_owned()).into());
        }
        let lock = path.join("LOCK");
        let _lock = RealDisk
            .lock(&lock, LockMode::Exclusive)
            .map_err(|error| match error {
                LockError::Held(_) => Error::new(
                    ErrorKind::Unavailable,
                    format!("the database `{}` is open: close it first", path.display()),
                ),
                LockError::Io(error) => Error::new(
                    ErrorKind::Unavailable,
                    format!("locking `{}`: {error}", lock.display()),
                ),
            })?;
        Ok(keys::rotate(&RealDisk, path, old, new)?)
    }
}
