//! Making views: from the rows while commits are collected, and from an older base and its delta.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use isomer_data::{Access, Store, Transaction, Version};
use isomer_storage::{MemoryKind, Reservation};
use isomer_value::PropId;

use crate::{
    Owner, ViewError, ViewKind, Views, adjacency,
    build::{Effort, GoOn},
    column, members,
    segment::Stored,
    slot::{Base, Generation, Slot},
    worker::Job,
};

/// How long a job waits for commits that are under way.
const PATIENCE: Duration = Duration::from_secs(30);

/// The same for a query, which can read rows instead.
const SHORT_PATIENCE: Duration = Duration::from_millis(200);

/// For work that nobody waits for.
pub(crate) const ALWAYS: GoOn<'static> = &|| true;

impl Views {
    /// Does a job, on the worker's thread. What cannot be made now is asked for again by those who need it.
    pub(crate) fn run(&self, job: &Job) {
        match job {
            Job::Build { kind, with_ids } => drop(self.build(kind, *with_ids, ALWAYS)),
            Job::Merge(kind) => drop(self.merge(kind)),
            Job::Save(kind) => drop(self.save(kind)),
            Job::LookAfterFiles => self.look_after_files(),
        }
    }

    /// Makes a view unless it stands; adjacency with the ids of relationships where asked.
    pub(crate) fn build(
        &self,
        kind: &ViewKind,
        with_ids: bool,
        go_on: GoOn<'_>,
    ) -> Result<(), ViewError> {
        match kind {
            ViewKind::Adjacency(type_id, side) => {
                let slot = self.adjacency_slot(*type_id, *side);
                let fits = |base: &adjacency::AdjacencyBase| base.with_ids || !with_ids;
                self.build_slot(&slot, kind, go_on, fits, |tx, effort| {
                    let reversed = self.adjacency_slot(*type_id, side.reversed());
                    match reversed.pin(tx.version()) {
                        Some(pinned) if pinned.base().with_ids || !with_ids => {
                            adjacency::transpose(&pinned.generation, tx.version(), effort)
                        }
                        _ => adjacency::build(tx, *type_id, *side, with_ids, effort),
                    }
                })
            }
            ViewKind::Members(label) => {
                let slot = self.member_slot(*label);
                self.build_slot(
                    &slot,
                    kind,
                    go_on,
                    |_| true,
                    |tx, effort| members::build(tx, *label, effort),
                )
            }
            ViewKind::Column(label, path) => {
                self.build_column(Owner::Nodes(*label), path, kind, go_on)
            }
            ViewKind::RelColumn(type_id, path) => {
                self.build_column(Owner::Relationships(*type_id), path, kind, go_on)
            }
        }
    }

    fn build_column(
        &self,
        owner: Owner,
        path: &[PropId],
        kind: &ViewKind,
        go_on: GoOn<'_>,
    ) -> Result<(), ViewError> {
        let slot = self.column_slot(owner, path);
        self.build_slot(
            &slot,
            kind,
            go_on,
            |_| true,
            |tx, effort| column::build(tx, owner, path, effort),
        )
    }

