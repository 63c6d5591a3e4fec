//! Blocks of numbers that sequences have reserved.

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
    /// Forgets the blocks of buckets that were dropped.
    pub(crate) fn forget(&self, buckets: &[String]) {
        if !buckets.is_empty() {
            self.blocks
                .lock()
                .retain(|(bucket, _), _| !buckets.iter().any(|dropped| **dropped == **bucket));
        }
    }
}
