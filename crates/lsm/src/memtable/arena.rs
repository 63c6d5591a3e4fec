//! Entries: bytes that are written once, before they are published, and stay at their address until the
//! memtable is dropped.
//!
//! ```text
//! u64  version
//! u32  length of the key
//! u32  length of the value; u32::MAX: the key is deleted
//!      key, value
//! ```
#![allow(unsafe_code)]

use std::{
    cmp::Ordering,
    marker::PhantomData,
    mem::MaybeUninit,
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use isomer_storage::{MemoryBudget, MemoryKind, OverBudget, Reservation, Version};
use parking_lot::Mutex;

/// Bytes of the first chunk; further chunks double in size, up to the maximum. Entries of more than a quarter
/// of the maximum get a chunk of their size.
const FIRST_CHUNK_BYTES: usize = 16 << 10;
const CHUNK_BYTES: usize = 1 << 20;
const HEADER_BYTES: usize = 16;
const DELETED: u32 = u32::MAX;

/// An entry of an [`Arena`], which lives for at least `'a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryRef<'a>(NonNull<u8>, PhantomData<&'a [u8]>);

// SAFETY: an entry is bytes that do not change after `Arena::add` returned; the pointer is passed to other
// threads through an atomic with release and acquire.
unsafe impl Send for EntryRef<'_> {}
// SAFETY: as above, shared reading of bytes that do not change.
unsafe impl Sync for EntryRef<'_> {}

impl<'a> EntryRef<'a> {
    /// The entry at an address; `None` for null.
    ///
    /// # Safety
    /// The address is null or one that [`Arena::add`] returned, and that arena lives for at least `'a`.
    pub unsafe fn from_ptr(pointer: *mut u8) -> Option<Self> {
        NonNull::new(pointer).map(|at| Self(at, PhantomData))
    }

    /// Its address, for the atomic words of nodes.
    pub fn as_ptr(self) -> *mut u8 {
        self.0.as_ptr()
    }

    /// The commit that wrote it.
    pub fn version(self) -> Version {
        // SAFETY: `Arena::add` wrote a u64 at this aligned address; it is not written again, and its arena lives.
        unsafe { self.0.cast::<u64>().read() }
    }

    /// Prefetches the beginning of the entry. A hint.
    #[inline]
    pub fn prefetch(self) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: prefetching has no effect but on time, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(self.0.as_ptr().cast()) };
        }
    }

    fn lengths(self) -> (usize, u32) {
        // SAFETY: as in `version`; the two lengths follow it.
        let (key, value) = unsafe {
            (
                self.0.add(8).cast::<u32>().read(),
                self.0.add(12).cast::<u32>().read(),
            )
        };
        (key as usize, value)
    }

    /// Its key.
    pub fn key(self) -> &'a [u8] {
        let (key, _) = self.lengths();
        // SAFETY: this many bytes were written after the header; they do not change, and the arena lives for `'a`.
        unsafe { std::slice::from_raw_parts(self.0.add(HEADER_BYTES).as_ptr(), key) }
    }

    /// Its value, `None` for a deletion.
    pub fn value(self) -> Option<&'a [u8]> {
        let (key, value) = self.lengths();
        if value == DELETED {
            return None;
        }
        // SAFETY: as for the key, which precedes it.
        Some(unsafe {
            std::slice::from_raw_parts(self.0.add(HEADER_BYTES + key).as_ptr(), value as usize)
        })
    }

    /// Order of entries: ascending keys, descending versions.
    pub fn compare(self, key: &[u8], version: Version) -> Ordering {
        self.key()
            .cmp(key)
            .then_with(|| version.cmp(&self.version()))
    }
}

