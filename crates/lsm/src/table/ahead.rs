//! Read-ahead for long scans: a thread reads, checks and decompresses the next blocks while the scan uses the
//! previous ones.
//!
//! The position in a table's index is handed back and forth: its holder, the thread or the scan itself, reads
//! the next batch. If the thread is not scheduled, the scan does the work and does not wait; if the thread is
//! at work, the scan waits for that batch only. An error ends the read-ahead, and the scan gets it when it
//! reads that block itself. Nothing outlives the scan: its end waits for the batch in progress. A scan that has
//! read nothing for a while (a client that requests pages, and may never return) loses its thread and the
//! blocks that it read: other scans may need them.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread::{Builder, JoinHandle},
    time::Duration,
};

use isomer_storage::StorageError;
use isomer_storage::sync::{Condvar, Mutex, MutexGuard};

use super::{
    Reading, Table,
    block::{Block, BlockCursor},
    sealed::Handle,
};
use crate::cache::{Helper, Pinned};

/// Bytes of a batch as stored, and decompressed, except for the last block.
const BATCH_BYTES: usize = 256 << 10;
/// The thread reads this many batches ahead,
const MAX_READY_BATCHES: usize = 4;
/// and continues when only this many are left.
const MIN_READY_BATCHES: usize = 1;
/// Buffers kept for the next batches: the thread and the scan fill one each.
const MAX_SPARE_BUFFERS: usize = 2;
/// Bytes that all of it takes: batches that are ready, the one in use and the one being read, each with
/// decompressed blocks and others that are used in place in the buffer; and the spare buffers.
const MAX_HELD_BYTES: usize =
    (MAX_READY_BATCHES + 2) * 2 * BATCH_BYTES + MAX_SPARE_BUFFERS * BATCH_BYTES;

/// Consecutive blocks of the index.
#[derive(Default)]
struct Batch {
    /// The bytes read; uncompressed blocks are used in place.
    bytes: Arc<[u8]>,
    /// Offset of each in the file.
    blocks: VecDeque<(u64, Block)>,
}

/// The buffer with `len` arbitrary bytes; a new one if a block still uses it in place.
pub(super) fn buffer(ahead: &mut Arc<[u8]>, len: usize) -> &mut [u8] {
    if ahead.len() != len || Arc::get_mut(ahead).is_none() {
        *ahead = std::iter::repeat_n(0, len).collect();
    }
    Arc::get_mut(ahead).expect("not shared")
}

/// A position in the index of a table: later blocks have not been read.
pub(super) struct IndexPosition {
    table: Arc<Table>,
    top: BlockCursor,
    partition: BlockCursor,
    /// Blocks before that position that did not fit into the last batch.
    left: Vec<Handle>,
    /// Bytes to read for a batch: fewer if they decompress to many more.
    most_stored: usize,
}

impl IndexPosition {
    /// Starts after the block of a cursor.
    pub(super) fn new(table: Arc<Table>, top: BlockCursor, partition: BlockCursor) -> Self {
        Self {
            table,
            top,
            partition,
            left: Vec::new(),
            most_stored: BATCH_BYTES,
        }
    }

    /// The next blocks; `None` if there are none, or if the next one is not read ahead.
    fn batch(&mut self, spare: Arc<[u8]>) -> Result<Option<Batch>, StorageError> {
        let mut handles = match self.left.is_empty() {
            true => self.handles()?,
            false => std::mem::take(&mut self.left),
        };
        let (Some(first), Some(last)) = (handles.first(), handles.last()) else {
            return Ok(None);
        };
        let start = first.offset;
        let len = (last.offset - start) as usize + last.len as usize;
        let mut bytes = spare;
        self.table.file.read_plain(start, buffer(&mut bytes, len))?;
        let mut blocks = VecDeque::with_capacity(handles.len());
        let mut unpacked = 0;
        for (at, handle) in handles.iter().copied().enumerate() {
            let from = (handle.offset - start) as usize;
            let stored = &bytes[from..from + handle.len as usize];
            let block = match self.table.file.plain_payload(handle, stored)? {
                Some(len) => Block::parse_at(bytes.clone(), from, len)
                    .map_err(self.table.damaged(handle.offset))?,
                None => {
                    let payload = self.table.file.open_block(handle, stored)?;
                    let block = self.table.parse_block(payload, handle)?;
                    unpacked += block.memory_bytes();
                    block
                }
            };
            blocks.push_back((handle.offset, block));
            if unpacked >= BATCH_BYTES && at + 1 < handles.len() {
                self.most_stored = from + handle.len as usize;
                self.left = handles.split_off(at + 1);
                break;
            }
        }
        if unpacked < BATCH_BYTES / 2 {
            self.most_stored = (self.most_stored * 2).min(BATCH_BYTES);
        }
        Ok(Some(Batch { bytes, blocks }))
    }

