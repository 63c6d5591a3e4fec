//! Writes as they came: two copies and nothing else each, until somebody asks.

use std::sync::{LazyLock, OnceLock};

use crate::sync::{Mutex, MutexGuard};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{SLOT_BYTES, ordered::Ordered};
use crate::KeyRange;

/// So many of the latest writes are searched one by one.
const FEW: usize = 8;
const DELETED: u32 = u32::MAX;

/// Puts and deletions in the order in which they came; a key may come more than once, the last counts.
#[derive(Debug, Default)]
pub(super) struct Appended {
    content: Content,
    writes: Vec<Write>,
    /// How many writes there were when recording began, if it did: those behind can be undone.
    recording_from: Option<usize>,
    /// The last write of each key, of the writes up to when somebody asked.
    table: Mutex<Table>,
    /// Where their keys lie, of the writes up to when somebody asked.
    bounds: Mutex<Bounds>,
    /// Numbers of the last writes of each key, ascending by key, made when first asked for.
    sorted: OnceLock<Vec<u32>>,
}

/// A key with its value behind it, in [`Content`].
#[derive(Clone, Copy, Debug)]
struct Write {
    at: Place,
    key_len: u32,
    /// `DELETED` for a deletion.
    value_len: u32,
}

impl Appended {
    pub(super) fn len(&self) -> usize {
        self.writes.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.content.len + SLOT_BYTES * self.writes.len()
    }

    pub(super) fn content_bytes(&self) -> usize {
        self.content.len
    }

    pub(super) fn push(&mut self, key: &[u8], value: Option<&[u8]>) {
        let (key_len, value_len) = (
            narrow(key.len()),
            value.map_or(DELETED, |value| narrow(value.len())),
        );
        self.writes.push(Write {
            at: self.content.push(key, value.unwrap_or_default()),
            key_len,
            value_len,
        });
        if self.sorted.get().is_some() {
            self.sorted.take();
        }
    }

    #[inline]
    fn key(&self, number: usize) -> &[u8] {
        self.pair(number).0
    }

    /// Key and value of a write.
    #[inline]
    fn pair(&self, number: usize) -> (&[u8], Option<&[u8]>) {
        let write = self.writes[number];
        let (key, rest) = self.content.from(write.at).split_at(write.key_len as usize);
        let value = (write.value_len != DELETED).then(|| &rest[..write.value_len as usize]);
        (key, value)
    }

    /// What the writes say about `key`.
    pub(super) fn get(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        let found = if self.writes.len() <= FEW {
            (0..self.writes.len())
                .rev()
                .find(|number| self.key(*number) == key)
        } else if !self.may_hold(key) {
            None
        } else {
            self.table().find(self, key)
        };
        found.map(|number| self.pair(number).1)
    }

    /// False where many writes are not in the table yet, and `key` is outside of what they cover: that costs a comparison a write.
    fn may_hold(&self, key: &[u8]) -> bool {
        if self.writes.len() - self.table.lock().entered < 8 * FEW {
            return true;
        }
        let (least, greatest) = self.bounds();
        least <= key && key <= greatest
    }

    /// The least and the greatest key; there must be one.
    fn bounds(&self) -> (&[u8], &[u8]) {
        let mut bounds = self.bounds.lock();
        for number in bounds.entered..self.writes.len() {
            bounds.enter(self, number);
        }
        (self.key(bounds.least), self.key(bounds.greatest))
    }

