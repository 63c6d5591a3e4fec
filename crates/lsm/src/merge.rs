//! Merging cursors: all their entries in order, and which of the versions of a key a reader sees (MVCC).
//!
//! The sources are kept sorted by their positions. Most steps leave the source that moved in front: they cost
//! one comparison, and none if the others are at their ends.

use std::{cmp::Ordering, ops::ControlFlow, sync::Arc};

use isomer_storage::{KeyRange, Order, StorageError, Version, Visitor};

use crate::{EntryCursor, EntryKind, RangeTombstones};

/// After this many entries that are too new, the rest of them is skipped by a search.
const STEPS_BEFORE_SEEK: u32 = 6;

/// All entries of several cursors in order, including duplicates of (key, version): the first source comes
/// first.
pub(crate) struct Merge<C> {
    pub(crate) sources: Vec<C>,
    /// Indexes of the sources that have a position, in the order of their entries.
    order: Vec<u32>,
}

impl<C: EntryCursor> Merge<C> {
    pub(crate) fn new(sources: Vec<C>) -> Self {
        Self {
            order: Vec::with_capacity(sources.len()),
            sources,
        }
    }

    /// Moves to the first entry at or after (`key`, newest).
    pub(crate) fn seek(&mut self, key: &[u8]) -> Result<(), StorageError> {
        for source in &mut self.sources {
            source.seek(key, Version::MAX)?;
        }
        self.sort(Order::Ascending);
        Ok(())
    }

    fn sort(&mut self, direction: Order) {
        self.order.clear();
        // Insertion sort: there are a few memtables and runs, and most are in order already.
        for number in 0..self.sources.len() {
            if self.sources[number].valid() {
                self.insert(number as u32, direction);
            }
        }
    }

    fn insert(&mut self, number: u32, direction: Order) {
        let at = self
            .order
            .partition_point(|other| self.compare(*other, number, direction).is_lt());
        self.order.insert(at, number);
    }

    #[inline]
    fn compare(&self, one: u32, other: u32, direction: Order) -> Ordering {
        let (a, b) = (&self.sources[one as usize], &self.sources[other as usize]);
        match direction {
            Order::Ascending => a
                .key()
                .cmp(b.key())
                // The newest version of a key first. Of equal versions, the entry of the newer source: one may
                // be in two places after a crash.
                .then_with(|| b.version().cmp(&a.version()))
                .then(one.cmp(&other)),
            // Within a key all of its sources must be read before the visible version is known.
            Order::Descending => b.key().cmp(a.key()).then(one.cmp(&other)),
        }
    }

    /// The source in front, if there is an entry.
    #[inline]
    pub(crate) fn top(&mut self) -> Option<&mut C> {
        let number = *self.order.first()?;
        Some(&mut self.sources[number as usize])
    }

    /// The index of the source in front.
    pub(crate) fn top_number(&self) -> Option<usize> {
        self.order.first().map(|number| *number as usize)
    }

    /// Moves the source at position `at` of the order, which has advanced, to where it belongs.
    #[inline]
    fn reposition(&mut self, at: usize, direction: Order) {
        let number = self.order[at];
        if !self.sources[number as usize].valid() {
            self.order.remove(at);
            return;
        }
        match self.order.get(at + 1) {
            // Only the source that moved is out of order: one rotation puts it behind
            // those that are now before it.
            Some(next) if self.compare(number, *next, direction).is_gt() => {
                let rest = &self.order[at + 1..];
                let behind =
                    rest.partition_point(|other| self.compare(*other, number, direction).is_lt());
                self.order[at..=at + behind].rotate_left(1);
            }
            _ => {}
        }
    }

    /// Moves to the next entry.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<(), StorageError> {
        if let Some(top) = self.top() {
            top.next()?;
            self.reposition(0, Order::Ascending);
        }
        Ok(())
    }
}

/// What a reader at a version sees in several cursors, in both directions, with range tombstones applied.
pub struct MergeCursor<C> {
    merge: Merge<C>,
    at: Version,
    range_tombstones: Vec<Arc<RangeTombstones>>,
    direction: Order,
    valid: bool,
    /// The end of a visit, so that it does not search for a pair after its range among deleted entries.
    bound: Option<Box<[u8]>>,
    /// Version of the newest range tombstone here; valid for the keys from `span_from` up to `span_until`.
    deleted_at: Version,
    span_from: Vec<u8>,
    span_until: Option<Vec<u8>>,
    span_known: bool,
    /// The current pair, if the direction is descending: the source has moved on.
    key: Vec<u8>,
    value: Vec<u8>,
}

