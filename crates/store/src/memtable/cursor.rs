//! Walking over a memtable, also while it grows.

use std::sync::Arc;

use isomer_storage::{StorageError, Version};

use super::{Memtable, arena::Entry, node::Target, tree::Batch};
use crate::{Cursor, Kind};

/// So many entries are asked for ahead of the one that is read.
const AHEAD: usize = 4;

/// A cursor over a memtable.
///
/// It copies the entries' addresses leaf by leaf: what is committed after a leaf was copied may be missing, which no
/// reader of an earlier version looks for.
pub struct MemtableCursor {
    batch: Batch,
    at: usize,
    entry: Option<Entry>,
    memtable: Arc<Memtable>,
}

impl MemtableCursor {
    pub(super) fn new(memtable: Arc<Memtable>) -> Self {
        Self {
            batch: Batch::new(),
            at: 0,
            entry: None,
            memtable,
        }
    }

    fn entry(&self) -> Entry {
        self.entry
            .expect("the cursor is on an entry: callers ask `valid` first")
    }

    fn load(&mut self, at: Option<usize>) -> Result<(), StorageError> {
        self.at = at.unwrap_or(0);
        self.entry = at.and_then(|at| self.batch.get(at));
        Ok(())
    }
}

impl Cursor for MemtableCursor {
    fn seek(&mut self, key: &[u8], version: Version) -> Result<(), StorageError> {
        let at = self
            .memtable
            .tree
            .seek(Target { key, version }, &mut self.batch);
        self.load(Some(at))
    }

    fn seek_before(&mut self, key: Option<&[u8]>) -> Result<(), StorageError> {
        let target = key.map(|key| Target {
            key,
            version: Version::MAX,
        });
        let at = self.memtable.tree.seek_before(target, &mut self.batch);
        self.load(at)
    }

    fn next(&mut self) -> Result<(), StorageError> {
        let mut at = self.at + 1;
        if at >= self.batch.len() && self.memtable.tree.load_next(&mut self.batch) {
            at = 0;
        }
        if let Some(entry) = self.batch.get(at + AHEAD) {
            entry.prefetch();
        }
        self.load(Some(at))
    }

    fn prev(&mut self) -> Result<(), StorageError> {
        if let Some(at) = self.at.checked_sub(1) {
            return self.load(Some(at));
        }
        let entry = self.entry();
        let target = Target {
            key: entry.key(),
            version: entry.version(),
        };
        let at = self
            .memtable
            .tree
            .seek_before(Some(target), &mut self.batch);
        self.load(at)
    }

    fn valid(&self) -> bool {
        self.entry.is_some()
    }

    fn key(&self) -> &[u8] {
        self.entry().key()
    }

    fn version(&self) -> Version {
        self.entry().version()
    }

    fn kind(&self) -> Kind {
        match self.entry().value() {
            Some(_) => Kind::Put,
            None => Kind::Delete,
        }
    }

    fn pair(&mut self) -> Result<(&[u8], &[u8]), StorageError> {
        let entry = self.entry();
        Ok((entry.key(), entry.value().unwrap_or_default()))
    }

    fn next_key(&mut self) -> Result<(), StorageError> {
        let key = self.entry().key();
        loop {
            self.next()?;
            if self.entry.is_none_or(|entry| entry.key() != key) {
                return Ok(());
            }
        }
    }
}
