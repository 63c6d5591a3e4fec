//! All views that were ever requested, by what they hold.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use isomer_data::Version;
use isomer_value::{LabelId, PropId, TypeId};
use rustc_hash::FxHashMap;

use crate::{
    Owner, ViewKind, ViewState, ViewStatus,
    adjacency::AdjacencyBase,
    column::ColumnBase,
    members::MemberBase,
    side::AdjacencySide,
    slot::{Base, DroppedContent, Slot},
};

/// A column by its path.
pub(crate) type ColumnSlot = (Arc<[PropId]>, Arc<Slot<ColumnBase>>);

/// The views of a database. A slot is never removed; its content comes and goes.
#[derive(Default)]
pub(crate) struct Registry {
    pub(crate) adjacency: FxHashMap<(TypeId, AdjacencySide), Arc<Slot<AdjacencyBase>>>,
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

/// Sizes of a slot's newest generation.
pub(crate) struct Lengths {
    /// Entries in the base.
    pub(crate) base: u64,
    /// Changes in the delta.
    pub(crate) delta: usize,
    /// Heap bytes of the delta (strings, lists, maps).
    pub(crate) delta_heap_bytes: usize,
    /// Whether it answers the newest versions.
    pub(crate) newest: bool,
}

/// A slot of any kind of view.
pub(crate) trait AnySlot {
    /// See [`Slot::stop_answering`].
    fn stop_answering(&self, version: Version);
    /// See [`Slot::abandon`].
    fn abandon(&self, from: Version);
    /// See [`Slot::clear`].
    fn clear(&self) -> DroppedContent;
    /// Time of the last request.
    fn used(&self) -> u64;
    /// Whether a job for it is queued or running.
    fn busy(&self) -> &AtomicBool;
    /// Its status for display.
    fn status(&self, kind: ViewKind) -> ViewStatus;
    /// Bytes held, and whether a reader holds them too, so that dropping the view frees nothing yet.
    fn held(&self) -> Option<(usize, bool)>;
    /// Sizes of base and delta, and whether the newest versions are answered.
    fn lengths(&self) -> Option<Lengths>;
    /// See [`Slot::account_building`].
    fn account_building(&self);
    /// Accounts a grown delta in the memory budget; returns whether it fits.
    fn account_delta(&self) -> bool;
}

impl<B: Base> AnySlot for Slot<B> {
    fn stop_answering(&self, version: Version) {
        Slot::stop_answering(self, version);
    }

    fn abandon(&self, from: Version) {
        Slot::abandon(self, from);
    }

    fn clear(&self) -> DroppedContent {
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
        // The references of the slot and of this function.
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

    fn account_building(&self) {
        Slot::account_building(self);
    }

    fn account_delta(&self) -> bool {
        let Some((generation, _)) = self.current() else {
            return true;
        };
        let mut reservation = generation.reservation.lock();
        let missing = generation.bytes().saturating_sub(reservation.bytes());
        missing == 0 || reservation.try_grow(missing).is_ok()
    }
}
