//! Taking a backup.

use std::{
    collections::{HashMap, HashSet},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use isomer_storage::{StorageError, Version, io_error};
use isomer_vfs::{Disk, DiskFile, Lock, LockError, LockMode, OpenMode, sync_above};

use super::{
    catalog::{BackupRecord, Catalog, StoredFile},
    files::{
        CATALOG, CopyProgress, FILES, LOCK, NEW, copy, files_below, read_through, stored_path,
    },
};

/// The source of a backup: a folder of immutable files.
pub struct Source<'a> {
    /// The disk of the folder.
    pub disk: &'a dyn Disk,
    /// The folder.
    pub folder: &'a Path,
    /// Identity of the database.
    pub identity: u128,
    /// Its version.
    pub version: Version,
    /// Now, in milliseconds since 1970.
    pub time_ms: u64,
    /// Whether a file of that name never has another content in this database: then it is not read if a backup
    /// has it with the same length.
    pub is_immutable: &'a dyn Fn(&str) -> bool,
    /// Whether a file (the first argument) of that name has another history than the one in a backup.
    pub has_other_history: &'a HistoryCheck,
}

/// See [`Source::has_other_history`].
pub type HistoryCheck = dyn Fn(&str, &dyn DiskFile, &dyn DiskFile) -> io::Result<bool>;

/// Result of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupResult {
    /// Number of the backup.
    pub number: u64,
    /// Version of the database in it.
    pub version: Version,
    /// Files that were copied, and their bytes.
    pub copied: (u64, u64),
    /// Files that an earlier backup had already, and their bytes.
    pub shared: (u64, u64),
}

/// Adds a backup of `source` to the folder `target`, next to existing ones of the same database.
pub fn take(
    source: &Source<'_>,
    disk: &dyn Disk,
    target: &Path,
    progress: &mut CopyProgress<'_>,
) -> Result<BackupResult, StorageError> {
    let _lock = prepare(disk, target)?;
    let mut catalog = Catalog::read(disk, target)?.unwrap_or_else(|| Catalog {
        identity: source.identity,
        backups: Vec::new(),
    });
    if catalog.identity != source.identity {
        return Err(StorageError::Invalid(format!(
            "`{}` holds backups of another database: give another folder",
            target.display()
        )));
    }
    if let Some(last) = catalog.backups.last() {
        refuse_other_history(source, disk, target, last)?;
    }
    let mut names = Vec::new();
    files_below(source.disk, source.folder, "", 3, &mut names)?;
    names.sort_unstable();
    let mut taking = Taking::new(source, disk, target, &catalog);
    let backup = BackupRecord {
        number: catalog.backups.last().map_or(0, |last| last.number) + 1,
        version: source.version,
        time_ms: source.time_ms,
        files: taking.all(names, progress)?,
    };
    let (copied, shared) = (taking.copied, taking.shared);
    let folder = target.join(FILES);
    disk.sync_folder(&folder)
        .map_err(|error| io_error("writing", &folder, &error))?;
    let number = backup.number;
    catalog.backups.push(backup);
    catalog.write(disk, target)?;
    Ok(BackupResult {
        number,
        version: source.version,
        copied,
        shared,
    })
}

/// Refuses a copy of the database's files that was written to independently: commits between its backups and
/// the others' would be read from either log.
fn refuse_other_history(
    source: &Source<'_>,
    disk: &dyn Disk,
    target: &Path,
    last: &BackupRecord,
) -> Result<(), StorageError> {
    let mut has_other_history = source.version < last.version;
    for file in &last.files {
        let paths = [
            (source.disk, source.folder.join(&file.name)),
            (disk, stored_path(target, file)),
        ];
        let [Some(own), Some(stored)] = [open_found(&paths[0])?, open_found(&paths[1])?] else {
            continue; // trimmed since, or missing: restoring reports it
        };
        has_other_history |= (source.has_other_history)(&file.name, &*own, &*stored)
            .map_err(|error| io_error("reading", &paths[1].1, &error))?;
    }
    if has_other_history {
        return Err(StorageError::Invalid(format!(
            "`{}` holds backups with other commits than this database, which is a copy or was reset to an earlier state: give another folder",
            target.display()
        )));
    }
    Ok(())
}

