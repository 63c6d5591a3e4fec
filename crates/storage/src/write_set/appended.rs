//! Writes in the order in which they were made: two copies and nothing else per write, until one is looked up.

use std::sync::{LazyLock, OnceLock};

use crate::sync::{Mutex, MutexGuard};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{
    content::{Content, Write, WritePosition},
    ordered::Ordered,
    sort::{prefix, sorted},
};
use crate::KeyRange;

/// Number of the latest writes that are searched one by one.
const LINEAR_SEARCH_WRITES: usize = 8;

/// What a write costs in addition to its key and value: 8 bytes before the key, and 8 while it is sorted, or in
/// the table. (Keys that were not written in order take more while the writes with one first byte are sorted.)
const WRITE_BYTES: usize = 16;

/// Puts and deletions in the order in which they were made; a key may occur more than once, the last one
/// counts.
#[derive(Debug, Default)]
pub(super) struct Appended {
    content: Content,
    /// Number of writes when recording began, if it did, and the position of the later ones: they can be
    /// undone.
    recording_from: Option<(usize, WritePosition)>,
    /// The last write of each key, of the writes up to the last lookup.
    table: Mutex<Table>,
    /// The writes of one key in [`SAMPLED`]: position, and the key's hash.
    sampled: Vec<(WritePosition, u64)>,
    /// The smallest and greatest keys, of the writes up to the last lookup.
    bounds: Mutex<Bounds>,
    /// The last writes of each key, ascending by key, built on first use.
    sorted: OnceLock<Vec<WritePosition>>,
}

impl Appended {
    pub(super) fn len(&self) -> usize {
        self.content.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether no more writes may be pushed.
    pub(super) fn is_full(&self) -> bool {
        self.content.is_full()
    }

    /// Bytes of memory, including what looking up and sorting the writes takes.
    pub(super) fn bytes(&self) -> usize {
        self.content.bytes() + WRITE_BYTES * self.len()
    }

    pub(super) fn content_bytes(&self) -> usize {
        self.content.bytes()
    }

    pub(super) fn push(&mut self, key: &[u8], value: Option<&[u8]>) {
        let position = self.content.push(key, value);
        if end_of(key).wrapping_mul(0x9e37_79b9_7f4a_7c15) < u64::MAX / SAMPLED {
            self.sampled.push((position, hash(key)));
        }
        if self.sorted.get().is_some() {
            self.sorted.take();
        }
    }

    fn key(&self, position: WritePosition) -> &[u8] {
        self.content.at(position).0
    }

    /// All writes in the order in which they were made.
    fn all(&self) -> impl Iterator<Item = (WritePosition, Write<'_>)> {
        self.content.since(WritePosition::default())
    }

    /// The write of `key`, if there is one.
    pub(super) fn get(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        if self.len() <= LINEAR_SEARCH_WRITES {
            let of_key = self.all().filter(|(_, write)| write.0 == key);
            return of_key.last().map(|(_, write)| write.1);
        }
        if !self.may_hold(key) {
            return None;
        }
        let position = self.table().find(&self.content, key)?;
        Some(self.content.at(position).1)
    }

    /// False if many writes are not in the table yet and `key` is outside of their bounds: that costs one
    /// comparison per write.
    fn may_hold(&self, key: &[u8]) -> bool {
        if self.len() - self.table.lock().entered < 8 * LINEAR_SEARCH_WRITES {
            return true;
        }
        self.bounds()
            .of(key)
            .is_some_and(|(least, greatest)| self.key(least) <= key && key <= self.key(greatest))
    }

    /// The bounds, with all writes in them.
    fn bounds(&self) -> MutexGuard<'_, Bounds> {
        let mut bounds = self.bounds.lock();
        bounds.enter(&self.content);
        bounds
    }

