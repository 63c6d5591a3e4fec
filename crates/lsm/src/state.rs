//! The state that readers use: memtables and tables, replaced atomically, and the versions that are still read
//! (multi-version concurrency control, MVCC).

use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use isomer_storage::sync::{Mutex, RwLock};
use isomer_storage::{
    KeyRange, LogPoint, Order, Parked, StorageError, ValueVisitor, Version, View, Visitor,
};

use crate::{
    Decided, Levels, MergeCursor, RangeTombstones, Readable,
    levels::search::{LookupResult, Search},
    memtable::{LookupHit, Memtable},
    sharded::Sharded,
    source::Source,
};

/// Memtables and tables at one moment. Immutable: it is replaced.
#[derive(Clone)]
pub struct State {
    /// Receives commits.
    pub active: Arc<Memtable>,
    /// Full ones that are not flushed yet, newest first.
    pub sealed: Vec<Sealed>,
    /// The tables.
    pub levels: Arc<Levels>,
}

/// A full memtable.
#[derive(Clone)]
pub struct Sealed {
    pub memtable: Arc<Memtable>,
    /// Memtables are numbered as they are sealed, from 1 on.
    pub number: u64,
    /// The last version that is completely in it and the earlier ones: a large commit goes through several
    /// memtables.
    pub last: Version,
    /// Where the log continues after it.
    pub log_end: LogEnd,
}

/// Where the log continues after a sealed memtable and the earlier ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogEnd {
    /// The first segment of an own log with later commits.
    pub segment: u64,
    /// The place in a shared log behind the commits that are completely in memtables.
    pub point: LogPoint,
    /// The position in a shared log after the last record of which they have a part.
    pub covers: u64,
}

impl State {
    /// The memtables, newest first.
    pub fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        std::iter::once(&self.active).chain(self.sealed.iter().map(|sealed| &sealed.memtable))
    }

    /// Bytes that memtables take.
    pub fn memtable_bytes(&self) -> usize {
        self.memtables().map(|memtable| memtable.bytes()).sum()
    }

    /// The last commit up to `at` that changed `key`, and the value if it put one.
    pub fn decided(&self, key: &[u8], at: Version) -> Result<Option<Decided>, StorageError> {
        let mut decided = None;
        Lookup::begin(self, key, at)?.finish(|found| {
            decided = found.map(|(version, value)| (version, value.map(<[u8]>::to_vec)));
        })?;
        Ok(decided)
    }

    /// The value that a reader at `at` sees under `key`.
    #[inline]
    fn get(&self, key: &[u8], at: Version) -> Result<Option<Vec<u8>>, StorageError> {
        let mut value = None;
        Lookup::begin(self, key, at)?.finish(|found| {
            value = found.and_then(|(_, value)| value.map(<[u8]>::to_vec));
        })?;
        Ok(value)
    }

    /// Like [`View::visit_many`] for up to [`KEYS_PER_LOOKUP`] keys; returns whether to continue.
    fn visit_many(
        &self,
        keys: &[&[u8]],
        at: Version,
        visit: &mut ValueVisitor<'_>,
    ) -> Result<ControlFlow<()>, StorageError> {
        let mut lookups: [Option<Lookup<'_>>; KEYS_PER_LOOKUP] = Default::default();
        for (number, key) in keys.iter().enumerate() {
            let (begun, rest) = lookups.split_at_mut(number);
            let last = begun.last().and_then(Option::as_ref);
            let lookup = rest[0].insert(Lookup::in_memory(self, key, at, last));
            lookup.go_to_tables(self, key, at, last)?;
        }
        let searches = || lookups.iter().flatten().flat_map(|lookup| &lookup.search);
        searches().for_each(Search::touch);
        searches().for_each(Search::touch_entry);
        let mut flow = ControlFlow::Continue(());
        for lookup in lookups.iter_mut().flatten() {
            lookup.finish(|found| flow = visit(found.and_then(|(_, value)| value)))?;
            if flow.is_break() {
                break;
            }
        }
        Ok(flow)
    }

    /// A cursor over what a reader at `at` sees in a range.
    pub fn cursor(
        &self,
        range: KeyRange<'_>,
        at: Version,
    ) -> Result<MergeCursor<Source>, StorageError> {
        let mut sources: Vec<Source> = Vec::new();
        let mut range_tombstones: Vec<Arc<RangeTombstones>> = Vec::new();
        for memtable in self.memtables().filter(|memtable| !memtable.is_empty()) {
            sources.push(Source::Memtable(memtable.cursor()));
            if memtable.has_range_tombstones() {
                range_tombstones.push(memtable.range_tombstones());
            }
        }
        range_tombstones.push(self.levels.range_tombstones().clone());
        let runs = self.levels.cursors(range.start, range.end)?;
        self.levels.seek_budget.add_scan(runs.len());
        sources.extend(runs.into_iter().map(Source::Run));
        Ok(MergeCursor::new(sources, range_tombstones, at))
    }

    /// Whether a memtable has entries of the keys from `start` on to `end` (inclusive).
    pub fn memtables_touch(&self, start: &[u8], end: Option<&[u8]>) -> bool {
        self.memtables()
            .any(|memtable| memtable.touches(start, end))
    }
}

