//! Builds views: from the rows while commits are collected, or by merging an older base with its delta.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use isomer_data::{Access, DataStore, Transaction, Version};
use isomer_storage::{MemoryKind, Reservation};
use isomer_value::PropId;
use parking_lot::{Mutex, MutexGuard};

use crate::{
    Owner, ViewError, ViewKind, Views, adjacency,
    build::{ALWAYS, Effort, ShouldContinue},
    column, members,
    slot::{Base, Generation, Slot},
    view_file::Stored,
    worker::Job,
};

/// How long a background job waits for commits in flight.
const COMMIT_WAIT: Duration = Duration::from_millis(if cfg!(test) { 200 } else { 30_000 });

/// The same for a query, which can read rows instead.
const QUERY_COMMIT_WAIT: Duration = Duration::from_millis(200);

/// Interval at which a query that waits for another builder checks whether to continue.
const BUILD_LOCK_POLL: Duration = Duration::from_millis(5);

/// Waits for the slot's build lock; `None` if `should_continue` returned false.
fn lock_while<'m>(
    making: &'m Mutex<()>,
    should_continue: ShouldContinue<'_>,
) -> Option<MutexGuard<'m, ()>> {
    loop {
        if let Some(guard) = making.try_lock_for(BUILD_LOCK_POLL) {
            return Some(guard);
        }
        if !should_continue() {
            return None;
        }
    }
}

/// Marks a slot as having a queued or running job; cleared on drop, also after a panic.
struct Busy<'a, B: Base> {
    views: &'a Views,
    slot: &'a Slot<B>,
}

impl<B: Base> Drop for Busy<'_, B> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The collected commits will get no base. Views must not be applied to here: that may be the
            // cause of the panic.
            let _feed = self.views.feed_without_applying();
            self.slot.stop_building();
            self.slot.failures.fetch_add(1, Ordering::Relaxed);
        }
        self.slot.busy.store(false, Ordering::Release);
    }
}

impl Views {
    /// Runs a job on the worker thread. A failed build is requested again by the readers that need it.
    pub(crate) fn run(&self, job: &Job) {
        match job {
            Job::Build { kind, with_ids } => drop(self.build(kind, *with_ids, ALWAYS)),
            Job::Merge(kind) => drop(self.merge(kind)),
            Job::Save(kind) => drop(self.files().save(kind)),
            Job::ApplyCommits => {
                // If this is the last handle, the database must be closed after the feed is released.
                let store = self.store.upgrade();
                drop(self.feed());
                drop(store);
            }
            Job::ReviewFiles => self.files().review_files(),
        }
    }

