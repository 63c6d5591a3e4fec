//! The life cycle of one view: absent, under construction, ready, replaced by newer generations.

use std::any::Any;
use std::sync::{
    Arc, Weak,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};

use isomer_data::Version;
use isomer_storage::Reservation;
use parking_lot::{Mutex, RwLock};

use crate::delta::{Delta, Weighed};

/// The immutable content of a view as of one version.
pub(crate) trait Base: Send + Sync + 'static {
    /// A change of one node.
    type Change: Clone + Send + Sync + Weighed + 'static;
    /// Memory in bytes.
    fn bytes(&self) -> usize;
    /// Number of entries: relationships, nodes or values.
    fn len(&self) -> u64;
    /// Approximate number of node ids.
    fn id_bound(&self) -> u64;
    /// Called when a change of this node is added to the delta.
    fn note_change(&self, node: u32, change: &Self::Change) {
        let _ = (node, change);
    }
}

/// The former content of a slot, possibly gigabytes: dropped outside of the locks.
#[must_use = "dropped without the feed's lock, as it may take long"]
pub(crate) struct DroppedContent(#[allow(dead_code)] Box<dyn Any + Send>);

/// Bytes that may be collected for a base under construction before they are reserved from the budget.
const UNCOUNTED_BYTES: usize = 1 << 20;

/// A base, its version, and the delta since. Readers pin it; the last one frees it.
pub(crate) struct Generation<B: Base> {
    pub(crate) from: Version,
    pub(crate) base: B,
    pub(crate) delta: Arc<Delta<B::Change>>,
    /// Its reservation in the memory budget.
    pub(crate) reservation: Mutex<Reservation>,
}

impl<B: Base> Generation<B> {
    pub(crate) fn bytes(&self) -> usize {
        self.base.bytes() + self.delta.bytes()
    }
}

/// A generation at one version, as a reader holds it.
pub(crate) struct Pinned<B: Base> {
    pub(crate) generation: Arc<Generation<B>>,
    pub(crate) version: Version,
    /// Whether delta entries may be visible at this version.
    pub(crate) overlaid: bool,
}

impl<B: Base> Clone for Pinned<B> {
    fn clone(&self) -> Self {
        Self {
            generation: self.generation.clone(),
            version: self.version,
            overlaid: self.overlaid,
        }
    }
}

impl<B: Base> Pinned<B> {
    fn new(generation: Arc<Generation<B>>, version: Version) -> Self {
        Self {
            overlaid: generation.delta.reaches(version),
            generation,
            version,
        }
    }

    #[inline]
    pub(crate) fn base(&self) -> &B {
        &self.generation.base
    }

    /// Whether the node may differ from the base.
    #[inline]
    pub(crate) fn touched(&self, node: u32) -> bool {
        self.overlaid && self.generation.delta.touched(node)
    }

    /// The node's changes since the base, newest first.
    pub(crate) fn newest_first(&self, node: u32, visit: impl FnMut(&B::Change)) {
        self.generation
            .delta
            .newest_first(node, self.generation.from, self.version, visit);
    }

    /// All nodes that changed since the base, ascending.
    pub(crate) fn changed_nodes(&self) -> Vec<u32> {
        if !self.overlaid {
            return Vec::new();
        }
        self.generation
            .delta
            .nodes(self.generation.from, self.version)
    }
}

/// A view: readers pin its generations, and commits are applied to it.
///
/// Commits are applied, and everything except the counters is changed, under the lock of the feed of
/// [`crate::Views`].
pub(crate) struct Slot<B: Base> {
    generations: RwLock<Generations<B>>,
    /// Logical time of the last request.
    pub(crate) used: AtomicU64,
    /// Work that a ready view would have saved so far.
    pub(crate) demand: AtomicU64,
    /// Whether a job for it is queued or running.
    pub(crate) busy: AtomicBool,
    /// Whether it has, or had, a file: the first request reads it.
    pub(crate) stored: AtomicBool,
    /// Failed builds since the last successful one.
    pub(crate) failures: AtomicU32,
    /// Locked while a thread builds or merges the view.
    pub(crate) making: Mutex<()>,
}

struct Generations<B: Base> {
    current: Option<CurrentGeneration<B>>,
    /// Commits and bulk loads collected while a base is being read.
    building: Option<Building<B::Change>>,
    /// Replaced generations that readers may still hold, with the version up to which (exclusive) they
    /// answer.
    older: Vec<(Weak<Generation<B>>, Version)>,
}

struct CurrentGeneration<B: Base> {
    generation: Arc<Generation<B>>,
    /// Upper bound (exclusive) of the versions it answers: at this version something happened that the delta
    /// cannot express.
    until: Version,
}

struct Building<T> {
    delta: Arc<Delta<T>>,
    /// Versions that the delta cannot express.
    inexpressible: Vec<Version>,
    /// Its reservation in the memory budget.
    reservation: Mutex<Reservation>,
}

impl<B: Base> Default for Slot<B> {
    fn default() -> Self {
        Self {
            generations: RwLock::new(Generations {
                current: None,
                building: None,
                older: Vec::new(),
            }),
            used: AtomicU64::new(0),
            demand: AtomicU64::new(0),
            busy: AtomicBool::new(false),
            stored: AtomicBool::new(false),
            failures: AtomicU32::new(0),
            making: Mutex::new(()),
        }
    }
}

impl<B: Base> Slot<B> {
    /// Pins the generation that answers `version`, if there is one.
    pub(crate) fn pin(&self, version: Version) -> Option<Pinned<B>> {
        let generations = self.generations.read();
        if let Some(held) = &generations.current
            && held.generation.from <= version
            && version < held.until
        {
            return Some(Pinned::new(held.generation.clone(), version));
        }
        // An older reader may need a generation that a merge has replaced; it lives while a reader holds it.
        generations
            .older
            .iter()
            .filter(|(_, until)| version < *until)
            .filter_map(|(generation, _)| generation.upgrade())
            .find(|generation| generation.from <= version)
            .map(|generation| Pinned::new(generation, version))
    }

    /// The newest generation, and whether it answers the newest versions.
    pub(crate) fn current(&self) -> Option<(Arc<Generation<B>>, bool)> {
        let generations = self.generations.read();
        let held = generations.current.as_ref()?;
        Some((held.generation.clone(), held.until == Version::MAX))
    }

    /// Whether the newest versions are answered.
    pub(crate) fn is_ready(&self) -> bool {
        let generations = self.generations.read();
        let held = generations.current.as_ref();
        held.is_some_and(|held| held.until == Version::MAX)
    }

    /// Applies a change of a commit. `matters` may exclude a change that does not concern a ready base.
    pub(crate) fn apply(
        &self,
        version: Version,
        node: u32,
        change: &B::Change,
        matters: impl Fn(&Generation<B>) -> bool,
    ) {
        let generations = self.generations.read();
        if let Some(held) = &generations.current
            && matters(&held.generation)
        {
            // Bounds of the base first: a reader that finds the delta entry relies on them.
            held.generation.base.note_change(node, change);
            held.generation.delta.push(version, node, change.clone());
        }
        if let Some(building) = &generations.building {
            building.delta.push(version, node, change.clone());
        }
    }

    /// The commit `version` changed something that no delta entry expresses: the view stops answering at that
    /// version.
    pub(crate) fn stop_answering(&self, version: Version) {
        let mut generations = self.generations.write();
        if let Some(held) = &mut generations.current {
            held.until = held.until.min(version);
        }
        if let Some(building) = &mut generations.building {
            building.inexpressible.push(version);
        }
    }

    /// Rolls back the commits from version `from` on.
    pub(crate) fn abandon(&self, from: Version) {
        let mut generations = self.generations.write();
        if let Some(held) = &mut generations.current {
            held.generation.delta.abandon(from);
            if held.until >= from {
                held.until = Version::MAX;
            }
        }
        if let Some(building) = &mut generations.building {
            building.delta.abandon(from);
            building.inexpressible.retain(|version| *version < from);
        }
        // Replaced generations do not receive the rollback, so they must not answer the rolled back versions.
        for (_, until) in &mut generations.older {
            *until = (*until).min(from);
        }
    }

    /// Starts collecting commits for a base that is read afterwards. [`Slot::account_building`] reserves
    /// their memory.
    pub(crate) fn begin_building(&self, nodes: u64, reservation: Reservation) {
        self.generations.write().building = Some(Building {
            delta: Arc::new(Delta::new(nodes)),
            inexpressible: Vec::new(),
            reservation: Mutex::new(reservation),
        });
    }

    /// Accounts the collected commits in the memory budget. If they do not fit, collecting stops, and the
    /// base will not be installed.
    pub(crate) fn account_building(&self) {
        let fits = match &self.generations.read().building {
            None => true,
            Some(building) => {
                let mut reservation = building.reservation.lock();
                let bytes = building.delta.bytes();
                let missing = bytes.saturating_sub(reservation.bytes());
                missing < UNCOUNTED_BYTES || reservation.try_grow(missing).is_ok()
            }
        };
        if !fits {
            self.stop_building();
        }
    }

    /// Stops collecting: the base was not built.
    pub(crate) fn stop_building(&self) {
        self.generations.write().building = None;
    }

    /// Installs a base as of `from`, with the commits collected during its construction. `applied` is the
    /// newest commit applied. Returns false if collecting was stopped.
    pub(crate) fn finish_building(
        &self,
        from: Version,
        base: B,
        reservation: Reservation,
        applied: Version,
    ) -> bool {
        let mut generations = self.generations.write();
        let Some(building) = generations.building.take() else {
            return false; // cleared concurrently, or over budget
        };
        // The base was read at `from` while commits up to `applied` were collected; entries up to `from` are
        // in the base already, and readers skip them by version.
        building
            .delta
            .each(|node, change| base.note_change(node, change));
        let inexpressible = building.inexpressible.iter().copied();
        let until = inexpressible
            .filter(|version| *version > from)
            .min()
            .unwrap_or(Version::MAX);
        let generation = Generation {
            from,
            base,
            delta: building.delta,
            reservation: Mutex::new(reservation),
        };
        generations.install(Arc::new(generation), until, applied);
        true
    }

    /// Installs a stored base as of `from`, with the commits up to `to` that were replayed into `past`, and
    /// the later ones collected here. Returns false if it cannot answer `to`, or collecting was stopped.
    pub(crate) fn finish_restoring(
        &self,
        from: Version,
        to: Version,
        base: B,
        past: &Self,
        reservation: Reservation,
        applied: Version,
    ) -> bool {
        let Some(past) = past.generations.write().building.take() else {
            return false;
        };
        let mut generations = self.generations.write();
        let Some(building) = generations.building.take() else {
            return false;
        };
        // A bulk load in the replayed range is not in the change stream's entries, so the file cannot catch up.
        if !past.inexpressible.is_empty() {
            return false;
        }
        // `past` holds the replayed commits up to `to`, and collecting began before the replay ended, so the two
        // overlap: only what is above `to` is taken from the collected ones.
        let delta = past.delta;
        building.delta.each_after(to, |version, node, change| {
            delta.push(version, node, change.clone());
        });
        delta.each(|node, change| base.note_change(node, change));
        let later = building.inexpressible.iter().copied();
        let until = later
            .filter(|version| *version > to)
            .min()
            .unwrap_or(Version::MAX);
        let generation = Generation {
            from,
            base,
            delta,
            reservation: Mutex::new(reservation),
        };
        generations.install(Arc::new(generation), until, applied);
        true
    }

    /// Installs a newer base of the same generation; returns false if the generation was replaced or
    /// invalidated since.
    pub(crate) fn finish_merge(
        &self,
        merged: &Arc<Generation<B>>,
        from: Version,
        base: B,
        reservation: Reservation,
        applied: Version,
    ) -> bool {
        let mut generations = self.generations.write();
        let same = |held: &CurrentGeneration<B>| {
            Arc::ptr_eq(&held.generation, merged) && held.until == Version::MAX
        };
        if !generations.current.as_ref().is_some_and(same) {
            return false;
        }
        // A copy of the entries above `from`: readers of older versions hold the old generation, whose delta must keep
        // the entries that the new base contains now.
        let delta = merged.delta.after(from, base.id_bound());
        delta.each(|node, change| base.note_change(node, change));
        let generation = Generation {
            from,
            base,
            delta: Arc::new(delta),
            reservation: Mutex::new(reservation),
        };
        generations.install(Arc::new(generation), Version::MAX, applied);
        true
    }

    /// Drops everything; readers keep the generations that they pinned. The content is freed when the result
    /// is dropped.
    pub(crate) fn clear(&self) -> DroppedContent {
        let mut generations = self.generations.write();
        let held = (generations.current.take(), generations.building.take());
        generations.older.clear();
        self.demand.store(0, Ordering::Relaxed);
        DroppedContent(Box::new(held))
    }
}

impl<B: Base> Generations<B> {
    fn install(&mut self, generation: Arc<Generation<B>>, until: Version, applied: Version) {
        self.older
            .retain(|(generation, _)| generation.strong_count() > 0);
        if let Some(old) = self.current.take() {
            // The old generation has every commit applied so far, so it answers those versions.
            let until = old.until.min(applied + 1);
            self.older.push((Arc::downgrade(&old.generation), until));
        }
        self.current = Some(CurrentGeneration { generation, until });
    }
}
