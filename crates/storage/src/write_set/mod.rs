//! A transaction's own writes, with range deletions and savepoints, and their merge with a view.
//!
//! Most transactions only put, delete and get: their writes are appended to a list ([`appended`]), looked up
//! through a hash table once a lookup is made, and sorted once, at commit. A scan over own writes, a deleted
//! range, or keys that are written repeatedly convert them to a sorted map first ([`ordered`]), and they stay
//! so.

mod appended;
mod content;
mod ordered;
mod sort;

use std::{
    collections::btree_map,
    ops::Bound,
    sync::{Arc, OnceLock},
};

use self::{
    appended::Appended,
    ordered::{Ordered, Slot},
};
use crate::{KeyRange, Order, Parked, StorageError, View, Visitor};

/// What a slot costs in addition to its key and value: map entry, two allocations, undo entry.
const SLOT_BYTES: usize = 96;

/// From this many writes on, each doubling triggers a check whether most of them are obsolete.
const MIN_CHECKED_WRITES: usize = 1 << 16;

/// Puts and deletions on top of deleted ranges.
///
/// A key has at most one slot. Ranges are disjoint and never touch; a slot inside a range is newer than the
/// range.
#[derive(Debug, Default)]
pub struct WriteSet {
    /// All writes, unless they are in order.
    appended: Appended,
    ordered: OnceLock<Ordered>,
}

impl WriteSet {
    /// An empty write set.
    pub fn new() -> Self {
        Self::default()
    }

    fn ordered(&self) -> &Ordered {
        self.ordered.get_or_init(|| self.appended.ordered())
    }

    /// Sorts the writes, which frees overwritten values.
    pub fn order(&mut self) {
        self.ordered();
        self.appended = Appended::default();
    }

    /// The writes in order, if they are.
    fn if_ordered(&mut self) -> Option<&mut Ordered> {
        let ordered = self.ordered.get_mut();
        if ordered.is_some() && !self.appended.is_empty() {
            self.appended = Appended::default();
        }
        ordered
    }

    fn ordered_mut(&mut self) -> &mut Ordered {
        self.order();
        self.ordered.get_mut().expect("just made")
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        match self.ordered.get() {
            Some(ordered) => ordered.is_empty(),
            None => self.appended.is_empty(),
        }
    }

    /// Approximate bytes of memory, including the undo log.
    pub fn bytes(&self) -> usize {
        match self.ordered.get() {
            Some(ordered) => ordered.bytes(),
            None => self.appended.bytes(),
        }
    }

    /// Bytes of the keys and values in it.
    pub fn content_bytes(&self) -> usize {
        match self.ordered.get() {
            Some(ordered) => ordered.content_bytes(),
            None => self.appended.content_bytes(),
        }
    }

    /// Upper bound on the bytes that one more pair takes, approximately.
    pub fn cost(key: &[u8], value: &[u8]) -> usize {
        key.len() + value.len() + SLOT_BYTES
    }

