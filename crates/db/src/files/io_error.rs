//! Errors of the database as I/O errors.

use std::io;

use crate::{Error, ErrorKind};

/// Converts an error of the database to an I/O error.
pub(super) fn as_io(error: Error) -> io::Error {
    let kind = match error.kind() {
        ErrorKind::NotFound => io::ErrorKind::NotFound,
        ErrorKind::Exists => io::ErrorKind::AlreadyExists,
        ErrorKind::Denied => io::ErrorKind::PermissionDenied,
        ErrorKind::Invalid => io::ErrorKind::InvalidInput,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}