/// Whether a key is at or after the end of the visit.
#[inline]
fn is_behind(key: &[u8], bound: &Option<Box<[u8]>>) -> bool {
    bound.as_ref().is_some_and(|end| *key >= **end)
}

impl<C: EntryCursor> MergeCursor<C> {
    /// What a reader at `at` sees in `sources`, with `range_tombstones` applied to all of them. It has no position at
    /// first.
    pub fn new(sources: Vec<C>, range_tombstones: Vec<Arc<RangeTombstones>>, at: Version) -> Self {
        Self {
            merge: Merge::new(sources),
            at,
            range_tombstones: range_tombstones
                .into_iter()
                .filter(|range_tombstones| !range_tombstones.is_empty())
                .collect(),
            direction: Order::Ascending,
            valid: false,
            bound: None,
            deleted_at: 0,
            span_from: Vec::new(),
            span_until: None,
            span_known: false,
            key: Vec::new(),
            value: Vec::new(),
        }
    }

    /// Moves to the first pair at or after `key`.
    pub fn seek(&mut self, key: &[u8]) -> Result<(), StorageError> {
        self.direction = Order::Ascending;
        self.valid = false;
        self.span_known = false;
        for source in &mut self.merge.sources {
            source.seek(key, Version::MAX)?;
        }
        self.merge.sort(Order::Ascending);
        self.find_visible_up()
    }

    /// Moves to the last pair before `key`; the last of all for `None`.
    pub fn seek_before(&mut self, key: Option<&[u8]>) -> Result<(), StorageError> {
        self.direction = Order::Descending;
        self.valid = false;
        self.span_known = false;
        for source in &mut self.merge.sources {
            source.seek_before(key)?;
        }
        self.merge.sort(Order::Descending);
        self.find_visible_down()
    }

    /// Whether it is on a pair.
    #[inline]
    pub fn valid(&self) -> bool {
        self.valid
    }

    /// The current pair. Only if [`MergeCursor::valid`].
    #[inline]
    pub fn pair(&mut self) -> Result<(&[u8], &[u8]), StorageError> {
        match self.direction {
            Order::Descending => Ok((&self.key, &self.value)),
            Order::Ascending => match self.merge.top() {
                Some(top) => top.pair(),
                None => Ok((&[], &[])),
            },
        }
    }

    /// The current key, which must have been reached ascending.
    pub(crate) fn key(&mut self) -> &[u8] {
        self.merge.top().map_or(&[], |top| top.key())
    }

    /// The commit that put the current pair, which must have been reached ascending.
    pub(crate) fn version(&mut self) -> Version {
        self.merge.top().map_or(0, |top| top.version())
    }

    /// Moves to the next pair. Only if [`MergeCursor::valid`].
    #[inline]
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<(), StorageError> {
        // The sources are before the current pair, at different keys: they have to be positioned again.
        if self.direction == Order::Descending {
            let mut key = std::mem::take(&mut self.key);
            // The smallest greater key.
            key.push(0);
            return self.seek(&key);
        }
        if let Some(top) = self.merge.top() {
            top.next_key()?;
            self.merge.reposition(0, Order::Ascending);
        }
        self.find_visible_up()
    }

    /// Moves to the previous pair. Only if [`MergeCursor::valid`].
    pub fn prev(&mut self) -> Result<(), StorageError> {
        if self.direction == Order::Ascending {
            let key = self.pair()?.0.to_vec();
            return self.seek_before(Some(&key));
        }
        self.find_visible_down()
    }

    /// Calls `visit` with the pairs of `range` in `order` until it breaks or the range ends.
    pub fn visit(
        &mut self,
        range: KeyRange<'_>,
        order: Order,
        visit: &mut Visitor<'_>,
    ) -> Result<(), StorageError> {
        self.begin(range, order)?;
        self.resume_visit(range, order, visit).map(drop)
    }

    /// Moves to the first pair of `range` in `order`.
    pub fn begin(&mut self, range: KeyRange<'_>, order: Order) -> Result<(), StorageError> {
        self.bind(range, order);
        let begun = match order {
            Order::Ascending => self.seek(range.start),
            Order::Descending => self.seek_before(range.end),
        };
        self.bound = None;
        begun
    }

    /// Like [`MergeCursor::visit`], from the pair found by [`MergeCursor::begin`] or at which a visit in the
    /// same order broke; returns whether `visit` broke.
    pub fn resume_visit(
        &mut self,
        range: KeyRange<'_>,
        order: Order,
        visit: &mut Visitor<'_>,
    ) -> Result<ControlFlow<()>, StorageError> {
        self.bind(range, order);
        let visited = match order {
            Order::Ascending => self.visit_up(range.end, visit),
            Order::Descending => self.visit_down(range.start, visit),
        };
        self.bound = None;
        visited
    }

