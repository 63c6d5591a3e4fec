//! Writes as they came: two copies and nothing else each, until somebody asks.

use std::sync::{LazyLock, OnceLock};

use crate::sync::{Mutex, MutexGuard};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::{
    SLOT_BYTES,
    content::{Content, Place, Write},
    ordered::Ordered,
    sort::{prefix, sorted},
};
use crate::KeyRange;

/// So many of the latest writes are searched one by one.
const FEW: usize = 8;

/// Puts and deletions in the order in which they came; a key may come more than once, the last counts.
#[derive(Debug, Default)]
pub(super) struct Appended {
    content: Content,
    /// How many writes there were when recording began, if it did, and where those behind begin: they can be undone.
    recording_from: Option<(usize, Place)>,
    /// The last write of each key, of the writes up to when somebody asked.
    table: Mutex<Table>,
    /// The writes of one key in [`SAMPLED`]: where, and the key's hash.
    sampled: Vec<(Place, u64)>,
    /// Where their keys lie, of the writes up to when somebody asked.
    bounds: Mutex<Bounds>,
    /// The last writes of each key, ascending by key, made when first asked for.
    sorted: OnceLock<Vec<Place>>,
}

impl Appended {
    pub(super) fn len(&self) -> usize {
        self.content.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether nothing more may be pushed.
    pub(super) fn is_full(&self) -> bool {
        self.content.is_full()
    }

    pub(super) fn bytes(&self) -> usize {
        self.content.bytes() + SLOT_BYTES * self.len()
    }

    pub(super) fn content_bytes(&self) -> usize {
        self.content.bytes()
    }

    pub(super) fn push(&mut self, key: &[u8], value: Option<&[u8]>) {
        let place = self.content.push(key, value);
        if end_of(key).wrapping_mul(0x9e37_79b9_7f4a_7c15) < u64::MAX / SAMPLED {
            self.sampled.push((place, hash(key)));
        }
        if self.sorted.get().is_some() {
            self.sorted.take();
        }
    }

    fn key(&self, place: Place) -> &[u8] {
        self.content.at(place).0
    }

    /// All writes as they came.
    fn all(&self) -> impl Iterator<Item = (Place, Write<'_>)> {
        self.content.since(Place::default())
    }

    /// What the writes say about `key`.
    pub(super) fn get(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        if self.len() <= FEW {
            let of_key = self.all().filter(|(_, write)| write.0 == key);
            return of_key.last().map(|(_, write)| write.1);
        }
        if !self.may_hold(key) {
            return None;
        }
        let place = self.table().find(&self.content, key)?;
        Some(self.content.at(place).1)
    }

    /// False where many writes are not in the table yet, and `key` is outside of what they cover: that costs a comparison a write.
    fn may_hold(&self, key: &[u8]) -> bool {
        if self.len() - self.table.lock().entered < 8 * FEW {
            return true;
        }
        let (least, greatest) = self.bounds();
        least <= key && key <= greatest
    }

    /// The least and the greatest key; there must be one.
    fn bounds(&self) -> (&[u8], &[u8]) {
        let mut bounds = self.bounds.lock();
        bounds.enter(&self.content);
        (self.key(bounds.least), self.key(bounds.greatest))
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

    /// Whether fewer than half of the writes, which are many, are the last of their keys: told by the writes of one key in
    /// [`SAMPLED`], and counted where these are not the share of all that they should be.
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

    /// Whether one of few writes is of a key in `range`; of many, whether the range lies between the least and the greatest of them.
    pub(super) fn may_touch(&self, range: KeyRange<'_>) -> bool {
        let is_in = |key: &[u8]| key >= range.start && range.end.is_none_or(|end| key < end);
        if self.len() <= 8 * FEW {
            return self.all().any(|(_, write)| is_in(write.0));
        }
        let (least, greatest) = self.bounds();
        greatest >= range.start && range.end.is_none_or(|end| least < end)
    }

    /// The last write of each key, ascending by key.
    pub(super) fn slots(&self) -> impl ExactSizeIterator<Item = Write<'_>> {
        let sorted = self.sorted.get_or_init(|| sorted(&self.content));
        sorted.iter().map(|place| self.content.at(*place))
    }

    pub(super) fn mark(&mut self) -> usize {
        let (len, end) = (self.content.len(), self.content.end());
        let (from, _) = *self.recording_from.get_or_insert((len, end));
        len - from
    }

    pub(super) fn rollback_to(&mut self, mark: usize) {
        let Some((from, place)) = self.recording_from else {
            return;
        };
        let first = self.content.since(place).nth(mark);
        if let Some((first, _)) = first {
            self.content.truncate(first, from + mark);
            let kept = self.sampled.partition_point(|(place, _)| *place < first);
            self.sampled.truncate(kept);
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

/// One key in so many is looked at to guess how often keys are written.
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

/// The writes of the least and the greatest key.
#[derive(Debug, Default)]
struct Bounds {
    least: Place,
    greatest: Place,
    /// How many of the writes were looked at.
    entered: usize,
    /// Where the others begin.
    next: Place,
}

impl Bounds {
    /// Looks at those that were not looked at yet.
    fn enter(&mut self, content: &Content) {
        if self.entered == content.len() {
            return;
        }
        for (place, (key, _)) in content.since(self.next) {
            if self.entered == 0 || key < content.at(self.least).0 {
                self.least = place;
            }
            if self.entered == 0 || key > content.at(self.greatest).0 {
                self.greatest = place;
            }
            self.entered += 1;
        }
        self.next = content.end();
    }
}

/// Last write of each key, by the key's hash: open addressing, at most half full.
#[derive(Debug, Default)]
struct Table {
    /// Place of a write and one, 0 for none.
    slots: Vec<u32>,
    used: usize,
    /// How many of the writes are in it.
    entered: usize,
    /// Where the others begin.
    next: Place,
}

/// Differs between processes, so that nobody can choose keys that collide.
static SEED: LazyLock<u64> = LazyLock::new(|| {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
});

impl Table {
    /// The write that a slot holds.
    fn held(&self, slot: usize) -> Option<Place> {
        self.slots[slot].checked_sub(1).map(Place)
    }

    /// The slot of `key`, or the free one where it belongs.
    fn slot(&self, content: &Content, key: &[u8]) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = hash(key) as usize & mask;
        while let Some(place) = self.held(at)
            && content.at(place).0 != key
        {
            at = (at + 1) & mask;
        }
        at
    }

    fn find(&self, content: &Content, key: &[u8]) -> Option<Place> {
        match self.slots.is_empty() {
            true => None,
            false => self.held(self.slot(content, key)),
        }
    }

    /// Enters those that are not in it yet.
    fn enter(&mut self, content: &Content) {
        if self.entered == content.len() {
            return;
        }
        for (place, (key, _)) in content.since(self.next) {
            if self.used * 2 >= self.slots.len() {
                self.grow(content);
            }
            let slot = self.slot(content, key);
            self.used += usize::from(self.slots[slot] == 0);
            self.slots[slot] = place.0 + 1;
        }
        self.entered = content.len();
        self.next = content.end();
    }

    fn grow(&mut self, content: &Content) {
        let larger = vec![0; (self.slots.len() * 2).max(32)];
        let old = std::mem::replace(&mut self.slots, larger);
        for entry in old.into_iter().filter(|entry| *entry != 0) {
            let slot = self.slot(content, content.at(Place(entry - 1)).0);
            self.slots[slot] = entry;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of keys that were written, undone and written again one write is sampled.
    #[test]
    fn what_was_undone_is_not_sampled() {
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
        let places: Vec<Place> = appended.sampled.iter().map(|(place, _)| *place).collect();
        assert!(places.is_sorted_by(|a, b| a < b));
        let share = appended.len() / SAMPLED as usize;
        assert!(
            (share / 2..=share * 2).contains(&places.len()),
            "{}",
            places.len()
        );
        for (place, hashed) in &appended.sampled {
            assert_eq!(hash(appended.key(*place)), *hashed);
        }
        assert!(!appended.mostly_obsolete());
        put(&mut appended, 0..20_000);
        put(&mut appended, 0..20_000);
        assert!(appended.mostly_obsolete());
    }
}
