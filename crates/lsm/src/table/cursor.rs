//! Cursors over a table.

use std::sync::Arc;

use isomer_storage::{StorageError, Version, Visitor};

use super::{
    Reading, Table,
    ahead::{IndexPosition, ReadAhead, buffer},
    block::{Block, BlockCursor, RunEnd, ValueKind},
    sealed::Handle,
};
use crate::blob::BlobRef;

/// Bytes that a compaction reads at once, and the maximum that a scan reads at once.
const BULK_BYTES: usize = 512 << 10;
const SCAN_BYTES: usize = 128 << 10;
/// Number of consecutive blocks after which a scan reads ahead, and after which its blocks are not inserted
/// into the cache: a scan of everything, which comes in pages of about 20 blocks, should not evict frequently
/// used blocks.
const AHEAD_FROM: u32 = 2;
const KEEP_UNTIL: u32 = 6;
/// Number of consecutive cache misses after which a thread reads ahead.
const THREAD_FROM: u32 = 64;

/// A position in a table. Order of the entries: see [`crate::Cursor`].
pub(crate) struct TableCursor {
    table: Arc<Table>,
    reading: Reading,
    top: BlockCursor,
    partition: BlockCursor,
    data: BlockCursor,
    partition_at: u64,
    data_at: u64,
    /// Consecutive data blocks read since the last search.
    in_a_row: u32,
    /// Whether the next block is likely to be before this one.
    backwards: bool,
    /// Bytes read ahead, and their offset in the file. Uncompressed blocks are used in place.
    ahead: Arc<[u8]>,
    ahead_at: u64,
    /// Consecutive data blocks that were not in the cache.
    read_in_a_row: u32,
    thread: Option<ReadAhead>,
    version: Version,
    held: ValueKind,
    crossing: Vec<u8>,
}

impl TableCursor {
    /// A cursor without a position.
    pub(crate) fn new(table: Arc<Table>, reading: Reading) -> Self {
        let mut top = BlockCursor::new();
        top.set(table.top.block().clone());
        Self {
            table,
            reading,
            top,
            partition: BlockCursor::new(),
            data: BlockCursor::new(),
            partition_at: 0,
            data_at: 0,
            in_a_row: 0,
            backwards: false,
            ahead: Arc::default(),
            ahead_at: 0,
            read_in_a_row: 0,
            thread: None,
            version: 0,
            held: ValueKind::Value,
            crossing: Vec::new(),
        }
    }

    /// Continues in another table, with the buffers of this one.
    pub(crate) fn move_to(&mut self, table: Arc<Table>) {
        self.top.set(table.top.block().clone());
        self.table = table;
        self.partition.clear();
        self.data.clear();
        self.leave();
        self.ahead = Arc::default();
    }

    /// Whether a thread reads ahead.
    #[cfg(test)]
    pub(super) fn reads_ahead(&self) -> bool {
        self.thread.is_some()
    }

    /// Waits until the read-ahead thread has given up, as nothing is taken from it.
    #[cfg(test)]
    pub(super) fn wait_for_thread(&mut self) {
        let thread = self.thread.as_mut().expect("there is one");
        thread.wait_for_end();
    }

