//! All views of a database: told of every commit, asked by every reader.

use std::{
    path::PathBuf,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use isomer_data::{DataError, Store, Transaction, Version, WeakStore};
use isomer_storage::{Memory, MemoryKind, Reclaim};
use isomer_value::{LabelId, PropId, TypeId};
use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::{
    ColumnAt, Owner, Side, ViewError, ViewKind, ViewStatus, ViewsAt,
    adjacency::AdjacencyBase,
    column::ColumnBase,
    inbox::{Commits, Inbox},
    keeping::Keeping,
    making::ALWAYS,
    members::MemberBase,
    registry::Registry,
    slot::{Base, Cleared, Pinned, Slot},
    worker::{Job, Worker},
};

/// How views are kept.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ViewOptions {
    /// Whether there are any. Without them rows answer everything.
    pub enabled: bool,
    /// Work with rows, in nodes expanded or records read, after which a view is made that would have saved it.
    pub demand: u64,
    /// Changes beside a base after which both are merged, at least; in a large view a part of its base.
    pub merge_after: usize,
    /// Where views are kept between openings; nowhere if absent. A store that only reads is only read from.
    pub folder: Option<PathBuf>,
    /// Relationships, nodes or values from which on a view is kept: smaller ones are as soon made as read.
    pub keep_at_least: u64,
}

impl Default for ViewOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            demand: 256,
            merge_after: 8192,
            folder: None,
            keep_at_least: 4096,
        }
    }
}

/// So long a reader waits for who tells commits just now, which takes far less: before it would be stopped by anything that
/// takes longer, it reads rows.
const READER_PATIENCE: Duration = Duration::from_millis(100);

/// The read views of a database. Holds no part of the database open.
pub struct Views {
    pub(crate) options: ViewOptions,
    /// The budget that memory is taken from.
    pub(crate) memory: Memory,
    pub(crate) store: WeakStore,
    pub(crate) this: Weak<Self>,
    /// Held for the whole of a commit's telling, and by whoever begins or ends making a base: see [`Views::feed`].
    feed: Mutex<Feed>,
    /// Commits that are not told yet. It is open while any slot is fed: commits cost nothing before.
    pub(crate) inbox: Inbox,
    pub(crate) registry: RwLock<Registry>,
    uses: AtomicU64,
    pub(crate) worker: Worker,
    pub(crate) closed: AtomicBool,
    /// Their files, where they are kept.
    pub(crate) keeping: Option<Keeping>,
}

/// Runs `$body` with the slot of a view of any sort.
macro_rules! for_slot {
    ($views:expr, $kind:expr, $slot:ident => $body:expr) => {
        match $kind {
            $crate::ViewKind::Adjacency(type_id, side) => {
                let $slot = $views.adjacency_slot(*type_id, *side);
                $body
            }
            $crate::ViewKind::Members(label) => {
                let $slot = $views.member_slot(*label);
                $body
            }
            $crate::ViewKind::Column(label, path) => {
                let $slot = $views.column_slot($crate::Owner::Nodes(*label), path);
                $body
            }
            $crate::ViewKind::RelColumn(type_id, path) => {
                let $slot = $views.column_slot($crate::Owner::Relationships(*type_id), path);
                $body
            }
        }
    };
}
pub(crate) use for_slot;

/// The two sorts of records that columns are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Records {
    Nodes,
    Relationships,
}

impl Records {
    fn of(owner: Owner) -> Self {
        match owner {
            Owner::Nodes(_) => Self::Nodes,
            Owner::Relationships(_) => Self::Relationships,
        }
    }
}

/// What is known of the commits told so far.
#[derive(Default)]
pub(crate) struct Feed {
    /// The newest version told that changed anything and was not abandoned.
    pub(crate) told: Version,
    /// Room for what is being told.
    pub(crate) telling: Commits,
}

