//! A cursor over a memtable, also while it grows.
#![allow(unsafe_code)]

use std::{ptr, sync::Arc};

use isomer_storage::{StorageError, Version};

use super::{
    Memtable,
    arena::EntryRef,
    node::Target,
    tree::{Batch, Tree},
};
use crate::{EntryCursor, EntryKind};

/// Number of entries that are prefetched ahead of the one that is read.
const AHEAD: usize = 4;

const UNPOSITIONED: &str = "the cursor is on an entry: callers ask `valid` first";

/// A cursor over a memtable.
///
/// It copies the entries' addresses leaf by leaf: an entry committed after a leaf was copied may be missing,
/// but readers of an earlier version do not need it.
pub struct MemtableCursor {
    /// A copy of a leaf of `memtable`. The lifetime is that of `memtable`, which this type cannot name.
    batch: Batch<'static>,
    at: usize,
    /// As `batch`.
    entry: Option<EntryRef<'static>>,
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

    /// The tree of the memtable.
    ///
    /// # Safety
    /// The result, and whatever is reached through it, is not used after the cursor, nor after its `memtable` was
    /// replaced.
    unsafe fn tree(&self) -> &'static Tree {
        // SAFETY: the tree is behind an `Arc` that the cursor holds, and nothing takes a mutable reference to it.
        unsafe { &*ptr::from_ref(&self.memtable.tree) }
    }

    fn entry(&self) -> EntryRef<'_> {
        self.entry.expect(UNPOSITIONED)
    }

    fn load(&mut self, at: Option<usize>) -> Result<(), StorageError> {
        self.at = at.unwrap_or(0);
        self.entry = at.and_then(|at| self.batch.get(at));
        Ok(())
    }
}

impl EntryCursor for MemtableCursor {
    fn seek(&mut self, key: &[u8], version: Version) -> Result<(), StorageError> {
        // SAFETY: what is found goes into `batch` and `entry`, which are used while the cursor lives.
        let tree = unsafe { self.tree() };
        let at = tree.seek(Target { key, version }, &mut self.batch);
        self.load(Some(at))
    }

    fn seek_before(&mut self, key: Option<&[u8]>) -> Result<(), StorageError> {
        let target = key.map(|key| Target {
            key,
            version: Version::MAX,
        });
        // SAFETY: as in `seek`.
        let tree = unsafe { self.tree() };
        let at = tree.seek_before(target, &mut self.batch);
        self.load(at)
    }

    fn next(&mut self) -> Result<(), StorageError> {
        let mut at = self.at + 1;
        if at >= self.batch.len() && self.batch.load_next() {
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
        let entry = self.entry.expect(UNPOSITIONED);
        let target = Target {
            key: entry.key(),
            version: entry.version(),
        };
        // SAFETY: as in `seek`.
        let tree = unsafe { self.tree() };
        let at = tree.seek_before(Some(target), &mut self.batch);
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

    fn kind(&self) -> EntryKind {
        match self.entry().value() {
            Some(_) => EntryKind::Put,
            None => EntryKind::Delete,
        }
    }

    fn pair(&mut self) -> Result<(&[u8], &[u8]), StorageError> {
        let entry = self.entry();
        Ok((entry.key(), entry.value().unwrap_or_default()))
    }

    fn next_key(&mut self) -> Result<(), StorageError> {
        let key = self.entry.expect(UNPOSITIONED).key();
        loop {
            self.next()?;
            if self.entry.is_none_or(|entry| entry.key() != key) {
                return Ok(());
            }
        }
    }
}
