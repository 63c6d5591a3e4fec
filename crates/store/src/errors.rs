//! Errors in the contract's words.

use std::{io, path::Path};

use isomer_storage::StorageError;

/// The database at `path` is not what was written.
pub fn damaged(path: &Path, what: &str) -> StorageError {
    StorageError::Corrupt(format!(
        "the database `{}` is damaged: {what}: restore it from a backup",
        path.display()
    ))
}

/// An input or output error, with what was being done.
pub fn io_error(doing: &str, path: &Path, error: &io::Error) -> StorageError {
    let path = path.display();
    StorageError::Unavailable(match error.kind() {
        io::ErrorKind::PermissionDenied => {
            format!("no permission for {doing} `{path}`: change its owner or mode")
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            format!("`{path}` is on a read-only file system: open the database read-only")
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            format!("the disk of `{path}` is full: free some space and try again")
        }
        _ => format!("{doing} `{path}`: {error}"),
    })
}