    fn bind(&mut self, range: KeyRange<'_>, order: Order) {
        self.bound = match order {
            Order::Ascending => range.end.map(Into::into),
            Order::Descending => Some(range.start.into()),
        };
    }

    fn visit_up(
        &mut self,
        end: Option<&[u8]>,
        visit: &mut Visitor<'_>,
    ) -> Result<ControlFlow<()>, StorageError> {
        while self.valid {
            let Some(&first) = self.merge.order.first() else {
                break;
            };
            let sources = &mut self.merge.sources;
            // Up to the key of the second source, the first one can be read without comparisons.
            let (top, mut limit) = match self.merge.order.get(1) {
                None => (&mut sources[first as usize], end),
                Some(&second) => {
                    let pair = sources.get_disjoint_mut([first as usize, second as usize]);
                    let [top, second] = pair.expect("the order names each source once");
                    (
                        top,
                        Some(end.map_or(second.key(), |end| end.min(second.key()))),
                    )
                }
            };
            if end.is_some_and(|end| top.key() >= end) {
                break;
            }
            if self.deleted_at > 0 {
                // Entries older than the range tombstone are hidden: check each one.
                let (key, value) = top.pair()?;
                if visit(key, value).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                self.next()?;
                continue;
            }
            if let Some(until) = self.span_until.as_deref() {
                limit = Some(limit.map_or(until, |limit| limit.min(until)));
            }
            // Up to `limit` only this source has entries.
            if top.run(limit, self.at, visit)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            self.merge.reposition(0, Order::Ascending);
            self.find_visible_up()?;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn visit_down(
        &mut self,
        start: &[u8],
        visit: &mut Visitor<'_>,
    ) -> Result<ControlFlow<()>, StorageError> {
        while self.valid && *self.key >= *start {
            if visit(&self.key, &self.value).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            self.find_visible_down()?;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Advances the sources in order to the first key that has a visible value.
    #[inline]
    fn find_visible_up(&mut self) -> Result<(), StorageError> {
        let mut young = 0;
        loop {
            let Some(&number) = self.merge.order.first() else {
                self.valid = false;
                return Ok(());
            };
            let top = &mut self.merge.sources[number as usize];
            // Too new for the reader: step a few times, as most keys have few versions, then search.
            if top.version() > self.at {
                young += 1;
                if young > STEPS_BEFORE_SEEK {
                    young = 0;
                    self.key.clear();
                    self.key.extend_from_slice(top.key());
                    top.seek(&self.key, self.at)?;
                } else {
                    top.next()?;
                }
                self.merge.reposition(0, Order::Ascending);
                continue;
            }
            young = 0;
            // The newest visible entry of the key is in front; the other sources only have older ones.
            self.skip_older(number)?;
            if self.is_range_deleted(number) {
                let top = &mut self.merge.sources[number as usize];
                if is_behind(top.key(), &self.bound) {
                    self.valid = false;
                    return Ok(());
                }
                // Hidden by a range tombstone: skip all entries that it hides if the source can, otherwise this
                // key.
                if !top.pass(self.span_until.as_deref(), self.deleted_at)? {
                    top.next_key()?;
                }
            } else {
                let top = &mut self.merge.sources[number as usize];
                if top.kind() == EntryKind::Put {
                    self.valid = true;
                    return Ok(());
                }
                if is_behind(top.key(), &self.bound) {
                    self.valid = false;
                    return Ok(());
                }
                top.next_key()?;
            }
            self.merge.reposition(0, Order::Ascending);
        }
    }

    /// Moves the other sources at the same key past it: their entries are older.
    #[inline]
    fn skip_older(&mut self, number: u32) -> Result<(), StorageError> {
        while let Some(&other) = self.merge.order.get(1) {
            let sources = &mut self.merge.sources;
            if sources[number as usize].key() != sources[other as usize].key() {
                break;
            }
            sources[other as usize].next_key()?;
            self.merge.reposition(1, Order::Ascending);
        }
        Ok(())
    }

    /// Whether a range tombstone hides the entry of source `number`.
    #[inline]
    fn is_range_deleted(&mut self, number: u32) -> bool {
        if self.range_tombstones.is_empty() {
            return false;
        }
        let source = &self.merge.sources[number as usize];
        let key = source.key();
        // The last span is cached: consecutive keys are usually in the same one.
        if !(self.span_known
            && *key >= *self.span_from
            && self.span_until.as_ref().is_none_or(|until| *key < **until))
        {
            self.deleted_at = 0;
            self.span_from.clear();
            self.span_until = None;
            self.span_known = true;
            // The intersection of the spans of all sets.
            for range_tombstones in &self.range_tombstones {
                let span = range_tombstones.span(key, self.at);
                self.deleted_at = self.deleted_at.max(span.version);
                if *span.from > *self.span_from {
                    self.span_from.clear();
                    self.span_from.extend_from_slice(span.from);
                }
                if let Some(until) = span.until
                    && self.span_until.as_deref().is_none_or(|u| until < u)
                {
                    self.span_until = Some(until.to_vec());
                }
            }
        }
        self.deleted_at > source.version()
    }

    /// Moves the sources in descending order to the last key that has a visible value.
    fn find_visible_down(&mut self) -> Result<(), StorageError> {
        loop {
            self.valid = false;
            let Some(&first) = self.merge.order.first() else {
                return Ok(());
            };
            self.key.clear();
            self.key
                .extend_from_slice(self.merge.sources[first as usize].key());
            if self.bound.as_ref().is_some_and(|start| *self.key < **start) {
                return Ok(());
            }
            // All entries of the key are read, from all sources, before it is
            // known whether a reader sees it.
            let mut newest: Option<(Version, EntryKind)> = None;
            while let Some(&number) = self.merge.order.first() {
                if self.merge.sources[number as usize].key() != self.key {
                    break;
                }
                // Deleted entries are not read; blocks with nothing newer than the range tombstone are skipped
                // at once.
                self.is_range_deleted(number);
                let deleted_at = self.deleted_at;
                let source = &mut self.merge.sources[number as usize];
                if deleted_at > 0 && source.pass_back(&self.span_from, deleted_at)? {
                    self.merge.reposition(0, Order::Descending);
                    continue;
                }
                // Descending, the oldest version comes first; the newest one that is visible counts.
                while source.valid() && source.key() == self.key {
                    let version = source.version();
                    if (deleted_at..=self.at).contains(&version)
                        && newest.is_none_or(|(newest, _)| version > newest)
                    {
                        let kind = source.kind();
                        newest = Some((version, kind));
                        if kind == EntryKind::Put {
                            self.value.clear();
                            self.value.extend_from_slice(source.value()?);
                        }
                    }
                    source.prev()?;
                }
                self.merge.reposition(0, Order::Descending);
            }
            if matches!(newest, Some((_, EntryKind::Put))) {
                self.valid = true;
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RangeTombstone;

    type Entry = (Vec<u8>, Version, Option<Vec<u8>>);

    /// Entries in a list.
    struct List {
        entries: Vec<Entry>,
        at: usize,
    }

    impl List {
        fn go_to(&mut self, at: Option<usize>) {
            self.at = at.unwrap_or(self.entries.len());
        }

        fn newest(&self) -> Version {
            self.entries.iter().map(|entry| entry.1).max().unwrap_or(0)
        }
    }

    impl EntryCursor for List {
        fn seek(&mut self, key: &[u8], version: Version) -> Result<(), StorageError> {
            self.at = self
                .entries
                .partition_point(|(k, v, _)| k[..].cmp(key).then(version.cmp(v)).is_lt());
            Ok(())
        }

        fn seek_before(&mut self, key: Option<&[u8]>) -> Result<(), StorageError> {
            let at = key.map_or(self.entries.len(), |key| {
                self.entries.partition_point(|(k, ..)| k[..] < *key)
            });
            self.go_to(at.checked_sub(1));
            Ok(())
        }

        fn next(&mut self) -> Result<(), StorageError> {
            self.at += 1;
            Ok(())
        }

        fn prev(&mut self) -> Result<(), StorageError> {
            self.go_to(self.at.checked_sub(1));
            Ok(())
        }

        fn valid(&self) -> bool {
            self.at < self.entries.len()
        }

        fn key(&self) -> &[u8] {
            &self.entries[self.at].0
        }

        fn version(&self) -> Version {
            self.entries[self.at].1
        }

        fn kind(&self) -> EntryKind {
            match self.entries[self.at].2 {
                Some(_) => EntryKind::Put,
                None => EntryKind::Delete,
            }
        }

        fn pair(&mut self) -> Result<(&[u8], &[u8]), StorageError> {
            let (key, _, value) = &self.entries[self.at];
            Ok((key, value.as_deref().unwrap_or_default()))
        }

        fn pass(
            &mut self,
            until: Option<&[u8]>,
            deleted_at: Version,
        ) -> Result<bool, StorageError> {
            if self.newest() >= deleted_at {
                return Ok(false);
            }
            match until {
                Some(until) => self.seek(until, Version::MAX)?,
                None => self.go_to(None),
            }
            Ok(true)
        }

        fn pass_back(&mut self, from: &[u8], deleted_at: Version) -> Result<bool, StorageError> {
            if self.newest() >= deleted_at {
                return Ok(false);
            }
            self.seek_before(Some(from))?;
            Ok(true)
        }
    }

    #[test]
    fn merged_reads_match_a_model() {
        for seed in 1..1500_u64 {
            let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mut random = |below: u64| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                (state >> 11) % below
            };
            let keys = 1 + random(25);
            let (source_count, commits) = (1 + random(6), random(60));
            let mut sources: Vec<Vec<Entry>> = vec![Vec::new(); source_count as usize];
            let mut all: Vec<Entry> = Vec::new();
            let mut range_tombstones: Vec<Vec<RangeTombstone>> = vec![Vec::new(); 2];
            for version in 1..=commits {
                // Versions grow from source to source, as they do from old runs to new ones; a merge does not
                // depend on which source has an entry otherwise.
                let source = (source_count - 1 - version * source_count / (commits + 1)) as usize;
                for _ in 0..random(4) {
                    let key = vec![random(keys) as u8];
                    let value = (random(4) != 0).then(|| vec![version as u8, random(250) as u8]);
                    if all.iter().any(|e| e.0 == key && e.1 == version) {
                        continue;
                    }
                    all.push((key.clone(), version, value.clone()));
                    sources[source].push((key, version, value));
                }
                if random(6) == 0 {
                    let start = random(keys);
                    let end = (random(5) != 0).then(|| start + random(8));
                    range_tombstones[(version % 2) as usize].push(RangeTombstone {
                        start: Box::new([start as u8]),
                        end: end.map(|end| Box::from([end as u8])),
                        version,
                    });
                }
            }
            let at = random(commits + 2);
            let flat: Vec<RangeTombstone> = range_tombstones.concat();
            let mut expected: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
            for key in 0..keys as u8 {
                let newest = all
                    .iter()
                    .filter(|entry| entry.0 == [key] && entry.1 <= at)
                    .max_by_key(|entry| entry.1);
                let deleted_at = flat
                    .iter()
                    .filter(|e| {
                        *e.start <= [key][..] && e.end.as_ref().is_none_or(|end| **end > [key][..])
                    })
                    .map(|e| e.version)
                    .filter(|version| *version <= at)
                    .max()
                    .unwrap_or(0);
                if let Some((key, version, Some(value))) = newest
                    && *version >= deleted_at
                {
                    expected.push((key.clone(), value.clone()));
                }
            }
            let sources = sources.into_iter().map(|mut entries| {
                entries.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
                List {
                    at: entries.len(),
                    entries,
                }
            });
            let sets = range_tombstones
                .into_iter()
                .map(|list| Arc::new(RangeTombstones::of(list)));
            let mut cursor = MergeCursor::new(sources.collect(), sets.collect(), at);
            let (start, end) = (vec![random(keys) as u8], vec![random(keys + 2) as u8]);
            for order in [Order::Ascending, Order::Descending] {
                for (start, end) in [(&[][..], None), (&start, Some(&end[..]))] {
                    let mut seen = Vec::new();
                    let range = KeyRange { start, end };
                    cursor
                        .visit(range, order, &mut |key, value| {
                            seen.push((key.to_vec(), value.to_vec()));
                            ControlFlow::Continue(())
                        })
                        .unwrap();
                    let mut within: Vec<_> = expected
                        .iter()
                        .filter(|(key, _)| **key >= *start && end.is_none_or(|end| **key < *end))
                        .cloned()
                        .collect();
                    if order == Order::Descending {
                        within.reverse();
                    }
                    assert_eq!(seen, within, "seed {seed} {order:?} at {at}");
                }
            }
            // Back and forth.
            let mut place = random(expected.len() as u64 + 1) as usize;
            match expected.get(place) {
                Some((key, _)) => cursor.seek(key).unwrap(),
                None => cursor.seek(&[200]).unwrap(),
            }
            for _ in 0..40 {
                assert_eq!(cursor.valid(), place < expected.len(), "seed {seed}");
                if !cursor.valid() {
                    break;
                }
                let (key, value) = cursor.pair().unwrap();
                assert_eq!((key.to_vec(), value.to_vec()), expected[place]);
                if random(2) == 0 {
                    cursor.next().unwrap();
                    place += 1;
                } else {
                    cursor.prev().unwrap();
                    place = place.checked_sub(1).unwrap_or(usize::MAX);
                }
            }
        }
    }
}
