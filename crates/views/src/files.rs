//! Persistence of views: each is written to a file after it was built or merged, and read when it is
//! requested again.
//!
//! A file holds the base of a view as of one version. Later changes are replayed from the change stream,
//! which is retained for the file; when that grows too long, the file is rewritten. A file is bound to the
//! era and version of its base (see [`isomer_data::Lineage`]), so that a file from another history is
//! detected: after a restore, after a crash that lost buffered commits, or in another database. A file that
//! is damaged, foreign or too far behind is removed, and the view is built from the rows.

use std::sync::{Arc, atomic::Ordering};

use isomer_data::{DataError, DataStore, StreamHold, Version};
use isomer_storage::MemoryKind;

use crate::{
    build::ShouldContinue,
    error::ViewError,
    keeping::{FEW_BEHIND, Keeping},
    registry::Registry,
    slot::Slot,
    status::ViewKind,
    view_file::{Head, Stored, ViewFileError, ViewFileRejection},
    views::{Views, for_slot},
    worker::Job,
};

/// Number of openings after which a file that was read is rewritten.
const OLD_ERAS: usize = 50;
/// Entries of the change stream read per batch.
const ENTRIES: usize = 1024;
const ENTRY_BYTES: usize = 8 << 20;

/// Restores views from their files, and saves them. It does nothing if views are not persistent.
#[derive(Clone, Copy)]
pub(crate) struct ViewFiles<'v> {
    views: &'v Views,
}

impl Views {
    /// The files of the views.
    pub(crate) fn files(&self) -> ViewFiles<'_> {
        ViewFiles { views: self }
    }
}

