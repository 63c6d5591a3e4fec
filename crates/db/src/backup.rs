//! Backups of a database, and databases made out of them.

use std::{path::Path, sync::Arc};

use isomer_storage::{Engine, StorageError};
use isomer_store::{
    StoreOptions,
    backup::{self, Restoring, Taken},
};
use isomer_vfs::{
    Disk, LockError, LockMode, RealDisk,
    keys::{self, MasterKey},
};

use crate::{Database, Error, ErrorKind, Result, Version};

pub use isomer_store::backup::{Point as RestorePoint, Restored};

/// What a backup did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backup {
    /// Its number in the folder, from 1 on.
    pub number: u64,
    /// The version of the database in it.
    pub version: Version,
    /// Bytes that were copied.
    pub copied_bytes: u64,
    /// Bytes that an earlier backup in the folder had already.
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
    /// Bytes of a database made out of it.
    pub bytes: u64,
}

/// What to restore: see [`Database::restore`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RestoreOptions {
    /// The state; the newest unless said otherwise.
    pub point: RestorePoint,
    /// The key that an encrypted database was backed up with; others need none, and do not look at it.
    pub key: Option<MasterKey>,
}

impl RestoreOptions {
    /// The newest backup.
    pub fn new() -> Self {
        Self::default()
    }

    /// Another state than the newest one.
    pub fn point(mut self, point: RestorePoint) -> Self {
        self.point = point;
        self
    }

    /// The key of an encrypted database.
    pub fn key(mut self, key: MasterKey) -> Self {
        self.key = Some(key);
        self
    }
}

/// Folders and points in time are given by the caller: what the engine refuses of them is no fault of ours.
pub(crate) fn asked_wrongly(error: StorageError) -> Error {
    match error {
        StorageError::Invalid(message) => Error::new(ErrorKind::Invalid, message),
        other => other.into(),
    }
}

impl Database {
    /// Puts a backup into the folder `target`, beside earlier ones of the same database, while reads and writes go on. What
    /// an earlier one has is not copied again. Each is whole in itself: see [`Database::restore`]. An encrypted database
    /// has encrypted backups. Needs the engine [`Store`](crate::EngineKind::Store), open for writing.
    ///
    /// ```
    /// use isomer_db::{Database, EngineKind, RestoreOptions, RestorePoint};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let (path, backups, again) = (folder.path().join("db"), folder.path().join("backups"), folder.path().join("again"));
    /// let db = Database::builder().engine(EngineKind::Store).open(&path)?;
    /// db.query("CREATE (:Note {text: 'first'})", ())?;
    /// let first = db.backup(&backups)?;
    /// db.query("CREATE (:Note {text: 'second'})", ())?;
    /// let second = db.backup(&backups)?;
    /// assert_eq!(Database::backups(&backups)?.len(), 2);
    ///
    /// let options = RestoreOptions::new().point(RestorePoint::Version(first.version));
    /// Database::restore(&backups, &again, &options)?;
    /// let restored = Database::open(&again)?;
    /// assert_eq!(restored.query("MATCH (n:Note) RETURN n", ())?.len(), 1);
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    pub fn backup(&self, target: impl AsRef<Path>) -> Result<Backup> {
        self.backup_with(target, &mut |_, _| {})
    }

    /// As [`Database::backup`]; `progress` is told how many bytes of how many are done.
    pub fn backup_with(
        &self,
        target: impl AsRef<Path>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Backup> {
        let engine = self.store_engine()?;
        let taken: Taken = engine
            .backup(&RealDisk, target.as_ref(), progress)
            .map_err(asked_wrongly)?;
        Ok(Backup {
            number: taken.number,
            version: taken.version,
            copied_bytes: taken.copied.1,
            shared_bytes: taken.shared.1,
        })
    }

    /// The backups in a folder, oldest first.
    pub fn backups(folder: impl AsRef<Path>) -> Result<Vec<BackupInfo>> {
        let found = backup::list(&RealDisk, folder.as_ref()).map_err(asked_wrongly)?;
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

    /// Forgets all backups in a folder but the last `count` (at least one), and gives back the space that only they took.
    /// Answers how many went.
    pub fn keep_backups(folder: impl AsRef<Path>, count: usize) -> Result<usize> {
        backup::keep_last(&RealDisk, folder.as_ref(), count).map_err(asked_wrongly)
    }

    /// Makes a database in the folder `target`, which must be empty or not there, out of the backups in `source`: the
    /// newest, or the state at any version or time between the oldest and the newest, as far as their log reaches. A
    /// bulk load cannot be gone back into: only to a backup made after it, or to before it.
    pub fn restore(
        source: impl AsRef<Path>,
        target: impl AsRef<Path>,
        options: &RestoreOptions,
    ) -> Result<Restored> {
        Self::restore_with(source, target, options, &mut |_, _| {})
    }

    /// As [`Database::restore`]; `progress` is told how many bytes of how many are done.
    pub fn restore_with(
        source: impl AsRef<Path>,
        target: impl AsRef<Path>,
        options: &RestoreOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Restored> {
        let target = target.as_ref();
        let restoring = Restoring::begin(
            &RealDisk,
            source.as_ref(),
            target,
            options.point,
            options.key.as_ref(),
            &StoreOptions::default(),
            progress,
        )
        .map_err(asked_wrongly)?;
        // What was written after the backup may live on elsewhere: operations are numbered apart from now on. Until that is on
        // disk it does not open.
        let engine = Arc::new(restoring.open()?);
        let store = isomer_data::Store::open(engine.clone(), Default::default())?;
        store.begin_epoch()?;
        drop(store);
        engine.sync()?;
        drop(engine);
        Ok(restoring.end()?)
    }

    /// Merges all tables into one run, and gives back the space of what nobody can read any more. Reads and writes go on;
    /// the engine merges by itself what pays, so that this is for after large deletions, or before files are copied.
    ///
    /// ```
    /// use isomer_db::{Database, EngineKind};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("db");
    /// let db = Database::builder().engine(EngineKind::Store).open(&path)?;
    /// db.query("UNWIND range(1, 1000) AS n CREATE (:Note {n: n})", ())?;
    /// db.query("MATCH (n:Note) DELETE n", ())?;
    /// db.compact()?;
    /// # Ok::<(), isomer_db::Error>(())
    /// ```
    pub fn compact(&self) -> Result<()> {
        let engine = self.store_engine()?;
        self.store()?.sum_up_numbers()?;
        Ok(engine.compact_all()?)
    }

    /// Whether the database in `path` is encrypted, and so opens with its key only.
    pub fn is_encrypted(path: impl AsRef<Path>) -> Result<bool> {
        Ok(keys::is_encrypted(&RealDisk, path.as_ref())?)
    }

    /// Puts the encrypted database in `path`, which must not be open, under another key: the data keys are wrapped again,
    /// and what is written from now on gets a new one. Takes no longer for a large database. Backups made before keep the
    /// key that they were made with.
    ///
    /// ```
    /// use isomer_db::{Database, EngineKind, MasterKey};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("db");
    /// let (old, new) = (MasterKey::generate()?, MasterKey::generate()?);
    /// Database::builder().engine(EngineKind::Store).key(old.clone()).open(&path)?.close()?;
    /// Database::rotate_key(&path, &old, &new)?;
    /// assert!(Database::builder().key(old.clone()).open(&path).is_err());
    /// Database::builder().key(new.clone()).open(&path)?;
    /// let missing = Database::rotate_key(path.join("missing"), &old, &new).unwrap_err();
    /// assert!(missing.to_string().starts_with("there is no database"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
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
