//! The contract of shared objects.

use std::{fmt, ops::Range};

/// Identifies one version of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tag(pub String);

/// Outcome of creating an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    /// It was created.
    Created(Tag),
    /// There is an object of this name.
    Exists,
    /// It may have been created, or may be later; with the reason.
    Unknown(String),
}

/// Outcome of replacing an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replaced {
    /// It was replaced.
    Replaced(Tag),
    /// Its content is another one than the caller knew, or it is gone.
    Changed,
    /// It may have been replaced, or may be later; with the reason.
    Unknown(String),
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlobError {
    /// The store cannot be reached now; nothing was done.
    #[error("the shared objects cannot be reached: {0}: try again")]
    Unavailable(String),
    /// The store refuses the call, and would refuse it again; nothing was done.
    #[error("the shared objects refuse this: {0}")]
    Refused(String),
    /// Not a valid name.
    #[error(
        "invalid name of an object: `{0}`: use at most 200 lower-case letters, digits, `-`, `_`, `.` and `/`"
    )]
    Name(String),
    /// The content of an object is not what was written.
    #[error("the shared object `{name}` is damaged: {what}: restore it from a backup")]
    Damaged {
        /// Its name.
        name: String,
        /// What is wrong.
        what: String,
    },
}

/// Named objects that are read whole or in part, created once, and replaced only by a caller that has the current tag.
/// An object is durable when the call that wrote it returns. After an error of `remove` the object may be removed, or
/// may be removed later: never use its name again.
pub trait Blobs: Send + Sync + fmt::Debug {
    /// The content of an object, and its tag.
    fn get(&self, name: &str) -> Result<Option<(Vec<u8>, Tag)>, BlobError>;

    /// The bytes of an object in `range`, fewer past its end.
    fn get_range(&self, name: &str, range: Range<u64>) -> Result<Option<Vec<u8>>, BlobError>;

    /// Creates an object that does not exist. Of several concurrent callers at most one gets [`Created::Created`].
    fn create(&self, name: &str, content: &[u8]) -> Result<Created, BlobError>;

    /// Replaces an object whose content is still the one of `known`.
    fn replace(&self, name: &str, known: &Tag, content: &[u8]) -> Result<Replaced, BlobError>;

    /// The names that begin with `prefix`, in order of their bytes. A prefix is any text: one with which no name can
    /// begin has no objects. May lack objects that were created a moment ago: never decide by it what is committed.
    fn list(&self, prefix: &str) -> Result<Vec<String>, BlobError>;

    /// Removes an object, if it exists.
    fn remove(&self, name: &str) -> Result<(), BlobError>;
}

/// Longest name of an object in bytes: a file system can store it, with what an implementation adds to it.
const MAX_NAME_BYTES: usize = 200;

/// Checks a name, which every store can have: at most 200 bytes; parts, separated by `/`, of lower-case letters,
/// digits, `-`, `_` and `.`, none of them empty or with a `.` at its end. Upper-case letters are not valid because
/// there are file systems that do not tell them from lower-case ones, and others drop a `.` at the end. `a` and `a/b`
/// may both exist.
///
/// # Errors
/// [`BlobError::Name`].
pub fn check_name(name: &str) -> Result<(), BlobError> {
    let is_allowed =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
    let is_valid =
        |part: &str| !part.is_empty() && !part.ends_with('.') && part.bytes().all(is_allowed);
    match name.len() <= MAX_NAME_BYTES && name.split('/').all(is_valid) {
        true => Ok(()),
        false => Err(BlobError::Name(name.to_owned())),
    }
}