    /// The table, with all writes in it.
    fn table(&self) -> MutexGuard<'_, Table> {
        let mut table = self.table.lock();
        (table.entered..self.writes.len()).for_each(|number| table.enter(self, number));
        table
    }

    /// Number of different keys.
    pub(super) fn key_count(&self) -> usize {
        self.table().used
    }

    /// Whether fewer than half of the writes, which are many, are the last of their keys: told by the writes of one key in
    /// [`SAMPLED`], and counted where these are not the share of all that they should be.
    pub(super) fn mostly_obsolete(&self) -> bool {
        let keys = (0..self.len()).map(|number| self.key(number));
        let mut sampled: Vec<u64> = keys
            .filter(|key| {
                end_of(key).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 & (SAMPLED - 1) == 0
            })
            .map(hash)
            .collect();
        let writes = sampled.len();
        let share = self.len() / SAMPLED as usize;
        if writes < share / 2 || writes > share * 2 {
            return self.key_count() < self.len() / 2;
        }
        sampled.sort_unstable();
        sampled.dedup();
        sampled.len() < writes / 2
    }

    /// Whether one of few writes is of a key in `range`; of many, whether the range lies between the least and the greatest of them.
    pub(super) fn may_touch(&self, range: KeyRange<'_>) -> bool {
        let is_in = |key: &[u8]| key >= range.start && range.end.is_none_or(|end| key < end);
        if self.writes.len() <= 8 * FEW {
            return (0..self.writes.len()).any(|number| is_in(self.key(number)));
        }
        let (least, greatest) = self.bounds();
        greatest >= range.start && range.end.is_none_or(|end| least < end)
    }

    /// The last write of each key, ascending by key.
    pub(super) fn slots(&self) -> impl ExactSizeIterator<Item = (&[u8], Option<&[u8]>)> {
        let sorted = self.sorted.get_or_init(|| self.sort());
        sorted.iter().map(|number| self.pair(*number as usize))
    }

    fn sort(&self) -> Vec<u32> {
        let mut sorted = Vec::with_capacity(self.writes.len());
        if self.writes.len() < MANY {
            let mut order = self.beginnings(0..self.writes.len() as u32, 0);
            order.sort_unstable_by(|a, b| {
                a.0.cmp(&b.0)
                    .then_with(|| self.key(a.1 as usize).cmp(self.key(b.1 as usize)))
                    .then(a.1.cmp(&b.1))
            });
            self.push_last(&order, &mut sorted);
            return sorted;
        }
        let (numbers, ends) = self.by_first_byte();
        let mut start = 0;
        for end in ends {
            self.push_sorted(&numbers[start..end as usize], &mut sorted);
            start = end as usize;
        }
        sorted
    }

    /// What keys begin with behind their first `common` bytes, with the numbers of the writes.
    fn beginnings(&self, numbers: impl Iterator<Item = u32>, common: usize) -> Vec<(u64, u32)> {
        numbers
            .map(|number| (prefix(&self.key(number as usize)[common..]), number))
            .collect()
    }

    /// The numbers of all writes, those whose keys begin with one byte together, in the order in which they came; and where
    /// those of each first byte end.
    fn by_first_byte(&self) -> (Vec<u32>, [u32; 257]) {
        let group = |number: u32| {
            let first = self.key(number as usize).first();
            first.map_or(0, |byte| usize::from(*byte) + 1)
        };
        let all = 0..self.writes.len() as u32;
        let mut ends = [0; 257];
        all.clone().for_each(|number| ends[group(number)] += 1);
        sums_before(&mut ends);
        let mut numbers = vec![0; self.writes.len()];
        for number in all {
            let at = &mut ends[group(number)];
            numbers[*at as usize] = number;
            *at += 1;
        }
        (numbers, ends)
    }

    /// Of writes whose keys begin alike, the last of each key, ascending by key. Often they came in order: records do.
    fn push_sorted(&self, numbers: &[u32], sorted: &mut Vec<u32>) {
        let key = |number: u32| self.key(number as usize);
        if numbers.is_sorted_by(|a, b| key(*a) < key(*b)) {
            sorted.extend_from_slice(numbers);
            return;
        }
        let first = key(numbers[0]);
        let common = numbers.iter().fold(first.len(), |common, number| {
            let both = first[..common].iter().zip(key(*number));
            both.take_while(|(a, b)| a == b).count()
        });
        let mut order = by_digits(self.beginnings(numbers.iter().copied(), common));
        for same in order.chunk_by_mut(|a, b| a.0 == b.0) {
            if same.len() > 1 {
                // Stable: of one key they stay in the order in which they came.
                same.sort_by(|a, b| key(a.1).cmp(key(b.1)));
            }
        }
        self.push_last(&order, sorted);
    }

    /// The last write of each key, of writes that are in order.
    fn push_last(&self, order: &[(u64, u32)], sorted: &mut Vec<u32>) {
        for (at, (prefix, number)) in order.iter().enumerate() {
            let last = order.get(at + 1).is_none_or(|(next_prefix, next)| {
                prefix != next_prefix || self.key(*number as usize) != self.key(*next as usize)
            });
            if last {
                sorted.push(*number);
            }
        }
    }

    pub(super) fn mark(&mut self) -> usize {
        let from = *self.recording_from.get_or_insert(self.writes.len());
        self.writes.len() - from
    }

    pub(super) fn rollback_to(&mut self, mark: usize) {
        let len = self.recording_from.unwrap_or(self.writes.len()) + mark;
        if let Some(first) = self.writes.get(len) {
            self.content.truncate(first.at);
            self.writes.truncate(len);
            *self.table.get_mut() = Table::default();
            *self.bounds.get_mut() = Bounds::default();
            self.sorted.take();
        }
    }

    pub(super) fn stop_recording(&mut self) {
        self.recording_from = None;
    }

    /// The same writes in order, with the same marks.
    pub(super) fn ordered(&self) -> Ordered {
        let mut ordered = Ordered::default();
        for number in 0..=self.writes.len() {
            if self.recording_from == Some(number) {
                ordered.mark();
            }
            if number < self.writes.len() {
                match self.pair(number) {
                    (key, Some(value)) => ordered.put(key, value),
                    (key, None) => ordered.delete(key),
                }
            }
        }
        ordered
    }
}

