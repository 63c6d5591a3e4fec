//! Persistence of views: each is written to a file after it was built or merged, and read when it is
//! requested again.
//!
//! A file holds the base of a view as of one version. Later changes are replayed from the change stream,
//! which is retained for the file; when that grows too long, the file is rewritten. A file is bound to the
//! era and version of its base (see [`isomer_data::Lineage`]), so that a file from another history is
//! detected: after a restore, after a crash that lost buffered commits, or in another database. A file that
//! is damaged, foreign or too far behind is removed, and the view is built from the rows.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use isomer_data::{DataStore, EraId, StreamHold, Version};
use isomer_storage::MemoryKind;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::{
    DamagedFile, ViewError, ViewKind, Views,
    build::ShouldContinue,
    registry::Registry,
    segment::{Folder, FolderListing, Head, SegmentError, Stored},
    slot::Slot,
    views::for_slot,
    worker::Job,
};

/// Maximum bytes of change stream retained for a file: above this, and above half the size of the file, the
/// file is rewritten or removed.
const MOST_HELD_BYTES: u64 = 64 << 20;
/// Maximum number of commits that a file may be behind when a database is opened.
const MOST_BEHIND: u64 = 1_000_000;
/// A file that is behind by at most this many commits, or by at most as many as it has entries, is cheaper to
/// read than to rebuild.
const FEW_BEHIND: u64 = 4096;
/// After a merge a file is rewritten if it is behind by more commits than [`FEW_BEHIND`] and than this
/// fraction of the base's entries (or half of [`MOST_BEHIND`]): a merge shares unchanged parts, but a file is
/// written as a whole.
const WRITTEN_SHARE: u64 = 2;
/// ... or by more bytes of change stream than this, and than the size of the file.
const WRITTEN_BYTES: u64 = 16 << 20;
/// Number of openings after which a file that was read is rewritten.
const OLD_ERAS: usize = 50;
/// Files are reviewed once per this many bytes of change stream.
const LOOK_BYTES: u64 = 8 << 20;
/// Entries of the change stream read per batch.
const ENTRIES: usize = 1024;
const ENTRY_BYTES: usize = 8 << 20;

/// The files of views.
pub(crate) struct Keeping {
    pub(crate) folder: Folder,
    kept: Mutex<FxHashMap<ViewKind, Kept>>,
    /// Bytes of change stream since the database was opened.
    streamed_bytes: AtomicU64,
    /// Files that were found damaged.
    damaged: Mutex<Vec<DamagedFile>>,
}

/// A file that can be read.
struct Kept {
    era: EraId,
    version: Version,
    bytes: u64,
    /// Value of `streamed_bytes` when the file was found or written.
    streamed_bytes: u64,
    _hold: StreamHold,
}

impl Keeping {
    /// Scans the folder on opening. Files that this database cannot use are removed.
    pub(crate) fn open(store: &DataStore, path: &Path) -> Self {
        let folder = Folder::new(
            path,
            store.options().read_only,
            store.options().seal.clone(),
        );
        let mut kept = FxHashMap::default();
        let FolderListing {
            heads: found,
            damaged,
        } = folder.list();
        if !found.is_empty() {
            // Retain the change stream first, so that no entry is trimmed in between.
            let now = store.engine().version();
            let held = |(head, bytes): (Head, u64)| {
                (store.change_stream().hold(head.version), head, bytes)
            };
            let held: Vec<_> = found.into_iter().map(held).collect();
            let lineage = store.eras().lineage().unwrap_or_default();
            for (hold, head, bytes) in held {
                let usable = lineage.holds(&head.era, head.version)
                    && lineage.has_changes_since(head.version)
                    && now.saturating_sub(head.version) <= MOST_BEHIND;
                if !usable {
                    folder.remove(&head.kind);
                    continue;
                }
                let one = Kept {
                    era: head.era,
                    version: head.version,
                    bytes,
                    streamed_bytes: 0,
                    _hold: hold,
                };
                kept.insert(head.kind, one);
            }
        }
        Self {
            folder,
            kept: Mutex::new(kept),
            streamed_bytes: AtomicU64::new(0),
            damaged: Mutex::new(damaged),
        }
    }

    /// The views that have files.
    pub(crate) fn kinds(&self) -> Vec<ViewKind> {
        self.kept.lock().keys().cloned().collect()
    }

    /// Version and size of a view's file.
    pub(crate) fn file(&self, kind: &ViewKind) -> Option<(Version, u64)> {
        let kept = self.kept.lock();
        kept.get(kind).map(|one| (one.version, one.bytes))
    }