impl Views {
    /// The views of `store`: none yet; they are made as readers ask for them.
    ///
    /// # Errors
    /// Those of reading what was stored of them; views that cannot be made are no error.
    pub fn open(store: &Store, options: ViewOptions) -> Result<Arc<Self>, DataError> {
        let enabled = options.enabled;
        let folder = options.folder.as_deref().filter(|_| enabled);
        let keeping = folder.map(|folder| Keeping::open(store, folder));
        let views = Arc::new_cyclic(|this| Self {
            store: store.downgrade(),
            memory: store.memory().clone(),
            this: this.clone(),
            feed: Mutex::default(),
            inbox: Inbox::default(),
            registry: RwLock::default(),
            uses: AtomicU64::new(1),
            worker: Worker::new(),
            closed: AtomicBool::new(!enabled),
            keeping,
            options,
        });
        if enabled {
            store.observe(views.clone());
            let holder: Weak<dyn Reclaim> = views.this.clone();
            views.memory.add_reclaimer(MemoryKind::Views, holder);
        }
        for kind in views.keeping.iter().flat_map(Keeping::kinds) {
            // The first one who asks has it read.
            views.note_stored(&kind);
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
        drop(self.feed());
        self.worker.wait_idle();
    }

    /// Drops all views. Readers that hold one keep it; the next ones begin with rows.
    pub fn clear(&self) {
        // What was held is freed when nobody waits for the feed any more.
        let mut cleared = Vec::new();
        let _feed = self.feed();
        let registry = self.registry.read();
        registry.each(|_, slot| cleared.push(slot.clear()));
        let mut waiting = self.inbox.lock();
        waiting.open = false;
        waiting.commits.clear();
        drop(waiting);
        self.inbox.told();
    }

    /// The feed, with all told that was handed in.
    pub(crate) fn feed(&self) -> MutexGuard<'_, Feed> {
        let mut feed = self.feed.lock();
        self.tell_waiting(&mut feed);
        feed
    }