    /// The handles of the blocks of the next batch, which are consecutive in the file.
    fn handles(&mut self) -> Result<Vec<Handle>, StorageError> {
        let mut handles: Vec<Handle> = Vec::new();
        let mut end = None;
        let mut bytes = 0;
        while let Some(handle) = self.next_handle()? {
            let behind = handle.offset.checked_add(u64::from(handle.len));
            // At least one, unless it is too large for any batch.
            let most = match handles.is_empty() {
                true => BATCH_BYTES,
                false => self.most_stored,
            };
            let fits = bytes + handle.len as usize <= most
                && behind.is_some_and(|behind| behind <= self.table.file.len())
                && end.is_none_or(|end| end == handle.offset);
            if !fits {
                break;
            }
            bytes += handle.len as usize;
            end = behind;
            handles.push(handle);
            self.advance()?;
        }
        Ok(handles)
    }

    fn next_handle(&mut self) -> Result<Option<Handle>, StorageError> {
        let table = &self.table;
        while !self.partition.valid() {
            if !self.top.valid() {
                return Ok(None);
            }
            self.top.next().map_err(table.damaged(table.top_offset))?;
            if !self.top.valid() {
                return Ok(None);
            }
            let handle = table.handle(self.top.value(), table.top_offset)?;
            let index = table.partition_numbered(self.top.index(), handle, Reading::Cached)?;
            self.partition.set(index);
            self.partition
                .first()
                .map_err(table.damaged(handle.offset))?;
        }
        let handle = table.handle(self.partition.value(), table.top_offset)?;
        Ok(Some(handle))
    }

    /// Reads a batch like the thread: returns the number of blocks in it, and the bytes that it takes.
    #[cfg(test)]
    pub(super) fn next_batch(&mut self) -> Option<(usize, usize)> {
        let mut batch = self.batch(Arc::default()).unwrap()?;
        let unused = Arc::get_mut(&mut batch.bytes).is_some();
        let read = if unused { 0 } else { batch.bytes.len() };
        let held = |(_, block): &(u64, Block)| match block.memory_bytes() {
            bytes if bytes == batch.bytes.len() && !unused => 0,
            bytes => bytes,
        };
        let bytes = read + batch.blocks.iter().map(held).sum::<usize>();
        Some((batch.blocks.len(), bytes))
    }

    /// Moves past the current block.
    fn advance(&mut self) -> Result<(), StorageError> {
        let table = &self.table;
        self.partition
            .next()
            .map_err(table.damaged(table.top_offset))
    }
}

#[derive(Default)]
struct State {
    /// `None` while a batch is being read.
    walk: Option<IndexPosition>,
    ready: VecDeque<Batch>,
    /// Buffers of used batches.
    spare: Vec<Arc<[u8]>>,
    /// Number of batches that the scan took.
    taken: u64,
    /// No more batches will be read.
    ended: bool,
    stop: bool,
    /// Held while the thread runs.
    rights: Option<(Helper, Pinned)>,
}

impl State {
    /// Keeps the buffer of a batch for reuse, unless a block uses it in place.
    fn keep_unused(&mut self, bytes: &mut Arc<[u8]>) {
        if Arc::get_mut(bytes).is_some_and(|bytes| !bytes.is_empty()) {
            let bytes = std::mem::take(bytes);
            if self.spare.len() < MAX_SPARE_BUFFERS {
                self.spare.push(bytes);
            }
        }
    }
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// A scan that has read nothing for this long loses its thread.
    idle_limit: Duration,
}