    /// Ends a sequence of consecutive reads.
    fn leave(&mut self) {
        self.in_a_row = 0;
        self.read_in_a_row = 0;
        self.thread = None;
    }

    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.table
    }

    #[inline]
    pub(crate) fn valid(&self) -> bool {
        self.data.valid()
    }

    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        self.data.key()
    }

    #[inline]
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    #[inline]
    pub(crate) fn held(&self) -> ValueKind {
        self.held
    }

    /// The value, or the reference to it.
    #[inline]
    pub(crate) fn value(&self) -> &[u8] {
        self.data.value()
    }

    /// Location of the value, if it is in a blob file.
    pub(crate) fn blob_ref(&self) -> Result<Option<BlobRef>, StorageError> {
        if self.held != ValueKind::Apart {
            return Ok(None);
        }
        BlobRef::parse(self.data.value())
            .map(Some)
            .ok_or_else(|| self.table.unreadable(self.data_at))
    }

    pub(crate) fn seek(&mut self, key: &[u8], version: Version) -> Result<(), StorageError> {
        self.leave();
        self.backwards = false;
        self.top
            .seek(key, version)
            .map_err(self.table.damaged(self.table.top_offset))?;
        if !self.load_partition()? {
            return Ok(());
        }
        self.partition
            .seek(key, version)
            .map_err(self.table.damaged(self.partition_at))?;
        if !self.load_data()? {
            return self.next_partition();
        }
        self.data
            .seek(key, version)
            .map_err(self.table.damaged(self.data_at))?;
        if self.data.valid() {
            self.stamp()
        } else {
            self.next_block()
        }
    }

    /// Clears the position.
    pub(crate) fn seek_past_end(&mut self) {
        self.leave();
        self.data.clear();
    }

    pub(crate) fn first(&mut self) -> Result<(), StorageError> {
        self.leave();
        self.backwards = false;
        self.top
            .first()
            .map_err(self.table.damaged(self.table.top_offset))?;
        self.enter_partition()
    }

    pub(crate) fn seek_before(&mut self, key: Option<&[u8]>) -> Result<(), StorageError> {
        match key {
            Some(key) => {
                self.seek(key, Version::MAX)?;
                if self.valid() {
                    return self.prev();
                }
            }
            None => self.leave(),
        }
        // Everything is before: the last entry.
        self.top
            .last()
            .map_err(self.table.damaged(self.table.top_offset))?;
        if !self.load_partition()? {
            return Ok(());
        }
        self.partition
            .last()
            .map_err(self.table.damaged(self.partition_at))?;
        self.last_of_block()
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Result<(), StorageError> {
        match self.data.next() {
            Ok(()) if self.data.valid() => self.stamp(),
            Ok(()) => self.next_block(),
            Err(_) => Err(self.table.unreadable(self.data_at)),
        }
    }

    /// Moves to the first entry of another key.
    #[inline]
    pub(crate) fn next_key(&mut self) -> Result<(), StorageError> {
        match self.data.next_key() {
            Ok(()) if self.data.valid() => self.stamp(),
            // The key may continue in the next block.
            Ok(()) => self.cross_block(),
            Err(_) => Err(self.table.unreadable(self.data_at)),
        }
    }

    /// Calls `visit` with what a reader at `at` sees from here on, up to `end`; see [`crate::Cursor::run`].
    pub(crate) fn run(
        &mut self,
        end: Option<&[u8]>,
        at: Version,
        visit: &mut Visitor<'_>,
    ) -> Result<RunEnd, StorageError> {
        while self.data.valid() {
            // No key of a block is greater than its key in the index.
            let end_here = end.filter(|end| self.partition.key() >= *end);
            let ran = self.data.run(end_here, at, visit);
            let ran = ran.map_err(|_| self.table.unreadable(self.data_at))?;
            if self.data.valid() {
                self.stamp()?;
                return Ok(ran);
            }
            self.cross_block()?;
        }
        Ok(RunEnd::Ended)
    }

    /// From the end of a block, after the last entry of a key, to the first entry of another key.
    fn cross_block(&mut self) -> Result<(), StorageError> {
        let key = std::mem::take(&mut self.crossing);
        self.crossing = self.cross(key)?;
        Ok(())
    }

    /// Moves to the next block and skips the entries of the previous key; returns the buffer.
    fn cross(&mut self, mut key: Vec<u8>) -> Result<Vec<u8>, StorageError> {
        key.clear();
        key.extend_from_slice(self.data.key());
        self.next_block()?;
        while self.data.valid() && self.data.key() == key {
            self.next()?;
        }
        Ok(key)
    }

    pub(crate) fn prev(&mut self) -> Result<(), StorageError> {
        self.data.prev().map_err(self.table.damaged(self.data_at))?;
        if self.data.valid() {
            return self.stamp();
        }
        self.partition
            .prev()
            .map_err(self.table.damaged(self.partition_at))?;
        if !self.partition.valid() {
            self.top
                .prev()
                .map_err(self.table.damaged(self.table.top_offset))?;
            if !self.load_partition()? {
                return Ok(());
            }
            self.partition
                .last()
                .map_err(self.table.damaged(self.partition_at))?;
        }
        self.last_of_block()
    }

    fn last_of_block(&mut self) -> Result<(), StorageError> {
        self.backwards = true;
        if !self.load_data()? {
            return Err(self.table.unreadable(self.partition_at));
        }
        self.data.last().map_err(self.table.damaged(self.data_at))?;
        if !self.data.valid() {
            return Err(self.table.unreadable(self.data_at));
        }
        self.stamp()
    }

    #[inline]
    fn stamp(&mut self) -> Result<(), StorageError> {
        match self.data.stamp() {
            Ok((version, held)) => {
                self.version = version;
                self.held = held;
                Ok(())
            }
            Err(_) => Err(self.table.unreadable(self.data_at)),
        }
    }

    fn next_block(&mut self) -> Result<(), StorageError> {
        self.backwards = false;
        self.partition
            .next()
            .map_err(self.table.damaged(self.partition_at))?;
        if self.load_data()? {
            return self.first_of_block();
        }
        self.next_partition()
    }

    fn next_partition(&mut self) -> Result<(), StorageError> {
        self.top
            .next()
            .map_err(self.table.damaged(self.table.top_offset))?;
        self.enter_partition()
    }

    fn enter_partition(&mut self) -> Result<(), StorageError> {
        if !self.load_partition()? {
            return Ok(());
        }
        self.partition
            .first()
            .map_err(self.table.damaged(self.partition_at))?;
        if !self.load_data()? {
            return Err(self.table.unreadable(self.partition_at));
        }
        self.first_of_block()
    }

    fn first_of_block(&mut self) -> Result<(), StorageError> {
        self.data
            .first()
            .map_err(self.table.damaged(self.data_at))?;
        if !self.data.valid() {
            return Err(self.table.unreadable(self.data_at));
        }
        self.stamp()
    }

    /// Loads the partition that the upper index is at; returns `false`, without a position, if it is at none.
    fn load_partition(&mut self) -> Result<bool, StorageError> {
        if !self.top.valid() {
            self.partition.clear();
            self.data.clear();
            return Ok(false);
        }
        let handle = self.table.handle(self.top.value(), self.table.top_offset)?;
        let number = self.top.index();
        let block = self
            .table
            .partition_numbered(number, handle, self.reading)?;
        self.partition_at = handle.offset;
        self.partition.set(block);
        Ok(true)
    }

    /// Loads the data block that the partition's index is at; returns `false`, without a position, if it is at
    /// none.
    fn load_data(&mut self) -> Result<bool, StorageError> {
        if !self.partition.valid() {
            self.data.clear();
            return Ok(false);
        }
        let handle = self
            .table
            .handle(self.partition.value(), self.partition_at)?;
        let block = self.read_data(handle)?;
        self.data_at = handle.offset;
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.data.set(block);
        Ok(true)
    }

    fn read_data(&mut self, handle: Handle) -> Result<Block, StorageError> {
        if self.reading == Reading::Bulk {
            return self.read_on(handle);
        }
        if self.in_a_row < AHEAD_FROM {
            return self.table.block(handle);
        }
        if let Some(thread) = &mut self.thread {
            // The previous block may use a buffer in place that is about to be filled again.
            self.data.clear();
            match thread.take(handle.offset) {
                Some(block) if !self.backwards => return Ok(block),
                _ => self.leave(),
            }
        }
        // Blocks that a long scan has read ahead already are not looked up in the cache.
        if self.in_a_row < KEEP_UNTIL || self.covered(handle).is_none() {
            let table = &self.table;
            if let Some(cached) = table.cache.get((table.cached_as, handle.offset)) {
                self.read_in_a_row = 0;
                return Ok(cached.block.clone());
            }
        }
        let block = self.read_on(handle)?;
        self.read_in_a_row += 1;
        if self.read_in_a_row >= THREAD_FROM && !self.backwards {
            self.read_in_a_row = 0;
            self.thread = ReadAhead::begin(self.walk());
        }
        Ok(block)
    }

    /// The state for a read-ahead thread.
    pub(super) fn walk(&self) -> IndexPosition {
        IndexPosition::new(self.table.clone(), self.top.clone(), self.partition.clone())
    }

    /// Offset of a block in the bytes read ahead.
    fn covered(&self, handle: Handle) -> Option<usize> {
        handle
            .offset
            .checked_sub(self.ahead_at)
            .filter(|from| from + u64::from(handle.len) <= self.ahead.len() as u64)
            .map(|from| from as usize)
    }

    /// A block from the bytes read ahead, after reading more if it is not in them.
    fn read_on(&mut self, handle: Handle) -> Result<Block, StorageError> {
        let table = &self.table;
        let len = handle.len as usize;
        let from = match self.covered(handle) {
            Some(from) => from,
            None => {
                let wanted = match self.reading {
                    Reading::Bulk => BULK_BYTES,
                    Reading::Cached => (16 << 10 << (self.in_a_row / 4).min(8)).min(SCAN_BYTES),
                };
                let end = handle
                    .offset
                    .checked_add(u64::from(handle.len))
                    .filter(|end| *end <= table.file.len())
                    .ok_or_else(|| table.unreadable(handle.offset))?;
                let wanted = wanted.max(len) as u64;
                let (start, end) = if self.backwards {
                    (end.saturating_sub(wanted), end)
                } else {
                    let upto = handle.offset.saturating_add(wanted);
                    (handle.offset, upto.min(table.file.len()))
                };
                // The previous block may use the buffer in place that is about to be filled.
                self.data.clear();
                let buffer = buffer(&mut self.ahead, (end - start) as usize);
                if let Err(error) = table.file.read_plain(start, buffer) {
                    self.ahead = Arc::default();
                    return Err(error);
                }
                self.ahead_at = start;
                (handle.offset - start) as usize
            }
        };
        let stored = &self.ahead[from..from + len];
        let keep = self.reading == Reading::Cached && self.in_a_row < KEEP_UNTIL;
        if !keep && let Some(payload) = table.file.plain_payload(handle, stored)? {
            return Block::parse_at(self.ahead.clone(), from, payload)
                .map_err(table.damaged(handle.offset));
        }
        let block = table.parse_block(table.file.open_block(handle, stored)?, handle)?;
        if keep {
            table.keep(handle, block.clone())?;
        }
        Ok(block)
    }
}
