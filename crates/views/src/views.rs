//! All views of a database: every commit is applied to them, and every reader asks them.

use std::{
    path::PathBuf,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use isomer_data::{DataError, DataStore, Version, WeakDataStore};
use isomer_storage::{MemoryBudget, MemoryKind, Reclaim};
use isomer_value::{LabelId, PropId, TypeId};
use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::{
    ColumnAt, Owner, ViewError, ViewKind, ViewStatus,
    adjacency::AdjacencyBase,
    build::ALWAYS,
    column::ColumnBase,
    inbox::{Commits, Inbox},
    keeping::Keeping,
    members::MemberBase,
    registry::Registry,
    side::AdjacencySide,
    slot::{Base, DroppedContent, Pinned, Slot},
    status::Records,
    worker::{Job, Worker},
};

/// Options of read views.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ViewOptions {
    /// Whether read views are enabled. Without them every read uses the rows.
    pub enabled: bool,
    /// Work saved, in nodes expanded or records read, after which a missing view is built.
    pub demand: u64,
    /// Minimum number of changes in a delta for a merge; a large view waits for a fraction of its base.
    pub merge_after: usize,
    /// The folder in which views are persisted; `None` disables persistence. A read-only database does not
    /// write to it.
    pub folder: Option<PathBuf>,
    /// Minimum number of relationships, nodes or values for a view to be persisted: smaller ones are built as
    /// quickly as read.
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

/// How long a reader waits for a thread that is applying commits, normally for much less. After that it reads
/// rows instead of being blocked longer.
const READER_LOCK_WAIT: Duration = Duration::from_millis(100);

/// The read views of a database. Holds no strong reference to the database.
pub struct Views {
    pub(crate) options: ViewOptions,
    /// The memory budget.
    pub(crate) memory: MemoryBudget,
    pub(crate) store: WeakDataStore,
    pub(crate) this: Weak<Self>,
    /// Held while commits are applied, and while the construction of a base starts or ends: see
    /// [`Views::feed`].
    feed: Mutex<Feed>,
    /// Commits not applied yet. Open while any slot collects commits: before that, commits cost nothing.
    pub(crate) inbox: Inbox,
    pub(crate) registry: RwLock<Registry>,
    uses: AtomicU64,
    pub(crate) worker: Worker,
    pub(crate) closed: AtomicBool,
    /// The files of views, if persistence is on.
    pub(crate) keeping: Option<Keeping>,
}

/// Runs `$body` with the slot of a view of any kind.
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

/// State of applying commits.
#[derive(Default)]
pub(crate) struct Feed {
    /// The newest applied version that changed anything and was not rolled back.
    pub(crate) applied: Version,
    /// Buffer for the commits being applied.
    pub(crate) applying: Commits,
}

impl Views {
    /// The views of `store`: initially empty; they are built as readers request them.
    ///
    /// # Errors
    /// Errors of listing the stored views; a view that cannot be built is not an error.
    pub fn open(store: &DataStore, options: ViewOptions) -> Result<Arc<Self>, DataError> {
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
            // The first request reads the file.
            views.files().note_stored(&kind);
        }
        Ok(views)
    }

    /// Waits until every requested view is ready or was given up.
    pub fn wait_ready(&self) {
        drop(self.feed());
        self.worker.wait_idle();
    }

    /// Drops all views. Readers keep those that they pinned; later ones start with rows.
    pub fn clear(&self) {
        // The content is freed after the feed is released.
        let mut cleared = Vec::new();
        let _feed = self.feed();
        let registry = self.registry.read();
        registry.each(|_, slot| cleared.push(slot.clear()));
        let mut waiting = self.inbox.lock();
        waiting.open = false;
        waiting.commits.clear();
        drop(waiting);
        self.inbox.mark_applied();
    }

    /// Locks the feed and applies the inbox.
    pub(crate) fn feed(&self) -> MutexGuard<'_, Feed> {
        let mut feed = self.feed.lock();
        self.apply_waiting(&mut feed);
        feed
    }

    /// Locks the feed without applying the inbox.
    pub(crate) fn feed_without_applying(&self) -> MutexGuard<'_, Feed> {
        self.feed.lock()
    }

    /// Applies the enqueued commits that a reader of `version` must see. Waits for a thread that is applying
    /// them.
    #[inline]
    pub(crate) fn catch_up(&self, version: Version) {
        if self.inbox.lacks(version) {
            drop(self.feed());
        }
    }

    /// As [`Views::catch_up`] for a reader: returns false if another thread holds the feed for too long, so
    /// that the caller reads rows.
    #[inline]
    fn caught_up(&self, version: Version) -> bool {
        if !self.inbox.lacks(version) {
            return true;
        }
        match self.feed.try_lock_for(READER_LOCK_WAIT) {
            Some(mut feed) => {
                self.apply_waiting(&mut feed);
                true
            }
            None => !self.inbox.lacks(version),
        }
    }

    /// Stops all work on views and drops them: reads use the rows from now on. Waits for work in progress, so
    /// that no view keeps the database open afterwards.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
        self.worker.close();
        // A view from an earlier opening is merged before it is saved.
        self.worker.allow_final_work(true);
        self.files().save_all();
        self.worker.allow_final_work(false);
        self.clear();
        if let Some(keeping) = &self.keeping {
            keeping.let_go();
        }
    }

    /// Every view that was ever requested.
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

    /// Builds a view now, on this thread, unless it is ready; adjacency with relationship ids.
    ///
    /// # Errors
    /// Why it could not be built; reads use the rows then.
    pub fn make(&self, kind: &ViewKind) -> Result<(), ViewError> {
        self.build(kind, true, ALWAYS)
    }

    /// As [`Views::make`], but adjacency without relationship ids, which takes half the memory.
    ///
    /// # Errors
    /// As [`Views::make`].
    pub fn make_plain(&self, kind: &ViewKind) -> Result<(), ViewError> {
        self.build(kind, false, ALWAYS)
    }

    /// Merges base and delta of a view now, on this thread. Happens automatically after many changes.
    ///
    /// # Errors
    /// As [`Views::make`]; the view is dropped then.
    pub fn merge_now(&self, kind: &ViewKind) -> Result<(), ViewError> {
        self.merge(kind)
    }

    // ---- for readers

    /// Adjacency of one type at `version`. If there is none, `demand` counts towards building it.
    pub(crate) fn adjacency_at(
        &self,
        type_id: TypeId,
        side: AdjacencySide,
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
        // A ready view that is merely too new for this reader need not be rebuilt.
        if pinned.is_some() || !slot.is_ready() {
            let kind = || ViewKind::Adjacency(type_id, side);
            self.request_build(&slot, kind, with_ids, demand, self.options.demand);
        }
        None
    }

    /// The nodes of a label, or all nodes, at `version`. If there are none, `demand` counts towards building
    /// them.
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
        if pinned.is_none() && !slot.is_ready() {
            self.request_build(&slot, || ViewKind::Members(label), false, demand, enough);
        }
        pinned
    }

    /// A column at `version`. If there is none, `demand` counts towards building it.
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
        if pinned.is_none() && !slot.is_ready() {
            let kind = || owner.column(path.into());
            self.request_build(&slot, kind, false, demand, enough);
        }
        pinned
    }

    /// The columns of one property at `version`, over all labels of nodes or all types of relationships.
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

    /// The demand at which a view is built.
    pub(crate) fn enough_demand(&self) -> u64 {
        self.options.demand
    }

    /// Pins a view at `version`, after the commits up to it were applied: see [`Views::catch_up`].
    fn pin<B: Base>(&self, slot: &Slot<B>, version: Version) -> Option<Pinned<B>> {
        let now = self.uses.fetch_add(1, Ordering::Relaxed);
        slot.used.store(now, Ordering::Relaxed);
        slot.pin(version)
    }

    /// Counts work that a view would have saved, and requests its build when that is enough.
    fn request_build<B: Base>(
        &self,
        slot: &Slot<B>,
        kind: impl FnOnce() -> ViewKind,
        with_ids: bool,
        demand: u64,
        enough: u64,
    ) {
        let asked = slot.demand.fetch_add(demand, Ordering::Relaxed) + demand;
        // Exponential backoff after failed builds.
        let enough = if slot.stored.load(Ordering::Relaxed) {
            enough.min(1)
        } else {
            enough
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

    pub(crate) fn adjacency_slot(
        &self,
        type_id: TypeId,
        side: AdjacencySide,
    ) -> Arc<Slot<AdjacencyBase>> {
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

    // ---- eviction

    /// Evicts views, least recently used first, until about `bytes` bytes are free. Returns whether it
    /// evicted any.
    pub(crate) fn give_way(&self, bytes: usize, except: Option<&ViewKind>) -> bool {
        let feed = self.feed();
        let (freed, cleared) = self.drop_oldest(bytes, except);
        drop(feed);
        drop(cleared);
        freed > 0
    }

    /// The caller holds the feed. Returns how much will be free once the evicted content is dropped, outside
    /// of the lock.
    fn drop_oldest(&self, bytes: usize, except: Option<&ViewKind>) -> (usize, Vec<DroppedContent>) {
        let registry = self.registry.read();
        let mut standing = Vec::new();
        registry.each(|kind, slot| {
            if except != Some(&kind)
                && let Some((held, shared)) = slot.held()
            {
                // Memory that readers hold is freed only when they end, so such views are evicted last.
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
