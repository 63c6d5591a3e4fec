//! What engines that keep files say of them, in the contract's words.

use std::{io, path::Path};

use crate::StorageError;

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
            format!(
                "`{path}` is on a read-only file system: choose another place, or open the database read-only"
            )
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            format!("the disk of `{path}` is full: free some space and try again")
        }
        _ => format!("{doing} `{path}`: {error}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_do_is_said() {
        let path = Path::new("/a/b");
        for (kind, told) in [
            (io::ErrorKind::PermissionDenied, "change its owner or mode"),
            (
                io::ErrorKind::ReadOnlyFilesystem,
                "open the database read-only",
            ),
            (io::ErrorKind::StorageFull, "free some space"),
            (io::ErrorKind::TimedOut, "writing `/a/b`: timed out"),
        ] {
            let StorageError::Unavailable(text) = io_error("writing", path, &kind.into()) else {
                panic!("{kind}");
            };
            assert!(text.contains(told) && text.contains("/a/b"), "{text}");
        }
        assert!(matches!(damaged(path, "x"), StorageError::Corrupt(_)));
    }
}
