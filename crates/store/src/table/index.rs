//! Indexes in memory, laid out for searching.

use isomer_storage::Version;

use super::{
    block::{Block, BlockCursor, Damaged, common_prefix},
    sealed::Handle,
};
use crate::{cache::Pinned, codec::varint};

/// What searching a partition's index fast takes beside its bytes.
pub(crate) const HELP_BYTES: usize = super::MAX_PARTITION_BLOCKS * 24 + 200;

/// A block of separators and handles, with 8 bytes of each separator in one array: most searches need no more.
pub(crate) struct Index {
    block: Block,
    /// What all separators begin with.
    prefix: Box<[u8]>,
    /// The 8 bytes behind it, big-endian, with zeros behind short ones.
    heads: Box<[u64]>,
    handles: Box<[Handle]>,
}

#[inline]
fn head(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(head) => u64::from_be_bytes(*head),
        None => {
            let mut bytes = [0; 8];
            bytes[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(bytes)
        }
    }
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
        Ok(Self {
            block,
            prefix: first[..common].into(),
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

    /// Number of the first separator at or behind (`key`, `version`).
    #[inline]
    pub(crate) fn find(&self, key: &[u8], version: Version) -> Result<Option<usize>, Damaged> {
        let shared = key.len().min(self.prefix.len());
        match key[..shared].cmp(&self.prefix[..shared]) {
            std::cmp::Ordering::Greater => return Ok(None),
            std::cmp::Ordering::Equal if shared == self.prefix.len() => {}
            // Less, or all that separators begin with is longer.
            _ => return Ok((!self.handles.is_empty()).then_some(0)),
        }
        let head = head(&key[shared..]);
        let at = self.heads.partition_point(|one| *one < head);
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