    /// Reads a base while commits are collected, and puts it in place.
    fn build_slot<B: Stored>(
        &self,
        slot: &Slot<B>,
        kind: &ViewKind,
        go_on: GoOn<'_>,
        fits: impl Fn(&B) -> bool,
        make: impl FnOnce(&Transaction, &mut Effort<'_>) -> Result<B, ViewError>,
    ) -> Result<(), ViewError> {
        let _making = slot.making.lock();
        let outcome = match slot.current() {
            Some((generation, true)) if fits(&generation.base) => Ok(()),
            _ => self.restore(slot, kind, fits).and_then(|restored| {
                if !restored {
                    self.build_base(slot, kind, go_on, make)?;
                    self.save_soon(kind);
                }
                Ok(())
            }),
        };
        match &outcome {
            Ok(()) => slot.failures.store(0, Ordering::Relaxed),
            Err(error) => {
                let _feed = self.feed.lock();
                slot.stop_building();
                // Who stops it says nothing of what it takes.
                let failed = !matches!(error, ViewError::Stopped);
                slot.failures
                    .fetch_add(u32::from(failed), Ordering::Relaxed);
            }
        }
        slot.demand.store(0, Ordering::Relaxed);
        slot.busy.store(false, Ordering::Release);
        outcome
    }

    fn build_base<B: Base>(
        &self,
        slot: &Slot<B>,
        kind: &ViewKind,
        go_on: GoOn<'_>,
        make: impl FnOnce(&Transaction, &mut Effort<'_>) -> Result<B, ViewError>,
    ) -> Result<(), ViewError> {
        let store = self.store.upgrade().ok_or(ViewError::Stopped)?;
        let told = self.begin_building(slot, store.node_count_now(None))?;
        let tx = self.settled(&store, told, go_on)?;
        let (base, kept) = self.with_effort_while(kind, go_on, |effort| make(&tx, effort))?;
        let feed = self.feed.lock();
        slot.finish_building(tx.version(), base, kept, feed.told);
        Ok(())
    }

    /// From now on commits are collected for what is being made. Answers the newest one told before.
    pub(crate) fn begin_building<B: Base>(
        &self,
        slot: &Slot<B>,
        nodes: u64,
    ) -> Result<Version, ViewError> {
        let feed = self.feed.lock();
        if self.closed.load(Ordering::Relaxed) {
            return Err(ViewError::Stopped);
        }
        slot.begin_building(nodes);
        self.any_fed.store(true, Ordering::Release);
        Ok(feed.told)
    }

    /// A snapshot that sees the commit `told`, which may be under way, and so every one before it.
    pub(crate) fn settled(
        &self,
        store: &Store,
        told: Version,
        go_on: GoOn<'_>,
    ) -> Result<Transaction, ViewError> {
        let begun = Instant::now();
        loop {
            let tx = store.begin(Access::Read)?;
            // Where it was abandoned, the newest one told is older now.
            if tx.version() >= told.min(self.feed.lock().told) {
                return Ok(tx);
            }
            if self.worker.stop().load(Ordering::Relaxed) || !go_on() {
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

    /// Whether all commits told by now are over before long: a bulk load is told when it begins.
    pub(crate) fn settles_soon(&self, go_on: GoOn<'_>) -> bool {
        let begun = Instant::now();
        let soon = || begun.elapsed() < SHORT_PATIENCE && go_on();
        let told = self.feed.lock().told;
        let store = self.store.upgrade();
        store.is_some_and(|store| self.settled(&store, told, &soon).is_ok())
    }

    /// Merges what a view has gathered since its base was made, now, on this thread.
    pub(crate) fn merge(&self, kind: &ViewKind) -> Result<(), ViewError> {
        match kind {
            ViewKind::Adjacency(type_id, side) => {
                let slot = self.adjacency_slot(*type_id, *side);
                self.merge_slot(&slot, kind, |generation, tx, effort| {
                    adjacency::merge(generation, tx.version(), effort)
                })
            }
            ViewKind::Members(label) => {
                let slot = self.member_slot(*label);
                self.merge_slot(&slot, kind, |generation, tx, effort| {
                    members::merge(generation, tx.version(), effort)
                })
            }
            ViewKind::Column(label, path) => self.merge_column(Owner::Nodes(*label), path, kind),
            ViewKind::RelColumn(type_id, path) => {
                self.merge_column(Owner::Relationships(*type_id), path, kind)
            }
        }
    }

    fn merge_column(
        &self,
        owner: Owner,
        path: &[PropId],
        kind: &ViewKind,
    ) -> Result<(), ViewError> {
        let slot = self.column_slot(owner, path);
        self.merge_slot(&slot, kind, |generation, tx, effort| {
            column::merge(generation, tx, owner, path, effort)
        })
    }

    fn merge_slot<B: Stored>(
        &self,
        slot: &Slot<B>,
        kind: &ViewKind,
        make: impl FnOnce(&Generation<B>, &Transaction, &mut Effort<'_>) -> Result<B, ViewError>,
    ) -> Result<(), ViewError> {
        let _making = slot.making.lock();
        let outcome = self.merge_base(slot, kind, make);
        if outcome.is_err() {
            // A delta that cannot be merged must not grow without end.
            let _feed = self.feed.lock();
            slot.clear();
        } else {
            self.save_soon(kind);
        }
        slot.busy.store(false, Ordering::Release);
        outcome
    }

    fn merge_base<B: Base>(
        &self,
        slot: &Slot<B>,
        kind: &ViewKind,
        make: impl FnOnce(&Generation<B>, &Transaction, &mut Effort<'_>) -> Result<B, ViewError>,
    ) -> Result<(), ViewError> {
        let Some((generation, true)) = slot.current() else {
            return Ok(());
        };
        let store = self.store.upgrade().ok_or(ViewError::Stopped)?;
        let tx = store.begin(Access::Read)?;
        if tx.version() <= generation.from {
            return Ok(());
        }
        let (base, mut kept) = self.with_effort(kind, |effort| make(&generation, &tx, effort))?;
        // What is shared with the old base is counted once: the old one gives its part over.
        let shared = base.bytes().saturating_sub(kept.bytes());
        generation.reservation.lock().shrink(shared);
        kept.try_grow(shared)?;
        let feed = self.feed.lock();
        slot.finish_merge(&generation, tx.version(), base, kept, feed.told);
        Ok(())
    }

    pub(crate) fn with_effort<T>(
        &self,
        kind: &ViewKind,
        make: impl FnOnce(&mut Effort<'_>) -> Result<T, ViewError>,
    ) -> Result<(T, Reservation), ViewError> {
        self.with_effort_while(kind, ALWAYS, make)
    }

    fn with_effort_while<T>(
        &self,
        kind: &ViewKind,
        go_on: GoOn<'_>,
        make: impl FnOnce(&mut Effort<'_>) -> Result<T, ViewError>,
    ) -> Result<(T, Reservation), ViewError> {
        let make_room = |bytes| self.give_way(bytes, Some(kind));
        let mut effort = Effort::new(
            self.worker.stop(),
            go_on,
            &make_room,
            self.memory.reservation(MemoryKind::Views),
            self.memory.reservation(MemoryKind::Views),
        );
        let made = make(&mut effort)?;
        Ok((made, effort.into_kept()))
    }
}
