//! All views of a database: told of every commit, asked by every reader.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use isomer_data::{
    Access, Change, ChangeSet, CommitObserver, DataError, GraphRead, Store, Transaction, Version,
    WeakStore,
};
use isomer_storage::{Memory, MemoryKind, Reclaim};
use isomer_value::{TypeId, record::RecordRef};
use parking_lot::{Mutex, RwLock};
use rustc_hash::FxHashMap;

use crate::{
    Side, ViewError, ViewKind, ViewState, ViewStatus, ViewsAt,
    adjacency::{self, AdjacencyBase, Link, small},
    build::Effort,
    slot::{Base, Pinned, Slot},
    worker::{Job, Worker},
};

/// How long a job waits for commits that are under way.
const PATIENCE: Duration = Duration::from_secs(30);

/// How views are kept.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ViewOptions {
    /// Whether there are any. Without them rows answer everything.
    pub enabled: bool,
    /// Work with rows, in nodes expanded or records read, after which a view is made that would have saved it.
    pub demand: u64,
    /// Changes beside a base after which both are merged, at least; at most a sixteenth of the base.
    pub merge_after: usize,
}

impl Default for ViewOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            demand: 256,
            merge_after: 8192,
        }
    }
}

/// The read views of a database. Holds no part of the database open.
pub struct Views {
    options: ViewOptions,
    /// The budget that memory is taken from.
    memory: Memory,
    store: WeakStore,
    this: Weak<Self>,
    /// Held for the whole of a commit's telling, and by whoever begins or ends making a base.
    feed: Mutex<Feed>,
    registry: RwLock<Registry>,
    /// Whether any slot is fed: commits cost nothing before.
    any_fed: AtomicBool,
    uses: AtomicU64,
    worker: Worker,
    closed: AtomicBool,
}

struct Feed {
    /// The newest version told that changed anything and was not abandoned.
    told: Version,
}

/// Every view that was ever asked for.
#[derive(Default)]
struct Registry {
    adjacency: FxHashMap<(TypeId, Side), Arc<Slot<AdjacencyBase>>>,
}

impl Views {
    /// The views of `store`: none yet; they are made as readers ask for them.
    ///
    /// # Errors
    /// Those of reading what was stored of them; views that cannot be made are no error.
    pub fn open(store: &Store, options: ViewOptions) -> Result<Arc<Self>, DataError> {
        let enabled = options.enabled;
        let views = Arc::new_cyclic(|this| Self {
            store: store.downgrade(),
            memory: store.memory().clone(),
            this: this.clone(),
            feed: Mutex::new(Feed { told: 0 }),
            registry: RwLock::default(),
            any_fed: AtomicBool::new(false),
            uses: AtomicU64::new(1),
            worker: Worker::new(),
            closed: AtomicBool::new(!enabled),
            options,
        });
        if enabled {
            store.observe(views.clone());
            let holder: Weak<dyn Reclaim> = views.this.clone();
            views.memory.add_reclaimer(MemoryKind::Views, holder);
        }
        Ok(views)
    }

    /// The views as of a transaction's snapshot. Cheap: what is asked for is pinned when it is asked for.
    pub fn at(&self, tx: &Transaction) -> ViewsAt {
        match self.this.upgrade() {
            Some(views) if !self.closed.load(Ordering::Relaxed) => ViewsAt::new(views, tx),
            _ => ViewsAt::none(),
        }
    }

    /// Waits until every view that was asked for stands or was given up.
    pub fn wait_ready(&self) {
        self.worker.wait_idle();
    }

    /// Drops all views. Readers that hold one keep it; the next ones begin with rows.
    pub fn clear(&self) {
        let _feed = self.feed.lock();
        let registry = self.registry.read();
        registry.adjacency.values().for_each(|slot| slot.clear());
        self.any_fed.store(false, Ordering::Release);
    }

