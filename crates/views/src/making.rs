//! Making views: from the rows while commits are collected, and from an older base and its delta.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use isomer_data::{Access, Store, Transaction, Version};
use isomer_storage::{MemoryKind, Reservation};
use isomer_value::PropId;
use parking_lot::{Mutex, MutexGuard};

use crate::{
    Owner, ViewError, ViewKind, Views, adjacency,
    build::{Effort, GoOn},
    column, members,
    segment::Stored,
    slot::{Base, Generation, Slot},
    worker::Job,
};

/// How long a job waits for commits that are under way.
const PATIENCE: Duration = Duration::from_millis(if cfg!(test) { 200 } else { 30_000 });

/// The same for a query, which can read rows instead.
const SHORT_PATIENCE: Duration = Duration::from_millis(200);

/// For work that nobody waits for.
pub(crate) const ALWAYS: GoOn<'static> = &|| true;

/// How long a query waits for who makes a view before it looks whether to go on.
const LOOK: Duration = Duration::from_millis(5);

/// Waits for a turn at making a view; none where `go_on` says no.
fn lock_while<'m>(making: &'m Mutex<()>, go_on: GoOn<'_>) -> Option<MutexGuard<'m, ()>> {
    loop {
        if let Some(guard) = making.try_lock_for(LOOK) {
            return Some(guard);
        }
        if !go_on() {
            return None;
        }
    }
}

/// A job for a slot that waits or runs: over when this is dropped, also where it panics.
struct Busy<'a, B: Base> {
    views: &'a Views,
    slot: &'a Slot<B>,
}

impl<B: Base> Drop for Busy<'_, B> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // Nobody will put a base under what is collected for it. Nothing is told here: that may be what panicked.
            let _feed = self.views.feed_untold();
            self.slot.stop_building();
            self.slot.failures.fetch_add(1, Ordering::Relaxed);
        }
        self.slot.busy.store(false, Ordering::Release);
    }
}