/// Chunks of dropped memtables, for reuse by later ones: committing threads fill memory that is already
/// allocated, and the memory of memtables does not depend on which threads committed.
///
/// If there is a budget, all memory of memtables is reserved in it before a commit fills it.
#[derive(Debug)]
pub struct Chunks {
    free: Mutex<Vec<Chunk>>,
    /// Largest number of chunks kept.
    most: usize,
    /// Bytes in use by memtables, and bytes that are free.
    allocated: AtomicUsize,
    reserved: Option<Mutex<Reservation>>,
    /// Bytes that are always reserved, so that a small commit finds room.
    least: usize,
}

/// The part of a budget that memtables always keep, as a fraction of it and as a maximum.
const MIN_SHARE: usize = 256;
const MIN_SHARE_BYTES: usize = 256 << 10;

impl Chunks {
    /// Keeps at most `bytes` for reuse.
    pub fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            free: Mutex::default(),
            most: bytes / CHUNK_BYTES,
            allocated: AtomicUsize::new(0),
            reserved: None,
            least: 0,
        })
    }

    /// Like [`Chunks::new`], with all memory reserved in a budget.
    pub fn within(memory: &MemoryBudget, bytes: usize) -> Result<Arc<Self>, OverBudget> {
        let least = (memory.total_bytes() / MIN_SHARE).min(MIN_SHARE_BYTES);
        let reserved = memory.reserve(MemoryKind::Memtables, least)?;
        Ok(Arc::new(Self {
            free: Mutex::default(),
            most: bytes / CHUNK_BYTES,
            allocated: AtomicUsize::new(0),
            reserved: Some(Mutex::new(reserved)),
            least,
        }))
    }

    /// Reserves the memory of memtables, and `more` bytes.
    pub fn reserve(&self, more: usize) -> Result<(), OverBudget> {
        let Some(reserved) = &self.reserved else {
            return Ok(());
        };
        // Free chunks are used first.
        let allocated = self.allocated.load(Relaxed);
        let target = (allocated + more)
            .saturating_sub(self.bytes())
            .max(allocated);
        let mut reserved = reserved.lock();
        match target.checked_sub(reserved.bytes()) {
            Some(lacking) if lacking > 0 => reserved.grow(lacking),
            _ => Ok(()),
        }
    }

    /// Bytes that are always reserved.
    pub fn least_bytes(&self) -> usize {
        self.least
    }

    fn note_allocated(&self, bytes: usize) {
        self.allocated.fetch_add(bytes, Relaxed);
    }

    /// Returns freed memory to the budget.
    fn note_freed(&self, bytes: usize) {
        let left = self.allocated.fetch_sub(bytes, Relaxed) - bytes;
        if let Some(reserved) = &self.reserved {
            let mut reserved = reserved.lock();
            let keeps = left.max(self.least);
            let beyond = reserved.bytes().saturating_sub(keeps);
            reserved.shrink(beyond.min(bytes));
        }
    }

    /// Frees the unused chunks.
    pub fn clear(&self) {
        let free = std::mem::take(&mut *self.free.lock());
        let bytes = free.len() * CHUNK_BYTES;
        drop(free);
        self.note_freed(bytes);
    }

    /// Bytes of the unused chunks.
    pub fn bytes(&self) -> usize {
        self.free.lock().len() * CHUNK_BYTES
    }

    fn take(&self) -> Option<Chunk> {
        self.free.lock().pop()
    }

    /// Keeps an unused chunk if it is of [`CHUNK_BYTES`] and there is room for it, or frees it.
    fn give(&self, chunk: Chunk) {
        let bytes = chunk.bytes();
        let mut free = self.free.lock();
        if bytes == CHUNK_BYTES && free.len() < self.most {
            free.push(chunk);
            return;
        }
        drop(free);
        drop(chunk);
        self.note_freed(bytes);
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Memory for words. Its owner alone frees it, by dropping it.
#[derive(Debug)]
struct Chunk {
    first: NonNull<MaybeUninit<u64>>,
    words: usize,
}

// SAFETY: the memory belongs to the chunk, and nothing in it is bound to a thread.
unsafe impl Send for Chunk {}

impl Chunk {
    fn new(words: usize) -> Self {
        let memory: Box<[MaybeUninit<u64>]> = Box::new_uninit_slice(words);
        // Only the pointer is kept, so that no exclusive reference to the chunk aliases the entries.
        let first = NonNull::from(Box::leak(memory)).cast();
        Self { first, words }
    }

    fn bytes(&self) -> usize {
        self.words * 8
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        let slice = NonNull::slice_from_raw_parts(self.first, self.words);
        // SAFETY: this is the box that `new` leaked, and a chunk is dropped once. Entries and nodes in it were
        // made with the promise not to be used after their arena.
        drop(unsafe { Box::from_raw(slice.as_ptr()) });
    }
}

/// The memory of entries and nodes. One thread adds at a time.
#[derive(Debug)]
pub struct Arena {
    /// Chunks as they were allocated.
    chunks: Vec<Chunk>,
    /// The unused rest of the last chunk.
    free: Option<(NonNull<u8>, usize)>,
    bytes: usize,
    /// Source and destination of full-sized chunks.
    shared: Arc<Chunks>,
}

// SAFETY: the arena owns its chunks, and `free` is a part of one; nothing in it is bound to a thread.
unsafe impl Send for Arena {}

impl Arena {
    /// An empty one.
    pub fn new(shared: Arc<Chunks>) -> Self {
        Self {
            chunks: Vec::new(),
            free: None,
            bytes: 0,
            shared,
        }
    }

    /// Writes a value to a stable address. The caller drops it, before the arena is dropped.
    pub fn place<T>(&mut self, value: T) -> *mut T {
        const { assert!(align_of::<T>() <= 8) };
        let at = self.room(size_of::<T>().next_multiple_of(8)).cast::<T>();
        // SAFETY: `room` returns this many bytes, aligned to 8, that belong to this arena and are not used
        // otherwise.
        unsafe { at.write(value) };
        at.as_ptr()
    }

    /// Bytes allocated.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Copies an entry; returns the address from which [`EntryRef::from_ptr`] reads it while the arena lives.
    pub fn add(&mut self, key: &[u8], version: Version, value: Option<&[u8]>) -> NonNull<u8> {
        let value_bytes = value.unwrap_or_default();
        let size = (HEADER_BYTES + key.len() + value_bytes.len()).next_multiple_of(8);
        let at = self.room(size);
        let key_len = u32::try_from(key.len()).expect("a key is at most 64 KiB");
        let value_len = value.map_or(DELETED, |value| {
            u32::try_from(value.len()).expect("a value is at most 64 MiB")
        });
        // SAFETY: `room` returns `size` bytes, aligned to 8, that belong to this arena and are not used
        // otherwise.
        unsafe {
            at.cast::<u64>().write(version);
            at.add(8).cast::<u32>().write(key_len);
            at.add(12).cast::<u32>().write(value_len);
            std::ptr::copy_nonoverlapping(key.as_ptr(), at.add(HEADER_BYTES).as_ptr(), key.len());
            std::ptr::copy_nonoverlapping(
                value_bytes.as_ptr(),
                at.add(HEADER_BYTES + key.len()).as_ptr(),
                value_bytes.len(),
            );
        }
        at
    }

    /// `size` bytes, a multiple of 8.
    fn room(&mut self, size: usize) -> NonNull<u8> {
        if size > CHUNK_BYTES / 4 {
            return self.allocate(size);
        }
        let (at, free) = match self.free {
            Some((at, free)) if free >= size => (at, free),
            _ => {
                let bytes = self.bytes.clamp(FIRST_CHUNK_BYTES, CHUNK_BYTES);
                let bytes = bytes.next_power_of_two().max(size);
                (self.allocate(bytes), bytes)
            }
        };
        // SAFETY: `size <= free`, so this stays within the chunk (or one past its end).
        self.free = Some((unsafe { at.add(size) }, free - size));
        at
    }

    fn allocate(&mut self, size: usize) -> NonNull<u8> {
        let words = size.div_ceil(8);
        let kept = (size == CHUNK_BYTES).then(|| self.shared.take()).flatten();
        let chunk = kept.unwrap_or_else(|| {
            self.shared.note_allocated(words * 8);
            Chunk::new(words)
        });
        let first = chunk.first.cast();
        self.bytes += chunk.bytes();
        self.chunks.push(chunk);
        first
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for chunk in self.chunks.drain(..) {
            self.shared.give(chunk);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The entry at an address of `arena`.
    fn entry(arena: &Arena, at: NonNull<u8>) -> EntryRef<'_> {
        let chunks = arena.chunks.iter();
        let is_inside = |chunk: &Chunk| {
            let first = chunk.first.cast::<u8>().as_ptr() as usize;
            (first..first + chunk.bytes()).contains(&(at.as_ptr() as usize))
        };
        assert!(chunks.into_iter().any(is_inside), "an entry of the arena");
        // SAFETY: the tests below pass what `add` of this arena returned, which lives as long as the result.
        unsafe { EntryRef::from_ptr(at.as_ptr()) }.expect("an address")
    }

    /// Entries of all sizes, across chunks, are read as they were written.
    #[test]
    fn entries_keep_their_bytes() {
        let mut arena = Arena::new(Chunks::new(4 * CHUNK_BYTES));
        let sizes = [0, 1, 7, 8, 9, 1000, CHUNK_BYTES / 4, CHUNK_BYTES * 2];
        let entries: Vec<_> = (0..40)
            .flat_map(|round: u64| sizes.map(|size| (round, size)))
            .map(|(round, size)| {
                let value = vec![round as u8; size];
                let value = (round % 3 != 0).then_some(&value[..]);
                let key = vec![round as u8; 1 + size % 100];
                (arena.add(&key, round, value), round, size)
            })
            .collect();
        for (at, round, size) in entries {
            let entry = entry(&arena, at);
            assert_eq!(entry.version(), round);
            assert_eq!(entry.key(), vec![round as u8; 1 + size % 100]);
            let expected = (round % 3 != 0).then(|| vec![round as u8; size]);
            assert_eq!(entry.value(), expected.as_deref());
        }
        assert!(arena.bytes() > 26 * CHUNK_BYTES * 2);
    }

    /// Chunks of one arena are reused by the next, up to the limit; contents do not mix.
    #[test]
    fn chunks_are_used_again() {
        let chunks = Chunks::new(3 * CHUNK_BYTES);
        for round in 0..4u64 {
            let mut arena = Arena::new(chunks.clone());
            let entries: Vec<_> = (0..50_000u64)
                .map(|number| {
                    let value = number.to_le_bytes();
                    arena.add(&value, round, Some(&[value; 10].concat()))
                })
                .collect();
            for (number, at) in (0u64..).zip(entries) {
                let entry = entry(&arena, at);
                assert_eq!(entry.key(), number.to_le_bytes());
                assert_eq!(entry.version(), round);
            }
            assert!(arena.bytes() > 4 * CHUNK_BYTES);
            drop(arena);
            assert_eq!(chunks.bytes(), 3 * CHUNK_BYTES);
        }
        chunks.clear();
        assert_eq!(chunks.bytes(), 0);
    }

    #[test]
    fn keys_ascend_and_versions_descend() {
        let mut arena = Arena::new(Chunks::new(0));
        let at = arena.add(b"key", 5, None);
        let entry = entry(&arena, at);
        assert_eq!(entry.compare(b"key", 5), Ordering::Equal);
        assert_eq!(entry.compare(b"key", 6), Ordering::Greater);
        assert_eq!(entry.compare(b"key", 4), Ordering::Less);
        assert_eq!(entry.compare(b"kez", 9), Ordering::Less);
        assert_eq!(entry.compare(b"kex", 1), Ordering::Greater);
    }
}