    /// Counts a commit with this many bytes of changes; returns whether it is time to review the files.
    pub(crate) fn note_streamed(&self, bytes: usize) -> bool {
        let bytes = bytes as u64;
        let before = self.streamed_bytes.fetch_add(bytes, Ordering::Relaxed);
        before / LOOK_BYTES != (before + bytes) / LOOK_BYTES
    }

    /// The views whose files retain too much of the change stream.
    fn behind(&self) -> Vec<ViewKind> {
        let kept = self.kept.lock();
        // Under the lock: none of the files is newer than the counter.
        let streamed = self.streamed_bytes.load(Ordering::Relaxed);
        let far = |one: &Kept| {
            streamed.saturating_sub(one.streamed_bytes) > MOST_HELD_BYTES.max(one.bytes / 2)
        };
        let behind = kept.iter().filter(|(_, one)| far(one));
        behind.map(|(kind, _)| kind.clone()).collect()
    }

    /// Whether a base at this version, with this many entries, should be written: there is no file, or it is
    /// far behind.
    fn is_far(&self, kind: &ViewKind, version: Version, len: u64) -> bool {
        let kept = self.kept.lock();
        let streamed = self.streamed_bytes.load(Ordering::Relaxed);
        kept.get(kind).is_none_or(|one| {
            let commits = version.saturating_sub(one.version);
            commits > FEW_BEHIND.max(len / WRITTEN_SHARE).min(MOST_BEHIND / 2)
                || streamed.saturating_sub(one.streamed_bytes) > WRITTEN_BYTES.max(one.bytes)
        })
    }

    /// Removes a view's file.
    pub(crate) fn forget(&self, kind: &ViewKind) {
        self.folder.remove(kind);
        self.kept.lock().remove(kind);
    }

    /// Files found damaged since the database was opened.
    pub(crate) fn damaged(&self) -> Vec<DamagedFile> {
        self.damaged.lock().clone()
    }

    fn note(&self, kind: &ViewKind, reason: String) {
        let name = self.folder.name_of(kind);
        self.damaged.lock().push(DamagedFile { name, reason });
    }

    /// Releases the change stream.
    pub(crate) fn let_go(&self) {
        self.kept.lock().clear();
    }

    fn head(&self, kind: &ViewKind) -> Option<Head> {
        let kept = self.kept.lock();
        kept.get(kind).map(|one| Head {
            kind: kind.clone(),
            era: one.era,
            version: one.version,
        })
    }
}