    /// Puts a pair.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        match self.if_ordered() {
            Some(ordered) => ordered.put(key, value),
            None => self.append(key, Some(value)),
        }
    }

    /// Deletes a key.
    pub fn delete(&mut self, key: &[u8]) {
        match self.if_ordered() {
            Some(ordered) => ordered.delete(key),
            None => self.append(key, None),
        }
    }

    fn append(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.appended.push(key, value);
        let len = self.appended.len();
        let looked_at = len >= MIN_CHECKED_WRITES && len.is_power_of_two();
        if self.appended.is_full() || looked_at && self.appended.mostly_obsolete() {
            self.order();
        }
    }

    /// Deletes a range.
    pub fn delete_range(&mut self, range: KeyRange<'_>) {
        if !is_empty_range(range) {
            self.ordered_mut().delete_range(range);
        }
    }

    /// The write of `key`: `None` for none, `Some(None)` deleted, `Some(Some(value))` put.
    pub fn get(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        match self.ordered.get() {
            Some(ordered) => ordered.get(key),
            None => self.appended.get(key),
        }
    }

    /// Whether `key` is among [`WriteSet::slots`]: put or deleted individually, not only within a range.
    pub fn has_slot(&self, key: &[u8]) -> bool {
        match self.ordered.get() {
            Some(ordered) => ordered.has_slot(key),
            None => self.appended.get(key).is_some(),
        }
    }

    /// Puts (`Some`) and deletions (`None`), ascending by key.
    pub fn slots(&self) -> impl ExactSizeIterator<Item = (&[u8], Option<&[u8]>)> {
        match self.ordered.get() {
            Some(ordered) => Slots::Ordered(ordered.slots()),
            None => Slots::Appended(self.appended.slots()),
        }
    }

    /// Deleted ranges, ascending; they apply before the slots.
    pub fn deleted_ranges(&self) -> impl ExactSizeIterator<Item = KeyRange<'_>> {
        const NONE: &Ordered = &Ordered::EMPTY;
        self.ordered.get().unwrap_or(NONE).deleted_ranges()
    }

    /// Does now what [`WriteSet::slots`] would do on first use, and frees what only lookups need.
    pub fn prepare(&self) {
        if self.ordered.get().is_none() && self.appended.len() >= MIN_CHECKED_WRITES {
            self.appended.forget_table();
        }
        drop(self.slots());
    }

    /// Begins to record changes, and returns the present position for [`WriteSet::rollback_to`].
    pub fn mark(&mut self) -> usize {
        match self.if_ordered() {
            Some(ordered) => ordered.mark(),
            None => self.appended.mark(),
        }
    }

    /// Undoes every change since `mark`.
    pub fn rollback_to(&mut self, mark: usize) {
        match self.if_ordered() {
            Some(ordered) => ordered.rollback_to(mark),
            None => self.appended.rollback_to(mark),
        }
    }

    /// Drops the undo log: there is no savepoint left.
    pub fn stop_recording(&mut self) {
        match self.if_ordered() {
            Some(ordered) => ordered.stop_recording(),
            None => self.appended.stop_recording(),
        }
    }

    /// Whether these writes may hide or add a pair of `range`, as far as can be determined quickly.
    pub fn may_touch(&self, range: KeyRange<'_>) -> bool {
        self.ordered.get().is_some() || self.appended.may_touch(range)
    }

    /// Calls `visit` with the pairs of `view` under these writes; `parked` as in [`View::visit_on`].
    pub fn visit(
        &self,
        view: &impl View,
        parked: &mut Parked,
        range: KeyRange<'_>,
        order: Order,
        visit: &mut Visitor<'_>,
    ) -> Result<(), StorageError> {
        if is_empty_range(range) {
            return Ok(());
        }
        if !self.may_touch(range) {
            return view.visit_on(parked, range, order, visit);
        }
        self.ordered().visit(view, range, order, visit)
    }
}

/// Slots of either form.
enum Slots<'a, I> {
    Appended(I),
    Ordered(btree_map::Iter<'a, Arc<[u8]>, Slot>),
}

impl<'a, I: ExactSizeIterator<Item = (&'a [u8], Option<&'a [u8]>)>> Iterator for Slots<'a, I> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Appended(slots) => slots.next(),
            Self::Ordered(slots) => slots.next().map(|(key, slot)| (&**key, slot.as_deref())),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = match self {
            Self::Appended(slots) => slots.len(),
            Self::Ordered(slots) => slots.len(),
        };
        (len, Some(len))
    }
}

impl<'a, I: ExactSizeIterator<Item = (&'a [u8], Option<&'a [u8]>)>> ExactSizeIterator
    for Slots<'a, I>
{
}

/// Whether the range is empty.
pub(crate) fn is_empty_range(range: KeyRange<'_>) -> bool {
    range.end.is_some_and(|end| end <= range.start)
}

