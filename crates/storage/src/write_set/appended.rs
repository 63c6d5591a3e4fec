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
        self.sorted.take();
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
        } else {
            self.table().find(self, key)
        };
        found.map(|number| self.value(number))
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
        let hashes = (0..self.len()).map(|number| hash(self.key(number)));
        let mut sampled: Vec<u64> = hashes.filter(|hash| hash % SAMPLED == 0).collect();
        let writes = sampled.len();
        let share = self.len() / SAMPLED as usize;
        if writes < share / 2 || writes > share * 2 {
            return self.key_count() < self.len() / 2;
        }
        sampled.sort_unstable();
        sampled.dedup();
        sampled.len() < writes / 2
    }

    /// Whether one of few writes is of a key in `range`; of many that is not asked.
    pub(super) fn may_touch(&self, range: KeyRange<'_>) -> bool {
        self.writes.len() > 8 * FEW
            || (0..self.writes.len()).any(|number| {
                let key = self.key(number);
                key >= range.start && range.end.is_none_or(|end| key < end)
            })
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
        let compare = |a: &(u64, u32), b: &(u64, u32)| {
            a.0.cmp(&b.0)
                .then_with(|| self.key(a.1 as usize).cmp(self.key(b.1 as usize)))
                .then(a.1.cmp(&b.1))
        };
        order.sort_unstable_by(compare);
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

/// One key in so many is looked at to guess how often keys are written.
const SAMPLED: u64 = 64;

fn hash(key: &[u8]) -> u64 {
    xxh3_64_with_seed(key, *SEED)
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
