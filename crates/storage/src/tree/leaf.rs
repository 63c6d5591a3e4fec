//! The pairs of a leaf: keys and short values are stored consecutively in one buffer, long values are shared.

use std::{ops::Range, sync::Arc};

/// Values of up to this many bytes are stored next to their keys and copied with the leaf; longer ones are
/// shared.
const SHORT: usize = 128;

/// Pairs, ascending by key. Memory: one buffer for all keys and short values, 8 bytes per pair.
#[derive(Debug, Default)]
pub(super) struct Leaf {
    bytes: Vec<u8>,
    pairs: Vec<Pair>,
    /// Longer values; their index in it is stored after the key. Most leaves do not have any.
    long: Vec<Arc<[u8]>>,
    /// How many of `bytes` belong to no pair any more.
    waste: usize,
}

/// Where a pair is stored: its key from `at` on, followed by a short value, or by the index of a long one.
#[derive(Clone, Copy, Debug)]
struct Pair {
    at: u32,
    /// Bytes of the key, and in the lowest 8 bits those of a short value, or `LONG`.
    lengths: u32,
}

/// Marks a long value.
const LONG: u32 = 0xff;
const _: () = assert!((SHORT as u32) < LONG && crate::MAX_KEY_BYTES < 1 << 24);

/// Bytes of an index into [`Leaf::long`].
const PLACE_BYTES: usize = 4;

impl Pair {
    fn key_end(self) -> usize {
        self.at as usize + (self.lengths >> 8) as usize
    }

    fn key(self) -> Range<usize> {
        self.at as usize..self.key_end()
    }

    /// Bytes of a short value.
    fn short(self) -> Option<usize> {
        Some(self.lengths & 0xff)
            .filter(|len| *len != LONG)
            .map(|len| len as usize)
    }

    /// Bytes that it takes in the leaf's buffer.
    fn own_bytes(self) -> usize {
        (self.lengths >> 8) as usize + self.short().unwrap_or(PLACE_BYTES)
    }
}

/// A pair to be copied into a leaf.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    key: &'a [u8],
    value: &'a [u8],
    /// The value, if it is shared already.
    shared: Option<&'a Arc<[u8]>>,
}

impl<'a> Source<'a> {
    pub(super) fn of(&(key, value): &super::Pair<'a>) -> Self {
        Self::new(key, value)
    }

    fn new(key: &'a [u8], value: &'a [u8]) -> Self {
        Self {
            key,
            value,
            shared: None,
        }
    }

    /// Bytes that it takes in a leaf's buffer.
    fn own_bytes(&self) -> usize {
        self.key.len()
            + match self.value.len() {
                len @ 0..=SHORT => len,
                _ => PLACE_BYTES,
            }
    }
}

impl Leaf {
    /// A leaf of these pairs, ascending by key.
    pub(super) fn of(sources: &[Source<'_>]) -> Self {
        Self::with_room(sources.iter().copied(), sources.len())
    }

    fn with_room<'a>(sources: impl Iterator<Item = Source<'a>> + Clone, room: usize) -> Self {
        let bytes = sources.clone().map(|source| source.own_bytes()).sum();
        let mut leaf = Self {
            bytes: Vec::with_capacity(bytes),
            pairs: Vec::with_capacity(room),
            long: Vec::new(),
            waste: 0,
        };
        for source in sources {
            let pair = leaf.hold(source);
            leaf.pairs.push(pair);
        }
        leaf
    }

    pub(super) fn len(&self) -> usize {
        self.pairs.len()
    }

    pub(super) fn key(&self, at: usize) -> &[u8] {
        &self.bytes[self.pairs[at].key()]
    }

    pub(super) fn value(&self, at: usize) -> &[u8] {
        let pair = self.pairs[at];
        match pair.short() {
            Some(len) => &self.bytes[pair.key_end()..][..len],
            None => &self.long[self.place(pair)],
        }
    }

    /// Index of the long value of a pair.
    fn place(&self, pair: Pair) -> usize {
        let place = self.bytes[pair.key_end()..].first_chunk::<PLACE_BYTES>();
        u32::from_le_bytes(*place.expect("a place stands behind the key")) as usize
    }

