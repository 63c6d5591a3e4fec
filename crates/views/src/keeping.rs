//! Keeping views on disk: written after they were made or merged, read when they are asked for again.
//!
//! A file holds the base of a view as of one version; what happened since comes out of the change stream, which is held for
//! it; when that is much, the file is written anew. It is bound to the era and version of its base (see
//! [`isomer_data::Lineage`]), so that a file of a past that the database does not have is known for what it is: after a
//! restore, after a crash that lost buffered commits, beside another database. A file that is damaged, foreign or too far
//! behind is removed, and the view is made from the rows.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use isomer_data::{EraId, Store, StreamHold, Version};
use isomer_storage::MemoryKind;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::{
    DamagedFile, ViewError, ViewKind, Views,
    build::GoOn,
    registry::Registry,
    segment::{Folder, Found, Head, SegmentError, Stored},
    slot::Slot,
    views::for_slot,
    worker::Job,
};

/// Change stream that may be held for a file: beyond, and beyond half the size of the file, it is written anew or removed.
const MOST_HELD_BYTES: u64 = 64 << 20;
/// Commits that a file may be behind when a database is opened.
const MOST_BEHIND: u64 = 1_000_000;
/// A file that is behind by no more commits than this, or than there are things in it, is sooner read than made from the rows.
const FEW_BEHIND: u64 = 4096;
/// After a merge a file is written anew if it is behind by more commits than [`FEW_BEHIND`] and than this part of the base has
/// things (or half of [`MOST_BEHIND`]): merges share what did not change, and a file is written as a whole.
const WRITTEN_SHARE: u64 = 2;
/// ... or by more bytes of change stream than these, and than the file has.
const WRITTEN_BYTES: u64 = 16 << 20;
/// Openings after which a file that was read is written anew.
const OLD_ERAS: usize = 50;
/// Files are looked after once per so many bytes of change stream.
const LOOK_BYTES: u64 = 8 << 20;
/// Entries of the change stream read at once.
const ENTRIES: usize = 1024;
const ENTRY_BYTES: usize = 8 << 20;

/// The files of views.
pub(crate) struct Keeping {
    pub(crate) folder: Folder,
    kept: Mutex<FxHashMap<ViewKind, Kept>>,
    /// Bytes of change stream told since the opening.
    told_bytes: AtomicU64,
    /// Files that were found damaged.
    damaged: Mutex<Vec<DamagedFile>>,
}

/// A file that can be read.
struct Kept {
    era: EraId,
    version: Version,
    bytes: u64,
    /// How many bytes had been told when it was found or written.
    told_bytes: u64,
    _hold: StreamHold,
}