    /// The feed, with what waits still waiting.
    pub(crate) fn feed_untold(&self) -> MutexGuard<'_, Feed> {
        self.feed.lock()
    }

    /// Tells what a reader of `version` must see and what is not told yet. Waits for who tells already.
    #[inline]
    pub(crate) fn catch_up(&self, version: Version) {
        if self.inbox.lacks(version) {
            drop(self.feed());
        }
    }

    /// As [`Views::catch_up`] for a reader: false where another has the feed for longer than a reader waits, so that rows
    /// answer.
    #[inline]
    fn caught_up(&self, version: Version) -> bool {
        if !self.inbox.lacks(version) {
            return true;
        }
        match self.feed.try_lock_for(READER_PATIENCE) {
            Some(mut feed) => {
                self.tell_waiting(&mut feed);
                true
            }
            None => !self.inbox.lacks(version),
        }
    }

    /// Ends all work on views and drops them: rows answer from now on. Waits for work that is under way, so that
    /// nothing here keeps the database open afterwards.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.worker.close();
        // A view of an earlier opening is merged before it is saved.
        self.worker.go_on(true);
        self.save_all();
        self.worker.go_on(false);
        self.clear();
        if let Some(keeping) = &self.keeping {
            keeping.let_go();
        }
    }

    /// Every view that was ever asked for.
    pub fn status(&self) -> Vec<ViewStatus> {
        self.catch_up(Version::MAX - 1);
        let mut all = Vec::new();
        self.registry
            .read()
            .each(|kind, slot| all.push(slot.status(kind)));
        for view in &mut all {
            let file = self
                .keeping
                .as_ref()
                .and_then(|keeping| keeping.file(&view.kind));
            if let Some((version, bytes)) = file {
                (view.stored_version, view.stored_bytes) = (Some(version), bytes);
            }
        }
        all.sort_by(|a, b| a.kind.cmp(&b.kind));
        all
    }

    /// Makes a view now, on this thread, unless it stands. With the ids of relationships where it is adjacency.
    ///
    /// # Errors
    /// Why it could not be made; rows answer then.
    pub fn make(&self, kind: &ViewKind) -> Result<(), ViewError> {
        self.build(kind, true, ALWAYS)
    }

    /// As [`Views::make`], adjacency without the ids of relationships, which takes half the memory.
    ///
    /// # Errors
    /// As [`Views::make`].
    pub fn make_plain(&self, kind: &ViewKind) -> Result<(), ViewError> {
        self.build(kind, false, ALWAYS)
    }

    /// Puts all that a view has gathered since its base was made into a new base, now, on this thread. Happens by itself
    /// where much has changed.
    ///
    /// # Errors
    /// As [`Views::make`]; the view is dropped then.
    pub fn merge_now(&self, kind: &ViewKind) -> Result<(), ViewError> {
        self.merge(kind)
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
        if !self.caught_up(version) {
            return None;
        }
        let slot = self.adjacency_slot(type_id, side);
        let pinned = self.pin(&slot, version);
        let fits = |pinned: &Pinned<AdjacencyBase>| pinned.base().with_ids || !with_ids;
        if pinned.as_ref().is_some_and(fits) {
            return pinned;
        }
        // One that stands and is only too young for this reader need not be made again.
        if pinned.is_some() || !slot.stands() {
            let kind = || ViewKind::Adjacency(type_id, side);
            self.ask(&slot, kind, with_ids, demand, self.options.demand);
        }
        None
    }

    /// The nodes of a label, or all, at `version`. Where there are none, `demand` counts towards making them.
    pub(crate) fn members_at(
        &self,
        label: Option<LabelId>,
        version: Version,
        demand: u64,
        enough: u64,
    ) -> Option<Pinned<MemberBase>> {
        if !self.caught_up(version) {
            return None;
        }
        let slot = self.member_slot(label);
        let pinned = self.pin(&slot, version);
        if pinned.is_none() && !slot.stands() {
            self.ask(&slot, || ViewKind::Members(label), false, demand, enough);
        }
        pinned
    }

    /// A column at `version`. Where there is none, `demand` counts towards making it.
    pub(crate) fn column_at(
        &self,
        owner: Owner,
        path: &[PropId],
        version: Version,
        demand: u64,
        enough: u64,
    ) -> Option<Pinned<ColumnBase>> {
        if !self.caught_up(version) {
            return None;
        }
        let slot = self.column_slot(owner, path);
        let pinned = self.pin(&slot, version);
        if pinned.is_none() && !slot.stands() {
            let kind = || owner.column(path.into());
            self.ask(&slot, kind, false, demand, enough);
        }
        pinned
    }

    /// The columns of one property, of nodes of whatever labels or of relationships of whatever types, that answer
    /// `version`.
    pub(crate) fn columns_of(
        &self,
        records: Records,
        prop: PropId,
        version: Version,
    ) -> Vec<ColumnAt> {
        let mut found = Vec::new();
        if !self.caught_up(version) {
            return found;
        }
        let registry = self.registry.read();
        for (owner, columns) in &registry.columns {
            if records != Records::of(*owner) {
                continue;
            }
            for (path, slot) in columns {
                if **path == [prop]
                    && let Some(pinned) = self.pin(slot, version)
                {
                    found.push(ColumnAt::new(*owner, path.clone(), pinned));
                }
            }
        }
        found
    }

    /// The demand at which a view is made.
    pub(crate) fn enough_demand(&self) -> u64 {
        self.options.demand
    }

    /// Told so far, what is answered: see [`Views::catch_up`].
    fn pin<B: Base>(&self, slot: &Slot<B>, version: Version) -> Option<Pinned<B>> {
        let now = self.uses.fetch_add(1, Ordering::Relaxed);
        slot.used.store(now, Ordering::Relaxed);
        slot.pin(version)
    }

    /// Counts what a view would have saved, and has it made once that is enough.
    fn ask<B: Base>(
        &self,
        slot: &Slot<B>,
        kind: impl FnOnce() -> ViewKind,
        with_ids: bool,
        demand: u64,
        enough: u64,
    ) {
        let asked = slot.demand.fetch_add(demand, Ordering::Relaxed) + demand;
        // What failed before is tried ever more rarely.
        let enough = match slot.stored.load(Ordering::Relaxed) {
            true => enough.min(1),
            false => enough,
        };
        let enough = enough << slot.failures.load(Ordering::Relaxed).min(16);
        if asked < enough || slot.busy.swap(true, Ordering::AcqRel) {
            return;
        }
        let kind = kind();
        if !self.worker.push(&self.this, Job::Build { kind, with_ids }) {
            slot.busy.store(false, Ordering::Release);
        }
    }

    pub(crate) fn adjacency_slot(&self, type_id: TypeId, side: Side) -> Arc<Slot<AdjacencyBase>> {
        if let Some(slot) = self.registry.read().adjacency.get(&(type_id, side)) {
            return slot.clone();
        }
        let mut registry = self.registry.write();
        let entry = registry.adjacency.entry((type_id, side));
        entry.or_default().clone()
    }

    pub(crate) fn member_slot(&self, label: Option<LabelId>) -> Arc<Slot<MemberBase>> {
        if let Some(slot) = self.registry.read().members.get(&label) {
            return slot.clone();
        }
        let mut registry = self.registry.write();
        registry.members.entry(label).or_default().clone()
    }

    pub(crate) fn column_slot(&self, owner: Owner, path: &[PropId]) -> Arc<Slot<ColumnBase>> {
        if let Some(slot) = self.registry.read().column(owner, path) {
            return slot.clone();
        }
        let mut registry = self.registry.write();
        if let Some(slot) = registry.column(owner, path) {
            return slot.clone();
        }
        let slot = Arc::<Slot<ColumnBase>>::default();
        let columns = registry.columns.entry(owner).or_default();
        columns.push((path.into(), slot.clone()));
        slot
    }

    // ---- giving memory back

    /// Drops views, the least recently used first, until about `bytes` bytes are free. Says whether it dropped any.
    pub(crate) fn give_way(&self, bytes: usize, except: Option<&ViewKind>) -> bool {
        let feed = self.feed();
        let (freed, cleared) = self.drop_oldest(bytes, except);
        drop(feed);
        drop(cleared);
        freed > 0
    }

    /// The feed's lock is held. Answers how much is free once what they held is dropped, without the lock.
    fn drop_oldest(&self, bytes: usize, except: Option<&ViewKind>) -> (usize, Vec<Cleared>) {
        let registry = self.registry.read();
        let mut standing = Vec::new();
        registry.each(|kind, slot| {
            if except != Some(&kind)
                && let Some((held, shared)) = slot.held()
            {
                // What readers hold is freed when they end: last choice.
                standing.push((shared, slot.used(), held, kind));
            }
        });
        standing.sort_unstable();
        let mut freed = 0;
        let mut dropped = Vec::new();
        for (shared, _, held, kind) in standing {
            if freed >= bytes {
                break;
            }
            freed += if shared { 0 } else { held };
            dropped.push(kind);
        }
        let mut cleared = Vec::new();
        registry.each(|kind, slot| {
            if dropped.contains(&kind) {
                cleared.push(slot.clear());
            }
        });
        (freed, cleared)
    }
}

impl Reclaim for Views {
    fn reclaim(&self, bytes: usize) -> usize {
        let Some(feed) = self.feed.try_lock() else {
            return 0;
        };
        let (freed, cleared) = self.drop_oldest(bytes, None);
        drop(feed);
        drop(cleared);
        freed
    }
}

impl std::fmt::Debug for Views {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Views")
            .field("views", &self.status())
            .finish_non_exhaustive()
    }
}