impl Shared {
    /// Reads a batch with the position that was taken out, and puts that back. The batch is processed before
    /// others see the position again, so that batches stay in order.
    fn make(
        &self,
        mut walk: IndexPosition,
        spare: Arc<[u8]>,
    ) -> (MutexGuard<'_, State>, Option<Batch>) {
        let made = catch_unwind(AssertUnwindSafe(|| walk.batch(spare)));
        // On failure the scan reads the block itself, and reports the error.
        let mut batch = made.ok().and_then(Result::ok).flatten();
        let mut state = self.state.lock();
        if let Some(batch) = &mut batch {
            state.keep_unused(&mut batch.bytes);
        }
        state.ended = batch.is_none();
        state.walk = Some(walk);
        (state, batch)
    }

    /// The thread's main loop.
    fn run(&self) {
        let mut state = self.state.lock();
        let mut most = MAX_READY_BATCHES;
        let mut gone = None;
        while !state.stop && !state.ended {
            if state.ready.len() >= most {
                // Do not wake up for each single batch.
                most = MIN_READY_BATCHES + 1;
            } else if let Some(walk) = state.walk.take() {
                most = MAX_READY_BATCHES;
                let spare = state.spare.pop().unwrap_or_default();
                drop(state);
                let made = self.make(walk, spare);
                state = made.0;
                state.ready.extend(made.1);
                self.changed.notify_all();
                continue;
            }
            let taken = state.taken;
            let waited = self.changed.wait_for(&mut state, self.idle_limit);
            // While the scan has the position it is active.
            if waited.timed_out() && state.taken == taken && state.walk.is_some() {
                state.ended = true;
                let ready = std::mem::take(&mut state.ready);
                gone = Some((ready, std::mem::take(&mut state.spare), state.rights.take()));
            }
        }
        drop(state);
        drop(gone);
    }
}

/// Blocks that were read ahead of a scan, and the thread that reads them.
pub(super) struct ReadAhead {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    batch: Batch,
}

impl ReadAhead {
    /// Starts after the block that `walk` is at; `None` if no thread or no memory is available.
    pub(super) fn begin(mut walk: IndexPosition) -> Option<Self> {
        let helper = walk.table.cache.helper()?;
        let held = walk.table.cache.try_pin(MAX_HELD_BYTES)?;
        walk.advance().ok()?;
        let shared = Arc::new(Shared {
            idle_limit: helper.idle_limit(),
            state: Mutex::new(State {
                walk: Some(walk),
                rights: Some((helper, held)),
                ..State::default()
            }),
            changed: Condvar::new(),
        });
        let helping = shared.clone();
        let thread = Builder::new()
            .name("lsm-ahead".to_owned())
            .spawn(move || helping.run())
            .ok()?;
        Some(Self {
            shared,
            thread: Some(thread),
            batch: Batch::default(),
        })
    }

    /// Waits until the thread ends.
    #[cfg(test)]
    pub(super) fn wait_for_end(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join().expect("it does not panic");
        }
    }

    /// The block at `offset`, which is expected to be the one after the last that was taken; `None` if it is
    /// not, or was not read. The scan has released the last one.
    pub(super) fn take(&mut self, offset: u64) -> Option<Block> {
        if self.batch.blocks.is_empty() {
            self.batch = self.next_batch()?;
        }
        let (at, block) = self.batch.blocks.pop_front()?;
        (at == offset).then_some(block)
    }

    fn next_batch(&mut self) -> Option<Batch> {
        let mut used = std::mem::take(&mut self.batch.bytes);
        let mut state = self.shared.state.lock();
        state.keep_unused(&mut used);
        state.taken += 1;
        loop {
            if let Some(batch) = state.ready.pop_front() {
                let few = state.ready.len() <= MIN_READY_BATCHES;
                drop(state);
                if few {
                    self.shared.changed.notify_all();
                }
                return Some(batch);
            }
            if state.ended {
                return None;
            }
            if let Some(walk) = state.walk.take() {
                let spare = state.spare.pop().unwrap_or_default();
                drop(state);
                let (state, batch) = self.shared.make(walk, spare);
                drop(state);
                self.shared.changed.notify_all();
                return batch;
            }
            self.shared.changed.wait(&mut state);
        }
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        self.shared.state.lock().stop = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // It does not panic, and has no result that the scan needs.
            let _ = thread.join();
        }
    }
}