/// Keys of a batch that are looked up together: their blocks are loaded from memory concurrently.
const KEYS_PER_LOOKUP: usize = 8;

/// The result of searching the memtables for a key, and the lookup in the tables if these may have a newer
/// entry.
struct Lookup<'a> {
    /// Its position in the active memtable.
    active: LookupHit<'a>,
    /// Version of the newest range tombstone in a memtable.
    deleted_at: Version,
    found: LookupResult<'a>,
    search: Option<Search<'a>>,
}

impl<'a> Lookup<'a> {
    /// Starts the lookup of a key.
    #[inline]
    fn begin(state: &'a State, key: &'a [u8], at: Version) -> Result<Self, StorageError> {
        let mut lookup = Self::in_memory(state, key, at, None);
        lookup.go_to_tables(state, key, at, None)?;
        Ok(lookup)
    }

    /// Searches the memtables; neighbours in a batch are often between the same two entries.
    #[inline]
    fn in_memory(state: &'a State, key: &'a [u8], at: Version, last: Option<&Self>) -> Self {
        let active = state.active.look_up(key, at, last.map(|last| last.active));
        let mut deleted_at = state.active.newest_range_tombstone(key, at);
        let mut found = active.get(key);
        // A memtable only holds versions above those of older memtables: the first one that has the key
        // decides.
        let mut sealed = state.sealed.iter();
        while found.is_none()
            && deleted_at == 0
            && let Some(Sealed { memtable, .. }) = sealed.next()
        {
            deleted_at = memtable.newest_range_tombstone(key, at);
            found = memtable.get(key, at);
        }
        Self {
            active,
            deleted_at,
            found,
            search: None,
        }
    }

    /// Starts the lookup in the tables if these may have a newer entry; neighbours in a batch are often in one
    /// block, which the lookup of the `last` one has found.
    #[inline]
    fn go_to_tables(
        &mut self,
        state: &'a State,
        key: &'a [u8],
        at: Version,
        last: Option<&Self>,
    ) -> Result<(), StorageError> {
        let known = self.newest_in_memtables();
        // Tables are older, except for those of an ingestion.
        if known == 0 || state.levels.ingested > Some(known) {
            let search = self.search.insert(Search::new(&state.levels, key, at));
            search.begin(last.and_then(|last| last.search.as_ref()))?;
        }
        Ok(())
    }

    /// The last commit of the key in memtables.
    fn newest_in_memtables(&self) -> Version {
        self.found
            .map_or(0, |(version, _)| version)
            .max(self.deleted_at)
    }

