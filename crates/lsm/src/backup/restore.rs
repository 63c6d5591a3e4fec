//! Restoring a database from a backup.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use isomer_storage::{StorageError, Version, io_error};
use isomer_vfs::{Disk, OpenMode, sync_above};

use super::{
    catalog::{BackupRecord, Catalog, StoredFile},
    files::{CopyProgress, copy, damaged, stored_path},
};

/// A file that exists in a folder while a database is restored or copied into it: the database does not open
/// until it is removed.
pub const RESTORING: &str = "RESTORING";

/// Which state is restored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RestoreTarget {
    /// The newest backup's.
    #[default]
    Newest,
    /// That of a version.
    Version(Version),
    /// The last one at a time, in milliseconds since 1970.
    Time(u64),
}

/// The files that make up a state: those of the newest backup that is not later, and the log up to the state
/// from later ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The base backup.
    pub base: BackupRecord,
    /// Log files of later backups that are missing or shorter in the base backup.
    pub log: Vec<StoredFile>,
    /// Whether the log must be read only up to the point, not to its end.
    pub partial: bool,
}

/// The backups in a folder, oldest first.
pub fn list(disk: &dyn Disk, target: &Path) -> Result<Vec<BackupRecord>, StorageError> {
    match Catalog::read(disk, target)? {
        Some(catalog) => Ok(catalog.backups),
        None => Err(StorageError::Invalid(format!(
            "`{}` holds no backup: check the path",
            target.display()
        ))),
    }
}

/// Refuses a folder in which a restore was interrupted.
pub fn refuse_unfinished(disk: &dyn Disk, folder: &Path) -> Result<(), StorageError> {
    let path = folder.join(RESTORING);
    let found = disk.exists(&path);
    if found.map_err(|error| io_error("looking for", &path, &error))? {
        return Err(StorageError::Unavailable(format!(
            "creating the database in `{}` was interrupted: remove the folder, then restore or copy again",
            folder.display()
        )));
    }
    Ok(())
}

/// Selects the files needed for a state. `is_log` says which files are the log's.
pub fn select(
    backups: &[BackupRecord],
    point: RestoreTarget,
    is_log: &dyn Fn(&str) -> bool,
) -> Result<Selection, StorageError> {
    let newest = backups.last().ok_or_else(|| too_old(0, backups))?;
    let at = match point {
        RestoreTarget::Newest => backups.len() - 1,
        RestoreTarget::Version(version) => backups
            .iter()
            .rposition(|backup| backup.version <= version)
            .ok_or_else(|| too_old(version, backups))?,
        RestoreTarget::Time(time_ms) => backups
            .iter()
            .rposition(|backup| backup.time_ms <= time_ms)
            .ok_or_else(|| {
                StorageError::Invalid(
                    "no backup reaches back to that time: take a later one".to_owned(),
                )
            })?,
    };
    let base = backups[at].clone();
    if let RestoreTarget::Version(version) = point
        && version > newest.version
    {
        return Err(StorageError::Invalid(format!(
            "the newest backup holds version {}, not {version}: make a backup first, or take an older version",
            newest.version
        )));
    }
    let exact = match point {
        RestoreTarget::Newest => true,
        RestoreTarget::Version(version) => version == base.version,
        // The newest backup has no later commits: all of its log is older.
        RestoreTarget::Time(_) => at + 1 == backups.len(),
    };
    // The newest copy of each segment is the longest one.
    let mut log: BTreeMap<&str, &StoredFile> = BTreeMap::new();
    if !exact {
        for backup in &backups[at + 1..] {
            let of_log = backup.files.iter().filter(|file| is_log(&file.name));
            log.extend(of_log.map(|file| (&*file.name, file)));
        }
    }
    let log = log.into_values().filter(|file| !base.files.contains(file));
    Ok(Selection {
        log: log.cloned().collect(),
        base,
        partial: !exact,
    })
}

/// Copies the files of `selection` from the backups in `source` into the folder `target`, which must be empty or
/// not exist. Returns the marker file that says that the database is incomplete, for [`end`].
pub fn restore(
    source_disk: &dyn Disk,
    source: &Path,
    selection: &Selection,
    disk: &dyn Disk,
    target: &Path,
    progress: &mut CopyProgress<'_>,
) -> Result<PathBuf, StorageError> {
    let marker = begin(disk, target)?;
    let mut files: BTreeMap<&str, &StoredFile> = BTreeMap::new();
    files.extend(selection.base.files.iter().map(|file| (&*file.name, file)));
    files.extend(selection.log.iter().map(|file| (&*file.name, file)));
    let total = files.values().map(|file| file.len).sum();
    let mut done = 0;
    let mut folders: Vec<PathBuf> = vec![target.to_owned()];
    for file in files.into_values() {
        let to = target.join(&file.name);
        if let Some(folder) = to.parent()
            && !folders.iter().any(|known| known == folder)
        {
            disk.make_folder(folder)
                .map_err(|error| io_error("making", folder, &error))?;
            folders.push(folder.to_owned());
        }
        let from = stored_path(source, file);
        let opened = match source_disk.open(&from, OpenMode::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(damaged(
                    source,
                    &format!("the file of `{}` is missing", file.name),
                ));
            }
            opened => opened.map_err(|error| io_error("reading", &from, &error))?,
        };
        let mut step = |bytes| {
            done += bytes;
            progress(done, total);
        };
        if copy(&*opened, &from, disk, &to, &mut step)? != (file.sum, file.len) {
            let what = format!("`{}` is not what was copied into it", file.name);
            return Err(damaged(source, &what));
        }
    }
    // Nested folders first: a name is durable once all folders above it are.
    for folder in folders.iter().rev() {
        disk.sync_folder(folder)
            .map_err(|error| io_error("writing", folder, &error))?;
    }
    Ok(marker)
}

/// Removes the marker of [`begin`]: the folder holds a database now.
pub fn end(disk: &dyn Disk, target: &Path, marker: &Path) -> Result<(), StorageError> {
    disk.remove(marker)
        .and_then(|()| disk.sync_folder(target))
        .map_err(|error| io_error("writing", target, &error))
}

/// Marks the folder as one in which a database is being created, by restoring or by copying.
pub fn begin(disk: &dyn Disk, target: &Path) -> Result<PathBuf, StorageError> {
    let marker = target.join(RESTORING);
    let made = (|| {
        if disk.exists(target)? && !disk.list(target)?.is_empty() {
            return Ok(false);
        }
        disk.make_folder(target)?;
        disk.open(&marker, OpenMode::Create)?.sync()?;
        disk.sync_folder(target)?;
        sync_above(disk, target)?;
        Ok(true)
    })();
    match made {
        Ok(true) => Ok(marker),
        Ok(false) => Err(StorageError::Invalid(format!(
            "`{}` is not empty: give a new or an empty folder",
            target.display()
        ))),
        Err(error) => Err(io_error("making", target, &error)),
    }
}

/// The versions of all backups, for messages.
fn describe(backups: &[BackupRecord]) -> String {
    let versions: Vec<String> = backups
        .iter()
        .map(|backup| backup.version.to_string())
        .collect();
    versions.join(", ")
}

/// The error for a version that is older than all backups.
fn too_old(wanted: Version, backups: &[BackupRecord]) -> StorageError {
    StorageError::Invalid(format!(
        "no backup reaches back to version {wanted}: there are versions {}",
        describe(backups)
    ))
}
