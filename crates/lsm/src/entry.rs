//! Entries: the contents of memtables and tables, and cursors over them.

use std::ops::ControlFlow;

use isomer_storage::{StorageError, Version, Visitor};

use crate::blob::BlobRef;

/// What a commit did with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// It put a value.
    Put,
    /// It deleted the key.
    Delete,
}

/// A range tombstone: to a reader at `version` or later, all entries of keys from `start` (inclusive) to `end`
/// (exclusive; `None`: the end of the key space) with an *older* version are deleted. An entry of the same
/// version stays: a commit deletes its ranges first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTombstone {
    /// First key of the range.
    pub start: Box<[u8]>,
    /// First key after the range.
    pub end: Option<Box<[u8]>>,
    /// The commit that deleted it.
    pub version: Version,
}

/// Iterates over entries in order: keys ascend, and within a key versions descend.
///
/// A new cursor has no position; neither has one that moved past either end. Cursors do not apply range
/// tombstones: that is done when merging.
pub trait EntryCursor: Send {
    /// Moves to the first entry at or after (`key`, `version`): the newest entry of `key` at or before
    /// `version`, otherwise the first entry of a greater key.
    fn seek(&mut self, key: &[u8], version: Version) -> Result<(), StorageError>;
    /// Moves to the last entry (the oldest version) of the greatest key below `key`; of all keys for `None`.
    fn seek_before(&mut self, key: Option<&[u8]>) -> Result<(), StorageError>;
    /// Moves to the next entry. Only if [`EntryCursor::valid`].
    fn next(&mut self) -> Result<(), StorageError>;
    /// Moves to the previous entry. Only if [`EntryCursor::valid`].
    fn prev(&mut self) -> Result<(), StorageError>;
    /// Whether it is on an entry.
    fn valid(&self) -> bool;
    /// Its key.
    fn key(&self) -> &[u8];
    /// Its version.
    fn version(&self) -> Version;
    /// What it is.
    fn kind(&self) -> EntryKind;
    /// Its value, empty for a deletion. May read from disk if the value is in a blob file.
    fn value(&mut self) -> Result<&[u8], StorageError> {
        Ok(self.pair()?.1)
    }
    /// Its key and its value, as [`EntryCursor::key`] and [`EntryCursor::value`].
    fn pair(&mut self) -> Result<(&[u8], &[u8]), StorageError>;

    /// Moves to the newest entry of the next key. Only if [`EntryCursor::valid`].
    fn next_key(&mut self) -> Result<(), StorageError> {
        let key = self.key().to_vec();
        loop {
            self.next()?;
            if !self.valid() || self.key() != key {
                return Ok(());
            }
        }
    }
    /// Calls `visit` with the pairs that a reader at `at` sees, from here on up to `end` (`None`: the end of
    /// the key space), as long as no entry is newer than `at`. If `visit` breaks the cursor stays on that pair,
    /// otherwise it is after the visited pairs.
    fn run(
        &mut self,
        end: Option<&[u8]>,
        at: Version,
        visit: &mut Visitor<'_>,
    ) -> Result<ControlFlow<()>, StorageError> {
        while self.valid() && self.version() <= at && end.is_none_or(|end| self.key() < end) {
            if self.kind() == EntryKind::Put {
                let (key, value) = self.pair()?;
                if visit(key, value).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            self.next_key()?;
        }
        Ok(ControlFlow::Continue(()))
    }
    /// Skips entries older than `deleted_at`, up to `until` at most (`None`: the end of the key space), several at
    /// once if it knows that all of them are. Returns `false` without moving if it does not know.
    fn pass(&mut self, until: Option<&[u8]>, deleted_at: Version) -> Result<bool, StorageError> {
        let _ = (until, deleted_at);
        Ok(false)
    }
    /// Like [`EntryCursor::pass`], backwards to before `from` at most.
    fn pass_back(&mut self, from: &[u8], deleted_at: Version) -> Result<bool, StorageError> {
        let _ = (from, deleted_at);
        Ok(false)
    }
    /// Location of the value, if it is in a blob file.
    fn blob_ref(&self) -> Result<Option<BlobRef>, StorageError> {
        Ok(None)
    }
}