    /// Completes the lookup, and calls `then` once with the result.
    #[inline]
    fn finish(&mut self, mut then: impl FnMut(LookupResult<'_>)) -> Result<(), StorageError> {
        let known = self.newest_in_memtables();
        let here = match self.found {
            Some((version, value)) if version >= self.deleted_at => Some((version, value)),
            _ => (self.deleted_at > 0).then_some((self.deleted_at, None)),
        };
        match &mut self.search {
            Some(search) => search.finish(|found| match found {
                Some((version, _)) if version > known => then(found),
                _ => then(here),
            }),
            None => {
                then(here);
                Ok(())
            }
        }
    }
}

/// A state, with a reference count that only some of the threads use.
struct SharedState(Arc<State>);

/// The current state, and the versions that are read.
pub struct Shared {
    state: RwLock<Arc<State>>,
    /// The same for single reads, which are so short that a shared lock and reference count would be contended.
    sharded: Sharded<RwLock<Arc<SharedState>>>,
    readers: Mutex<Readers>,
    /// Views of versions below it read a kept state. Raised before the state that lacks such versions is set.
    kept_below: AtomicU64,
    /// States for such views, the oldest one first.
    kept: RwLock<Vec<KeptState>>,
}

/// A state for the views of earlier versions, which the tables of another process no longer have.
struct KeptState {
    /// Versions from here on are in the next one.
    below: Version,
    state: Arc<SharedState>,
}

#[derive(Default)]
struct Readers {
    /// Versions of views, with the number of views of each.
    live: BTreeMap<Version, usize>,
    /// Versions below it may have been dropped, unless a view reads them.
    floor: Version,
    /// The last published version.
    published: Version,
}

impl Shared {
    /// An initial state, with versions from `floor` on.
    pub fn new(state: State, floor: Version) -> Self {
        let state = Arc::new(state);
        Self {
            sharded: Sharded::from_fn(|| RwLock::new(Arc::new(SharedState(state.clone())))),
            state: RwLock::new(state),
            readers: Mutex::new(Readers {
                floor,
                ..Readers::default()
            }),
            kept_below: AtomicU64::new(0),
            kept: RwLock::default(),
        }
    }

    /// The current state.
    pub fn state(&self) -> Arc<State> {
        self.state.read().clone()
    }

    /// The current state, for a single read.
    #[inline]
    fn state_to_read(&self, version: Version) -> Arc<SharedState> {
        let state = self.sharded.local().read().clone();
        match self.kept_for(version) {
            Some(kept) => kept,
            None => state,
        }
    }

    /// The state that a view of `version` reads. The caller keeps the view.
    fn state_of(&self, version: Version) -> Arc<State> {
        let state = self.state();
        match self.kept_for(version) {
            Some(kept) => kept.0.clone(),
            None => state,
        }
    }

    /// The state that was kept for views of `version`. The current state was read before: if that one lacks the
    /// version, the kept one is found here.
    #[inline]
    fn kept_for(&self, version: Version) -> Option<Arc<SharedState>> {
        if version >= self.kept_below.load(Ordering::Acquire) {
            return None;
        }
        let kept = self.kept.read();
        let found = kept.iter().find(|kept| version < kept.below);
        found.map(|kept| kept.state.clone())
    }

    /// Sets a state whose tables lack versions below `collected_below`, which is at most the last published version.
    /// Views of such versions, if there are any, go on with the present state; there are no new ones.
    pub fn change_collected(&self, collected_below: Version, change: impl FnOnce(&State) -> State) {
        {
            let mut readers = self.readers.lock();
            readers.floor = readers.floor.max(collected_below);
            let from = self.kept_below.load(Ordering::Acquire);
            let is_read = readers.live.range(..collected_below).next_back();
            if is_read.is_some_and(|(version, _)| *version >= from) {
                self.kept.write().push(KeptState {
                    below: collected_below,
                    state: Arc::new(SharedState(self.state())),
                });
                self.kept_below.store(collected_below, Ordering::Release);
            }
        }
        self.change(change);
    }

    /// Drops the kept states that no view reads. The caller has the lock of the readers.
    fn forget_kept(&self, readers: &Readers) -> Vec<KeptState> {
        let mut kept = self.kept.write();
        let mut from = 0;
        let mut unread = Vec::new();
        let mut at = 0;
        while at < kept.len() {
            let below = kept[at].below;
            match readers.live.range(from..below).next() {
                Some(_) => at += 1,
                None => unread.push(kept.remove(at)),
            }
            from = below;
        }
        unread
    }