impl Views {
    /// Does a job, on the worker's thread. What cannot be made now is asked for again by those who need it.
    pub(crate) fn run(&self, job: &Job) {
        match job {
            Job::Build { kind, with_ids } => drop(self.build(kind, *with_ids, ALWAYS)),
            Job::Merge(kind) => drop(self.merge(kind)),
            Job::Save(kind) => drop(self.save(kind)),
            Job::Tell => {
                // Should this be the last handle, the database is closed after the feed.
                let store = self.store.upgrade();
                drop(self.feed());
                drop(store);
            }
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
        // What stands may have been lost by a commit that nobody has looked at yet.
        self.catch_up(Version::MAX - 1);
        match kind {
            ViewKind::Adjacency(type_id, side) => {
                let slot = self.adjacency_slot(*type_id, *side);
                let fits = |base: &adjacency::AdjacencyBase| base.with_ids || !with_ids;
                // One side is in a file, and the other one is made from it.
                let other = ViewKind::Adjacency(*type_id, side.reversed());
                if !slot.stands() && !self.has_file(kind) && self.has_file(&other) {
                    drop(self.build(&other, with_ids, go_on));
                }
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
        // Who gives up waiting leaves `busy` to the one who makes the view, or has yet to.
        let Some(_making) = lock_while(&slot.making, go_on) else {
            return Err(ViewError::Taken);
        };
        let busy = Busy { views: self, slot };
        let outcome = match slot.current() {
            Some((generation, true)) if fits(&generation.base) => Ok(()),
            _ => self.restore(slot, kind, go_on, fits).and_then(|restored| {
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
                let _feed = self.feed();
                slot.stop_building();
                // Who stops it says nothing of what it takes.
                let failed = !matches!(error, ViewError::Stopped);
                slot.failures
                    .fetch_add(u32::from(failed), Ordering::Relaxed);
            }
        }
        slot.demand.store(0, Ordering::Relaxed);
        drop(busy);
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
        let feed = self.feed();
        match slot.finish_building(tx.version(), base, kept, feed.told) {
            true => Ok(()),
            false => Err(ViewError::Overtaken),
        }
    }

    /// From now on commits are collected for what is being made. Answers the newest one told before.
    pub(crate) fn begin_building<B: Base>(
        &self,
        slot: &Slot<B>,
        nodes: u64,
    ) -> Result<Version, ViewError> {
        let _feed = self.feed();
        if self.closed.load(Ordering::Relaxed) {
            return Err(ViewError::Stopped);
        }
        slot.begin_building(nodes, self.memory.reservation(MemoryKind::Views));
        // What is handed in from now on is collected; what was before is in what is read.
        let mut waiting = self.inbox.lock();
        waiting.open = true;
        Ok(waiting.newest)
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
            if tx.version() >= told.min(self.inbox.newest()) {
                self.catch_up(tx.version());
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
        let told = self.inbox.newest();
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
        let busy = Busy { views: self, slot };
        let _making = slot.making.lock();
        let outcome = self.merge_base(slot, kind, make);
        if outcome.is_err() {
            // A delta that cannot be merged must not grow without end.
            let feed = self.feed();
            let cleared = slot.clear();
            drop(feed);
            drop(cleared);
        } else {
            self.save_if_far(slot, kind);
        }
        drop(busy);
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
        self.catch_up(tx.version());
        let (base, mut kept) = self.with_effort(kind, |effort| make(&generation, &tx, effort))?;
        // What is shared with the old base is counted once: the old one gives its part over.
        let shared = base.bytes().saturating_sub(kept.bytes());
        generation.reservation.lock().shrink(shared);
        kept.try_grow(shared)?;
        let feed = self.feed();
        if !slot.finish_merge(&generation, tx.version(), base, kept, feed.told) {
            // The old one stays, and with it what is shared: what the new one had was given back, so that there is room.
            let _ = generation.reservation.lock().try_grow(shared);
        }
        Ok(())
    }

    pub(crate) fn with_effort<T>(
        &self,
        kind: &ViewKind,
        make: impl FnOnce(&mut Effort<'_>) -> Result<T, ViewError>,
    ) -> Result<(T, Reservation), ViewError> {
        self.with_effort_while(kind, ALWAYS, make)
    }

    pub(crate) fn with_effort_while<T>(
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

#[cfg(test)]
mod tests {
    use std::{
        panic::{AssertUnwindSafe, catch_unwind},
        sync::Arc,
    };

    use isomer_data::{BulkNode, BulkOptions, CommitObserver, StoreOptions};
    use isomer_storage::{Memory, MemoryEngine};
    use isomer_value::{LabelId, Map, NodeId, Value};

    use super::*;
    use crate::{Side, ViewOptions};

    fn open(budget: usize) -> (Store, Arc<Views>, Memory) {
        let memory = Memory::new(budget);
        let mut options = StoreOptions::default();
        options.memory = memory.clone();
        let store = Store::open(Arc::new(MemoryEngine::new()), options).unwrap();
        let views = Views::open(&store, ViewOptions::default()).unwrap();
        (store, views, memory)
    }

    fn write(store: &Store, count: usize, text: &str) -> Vec<NodeId> {
        let mut tx = store.begin(Access::Write).unwrap();
        let label = tx.intern_label("N").unwrap();
        let properties: Map = [("text", Value::from(text))].into_iter().collect();
        let made = (0..count).map(|_| tx.create_node(&[label], &properties).unwrap());
        let made = made.collect();
        tx.commit().unwrap();
        made
    }

    #[test]
    fn a_job_that_panics_leaves_nothing_behind() {
        let (store, views, _) = open(1 << 20);
        write(&store, 10, "x");
        let slot = views.member_slot(None);
        let kind = ViewKind::Members(None);
        slot.busy.store(true, Ordering::Relaxed);
        let job = || views.build_slot(&slot, &kind, ALWAYS, |_| true, |_, _| panic!("as told"));
        assert!(catch_unwind(AssertUnwindSafe(job)).is_err());
        assert!(!slot.busy.load(Ordering::Relaxed));
        // Nothing is collected any more: there is nothing to put a base under.
        let tx = store.begin(Access::Read).unwrap();
        let effort = |tx: &Transaction| {
            views
                .with_effort(&kind, |effort| members::build(tx, None, effort))
                .unwrap()
        };
        let (base, kept) = effort(&tx);
        assert!(!slot.finish_building(tx.version(), base, kept, tx.version()));
        views.make(&kind).unwrap();
        assert!(slot.stands());
    }

    /// Where telling panics, what was told of the batch is not told again: no view answers from there on, until it is made anew.
    #[test]
    fn a_panic_while_telling_tells_nothing_twice() {
        let (store, views, _) = open(16 << 20);
        write(&store, 10, "x");
        let kind = ViewKind::Members(None);
        views.make(&kind).unwrap();
        let before = store.begin(Access::Read).unwrap();
        write(&store, 1, "x");
        write(&store, 1, "x");
        crate::feed::PANICS_AT.set(store.begin(Access::Read).unwrap().version());
        assert!(catch_unwind(AssertUnwindSafe(|| drop(views.feed()))).is_err());
        crate::feed::PANICS_AT.set(0);
        write(&store, 1, "x");
        let after = store.begin(Access::Read).unwrap();
        let members = |tx: &Transaction| views.members_at(None, tx.version(), 0, u64::MAX);
        assert!(members(&after).is_none() && !views.member_slot(None).stands());
        assert!(members(&before).is_some_and(|pinned| pinned.changed_nodes().is_empty()));
        views.make(&kind).unwrap();
        assert!(members(&after).is_some());
        assert_eq!(views.check(&mut |_| {}).sound, 1);
    }

    #[test]
    fn a_reader_takes_rows_where_another_has_the_feed() {
        let (store, views, _) = open(16 << 20);
        write(&store, 10, "x");
        views.make(&ViewKind::Members(None)).unwrap();
        let members = |tx: &Transaction| views.members_at(None, tx.version(), 0, u64::MAX);
        let before = store.begin(Access::Read).unwrap();
        let feed = views.feed();
        write(&store, 1, "x");
        let after = store.begin(Access::Read).unwrap();
        assert!(members(&before).is_some() && members(&after).is_none());
        assert!(
            views
                .column_at(Owner::Nodes(LabelId(1)), &[], after.version(), 0, u64::MAX)
                .is_none()
        );
        drop(feed);
        assert!(members(&after).is_some());
    }

    #[test]
    fn a_large_commit_is_told_from_where_it_lies() {
        let (store, views, _) = open(16 << 20);
        write(&store, 10, "x");
        views.make(&ViewKind::Members(None)).unwrap();
        let small = write(&store, 1, "x");
        let begun = store.begin(Access::Read).unwrap().version();
        assert!(views.inbox.lacks(begun));
        // It does not wait, and what came before it is told first.
        let large = write(&store, 1, &"x".repeat(1 << 20));
        let tx = store.begin(Access::Read).unwrap();
        assert!(tx.version() > begun && !views.inbox.lacks(tx.version()));
        assert_eq!(views.inbox.newest(), tx.version());
        assert_eq!(views.feed().told, tx.version());
        let changed = |version| {
            let pinned = views.members_at(None, version, 0, u64::MAX).unwrap();
            pinned.changed_nodes()
        };
        let ids = |nodes: &[NodeId]| nodes.iter().map(|node| node.0 as u32).collect::<Vec<_>>();
        assert_eq!(changed(begun), ids(&small));
        assert_eq!(changed(tx.version()), ids(&[small, large].concat()));
    }

    /// A bulk load is a loss that waits in the inbox until somebody looks.
    #[test]
    fn what_a_load_made_too_old_is_made_again() {
        let (store, views, _) = open(16 << 20);
        write(&store, 10, "x");
        let kind = ViewKind::Members(None);
        views.make(&kind).unwrap();
        let mut rows = (0..5).map(|row| {
            let properties = [("_key", Value::Int(row as i64))].into_iter().collect();
            Ok(BulkNode { row, properties })
        });
        store
            .bulk_nodes("M", &BulkOptions::default(), &mut rows, &mut ())
            .unwrap();
        views.make(&kind).unwrap();
        assert_eq!(views.status()[0].count, 15);
        assert!(views.member_slot(None).stands());
    }

    /// A bulk load is told when it begins, long before anybody can see it.
    #[test]
    fn a_file_that_cannot_be_caught_up_with_yet_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(Arc::new(MemoryEngine::new()), StoreOptions::default()).unwrap();
        write(&store, 10, "x");
        let kind = ViewKind::Members(None);
        let open = || {
            let options = ViewOptions {
                folder: Some(folder.path().to_owned()),
                keep_at_least: 1,
                ..ViewOptions::default()
            };
            Views::open(&store, options).unwrap()
        };
        let views = open();
        views.make(&kind).unwrap();
        views.close();
        let views = open();
        let version = store.begin(Access::Read).unwrap().version();
        views.inbox.lock().newest = version + 1;
        let made = views.make(&kind);
        assert!(matches!(made, Err(ViewError::Unsettled { .. })), "{made:?}");
        let slot = views.member_slot(None);
        assert!(slot.stored.load(Ordering::Relaxed));
        assert!(views.status()[0].stored_version.is_some());
        // A query gives up at once when it is to stop.
        let begun = Instant::now();
        let made = views.build(&kind, false, &|| false);
        assert!(matches!(made, Err(ViewError::Stopped)), "{made:?}");
        assert!(begun.elapsed() < PATIENCE);
        let making = slot.making.lock();
        let made = views.build(&kind, false, &|| false);
        assert!(matches!(made, Err(ViewError::Taken)), "{made:?}");
        drop(making);
        views.abandoned(version + 1);
        views.make(&kind).unwrap();
        assert!(slot.stands());
        views.close();
    }

    #[test]
    fn what_changes_while_a_view_is_made_keeps_to_the_budget() {
        let (store, views, memory) = open(4 << 20);
        write(&store, 10, "x");
        let tx = store.begin(Access::Read).unwrap();
        let label = tx.names().label_id("N").unwrap();
        let prop = tx.names().prop_id("text").unwrap();
        let owner = Owner::Nodes(label);
        let slot = views.column_slot(owner, &[prop]);
        let kind = owner.column([prop].into());
        let long = "x".repeat(100_000);
        let make = |tx: &Transaction, effort: &mut Effort<'_>| {
            let base = column::build(tx, owner, &[prop], effort);
            for _ in 0..20 {
                write(&store, 5, &long);
                assert!(memory.used_bytes() <= memory.total_bytes());
            }
            base
        };
        let made = views.build_slot(&slot, &kind, ALWAYS, |_| true, make);
        assert!(matches!(made, Err(ViewError::Overtaken)), "{made:?}");
        assert_eq!(memory.usage(MemoryKind::Views).used_bytes, 0);
    }

    #[test]
    fn long_texts_beside_a_base_are_counted() {
        let (store, views, memory) = open(16 << 20);
        let nodes = write(&store, 10, "x");
        let tx = store.begin(Access::Read).unwrap();
        let label = tx.names().label_id("N").unwrap();
        let prop = tx.names().prop_id("text").unwrap();
        let owner = Owner::Nodes(label);
        let kind = owner.column([prop].into());
        views.make(&kind).unwrap();
        let slot = views.column_slot(owner, &[prop]);
        // 30 MB of texts, in far fewer changes than are merged otherwise.
        for round in 0..30 {
            let mut tx = store.begin(Access::Write).unwrap();
            for node in &nodes {
                let text = format!("{round}").repeat(50_000);
                let text = Value::from(text.as_str());
                tx.set_node_property(*node, &["text"], text).unwrap();
            }
            tx.commit().unwrap();
            let used = memory.usage(MemoryKind::Views).used_bytes;
            let held = slot
                .current()
                .map_or(0, |(generation, _)| generation.bytes());
            assert!(used + (2 << 20) > held, "{round}: {used} of {held}");
        }
        views.wait_ready();
    }

    #[test]
    fn a_merge_that_is_given_up_leaves_the_old_base_in_the_budget() {
        let (store, views, memory) = open(64 << 20);
        let nodes = write(&store, 1000, "x");
        let mut tx = store.begin(Access::Write).unwrap();
        let type_id = tx.intern_type("R").unwrap();
        for pair in nodes.windows(2) {
            tx.create_relationship(type_id, pair[0], pair[1], &Map::new())
                .unwrap();
        }
        tx.commit().unwrap();
        let kind = ViewKind::Adjacency(type_id, Side::Out);
        views.make(&kind).unwrap();
        write(&store, 1, "y");
        let before = memory.usage(MemoryKind::Views).used_bytes;
        let slot = views.adjacency_slot(type_id, Side::Out);
        let merged = views.merge_slot(&slot, &kind, |generation, tx, effort| {
            let base = adjacency::merge(generation, tx.version(), effort);
            slot.lose(tx.version() + 1); // a bulk load begins
            base
        });
        assert!(merged.is_ok(), "{merged:?}");
        assert!(slot.current().is_some() && !slot.stands());
        assert_eq!(memory.usage(MemoryKind::Views).used_bytes, before);
    }
}
