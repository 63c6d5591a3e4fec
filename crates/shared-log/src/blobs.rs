//! The contract of shared objects, and an implementation in memory.

use std::{collections::BTreeMap, fmt, ops::Range, sync::Arc};

use parking_lot::Mutex;

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
    /// Not a valid name.
    #[error("invalid name of an object: `{0}`: use letters, digits, `-`, `_`, `.` and `/`")]
    Name(String),
}

/// Named objects that are read whole or in part, created once, and replaced only by a caller that has the current tag.
/// After an error of `remove` the object may be removed, or may be removed later: never use its name again.
pub trait Blobs: Send + Sync + fmt::Debug {
    /// The content of an object, and its tag.
    fn get(&self, name: &str) -> Result<Option<(Vec<u8>, Tag)>, BlobError>;

    /// The bytes of an object in `range`, fewer past its end.
    fn get_range(&self, name: &str, range: Range<u64>) -> Result<Option<Vec<u8>>, BlobError>;

    /// Creates an object that does not exist. Of several concurrent callers at most one gets [`Created::Created`].
    fn create(&self, name: &str, content: &[u8]) -> Result<Created, BlobError>;

    /// Replaces an object whose content is still the one of `known`.
    fn replace(&self, name: &str, known: &Tag, content: &[u8]) -> Result<Replaced, BlobError>;

    /// The names that begin with `prefix`, in order. May lack objects that were created a moment ago: never decide by
    /// it what is committed.
    fn list(&self, prefix: &str) -> Result<Vec<String>, BlobError>;

    /// Removes an object, if it exists.
    fn remove(&self, name: &str) -> Result<(), BlobError>;
}

/// Checks a name: path components of letters, digits, `-`, `_` and `.`, none of them empty, `.` or `..`.
///
/// # Errors
/// [`BlobError::Name`].
pub fn check_name(name: &str) -> Result<(), BlobError> {
    let is_valid = |part: &str| {
        !matches!(part, "" | "." | "..")
            && part
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    match name.len() <= 512 && name.split('/').all(is_valid) {
        true => Ok(()),
        false => Err(BlobError::Name(name.to_owned())),
    }
}

/// Objects in memory; clones share them.
#[derive(Clone, Debug, Default)]
pub struct MemoryBlobs(Arc<Mutex<Objects>>);

#[derive(Debug, Default)]
struct Objects {
    by_name: BTreeMap<String, (u64, Vec<u8>)>,
    writes: u64,
}

impl Objects {
    fn put(&mut self, name: &str, content: &[u8]) -> Tag {
        self.writes += 1;
        self.by_name
            .insert(name.to_owned(), (self.writes, content.to_vec()));
        Tag(self.writes.to_string())
    }
}

impl Blobs for MemoryBlobs {
    fn get(&self, name: &str) -> Result<Option<(Vec<u8>, Tag)>, BlobError> {
        check_name(name)?;
        let objects = self.0.lock();
        let found = objects.by_name.get(name);
        Ok(found.map(|(write, content)| (content.clone(), Tag(write.to_string()))))
    }

    fn get_range(&self, name: &str, range: Range<u64>) -> Result<Option<Vec<u8>>, BlobError> {
        check_name(name)?;
        let objects = self.0.lock();
        Ok(objects.by_name.get(name).map(|(_, content)| {
            let at = |offset: u64| {
                usize::try_from(offset).map_or(content.len(), |at| at.min(content.len()))
            };
            let (start, end) = (at(range.start), at(range.end));
            content[start..end.max(start)].to_vec()
        }))
    }

    fn create(&self, name: &str, content: &[u8]) -> Result<Created, BlobError> {
        check_name(name)?;
        let mut objects = self.0.lock();
        if objects.by_name.contains_key(name) {
            return Ok(Created::Exists);
        }
        Ok(Created::Created(objects.put(name, content)))
    }

    fn replace(&self, name: &str, known: &Tag, content: &[u8]) -> Result<Replaced, BlobError> {
        check_name(name)?;
        let mut objects = self.0.lock();
        match objects.by_name.get(name) {
            Some((write, _)) if write.to_string() == known.0 => {
                Ok(Replaced::Replaced(objects.put(name, content)))
            }
            _ => Ok(Replaced::Changed),
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, BlobError> {
        let objects = self.0.lock();
        let names = objects.by_name.range(prefix.to_owned()..);
        Ok(names
            .map(|(name, _)| name)
            .take_while(|name| name.starts_with(prefix))
            .cloned()
            .collect())
    }

    fn remove(&self, name: &str) -> Result<(), BlobError> {
        check_name(name)?;
        self.0.lock().by_name.remove(name);
        Ok(())
    }
}