fn narrow(len: usize) -> u32 {
    u32::try_from(len).expect("keys and values are far below 4 GiB")
}

/// Where something begins in [`Content`]: a piece, and how far into it.
#[derive(Clone, Copy, Debug)]
struct Place {
    piece: u32,
    offset: u32,
}

/// Bytes that stay where they are put, in pieces that are never copied: one that grew would be copied into twice as much
/// memory again and again, fresh from the operating system where it is large.
#[derive(Debug, Default)]
struct Content {
    /// Each is filled within what it was allocated with.
    pieces: Vec<Vec<u8>>,
    /// Bytes in all of them.
    len: usize,
}

/// Bytes of the first piece; each further one has as many as there are so far, up to the most.
const FIRST_PIECE_BYTES: usize = 1 << 10;
const PIECE_BYTES: usize = 256 << 10;

impl Content {
    /// Puts two strings one behind the other.
    fn push(&mut self, key: &[u8], value: &[u8]) -> Place {
        let needed = key.len() + value.len();
        let piece = match self.pieces.last_mut() {
            Some(last) if last.capacity() - last.len() >= needed => last,
            _ => {
                let usual = self.len.clamp(FIRST_PIECE_BYTES, PIECE_BYTES);
                self.pieces.push(Vec::with_capacity(usual.max(needed)));
                self.pieces.last_mut().expect("just made")
            }
        };
        let offset = narrow(piece.len());
        piece.extend_from_slice(key);
        piece.extend_from_slice(value);
        self.len += needed;
        Place {
            piece: narrow(self.pieces.len() - 1),
            offset,
        }
    }

    /// The rest of the piece from a place on.
    fn from(&self, at: Place) -> &[u8] {
        &self.pieces[at.piece as usize][at.offset as usize..]
    }

    /// Takes everything from a place on out.
    fn truncate(&mut self, at: Place) {
        self.pieces.truncate(at.piece as usize + 1);
        if let Some(last) = self.pieces.last_mut() {
            last.truncate(at.offset as usize);
        }
        self.len = self.pieces.iter().map(Vec::len).sum();
    }
}

/// From so many writes on their keys' beginnings are sorted digit by digit.
const MANY: usize = 2048;

/// Puts the sum of those before it in the place of each number.
fn sums_before(counts: &mut [u32]) {
    let mut sum = 0;
    for count in counts {
        sum += std::mem::replace(count, sum);
    }
}