    /// The pair at an index, to be copied into another leaf.
    pub(super) fn source(&self, at: usize) -> Source<'_> {
        let pair = self.pairs[at];
        Source {
            key: self.key(at),
            value: self.value(at),
            shared: match pair.short() {
                Some(_) => None,
                None => Some(&self.long[self.place(pair)]),
            },
        }
    }

    /// Number of keys below `key`.
    pub(super) fn below(&self, key: &[u8]) -> usize {
        let (mut from, mut to) = (0, self.pairs.len());
        while from < to {
            let middle = (from + to) / 2;
            match self.key(middle) < key {
                true => from = middle + 1,
                false => to = middle,
            }
        }
        from
    }

    /// Index of `key`, or where it would be inserted.
    pub(super) fn search(&self, key: &[u8]) -> Result<usize, usize> {
        let at = self.below(key);
        match at < self.len() && self.key(at) == key {
            true => Ok(at),
            false => Err(at),
        }
    }

    /// Inserts a pair at the index where its key belongs.
    pub(super) fn insert(&mut self, at: usize, key: &[u8], value: &[u8]) {
        let pair = self.hold(Source::new(key, value));
        self.pairs.insert(at, pair);
    }

    /// Replaces the value of the key at an index; returns the length of the old one.
    pub(super) fn replace(&mut self, at: usize, value: &[u8]) -> usize {
        let (pair, old) = (self.pairs[at], self.value(at).len());
        if value.len() == old && old <= SHORT {
            self.bytes[pair.key_end()..][..old].copy_from_slice(value);
            return old;
        }
        let key = self.key(at).to_vec();
        self.pairs[at] = self.hold(Source::new(&key, value));
        self.let_go(pair);
        self.close_gaps();
        old
    }

    /// Removes the pairs at some indexes.
    pub(super) fn remove(&mut self, places: Range<usize>) {
        places.clone().for_each(|at| self.let_go(self.pairs[at]));
        self.pairs.drain(places);
        self.close_gaps();
    }

    /// Moves the pairs from an index on into a new leaf.
    pub(super) fn split_off(&mut self, at: usize) -> Self {
        let right = Self::with_room(
            (at..self.len()).map(|at| self.source(at)),
            self.len() - at + 1,
        );
        self.remove(at..self.len());
        right
    }

    /// Appends the pairs of a leaf whose keys are all greater.
    pub(super) fn append(&mut self, right: &Self) {
        for at in 0..right.len() {
            let pair = self.hold(right.source(at));
            self.pairs.push(pair);
        }
    }

    /// Appends key and value to the buffer.
    fn hold(&mut self, source: Source<'_>) -> Pair {
        let narrow = |len: usize| u32::try_from(len).expect("a leaf is far below 4 GiB");
        let at = narrow(self.bytes.len());
        self.bytes.extend_from_slice(source.key);
        let value = match source.value.len() {
            len @ 0..=SHORT => {
                self.bytes.extend_from_slice(source.value);
                len as u32
            }
            _ => {
                let place = narrow(self.long.len());
                self.bytes.extend_from_slice(&place.to_le_bytes());
                let shared = source.shared.cloned();
                self.long
                    .push(shared.unwrap_or_else(|| source.value.into()));
                LONG
            }
        };
        Pair {
            at,
            lengths: narrow(source.key.len()) << 8 | value,
        }
    }

    /// Counts the bytes that a removed pair leaves unused; a long value is dropped at once.
    fn let_go(&mut self, pair: Pair) {
        self.waste += pair.own_bytes();
        if pair.short().is_none() {
            let place = self.place(pair);
            self.long[place] = Arc::default();
        }
    }

    /// Compacts the buffer once more than half of it is unused.
    fn close_gaps(&mut self) {
        if self.waste > self.bytes.len() / 2 {
            *self = self.clone();
        }
    }
}

/// A copy has no unused bytes.
impl Clone for Leaf {
    fn clone(&self) -> Self {
        Self::with_room((0..self.len()).map(|at| self.source(at)), self.len() + 1)
    }
}
