//! Backups of an open database, and restoring databases from them.

use std::{
    io,
    path::{Path, PathBuf},
};

use isomer_storage::{StorageError, Version, damaged};
use isomer_vfs::{
    Disk, DiskFile, Seal,
    keys::{self, KEYS_FILE, KeyError, MasterKey},
};

use super::{
    files::{CopyProgress, remove_folder},
    restore::{RestoreTarget, end, list, restore, select},
    take::{BackupResult, Source, take},
};
use crate::{
    LsmEngine, LsmOptions,
    log::{self, Cut, cut},
    manifest::{Stored, Whole},
    open,
};

/// Where the files of a backup stay until they are copied, in the database's folder.
const CHECKPOINT: &str = "backup.tmp";

/// Result of a restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RestoreResult {
    /// Number of the base backup.
    pub backup: u64,
    /// The last version.
    pub version: Version,
    /// Time of the commit, or of the backup, in milliseconds since 1970.
    pub time_ms: u64,
}

impl LsmEngine {
    /// Adds a backup of the last committed version to the folder `target` of `disk`, which may hold earlier
    /// backups of the same database; only files that they do not have are copied. Reads and writes continue.
    ///
    /// Errors: [`StorageError::Invalid`] if the folder holds something else; [`StorageError::Unavailable`] if
    /// it cannot be written or is full, or if another backup is in progress. The database and earlier backups
    /// are unaffected by an error.
    pub fn backup(
        &self,
        disk: &dyn Disk,
        target: &Path,
        progress: &mut CopyProgress<'_>,
    ) -> Result<BackupResult, StorageError> {
        let (own, options) = (self.directory(), self.options());
        if options.read_only {
            return Err(StorageError::Unavailable(
                "a backup needs the database open for writing".to_owned(),
            ));
        }
        // Backups share the folder for files that are about to be copied.
        let _one_at_a_time = self.begin_backup()?;
        let folder = own.join(CHECKPOINT);
        remove_folder(&*options.disk, &folder)?;
        let identity = open::identity(own, options)?;
        let taken = self.checkpoint_as(&folder, identity).and_then(|copied| {
            let source = Source {
                disk: &*options.disk,
                folder: &folder,
                identity,
                version: copied.version,
                // The times of commits never decrease; the system clock may have been set back.
                time_ms: (options.clock)().max(copied.time_ms),
                is_immutable: &is_immutable,
                has_other_history: &has_other_history,
            };
            take(&source, disk, target, progress)
        });
        let removed = remove_folder(&*options.disk, &folder);
        let taken = taken?;
        removed?;
        Ok(taken)
    }

    /// Creates a database in the folder `target`, which must be empty or not exist, from the backups in
    /// `source`: the newest one, or the state at a version or a time between the oldest and the newest of them.
    /// `options` contains the disk of the target. An encrypted database needs its `key`; for others it is
    /// ignored.
    ///
    /// Errors: [`StorageError::Invalid`] if no backup covers the requested point or the target is not empty;
    /// [`StorageError::Corrupt`] if a backup is damaged. An incomplete target does not open.
    pub fn restore(
        disk: &dyn Disk,
        source: &Path,
        target: &Path,
        point: RestoreTarget,
        key: Option<&MasterKey>,
        options: &LsmOptions,
        progress: &mut CopyProgress<'_>,
    ) -> Result<RestoreResult, StorageError> {
        Restoring::begin(disk, source, target, point, key, options, progress)?.end()
    }

    /// Removes what an interrupted backup left behind.
    pub(crate) fn remove_checkpoint(directory: &Path, options: &LsmOptions) {
        // If it cannot be removed it only takes space, and the next backup reports the error.
        let _ = remove_folder(&*options.disk, &directory.join(CHECKPOINT));
    }
}

/// A database that is being restored. Only the restoring caller can open it until [`Restoring::end`]: some work
/// may be left to do. If `end` is not reached, for whatever reason, the database never opens.
#[derive(Debug)]
pub struct Restoring {
    restored: RestoreResult,
    target: PathBuf,
    marker: PathBuf,
    options: LsmOptions,
}