/// Opens a file, if it exists.
fn open_found(
    (disk, path): &(&dyn Disk, PathBuf),
) -> Result<Option<Arc<dyn DiskFile>>, StorageError> {
    match disk.open(path, OpenMode::Read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        opened => opened
            .map(Some)
            .map_err(|error| io_error("reading", path, &error)),
    }
}

/// Removes all backups in `target` but the last `count`, and the files that only they had. Returns how many
/// were removed.
pub fn keep_last(disk: &dyn Disk, target: &Path, count: usize) -> Result<usize, StorageError> {
    let _lock = prepare(disk, target)?;
    let Some(mut catalog) = Catalog::read(disk, target)? else {
        return Ok(0);
    };
    let gone = catalog.backups.len().saturating_sub(count.max(1));
    catalog.backups.drain(..gone);
    if gone > 0 {
        catalog.write(disk, target)?;
    }
    remove_unused(disk, target, &catalog)?;
    Ok(gone)
}

/// Creates the folders, and locks out other backups.
fn prepare(disk: &dyn Disk, target: &Path) -> Result<Lock, StorageError> {
    let files = target.join(FILES);
    let made = (|| {
        disk.make_folder(target)?;
        if !disk.exists(&target.join(CATALOG))? {
            // The first one: the folder may be new, also if another backup into it was interrupted.
            sync_above(disk, target)?;
        }
        for name in disk.list(target)? {
            let known = [CATALOG, "BACKUP.new", LOCK, FILES];
            if !known.iter().any(|known| name == Path::new(known)) {
                return Ok(Some(name));
            }
        }
        disk.make_folder(&files)?;
        disk.sync_folder(target)?;
        Ok(None)
    })();
    match made.map_err(|error: io::Error| io_error("making", target, &error))? {
        None => {}
        Some(name) => {
            return Err(StorageError::Invalid(format!(
                "`{}` holds other files (`{}`): give a folder of backups, or an empty or new one",
                target.display(),
                name.display()
            )));
        }
    }
    let path = target.join(LOCK);
    match disk.lock(&path, LockMode::Exclusive) {
        Ok(Some(lock)) => Ok(lock),
        Err(LockError::Io(error)) => Err(io_error("locking", &path, &error)),
        Ok(None) | Err(LockError::Held(_)) => Err(StorageError::Unavailable(format!(
            "another backup into `{}` is in progress: wait until it ends",
            target.display()
        ))),
    }
}

/// Removes stored files that no backup has, including those of an interrupted one.
fn remove_unused(disk: &dyn Disk, target: &Path, catalog: &Catalog) -> Result<(), StorageError> {
    let files = catalog.backups.iter().flat_map(|backup| &backup.files);
    let used: HashSet<_> = files.map(|file| stored_path(target, file)).collect();
    let folder = target.join(FILES);
    let removed = (|| {
        for name in disk.list(&folder)? {
            let path = folder.join(name);
            if !used.contains(&path) {
                disk.remove(&path)?;
            }
        }
        Ok(())
    })();
    removed.map_err(|error: io::Error| io_error("removing files of", &folder, &error))
}

struct Taking<'a> {
    source: &'a Source<'a>,
    disk: &'a dyn Disk,
    target: &'a Path,
    /// The files of earlier backups, by name and length; the newest wins.
    had: HashMap<(String, u64), StoredFile>,
    copied: (u64, u64),
    shared: (u64, u64),
}

impl<'a> Taking<'a> {
    fn new(
        source: &'a Source<'a>,
        disk: &'a dyn Disk,
        target: &'a Path,
        catalog: &Catalog,
    ) -> Self {
        let files = catalog.backups.iter().flat_map(|backup| &backup.files);
        let had = files
            .map(|file| ((file.name.clone(), file.len), file.clone()))
            .collect();
        Self {
            source,
            disk,
            target,
            had,
            copied: (0, 0),
            shared: (0, 0),
        }
    }

