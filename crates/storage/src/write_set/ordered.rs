//! Writes in order, with deleted ranges, and their merge with a view.

use std::{
    collections::{BTreeMap, btree_map},
    ops::{Bound, ControlFlow},
    sync::Arc,
};

use super::{SLOT_BYTES, bounds, is_empty_range};
use crate::{KeyRange, Order, StorageError, View, Visitor};

/// Ordered puts and deletions on top of deleted ranges.
///
/// A key has at most one slot. Ranges are disjoint and never touch; a slot inside a range is newer than the
/// range.
#[derive(Debug, Default)]
pub(super) struct Ordered {
    slots: BTreeMap<Arc<[u8]>, Option<Arc<[u8]>>>,
    deleted_ranges: BTreeMap<Box<[u8]>, Option<Box<[u8]>>>,
    undo: Vec<Undo>,
    /// Whether changes are recorded in `undo`: there is a savepoint.
    recording: bool,
    bytes: usize,
    /// What `undo` holds in addition to the bytes counted in `bytes`: replaced values, keys.
    undo_bytes: usize,
}

pub(super) type Slot = Option<Arc<[u8]>>;
type Interval = (Box<[u8]>, Option<Box<[u8]>>);

/// What an undo entry costs in addition to its keys and values.
const UNDO_BYTES: usize = 64;

/// How to undo one change.
#[derive(Debug)]
enum Undo {
    Slot {
        key: Arc<[u8]>,
        before: Option<Slot>,
    },
    Erased {
        added: Box<[u8]>,
        before: Vec<Interval>,
    },
}

impl Undo {
    /// What it holds in addition to the write set: a slot's own cost covers the entry that removes it again.
    fn bytes(&self) -> usize {
        match self {
            Self::Slot { before: None, .. } => 0,
            Self::Slot { key, before } => {
                let value = before.as_ref().and_then(Option::as_ref);
                UNDO_BYTES + key.len() + value.map_or(0, |value| value.len())
            }
            Self::Erased { added, before } => {
                let before = before.iter();
                UNDO_BYTES
                    + added.len()
                    + before
                        .map(|(start, end)| start.len() + end.as_ref().map_or(0, |end| end.len()))
                        .sum::<usize>()
            }
        }
    }
}