    /// Replaces the state by the result of `change`: all later calls return the new one. The old one is dropped
    /// after the lock is released.
    pub fn change(&self, change: impl FnOnce(&State) -> State) {
        let mut state = self.state.write();
        let new = Arc::new(change(&state));
        let replaced = self.sharded.iter().map(|shard| {
            let new = Arc::new(SharedState(new.clone()));
            std::mem::replace(&mut *shard.write(), new)
        });
        let before: Vec<_> = replaced.collect();
        let old = std::mem::replace(&mut *state, new);
        drop(state);
        drop((before, old));
    }

    /// Publishes a version, and returns a view of it.
    pub fn publish(self: &Arc<Self>, version: Version) -> Arc<LsmView> {
        let mut readers = self.readers.lock();
        readers.published = version;
        *readers.live.entry(version).or_default() += 1;
        drop(readers);
        Arc::new(LsmView {
            version,
            shared: self.clone(),
        })
    }

    /// A view of an earlier version, if it can still be read.
    pub fn view_at(self: &Arc<Self>, version: Version) -> Option<Arc<LsmView>> {
        let mut readers = self.readers.lock();
        if version < readers.floor && !readers.live.contains_key(&version) {
            return None;
        }
        *readers.live.entry(version).or_default() += 1;
        drop(readers);
        Some(Arc::new(LsmView {
            version,
            shared: self.clone(),
        }))
    }

    /// The last published version.
    pub fn published(&self) -> Version {
        self.readers.lock().published
    }

    /// The oldest version that is guaranteed to be readable.
    pub fn floor(&self) -> Version {
        self.readers.lock().floor
    }

    /// The versions that may be read from now on: those of views, and all from `window` on.
    pub fn readable(&self, window: Version) -> Readable {
        let mut readers = self.readers.lock();
        let from = window.max(readers.floor).min(readers.published);
        readers.floor = readers.floor.max(from);
        Readable {
            snapshots: readers
                .live
                .range(..from)
                .map(|(version, _)| *version)
                .collect(),
            from,
        }
    }
}

/// One version. Its entries stay readable while it lives; it keeps no memory alive but its own (cursors between
/// pages of scans do: see `ScanPosition`).
pub struct LsmView {
    version: Version,
    shared: Arc<Shared>,
}

impl LsmView {
    /// A cursor over a range.
    pub fn cursor(&self, range: KeyRange<'_>) -> Result<MergeCursor<Source>, StorageError> {
        self.shared
            .state_of(self.version)
            .cursor(range, self.version)
    }

    /// A cursor at the first pair of a range.
    fn position(&self, range: KeyRange<'_>, order: Order) -> Result<ScanPosition, StorageError> {
        let state = self.shared.state_of(self.version);
        let mut cursor = state.cursor(range, self.version)?;
        cursor.begin(range, order)?;
        Ok(ScanPosition {
            cursor,
            state,
            shared: Arc::downgrade(&self.shared),
            version: self.version,
            order,
            bound: far_end(range, order).map(Into::into),
        })
    }
}

/// Number of pairs after which a visit checks whether the state was replaced.
const PAIRS_BETWEEN_CHECKS: u32 = 4096;

/// A cursor at the end of a page of a scan. It keeps memtables and files of tables alive until the next page is
/// requested: if the state has been replaced by then, that page searches again and the old state is released.
struct ScanPosition {
    cursor: MergeCursor<Source>,
    shared: Weak<Shared>,
    state: Arc<State>,
    version: Version,
    order: Order,
    /// The end of the range in the direction of the scan: the cursor has not looked beyond it.
    bound: Option<Box<[u8]>>,
}

fn far_end<'a>(range: KeyRange<'a>, order: Order) -> Option<&'a [u8]> {
    match order {
        Order::Ascending => range.end,
        Order::Descending => Some(range.start),
    }
}

