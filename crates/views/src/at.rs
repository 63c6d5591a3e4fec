//! The views at one version.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicBool, Ordering},
};

use isomer_data::{Catalog, Store, Transaction, Version};
use isomer_value::{LabelId, NodeId, PropId, TypeId};
use parking_lot::Mutex;
use roaring::RoaringBitmap;
use rustc_hash::FxHashMap;

use crate::{
    AdjacencyAt, ColumnAt, Owner, Side, ViewError, ViewKind, Views, members::MemberBase,
    slot::Pinned, views::Records,
};

/// With more types than this, "any type" is one range of rows instead of as many views.
const MANY_TYPES: usize = 16;
/// With more labels than this, "which labels" is read from the row.
const MANY_LABELS: usize = 16;

/// The views at the version of one transaction. What is asked for is pinned at the first question and stays the same.
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
    adjacency: FxHashMap<(TypeId, Side), AdjacencyAt>,
    members: FxHashMap<Option<LabelId>, Pinned<MemberBase>>,
    columns: Vec<ColumnAt>,
    by_prop: FxHashMap<(Records, PropId), Arc<[ColumnAt]>>,
}

/// Whether a view was made by who had taken `busy` for it: given back where its turn did not come before it was to stop.
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

    /// No view: rows answer everything.
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

    /// The version that is answered.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Whether there are views at all.
    pub fn is_enabled(&self) -> bool {
        self.views.is_some()
    }

    /// The relationships of a type, or of all types, seen from one end, if views of them stand; otherwise they are being
    /// made for those who come later. Nothing for all types where there are very many of them.
    pub fn adjacency(&self, type_id: Option<TypeId>, side: Side) -> Option<AdjacencyAt> {
        match type_id {
            Some(type_id) => self.adjacency_of(type_id, side, false, self.enough()),
            None => self.adjacency_of_types(self.all_types()?, side),
        }
    }

    /// As [`ViewsAt::adjacency`] of one type, with the ids of the relationships.
    pub fn adjacency_with_relationships(&self, type_id: TypeId, side: Side) -> Option<AdjacencyAt> {
        self.adjacency_of(type_id, side, true, self.enough())
    }

    /// All types that there are, unless there are too many to look at one by one.
    pub(crate) fn all_types(&self) -> Option<&[TypeId]> {
        let catalog = self.catalog.as_ref()?;
        let types = self.types.get_or_init(|| {
            let types = catalog.types();
            (types.len() <= MANY_TYPES).then(|| types.into_iter().map(|(id, _)| id).collect())
        });
        types.as_deref()
    }

    /// All labels that there are, ascending, unless there are too many to look at one by one.
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
    pub fn adjacency_of_types(&self, types: &[TypeId], side: Side) -> Option<AdjacencyAt> {
        // All are asked for, so that all are made.
        let parts: Vec<_> = types
            .iter()
            .map(|type_id| self.adjacency_of(*type_id, side, false, self.enough()))
            .collect();
        let parts: Option<Vec<_>> = parts.into_iter().collect();
        parts.map(AdjacencyAt::many)
    }

    /// The nodes of a label, or all, if a view of them stands; otherwise it is being made.
    pub fn label_set(&self, label: Option<LabelId>) -> Option<Arc<RoaringBitmap>> {
        Some(self.members_of(label, u64::MAX)?.set())
    }

    /// The values at `path` of a label's nodes, if a view of them stands; otherwise it is being made. The path is a
    /// property, or names through nested maps.
    pub fn column(&self, label: LabelId, path: &[PropId]) -> Option<ColumnAt> {
        self.column_asked(Owner::Nodes(label), path, u64::MAX)
    }

    /// As [`ViewsAt::column`], of a type's relationships: rows are their ids.
    pub fn rel_column(&self, type_id: TypeId, path: &[PropId]) -> Option<ColumnAt> {
        self.column_asked(Owner::Relationships(type_id), path, u64::MAX)
    }

    /// As [`ViewsAt::column`], but where there is none it is made at once, on this thread: for those who would read all
    /// of the label's rows otherwise, which costs about as much. None where another thread makes it or loads in bulk just
    /// now, or it cannot be made, or for an older version, and when `go_on`, which is asked every few milliseconds, says
    /// no.
    pub fn column_now(
        &self,
        label: LabelId,
        path: &[PropId],
        go_on: &dyn Fn() -> bool,
    ) -> Option<ColumnAt> {
        self.made_now(Owner::Nodes(label), path, go_on)
    }

    /// As [`ViewsAt::adjacency`] of one type, but where there is none it is read from its file or made at once, on this
    /// thread: for those who would read all of the type's rows otherwise. None as in [`ViewsAt::column_now`].
    pub fn adjacency_now(
        &self,
        type_id: TypeId,
        side: Side,
        go_on: &dyn Fn() -> bool,
    ) -> Option<AdjacencyAt> {
        if let Some(known) = self.adjacency_of(type_id, side, false, 0) {
            return Some(known);
        }
        let views = self.views.as_ref()?;
        let slot = views.adjacency_slot(type_id, side);
        if slot.stands() || !views.settles_soon(go_on) || slot.busy.swap(true, Ordering::AcqRel) {
            return None;
        }
        let kind = ViewKind::Adjacency(type_id, side);
        built(views.build(&kind, false, go_on), &slot.busy)?;
        self.adjacency_of(type_id, side, false, 0)
    }

    /// As [`ViewsAt::column_now`], of a type's relationships.
    pub fn rel_column_now(
        &self,
        type_id: TypeId,
        path: &[PropId],
        go_on: &dyn Fn() -> bool,
    ) -> Option<ColumnAt> {
        self.made_now(Owner::Relationships(type_id), path, go_on)
    }

    fn made_now(
        &self,
        owner: Owner,
        path: &[PropId],
        go_on: &dyn Fn() -> bool,
    ) -> Option<ColumnAt> {
        if let Some(known) = self.column_asked(owner, path, 0) {
            return Some(known);
        }
        let views = self.views.as_ref().filter(|_| !self.declines(path))?;
        let slot = views.column_slot(owner, path);
        if slot.stands() || !views.settles_soon(go_on) || slot.busy.swap(true, Ordering::AcqRel) {
            return None;
        }
        let kind = owner.column(path.into());
        built(views.build(&kind, false, go_on), &slot.busy)?;
        self.column_asked(owner, path, 0)
    }

    fn enough(&self) -> u64 {
        self.views.as_ref().map_or(0, |views| views.enough_demand())
    }

    /// As [`ViewsAt::adjacency`]; where there is none, `demand` units of work count towards making it.
    pub(crate) fn adjacency_of(
        &self,
        type_id: TypeId,
        side: Side,
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
        let at = AdjacencyAt::one(type_id, side, pinned);
        pins.adjacency.insert((type_id, side), at.clone());
        Some(at)
    }

    /// Nodes by which a member set or column is wanted so much that it is made: a share of what it would read.
    fn worth(&self, demand: u64, count: impl FnOnce() -> u64) -> (u64, u64) {
        match demand {
            // Asked for by name.
            u64::MAX => (1, 1),
            demand => (demand, self.enough() + count() / 64),
        }
    }

    /// As [`ViewsAt::label_set`], to be asked about single nodes.
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

    /// As [`ViewsAt::column`]; where there is none, `demand` records read count towards making it.
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

    /// Whether no column can tell the values at `path`: of convergent properties they hold the whole, and nothing within.
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

    /// The columns of one property, of whatever labels or types, that stand.
    pub(crate) fn columns_of(&self, records: Records, prop: PropId) -> Option<Arc<[ColumnAt]>> {
        let views = self.views.as_ref()?;
        let mut pins = self.pins.lock();
        if let Some(known) = pins.by_prop.get(&(records, prop)) {
            return Some(known.clone());
        }
        let found: Arc<[ColumnAt]> = views.columns_of(records, prop, self.version).into();
        if found.is_empty() {
            return None; // there may be one for the next batch
        }
        pins.by_prop.insert((records, prop), found.clone());
        Some(found)
    }

    /// Counts nodes of which a property was read from the rows; `some` is one of them, which tells the label.
    pub(crate) fn count_property(&self, tx: &Transaction, some: NodeId, prop: PropId, nodes: u64) {
        if let Some(label) = tx.store().home_label(some) {
            self.column_asked(Owner::Nodes(label), &[prop], nodes);
        }
    }

    fn node_count(&self, label: Option<LabelId>) -> u64 {
        let store = self.store();
        store.map_or(0, |store| store.node_count_now(label))
    }

    fn record_count(&self, owner: Owner) -> u64 {
        match owner {
            Owner::Nodes(label) => self.node_count(Some(label)),
            Owner::Relationships(type_id) => self
                .store()
                .map_or(0, |store| store.relationship_count_now(Some(type_id))),
        }
    }

    fn store(&self) -> Option<Store> {
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
