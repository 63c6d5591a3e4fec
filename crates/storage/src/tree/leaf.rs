//! The pairs of a leaf: keys and short values lie one behind the other in one piece of memory, long values are shared.

use std::{ops::Range, sync::Arc};

/// Values of up to so many bytes lie beside their keys and are copied with the leaf; longer ones are shared.
const SHORT: usize = 128;

/// Pairs, ascending by key. Memory: one piece for all keys and short values, 24 bytes a pair.
#[derive(Debug, Default)]
pub(super) struct Leaf {
    bytes: Vec<u8>,
    pairs: Vec<Pair>,
    /// How many of `bytes` belong to no pair any more.
    waste: usize,
}

/// Where a pair lies: its key from `at` on, a short value behind it.
#[derive(Clone, Debug)]
struct Pair {
    at: u32,
    key_len: u32,
    value: Held,
}

#[derive(Clone, Debug)]
enum Held {
    /// So many bytes behind the key.
    Short(u32),
    Long(Arc<[u8]>),
}

/// A pair to be copied into a leaf.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    key: &'a [u8],
    value: &'a [u8],
    /// Where the value is shared already.
    shared: Option<&'a Arc<[u8]>>,
}

impl<'a> Source<'a> {
    pub(super) fn new(key: &'a [u8], value: &'a [u8]) -> Self {
        Self {
            key,
            value,
            shared: None,
        }
    }

    /// Bytes that it takes beside others.
    fn own_bytes(&self) -> usize {
        self.key.len()
            + match self.value.len() {
                len @ 0..=SHORT => len,
                _ => 0,
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
        let pair = &self.pairs[at];
        &self.bytes[pair.at as usize..][..pair.key_len as usize]
    }

    pub(super) fn value(&self, at: usize) -> &[u8] {
        let pair = &self.pairs[at];
        match &pair.value {
            Held::Short(len) => {
                &self.bytes[pair.at as usize + pair.key_len as usize..][..*len as usize]
            }
            Held::Long(value) => value,
        }
    }

    /// The pair at a place, to be copied into another leaf.
    pub(super) fn source(&self, at: usize) -> Source<'_> {
        Source {
            key: self.key(at),
            value: self.value(at),
            shared: match &self.pairs[at].value {
                Held::Short(_) => None,
                Held::Long(value) => Some(value),
            },
        }
    }

    /// How many keys are below `key`.
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

    /// Where `key` is, else where it belongs.
    pub(super) fn search(&self, key: &[u8]) -> Result<usize, usize> {
        let at = self.below(key);
        match at < self.len() && self.key(at) == key {
            true => Ok(at),
            false => Err(at),
        }
    }

    /// Puts a pair at the place where its key belongs.
    pub(super) fn insert(&mut self, at: usize, key: &[u8], value: &[u8]) {
        let pair = self.hold(Source::new(key, value));
        self.pairs.insert(at, pair);
    }

    /// Gives the key at a place another value; returns how long the old one was.
    pub(super) fn replace(&mut self, at: usize, value: &[u8]) -> usize {
        let old = self.value(at).len();
        if value.len() == old && old <= SHORT {
            let start = self.pairs[at].at as usize + self.pairs[at].key_len as usize;
            self.bytes[start..start + old].copy_from_slice(value);
            return old;
        }
        let key = self.key(at).to_vec();
        let new = self.hold(Source::new(&key, value));
        let old_pair = std::mem::replace(&mut self.pairs[at], new);
        self.let_go(&old_pair);
        old
    }

    /// Takes the pairs of some places out.
    pub(super) fn remove(&mut self, places: Range<usize>) {
        let removed: Vec<Pair> = self.pairs.drain(places).collect();
        removed.iter().for_each(|pair| self.let_go(pair));
    }

    /// Takes the pairs from a place on out, into a leaf of their own.
    pub(super) fn split_off(&mut self, at: usize) -> Self {
        let right = Self::with_room(
            (at..self.len()).map(|at| self.source(at)),
            self.len() - at + 1,
        );
        self.remove(at..self.len());
        right
    }

    /// Appends the pairs of a leaf whose keys are all above.
    pub(super) fn append(&mut self, right: &Self) {
        for at in 0..right.len() {
            let pair = self.hold(right.source(at));
            self.pairs.push(pair);
        }
    }

    /// Copies key and value behind the others.
    fn hold(&mut self, source: Source<'_>) -> Pair {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(source.key);
        let value = match (source.shared, source.value) {
            (Some(shared), _) => Held::Long(shared.clone()),
            (None, value) if value.len() > SHORT => Held::Long(value.into()),
            (None, value) => {
                self.bytes.extend_from_slice(value);
                Held::Short(value.len() as u32)
            }
        };
        let narrow = |len: usize| u32::try_from(len).expect("a leaf is far below 4 GiB");
        Pair {
            at: narrow(at),
            key_len: narrow(source.key.len()),
            value,
        }
    }

    /// Counts what a pair leaves behind, and closes the gaps once they are the larger part.
    fn let_go(&mut self, pair: &Pair) {
        self.waste += pair.key_len as usize;
        if let Held::Short(len) = pair.value {
            self.waste += len as usize;
        }
        if self.waste > self.bytes.len() / 2 {
            *self = self.clone();
        }
    }
}

/// A copy has no gaps.
impl Clone for Leaf {
    fn clone(&self) -> Self {
        Self::with_room((0..self.len()).map(|at| self.source(at)), self.len() + 1)
    }
}