    /// Builds a view unless it is ready; adjacency with relationship ids if requested.
    pub(crate) fn build(
        &self,
        kind: &ViewKind,
        with_ids: bool,
        should_continue: ShouldContinue<'_>,
    ) -> Result<(), ViewError> {
        // A ready view may have been invalidated by a commit that is still in the inbox.
        self.catch_up(Version::MAX - 1);
        match kind {
            ViewKind::Adjacency(type_id, side) => {
                let slot = self.adjacency_slot(*type_id, *side);
                // A base with ids also serves readers that need none; the opposite requires a rebuild.
                let fits = |base: &adjacency::AdjacencyBase| base.with_ids || !with_ids;
                // One side is in a file; the other one is transposed from it.
                let other = ViewKind::Adjacency(*type_id, side.reversed());
                if !slot.is_ready() && !self.files().has_file(kind) && self.files().has_file(&other)
                {
                    drop(self.build(&other, with_ids, should_continue));
                }
                self.build_slot(&slot, kind, should_continue, fits, |tx, effort| {
                    let reversed = self.adjacency_slot(*type_id, side.reversed());
                    match reversed.pin(tx.version()) {
                        // The other side holds the same relationships: transposing it is cheaper than reading the rows.
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
                    should_continue,
                    |_| true,
                    |tx, effort| members::build(tx, *label, effort),
                )
            }
            ViewKind::Column(label, path) => {
                self.build_column(Owner::Nodes(*label), path, kind, should_continue)
            }
            ViewKind::RelColumn(type_id, path) => {
                self.build_column(Owner::Relationships(*type_id), path, kind, should_continue)
            }
        }
    }

    fn build_column(
        &self,
        owner: Owner,
        path: &[PropId],
        kind: &ViewKind,
        should_continue: ShouldContinue<'_>,
    ) -> Result<(), ViewError> {
        let slot = self.column_slot(owner, path);
        self.build_slot(
            &slot,
            kind,
            should_continue,
            |_| true,
            |tx, effort| column::build(tx, owner, path, effort),
        )
    }

    /// Reads a base while commits are collected, and installs it.
    fn build_slot<B: Stored>(
        &self,
        slot: &Slot<B>,
        kind: &ViewKind,
        should_continue: ShouldContinue<'_>,
        fits: impl Fn(&B) -> bool,
        make: impl FnOnce(&Transaction, &mut Effort<'_>) -> Result<B, ViewError>,
    ) -> Result<(), ViewError> {
        // A thread that stops waiting leaves `busy` to the thread that builds the view.
        let Some(_making) = lock_while(&slot.making, should_continue) else {
            return Err(ViewError::Taken);
        };
        let busy = Busy { views: self, slot };
        let outcome = match slot.current() {
            Some((generation, true)) if fits(&generation.base) => Ok(()),
            _ => self
                .files()
                .restore(slot, kind, should_continue, fits)
                .and_then(|restored| {
                    if !restored {
                        self.build_base(slot, kind, should_continue, make)?;
                        self.files().save_soon(kind);
                    }
                    Ok(())
                }),
        };
        match &outcome {
            Ok(()) => slot.failures.store(0, Ordering::Relaxed),
            Err(error) => {
                let _feed = self.feed();
                slot.stop_building();
                // A cancelled build says nothing about the cost of the view.
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
        should_continue: ShouldContinue<'_>,
        make: impl FnOnce(&Transaction, &mut Effort<'_>) -> Result<B, ViewError>,
    ) -> Result<(), ViewError> {
        let store = self.store.upgrade().ok_or(ViewError::Stopped)?;
        // Order matters: collecting starts before the snapshot is taken, so that every commit is in the base,
        // in the delta, or in both (then the delta entry is skipped by its version), but never in neither.
        let newest = self.begin_building(slot, store.counts().nodes_now(None))?;
        let tx = self.snapshot_including(&store, newest, should_continue)?;
        let (base, kept) =
            self.with_effort_while(kind, should_continue, |effort| make(&tx, effort))?;
        let feed = self.feed();
        if slot.finish_building(tx.version(), base, kept, feed.applied) {
            Ok(())
        } else {
            Err(ViewError::Overtaken)
        }
    }

    /// Starts collecting commits for a view under construction. Returns the newest commit applied or enqueued
    /// before.
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
        // Later commits are collected; earlier ones are included in the base.
        let mut waiting = self.inbox.lock();
        waiting.open = true;
        Ok(waiting.newest)
    }

    /// A snapshot that includes the commit `newest`, which may still be in flight, and so every earlier one.
    pub(crate) fn snapshot_including(
        &self,
        store: &DataStore,
        newest: Version,
        should_continue: ShouldContinue<'_>,
    ) -> Result<Transaction, ViewError> {
        let begun = Instant::now();
        loop {
            let tx = store.begin(Access::Read)?;
            // A commit in flight has a version but is not visible yet: poll until a snapshot includes it.
            // If that commit was rolled back, the newest one is older now.
            if tx.version() >= newest.min(self.inbox.newest()) {
                self.catch_up(tx.version());
                return Ok(tx);
            }
            if self.worker.stop().load(Ordering::Relaxed) || !should_continue() {
                return Err(ViewError::Stopped);
            }
            if begun.elapsed() > COMMIT_WAIT {
                return Err(ViewError::Unsettled {
                    seconds: COMMIT_WAIT.as_secs(),
                });
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Whether all commits enqueued by now end soon: a bulk load enqueues its commit when it starts.
    pub(crate) fn commits_end_soon(&self, should_continue: ShouldContinue<'_>) -> bool {
        let begun = Instant::now();
        let soon = || begun.elapsed() < QUERY_COMMIT_WAIT && should_continue();
        let newest = self.inbox.newest();
        let store = self.store.upgrade();
        store.is_some_and(|store| self.snapshot_including(&store, newest, &soon).is_ok())
    }

    /// Merges base and delta of a view now, on this thread.
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
            // A delta that cannot be merged must not grow without bound.
            let feed = self.feed();
            let cleared = slot.clear();
            drop(feed);
            drop(cleared);
        } else {
            self.files().save_if_far(slot, kind);
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
        // A generation that does not answer the newest versions is rebuilt from the rows, not merged.
        let Some((generation, true)) = slot.current() else {
            return Ok(());
        };
        let store = self.store.upgrade().ok_or(ViewError::Stopped)?;
        // The snapshot fixes the version of the new base. Commits that it includes must be in the delta, so the feed
        // catches up with it first; later ones stay in the delta, which the new generation takes over.
        let tx = store.begin(Access::Read)?;
        if tx.version() <= generation.from {
            return Ok(());
        }
        self.catch_up(tx.version());
        let (base, mut kept) = self.with_effort(kind, |effort| make(&generation, &tx, effort))?;
        // Memory shared by the old and the new base is counted once: the old reservation hands over its part.
        let shared = base.bytes().saturating_sub(kept.bytes());
        generation.reservation.lock().shrink(shared);
        kept.try_grow(shared)?;
        let feed = self.feed();
        // The merge ran without the feed, so the generation may have been replaced or invalidated since.
        if !slot.finish_merge(&generation, tx.version(), base, kept, feed.applied) {
            // The old generation stays, and its shared parts with it. The new reservation was released, so
            // the budget has room for them.
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
        should_continue: ShouldContinue<'_>,
        make: impl FnOnce(&mut Effort<'_>) -> Result<T, ViewError>,
    ) -> Result<(T, Reservation), ViewError> {
        let make_room = |bytes| self.give_way(bytes, Some(kind));
        let mut effort = Effort::new(
            self.worker.stop(),
            should_continue,
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

    use isomer_bulk::{BulkNode, BulkOptions, load_nodes};
    use isomer_data::{CommitObserver, DataStoreOptions};
    use isomer_storage::{MemoryBudget, MemoryEngine};
    use isomer_value::{LabelId, Map, NodeId, Value};

    use super::*;
    use crate::{ViewOptions, side::AdjacencySide};

    fn open(budget: usize) -> (DataStore, Arc<Views>, MemoryBudget) {
        let memory = MemoryBudget::new(budget);
        let mut options = DataStoreOptions::default();
        options.memory = memory.clone();
        let store = DataStore::open(Arc::new(MemoryEngine::new()), options).unwrap();
        let views = Views::open(&store, ViewOptions::default()).unwrap();
        (store, views, memory)
    }

    fn write(store: &DataStore, count: usize, text: &str) -> Vec<NodeId> {
        let mut tx = store.begin(Access::Write).unwrap();
        let label = tx.name_ids().intern_label("N").unwrap();
        let properties: Map = [("text", Value::from(text))].into_iter().collect();
        let made = (0..count).map(|_| tx.graph_mut().create_node(&[label], &properties).unwrap());
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
        let job = || {
            views.build_slot(
                &slot,
                &kind,
                ALWAYS,
                |_| true,
                |_, _| panic!("injected panic"),
            )
        };
        assert!(catch_unwind(AssertUnwindSafe(job)).is_err());
        assert!(!slot.busy.load(Ordering::Relaxed));
        // No commits are collected any longer, so no base can be installed.
        let tx = store.begin(Access::Read).unwrap();
        let effort = |tx: &Transaction| {
            views
                .with_effort(&kind, |effort| members::build(tx, None, effort))
                .unwrap()
        };
        let (base, kept) = effort(&tx);
        assert!(!slot.finish_building(tx.version(), base, kept, tx.version()));
        views.make(&kind).unwrap();
        assert!(slot.is_ready());
    }

    /// If applying panics, the batch is not applied again: no view answers from there on, until it is
    /// rebuilt.
    #[test]
    fn a_panic_while_applying_applies_nothing_twice() {
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
        assert!(members(&after).is_none() && !views.member_slot(None).is_ready());
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
    fn a_large_commit_is_applied_from_its_buffer() {
        let (store, views, _) = open(16 << 20);
        write(&store, 10, "x");
        views.make(&ViewKind::Members(None)).unwrap();
        let small = write(&store, 1, "x");
        let begun = store.begin(Access::Read).unwrap().version();
        assert!(views.inbox.lacks(begun));
        // It is applied at once, after the commits enqueued before it.
        let large = write(&store, 1, &"x".repeat(1 << 20));
        let tx = store.begin(Access::Read).unwrap();
        assert!(tx.version() > begun && !views.inbox.lacks(tx.version()));
        assert_eq!(views.inbox.newest(), tx.version());
        assert_eq!(views.feed().applied, tx.version());
        let changed = |version| {
            let pinned = views.members_at(None, version, 0, u64::MAX).unwrap();
            pinned.changed_nodes()
        };
        let ids = |nodes: &[NodeId]| nodes.iter().map(|node| node.0 as u32).collect::<Vec<_>>();
        assert_eq!(changed(begun), ids(&small));
        assert_eq!(changed(tx.version()), ids(&[small, large].concat()));
    }

    /// A bulk load invalidates the view; the invalidation waits in the inbox until a reader comes.
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
        load_nodes(&store, "M", &BulkOptions::default(), &mut rows, &mut ()).unwrap();
        views.make(&kind).unwrap();
        assert_eq!(views.status()[0].count, 15);
        assert!(views.member_slot(None).is_ready());
    }

    /// A bulk load is announced when it starts, long before it becomes visible.
    #[test]
    fn a_file_that_cannot_be_caught_up_with_yet_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let store =
            DataStore::open(Arc::new(MemoryEngine::new()), DataStoreOptions::default()).unwrap();
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
        // A query gives up at once when it is cancelled.
        let begun = Instant::now();
        let made = views.build(&kind, false, &|| false);
        assert!(matches!(made, Err(ViewError::Stopped)), "{made:?}");
        assert!(begun.elapsed() < COMMIT_WAIT);
        let making = slot.making.lock();
        let made = views.build(&kind, false, &|| false);
        assert!(matches!(made, Err(ViewError::Taken)), "{made:?}");
        drop(making);
        views.abandoned(version + 1);
        views.make(&kind).unwrap();
        assert!(slot.is_ready());
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
    fn long_strings_in_a_delta_are_counted() {
        let (store, views, memory) = open(16 << 20);
        let nodes = write(&store, 10, "x");
        let tx = store.begin(Access::Read).unwrap();
        let label = tx.names().label_id("N").unwrap();
        let prop = tx.names().prop_id("text").unwrap();
        let owner = Owner::Nodes(label);
        let kind = owner.column([prop].into());
        views.make(&kind).unwrap();
        let slot = views.column_slot(owner, &[prop]);
        // 30 MB of strings, in far fewer changes than normally trigger a merge.
        for round in 0..30 {
            let mut tx = store.begin(Access::Write).unwrap();
            for node in &nodes {
                let text = format!("{round}").repeat(50_000);
                let text = Value::from(text.as_str());
                tx.graph_mut()
                    .set_node_property(*node, &["text"], text)
                    .unwrap();
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

    /// One commit that would fill the delta of a view beyond the budget: the view is dropped while the commit is
    /// applied, not after it, and is built again on request. Other views stay.
    #[test]
    fn a_commit_too_large_for_a_delta_drops_the_view() {
        let (store, views, memory) = open(4 << 20);
        let nodes = write(&store, 10, "x");
        let tx = store.begin(Access::Read).unwrap();
        let label = tx.names().label_id("N").unwrap();
        let prop = tx.names().prop_id("text").unwrap();
        let owner = Owner::Nodes(label);
        let (column, members) = (owner.column([prop].into()), ViewKind::Members(Some(label)));
        views.make(&column).unwrap();
        views.make(&members).unwrap();
        let slot = views.column_slot(owner, &[prop]);
        let set_all = |text: &str| {
            let mut tx = store.begin(Access::Write).unwrap();
            for node in &nodes {
                tx.graph_mut()
                    .set_node_property(*node, &["text"], Value::from(text))
                    .unwrap();
            }
            tx.commit().unwrap();
            drop(views.feed());
        };
        set_all(&"x".repeat(100_000));
        assert!(slot.is_ready() && views.member_slot(Some(label)).is_ready());
        let version = store.begin(Access::Read).unwrap().version();
        let entries = store
            .change_stream()
            .after(version - 1, 1, usize::MAX, false)
            .unwrap();
        // The same commit once more, while queries use the budget.
        let most = memory.free_bytes() - 400_000;
        let queries = memory.reserve(MemoryKind::Queries, most).unwrap();
        let registry = views.registry.read();
        views
            .apply_commit(&registry, version + 1, &entries[0].bytes)
            .unwrap();
        drop(registry);
        assert!(slot.current().is_none(), "its delta does not fit");
        assert!(views.member_slot(Some(label)).is_ready());
        drop(queries);
        set_all("short");
        views.make(&column).unwrap();
        assert!(slot.is_ready());
        assert_eq!(views.check(&mut |_| {}).sound, 2);
    }

    #[test]
    fn a_merge_that_is_given_up_leaves_the_old_base_in_the_budget() {
        let (store, views, memory) = open(64 << 20);
        let nodes = write(&store, 1000, "x");
        let mut tx = store.begin(Access::Write).unwrap();
        let type_id = tx.name_ids().intern_type("R").unwrap();
        for pair in nodes.windows(2) {
            tx.graph_mut()
                .create_relationship(type_id, pair[0], pair[1], &Map::new())
                .unwrap();
        }
        tx.commit().unwrap();
        let kind = ViewKind::Adjacency(type_id, AdjacencySide::Out);
        views.make(&kind).unwrap();
        write(&store, 1, "y");
        let before = memory.usage(MemoryKind::Views).used_bytes;
        let slot = views.adjacency_slot(type_id, AdjacencySide::Out);
        let merged = views.merge_slot(&slot, &kind, |generation, tx, effort| {
            let base = adjacency::merge(generation, tx.version(), effort);
            slot.stop_answering(tx.version() + 1); // a bulk load starts
            base
        });
        assert!(merged.is_ok(), "{merged:?}");
        assert!(slot.current().is_some() && !slot.is_ready());
        assert_eq!(memory.usage(MemoryKind::Views).used_bytes, before);
    }
}
