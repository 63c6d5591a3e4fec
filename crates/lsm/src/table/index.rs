//! Indexes in memory, laid out for searching.

use isomer_storage::Version;

use super::{
    block::{Block, BlockCursor, Damaged, common_prefix},
    sealed::Handle,
};
use crate::{
    cache::Pinned,
    codec::{head, varint},
};

/// Data blocks of a partition: its index and filter are read and cached as one.
pub(crate) const MAX_PARTITION_BLOCKS: usize = 128;
/// Bytes of the search structure in addition to the index itself.
pub(crate) const HELP_BYTES: usize = MAX_PARTITION_BLOCKS * 24 + 200;

/// Heads in the first step of a search.
const FIRST_SEARCH_HEADS: usize = 6;

/// A block of separators and handles, with 8 bytes of each separator in one array, which is enough for most
/// searches.
pub(crate) struct Index {
    block: Block,
    /// Common prefix of all separators.
    prefix: Box<[u8]>,
    /// The next 8 bytes, big-endian, padded with zeros.
    heads: Box<[u64]>,
    /// The smallest head, and the average number of heads per unit above it, for interpolation.
    lowest: u64,
    density: f64,
    handles: Box<[Handle]>,
}

impl Index {
    pub(crate) fn new(block: Block) -> Result<Self, Damaged> {
        let mut cursor = BlockCursor::new();
        cursor.set(block.clone());
        cursor.first()?;
        let first = cursor.key().to_vec();
        let mut common = 0;
        if cursor.valid() {
            cursor.last()?;
            common = common_prefix(&first, cursor.key());
            cursor.first()?;
        }
        let mut heads = Vec::with_capacity(block.len());
        let mut handles = Vec::with_capacity(block.len());
        while cursor.valid() {
            heads.push(head(cursor.key().get(common..).ok_or(Damaged)?));
            let (offset, next) = varint(cursor.value(), 0).ok_or(Damaged)?;
            let (len, _) = varint(cursor.value(), next).ok_or(Damaged)?;
            handles.push(Handle {
                offset,
                len: u32::try_from(len).map_err(|_| Damaged)?,
            });
            cursor.next()?;
        }
        let lowest = heads.first().copied().unwrap_or_default();
        let highest = heads.last().copied().unwrap_or_default();
        // Heads of a damaged block may descend.
        let span = highest.saturating_sub(lowest).max(1);
        Ok(Self {
            block,
            prefix: first[..common].into(),
            lowest,
            density: heads.len() as f64 / span as f64,
            heads: heads.into(),
            handles: handles.into(),
        })
    }

    pub(crate) fn block(&self) -> &Block {
        &self.block
    }

    pub(crate) fn len(&self) -> usize {
        self.handles.len()
    }

    pub(crate) fn handle(&self, number: usize) -> Handle {
        self.handles[number]
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.block.memory_bytes() + self.handles.len() * 24
    }

    /// Number of heads below `head`. Interpolation search: it starts at the position for uniformly distributed
    /// heads, as random keys have, and then touches two cache lines instead of five.
    #[inline]
    fn heads_below(&self, head: u64) -> usize {
        let heads = &*self.heads;
        let guess = (head.saturating_sub(self.lowest) as f64 * self.density) as usize;
        let guess = guess.min(heads.len());
        let (mut low, mut high, mut step) = (guess, guess, FIRST_SEARCH_HEADS);
        if heads.get(guess).is_some_and(|one| *one < head) {
            loop {
                high = low.saturating_add(step).min(heads.len());
                if heads.get(high).is_none_or(|one| *one >= head) {
                    break;
                }
                (low, step) = (high, step * 4);
            }
        } else {
            loop {
                low = high.saturating_sub(step);
                if low == 0 || heads[low] < head {
                    break;
                }
                (high, step) = (low, step * 4);
            }
        }
        low + heads[low..high].partition_point(|one| *one < head)
    }

    /// Number of the first separator at or after (`key`, `version`).
    #[inline]
    pub(crate) fn find(&self, key: &[u8], version: Version) -> Result<Option<usize>, Damaged> {
        let shared = key.len().min(self.prefix.len());
        match key[..shared].cmp(&self.prefix[..shared]) {
            std::cmp::Ordering::Greater => return Ok(None),
            std::cmp::Ordering::Equal if shared == self.prefix.len() => {}
            // Smaller, or the common prefix is longer than the key.
            _ => return Ok((!self.handles.is_empty()).then_some(0)),
        }
        let head = head(&key[shared..]);
        let at = self.heads_below(head);
        match self.heads.get(at) {
            None => Ok(None),
            Some(one) if *one > head => Ok(Some(at)),
            Some(_) => Ok(self.block.find(key, version)?.map(|found| found.index)),
        }
    }
}

/// An index and a filter that stay in memory as long as their table.
pub(crate) struct Partition {
    pub(crate) index: Index,
    filter_bytes: usize,
    _pinned: Pinned,
}

impl Partition {
    pub(crate) fn new(block: Block, pinned: Pinned) -> Result<Self, Damaged> {
        let filter_bytes = block.tail().len().checked_sub(4).ok_or(Damaged)?;
        Ok(Self {
            index: Index::new(block)?,
            filter_bytes,
            _pinned: pinned,
        })
    }

    #[inline]
    pub(crate) fn filter(&self) -> &[u8] {
        &self.index.block.tail()[..self.filter_bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        codec::put_varint,
        table::block::{BlockBuilder, ValueKind},
    };

    /// Interpolation search finds the same as binary search, for all distributions.
    #[test]
    fn keys_are_found_however_they_are_spread() {
        let mut random = 5_u64;
        let mut next = move || {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            random ^ random >> 29
        };
        for round in 0..300 {
            let mut keys: Vec<u64> = (0..next() % 200)
                .map(|_| match round % 4 {
                    0 => next(),
                    1 => next() >> (next() % 64),
                    2 => u64::MAX - (next() >> (next() % 64)),
                    _ => 1 << (next() % 64),
                })
                .collect();
            keys.sort_unstable();
            keys.dedup();
            let mut builder = BlockBuilder::new(4);
            for key in &keys {
                let mut handle = Vec::new();
                put_varint(&mut handle, *key);
                put_varint(&mut handle, 7);
                builder.add(&key.to_be_bytes(), 9, ValueKind::Value, &handle);
            }
            let mut bytes = Vec::new();
            builder.finish(&mut bytes);
            let len = bytes.len();
            let index = Index::new(Block::parse(bytes.into(), len).unwrap()).unwrap();
            let near = keys
                .iter()
                .flat_map(|key| [key.saturating_sub(1), *key, key.saturating_add(1)]);
            for wanted in near.chain([0, u64::MAX]).chain((0..50).map(|at| at << 58)) {
                let expected = keys.partition_point(|key| *key < wanted);
                let found = index.find(&wanted.to_be_bytes(), Version::MAX).unwrap();
                assert_eq!(found, (expected < keys.len()).then_some(expected));
            }
        }
    }
}
