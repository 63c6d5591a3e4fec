//! The views as of one version.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use isomer_data::{Catalog, DataStore, Transaction, Version};
use isomer_value::{LabelId, NodeId, PropId, TypeId};
use parking_lot::Mutex;
use roaring::RoaringBitmap;
use rustc_hash::FxHashMap;

use crate::{
    AdjacencyAt, ColumnAt, Owner, ViewError, ViewKind, Views, members::MemberBase,
    side::AdjacencySide, slot::Pinned, status::Records,
};

/// With more types than this, a query over any type reads one range of rows instead of one view per type.
const MANY_TYPES: usize = 16;
/// With more labels than this, the labels of a node are read from its row.
const MANY_LABELS: usize = 16;

/// The views at the version of one transaction. A view is pinned when it is first requested, and stays the
/// same afterwards.
pub struct ViewsAt {
    views: Option<Arc<Views>>,
    catalog: Option<Arc<Catalog>>,
    version: Version,
    types: OnceLock<Option<Vec<TypeId>>>,
    labels: OnceLock<Option<Vec<LabelId>>>,
    pins: Mutex<Pins>,
}

#[derive(Default)]
struct Pins {
    adjacency: FxHashMap<(TypeId, AdjacencySide), AdjacencyAt>,
    members: FxHashMap<Option<LabelId>, Pinned<MemberBase>>,
    columns: Vec<ColumnAt>,
    by_prop: FxHashMap<(Records, PropId), Arc<[ColumnAt]>>,
}

impl Views {
    /// The views at a transaction's snapshot. Cheap: each view is pinned when it is requested.
    pub fn at(&self, tx: &Transaction) -> ViewsAt {
        match self.this.upgrade() {
            Some(views) if !self.closed.load(Ordering::Relaxed) => ViewsAt::new(views, tx),
            _ => ViewsAt::none(),
        }
    }
}

/// Whether the thread that set `busy` built the view; the flag is cleared if the thread was stopped before
/// its turn.
fn built(outcome: Result<(), ViewError>, busy: &AtomicBool) -> Option<()> {
    if matches!(outcome, Err(ViewError::Taken)) {
        busy.store(false, Ordering::Release);
    }
    outcome.ok()
}

impl ViewsAt {
    pub(crate) fn new(views: Arc<Views>, tx: &Transaction) -> Self {
        Self {
            views: Some(views),
            catalog: Some(tx.names().clone()),
            version: tx.version(),
            types: OnceLock::new(),
            labels: OnceLock::new(),
            pins: Mutex::default(),
        }
    }

    /// No views: every read uses the rows.
    pub fn none() -> Self {
        Self {
            views: None,
            catalog: None,
            version: 0,
            types: OnceLock::new(),
            labels: OnceLock::new(),
            pins: Mutex::default(),
        }
    }

    /// The version at which views answer.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Whether read views are enabled.
    pub fn is_enabled(&self) -> bool {
        self.views.is_some()
    }

    /// The relationships of a type, or of all types, seen from one end, if a view of them is ready; otherwise
    /// its build is requested for later queries. `None` for all types if there are too many of them.
    pub fn adjacency(&self, type_id: Option<TypeId>, side: AdjacencySide) -> Option<AdjacencyAt> {
        match type_id {
            Some(type_id) => self.adjacency_of(type_id, side, false, self.enough_demand()),
            None => self.adjacency_of_types(self.all_types()?, side),
        }
    }

    /// As [`ViewsAt::adjacency`] of one type, with relationship ids.
    pub fn adjacency_with_relationships(
        &self,
        type_id: TypeId,
        side: AdjacencySide,
    ) -> Option<AdjacencyAt> {
        self.adjacency_of(type_id, side, true, self.enough_demand())
    }

    /// All types, unless there are too many for one view each.
    pub(crate) fn all_types(&self) -> Option<&[TypeId]> {
        let catalog = self.catalog.as_ref()?;
        let types = self.types.get_or_init(|| {
            let types = catalog.types();
            (types.len() <= MANY_TYPES).then(|| types.into_iter().map(|(id, _)| id).collect())
        });
        types.as_deref()
    }

    /// All labels, ascending, unless there are too many for one view each.
    pub(crate) fn all_labels(&self) -> Option<&[LabelId]> {
        let catalog = self.catalog.as_ref()?;
        let labels = self.labels.get_or_init(|| {
            let labels = catalog.labels();
            let mut ids: Vec<LabelId> = labels.into_iter().map(|(id, _)| id).collect();
            ids.sort_unstable();
            (ids.len() <= MANY_LABELS).then_some(ids)
        });
        labels.as_deref()
    }

