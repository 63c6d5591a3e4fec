//! Entries: bytes that are written once, before anybody can find them, and stay where they are until the memtable goes.
//!
//! ```text
//! u64  version
//! u32  length of the key
//! u32  length of the value; u32::MAX: the key is deleted
//!      key, value
//! ```
#![allow(unsafe_code)]

use std::{cmp::Ordering, mem::MaybeUninit, ptr::NonNull, sync::Arc};

use isomer_storage::Version;
use parking_lot::Mutex;

/// Bytes that the arena asks for at first, and then twice as many each time, up to the most. Entries of more than a quarter
/// of the most get a piece of their own.
const FIRST_CHUNK_BYTES: usize = 16 << 10;
const CHUNK_BYTES: usize = 1 << 20;
const HEADER_BYTES: usize = 16;
const DELETED: u32 = u32::MAX;

/// An entry of an [`Arena`].
///
/// It may be read as long as the arena lives: whoever holds one (nodes, cursors) is held by the memtable, or holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry(NonNull<u8>);

// Sound: an entry is bytes that nobody changes after `Arena::add` returned; the pointer travels to other threads through
// an atomic with release and acquire.
unsafe impl Send for Entry {}
// Sound: as above, shared reading of bytes that do not change.
unsafe impl Sync for Entry {}

impl Entry {
    /// The entry behind a pointer that [`Entry::as_ptr`] gave.
    pub fn from_ptr(pointer: *mut u8) -> Option<Self> {
        NonNull::new(pointer).map(Self)
    }

    /// Its address, for the atomic words of nodes.
    pub fn as_ptr(self) -> *mut u8 {
        self.0.as_ptr()
    }

    /// The commit that wrote it.
    pub fn version(self) -> Version {
        // Sound: `Arena::add` wrote a u64 at this aligned address and nobody writes it again.
        unsafe { self.0.cast::<u64>().read() }
    }

    /// Asks for its beginning to come near. A hint.
    #[inline]
    pub fn prefetch(self) {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // Sound: prefetching has no effect but on time, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(self.0.as_ptr().cast()) };
        }
    }

    fn lengths(self) -> (usize, u32) {
        // Sound: as in `version`; the two lengths follow it.
        let (key, value) = unsafe {
            (
                self.0.add(8).cast::<u32>().read(),
                self.0.add(12).cast::<u32>().read(),
            )
        };
        (key as usize, value)
    }

    /// Its key. The caller holds the arena for at least `'a`.
    pub fn key<'a>(self) -> &'a [u8] {
        let (key, _) = self.lengths();
        // Sound: so many bytes were written behind the header, and do not change while the arena lives.
        unsafe { std::slice::from_raw_parts(self.0.add(HEADER_BYTES).as_ptr(), key) }
    }

    /// Its value, `None` for a deletion. The caller holds the arena for at least `'a`.
    pub fn value<'a>(self) -> Option<&'a [u8]> {
        let (key, value) = self.lengths();
        if value == DELETED {
            return None;
        }
        // Sound: as for the key, which it follows.
        Some(unsafe {
            std::slice::from_raw_parts(self.0.add(HEADER_BYTES + key).as_ptr(), value as usize)
        })
    }

    /// Order of entries: keys ascend, versions descend.
    pub fn compare(self, key: &[u8], version: Version) -> Ordering {
        self.key()
            .cmp(key)
            .then_with(|| version.cmp(&self.version()))
    }
}

/// Chunks of memtables that are gone, for those that come: whoever commits fills memory that is there, and what
/// memtables hold does not depend on which threads committed.
#[derive(Debug)]
pub struct Chunks {
    free: Mutex<Vec<NonNull<MaybeUninit<u64>>>>,
    /// So many are kept at most.
    most: usize,
}

// Sound: the chunks in the list belong to it, and nothing in them belongs to a thread.
unsafe impl Send for Chunks {}
// Sound: as above; the list is behind a lock.
unsafe impl Sync for Chunks {}

