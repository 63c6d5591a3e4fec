//! Blocks of numbers that sequences have reserved.

use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

/// The first block; each further one is twice as large, up to the largest.
pub(crate) const FIRST_BLOCK: u64 = 32;

pub(crate) const LARGEST_BLOCK: u64 = 1 << 16;

/// How often a reservation is retried after a conflict.
pub(crate) const ATTEMPTS: usize = 100;

/// Reserved blocks, by bucket and sequence.
#[derive(Debug, Default)]
pub(crate) struct Sequences {
    pub(crate) blocks: Mutex<FxHashMap<Named, Block>>,
    /// Buckets that other processes dropped: their blocks are forgotten before the next number is taken. (The blocks
    /// are locked while numbers are reserved, in a commit.)
    dropped: Mutex<Vec<Arc<str>>>,
}

/// Bucket and sequence.
pub(crate) type Named = (Box<str>, Box<str>);

#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) next: u64,
    pub(crate) end: u64,
    pub(crate) size: u64,
}

impl Sequences {
    /// Another process dropped a bucket.
    pub(crate) fn note_dropped(&self, bucket: Option<Arc<str>>) {
        let mut dropped = self.dropped.lock();
        let is_new = |bucket: &Arc<str>| !dropped.contains(bucket);
        if let Some(bucket) = bucket.filter(is_new) {
            dropped.push(bucket);
        }
    }

    /// Forgets the blocks of buckets that other processes dropped.
    pub(crate) fn forget_noted(&self, blocks: &mut FxHashMap<Named, Block>) {
        let dropped = std::mem::take(&mut *self.dropped.lock());
        if !dropped.is_empty() {
            blocks.retain(|(bucket, _), _| !dropped.iter().any(|dropped| **dropped == **bucket));
        }
    }

    /// Forgets the blocks of buckets that were dropped.
    pub(crate) fn forget(&self, buckets: &[String]) {
        if !buckets.is_empty() {
            self.blocks
                .lock()
                .retain(|(bucket, _), _| !buckets.iter().any(|dropped| **dropped == **bucket));
        }
    }
}