impl Restoring {
    /// Like [`LsmEngine::restore`], without its last step.
    pub fn begin(
        disk: &dyn Disk,
        source: &Path,
        target: &Path,
        point: RestoreTarget,
        key: Option<&MasterKey>,
        options: &LsmOptions,
        progress: &mut CopyProgress<'_>,
    ) -> Result<Self, StorageError> {
        let selection = select(&list(disk, source)?, point, &is_log)?;
        let base = &selection.base;
        let encrypted = base.files.iter().any(|file| file.name == KEYS_FILE);
        if encrypted && key.is_none() {
            return Err(open::key_error(KeyError::Missing(source.to_owned())));
        }
        let mut options = options.clone();
        options.key = key.filter(|_| encrypted).cloned();
        let mut restored = RestoreResult {
            backup: base.number,
            version: base.version,
            time_ms: base.time_ms,
        };
        let marker = restore(disk, source, &selection, &*options.disk, target, progress)?;
        // A backup of an empty log has no file in that folder.
        open::make_folders(target, &options)?;
        let seal = keys::open(&*options.disk, target, options.key.as_ref(), false)
            .map_err(open::key_error)?;
        let at = match point {
            RestoreTarget::Version(version) => Some(Cut {
                version,
                time_ms: u64::MAX,
            }),
            RestoreTarget::Time(time_ms) => Some(Cut {
                version: Version::MAX,
                time_ms,
            }),
            RestoreTarget::Newest => None,
        };
        if let Some(at) = at.filter(|_| selection.partial) {
            let log = target.join(open::LOG);
            let (version, time_ms) = cut(&*options.disk, &log, &seal, base.version, at)?;
            if version > restored.version {
                (restored.version, restored.time_ms) = (version, time_ms);
            }
        }
        if let RestoreTarget::Version(version) = point
            && restored.version != version
        {
            return Err(StorageError::Invalid(format!(
                "the backups hold version {} and no other up to {version}: the log in between was trimmed before it was backed up; remove `{}` and restore version {0}",
                restored.version,
                target.display()
            )));
        }
        if let RestoreTarget::Time(time_ms) = point {
            refuse_later(&options, target, time_ms)?;
        }
        // Its history diverges from here on: its backups must not go into the folder of the original database's
        // backups.
        let identity = open::new_identity(&options);
        make_whole(&options, target, &seal, identity)?;
        let of_shared = open::read(target, &options)?.is_some_and(|store| store.is_shared_copy());
        let store = open::StoreFile::of_copy(identity, of_shared);
        open::create(target, &options, store)?;
        Ok(Self {
            restored,
            target: target.to_owned(),
            marker,
            options,
        })
    }

    /// Opens it.
    pub fn open(&self) -> Result<LsmEngine, StorageError> {
        LsmEngine::open_restored(&self.target, self.options.clone())
    }

    /// Completes the restore: from here on it is an ordinary database.
    pub fn end(self) -> Result<RestoreResult, StorageError> {
        end(&*self.options.disk, &self.target, &self.marker)?;
        Ok(self.restored)
    }
}

/// Refuses a restored log with a commit that is later than the requested time: version 0.1.0 recorded the time
/// of a backup from a clock that may have been set back.
fn refuse_later(options: &LsmOptions, target: &Path, time_ms: u64) -> Result<(), StorageError> {
    let last_ms = log::last_ms(&*options.disk, &target.join(open::LOG))?;
    if last_ms <= time_ms {
        return Ok(());
    }
    Err(StorageError::Invalid(format!(
        "the backup that is said to reach back to that time holds a commit made {} ms after it: the clock was set back before the backup was made: remove `{}`, and restore a later time or an earlier backup's version",
        last_ms - time_ms,
        target.display()
    )))
}

/// Makes the manifest of a restored database name the database and the segments of its log.
fn make_whole(
    options: &LsmOptions,
    target: &Path,
    seal: &Seal,
    database: u128,
) -> Result<(), StorageError> {
    let disk = &*options.disk;
    let tables = target.join(open::TABLES);
    let links = log::closed_links(disk, &target.join(open::LOG))?;
    let stored = Stored::read(disk, &tables, seal)?;
    let mut stored = stored.ok_or_else(|| damaged(target, "its manifest is missing"))?;
    stored.whole = Some(Whole { database, links });
    let written = stored.write(disk, &tables, open::new_identity(options), seal);
    written.map_err(|(error, _)| error)
}

/// Whether a file never changes once it exists: tables and blob files, by their numbers.
fn is_immutable(name: &str) -> bool {
    name.strip_prefix("tables/")
        .is_some_and(|name| !name.to_ascii_uppercase().starts_with("MANIFEST"))
}

/// Whether a log segment has other commits than the one of the same name in a backup.
fn has_other_history(name: &str, own: &dyn DiskFile, stored: &dyn DiskFile) -> io::Result<bool> {
    Ok(is_log(name) && log::has_other_history(own, stored)?)
}

fn is_log(name: &str) -> bool {
    name.strip_prefix("log/").is_some()
}
