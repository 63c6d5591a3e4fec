//! What readers read: memtables and tables, swapped in one step, and which versions are still read.

use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    sync::{Arc, Weak},
};

use isomer_storage::sync::{Mutex, RwLock};
use isomer_storage::{KeyRange, Order, Parked, StorageError, ValueVisitor, Version, View, Visitor};

use crate::{
    Decided, Erasures, Levels, MergeCursor, Readable,
    lanes::Lanes,
    levels::search::{Found, Search},
    memtable::{Looked, Memtable},
    source::Source,
};

/// Where everything is at one moment. Never changed: replaced.
#[derive(Clone)]
pub struct State {
    /// Takes what is committed.
    pub active: Arc<Memtable>,
    /// Full ones that are not in tables yet, newest first.
    pub sealed: Vec<Sealed>,
    /// The tables.
    pub levels: Arc<Levels>,
}

/// A memtable that is full.
#[derive(Clone)]
pub struct Sealed {
    pub memtable: Arc<Memtable>,
    /// The last version before the next memtable.
    pub last: Version,
    /// The first segment of the log that holds what is behind it.
    pub next_segment: u64,
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

    /// The last commit up to `at` that did anything with `key`, and the value where it put one.
    pub fn decided(&self, key: &[u8], at: Version) -> Result<Option<Decided>, StorageError> {
        let mut decided = None;
        Lookup::begin(self, key, at)?.tell(|found| {
            decided = found.map(|(version, value)| (version, value.map(<[u8]>::to_vec)));
        })?;
        Ok(decided)
    }

    /// The value that a reader at `at` sees under `key`.
    #[inline]
    fn get(&self, key: &[u8], at: Version) -> Result<Option<Vec<u8>>, StorageError> {
        let mut value = None;
        Lookup::begin(self, key, at)?.tell(|found| {
            value = found.and_then(|(_, value)| value.map(<[u8]>::to_vec));
        })?;
        Ok(value)
    }

    /// As [`View::visit_many`] for up to [`AT_ONCE`] keys; answers whether to go on.
    fn visit_many(
        &self,
        keys: &[&[u8]],
        at: Version,
        visit: &mut ValueVisitor<'_>,
    ) -> Result<ControlFlow<()>, StorageError> {
        let mut lookups: [Option<Lookup<'_>>; AT_ONCE] = Default::default();
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
            lookup.tell(|found| flow = visit(found.and_then(|(_, value)| value)))?;
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
        let mut erasures: Vec<Arc<Erasures>> = Vec::new();
        for memtable in self.memtables().filter(|memtable| !memtable.is_empty()) {
            sources.push(Source::Memtable(memtable.cursor()));
            if memtable.has_erasures() {
                erasures.push(memtable.erasures());
            }
        }
        erasures.push(self.levels.erasures().clone());
        let runs = self.levels.cursors(range.start, range.end)?;
        self.levels.detours.add_scan(runs.len());
        sources.extend(runs.into_iter().map(Source::Run));
        Ok(MergeCursor::new(sources, erasures, at))
    }

    /// Whether a memtable has anything of the keys from `start` on to `end` (inclusive).
    pub fn memtables_touch(&self, start: &[u8], end: Option<&[u8]>) -> bool {
        self.memtables()
            .any(|memtable| memtable.touches(start, end))
    }
}

/// Keys of a batch that are looked for together: their blocks come from memory at the same time.
const AT_ONCE: usize = 8;

/// What memtables know of a key, and the search in the tables where these may know better.
struct Lookup<'a> {
    /// Where it is in the active memtable.
    active: Looked<'a>,
    /// The newest erasure in a memtable.
    erased: Version,
    found: Found<'a>,
    search: Option<Search<'a>>,
}

impl<'a> Lookup<'a> {
    /// Begins to look for a key.
    #[inline]
    fn begin(state: &'a State, key: &'a [u8], at: Version) -> Result<Self, StorageError> {
        let mut lookup = Self::in_memory(state, key, at, None);
        lookup.go_to_tables(state, key, at, None)?;
        Ok(lookup)
    }

    /// What memtables know; neighbours of a batch are often between the same two entries.
    #[inline]
    fn in_memory(state: &'a State, key: &'a [u8], at: Version, last: Option<&Self>) -> Self {
        let active = state.active.look(key, at, last.map(|last| last.active));
        let mut erased = state.active.newest_erasure(key, at);
        let mut found = active.get(key);
        // A memtable holds only versions above those of the memtables behind it: the first one that knows the key decides.
        let mut sealed = state.sealed.iter();
        while found.is_none()
            && erased == 0
            && let Some(Sealed { memtable, .. }) = sealed.next()
        {
            erased = memtable.newest_erasure(key, at);
            found = memtable.get(key, at);
        }
        Self {
            active,
            erased,
            found,
            search: None,
        }
    }