    fn all(
        &mut self,
        names: Vec<String>,
        progress: &mut CopyProgress<'_>,
    ) -> Result<Vec<StoredFile>, StorageError> {
        let mut opened = Vec::new();
        let mut total = 0;
        for name in names {
            let path = self.source.folder.join(&name);
            let len = self.source.disk.open(&path, OpenMode::Read);
            let len = len.and_then(|file| file.len());
            let len = len.map_err(|error| io_error("reading", &path, &error))?;
            total += len;
            opened.push((name, len));
        }
        let mut done = 0;
        let mut files = Vec::with_capacity(opened.len());
        for (name, len) in opened {
            let before = done;
            let mut step = |bytes| {
                done += bytes;
                progress(done, total);
            };
            files.push(self.one(name, len, &mut step)?);
            done = before + len;
            progress(done, total);
        }
        Ok(files)
    }

    fn one(
        &mut self,
        name: String,
        len: u64,
        step: &mut dyn FnMut(u64),
    ) -> Result<StoredFile, StorageError> {
        let key = (name, len);
        if (self.source.is_immutable)(&key.0)
            && let Some(had) = self.had.get(&key)
            && self.is_stored(had)?
            && self.has_same_ends(&key.0, had)?
        {
            self.shared = (self.shared.0 + 1, self.shared.1 + len);
            return Ok(had.clone());
        }
        let (name, _) = key;
        let path = self.source.folder.join(&name);
        let file = self.source.disk.open(&path, OpenMode::Read);
        let file = file.map_err(|error| io_error("reading", &path, &error))?;
        let passing = self.target.join(FILES).join(NEW);
        let (sum, len) = copy(&*file, &path, self.disk, &passing, step)?;
        let stored = StoredFile { name, len, sum };
        if self.is_stored(&stored)? {
            self.shared = (self.shared.0 + 1, self.shared.1 + len);
            return Ok(stored);
        }
        let place = stored_path(self.target, &stored);
        let renamed = self.disk.rename(&passing, &place);
        renamed.map_err(|error| io_error("renaming", &passing, &error))?;
        self.copied = (self.copied.0 + 1, self.copied.1 + len);
        Ok(stored)
    }

    /// Whether a file begins and ends like a stored one: these parts distinguish files of one name.
    fn has_same_ends(&self, name: &str, stored: &StoredFile) -> Result<bool, StorageError> {
        let ends = |disk: &dyn Disk, path: &Path| -> Result<Vec<u8>, StorageError> {
            let read = (|| {
                let file = disk.open(path, OpenMode::Read)?;
                let part = stored.len.min(4096);
                let mut bytes = vec![0; 2 * part as usize];
                let (first, last) = bytes.split_at_mut(part as usize);
                file.read_exact_at(first, 0)?;
                file.read_exact_at(last, stored.len - part)?;
                Ok(bytes)
            })();
            read.map_err(|error: io::Error| io_error("reading", path, &error))
        };
        let own = ends(self.source.disk, &self.source.folder.join(name))?;
        Ok(own == ends(self.disk, &stored_path(self.target, stored))?)
    }

    /// Whether the folder has that content. It is read only if no finished backup has it.
    fn is_stored(&self, file: &StoredFile) -> Result<bool, StorageError> {
        let path = stored_path(self.target, file);
        let found = match self.disk.open(&path, OpenMode::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            found => found.map_err(|error| io_error("reading", &path, &error))?,
        };
        let len = found.len();
        if len.map_err(|error| io_error("reading", &path, &error))? != file.len {
            return Ok(false);
        }
        let vouched = self.had.get(&(file.name.clone(), file.len));
        if vouched.is_some_and(|had| had.sum == file.sum) {
            return Ok(true);
        }
        // Left by an interrupted backup, which may not have made it durable.
        let (sum, _) = read_through(&*found, &path, &mut |_, _| Ok(()), &mut |_| {})?;
        Ok(sum == file.sum && found.sync().is_ok())
    }
}
