//! Backups: copies of a database, each whole in itself, that share what they have in common.
//!
//! A backup is taken from a *checkpoint*, a folder of files that nobody writes any more (for the store hard links, made at once
//! while writes go on). Files go into the target by what is in them, so that a second backup copies only what the first one
//! does not have:
//!
//! ```text
//! TARGET/BACKUP           the catalog: which backups there are, and which files each consists of (see `catalog`)
//! TARGET/LOCK             locked while a backup is made
//! TARGET/files/SUM-LEN    a file's bytes, named by their XXH3 of 128 bits and their number, both hexadecimal
//! ```
//!
//! What is kept true: the catalog names only files that are whole and durable; it is replaced at once, after them. Whatever
//! interrupts a backup leaves the earlier ones as they were. Restoring compares every byte with its sum.
//!
//! A file of an encrypted database is copied as it is, its file of keys too: a backup is as hidden as the database, and needs
//! the key that was its master key when the backup was made.

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

#[doc(hidden)]
pub use catalog::check_catalog;
pub use catalog::{Backup, StoredFile};
pub use engine::{Restored, Restoring};
pub use restore::{Chosen, Point, RESTORING, begin, choose, end, list, refuse_unfinished, restore};
pub use take::{Source, Taken, keep_last, take};

/// Told how many bytes of how many are done.
pub type Progress<'a> = dyn FnMut(u64, u64) + 'a;

const CATALOG: &str = "BACKUP";
const LOCK: &str = "LOCK";
const FILES: &str = "files";
const NEW: &str = "new";
/// Bytes copied at a time.
const STEP: usize = if cfg!(test) { 1000 } else { 1 << 20 };

/// The backup at `path` is not what was written.
fn damaged(path: &Path, what: &str) -> StorageError {
    StorageError::Corrupt(format!(
        "the backup `{}` is damaged: {what}: use another copy of it",
        path.display()
    ))
}

/// Where a file with that content is in a backup.
fn stored_path(target: &Path, file: &StoredFile) -> PathBuf {
    target
        .join(FILES)
        .join(format!("{:032x}-{:x}", file.sum, file.len))
}

/// Whether a name from a catalog stays within the folder that it is put in.
fn is_inside(name: &str) -> bool {
    let path = Path::new(name);
    !name.is_empty()
        && !name.contains('\\')
        && path
            .components()
            .all(|component| matches!(component, Component::Normal(_)))
}

/// Copies a file, syncs it, and answers its sum and length.
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

/// Told a part of a file and where it is.
type Part<'a> = dyn FnMut(&[u8], u64) -> Result<(), StorageError> + 'a;

/// Reads a file from its start to its end, hands its parts to `part`, and answers its sum and length.
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

/// All files below a folder, by their names in it, folders with `/`.
fn files_below(
    disk: &dyn Disk,
    folder: &Path,
    within: &str,
    depth: usize,
    out: &mut Vec<String>,
) -> Result<(), StorageError> {
    let told = |error: io::Error| io_error("reading", folder, &error);
    for name in disk.list(folder).map_err(told)? {
        let Some(name) = name.to_str().filter(|name| is_inside(name)) else {
            return Err(StorageError::Unavailable(format!(
                "`{}` holds a file whose name is no text: take it away",
                folder.display()
            )));
        };
        let path = folder.join(name);
        let name = format!("{within}{name}");
        match disk.kind(&path).map_err(told)? {
            isomer_vfs::Kind::File => out.push(name),
            isomer_vfs::Kind::Folder if depth > 0 => {
                files_below(disk, &path, &format!("{name}/"), depth - 1, out)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Removes a folder and what is in it, as far as a database has folders in folders.
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
fn told(backups: &[Backup]) -> String {
    let versions: Vec<String> = backups
        .iter()
        .map(|backup| backup.version.to_string())
        .collect();
    versions.join(", ")
}

/// No version is as old as that.
fn too_old(wanted: Version, backups: &[Backup]) -> StorageError {
    StorageError::Invalid(format!(
        "no backup reaches back to version {wanted}: there are versions {}",
        told(backups)
    ))
}