impl Views {
    /// Installs a stored base and replays later commits. Returns false if there is no usable file, or it
    /// cannot be read now.
    pub(crate) fn restore<B: Stored>(
        &self,
        slot: &Slot<B>,
        kind: &ViewKind,
        should_continue: ShouldContinue<'_>,
        fits: impl Fn(&B) -> bool,
    ) -> Result<bool, ViewError> {
        let Some(keeping) = &self.keeping else {
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
                let feed = self.feed();
                slot.stop_building();
                drop(feed);
                match error {
                    // The file itself may be fine: it is read at the next request.
                    ViewError::Stopped | ViewError::Unsettled { .. } => Err(error),
                    ViewError::NoRoom(_) => {
                        no_more();
                        Err(error)
                    }
                    ViewError::Damaged(_) | ViewError::Stored(_) => {
                        if let ViewError::Damaged(reason) = &error {
                            keeping.note(kind, reason.clone());
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
    fn renew(&self, head: &Head) {
        let age = || self.store.upgrade()?.eras().lineage().ok()?.age(&head.era);
        if self.keeps() && age().is_some_and(|age| age > OLD_ERAS) {
            self.worker.push(&self.this, Job::Merge(head.kind.clone()));
            self.save_soon(&head.kind);
        }
    }

    fn restore_base<B: Stored>(
        &self,
        keeping: &Keeping,
        head: &Head,
        slot: &Slot<B>,
        should_continue: ShouldContinue<'_>,
        fits: impl Fn(&B) -> bool,
    ) -> Result<bool, ViewError> {
        let store = self.store.upgrade().ok_or(ViewError::Stopped)?;
        // The file may be removed concurrently, and its retention of the change stream with it.
        let _hold = store.change_stream().hold(head.version);
        let mut blocks = keeping.folder.open(&head.kind)?;
        if blocks.head() != head || !store.eras().lineage()?.has_changes_since(head.version) {
            return Err(SegmentError::Foreign.into());
        }
        let nodes = store.counts().nodes_now(None);
        let newest = self.begin_building(slot, nodes)?;
        let tx = self.snapshot_including(&store, newest, should_continue)?;
        let catalog = store.catalog();
        let (base, reserved) = self.with_effort_while(&head.kind, should_continue, |effort| {
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
        past.begin_building(nodes, self.memory.reservation(MemoryKind::Views));
        let mut registry = Registry::default();
        B::enter(&mut registry, &head.kind, past.clone());
        self.replay_commits(
            &store,
            &registry,
            head.version,
            tx.version(),
            should_continue,
        )?;
        let feed = self.feed();
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
        &self,
        store: &DataStore,
        registry: &Registry,
        from: Version,
        to: Version,
        should_continue: ShouldContinue<'_>,
    ) -> Result<(), ViewError> {
        let mut after = from;
        while after < to {
            if self.worker.stop().load(Ordering::Relaxed) || !should_continue() {
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
                self.apply_commit(registry, entry.version, &entry.bytes)?;
            }
            registry.each(|_, slot| slot.account_building());
        }
        Ok(())
    }

    /// Schedules writing a view in the background, if persistence is on.
    pub(crate) fn save_soon(&self, kind: &ViewKind) {
        if self.keeps() {
            self.worker.push(&self.this, Job::Save(kind.clone()));
        }
    }

    /// As [`Views::save_soon`], unless there is a file that is cheap to bring up to date.
    pub(crate) fn save_if_far<B: Stored>(&self, slot: &Slot<B>, kind: &ViewKind) {
        let (Some(keeping), Some((generation, true))) = (&self.keeping, slot.current()) else {
            return;
        };
        if keeping.is_far(kind, generation.from, generation.base.len()) {
            self.save_soon(kind);
        }
    }

    /// A file of this view was written: the first request reads it.
    pub(crate) fn keep(&self, head: Head, bytes: u64, hold: StreamHold) {
        let Some(keeping) = &self.keeping else {
            return;
        };
        let one = Kept {
            era: head.era,
            version: head.version,
            bytes,
            streamed_bytes: keeping.streamed_bytes.load(Ordering::Relaxed),
            _hold: hold,
        };
        keeping.kept.lock().insert(head.kind.clone(), one);
        self.note_stored(&head.kind);
    }

    /// The first request for this view reads it from the file or, for the other side of adjacency, transposes
    /// it.
    pub(crate) fn note_stored(&self, kind: &ViewKind) {
        for kind in [Some(kind.clone()), kind.reversed()].into_iter().flatten() {
            for_slot!(self, &kind, slot => slot.stored.store(true, Ordering::Relaxed));
        }
    }

    /// Whether a view has a file.
    pub(crate) fn has_file(&self, kind: &ViewKind) -> bool {
        let keeping = self.keeping.as_ref();
        keeping.is_some_and(|keeping| keeping.file(kind).is_some())
    }

    /// Whether views are persisted.
    pub(crate) fn keeps(&self) -> bool {
        let keeping = self.keeping.as_ref();
        keeping.is_some_and(|keeping| !keeping.folder.is_read_only())
    }

    /// Writes the base of a view, unless it is already written, too small to be worth a file, or obsolete. Of
    /// the two sides of adjacency one is written: transposing it takes little longer than reading the other.
    pub(crate) fn save(&self, kind: &ViewKind) -> Result<(), ViewError> {
        if kind.reversed().is_some_and(|other| self.has_file(&other)) {
            if let (Some(keeping), true) = (&self.keeping, self.keeps()) {
                keeping.forget(kind);
            }
            return Ok(());
        }
        for_slot!(self, kind, slot => self.save_slot(&slot, kind))
    }

    fn save_slot<B: Stored>(&self, slot: &Slot<B>, kind: &ViewKind) -> Result<(), ViewError> {
        let (Some(keeping), true) = (&self.keeping, self.keeps()) else {
            return Ok(());
        };
        let store = self.store.upgrade().ok_or(ViewError::Stopped)?;
        for attempt in 0..2 {
            let Some((generation, true)) = slot.current() else {
                return Ok(());
            };
            let stored = keeping.file(kind);
            if generation.base.len() < self.options.keep_at_least
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
                    self.merge(kind)?;
                }
                continue;
            }
            // The file must not be newer than the durable state of the database.
            store
                .engine()
                .sync()
                .map_err(isomer_data::DataError::from)?;
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
    pub(crate) fn save_all(&self) {
        if self.keeps() {
            for view in self.status() {
                // A view that cannot be written is rebuilt later.
                let _ = self.save(&view.kind);
            }
        }
    }

    /// Prevents files from retaining the change stream forever.
    pub(crate) fn review_files(&self) {
        let Some(keeping) = &self.keeping else {
            return;
        };
        for kind in keeping.behind() {
            let ready = for_slot!(self, &kind, slot => slot.is_ready());
            if ready {
                let _ = self.merge(&kind).and_then(|()| self.save(&kind));
            }
            if keeping.behind().contains(&kind) {
                keeping.forget(&kind);
            }
        }
    }
}