/// Bits of a digit.
const DIGIT_BITS: u32 = 11;

/// Sorts by the first part, stably: a pass for each digit of it, the lowest first; bits in which no two differ are passed over
/// where a digit would begin with them. Memory: as much again.
fn by_digits(mut pairs: Vec<(u64, u32)>) -> Vec<(u64, u32)> {
    let Some(&(first, _)) = pairs.first() else {
        return pairs;
    };
    let differing = pairs.iter().fold(0, |bits, pair| bits | (pair.0 ^ first));
    let mut sorted = vec![(0, 0); pairs.len()];
    let mut left = differing;
    while left != 0 {
        let shift = left.trailing_zeros();
        left &= !(((1 << DIGIT_BITS) - 1) << shift);
        let digit = |pair: &(u64, u32)| (pair.0 >> shift) as usize & ((1 << DIGIT_BITS) - 1);
        let mut starts = [0_u32; 1 << DIGIT_BITS];
        pairs.iter().for_each(|pair| starts[digit(pair)] += 1);
        sums_before(&mut starts);
        for pair in &pairs {
            let at = &mut starts[digit(pair)];
            sorted[*at as usize] = *pair;
            *at += 1;
        }
        std::mem::swap(&mut pairs, &mut sorted);
    }
    pairs
}

/// One key in so many is looked at to guess how often keys are written; a power of two.
const SAMPLED: u64 = 64;

fn hash(key: &[u8]) -> u64 {
    xxh3_64_with_seed(key, *SEED)
}

/// The last 8 bytes of a key as a number: those that differ most.
fn end_of(key: &[u8]) -> u64 {
    match key.last_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => prefix(key),
    }
}

/// The first 8 bytes of a key as a number, zeros behind its end: smaller where the key is smaller, if it differs.
fn prefix(key: &[u8]) -> u64 {
    match key.first_chunk::<8>() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(bytes)
        }
    }
}

/// The writes of the least and the greatest key.
#[derive(Debug, Default)]
struct Bounds {
    least: usize,
    greatest: usize,
    /// How many of the writes were looked at.
    entered: usize,
}

impl Bounds {
    fn enter(&mut self, writes: &Appended, number: usize) {
        let key = writes.key(number);
        if self.entered == 0 || key < writes.key(self.least) {
            self.least = number;
        }
        if self.entered == 0 || key > writes.key(self.greatest) {
            self.greatest = number;
        }
        self.entered = number + 1;
    }
}

/// Last write of each key, by the key's hash: open addressing, at most half full.
#[derive(Debug, Default)]
struct Table {
    /// Number of a write and one, 0 for none.
    slots: Vec<u32>,
    used: usize,
    /// How many of the writes are in it.
    entered: usize,
}

/// Differs between processes, so that nobody can choose keys that collide.
static SEED: LazyLock<u64> = LazyLock::new(|| {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
});

impl Table {
    /// The slot of `key`, or the free one where it belongs.
    fn slot(&self, writes: &Appended, key: &[u8]) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = hash(key) as usize & mask;
        while self.slots[at] != 0 && writes.key(self.slots[at] as usize - 1) != key {
            at = (at + 1) & mask;
        }
        at
    }

    fn find(&self, writes: &Appended, key: &[u8]) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        (self.slots[self.slot(writes, key)] as usize).checked_sub(1)
    }

    fn enter(&mut self, writes: &Appended, number: usize) {
        if self.used * 2 >= self.slots.len() {
            let old = std::mem::take(&mut self.slots);
            self.slots = vec![0; (old.len() * 2).max(32)];
            for entry in old.into_iter().filter(|entry| *entry != 0) {
                let slot = self.slot(writes, writes.key(entry as usize - 1));
                self.slots[slot] = entry;
            }
        }
        let slot = self.slot(writes, writes.key(number));
        self.used += usize::from(self.slots[slot] == 0);
        self.slots[slot] =
            u32::try_from(number + 1).expect("a write set has fewer than 2^32 writes");
        self.entered = number + 1;
    }
}
