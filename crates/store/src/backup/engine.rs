//! Backups of an open store, and stores made out of them.

use std::{
    io,
    path::{Path, PathBuf},
};

use isomer_storage::{StorageError, Version};
use isomer_vfs::{
    Disk, DiskFile,
    keys::{self, KEYS_FILE, KeyError, MasterKey},
};

use super::{Point, Progress, Source, Taken, choose, end, list, remove_folder, restore, take};
use crate::{
    StoreEngine, StoreOptions,
    log::{self, Cut, cut},
    open,
};

/// Where the files of a backup wait until they are copied, in the database's folder.
const CHECKPOINT: &str = "backup.tmp";

/// What was restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Number of the backup that it began with.
    pub backup: u64,
    /// The last version.
    pub version: Version,
    /// When it was committed, or the backup made, in milliseconds since 1970.
    pub time_ms: u64,
}

impl StoreEngine {
    /// Puts a backup of the last committed version into the folder `target` of `disk`, beside earlier ones of the same
    /// database; only what they do not have is copied. Reads and writes go on.
    ///
    /// Errors: [`StorageError::Invalid`] where the folder holds something else; [`StorageError::Unavailable`] where it
    /// cannot be written, is full, or another backup is on its way. Nothing but space is lost then.
    pub fn backup(
        &self,
        disk: &dyn Disk,
        target: &Path,
        progress: &mut Progress<'_>,
    ) -> Result<Taken, StorageError> {
        let (own, options) = (self.directory(), self.options());
        if options.read_only {
            return Err(StorageError::Unavailable(
                "a backup needs the database open for writing: what it takes is noted there"
                    .to_owned(),
            ));
        }
        // They share a folder for what waits to be copied.
        let _one_at_a_time = self.begin_backup()?;
        let folder = own.join(CHECKPOINT);
        remove_folder(&*options.disk, &folder)?;
        let identity = open::identity(own, options)?;
        let taken = self.checkpoint_as(&folder, identity).and_then(|version| {
            let source = Source {
                disk: &*options.disk,
                folder: &folder,
                identity,
                version,
                time_ms: (options.clock)(),
                is_immutable: &is_immutable,
                departs: &departs,
            };
            take(&source, disk, target, progress)
        });
        let removed = remove_folder(&*options.disk, &folder);
        let taken = taken?;
        removed?;
        Ok(taken)
    }

    /// Makes a database in the folder `target`, which must be empty or not there, out of the backups in `source`: the
    /// newest one, or the state at a version or a time between the oldest and the newest of them. `options` tell the disk of
    /// the target. An encrypted database needs its `key`; for another one it is not looked at.
    ///
    /// Errors: [`StorageError::Invalid`] where no backup reaches there or the target is not empty;
    /// [`StorageError::Corrupt`] where a backup is damaged. What was begun is then no database.
    pub fn restore(
        disk: &dyn Disk,
        source: &Path,
        target: &Path,
        point: Point,
        key: Option<&MasterKey>,
        options: &StoreOptions,
        progress: &mut Progress<'_>,
    ) -> Result<Restored, StorageError> {
        Restoring::begin(disk, source, target, point, key, options, progress)?.end()
    }

    /// Removes what a backup left behind whose process ended.
    pub(crate) fn remove_checkpoint(directory: &Path, options: &StoreOptions) {
        // What cannot be removed only takes space, and the next backup says so.
        let _ = remove_folder(&*options.disk, &directory.join(CHECKPOINT));
    }
}

/// A database that was restored, and does not open yet but for whoever restores it: something may be left to be done before
/// it does. Where [`Restoring::end`] is not reached, whatever the reason, it never opens.
#[derive(Debug)]
pub struct Restoring {
    restored: Restored,
    target: PathBuf,
    marker: PathBuf,
    options: StoreOptions,
}

impl Restoring {
    /// As [`StoreEngine::restore`], but for its end.
    pub fn begin(
        disk: &dyn Disk,
        source: &Path,
        target: &Path,
        point: Point,
        key: Option<&MasterKey>,
        options: &StoreOptions,
        progress: &mut Progress<'_>,
    ) -> Result<Self, StorageError> {
        let chosen = choose(&list(disk, source)?, point, &is_log)?;
        let base = &chosen.base;
        let encrypted = base.files.iter().any(|file| file.name == KEYS_FILE);
        if encrypted && key.is_none() {
            return Err(open::key_error(KeyError::Missing(source.to_owned())));
        }
        let mut options = options.clone();
        options.key = key.filter(|_| encrypted).cloned();
        let mut restored = Restored {
            backup: base.number,
            version: base.version,
            time_ms: base.time_ms,
        };
        let marker = restore(disk, source, &chosen, &*options.disk, target, progress)?;
        // It goes on by itself from here: its backups are not those of the one that it comes from.
        open::create(target, &options, open::new_identity(&options))?;
        let seal = keys::open(&*options.disk, target, options.key.as_ref(), false)
            .map_err(open::key_error)?;
        let at = match point {
            Point::Version(version) => Some(Cut {
                version,
                time_ms: u64::MAX,
            }),
            Point::Time(time_ms) => Some(Cut {
                version: Version::MAX,
                time_ms,
            }),
            Point::Newest => None,
        };
        if let Some(at) = at.filter(|_| chosen.partial) {
            let log = target.join(open::LOG);
            let (version, time_ms) = cut(&*options.disk, &log, &seal, base.version, at)?;
            if version > restored.version {
                (restored.version, restored.time_ms) = (version, time_ms);
            }
        }
        if let Point::Version(version) = point
            && restored.version != version
        {
            return Err(StorageError::Invalid(format!(
                "the backups hold version {} and no other up to {version}: its log was given up before it was backed up; remove `{}` and restore version {0}",
                restored.version,
                target.display()
            )));
        }
        Ok(Self {
            restored,
            target: target.to_owned(),
            marker,
            options,
        })
    }

    /// Opens it.
    pub fn open(&self) -> Result<StoreEngine, StorageError> {
        StoreEngine::open_restored(&self.target, self.options.clone())
    }

    /// From here on it is a database as any other.
    pub fn end(self) -> Result<Restored, StorageError> {
        end(&*self.options.disk, &self.target, &self.marker)?;
        Ok(self.restored)
    }
}

/// Whether a file never changes once it is there: tables and values apart, by their numbers.
fn is_immutable(name: &str) -> bool {
    name.strip_prefix("tables/")
        .is_some_and(|name| !name.to_ascii_uppercase().starts_with("MANIFEST"))
}

/// Whether a segment of the log tells of other commits than the one of its name in a backup.
fn departs(name: &str, own: &dyn DiskFile, stored: &dyn DiskFile) -> io::Result<bool> {
    Ok(is_log(name) && log::departs(own, stored)?)
}

fn is_log(name: &str) -> bool {
    name.strip_prefix("log/").is_some()
}