impl ScanPosition {
    /// The position, if the rest of its scan, in this view, is `range`.
    fn going_on(
        mut self: Box<Self>,
        view: &LsmView,
        range: KeyRange<'_>,
        order: Order,
    ) -> Option<Box<Self>> {
        let same = self.version == view.version
            && self.order == order
            && self.bound.as_deref() == far_end(range, order)
            && std::ptr::eq(self.shared.as_ptr(), Arc::as_ptr(&view.shared))
            && Arc::ptr_eq(&self.state, &view.shared.state_of(view.version));
        let begins = same
            && match (self.cursor.pair(), order) {
                (Ok((key, _)), Order::Ascending) => key == range.start,
                // The smallest greater key.
                (Ok((key, _)), Order::Descending) => range
                    .end
                    .and_then(|end| end.strip_suffix(&[0]))
                    .is_some_and(|end| end == key),
                (Err(_), _) => false,
            };
        begins.then_some(self)
    }
}

impl Drop for LsmView {
    fn drop(&mut self) {
        let mut readers = self.shared.readers.lock();
        if let Some(count) = readers.live.get_mut(&self.version) {
            *count -= 1;
            if *count == 0 {
                readers.live.remove(&self.version);
                let is_kept = self.version < self.shared.kept_below.load(Ordering::Acquire);
                let unread = is_kept.then(|| self.shared.forget_kept(&readers));
                drop(readers);
                drop(unread);
            }
        }
    }
}

impl View for LsmView {
    const LENDS: bool = true;

    fn version(&self) -> Version {
        self.version
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        self.shared
            .state_to_read(self.version)
            .0
            .get(key, self.version)
    }

    fn visit_many(&self, keys: &[&[u8]], visit: &mut ValueVisitor<'_>) -> Result<(), StorageError> {
        for keys in keys.chunks(KEYS_PER_LOOKUP) {
            let state = self.shared.state_to_read(self.version);
            if state.0.visit_many(keys, self.version, visit)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    fn visit(
        &self,
        range: KeyRange<'_>,
        order: Order,
        visit: &mut Visitor<'_>,
    ) -> Result<(), StorageError> {
        let mut position = self.position(range, order)?;
        // Where the rest of the range begins, if the state is replaced: its first key, or the end after its
        // last one.
        let mut edge = Vec::new();
        let mut rest = range;
        loop {
            let (mut left, mut wanted) = (PAIRS_BETWEEN_CHECKS, true);
            let flow = position
                .cursor
                .resume_visit(rest, order, &mut |key, value| {
                    // The cursor stays at this pair, which comes next.
                    let Some(fewer) = left.checked_sub(1) else {
                        return ControlFlow::Break(());
                    };
                    left = fewer;
                    let flow = visit(key, value);
                    wanted = flow.is_continue();
                    flow
                })?;
            if flow.is_continue() || !wanted {
                return Ok(());
            }
            if Arc::ptr_eq(&position.state, &self.shared.state_of(self.version)) {
                continue;
            }
            edge.clear();
            edge.extend_from_slice(position.cursor.pair()?.0);
            rest = match order {
                Order::Ascending => KeyRange {
                    start: &edge,
                    ..range
                },
                Order::Descending => {
                    edge.push(0);
                    KeyRange {
                        end: Some(&edge),
                        ..range
                    }
                }
            };
            // Release files that were compacted away before reading on.
            drop(position);
            position = self.position(rest, order)?;
        }
    }

    fn visit_on(
        &self,
        parked: &mut Parked,
        range: KeyRange<'_>,
        order: Order,
        visit: &mut Visitor<'_>,
    ) -> Result<(), StorageError> {
        let left = parked.take::<ScanPosition>();
        let mut position = match left.and_then(|position| position.going_on(self, range, order)) {
            Some(position) => position,
            None => Box::new(self.position(range, order)?),
        };
        if position
            .cursor
            .resume_visit(range, order, visit)?
            .is_break()
        {
            parked.put(position);
        }
        Ok(())
    }
}
