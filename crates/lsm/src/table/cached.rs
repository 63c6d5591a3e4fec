//! Blocks in memory, with a small index to search them in few cache lines.

use std::{hint::black_box, ops::Range};

use isomer_storage::Version;

use super::block::{Block, BlockCursor, Damaged, EntryMatch, common_prefix};
use crate::codec::head;

/// Number of restarts in the index: their keys need not be read from the block, where they are in separate
/// cache lines.
const HEADS: usize = 8;
const LINE_BYTES: usize = 64;
/// Bytes of an entry that are prefetched; the hardware prefetcher loads the rest.
const TOUCHED_BYTES: usize = 4 * LINE_BYTES;

/// A cached block.
#[derive(Debug)]
pub(crate) struct Cached {
    pub(crate) block: Block,
    /// Length of the common prefix of all keys, and its offset.
    skip: u32,
    begins: u32,
    /// Every `step`th restart is in the index.
    step: u16,
    /// Number of restarts in the index.
    known: u16,
    /// The first 8 bytes after the common prefix of the keys of these restarts, big-endian, padded with zeros.
    heads: [u64; HEADS],
    /// The same of the last key.
    last: u64,
    /// Offsets of the entries of these restarts.
    entries: [u32; HEADS],
}

impl Cached {
    pub(crate) fn new(block: Block) -> Result<Self, Damaged> {
        let restarts = block.restarts();
        let step = restarts.div_ceil(HEADS).max(1);
        let known = restarts.div_ceil(step);
        let (mut heads, mut entries) = ([0; HEADS], [0; HEADS]);
        let (mut skip, mut begins, mut last) = (0, 0, 0);
        if known > 0 {
            // Keys ascend: the common prefix of the first and the last one is that of all.
            let mut cursor = BlockCursor::new();
            cursor.set(block.clone());
            cursor.last()?;
            let first = block.restart_key(0)?;
            skip = common_prefix(first, cursor.key());
            begins = first.as_ptr().addr() - block.entries().as_ptr().addr();
            last = head(&cursor.key()[skip..]);
        }
        for at in 0..known {
            let key = block.restart_key(at * step)?;
            heads[at] = head(key.get(skip..).ok_or(Damaged)?);
            entries[at] = u32::try_from(block.restart(at * step)?).map_err(|_| Damaged)?;
        }
        Ok(Self {
            block,
            skip: u32::try_from(skip).map_err(|_| Damaged)?,
            begins: u32::try_from(begins).map_err(|_| Damaged)?,
            last,
            step: u16::try_from(step).map_err(|_| Damaged)?,
            known: known as u16,
            heads,
            entries,
        })
    }

    /// The newest entry of `key` at or before `version`.
    #[inline]
    pub(super) fn find(
        &self,
        key: &[u8],
        version: Version,
    ) -> Result<Option<EntryMatch<'_>>, Damaged> {
        let near = self.near(key);
        let step = usize::from(self.step);
        let found = if step == 1 && near.len() == 1 {
            let entry = self.entries[near.start] as usize;
            self.block.find_from(key, version, near.start, entry)
        } else {
            let restarts = near.start * step..self.block.restarts().min(near.end * step);
            self.block.find_among(key, version, restarts)
        };
        Ok(found?.filter(|found| found.equal))
    }

    /// The range of indexed restarts that contains the last one before `key`, whatever its version; arbitrary
    /// if the block does not have such a key.
    #[inline]
    fn near(&self, key: &[u8]) -> Range<usize> {
        // A key without the common prefix is not here, wherever it is searched.
        let head = head(key.get(self.skip as usize..).unwrap_or_default());
        let heads = &self.heads[..usize::from(self.known)];
        let below = heads.partition_point(|one| *one < head);
        let upto = below + heads[below..].partition_point(|one| *one == head);
        below.saturating_sub(1)..upto
    }

    /// Whether every entry of `key` in the table must be in this block: the key is between its first key and
    /// its last one. Returns false if that cannot be decided quickly.
    #[inline]
    pub(super) fn surrounds(&self, key: &[u8]) -> bool {
        let (begins, skip) = (self.begins as usize, self.skip as usize);
        let Some((start, rest)) = key.split_at_checked(skip) else {
            return false;
        };
        let head = head(rest);
        self.heads[0] < head
            && head < self.last
            && self.block.entries().get(begins..begins + skip) == Some(start)
    }

    /// Prefetches the beginning of the index. Prefetching several blocks, one after another, takes about as
    /// long as one; searching them one after another takes as many times as long.
    #[inline]
    pub(super) fn touch(&self) {
        black_box((self.heads[0], self.entries[HEADS - 1]));
    }

    /// Like [`Cached::touch`], for what the search of `key` reads next.
    #[inline]
    pub(super) fn touch_entry(&self, key: &[u8]) {
        let start = self.entries[self.near(key).start.min(HEADS - 1)] as usize;
        for line in (start..start + TOUCHED_BYTES).step_by(LINE_BYTES) {
            black_box(self.block.entries().get(line).copied());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::block::{BlockBuilder, ValueKind, entry_order};

    /// Keys with a common prefix up to the last one, several versions of one key, and more restarts than are
    /// indexed.
    #[test]
    fn a_cached_block_agrees_with_the_block() {
        let mut random = 11_u64;
        let mut below = move |bound: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % bound
        };
        let mut surrounded = 0;
        for round in 0..400 {
            let prefix = vec![7; round % 12];
            let mut entries: Vec<(Vec<u8>, Version)> = (0..below(60))
                .map(|_| {
                    let mut key = prefix.clone();
                    key.truncate(prefix.len().saturating_sub(usize::from(below(9) == 0)));
                    key.extend((0..below(11)).map(|_| 7 + below(2) as u8));
                    (key, 1 + below(4))
                })
                .collect();
            entries.sort_by(|a, b| entry_order((&a.0, a.1), (&b.0, b.1)));
            entries.dedup();
            let mut builder = BlockBuilder::new(1 + below(4) as u8);
            for (key, version) in &entries {
                builder.add(
                    key,
                    *version,
                    ValueKind::Value,
                    &vec![1; below(90) as usize],
                );
            }
            let mut bytes = Vec::new();
            builder.finish(&mut bytes);
            let len = bytes.len();
            let kept = Cached::new(Block::parse(bytes.into(), len).unwrap()).unwrap();
            kept.touch();
            let ends = entries.first().zip(entries.last());
            let others = (0..30).map(|_| (0..below(14)).map(|_| 6 + below(3) as u8).collect());
            let keys = entries.iter().map(|(key, _)| key.clone()).chain(others);
            for key in keys.collect::<Vec<Vec<u8>>>() {
                kept.touch_entry(&key);
                if kept.surrounds(&key) {
                    let (first, last) = ends.unwrap();
                    assert!(first.0 < key && key < last.0, "{key:?}");
                    surrounded += 1;
                }
                for version in 0..6 {
                    let expected = kept.block.find(&key, version).unwrap();
                    let expected = expected.filter(|found| found.equal);
                    let found = kept.find(&key, version).unwrap();
                    assert_eq!(found.map(|f| f.index), expected.map(|f| f.index), "{key:?}");
                }
            }
        }
        assert!(surrounded > 1_000, "{surrounded} keys");
    }
}