/// The bounds of a range that is not empty.
pub(crate) fn bounds(range: KeyRange<'_>) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (
        Bound::Included(range.start),
        range.end.map_or(Bound::Unbounded, Bound::Excluded),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::Random;

    /// Random writes, savepoints and lookups, compared with the same writes kept in order from the beginning.
    #[test]
    fn it_agrees_with_the_ordered_write_set() {
        for seed in 0..200 {
            let random = &mut Random(seed);
            let mut writes = WriteSet::new();
            let mut model = Ordered::default();
            let mut marks: Vec<(usize, usize)> = Vec::new();
            let key = |random: &mut Random| {
                vec![b'a' + random.below(5) as u8; 1 + random.below(12) as usize]
            };
            let (orders, undoes) = (random.below(3) == 0, random.below(2) == 0);
            for step in 0..300u64 {
                match random.below(40) {
                    0..20 => {
                        let (key, value) = (key(random), step.to_be_bytes());
                        writes.put(&key, &value);
                        model.put(&key, &value);
                    }
                    20..26 => {
                        let key = key(random);
                        writes.delete(&key);
                        model.delete(&key);
                    }
                    26 if orders => {
                        let (one, other) = (key(random), key(random));
                        let range = KeyRange {
                            start: &one,
                            end: Some(&other),
                        };
                        writes.delete_range(range);
                        if !is_empty_range(range) {
                            model.delete_range(range);
                        }
                    }
                    27 | 28 if undoes => marks.push((writes.mark(), model.mark())),
                    29 if !marks.is_empty() => {
                        let at = random.below(marks.len() as u64) as usize;
                        marks.truncate(at + 1);
                        writes.rollback_to(marks[at].0);
                        model.rollback_to(marks[at].1);
                    }
                    30 if random.below(5) == 0 => {
                        marks.clear();
                        writes.stop_recording();
                        model.stop_recording();
                    }
                    31 if orders => writes.order(),
                    _ => {
                        let (one, other) = (key(random), key(random));
                        assert_eq!(writes.get(&one), model.get(&one));
                        let range = KeyRange {
                            start: &one,
                            end: (step % 3 > 0).then_some(&other[..]),
                        };
                        let touches = model.slots().any(|(key, _)| {
                            **key >= *range.start && range.end.is_none_or(|end| **key < *end)
                        });
                        assert!(writes.may_touch(range) || !touches, "seed {seed}");
                    }
                }
                if step % 50 == 49 {
                    let expected: Vec<_> = model
                        .slots()
                        .map(|(key, slot)| (key.to_vec(), slot.as_deref().map(<[u8]>::to_vec)))
                        .collect();
                    let found = writes.slots();
                    assert_eq!(found.len(), expected.len());
                    let found: Vec<_> = found
                        .map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec)))
                        .collect();
                    assert_eq!(found, expected);
                    for (key, _) in &expected {
                        assert!(writes.has_slot(key));
                    }
                    let key = key(random);
                    assert_eq!(writes.has_slot(&key), model.has_slot(&key));
                    assert!(writes.deleted_ranges().eq(model.deleted_ranges()));
                    assert_eq!(writes.is_empty(), model.is_empty());
                }
            }
        }
    }

    /// Many writes are sorted by another algorithm: keys of all lengths, with and without common prefixes, some
    /// twice.
    #[test]
    fn many_writes_are_sorted() {
        for seed in 0..8 {
            let random = &mut Random(seed);
            let mut writes = WriteSet::new();
            let mut model = std::collections::BTreeMap::new();
            for step in 0..6_000u64 {
                let alphabet = 2 + random.below(2) * 254;
                let len = random.below(1 + seed * 2);
                let mut key = vec![0; random.below(12) as usize];
                key.extend((0..len).map(|_| random.below(alphabet) as u8));
                let value = (random.below(4) > 0).then(|| step.to_be_bytes().to_vec());
                match &value {
                    Some(value) => writes.put(&key, value),
                    None => writes.delete(&key),
                }
                model.insert(key, value);
            }
            let found: Vec<_> = writes.slots().collect();
            assert_eq!(found.len(), model.len());
            for ((key, value), (expected_key, expected)) in found.into_iter().zip(&model) {
                assert_eq!((key, value), (&expected_key[..], expected.as_deref()));
            }
        }
    }

    /// Keys of several kinds interleaved, as records and index entries: one kind is written in order, another
    /// is not, of a third most are written twice.
    #[test]
    fn many_writes_of_several_kinds_are_sorted() {
        let random = &mut Random(5);
        let mut writes = WriteSet::new();
        let mut model = std::collections::BTreeMap::new();
        for step in 0..4_000u32 {
            let mut put = |kind: u8, number: u32| {
                let key = [&[kind, 0, 7][..], &number.to_be_bytes(), b"behind"].concat();
                writes.put(&key, &step.to_be_bytes());
                model.insert(key, step.to_be_bytes());
            };
            put(9, step);
            put(3, random.below(1 << 30) as u32);
            put(200, random.below(1_000) as u32);
        }
        assert!(model.len() < 10_000, "some were written twice");
        let found = writes.slots();
        assert_eq!(found.len(), model.len());
        for ((key, value), (expected_key, expected)) in found.zip(&model) {
            assert_eq!((key, value), (&expected_key[..], Some(&expected[..])));
        }
    }

    /// Writes larger than a chunk of memory are kept, and so are writes beyond the maximum number of chunks.
    #[test]
    fn more_writes_than_fit_are_kept() {
        let mut writes = WriteSet::new();
        let value = |number: u32| vec![number as u8; 200 << 10];
        writes.put(b"large", &vec![7; 1 << 20]);
        for number in 0..70_u32 {
            writes.put(&number.to_be_bytes(), &value(number));
        }
        assert!(writes.ordered.get().is_some(), "in another form by then");
        writes.put(b"last", b"");
        assert_eq!(writes.slots().len(), 72);
        assert_eq!(writes.get(b"large"), Some(Some(&vec![7; 1 << 20][..])));
        for number in 0..70_u32 {
            let found = writes.get(&number.to_be_bytes());
            assert_eq!(found, Some(Some(&value(number)[..])));
        }
    }

    /// Writing one key repeatedly does not fill the memory.
    #[test]
    fn overwritten_values_are_freed() {
        let mut writes = WriteSet::new();
        for number in 0..(3 * MIN_CHECKED_WRITES as u64) {
            writes.put(&(number % 10).to_be_bytes(), &number.to_be_bytes());
        }
        assert!(writes.bytes() < MIN_CHECKED_WRITES, "{}", writes.bytes());
        assert_eq!(writes.slots().len(), 10);
    }
}