    /// The table, with all writes in it.
    fn table(&self) -> MutexGuard<'_, Table> {
        let mut table = self.table.lock();
        table.enter(&self.content);
        table
    }

    /// Number of different keys.
    pub(super) fn key_count(&self) -> usize {
        self.table().used
    }

    /// Whether fewer than half of the writes, which are many, are the last of their keys: estimated from the
    /// writes of one key in [`SAMPLED`], and counted if these are not the expected share of all.
    pub(super) fn mostly_obsolete(&self) -> bool {
        let mut sampled: Vec<u64> = self.sampled.iter().map(|(_, hash)| *hash).collect();
        let writes = sampled.len();
        let share = self.len() / SAMPLED as usize;
        if writes < share / 2 || writes > share * 2 {
            return self.key_count() < self.len() / 2;
        }
        sampled.sort_unstable();
        sampled.dedup();
        sampled.len() < writes / 2
    }

    /// For few writes, whether one of them has a key in `range`; for many, whether the range overlaps the
    /// bounds of the writes with the same first byte.
    pub(super) fn may_touch(&self, range: KeyRange<'_>) -> bool {
        let is_in = |key: &[u8]| key >= range.start && range.end.is_none_or(|end| key < end);
        if self.len() <= 8 * LINEAR_SEARCH_WRITES {
            return self.all().any(|(_, write)| is_in(write.0));
        }
        let bounds = self.bounds();
        bounds.within(range).any(|(least, greatest)| {
            self.key(greatest) >= range.start && range.end.is_none_or(|end| self.key(least) < end)
        })
    }

    /// Frees the lookup table; it is rebuilt on demand.
    pub(super) fn forget_table(&self) {
        *self.table.lock() = Table::default();
    }

    /// The last write of each key, ascending by key.
    pub(super) fn slots(&self) -> impl ExactSizeIterator<Item = Write<'_>> {
        let sorted = self.sorted.get_or_init(|| sorted(&self.content));
        sorted.iter().map(|position| self.content.at(*position))
    }

    pub(super) fn mark(&mut self) -> usize {
        let (len, end) = (self.content.len(), self.content.end());
        let (from, _) = *self.recording_from.get_or_insert((len, end));
        len - from
    }

    pub(super) fn rollback_to(&mut self, mark: usize) {
        let Some((from, position)) = self.recording_from else {
            return;
        };
        let first = self.content.since(position).nth(mark);
        if let Some((first, _)) = first {
            self.content.truncate(first, from + mark);
            let kept = self
                .sampled
                .partition_point(|(position, _)| *position < first);
            self.sampled.truncate(kept);
            *self.table.get_mut() = Table::default();
            *self.bounds.get_mut() = Bounds::default();
            self.sorted.take();
        }
    }

    pub(super) fn stop_recording(&mut self) {
        self.recording_from = None;
    }

    /// The same writes in order, with the same savepoint positions.
    pub(super) fn ordered(&self) -> Ordered {
        let mut ordered = Ordered::default();
        let recording_from = self.recording_from.map(|(from, _)| from);
        for (number, (_, (key, value))) in self.all().enumerate() {
            if recording_from == Some(number) {
                ordered.mark();
            }
            match value {
                Some(value) => ordered.put(key, value),
                None => ordered.delete(key),
            }
        }
        if recording_from == Some(self.len()) {
            ordered.mark();
        }
        ordered
    }
}

/// One key in this many is sampled to estimate how often keys are written.
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

/// The writes with the smallest and the greatest key of those that have the same first byte (one kind of key).
#[derive(Debug, Default)]
struct Bounds {
    /// By the first byte, ascending: few kinds are written at once. Keys of no byte count as 0.
    kinds: Vec<(u8, WritePosition, WritePosition)>,
    /// Number of writes that were included.
    entered: usize,
    /// Where the others begin.
    next: WritePosition,
}

impl Bounds {
    /// Includes the writes that are not included yet.
    fn enter(&mut self, content: &Content) {
        if self.entered == content.len() {
            return;
        }
        for (position, (key, _)) in content.since(self.next) {
            let kind = first_byte(key);
            match self.kinds.binary_search_by_key(&kind, |(kind, ..)| *kind) {
                Ok(at) => {
                    let (_, least, greatest) = &mut self.kinds[at];
                    if key > content.at(*greatest).0 {
                        *greatest = position;
                    } else if key < content.at(*least).0 {
                        *least = position;
                    }
                }
                Err(at) => self.kinds.insert(at, (kind, position, position)),
            }
        }
        self.entered = content.len();
        self.next = content.end();
    }