impl Keeping {
    /// What is found in the folder at opening. Files that this database cannot use are removed.
    pub(crate) fn open(store: &Store, path: &Path) -> Self {
        let folder = Folder::new(
            path,
            store.options().read_only,
            store.options().seal.clone(),
        );
        let mut kept = FxHashMap::default();
        let Found {
            heads: found,
            damaged,
        } = folder.list();
        if !found.is_empty() {
            // Held first: what is told now stays told.
            let now = store.engine().version();
            let held = |(head, bytes): (Head, u64)| (store.hold_stream(head.version), head, bytes);
            let held: Vec<_> = found.into_iter().map(held).collect();
            let lineage = store.lineage().unwrap_or_default();
            for (hold, head, bytes) in held {
                let usable = lineage.holds(&head.era, head.version)
                    && lineage.tells_since(head.version)
                    && now.saturating_sub(head.version) <= MOST_BEHIND;
                if !usable {
                    folder.remove(&head.kind);
                    continue;
                }
                let one = Kept {
                    era: head.era,
                    version: head.version,
                    bytes,
                    told_bytes: 0,
                    _hold: hold,
                };
                kept.insert(head.kind, one);
            }
        }
        Self {
            folder,
            kept: Mutex::new(kept),
            told_bytes: AtomicU64::new(0),
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

    /// A commit with so many bytes of changes was told; whether it is time to look after the files.
    pub(crate) fn told(&self, bytes: usize) -> bool {
        let bytes = bytes as u64;
        let before = self.told_bytes.fetch_add(bytes, Ordering::Relaxed);
        before / LOOK_BYTES != (before + bytes) / LOOK_BYTES
    }

    /// The views whose files hold back too much of the change stream.
    fn behind(&self) -> Vec<ViewKind> {
        let kept = self.kept.lock();
        // Under the lock: none of the files is younger than it.
        let told = self.told_bytes.load(Ordering::Relaxed);
        let far =
            |one: &Kept| told.saturating_sub(one.told_bytes) > MOST_HELD_BYTES.max(one.bytes / 2);
        let behind = kept.iter().filter(|(_, one)| far(one));
        behind.map(|(kind, _)| kind.clone()).collect()
    }

    /// Whether a base as of this version, with so many things, is worth a file: there is none, or it is much behind.
    fn is_far(&self, kind: &ViewKind, version: Version, len: u64) -> bool {
        let kept = self.kept.lock();
        let told = self.told_bytes.load(Ordering::Relaxed);
        kept.get(kind).is_none_or(|one| {
            let commits = version.saturating_sub(one.version);
            commits > FEW_BEHIND.max(len / WRITTEN_SHARE).min(MOST_BEHIND / 2)
                || told.saturating_sub(one.told_bytes) > WRITTEN_BYTES.max(one.bytes)
        })
    }

    /// Removes a view's file.
    pub(crate) fn forget(&self, kind: &ViewKind) {
        self.folder.remove(kind);
        self.kept.lock().remove(kind);
    }

    /// Files that were found damaged since the opening.
    pub(crate) fn damaged(&self) -> Vec<DamagedFile> {
        self.damaged.lock().clone()
    }

    fn note(&self, kind: &ViewKind, reason: String) {
        let name = self.folder.name_of(kind);
        self.damaged.lock().push(DamagedFile { name, reason });
    }

    /// Holds the change stream no more.
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
    /// Puts a stored base in place, with what happened since. False where there is none that can be used, or read now.
    pub(crate) fn restore<B: Stored>(
        &self,
        slot: &Slot<B>,
        kind: &ViewKind,
        go_on: GoOn<'_>,
        fits: impl Fn(&B) -> bool,
    ) -> Result<bool, ViewError> {
        let Some(keeping) = &self.keeping else {
            return Ok(false);
        };
        let Some(head) = keeping.head(kind) else {
            slot.stored.store(false, Ordering::Relaxed);
            return Ok(false);
        };
        let restored = self.restore_base(keeping, &head, slot, go_on, fits);
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
                // Commits are not collected for it any more.
                let feed = self.feed();
                slot.stop_building();
                drop(feed);
                match error {
                    // Nothing is said of the file: it is read another time.
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
                    // The disk, or what came after it, cannot be read now; perhaps the rows can.
                    ViewError::Unreadable(_)
                    | ViewError::Data(_)
                    | ViewError::IdTooLarge
                    | ViewError::Taken
                    | ViewError::Overtaken => Ok(false),
                }
            }
        }
    }

    /// Has a file written anew whose era will soon be forgotten.
    fn renew(&self, head: &Head) {
        let age = || self.store.upgrade()?.lineage().ok()?.age(&head.era);
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
        go_on: GoOn<'_>,
        fits: impl Fn(&B) -> bool,
    ) -> Result<bool, ViewError> {
        let store = self.store.upgrade().ok_or(ViewError::Stopped)?;
        // The file may be given up meanwhile, and with it what it holds of the change stream.
        let _hold = store.hold_stream(head.version);
        let mut blocks = keeping.folder.open(&head.kind)?;
        if blocks.head() != head || !store.lineage()?.tells_since(head.version) {
            return Err(SegmentError::Foreign.into());
        }
        let nodes = store.node_count_now(None);
        let told = self.begin_building(slot, nodes)?;
        let tx = self.settled(&store, told, go_on)?;
        let catalog = store.catalog();
        let (base, reserved) = self.with_effort_while(&head.kind, go_on, |effort| {
            B::load(&mut blocks, &catalog, effort)
        })?;
        blocks.finish()?;
        let behind = tx.version().saturating_sub(head.version);
        if !fits(&base) || behind > FEW_BEHIND.max(base.len()) {
            slot.stop_building();
            return Ok(false);
        }
        // Told to a slot of its own first, as the commits were when they came.
        let past = Arc::<Slot<B>>::default();
        past.begin_building(nodes, self.memory.reservation(MemoryKind::Views));
        let mut registry = Registry::default();
        B::enter(&mut registry, &head.kind, past.clone());
        self.tell_again(&store, &registry, head.version, tx.version(), go_on)?;
        let feed = self.feed();
        Ok(slot.finish_restoring(head.version, tx.version(), base, &past, reserved, feed.told))
    }

