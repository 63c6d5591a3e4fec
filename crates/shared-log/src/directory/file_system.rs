//! Which file systems are accepted, and what their errors mean.

use std::{
    io,
    path::{Path, PathBuf},
};

use isomer_vfs::{Disk, remote_file_system};

use crate::LogError;

/// Refuses file systems whose locks and shared memory need not work between all that use it.
pub(super) fn check_file_system(folder: &Path) -> Result<(), String> {
    match remote_file_system(folder) {
        Ok(None) => Ok(()),
        Ok(Some(kind)) => Err(format!(
            "`{}` is on {kind}, where locks and shared memory need not work between processes: use a folder on a local \
             disk",
            folder.display()
        )),
        Err(error) => Err(format!("`{}`: {error}", folder.display())),
    }
}

/// The folder with the locks and the shared memory of the log in `folder`.
pub(super) fn local_folder(disk: &dyn Disk, folder: &Path) -> Result<PathBuf, LogError> {
    let local = disk.local_folder(folder);
    local.map_err(|error| io_error(folder, &error))
}

/// A failed call of the file system at `path`.
pub(super) fn io_error(path: &Path, error: &io::Error) -> LogError {
    let what = format!("`{}`: {error}", path.display());
    match error.kind() {
        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            LogError::Unavailable(what)
        }
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData => LogError::Damaged(what),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            LogError::Refused(format!(
                "{what}: open the database for reading only, or as a user with the right to write to it"
            ))
        }
        io::ErrorKind::StorageFull => LogError::Refused(format!("{what}: free some space")),
        _ => LogError::Refused(what),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_to_do() {
        let said = |kind: io::ErrorKind| {
            let error = io_error(Path::new("db/page"), &io::Error::from(kind));
            assert!(matches!(error, LogError::Refused(_)), "{error}");
            error.to_string()
        };
        assert!(said(io::ErrorKind::PermissionDenied).contains("reading only"));
        assert!(said(io::ErrorKind::ReadOnlyFilesystem).contains("reading only"));
        assert!(said(io::ErrorKind::StorageFull).contains("free some space"));
    }
}
