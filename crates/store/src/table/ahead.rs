//! Reading ahead of a long scan: a thread reads, checks and unpacks the blocks that come next while those before are used.
//!
//! The walk over a table's index is handed to and fro: whoever has it, the thread or the scan itself, makes the next batch
//! with it. Where the thread gets no processor, the scan does the work and waits for nobody; where the thread is at it, the
//! scan waits for that batch alone. An error ends the walk, and the scan meets it where it reads that block itself. Nothing
//! outlives the scan: its end waits for the batch that is being made. A scan that has taken nothing for a while (who asks
//! for pages, and may never come back) loses its thread, and what that read: others may need them more.

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
    Table,
    block::{Block, BlockCursor},
    cursor::Reading,
    sealed::Handle,
};
use crate::cache::{Helper, Pinned};

/// What is read at once, and what comes of it when it is unpacked, but for the last block.
const BATCH_BYTES: usize = 256 << 10;
/// The thread makes so many batches ahead,
const MOST_READY: usize = 4;
/// and goes on once so many are left.
const FEW_READY: usize = 1;
/// Buffers kept for the next batches: the thread and the scan make one each.
const MOST_SPARE: usize = 2;
/// Bytes that all of it takes: batches that are ready, the one that is used and the one that is made, each with blocks that were
/// unpacked and others that stand in what was read; and the buffers.
const HELD_BYTES: usize = (MOST_READY + 2) * 2 * BATCH_BYTES + MOST_SPARE * BATCH_BYTES;

/// Blocks that follow one another in the index.
#[derive(Default)]
struct Batch {
    /// What was read; blocks that stand in it as they are, are used there.
    bytes: Arc<[u8]>,
    /// Where each begins in the file.
    blocks: VecDeque<(u64, Block)>,
}

/// A place in the index of a table: what follows has not been read.
pub(super) struct Walk {
    table: Arc<Table>,
    top: BlockCursor,
    partition: BlockCursor,
    /// Blocks before that place that did not fit into the last batch.
    left: Vec<Handle>,
    /// Bytes to be read for a batch: fewer where many more come of them.
    most_stored: usize,
}

impl Walk {
    /// From the block on that a cursor is at.
    pub(super) fn new(table: Arc<Table>, top: BlockCursor, partition: BlockCursor) -> Self {
        Self {
            table,
            top,
            partition,
            left: Vec::new(),
            most_stored: BATCH_BYTES,
        }
    }

    /// The blocks that come next; `None` where there is none, or one that is not read ahead.
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
        self.table
            .file
            .read_plain(start, super::cursor::buffer(&mut bytes, len))?;
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

    /// The places of the blocks of the next batch: one behind the other in the file.
    fn handles(&mut self) -> Result<Vec<Handle>, StorageError> {
        let mut handles: Vec<Handle> = Vec::new();
        let mut end = None;
        let mut bytes = 0;
        while let Some(handle) = self.next_handle()? {
            let behind = handle.offset.checked_add(u64::from(handle.len));
            // One at least, where it is not too large for any batch.
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
            self.step()?;
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

    /// Reads a batch as a thread does: how many blocks are in it, and the bytes that it takes.
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

    /// Past the block here.
    fn step(&mut self) -> Result<(), StorageError> {
        let table = &self.table;
        self.partition
            .next()
            .map_err(table.damaged(table.top_offset))
    }
}

#[derive(Default)]
struct State {
    /// Not here while a batch is made.
    walk: Option<Walk>,
    ready: VecDeque<Batch>,
    /// Buffers of batches that were used.
    spare: Vec<Arc<[u8]>>,
    /// Batches that the scan took.
    taken: u64,
    /// Nothing more comes than what is ready.
    ended: bool,
    stop: bool,
    /// For as long as it goes on.
    rights: Option<(Helper, Pinned)>,
}

impl State {
    /// Keeps the buffer of a batch for another one, where no block stands in it.
    fn keep_unused(&mut self, bytes: &mut Arc<[u8]>) {
        if Arc::get_mut(bytes).is_some_and(|bytes| !bytes.is_empty()) {
            let bytes = std::mem::take(bytes);
            if self.spare.len() < MOST_SPARE {
                self.spare.push(bytes);
            }
        }
    }
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// A scan that has taken nothing for so long loses its thread.
    patience: Duration,
}

impl Shared {
    /// Makes a batch with the walk that was taken out, and brings that back. What is done with the batch is done before others
    /// see the walk again, so that batches stay in order.
    fn make(&self, mut walk: Walk, spare: Arc<[u8]>) -> (MutexGuard<'_, State>, Option<Batch>) {
        let made = catch_unwind(AssertUnwindSafe(|| walk.batch(spare)));
        // Where that fails the scan reads itself, and says what is wrong.
        let mut batch = made.ok().and_then(Result::ok).flatten();
        let mut state = self.state.lock();
        if let Some(batch) = &mut batch {
            state.keep_unused(&mut batch.bytes);
        }
        state.ended = batch.is_none();
        state.walk = Some(walk);
        (state, batch)
    }

    /// What the thread does.
    fn run(&self) {
        let mut state = self.state.lock();
        let mut most = MOST_READY;
        let mut gone = None;
        while !state.stop && !state.ended {
            if state.ready.len() >= most {
                // Not for each single batch.
                most = FEW_READY + 1;
            } else if let Some(walk) = state.walk.take() {
                most = MOST_READY;
                let spare = state.spare.pop().unwrap_or_default();
                drop(state);
                let made = self.make(walk, spare);
                state = made.0;
                state.ready.extend(made.1);
                self.changed.notify_all();
                continue;
            }
            let taken = state.taken;
            let waited = self.changed.wait_for(&mut state, self.patience);
            // Where the scan has the walk it is at work.
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

/// Blocks that were read ahead of a scan, and the thread that reads more.
pub(super) struct ReadAhead {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    batch: Batch,
}

impl ReadAhead {
    /// Begins behind the block that `walk` is at; `None` where no thread or no memory is to be had.
    pub(super) fn begin(mut walk: Walk) -> Option<Self> {
        let helper = walk.table.cache.helper()?;
        let held = walk.table.cache.try_pin(HELD_BYTES)?;
        walk.step().ok()?;
        let shared = Arc::new(Shared {
            patience: helper.patience(),
            state: Mutex::new(State {
                walk: Some(walk),
                rights: Some((helper, held)),
                ..State::default()
            }),
            changed: Condvar::new(),
        });
        let helping = shared.clone();
        let thread = Builder::new()
            .name("store-ahead".to_owned())
            .spawn(move || helping.run())
            .ok()?;
        Some(Self {
            shared,
            thread: Some(thread),
            batch: Batch::default(),
        })
    }

    /// Waits for the thread's end.
    #[cfg(test)]
    pub(super) fn wait_for_end(&mut self) {
        if let Some(thread) = self.thread.take() {
            thread.join().expect("it does not panic");
        }
    }

    /// The block at `offset`, which is to be the one behind the last that was taken; `None` where it is not, or was not read.
    /// The scan has let go of the last one.
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
                let few = state.ready.len() <= FEW_READY;
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
            // It does not panic, and would tell nothing that the scan does not find out.
            let _ = thread.join();
        }
    }
}