    /// Goes to where tables may know better; neighbours of a batch are often in one block, which the search for the `last` one has
    /// found.
    #[inline]
    fn go_to_tables(
        &mut self,
        state: &'a State,
        key: &'a [u8],
        at: Version,
        last: Option<&Self>,
    ) -> Result<(), StorageError> {
        let known = self.known();
        // Tables are older, but for those of an ingestion.
        if known == 0 || state.levels.ingested > Some(known) {
            let search = self.search.insert(Search::new(&state.levels, key, at));
            search.begin(last.and_then(|last| last.search.as_ref()))?;
        }
        Ok(())
    }

    /// The last commit that memtables know of.
    fn known(&self) -> Version {
        self.found
            .map_or(0, |(version, _)| version)
            .max(self.erased)
    }

    /// Calls `then` once with what was found.
    #[inline]
    fn tell(&mut self, mut then: impl FnMut(Found<'_>)) -> Result<(), StorageError> {
        let known = self.known();
        let here = match self.found {
            Some((version, value)) if version >= self.erased => Some((version, value)),
            _ => (self.erased > 0).then_some((self.erased, None)),
        };
        match &mut self.search {
            Some(search) => search.tell(|found| match found {
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

/// A state, with a count of those who read it that only some of the threads use.
struct Lent(Arc<State>);

/// The state, and who reads what.
pub struct Shared {
    state: RwLock<Arc<State>>,
    /// The same for single reads, which are so short that threads would meet in one lock and one count.
    lanes: Lanes<RwLock<Arc<Lent>>>,
    readers: Mutex<Readers>,
}

#[derive(Default)]
struct Readers {
    /// Versions of views, with how many of each there are.
    live: BTreeMap<Version, usize>,
    /// Versions below it may have been collected, unless somebody reads them.
    floor: Version,
    /// The last published version.
    published: Version,
}

impl Shared {
    /// A first state, with versions from `floor` on.
    pub fn new(state: State, floor: Version) -> Self {
        let state = Arc::new(state);
        Self {
            lanes: Lanes::from_fn(|| RwLock::new(Arc::new(Lent(state.clone())))),
            state: RwLock::new(state),
            readers: Mutex::new(Readers {
                floor,
                ..Readers::default()
            }),
        }
    }

    /// The present state.
    pub fn state(&self) -> Arc<State> {
        self.state.read().clone()
    }

    /// The present state, for a single read.
    #[inline]
    fn state_to_read(&self) -> Arc<Lent> {
        self.lanes.here().read().clone()
    }

    /// Replaces the state by what `change` makes of it: for all who ask for it once this has returned. The old one is dropped after
    /// the lock.
    pub fn change(&self, change: impl FnOnce(&State) -> State) {
        let mut state = self.state.write();
        let new = Arc::new(change(&state));
        let lanes = self.lanes.each().map(|lane| {
            let new = Arc::new(Lent(new.clone()));
            std::mem::replace(&mut *lane.write(), new)
        });
        let before: Vec<_> = lanes.collect();
        let old = std::mem::replace(&mut *state, new);
        drop(state);
        drop((before, old));
    }

    /// A view of a version that is published with it.
    pub fn publish(self: &Arc<Self>, version: Version) -> Arc<StoreView> {
        let mut readers = self.readers.lock();
        readers.published = version;
        *readers.live.entry(version).or_default() += 1;
        drop(readers);
        Arc::new(StoreView {
            version,
            shared: self.clone(),
        })
    }

    /// A view of an earlier version, where it can still be read.
    pub fn view_at(self: &Arc<Self>, version: Version) -> Option<Arc<StoreView>> {
        let mut readers = self.readers.lock();
        if version < readers.floor && !readers.live.contains_key(&version) {
            return None;
        }
        *readers.live.entry(version).or_default() += 1;
        drop(readers);
        Some(Arc::new(StoreView {
            version,
            shared: self.clone(),
        }))
    }

    /// The oldest version that can be read for sure.
    pub fn floor(&self) -> Version {
        self.readers.lock().floor
    }

    /// Which versions may be read from now on: those of views, and all from `window` on.
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

/// One version. What it reads stays readable while it lives; it holds no memory but its own (pages of scans do: see `Place`).
pub struct StoreView {
    version: Version,
    shared: Arc<Shared>,
}

impl StoreView {
    /// A cursor over a range.
    pub fn cursor(&self, range: KeyRange<'_>) -> Result<MergeCursor<Source>, StorageError> {
        self.shared.state().cursor(range, self.version)
    }

    /// A cursor at the first pair of a range.
    fn place(&self, range: KeyRange<'_>, order: Order) -> Result<Place, StorageError> {
        let state = self.shared.state();
        let mut cursor = state.cursor(range, self.version)?;
        cursor.begin(range, order)?;
        Ok(Place {
            cursor,
            state,
            shared: Arc::downgrade(&self.shared),
            version: self.version,
            order,
            bound: far_end(range, order).map(Into::into),
        })
    }
}

/// After so many pairs a visit looks whether the engine has moved on.
const PAIRS_BETWEEN_LOOKS: u32 = 4096;

/// A cursor where a page of a scan ended. It keeps what it reads, memtables and files of tables, until the next page is asked
/// for: where the engine has moved on by then, that page searches anew and what was kept is let go.
struct Place {
    cursor: MergeCursor<Source>,
    shared: Weak<Shared>,
    state: Arc<State>,
    version: Version,
    order: Order,
    /// The end of the range that is far from the cursor: the cursor knows nothing behind it.
    bound: Option<Box<[u8]>>,
}

fn far_end<'a>(range: KeyRange<'a>, order: Order) -> Option<&'a [u8]> {
    match order {
        Order::Ascending => range.end,
        Order::Descending => Some(range.start),
    }
}

impl Place {
    /// The place, if the rest of its scan, in this view, is `range`.
    fn going_on(
        mut self: Box<Self>,
        view: &StoreView,
        range: KeyRange<'_>,
        order: Order,
    ) -> Option<Box<Self>> {
        let same = self.version == view.version
            && self.order == order
            && self.bound.as_deref() == far_end(range, order)
            && std::ptr::eq(self.shared.as_ptr(), Arc::as_ptr(&view.shared))
            && Arc::ptr_eq(&self.state, &view.shared.state());
        let begins = same
            && match (self.cursor.pair(), order) {
                (Ok((key, _)), Order::Ascending) => key == range.start,
                // The smallest key behind it.
                (Ok((key, _)), Order::Descending) => range
                    .end
                    .and_then(|end| end.strip_suffix(&[0]))
                    .is_some_and(|end| end == key),
                (Err(_), _) => false,
            };
        begins.then_some(self)
    }
}

impl Drop for StoreView {
    fn drop(&mut self) {
        let mut readers = self.shared.readers.lock();
        if let Some(count) = readers.live.get_mut(&self.version) {
            *count -= 1;
            if *count == 0 {
                readers.live.remove(&self.version);
            }
        }
    }
}

impl View for StoreView {
    const LENDS: bool = true;

    fn version(&self) -> Version {
        self.version
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StorageError> {
        self.shared.state_to_read().0.get(key, self.version)
    }

    fn visit_many(&self, keys: &[&[u8]], visit: &mut ValueVisitor<'_>) -> Result<(), StorageError> {
        for keys in keys.chunks(AT_ONCE) {
            let state = self.shared.state_to_read();
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
        let mut place = self.place(range, order)?;
        // Where the rest of the range begins, once the engine has moved on: its first key, or the end behind its last one.
        let mut edge = Vec::new();
        let mut rest = range;
        loop {
            let (mut left, mut wanted) = (PAIRS_BETWEEN_LOOKS, true);
            let flow = place.cursor.go_on(rest, order, &mut |key, value| {
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
            if Arc::ptr_eq(&place.state, &self.shared.state()) {
                continue;
            }
            edge.clear();
            edge.extend_from_slice(place.cursor.pair()?.0);
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
            // What has been merged away meanwhile is let go before anything else is read.
            drop(place);
            place = self.place(rest, order)?;
        }
    }

    fn visit_on(
        &self,
        parked: &mut Parked,
        range: KeyRange<'_>,
        order: Order,
        visit: &mut Visitor<'_>,
    ) -> Result<(), StorageError> {
        let left = parked.take::<Place>();
        let mut place = match left.and_then(|place| place.going_on(self, range, order)) {
            Some(place) => place,
            None => Box::new(self.place(range, order)?),
        };
        if place.cursor.go_on(range, order, visit)?.is_break() {
            parked.put(place);
        }
        Ok(())
    }
}