impl ViewFiles<'_> {
    /// Installs a stored base and replays later commits. Returns false if there is no usable file, or it
    /// cannot be read now.
    pub(crate) fn restore<B: Stored>(
        self,
        slot: &Slot<B>,
        kind: &ViewKind,
        should_continue: ShouldContinue<'_>,
        fits: impl Fn(&B) -> bool,
    ) -> Result<bool, ViewError> {
        let Some(keeping) = &self.views.keeping else {
            return Ok(false);
        };
        let Some(head) = keeping.head(kind) else {
            slot.stored.store(false, Ordering::Relaxed);
            return Ok(false);
        };
        let restored = self.restore_base(keeping, &head, slot, should_continue, fits);
        let no_more = || slot.stored.store(false, Ordering::Relaxed);
        match restored {
            Ok(true) => {
                self.renew(&head);
                Ok(true)
            }
            Ok(false) => {
                no_more();
                Ok(false)
            }
            Err(error) => {
                // Commits need not be collected for it any longer.
                let feed = self.views.feed();
                slot.stop_building();
                drop(feed);
                match error {
                    // The file itself may be fine: it is read at the next request.
                    ViewError::Stopped | ViewError::Unsettled { .. } => Err(error),
                    ViewError::NoRoom(_) => {
                        no_more();
                        Err(error)
                    }
                    ViewError::Damaged(_) | ViewError::Rejected(_) | ViewError::Unwritable(_) => {
                        if let ViewError::Damaged(damage) = &error {
                            keeping.note(kind, damage.to_string());
                        }
                        no_more();
                        keeping.forget(kind);
                        Ok(false)
                    }
                    // The disk or the change stream cannot be read now; the rows may still be readable.
                    ViewError::Unreadable(_)
                    | ViewError::Data(_)
                    | ViewError::IdTooLarge
                    | ViewError::Taken
                    | ViewError::Overtaken => Ok(false),
                }
            }
        }
    }

    /// Schedules a rewrite of a file whose era will soon be forgotten.
    fn renew(self, head: &Head) {
        let age = || {
            self.views
                .store
                .upgrade()?
                .eras()
                .lineage()
                .ok()?
                .age(&head.era)
        };
        if self.keeps() && age().is_some_and(|age| age > OLD_ERAS) {
            self.views
                .worker
                .push(&self.views.this, Job::Merge(head.kind.clone()));
            self.save_soon(&head.kind);
        }
    }

    fn restore_base<B: Stored>(
        self,
        keeping: &Keeping,
        head: &Head,
        slot: &Slot<B>,
        should_continue: ShouldContinue<'_>,
        fits: impl Fn(&B) -> bool,
    ) -> Result<bool, ViewError> {
        let store = self.views.store.upgrade().ok_or(ViewError::Stopped)?;
        // The file may be removed concurrently, and its retention of the change stream with it.
        let _hold = store.change_stream().hold(head.version);
        let mut blocks = keeping.folder.open(&head.kind)?;
        let found = blocks.head().clone();
        if found != *head && store.is_shared() {
            keeping.note_replaced(&store, &found, blocks.bytes());
        } else if found != *head {
            return Err(ViewFileError::from(ViewFileRejection::Foreign).into());
        }
        let head = &found;
        let lineage = store.eras().lineage()?;
        if !lineage.holds(&head.era, head.version) || !lineage.has_changes_since(head.version) {
            return Err(ViewFileError::from(ViewFileRejection::Foreign).into());
        }
        let nodes = store.counts().nodes_now(None);
        let newest = self.views.begin_building(slot, nodes)?;
        let tx = self
            .views
            .snapshot_including(&store, newest, should_continue)?;
        let catalog = store.catalog();
        let (base, reserved) =
            self.views
                .with_effort_while(&head.kind, should_continue, |effort| {
                    B::load(&mut blocks, &catalog, effort)
                })?;
        blocks.finish()?;
        // Replaying costs one unit per commit, rebuilding about one per entry.
        let behind = tx.version().saturating_sub(head.version);
        if !fits(&base) || behind > FEW_BEHIND.max(base.len()) {
            slot.stop_building();
            return Ok(false);
        }
        // Replay into a temporary slot first, as the commits were applied when they came.
        let past = Arc::<Slot<B>>::default();
        past.begin_building(nodes, self.views.memory.reservation(MemoryKind::Views));
        let mut registry = Registry::default();
        B::enter(&mut registry, &head.kind, past.clone());
        self.replay_commits(
            &store,
            &registry,
            head.version,
            tx.version(),
            should_continue,
        )?;
        let feed = self.views.feed();
        // Commits after `tx` were collected in `slot` itself; both parts are joined under the feed's lock.
        Ok(slot.finish_restoring(
            head.version,
            tx.version(),
            base,
            &past,
            reserved,
            feed.applied,
        ))
    }

    /// Replays the commits of the version range `(from, to]` from the change stream.
    fn replay_commits(
        self,
        store: &DataStore,
        registry: &Registry,
        from: Version,
        to: Version,
        should_continue: ShouldContinue<'_>,
    ) -> Result<(), ViewError> {
        let mut after = from;
        while after < to {
            if self.views.worker.stop().load(Ordering::Relaxed) || !should_continue() {
                return Err(ViewError::Stopped);
            }
            let entries = store
                .change_stream()
                .after(after, ENTRIES, ENTRY_BYTES, false)?;
            let Some(last) = entries.last() else {
                break;
            };
            after = last.version;
            for entry in entries.iter().filter(|entry| entry.version <= to) {
                self.views
                    .apply_commit(registry, entry.version, &entry.bytes)?;
            }
            registry.each(|_, slot| slot.account_building());
        }
        Ok(())
    }

    /// Schedules writing a view in the background, if persistence is on.
    pub(crate) fn save_soon(self, kind: &ViewKind) {
        if self.keeps() {
            self.views
                .worker
                .push(&self.views.this, Job::Save(kind.clone()));
        }
    }

    /// As [`Views::save_soon`], unless there is a file that is cheap to bring up to date.
    pub(crate) fn save_if_far<B: Stored>(self, slot: &Slot<B>, kind: &ViewKind) {
        let (Some(keeping), Some((generation, true))) = (&self.views.keeping, slot.current())
        else {
            return;
        };
        if keeping.is_far(kind, generation.from, generation.base.len()) {
            self.save_soon(kind);
        }
    }

    /// A file of this view was written: the first request reads it.
    pub(crate) fn keep(self, head: Head, bytes: u64, hold: StreamHold) {
        let Some(keeping) = &self.views.keeping else {
            return;
        };
        let kind = head.kind.clone();
        keeping.note_written(head, bytes, hold);
        self.note_stored(&kind);
    }

    /// The first request for this view reads it from the file or, for the other side of adjacency, transposes
    /// it.
    pub(crate) fn note_stored(self, kind: &ViewKind) {
        for kind in [Some(kind.clone()), kind.reversed()].into_iter().flatten() {
            for_slot!(self.views, &kind, slot => slot.stored.store(true, Ordering::Relaxed));
        }
    }

    /// Whether a view has a file.
    pub(crate) fn has_file(self, kind: &ViewKind) -> bool {
        let keeping = self.views.keeping.as_ref();
        keeping.is_some_and(|keeping| keeping.file(kind).is_some())
    }

    /// Whether views are persisted.
    pub(crate) fn keeps(self) -> bool {
        let keeping = self.views.keeping.as_ref();
        keeping.is_some_and(|keeping| keeping.folder.may_write())
    }

    /// Writes the base of a view, unless it is already written, too small to be worth a file, or obsolete. Of
    /// the two sides of adjacency one is written: transposing it takes little longer than reading the other.
    pub(crate) fn save(self, kind: &ViewKind) -> Result<(), ViewError> {
        if kind.reversed().is_some_and(|other| self.has_file(&other)) {
            if let (Some(keeping), true) = (&self.views.keeping, self.keeps()) {
                keeping.forget(kind);
            }
            return Ok(());
        }
        for_slot!(self.views, kind, slot => self.save_slot(&slot, kind))
    }

    fn save_slot<B: Stored>(self, slot: &Slot<B>, kind: &ViewKind) -> Result<(), ViewError> {
        let (Some(keeping), true) = (&self.views.keeping, self.keeps()) else {
            return Ok(());
        };
        let store = self.views.store.upgrade().ok_or(ViewError::Stopped)?;
        for attempt in 0..2 {
            let Some((generation, true)) = slot.current() else {
                return Ok(());
            };
            let stored = keeping.file(kind);
            if generation.base.len() < self.views.options.keep_at_least
                || stored.is_some_and(|(version, _)| version == generation.from)
            {
                return Ok(());
            }
            let era = store.eras().begin()?;
            let hold = store.change_stream().hold(generation.from);
            let lineage = store.eras().lineage()?;
            if !lineage.holds(&era, generation.from) || !lineage.has_changes_since(generation.from)
            {
                // The base is too old: it is from an earlier opening, or the change stream does not reach
                // back to it.
                drop(hold);
                if attempt == 0 {
                    self.views.merge(kind)?;
                }
                continue;
            }
            // The file must not be newer than the durable state of the database.
            store.engine().sync().map_err(DataError::from)?;
            let head = Head {
                kind: kind.clone(),
                era,
                version: generation.from,
            };
            let catalog = store.catalog();
            let fill = |writer: &mut _| generation.base.store(&catalog, writer);
            let bytes = keeping.folder.write(head.clone(), fill)?;
            self.keep(head, bytes, hold);
            return Ok(());
        }
        Ok(())
    }

    /// Writes all ready views that are not written yet, when the database is closed.
    pub(crate) fn save_all(self) {
        if self.keeps() {
            for view in self.views.status() {
                // A view that cannot be written is rebuilt later.
                let _ = self.save(&view.kind);
            }
        }
    }

    /// Prevents files from retaining the change stream forever.
    pub(crate) fn review_files(self) {
        let Some(keeping) = &self.views.keeping else {
            return;
        };
        for kind in keeping.behind() {
            let ready = for_slot!(self.views, &kind, slot => slot.is_ready());
            if ready {
                let _ = self.views.merge(&kind).and_then(|()| self.save(&kind));
            }
            if keeping.behind().contains(&kind) {
                keeping.forget(&kind);
            }
        }
    }
}