    /// The smallest and the greatest write of the kind of `key`.
    fn of(&self, key: &[u8]) -> Option<(WritePosition, WritePosition)> {
        let kind = first_byte(key);
        let at = self
            .kinds
            .binary_search_by_key(&kind, |(kind, ..)| *kind)
            .ok()?;
        let (_, least, greatest) = self.kinds[at];
        Some((least, greatest))
    }

    /// Those of each kind that `range` may overlap.
    fn within(&self, range: KeyRange<'_>) -> impl Iterator<Item = (WritePosition, WritePosition)> {
        let first = first_byte(range.start);
        let last = range.end.map_or(u8::MAX, first_byte);
        self.kinds
            .iter()
            .filter(move |(kind, ..)| (first..=last).contains(kind))
            .map(|(_, least, greatest)| (*least, *greatest))
    }
}

fn first_byte(key: &[u8]) -> u8 {
    key.first().copied().unwrap_or_default()
}

/// Last write of each key, by the key's hash: open addressing, at most half full.
#[derive(Debug, Default)]
struct Table {
    /// Position of a write plus one, 0 for none.
    slots: Vec<u32>,
    used: usize,
    /// Number of writes that are in it.
    entered: usize,
    /// Where the others begin.
    next: WritePosition,
}

/// Differs between processes, so that colliding keys cannot be chosen.
static SEED: LazyLock<u64> = LazyLock::new(|| {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
});

impl Table {
    /// The write in a slot.
    fn held(&self, slot: usize) -> Option<WritePosition> {
        self.slots[slot].checked_sub(1).map(WritePosition)
    }

    /// The slot of `key`, or the free one where it belongs.
    fn slot(&self, content: &Content, key: &[u8]) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = hash(key) as usize & mask;
        while let Some(position) = self.held(at)
            && content.at(position).0 != key
        {
            at = (at + 1) & mask;
        }
        at
    }

    fn find(&self, content: &Content, key: &[u8]) -> Option<WritePosition> {
        match self.slots.is_empty() {
            true => None,
            false => self.held(self.slot(content, key)),
        }
    }

    /// Adds the writes that are not in it yet.
    fn enter(&mut self, content: &Content) {
        if self.entered == content.len() {
            return;
        }
        for (position, (key, _)) in content.since(self.next) {
            if self.used * 2 >= self.slots.len() {
                self.grow(content);
            }
            let slot = self.slot(content, key);
            self.used += usize::from(self.slots[slot] == 0);
            self.slots[slot] = position.0 + 1;
        }
        self.entered = content.len();
        self.next = content.end();
    }

    fn grow(&mut self, content: &Content) {
        let larger = vec![0; (self.slots.len() * 2).max(32)];
        let old = std::mem::replace(&mut self.slots, larger);
        for entry in old.into_iter().filter(|entry| *entry != 0) {
            let slot = self.slot(content, content.at(WritePosition(entry - 1)).0);
            self.slots[slot] = entry;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of keys that were written, rolled back and written again one write is sampled.
    #[test]
    fn rolled_back_writes_are_not_sampled() {
        let mut appended = Appended::default();
        let put = |appended: &mut Appended, numbers: std::ops::Range<u32>| {
            numbers.for_each(|number| appended.push(&number.to_be_bytes(), Some(b"value")));
        };
        put(&mut appended, 0..10_000);
        let mark = appended.mark();
        for _ in 0..4 {
            put(&mut appended, 10_000..20_000);
            appended.rollback_to(mark);
        }
        put(&mut appended, 10_000..20_000);
        let positions: Vec<WritePosition> = appended
            .sampled
            .iter()
            .map(|(position, _)| *position)
            .collect();
        assert!(positions.is_sorted_by(|a, b| a < b));
        let share = appended.len() / SAMPLED as usize;
        assert!(
            (share / 2..=share * 2).contains(&positions.len()),
            "{}",
            positions.len()
        );
        for (position, hashed) in &appended.sampled {
            assert_eq!(hash(appended.key(*position)), *hashed);
        }
        assert!(!appended.mostly_obsolete());
        put(&mut appended, 0..20_000);
        put(&mut appended, 0..20_000);
        assert!(appended.mostly_obsolete());
    }
}
