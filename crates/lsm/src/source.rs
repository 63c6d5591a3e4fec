//! One type for cursors over memtables and runs.

use std::ops::ControlFlow;

use isomer_storage::{StorageError, Version, Visitor};

use crate::{BlobRef, EntryCursor, EntryKind, MemtableCursor, RunCursor};

/// A cursor over a memtable or over a run of tables.
pub enum Source {
    /// Over a memtable.
    Memtable(MemtableCursor),
    /// Over a run.
    Run(RunCursor),
}

macro_rules! either {
    ($source:expr, $cursor:ident => $call:expr) => {
        match $source {
            Source::Memtable($cursor) => $call,
            Source::Run($cursor) => $call,
        }
    };
}

impl EntryCursor for Source {
    fn seek(&mut self, key: &[u8], version: Version) -> Result<(), StorageError> {
        either!(self, cursor => cursor.seek(key, version))
    }

    fn seek_before(&mut self, key: Option<&[u8]>) -> Result<(), StorageError> {
        either!(self, cursor => cursor.seek_before(key))
    }

    #[inline]
    fn next(&mut self) -> Result<(), StorageError> {
        either!(self, cursor => cursor.next())
    }

    #[inline]
    fn prev(&mut self) -> Result<(), StorageError> {
        either!(self, cursor => cursor.prev())
    }

    #[inline]
    fn valid(&self) -> bool {
        either!(self, cursor => cursor.valid())
    }

    #[inline]
    fn key(&self) -> &[u8] {
        either!(self, cursor => cursor.key())
    }

    #[inline]
    fn version(&self) -> Version {
        either!(self, cursor => cursor.version())
    }

    #[inline]
    fn kind(&self) -> EntryKind {
        either!(self, cursor => cursor.kind())
    }

    #[inline]
    fn pair(&mut self) -> Result<(&[u8], &[u8]), StorageError> {
        either!(self, cursor => cursor.pair())
    }

    #[inline]
    fn next_key(&mut self) -> Result<(), StorageError> {
        either!(self, cursor => cursor.next_key())
    }

    #[inline]
    fn run(
        &mut self,
        end: Option<&[u8]>,
        at: Version,
        visit: &mut Visitor<'_>,
    ) -> Result<ControlFlow<()>, StorageError> {
        either!(self, cursor => cursor.run(end, at, visit))
    }

    fn pass(&mut self, until: Option<&[u8]>, deleted_at: Version) -> Result<bool, StorageError> {
        either!(self, cursor => cursor.pass(until, deleted_at))
    }

    fn pass_back(&mut self, from: &[u8], deleted_at: Version) -> Result<bool, StorageError> {
        either!(self, cursor => cursor.pass_back(from, deleted_at))
    }

    fn blob_ref(&self) -> Result<Option<BlobRef>, StorageError> {
        either!(self, cursor => cursor.blob_ref())
    }
}
