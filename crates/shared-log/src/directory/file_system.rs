//! Which file systems are accepted, and what their errors mean.

use std::{
    io,
    path::{Path, PathBuf},
};

use isomer_vfs::{Disk, SharedPage};

use crate::LogError;

/// Refuses systems without shared memory.
pub(super) fn check_system() -> Result<(), LogError> {
    match SharedPage::IS_SUPPORTED {
        true => Ok(()),
        false => Err(LogError::Refused(
            "processes cannot share memory through this version on Windows: use Linux or macOS"
                .to_owned(),
        )),
    }
}

/// Refuses file systems whose locks and shared memory need not work between all that use them. `folder` exists.
pub(super) fn check_file_system(disk: &dyn Disk, folder: &Path) -> Result<(), String> {
    accept(folder, disk.remote_file_system(folder))
}

/// The verdict on a folder whose file system is of that remote kind, if it is remote.
fn accept(folder: &Path, remote: io::Result<Option<&'static str>>) -> Result<(), String> {
    match remote {
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
    fn remote_file_systems_are_refused_with_their_kind() {
        let folder = Path::new("/net/people.isomer");
        for kind in ["NFS", "FUSE"] {
            let refused = accept(folder, Ok(Some(kind))).expect_err("it is remote");
            assert!(
                refused.contains(&format!("`/net/people.isomer` is on {kind}"))
                    && refused.contains("use a folder on a local disk"),
                "{refused}"
            );
        }
        let unknown = accept(folder, Err(io::ErrorKind::NotFound.into()));
        assert!(unknown.expect_err("unknown").contains("/net/people.isomer"));
        assert_eq!(accept(folder, Ok(None)), Ok(()));
    }

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