    /// As [`ViewsAt::adjacency`], of several types together.
    pub fn adjacency_of_types(&self, types: &[TypeId], side: AdjacencySide) -> Option<AdjacencyAt> {
        // Request every view, so that all missing ones are built.
        let parts: Vec<_> = types
            .iter()
            .map(|type_id| self.adjacency_of(*type_id, side, false, self.enough_demand()))
            .collect();
        let parts: Option<Vec<_>> = parts.into_iter().collect();
        parts.map(AdjacencyAt::of_types)
    }

    /// The nodes of a label, or all nodes, if a view of them is ready; otherwise its build is requested.
    pub fn label_set(&self, label: Option<LabelId>) -> Option<Arc<RoaringBitmap>> {
        Some(self.members_of(label, u64::MAX)?.set())
    }

    /// The values at `path` of a label's nodes, if a view of them is ready; otherwise its build is requested.
    /// The path is a property, or names through nested maps.
    pub fn column(&self, label: LabelId, path: &[PropId]) -> Option<ColumnAt> {
        self.column_asked(Owner::Nodes(label), path, u64::MAX)
    }

    /// As [`ViewsAt::column`], of a type's relationships: rows are relationship ids.
    pub fn rel_column(&self, type_id: TypeId, path: &[PropId]) -> Option<ColumnAt> {
        self.column_asked(Owner::Relationships(type_id), path, u64::MAX)
    }

    /// As [`ViewsAt::column`], but a missing column is built at once, on this thread: for callers that would
    /// otherwise read all of the label's rows, which costs about the same. `None` if another thread is
    /// building the column or loading in bulk, if it cannot be built, if the version is too old, or if
    /// `should_continue`, called every few milliseconds, returns false.
    pub fn column_now(
        &self,
        label: LabelId,
        path: &[PropId],
        should_continue: &dyn Fn() -> bool,
    ) -> Option<ColumnAt> {
        self.made_now(Owner::Nodes(label), path, should_continue)
    }

    /// As [`ViewsAt::adjacency`] of one type, but a missing view is read from its file or built at once, on
    /// this thread: for callers that would otherwise read all of the type's rows. `None` as in
    /// [`ViewsAt::column_now`].
    pub fn adjacency_now(
        &self,
        type_id: TypeId,
        side: AdjacencySide,
        should_continue: &dyn Fn() -> bool,
    ) -> Option<AdjacencyAt> {
        if let Some(known) = self.adjacency_of(type_id, side, false, 0) {
            return Some(known);
        }
        let views = self.views.as_ref()?;
        let slot = views.adjacency_slot(type_id, side);
        if slot.is_ready()
            || !views.commits_end_soon(should_continue)
            || slot.busy.swap(true, Ordering::AcqRel)
        {
            return None;
        }
        let kind = ViewKind::Adjacency(type_id, side);
        built(views.build(&kind, false, should_continue), &slot.busy)?;
        self.adjacency_of(type_id, side, false, 0)
    }

    /// As [`ViewsAt::column_now`], of a type's relationships.
    pub fn rel_column_now(
        &self,
        type_id: TypeId,
        path: &[PropId],
        should_continue: &dyn Fn() -> bool,
    ) -> Option<ColumnAt> {
        self.made_now(Owner::Relationships(type_id), path, should_continue)
    }

    fn made_now(
        &self,
        owner: Owner,
        path: &[PropId],
        should_continue: &dyn Fn() -> bool,
    ) -> Option<ColumnAt> {
        if let Some(known) = self.column_asked(owner, path, 0) {
            return Some(known);
        }
        let views = self.views.as_ref().filter(|_| !self.declines(path))?;
        let slot = views.column_slot(owner, path);
        if slot.is_ready()
            || !views.commits_end_soon(should_continue)
            || slot.busy.swap(true, Ordering::AcqRel)
        {
            return None;
        }
        let kind = owner.column(path.into());
        built(views.build(&kind, false, should_continue), &slot.busy)?;
        self.column_asked(owner, path, 0)
    }

    fn enough_demand(&self) -> u64 {
        self.views.as_ref().map_or(0, |views| views.enough_demand())
    }

