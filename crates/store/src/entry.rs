//! Entries: what memtables and tables hold, and how one walks over them.

use std::ops::ControlFlow;

use isomer_storage::{StorageError, Version, Visitor};

use crate::blob::BlobRef;

/// What a commit did with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Put a value there.
    Put,
    /// Took the key out.
    Delete,
}

/// A deleted range: to a reader at `version` or after it, whatever keys from `start` (inclusive) to `end` (exclusive;
/// `None`: the end of the key space) had at an *older* version is gone. An entry of the same version stays: a commit
/// deletes its ranges first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Erasure {
    /// First key of the range.
    pub start: Box<[u8]>,
    /// First key after the range.
    pub end: Option<Box<[u8]>>,
    /// The commit that deleted it.
    pub version: Version,
}

/// Walks over entries in their order: keys ascend, and within a key versions descend.
///
/// A new cursor is nowhere; so is one that ran over either end. Erasures are not applied: whoever merges does that.
pub trait Cursor: Send {
    /// Goes to the first entry at or behind (`key`, `version`): the newest entry of `key` that is no younger than
    /// `version`, else the first entry of a greater key.
    fn seek(&mut self, key: &[u8], version: Version) -> Result<(), StorageError>;
    /// Goes to the last entry (the oldest version) of the greatest key below `key`; of all keys for `None`.
    fn seek_before(&mut self, key: Option<&[u8]>) -> Result<(), StorageError>;
    /// One entry on. Only where [`Cursor::valid`].
    fn next(&mut self) -> Result<(), StorageError>;
    /// One entry back. Only where [`Cursor::valid`].
    fn prev(&mut self) -> Result<(), StorageError>;
    /// Whether there is an entry here.
    fn valid(&self) -> bool;
    /// Its key.
    fn key(&self) -> &[u8];
    /// Its version.
    fn version(&self) -> Version;
    /// What it is.
    fn kind(&self) -> Kind;
    /// Its value, empty for a deletion. May read the disk where values are kept apart.
    fn value(&mut self) -> Result<&[u8], StorageError> {
        Ok(self.pair()?.1)
    }
    /// Its key and its value, as [`Cursor::key`] and [`Cursor::value`].
    fn pair(&mut self) -> Result<(&[u8], &[u8]), StorageError>;

    /// To the newest entry of the next key. Only where [`Cursor::valid`].
    fn next_key(&mut self) -> Result<(), StorageError> {
        let key = self.key().to_vec();
        loop {
            self.next()?;
            if !self.valid() || self.key() != key {
                return Ok(());
            }
        }
    }
    /// Calls `visit` with the pairs that a reader at `at` sees, from here on up to `end` (`None`: the end of the key space),
    /// as long as no entry is younger than `at`. Where `visit` breaks it stands on that pair, else behind what it passed.
    fn run(
        &mut self,
        end: Option<&[u8]>,
        at: Version,
        visit: &mut Visitor<'_>,
    ) -> Result<ControlFlow<()>, StorageError> {
        while self.valid() && self.version() <= at && end.is_none_or(|end| self.key() < end) {
            if self.kind() == Kind::Put {
                let (key, value) = self.pair()?;
                if visit(key, value).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            self.next_key()?;
        }
        Ok(ControlFlow::Continue(()))
    }
    /// Passes entries that are older than `erased`, up to `until` at most (`None`: the end of the key space): several at
    /// once where it knows that all of them are. `false`, and where it was, where it does not.
    fn pass(&mut self, until: Option<&[u8]>, erased: Version) -> Result<bool, StorageError> {
        let _ = (until, erased);
        Ok(false)
    }
    /// As [`Cursor::pass`], back to before `from` at most.
    fn pass_back(&mut self, from: &[u8], erased: Version) -> Result<bool, StorageError> {
        let _ = (from, erased);
        Ok(false)
    }
    /// Where the value is kept, if it is kept apart.
    fn apart(&self) -> Result<Option<BlobRef>, StorageError> {
        Ok(None)
    }
}
