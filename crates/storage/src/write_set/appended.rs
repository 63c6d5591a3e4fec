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
    /// Keys and values, one behind the other.
    bytes: Vec<u8>,
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

#[derive(Clone, Copy, Debug)]
struct Write {
    at: usize,
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
        self.bytes.len() + SLOT_BYTES * self.writes.len()
    }

    pub(super) fn content_bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn push(&mut self, key: &[u8], value: Option<&[u8]>) {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value.unwrap_or_default());
        let len = |len: usize| u32::try_from(len).expect("keys and values are far below 4 GiB");
        let (key_len, value_len) = (
            len(key.len()),
            value.map_or(DELETED, |value| len(value.len())),
        );
        self.writes.push(Write {
            at,
            key_len,
            value_len,
        });
        if self.sorted.get().is_some() {
            self.sorted.take();
        }
    }

    fn key(&self, number: usize) -> &[u8] {
        let write = self.writes[number];
        &self.bytes[write.at..write.at + write.key_len as usize]
    }

    fn value(&self, number: usize) -> Option<&[u8]> {
        let write = self.writes[number];
        let start = write.at + write.key_len as usize;
        (write.value_len != DELETED).then(|| &self.bytes[start..start + write.value_len as usize])
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
        found.map(|number| self.value(number))
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
        sorted
            .iter()
            .map(|number| (self.key(*number as usize), self.value(*number as usize)))
    }

    fn sort(&self) -> Vec<u32> {
        let mut order: Vec<(u64, u32)> = (0..self.writes.len())
            .map(|number| (prefix(self.key(number)), number as u32))
            .collect();
        if order.len() >= BY_DIGITS {
            order = by_digits(order);
            for same in order.chunk_by_mut(|a, b| a.0 == b.0) {
                if same.len() > 1 {
                    // Stable: of one key they stay in the order in which they came.
                    same.sort_by(|a, b| self.key(a.1 as usize).cmp(self.key(b.1 as usize)));
                }
            }
        } else {
            order.sort_unstable_by(|a, b| {
                a.0.cmp(&b.0)
                    .then_with(|| self.key(a.1 as usize).cmp(self.key(b.1 as usize)))
                    .then(a.1.cmp(&b.1))
            });
        }
        let mut sorted: Vec<u32> = Vec::with_capacity(order.len());
        for (at, (prefix, number)) in order.iter().enumerate() {
            let last = order.get(at + 1).is_none_or(|(next_prefix, next)| {
                prefix != next_prefix || self.key(*number as usize) != self.key(*next as usize)
            });
            if last {
                sorted.push(*number);
            }
        }
        sorted
    }

    pub(super) fn mark(&mut self) -> usize {
        let from = *self.recording_from.get_or_insert(self.writes.len());
        self.writes.len() - from
    }

    pub(super) fn rollback_to(&mut self, mark: usize) {
        let len = self.recording_from.unwrap_or(self.writes.len()) + mark;
        if let Some(first) = self.writes.get(len) {
            self.bytes.truncate(first.at);
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
                match self.value(number) {
                    Some(value) => ordered.put(self.key(number), value),
                    None => ordered.delete(self.key(number)),
                }
            }
        }
        ordered
    }
}

/// From so many writes on their keys' beginnings are sorted digit by digit.
const BY_DIGITS: usize = 2048;

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
        let mut start = 0;
        for count in &mut starts {
            start += std::mem::replace(count, start);
        }
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
