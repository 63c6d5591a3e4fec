//! The files of a backup: their names, copying and removing them.

use std::{
    io,
    path::{Component, Path, PathBuf},
};

use isomer_storage::{StorageError, io_error};
use isomer_vfs::{Disk, DiskFile, OpenMode};
use xxhash_rust::xxh3::Xxh3;

use super::catalog::StoredFile;

/// Called with the number of bytes done and the total.
pub type CopyProgress<'a> = dyn FnMut(u64, u64) + 'a;

pub(super) const CATALOG: &str = "BACKUP";
pub(super) const LOCK: &str = "LOCK";
pub(super) const FILES: &str = "files";
pub(super) const NEW: &str = "new";
/// Bytes copied at a time.
const STEP: usize = if cfg!(test) { 1000 } else { 1 << 20 };

/// The error for a damaged backup at `path`.
pub(super) fn damaged(path: &Path, what: &str) -> StorageError {
    StorageError::Corrupt(format!(
        "the backup `{}` is damaged: {what}: use another copy of it",
        path.display()
    ))
}

/// Path of a file with this content in a backup.
pub(super) fn stored_path(target: &Path, file: &StoredFile) -> PathBuf {
    target
        .join(FILES)
        .join(format!("{:032x}-{:x}", file.sum, file.len))
}

/// Whether a name from a catalog stays within the folder.
pub(super) fn is_inside(name: &str) -> bool {
    let path = Path::new(name);
    !name.is_empty()
        && !name.contains('\\')
        && path
            .components()
            .all(|component| matches!(component, Component::Normal(_)))
}

/// Copies a file, syncs it, and returns its sum and length.
pub(super) fn copy(
    from: &dyn DiskFile,
    from_path: &Path,
    disk: &dyn Disk,
    to: &Path,
    step: &mut dyn FnMut(u64),
) -> Result<(u128, u64), StorageError> {
    let written = |error: io::Error| io_error("writing", to, &error);
    let out = disk.open(to, OpenMode::Create).map_err(written)?;
    let mut write = |bytes: &[u8], at: u64| out.write_all_at(bytes, at).map_err(written);
    let found = read_through(from, from_path, &mut write, step)?;
    out.sync().map_err(written)?;
    Ok(found)
}

/// Called with a part of a file and its offset.
type Part<'a> = dyn FnMut(&[u8], u64) -> Result<(), StorageError> + 'a;

/// Reads a file from start to end, passes its parts to `part`, and returns its sum and length.
pub(super) fn read_through(
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
pub(super) fn files_below(
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
            isomer_vfs::FileType::File => out.push(name),
            isomer_vfs::FileType::Folder if depth > 0 => {
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
                isomer_vfs::FileType::Folder if depth > 0 => remove(disk, &path, depth - 1)?,
                isomer_vfs::FileType::Folder => {}
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
