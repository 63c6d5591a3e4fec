//! One view's life: absent, being built, standing, followed by newer generations.

use std::any::Any;
use std::sync::{
    Arc, Weak,
    atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};

use isomer_data::Version;
use isomer_storage::Reservation;
use parking_lot::{Mutex, RwLock};

use crate::delta::{Delta, Weighed};

/// What a view holds as of one version, immutable.
pub(crate) trait Base: Send + Sync + 'static {
    /// A change of it, of one node.
    type Change: Clone + Send + Sync + Weighed + 'static;
    /// Bytes of memory.
    fn bytes(&self) -> usize;
    /// Number of things in it: relationships, nodes, values.
    fn len(&self) -> u64;
    /// About how many node ids there are.
    fn id_bound(&self) -> u64;
    /// A change of this node was put beside the base.
    fn told(&self, node: u32, change: &Self::Change) {
        let _ = (node, change);
    }
}

/// What a slot held, perhaps gigabytes: dropped where nobody waits.
#[must_use = "dropped without the feed's lock, as it may take long"]
pub(crate) struct Cleared(#[allow(dead_code)] Box<dyn Any + Send>);

/// What is collected for a base that is being made may hold so much before the budget is asked.
const UNCOUNTED_BYTES: usize = 1 << 20;

/// A base, the version that it holds, and what happened since. Readers pin it; it is freed when the last one ends.
pub(crate) struct Generation<B: Base> {
    pub(crate) from: Version,
    pub(crate) base: B,
    pub(crate) delta: Arc<Delta<B::Change>>,
    /// Its part of the memory budget.
    pub(crate) reservation: Mutex<Reservation>,
}

impl<B: Base> Generation<B> {
    pub(crate) fn bytes(&self) -> usize {
        self.base.bytes() + self.delta.bytes()
    }
}

/// A generation at one version: what a reader holds.
pub(crate) struct Pinned<B: Base> {
    pub(crate) generation: Arc<Generation<B>>,
    pub(crate) version: Version,
    /// Whether entries of the delta may matter at this version.
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

    /// Whether the node perhaps differs from the base.
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

/// A view: what readers may take of it, and what commits are told to.
///
/// Commits, and all that changes here except the counters, come one at a time, under the lock of
/// [`crate::Views`]'s feed.
pub(crate) struct Slot<B: Base> {
    shelf: RwLock<Shelf<B>>,
    /// When it was last asked for, by a clock of uses.
    pub(crate) used: AtomicU64,
    /// Work that a standing view would have saved so far.
    pub(crate) demand: AtomicU64,
    /// Whether a job for it waits or runs.
    pub(crate) busy: AtomicBool,
    /// Whether there is, or was, a file of it: the first one who asks has it read.
    pub(crate) stored: AtomicBool,
    /// How often it could not be made since it last could.
    pub(crate) failures: AtomicU32,
    /// Held by whoever makes or merges it.
    pub(crate) making: Mutex<()>,
}

struct Shelf<B: Base> {
    current: Option<Held<B>>,
    /// What is collected while a base is being read, and the bulk loads meanwhile.
    building: Option<Building<B::Change>>,
    /// Generations that somebody may still hold, with the version before which they answer.
    older: Vec<(Weak<Generation<B>>, Version)>,
}

struct Held<B: Base> {
    generation: Arc<Generation<B>>,
    /// It answers versions before this one: something happened then that the delta cannot tell.
    until: Version,
}

struct Building<T> {
    delta: Arc<Delta<T>>,
    /// Versions that the delta does not tell.
    untold: Vec<Version>,
    /// Its part of the memory budget.
    reservation: Mutex<Reservation>,
}

impl<B: Base> Default for Slot<B> {
    fn default() -> Self {
        Self {
            shelf: RwLock::new(Shelf {
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
    /// What answers `version`, if something does.
    pub(crate) fn pin(&self, version: Version) -> Option<Pinned<B>> {
        let shelf = self.shelf.read();
        if let Some(held) = &shelf.current
            && held.generation.from <= version
            && version < held.until
        {
            return Some(Pinned::new(held.generation.clone(), version));
        }
        shelf
            .older
            .iter()
            .filter(|(_, until)| version < *until)
            .filter_map(|(generation, _)| generation.upgrade())
            .find(|generation| generation.from <= version)
            .map(|generation| Pinned::new(generation, version))
    }

    /// The newest generation, and whether it answers the newest versions.
    pub(crate) fn current(&self) -> Option<(Arc<Generation<B>>, bool)> {
        let shelf = self.shelf.read();
        let held = shelf.current.as_ref()?;
        Some((held.generation.clone(), held.until == Version::MAX))
    }

    /// Whether the newest versions are answered.
    pub(crate) fn stands(&self) -> bool {
        let shelf = self.shelf.read();
        let held = shelf.current.as_ref();
        held.is_some_and(|held| held.until == Version::MAX)
    }

    /// Tells a change of a commit; a standing base may say that it is none of its own.
    pub(crate) fn tell(
        &self,
        version: Version,
        node: u32,
        change: &B::Change,
        matters: impl Fn(&Generation<B>) -> bool,
    ) {
        let shelf = self.shelf.read();
        if let Some(held) = &shelf.current
            && matters(&held.generation)
        {
            held.generation.base.told(node, change);
            held.generation.delta.push(version, node, change.clone());
        }
        if let Some(building) = &shelf.building {
            building.delta.push(version, node, change.clone());
        }
    }

    /// The commit `version` changed something that no entry can tell: from it on, there is no answer.
    pub(crate) fn lose(&self, version: Version) {
        let mut shelf = self.shelf.write();
        if let Some(held) = &mut shelf.current {
            held.until = held.until.min(version);
        }
        if let Some(building) = &mut shelf.building {
            building.untold.push(version);
        }
    }

    /// The commits from `from` on did not happen.
    pub(crate) fn abandon(&self, from: Version) {
        let mut shelf = self.shelf.write();
        if let Some(held) = &mut shelf.current {
            held.generation.delta.abandon(from);
            if held.until >= from {
                held.until = Version::MAX;
            }
        }
        if let Some(building) = &mut shelf.building {
            building.delta.abandon(from);
            building.untold.retain(|version| *version < from);
        }
        for (_, until) in &mut shelf.older {
            *until = (*until).min(from);
        }
    }

    /// Commits are collected from now on, for a base that is read afterwards. What they take is reserved, see
    /// [`Slot::settle_building`].
    pub(crate) fn begin_building(&self, nodes: u64, reservation: Reservation) {
        self.shelf.write().building = Some(Building {
            delta: Arc::new(Delta::new(nodes)),
            untold: Vec::new(),
            reservation: Mutex::new(reservation),
        });
    }

    /// Lets the budget know of what was collected for a base that is being made; where it has no room, nothing more is, and
    /// the base is not put in place.
    pub(crate) fn settle_building(&self) {
        let fits = match &self.shelf.read().building {
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

    /// The base was not made.
    pub(crate) fn stop_building(&self) {
        self.shelf.write().building = None;
    }

    /// Puts what was built in place: `base` as of `from`, with what was collected meanwhile. `told` is the newest commit told.
    /// False where the collecting was stopped meanwhile.
    pub(crate) fn finish_building(
        &self,
        from: Version,
        base: B,
        reservation: Reservation,
        told: Version,
    ) -> bool {
        let mut shelf = self.shelf.write();
        let Some(building) = shelf.building.take() else {
            return false; // was cleared meanwhile, or has outgrown the budget
        };
        building.delta.each(|node, change| base.told(node, change));
        let untold = building.untold.iter().copied();
        let until = untold
            .filter(|version| *version > from)
            .min()
            .unwrap_or(Version::MAX);
        let generation = Generation {
            from,
            base,
            delta: building.delta,
            reservation: Mutex::new(reservation),
        };
        shelf.install(Arc::new(generation), until, told);
        true
    }

    /// Puts a stored base in place: `base` as of `from`, with what `past` was told of the versions up to `to`, and with what
    /// was collected here of those after it. False where it cannot answer `to`, or was cleared meanwhile.
    pub(crate) fn finish_restoring(
        &self,
        from: Version,
        to: Version,
        base: B,
        past: &Self,
        reservation: Reservation,
        told: Version,
    ) -> bool {
        let Some(past) = past.shelf.write().building.take() else {
            return false;
        };
        let mut shelf = self.shelf.write();
        let Some(building) = shelf.building.take() else {
            return false;
        };
        if !past.untold.is_empty() {
            return false;
        }
        let delta = past.delta;
        building.delta.each_after(to, |version, node, change| {
            delta.push(version, node, change.clone());
        });
        delta.each(|node, change| base.told(node, change));
        let later = building.untold.iter().copied();
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
        shelf.install(Arc::new(generation), until, told);
        true
    }

    /// Puts a newer base of the same generation in place, unless something else came in between: false then.
    pub(crate) fn finish_merge(
        &self,
        merged: &Arc<Generation<B>>,
        from: Version,
        base: B,
        reservation: Reservation,
        told: Version,
    ) -> bool {
        let mut shelf = self.shelf.write();
        let same =
            |held: &Held<B>| Arc::ptr_eq(&held.generation, merged) && held.until == Version::MAX;
        if !shelf.current.as_ref().is_some_and(same) {
            return false;
        }
        let delta = merged.delta.after(from, base.id_bound());
        delta.each(|node, change| base.told(node, change));
        let generation = Generation {
            from,
            base,
            delta: Arc::new(delta),
            reservation: Mutex::new(reservation),
        };
        shelf.install(Arc::new(generation), Version::MAX, told);
        true
    }

    /// Forgets everything; who holds a generation keeps it. What was held is freed with what is answered.
    pub(crate) fn clear(&self) -> Cleared {
        let mut shelf = self.shelf.write();
        let held = (shelf.current.take(), shelf.building.take());
        shelf.older.clear();
        self.demand.store(0, Ordering::Relaxed);
        Cleared(Box::new(held))
    }
}

impl<B: Base> Shelf<B> {
    fn install(&mut self, generation: Arc<Generation<B>>, until: Version, told: Version) {
        self.older
            .retain(|(generation, _)| generation.strong_count() > 0);
        if let Some(old) = self.current.take() {
            // It was told everything so far.
            let until = old.until.min(told + 1);
            self.older.push((Arc::downgrade(&old.generation), until));
        }
        self.current = Some(Held { generation, until });
    }
}