    /// As [`ViewsAt::adjacency`]; if the view is missing, `demand` units of work count towards building it.
    pub(crate) fn adjacency_of(
        &self,
        type_id: TypeId,
        side: AdjacencySide,
        with_ids: bool,
        demand: u64,
    ) -> Option<AdjacencyAt> {
        let views = self.views.as_ref()?;
        let mut pins = self.pins.lock();
        if let Some(known) = pins.adjacency.get(&(type_id, side))
            && (known.has_relationships() || !with_ids)
        {
            return Some(known.clone());
        }
        let pinned = views.adjacency_at(type_id, side, with_ids, self.version, demand)?;
        let at = AdjacencyAt::of_type(type_id, side, pinned);
        pins.adjacency.insert((type_id, side), at.clone());
        Some(at)
    }

    /// Number of node lookups after which a member set or column is worth building: a share of the nodes that
    /// building it would read.
    fn worth(&self, demand: u64, count: impl FnOnce() -> u64) -> (u64, u64) {
        match demand {
            // Requested explicitly.
            u64::MAX => (1, 1),
            demand => (demand, self.enough_demand() + count() / 64),
        }
    }

    /// As [`ViewsAt::label_set`], for membership tests of single nodes.
    pub(crate) fn members_of(
        &self,
        label: Option<LabelId>,
        demand: u64,
    ) -> Option<Pinned<MemberBase>> {
        let views = self.views.as_ref()?;
        let mut pins = self.pins.lock();
        if let Some(known) = pins.members.get(&label) {
            return Some(known.clone());
        }
        let (demand, enough) = self.worth(demand, || self.node_count(label));
        let pinned = views.members_at(label, self.version, demand, enough)?;
        pins.members.insert(label, pinned.clone());
        Some(pinned)
    }

    /// As [`ViewsAt::column`]; if the column is missing, `demand` records read count towards building it.
    pub(crate) fn column_asked(
        &self,
        owner: Owner,
        path: &[PropId],
        demand: u64,
    ) -> Option<ColumnAt> {
        let views = self.views.as_ref().filter(|_| !self.declines(path))?;
        let mut pins = self.pins.lock();
        let known = |column: &&ColumnAt| column.owner() == owner && column.path() == path;
        if let Some(known) = pins.columns.iter().find(known) {
            return Some(known.clone());
        }
        let (demand, enough) = self.worth(demand, || self.record_count(owner));
        let pinned = views.column_at(owner, path, self.version, demand, enough)?;
        let column = ColumnAt::new(owner, path.into(), pinned);
        pins.columns.push(column.clone());
        Some(column)
    }

    /// Whether no column can hold the values at `path`: columns hold a convergent property as a whole, not
    /// parts of it.
    fn declines(&self, path: &[PropId]) -> bool {
        match path {
            [] => true,
            [_] => false,
            [first, ..] => {
                let store = self.store();
                store.is_none_or(|store| store.is_convergent(*first))
            }
        }
    }

    /// The ready columns of one property, over all labels or types.
    pub(crate) fn columns_of(&self, records: Records, prop: PropId) -> Option<Arc<[ColumnAt]>> {
        let views = self.views.as_ref()?;
        let mut pins = self.pins.lock();
        if let Some(known) = pins.by_prop.get(&(records, prop)) {
            return Some(known.clone());
        }
        let found: Arc<[ColumnAt]> = views.columns_of(records, prop, self.version).into();
        if found.is_empty() {
            return None; // a column may be ready for the next batch
        }
        pins.by_prop.insert((records, prop), found.clone());
        Some(found)
    }

    /// Counts nodes whose property was read from the rows; `some` is one of them and identifies the label.
    pub(crate) fn count_property(&self, tx: &Transaction, some: NodeId, prop: PropId, nodes: u64) {
        if let Some(label) = tx.store().home_label(some) {
            self.column_asked(Owner::Nodes(label), &[prop], nodes);
        }
    }

    fn node_count(&self, label: Option<LabelId>) -> u64 {
        let store = self.store();
        store.map_or(0, |store| store.counts().nodes_now(label))
    }

    fn record_count(&self, owner: Owner) -> u64 {
        match owner {
            Owner::Nodes(label) => self.node_count(Some(label)),
            Owner::Relationships(type_id) => self
                .store()
                .map_or(0, |store| store.counts().relationships_now(Some(type_id))),
        }
    }

    fn store(&self) -> Option<DataStore> {
        self.views.as_ref()?.store.upgrade()
    }
}

impl std::fmt::Debug for ViewsAt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ViewsAt")
            .field("version", &self.version)
            .field("enabled", &self.is_enabled())
            .finish_non_exhaustive()
    }
}