    /// Tells the commits after `from` up to `to` out of the change stream.
    fn tell_again(
        &self,
        store: &Store,
        registry: &Registry,
        from: Version,
        to: Version,
        go_on: GoOn<'_>,
    ) -> Result<(), ViewError> {
        let mut after = from;
        while after < to {
            if self.worker.stop().load(Ordering::Relaxed) || !go_on() {
                return Err(ViewError::Stopped);
            }
            let entries = store.stream_after(after, ENTRIES, ENTRY_BYTES, false)?;
            let Some(last) = entries.last() else {
                break;
            };
            after = last.version;
            for entry in entries.iter().filter(|entry| entry.version <= to) {
                self.tell(registry, entry.version, &entry.bytes)?;
            }
            registry.each(|_, slot| slot.settle_building());
        }
        Ok(())
    }

    /// Has a view written in the background, where views are kept.
    pub(crate) fn save_soon(&self, kind: &ViewKind) {
        if self.keeps() {
            self.worker.push(&self.this, Job::Save(kind.clone()));
        }
    }

    /// As [`Views::save_soon`], unless there is a file that can be brought up to date with little effort.
    pub(crate) fn save_if_far<B: Stored>(&self, slot: &Slot<B>, kind: &ViewKind) {
        let (Some(keeping), Some((generation, true))) = (&self.keeping, slot.current()) else {
            return;
        };
        if keeping.is_far(kind, generation.from, generation.base.len()) {
            self.save_soon(kind);
        }
    }

    /// A file of this view was put in place: the first one who asks has it read.
    pub(crate) fn keep(&self, head: Head, bytes: u64, hold: StreamHold) {
        let Some(keeping) = &self.keeping else {
            return;
        };
        let one = Kept {
            era: head.era,
            version: head.version,
            bytes,
            told_bytes: keeping.told_bytes.load(Ordering::Relaxed),
            _hold: hold,
        };
        keeping.kept.lock().insert(head.kind.clone(), one);
        self.note_stored(&head.kind);
    }

    /// The first one who asks for this view has it read, or, for the other side of adjacency, made from it.
    pub(crate) fn note_stored(&self, kind: &ViewKind) {
        for kind in [Some(kind.clone()), kind.reversed()].into_iter().flatten() {
            for_slot!(self, &kind, slot => slot.stored.store(true, Ordering::Relaxed));
        }
    }

    /// Whether a view is in a file.
    pub(crate) fn has_file(&self, kind: &ViewKind) -> bool {
        let keeping = self.keeping.as_ref();
        keeping.is_some_and(|keeping| keeping.file(kind).is_some())
    }

    /// Whether views are written at all.
    pub(crate) fn keeps(&self) -> bool {
        let keeping = self.keeping.as_ref();
        keeping.is_some_and(|keeping| !keeping.folder.is_read_only())
    }

    /// Writes the base of a view, unless it is written already, too small to be worth it, or answers nobody any more.
    /// Of the two sides of adjacency one is written: making the other one from it takes little longer than reading it.
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
            let era = store.begin_era()?;
            let hold = store.hold_stream(generation.from);
            let lineage = store.lineage()?;
            if !lineage.holds(&era, generation.from) || !lineage.tells_since(generation.from) {
                // Too old a base: of an earlier opening, or the stream does not reach back to it.
                drop(hold);
                if attempt == 0 {
                    self.merge(kind)?;
                }
                continue;
            }
            // What the file says must not be newer than what the disk has.
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

    /// Writes what stands and is not written yet: when the database is closed.
    pub(crate) fn save_all(&self) {
        if self.keeps() {
            for view in self.status() {
                // What cannot be written is made again.
                let _ = self.save(&view.kind);
            }
        }
    }

    /// Sees to it that files do not hold back the change stream for ever.
    pub(crate) fn look_after_files(&self) {
        let Some(keeping) = &self.keeping else {
            return;
        };
        for kind in keeping.behind() {
            let stands = for_slot!(self, &kind, slot => slot.stands());
            if stands {
                let _ = self.merge(&kind).and_then(|()| self.save(&kind));
            }
            if keeping.behind().contains(&kind) {
                keeping.forget(&kind);
            }
        }
    }
}