    /// Ends all work on views and drops them: rows answer from now on. Waits for work that is under way, so that
    /// nothing here keeps the database open afterwards.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.worker.close();
        self.clear();
    }

    /// Every view that was ever asked for.
    pub fn status(&self) -> Vec<ViewStatus> {
        let registry = self.registry.read();
        let mut all: Vec<ViewStatus> = registry
            .adjacency
            .iter()
            .map(|((type_id, side), slot)| status(ViewKind::Adjacency(*type_id, *side), slot))
            .collect();
        all.sort_by(|a, b| a.kind.cmp(&b.kind));
        all
    }

    /// Makes a view now, on this thread, unless it stands. With the ids of relationships where it is adjacency.
    ///
    /// # Errors
    /// Why it could not be made; rows answer then.
    pub fn make(&self, kind: &ViewKind) -> Result<(), ViewError> {
        self.build(kind, true)
    }

    // ---- for readers

    /// Adjacency of one type that answers `version`. Where there is none, `demand` counts towards making it.
    pub(crate) fn adjacency_at(
        &self,
        type_id: TypeId,
        side: Side,
        with_ids: bool,
        version: Version,
        demand: u64,
    ) -> Option<Pinned<AdjacencyBase>> {
        let slot = self.adjacency_slot(type_id, side);
        slot.used
            .store(self.uses.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        let pinned = slot.pin(version);
        let fits = |pinned: &Pinned<AdjacencyBase>| pinned.base().with_ids || !with_ids;
        if pinned.as_ref().is_some_and(fits) {
            return pinned;
        }
        let stands = slot.stands() && pinned.is_none();
        let asked = slot.demand.fetch_add(demand, Ordering::Relaxed) + demand;
        if !stands && asked >= self.options.demand && !slot.busy.swap(true, Ordering::AcqRel) {
            let kind = ViewKind::Adjacency(type_id, side);
            if !self.worker.push(&self.this, Job::Build { kind, with_ids }) {
                slot.busy.store(false, Ordering::Release);
            }
        }
        None
    }

    /// The demand at which a view is made.
    pub(crate) fn enough_demand(&self) -> u64 {
        self.options.demand
    }

    fn adjacency_slot(&self, type_id: TypeId, side: Side) -> Arc<Slot<AdjacencyBase>> {
        if let Some(slot) = self.registry.read().adjacency.get(&(type_id, side)) {
            return slot.clone();
        }
        let mut registry = self.registry.write();
        registry
            .adjacency
            .entry((type_id, side))
            .or_default()
            .clone()
    }

    // ---- making

    /// Does a job, on the worker's thread. What fails is left to the rows.
    pub(crate) fn run(&self, job: &Job) {
        // What cannot be made now is asked for again by those who need it.
        match job {
            Job::Build { kind, with_ids } => drop(self.build(kind, *with_ids)),
            Job::Merge(kind) => drop(self.merge(kind)),
        }
    }

    fn build(&self, kind: &ViewKind, with_ids: bool) -> Result<(), ViewError> {
        match kind {
            ViewKind::Adjacency(type_id, side) => {
                let slot = self.adjacency_slot(*type_id, *side);
                self.build_slot(&slot, kind, |tx, effort| {
                    let reversed = self.adjacency_slot(*type_id, side.reversed());
                    match reversed.pin(tx.version()) {
                        Some(pinned) if pinned.base().with_ids || !with_ids => {
                            adjacency::transpose(&pinned.generation, tx.version(), effort)
                        }
                        _ => adjacency::build(tx, *type_id, *side, with_ids, effort),
                    }
                })
            }
            _ => Ok(()),
        }
    }

    /// Reads a base while commits are collected, and puts it in place.
    fn build_slot<B: Base>(
        &self,
        slot: &Slot<B>,
        kind: &ViewKind,
        make: impl FnOnce(&Transaction, &mut Effort<'_>) -> Result<B, ViewError>,
    ) -> Result<(), ViewError> {
        slot.busy.store(true, Ordering::Release);
        let outcome = self.build_base(slot, kind, make);
        if outcome.is_err() {
            let _feed = self.feed.lock();
            slot.stop_building();
        }
        slot.demand.store(0, Ordering::Relaxed);
        slot.busy.store(false, Ordering::Release);
        outcome
    }

    fn build_base<B: Base>(
        &self,
        slot: &Slot<B>,
        kind: &ViewKind,
        make: impl FnOnce(&Transaction, &mut Effort<'_>) -> Result<B, ViewError>,
    ) -> Result<(), ViewError> {
        let store = self.store.upgrade().ok_or(ViewError::Stopped)?;
        let nodes = store.begin(Access::Read)?.node_count(None)?;
        {
            let _feed = self.feed.lock();
            if self.closed.load(Ordering::Relaxed) {
                return Err(ViewError::Stopped);
            }
            slot.begin_building(nodes);
            self.any_fed.store(true, Ordering::Release);
        }
        let tx = self.settled(&store)?;
        let make_room = |bytes| self.give_way(bytes, Some(kind));
        let memory = &self.memory;
        let mut effort = Effort::new(
            self.worker.stop(),
            &make_room,
            memory.reservation(MemoryKind::Views),
            memory.reservation(MemoryKind::Views),
        );
        let base = make(&tx, &mut effort)?;
        let kept = effort.into_kept();
        let feed = self.feed.lock();
        slot.finish_building(tx.version(), base, kept, feed.told);
        Ok(())
    }

    /// A snapshot that sees every commit that was told already.
    fn settled(&self, store: &Store) -> Result<Transaction, ViewError> {
        let begun = Instant::now();
        loop {
            let tx = store.begin(Access::Read)?;
            if tx.version() >= self.feed.lock().told {
                return Ok(tx);
            }
            if self.worker.stop().load(Ordering::Relaxed) {
                return Err(ViewError::Stopped);
            }
            if begun.elapsed() > PATIENCE {
                return Err(ViewError::Unsettled {
                    seconds: PATIENCE.as_secs(),
                });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn merge(&self, kind: &ViewKind) -> Result<(), ViewError> {
        match kind {
            ViewKind::Adjacency(type_id, side) => {
                let slot = self.adjacency_slot(*type_id, *side);
                self.merge_slot(&slot, kind, |generation, tx, effort| {
                    adjacency::merge(generation, tx.version(), effort)
                })
            }
            _ => Ok(()),
        }
    }

    fn merge_slot<B: Base>(
        &self,
        slot: &Slot<B>,
        kind: &ViewKind,
        make: impl FnOnce(
            &crate::slot::Generation<B>,
            &Transaction,
            &mut Effort<'_>,
        ) -> Result<B, ViewError>,
    ) -> Result<(), ViewError> {
        slot.busy.store(true, Ordering::Release);
        let outcome = self.merge_base(slot, kind, make);
        if outcome.is_err() {
            // A delta that cannot be merged must not grow without end.
            let _feed = self.feed.lock();
            slot.clear();
        }
        slot.busy.store(false, Ordering::Release);
        outcome
    }

    fn merge_base<B: Base>(
        &self,
        slot: &Slot<B>,
        kind: &ViewKind,
        make: impl FnOnce(
            &crate::slot::Generation<B>,
            &Transaction,
            &mut Effort<'_>,
        ) -> Result<B, ViewError>,
    ) -> Result<(), ViewError> {
        let Some((generation, true)) = slot.current() else {
            return Ok(());
        };
        let store = self.store.upgrade().ok_or(ViewError::Stopped)?;
        let tx = store.begin(Access::Read)?;
        if tx.version() <= generation.from {
            return Ok(());
        }
        let make_room = |bytes| self.give_way(bytes, Some(kind));
        let memory = &self.memory;
        let mut effort = Effort::new(
            self.worker.stop(),
            &make_room,
            memory.reservation(MemoryKind::Views),
            memory.reservation(MemoryKind::Views),
        );
        let base = make(&generation, &tx, &mut effort)?;
        // Chunks that did not change are counted once: the old base gives its part back when its last reader ends.
        let mut kept = effort.into_kept();
        let missing = base.bytes().saturating_sub(kept.bytes());
        if kept.try_grow(missing).is_err() {
            generation.reservation.lock().shrink(missing);
            kept.try_grow(missing)?;
        }
        let feed = self.feed.lock();
        slot.finish_merge(&generation, tx.version(), base, kept, feed.told);
        Ok(())
    }

    /// Drops views, the least recently used first, until about `bytes` bytes are free. Says whether it dropped any.
    fn give_way(&self, bytes: usize, except: Option<&ViewKind>) -> bool {
        let _feed = self.feed.lock();
        self.drop_oldest(bytes, except) > 0
    }

    /// The feed's lock is held.
    fn drop_oldest(&self, bytes: usize, except: Option<&ViewKind>) -> usize {
        let registry = self.registry.read();
        let mut standing: Vec<(u64, usize, Box<dyn Fn() + '_>)> = Vec::new();
        for (&(type_id, side), slot) in &registry.adjacency {
            let kind = ViewKind::Adjacency(type_id, side);
            if except != Some(&kind)
                && let Some((generation, _)) = slot.current()
            {
                let used = slot.used.load(Ordering::Relaxed);
                standing.push((used, generation.bytes(), Box::new(|| slot.clear())));
            }
        }
        standing.sort_by_key(|(used, _, _)| *used);
        let mut freed = 0;
        for (_, held, clear) in standing {
            if freed >= bytes {
                break;
            }
            clear();
            freed += held;
        }
        freed
    }

    // ---- following commits

    /// Where the registry's lock is held: whether a view's delta has grown so far that it is merged.
    fn merge_if_due<B: Base>(&self, slot: &Slot<B>, kind: impl FnOnce() -> ViewKind) {
        let Some((generation, newest)) = slot.current() else {
            return;
        };
        let due = self
            .options
            .merge_after
            .max(usize::try_from(generation.base.len() / 16).unwrap_or(usize::MAX));
        if generation.delta.len() < due {
            return;
        }
        if !newest {
            slot.clear(); // it would collect for nobody
        } else if !slot.busy.swap(true, Ordering::AcqRel)
            && !self.worker.push(&self.this, Job::Merge(kind()))
        {
            slot.clear();
            slot.busy.store(false, Ordering::Release);
        }
    }
}

fn status<B: Base>(kind: ViewKind, slot: &Slot<B>) -> ViewStatus {
    let current = slot.current();
    let state = match &current {
        Some((_, true)) => ViewState::Standing,
        _ if slot.busy.load(Ordering::Relaxed) => ViewState::Building,
        _ => ViewState::Absent,
    };
    let generation = current.as_ref().map(|(generation, _)| generation);
    ViewStatus {
        kind,
        state,
        version: generation.map_or(0, |generation| generation.from),
        count: generation.map_or(0, |generation| generation.base.len()),
        delta_count: generation.map_or(0, |generation| generation.delta.len() as u64),
        bytes: generation.map_or(0, |generation| generation.bytes() as u64),
    }
}

/// A relationship that came or went.
struct LinkChange {
    type_id: TypeId,
    source: u64,
    target: u64,
    rel: u64,
    added: bool,
}

impl Registry {
    fn tell_link(&self, version: Version, change: &LinkChange) {
        let ids = (
            small(change.source),
            small(change.target),
            small(change.rel),
        );
        for side in Side::BOTH {
            let Some(slot) = self.adjacency.get(&(change.type_id, side)) else {
                continue;
            };
            let (Some(source), Some(target), Some(rel)) = ids else {
                slot.lose(version);
                continue;
            };
            let (node, other) = match side {
                Side::Out => (source, target),
                Side::In => (target, source),
            };
            let added = change.added;
            slot.tell(version, node, &Link { other, rel, added });
        }
    }

    fn lose_type(&self, version: Version, type_id: TypeId) {
        for side in Side::BOTH {
            if let Some(slot) = self.adjacency.get(&(type_id, side)) {
                slot.lose(version);
            }
        }
    }

    fn lose_all(&self, version: Version) {
        self.adjacency.values().for_each(|slot| slot.lose(version));
    }

    fn tell(&self, version: Version, change: &Change<'_>) -> Result<(), DataError> {
        match change {
            Change::RelationshipCreated { id, record } => {
                let ends = RecordRef::new(record)?.endpoints();
                let (type_id, source, target) = ends.ok_or_else(|| DataError::Corrupt {
                    what: "the change stream tells of a relationship whose record is a node's"
                        .into(),
                })?;
                self.tell_link(
                    version,
                    &LinkChange {
                        type_id,
                        source: source.0,
                        target: target.0,
                        rel: id.0,
                        added: true,
                    },
                );
            }
            Change::RelationshipDeleted {
                id,
                type_id,
                source,
                target,
            } => self.tell_link(
                version,
                &LinkChange {
                    type_id: *type_id,
                    source: source.0,
                    target: target.0,
                    rel: id.0,
                    added: false,
                },
            ),
            Change::RelationshipsLoaded { type_id, .. } => self.lose_type(version, *type_id),
            _ => {}
        }
        Ok(())
    }
}

impl CommitObserver for Views {
    fn committing(&self, version: Version, changes: &[u8]) {
        if changes.is_empty() {
            return;
        }
        let mut feed = self.feed.lock();
        feed.told = version;
        if !self.any_fed.load(Ordering::Acquire) {
            return;
        }
        let registry = self.registry.read();
        let told = ChangeSet::decode(changes).and_then(|set| {
            set.changes
                .iter()
                .try_for_each(|one| registry.tell(version, one))
        });
        if told.is_err() {
            registry.lose_all(version); // rows will say what is wrong
        }
        for ((type_id, side), slot) in &registry.adjacency {
            self.merge_if_due(slot, || ViewKind::Adjacency(*type_id, *side));
        }
    }

    fn abandoned(&self, from: Version) {
        let mut feed = self.feed.lock();
        feed.told = feed.told.min(from.saturating_sub(1));
        let registry = self.registry.read();
        registry
            .adjacency
            .values()
            .for_each(|slot| slot.abandon(from));
    }
}

impl Reclaim for Views {
    fn reclaim(&self, bytes: usize) -> usize {
        match self.feed.try_lock() {
            Some(_feed) => self.drop_oldest(bytes, None),
            None => 0,
        }
    }
}

impl std::fmt::Debug for Views {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Views")
            .field("views", &self.status())
            .finish_non_exhaustive()
    }
}
