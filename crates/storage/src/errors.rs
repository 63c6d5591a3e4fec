//! Error messages shared by the engines that keep files.

use std::{io, path::Path};

use crate::StorageError;

/// The error for damaged files of the database at `path`.
pub fn damaged(path: &Path, what: &str) -> StorageError {
    StorageError::Corrupt(format!(
        "the database `{}` is damaged: {what}: restore it from a backup",
        path.display()
    ))
}

/// An I/O error, with the operation that failed.
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

/// The error for an ingested key that already exists.
pub fn key_exists(key: &[u8]) -> StorageError {
    StorageError::Invalid(format!(
        "the key {} is in the database already: ingest only new keys, or use transactions",
        hex(key)
    ))
}

/// The first bytes of a key in hexadecimal, for messages.
pub fn hex(key: &[u8]) -> String {
    let shown: String = key
        .iter()
        .take(24)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    if key.len() > 24 {
        format!("{shown}… ({} bytes)", key.len())
    } else {
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_what_to_do() {
        let path = Path::new("/a/b");
        for (kind, advice) in [
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
            assert!(text.contains(advice) && text.contains("/a/b"), "{text}");
        }
        assert!(matches!(damaged(path, "x"), StorageError::Corrupt(_)));
        for (processes, advice) in [
            (
                vec![(7, "server".to_owned()), (9, "cli".to_owned())],
                "end these processes: 7 (server), 9 (cli)",
            ),
            (Vec::new(), "end the processes that have it open to read"),
        ] {
            let path = path.to_owned();
            let message = StorageError::NeedsAlone { path, processes }.to_string();
            assert_eq!(
                message,
                format!("the database `/a/b` is in use, and this needs it alone: {advice}")
            );
        }
        let own = std::process::id();
        for (pid, message) in [
            (
                Some(own),
                format!(
                    "the database `/a/b` is already open in this process ({own}): share the open one, or close it first"
                ),
            ),
            (
                Some(0),
                "the database `/a/b` is in use by process 0: close it there first".to_owned(),
            ),
            (
                None,
                "the database `/a/b` is in use by another process: close it there first".to_owned(),
            ),
        ] {
            let path = path.to_owned();
            assert_eq!(StorageError::InUse { path, pid }.to_string(), message);
        }
    }
}
