//! Incremental backups: copies of a database, each complete, that share equal files.
//!
//! A backup is taken from a *checkpoint*, a folder of immutable files (for this engine hard links, created at
//! once while writes continue). Files are stored in the target by content, so that a second backup copies only
//! files that the first one does not have:
//!
//! ```text
//! TARGET/BACKUP           the catalog: which backups there are, and the files of each (see `catalog`)
//! TARGET/LOCK             locked while a backup is made
//! TARGET/files/SUM-LEN    a file's bytes, named by their XXH3 of 128 bits and their number, both hexadecimal
//! ```
//!
//! Invariants: the catalog only names files that are complete and durable; it is replaced atomically, after
//! them. An interrupted backup leaves the earlier ones intact. Restoring compares every byte with its sum.
//!
//! Files of an encrypted database are copied as they are, including its file of keys: a backup is as secret as
//! the database, and needs the key that was its master key when the backup was made.

mod catalog;
mod engine;
mod restore;
mod take;
#[cfg(test)]
mod tests;

use std::{
    io,
    path::{Component, Path, PathBuf},
};

use isomer_storage::{StorageError, Version, io_error};
use isomer_vfs::{Disk, DiskFile, Open};
use xxhash_rust::xxh3::Xxh3;

#[cfg(any(test, fuzzing))]
pub(crate) use catalog::check_catalog;
pub use catalog::{Backup, StoredFile};
pub use engine::{Restored, Restoring};
pub use restore::{
    Point, RESTORING, Selection, begin, end, list, refuse_unfinished, restore, select,
};
pub use take::{Source, Taken, keep_last, take};

/// Called with the number of bytes done and the total.
pub type Progress<'a> = dyn FnMut(u64, u64) + 'a;

const CATALOG: &str = "BACKUP";
const LOCK: &str = "LOCK";
const FILES: &str = "files";
const NEW: &str = "new";
/// Bytes copied at a time.
const STEP: usize = if cfg!(test) { 1000 } else { 1 << 20 };

/// The error for a damaged backup at `path`.
fn damaged(path: &Path, what: &str) -> StorageError {
    StorageError::Corrupt(format!(
        "the backup `{}` is damaged: {what}: use another copy of it",
        path.display()
    ))
}

/// Path of a file with this content in a backup.
fn stored_path(target: &Path, file: &StoredFile) -> PathBuf {
    target
        .join(FILES)
        .join(format!("{:032x}-{:x}", file.sum, file.len))
}

/// Whether a name from a catalog stays within the folder.
fn is_inside(name: &str) -> bool {
    let path = Path::new(name);
    !name.is_empty()
        && !name.contains('\\')
        && path
            .components()
            .all(|component| matches!(component, Component::Normal(_)))
}

/// Copies a file, syncs it, and returns its sum and length.
fn copy(
    from: &dyn DiskFile,
    from_path: &Path,
    disk: &dyn Disk,
    to: &Path,
    step: &mut dyn FnMut(u64),
) -> Result<(u128, u64), StorageError> {
    let written = |error: io::Error| io_error("writing", to, &error);
    let out = disk.open(to, Open::Create).map_err(written)?;
    let mut write = |bytes: &[u8], at: u64| out.write_all_at(bytes, at).map_err(written);
    let found = read_through(from, from_path, &mut write, step)?;
    out.sync().map_err(written)?;
    Ok(found)
}

/// Called with a part of a file and its offset.
type Part<'a> = dyn FnMut(&[u8], u64) -> Result<(), StorageError> + 'a;

/// Reads a file from start to end, passes its parts to `part`, and returns its sum and length.
fn read_through(
    from: &dyn DiskFile,
    path: &Path,
    part: &mut Part<'_>,
    step: &mut dyn FnMut(u64),
) -> Result<(u128, u64), StorageError> {
    let len = from
        .len()
        .map_err(|error| io_error("reading", path, &error))?;
    let mut sum = Xxh3::new();
    let mut buffer = vec![0; STEP.min(len as usize)];
    let mut at = 0;
    while at < len {
        let count = (len - at).min(STEP as u64) as usize;
        from.read_exact_at(&mut buffer[..count], at)
            .map_err(|error| io_error("reading", path, &error))?;
        part(&buffer[..count], at)?;
        sum.update(&buffer[..count]);
        at += count as u64;
        step(count as u64);
    }
    Ok((sum.digest128(), len))
}

/// All files below a folder, by their relative names, with `/` as separator.
fn files_below(
    disk: &dyn Disk,
    folder: &Path,
    within: &str,
    depth: usize,
    out: &mut Vec<String>,
) -> Result<(), StorageError> {
    let fail = |error: io::Error| io_error("reading", folder, &error);
    for name in disk.list(folder).map_err(fail)? {
        let Some(name) = name.to_str().filter(|name| is_inside(name)) else {
            return Err(StorageError::Unavailable(format!(
                "`{}` holds a file whose name is not UTF-8: remove it",
                folder.display()
            )));
        };
        let path = folder.join(name);
        let name = format!("{within}{name}");
        match disk.kind(&path).map_err(fail)? {
            isomer_vfs::Kind::File => out.push(name),
            isomer_vfs::Kind::Folder if depth > 0 => {
                files_below(disk, &path, &format!("{name}/"), depth - 1, out)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Removes a folder and its contents, as deeply as a database nests folders.
pub fn remove_folder(disk: &dyn Disk, folder: &Path) -> Result<(), StorageError> {
    fn remove(disk: &dyn Disk, folder: &Path, depth: usize) -> io::Result<()> {
        for name in disk.list(folder)? {
            let path = folder.join(name);
            match disk.kind(&path)? {
                isomer_vfs::Kind::Folder if depth > 0 => remove(disk, &path, depth - 1)?,
                isomer_vfs::Kind::Folder => {}
                _ => disk.remove(&path)?,
            }
        }
        disk.remove_folder(folder)
    }
    match remove(disk, folder, 3) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(io_error("removing", folder, &error))
        }
        _ => Ok(()),
    }
}

/// The versions and times of all backups in `target`, for messages.
fn describe(backups: &[Backup]) -> String {
    let versions: Vec<String> = backups
        .iter()
        .map(|backup| backup.version.to_string())
        .collect();
    versions.join(", ")
}

/// The error for a version that is older than all backups.
fn too_old(wanted: Version, backups: &[Backup]) -> StorageError {
    StorageError::Invalid(format!(
        "no backup reaches back to version {wanted}: there are versions {}",
        describe(backups)
    ))
}