impl Ordered {
    /// No writes.
    pub const EMPTY: Self = Self {
        slots: BTreeMap::new(),
        deleted_ranges: BTreeMap::new(),
        undo: Vec::new(),
        recording: false,
        bytes: 0,
        undo_bytes: 0,
    };

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.deleted_ranges.is_empty()
    }

    /// Approximate bytes of memory, including the undo log.
    pub fn bytes(&self) -> usize {
        self.bytes + self.undo_bytes
    }

    /// Bytes of the keys and values in it.
    pub fn content_bytes(&self) -> usize {
        self.bytes - SLOT_BYTES * (self.slots.len() + self.deleted_ranges.len())
    }

    /// Puts a pair.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        self.set(key, Some(Some(value.into())));
    }

    /// Deletes a key.
    pub fn delete(&mut self, key: &[u8]) {
        let slot = if self.is_range_deleted(key) {
            None
        } else {
            Some(None)
        };
        self.set(key, slot);
    }

    /// Deletes a range.
    pub fn delete_range(&mut self, range: KeyRange<'_>) {
        if is_empty_range(range) {
            return;
        }
        let inside: Vec<Arc<[u8]>> = self
            .slots
            .range::<[u8], _>(bounds(range))
            .map(|(key, _)| key.clone())
            .collect();
        for key in inside {
            self.set(&key, None);
        }
        self.add_deleted_range(range);
    }

    /// The write of `key`: `None` for none, `Some(None)` deleted, `Some(Some(value))` put.
    pub fn get(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        match self.slots.get(key) {
            Some(slot) => Some(slot.as_deref()),
            None if self.is_range_deleted(key) => Some(None),
            None => None,
        }
    }

    pub fn has_slot(&self, key: &[u8]) -> bool {
        self.slots.contains_key(key)
    }

    /// Puts (`Some`) and deletions (`None`), ascending by key.
    pub fn slots(&self) -> btree_map::Iter<'_, Arc<[u8]>, Slot> {
        self.slots.iter()
    }

    /// Deleted ranges, ascending; they apply before the slots.
    pub fn deleted_ranges(&self) -> impl ExactSizeIterator<Item = KeyRange<'_>> {
        self.deleted_ranges.iter().map(|(start, end)| KeyRange {
            start,
            end: end.as_deref(),
        })
    }

    /// Begins to record changes, and returns the present position for [`Ordered::rollback_to`].
    pub fn mark(&mut self) -> usize {
        self.recording = true;
        self.undo.len()
    }

    /// Undoes every change since `mark`.
    pub fn rollback_to(&mut self, mark: usize) {
        while self.undo.len() > mark {
            let undo = self.undo.pop().expect("longer than the mark");
            self.undo_bytes -= undo.bytes();
            match undo {
                Undo::Slot { key, before } => {
                    self.replace(key, before);
                }
                Undo::Erased { added, before } => {
                    self.remove_interval(&added);
                    for (start, end) in before {
                        self.insert_interval(start, end);
                    }
                }
            }
        }
    }

    /// Drops the undo log: there is no savepoint left.
    pub fn stop_recording(&mut self) {
        self.recording = false;
        self.undo = Vec::new();
        self.undo_bytes = 0;
    }

    /// Calls `visit` with the pairs of `view` under these writes.
    pub fn visit(
        &self,
        view: &impl View,
        range: KeyRange<'_>,
        order: Order,
        visit: &mut Visitor<'_>,
    ) -> Result<(), StorageError> {
        if is_empty_range(range) {
            return Ok(());
        }
        if self.is_empty() {
            return view.visit(range, order, visit);
        }
        let own = self.slots.range::<[u8], _>(bounds(range));
        match order {
            Order::Ascending => self.merge(view, self.gaps(range).into_iter(), order, own, visit),
            Order::Descending => self.merge(
                view,
                self.gaps(range).into_iter().rev(),
                order,
                own.rev(),
                visit,
            ),
        }
    }

    /// Merges the pairs of the view's `gaps` with `own`, both in `order`.
    fn merge<'a>(
        &self,
        view: &impl View,
        gaps: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
        order: Order,
        own: impl Iterator<Item = (&'a Arc<[u8]>, &'a Slot)>,
        visit: &mut Visitor<'_>,
    ) -> Result<(), StorageError> {
        let mut own = own.peekable();
        let mut stopped = false;
        for (start, end) in gaps {
            view.visit(KeyRange { start, end }, order, &mut |key, value| {
                while let Some((own_key, slot)) = own.peek() {
                    let compared = match order {
                        Order::Ascending => own_key.as_ref().cmp(key),
                        Order::Descending => key.cmp(own_key.as_ref()),
                    };
                    if compared.is_gt() {
                        break;
                    }
                    let replaces = compared.is_eq();
                    let flow = slot
                        .as_ref()
                        .map_or(ControlFlow::Continue(()), |value| visit(own_key, value));
                    own.next();
                    if flow.is_break() {
                        stopped = true;
                        return flow;
                    }
                    if replaces {
                        return ControlFlow::Continue(());
                    }
                }
                let flow = visit(key, value);
                stopped = flow.is_break();
                flow
            })?;
            if stopped {
                return Ok(());
            }
        }
        for (key, slot) in own {
            if let Some(value) = slot
                && visit(key, value).is_break()
            {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The parts of `range` that are not deleted, ascending.
    fn gaps<'a>(&'a self, range: KeyRange<'a>) -> Vec<(&'a [u8], Option<&'a [u8]>)> {
        let mut gaps = Vec::new();
        let mut at = range.start;
        for (start, end) in self.overlapping(range) {
            if start > at {
                gaps.push((at, Some(start)));
            }
            match end {
                Some(end) => at = end.max(at),
                None => return gaps,
            }
        }
        if range.end.is_none_or(|end| at < end) {
            gaps.push((at, range.end));
        }
        gaps
    }

    /// Deleted intervals that overlap `range`, ascending.
    fn overlapping<'a>(
        &'a self,
        range: KeyRange<'a>,
    ) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> {
        let first = self
            .deleted_ranges
            .range::<[u8], _>((Bound::Unbounded, Bound::Included(range.start)))
            .next_back()
            .filter(|(_, end)| end.as_deref().is_none_or(|end| end > range.start));
        let upper = range.end.map_or(Bound::Unbounded, Bound::Excluded);
        let rest = match range.end {
            Some(end) if end <= range.start => None,
            _ => Some(
                self.deleted_ranges
                    .range::<[u8], _>((Bound::Excluded(range.start), upper)),
            ),
        };
        first
            .into_iter()
            .chain(rest.into_iter().flatten())
            .map(|(start, end)| (&**start, end.as_deref()))
    }

    fn is_range_deleted(&self, key: &[u8]) -> bool {
        let before = self
            .deleted_ranges
            .range::<[u8], _>((Bound::Unbounded, Bound::Included(key)))
            .next_back();
        before.is_some_and(|(_, end)| end.as_deref().is_none_or(|end| key < end))
    }

    /// Adds an interval, merged with those that it overlaps or touches.
    fn add_deleted_range(&mut self, range: KeyRange<'_>) {
        let mut start: Box<[u8]> = range.start.into();
        let mut end: Option<Box<[u8]>> = range.end.map(Into::into);
        let mut joined: Vec<Box<[u8]>> = Vec::new();
        let before = self
            .deleted_ranges
            .range::<[u8], _>((Bound::Unbounded, Bound::Excluded(range.start)))
            .next_back();
        if let Some((first, first_end)) = before
            && first_end
                .as_deref()
                .is_none_or(|first_end| first_end >= range.start)
        {
            joined.push(first.clone());
        }
        let upper = range.end.map_or(Bound::Unbounded, Bound::Included);
        joined.extend(
            self.deleted_ranges
                .range::<[u8], _>((Bound::Included(range.start), upper))
                .map(|(start, _)| start.clone()),
        );
        let mut before = Vec::with_capacity(joined.len());
        for key in joined {
            let old_end = self.remove_interval(&key).expect("listed above");
            if key < start {
                start = key.clone();
            }
            end = match (end, &old_end) {
                (Some(end), Some(old_end)) => Some(end.max(old_end.clone())),
                _ => None,
            };
            before.push((key, old_end));
        }
        self.record(|| Undo::Erased {
            added: start.clone(),
            before,
        });
        self.insert_interval(start, end);
    }

    fn insert_interval(&mut self, start: Box<[u8]>, end: Option<Box<[u8]>>) {
        self.bytes += start.len() + end.as_ref().map_or(0, |end| end.len()) + SLOT_BYTES;
        self.deleted_ranges.insert(start, end);
    }

    fn remove_interval(&mut self, start: &[u8]) -> Option<Option<Box<[u8]>>> {
        let end = self.deleted_ranges.remove(start)?;
        self.bytes -= start.len() + end.as_ref().map_or(0, |end| end.len()) + SLOT_BYTES;
        Some(end)
    }

    fn set(&mut self, key: &[u8], slot: Option<Slot>) {
        if slot.is_none() && !self.slots.contains_key(key) {
            return;
        }
        let key: Arc<[u8]> = key.into();
        let before = self.replace(key.clone(), slot);
        self.record(|| Undo::Slot { key, before });
    }

    fn record(&mut self, undo: impl FnOnce() -> Undo) {
        if self.recording {
            let undo = undo();
            self.undo_bytes += undo.bytes();
            self.undo.push(undo);
        }
    }

    fn replace(&mut self, key: Arc<[u8]>, slot: Option<Slot>) -> Option<Slot> {
        let size =
            |slot: &Slot| key.len() + slot.as_ref().map_or(0, |value| value.len()) + SLOT_BYTES;
        self.bytes += slot.as_ref().map_or(0, size);
        let before = match slot {
            Some(slot) => self.slots.insert(key.clone(), slot),
            None => self.slots.remove(&key),
        };
        self.bytes -= before.as_ref().map_or(0, size);
        before
    }
}