impl Chunks {
    /// Keeps at most `bytes`.
    pub fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            free: Mutex::default(),
            most: bytes / CHUNK_BYTES,
        })
    }

    /// Frees those that nobody uses.
    pub fn clear(&self) {
        let free = std::mem::take(&mut *self.free.lock());
        for chunk in free {
            free_words(chunk, CHUNK_BYTES / 8);
        }
    }

    /// Bytes of those that nobody uses.
    pub fn bytes(&self) -> usize {
        self.free.lock().len() * CHUNK_BYTES
    }

    fn take(&self) -> Option<NonNull<MaybeUninit<u64>>> {
        self.free.lock().pop()
    }

    /// Keeps a chunk of [`CHUNK_BYTES`] that nobody uses any more, or frees it.
    fn give(&self, chunk: NonNull<MaybeUninit<u64>>) {
        let mut free = self.free.lock();
        if free.len() < self.most {
            free.push(chunk);
            return;
        }
        drop(free);
        free_words(chunk, CHUNK_BYTES / 8);
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Allocates room for words.
fn new_words(words: usize) -> NonNull<MaybeUninit<u64>> {
    let chunk: Box<[MaybeUninit<u64>]> = Box::new_uninit_slice(words);
    // The box is given up for its pointer, so that no exclusive reference to the chunk stands beside the entries.
    NonNull::from(Box::leak(chunk)).cast()
}

/// Frees what [`new_words`] allocated for as many; private, and called once for each by its only owner.
fn free_words(chunk: NonNull<MaybeUninit<u64>>, words: usize) {
    let slice = NonNull::slice_from_raw_parts(chunk, words);
    // Sound: this is the box that `new_words` leaked, freed once; entries are not used after their arena.
    drop(unsafe { Box::from_raw(slice.as_ptr()) });
}

/// Where entries and nodes are. One thread adds at a time.
#[derive(Debug)]
pub struct Arena {
    /// Pieces as they were allocated: address and number of words.
    chunks: Vec<(NonNull<MaybeUninit<u64>>, usize)>,
    /// The free rest of the last chunk.
    free: Option<(NonNull<u8>, usize)>,
    bytes: usize,
    /// Where full-sized chunks come from and go to.
    shared: Arc<Chunks>,
}

// Sound: the arena owns its chunks; nothing in it belongs to a thread.
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

    /// Writes a value where it stays. Whoever places it drops it, before the arena goes.
    pub fn place<T>(&mut self, value: T) -> *mut T {
        const { assert!(align_of::<T>() <= 8) };
        let at = self.room(size_of::<T>().next_multiple_of(8)).cast::<T>();
        // Sound: `room` answers so many bytes, aligned to 8, that belong to this arena and that nobody else has.
        unsafe { at.write(value) };
        at.as_ptr()
    }

    /// Bytes allocated.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Copies an entry.
    pub fn add(&mut self, key: &[u8], version: Version, value: Option<&[u8]>) -> Entry {
        let value_bytes = value.unwrap_or_default();
        let size = (HEADER_BYTES + key.len() + value_bytes.len()).next_multiple_of(8);
        let at = self.room(size);
        let key_len = u32::try_from(key.len()).expect("a key is at most 64 KiB");
        let value_len = value.map_or(DELETED, |value| {
            u32::try_from(value.len()).expect("a value is at most 64 MiB")
        });
        // Sound: `room` answers `size` bytes, aligned to 8, that belong to this arena and that nobody else has.
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
        Entry(at)
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
        // Sound: `size <= free`, so this stays within the chunk (or one behind its end).
        self.free = Some((unsafe { at.add(size) }, free - size));
        at
    }

    fn allocate(&mut self, size: usize) -> NonNull<u8> {
        let words = size.div_ceil(8);
        let kept = (size == CHUNK_BYTES).then(|| self.shared.take()).flatten();
        let pointer = kept.unwrap_or_else(|| new_words(words));
        self.chunks.push((pointer, words));
        self.bytes += words * 8;
        pointer.cast()
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for (pointer, words) in self.chunks.drain(..) {
            if words * 8 == CHUNK_BYTES {
                self.shared.give(pointer);
            } else {
                free_words(pointer, words);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What goes in comes out, of all sizes, across chunks.
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
        for (entry, round, size) in entries {
            assert_eq!(entry.version(), round);
            assert_eq!(entry.key(), vec![round as u8; 1 + size % 100]);
            let expected = (round % 3 != 0).then(|| vec![round as u8; size]);
            assert_eq!(entry.value(), expected.as_deref());
        }
        assert!(arena.bytes() > 26 * CHUNK_BYTES * 2);
    }

    /// What one arena gives back is used by the next, up to the bound; contents do not mix.
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
            for (number, entry) in (0u64..).zip(entries) {
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
        let entry = arena.add(b"key", 5, None);
        assert_eq!(entry.compare(b"key", 5), Ordering::Equal);
        assert_eq!(entry.compare(b"key", 6), Ordering::Greater);
        assert_eq!(entry.compare(b"key", 4), Ordering::Less);
        assert_eq!(entry.compare(b"kez", 9), Ordering::Less);
        assert_eq!(entry.compare(b"kex", 1), Ordering::Greater);
    }
}
