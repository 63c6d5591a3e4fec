//! Every view that was ever asked for, by what it holds.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use isomer_data::Version;
use isomer_value::{LabelId, PropId, TypeId};
use rustc_hash::FxHashMap;

use crate::{
    Owner, Side, ViewKind, ViewState, ViewStatus,
    adjacency::AdjacencyBase,
    column::ColumnBase,
    members::MemberBase,
    slot::{Base, Cleared, Slot},
};

/// A column by its path.
pub(crate) type ColumnSlot = (Arc<[PropId]>, Arc<Slot<ColumnBase>>);

/// The views of a database. A slot, once entered, stays: what it holds comes and goes.
#[derive(Default)]
pub(crate) struct Registry {
    pub(crate) adjacency: FxHashMap<(TypeId, Side), Arc<Slot<AdjacencyBase>>>,
    pub(crate) members: FxHashMap<Option<LabelId>, Arc<Slot<MemberBase>>>,
    pub(crate) columns: FxHashMap<Owner, Vec<ColumnSlot>>,
}

impl Registry {
    pub(crate) fn column(&self, owner: Owner, path: &[PropId]) -> Option<&Arc<Slot<ColumnBase>>> {
        let columns = self.columns.get(&owner)?;
        let known = columns.iter().find(|(known, _)| **known == *path);
        known.map(|(_, slot)| slot)
    }

    /// Calls `visit` with each view.
    pub(crate) fn each(&self, mut visit: impl FnMut(ViewKind, &dyn AnySlot)) {
        for ((type_id, side), slot) in &self.adjacency {
            visit(ViewKind::Adjacency(*type_id, *side), &**slot);
        }
        for (label, slot) in &self.members {
            visit(ViewKind::Members(*label), &**slot);
        }
        for (owner, columns) in &self.columns {
            for (path, slot) in columns {
                visit(owner.column(path.clone()), &**slot);
            }
        }
    }
}

/// How much the newest generation of a slot holds.
pub(crate) struct Lengths {
    /// Things in its base.
    pub(crate) base: u64,
    /// Changes beside it.
    pub(crate) delta: usize,
    /// Texts, lists and maps in them.
    pub(crate) delta_heap_bytes: usize,
    /// Whether it answers the newest versions.
    pub(crate) newest: bool,
}

/// A slot, whatever it holds.
pub(crate) trait AnySlot {
    /// See [`Slot::lose`].
    fn lose(&self, version: Version);
    /// See [`Slot::abandon`].
    fn abandon(&self, from: Version);
    /// See [`Slot::clear`].
    fn clear(&self) -> Cleared;
    /// When it was last asked for.
    fn used(&self) -> u64;
    /// Whether a job for it waits or runs.
    fn busy(&self) -> &AtomicBool;
    /// What people are told of it.
    fn status(&self, kind: ViewKind) -> ViewStatus;
    /// Bytes held, and whether somebody else holds them too, so that dropping the view frees nothing yet.
    fn held(&self) -> Option<(usize, bool)>;
    /// Of base and delta how much they hold, and whether the newest versions are answered.
    fn lengths(&self) -> Option<Lengths>;
    /// See [`Slot::settle_building`].
    fn settle_building(&self);
    /// Lets the budget know of a delta that has grown; says whether it had room.
    fn settle_budget(&self) -> bool;
}

impl<B: Base> AnySlot for Slot<B> {
    fn lose(&self, version: Version) {
        Slot::lose(self, version);
    }

    fn abandon(&self, from: Version) {
        Slot::abandon(self, from);
    }

    fn clear(&self) -> Cleared {
        Slot::clear(self)
    }

    fn used(&self) -> u64 {
        AtomicU64::load(&self.used, Ordering::Relaxed)
    }

    fn busy(&self) -> &AtomicBool {
        &self.busy
    }

    fn status(&self, kind: ViewKind) -> ViewStatus {
        let current = self.current();
        let state = match &current {
            Some((_, true)) => ViewState::Standing,
            _ if self.busy.load(Ordering::Relaxed) => ViewState::Building,
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
            stored_version: None,
            stored_bytes: 0,
        }
    }

    fn held(&self) -> Option<(usize, bool)> {
        let (generation, _) = self.current()?;
        // The slot's and ours.
        Some((generation.bytes(), Arc::strong_count(&generation) > 2))
    }

    fn lengths(&self) -> Option<Lengths> {
        let (generation, newest) = self.current()?;
        Some(Lengths {
            base: generation.base.len(),
            delta: generation.delta.len(),
            delta_heap_bytes: generation.delta.heap_bytes(),
            newest,
        })
    }

    fn settle_building(&self) {
        Slot::settle_building(self);
    }

    fn settle_budget(&self) -> bool {
        let Some((generation, _)) = self.current() else {
            return true;
        };
        let mut reservation = generation.reservation.lock();
        let missing = generation.bytes().saturating_sub(reservation.bytes());
        missing == 0 || reservation.try_grow(missing).is_ok()
    }
}
