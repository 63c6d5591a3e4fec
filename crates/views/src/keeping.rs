//! The files of views that exist, and the part of the change stream that is retained for each of them.

use std::{
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use isomer_data::{DataStore, EraId, StreamHold, Version};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::{
    status::ViewKind,
    view_file::{DamagedFile, Folder, FolderListing, Head},
};

/// Maximum bytes of change stream retained for a file: above this, and above half the size of the file, the
/// file is rewritten or removed.
const MAX_HELD_BYTES: u64 = 64 << 20;
/// Maximum number of commits that a file may be behind when a database is opened.
const MAX_COMMITS_BEHIND: u64 = 1_000_000;
/// A file that is behind by at most this many commits, or by at most as many as it has entries, is cheaper to
/// read than to rebuild.
pub(crate) const FEW_BEHIND: u64 = 4096;
/// After a merge a file is rewritten if it is behind by more commits than [`FEW_BEHIND`] and than this
/// fraction of the base's entries (or half of [`MAX_COMMITS_BEHIND`]): a merge shares unchanged parts, but a file is
/// written as a whole.
const WRITTEN_SHARE: u64 = 2;
/// ... or by more bytes of change stream than this, and than the size of the file.
const WRITTEN_BYTES: u64 = 16 << 20;
/// Files are reviewed once per this many bytes of change stream.
const REVIEW_BYTES: u64 = 8 << 20;

/// The files of views.
pub(crate) struct Keeping {
    pub(crate) folder: Folder,
    readable: Mutex<FxHashMap<ViewKind, ReadableFile>>,
    /// Bytes of change stream since the database was opened.
    streamed_bytes: AtomicU64,
    /// Files that were found damaged.
    damaged: Mutex<Vec<DamagedFile>>,
}

/// A file that can be read.
struct ReadableFile {
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
        let folder = Folder::new(path, store.options());
        let mut readable = FxHashMap::default();
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
                    && now.saturating_sub(head.version) <= MAX_COMMITS_BEHIND;
                if !usable {
                    folder.remove(&head.kind);
                    continue;
                }
                let one = ReadableFile {
                    era: head.era,
                    version: head.version,
                    bytes,
                    streamed_bytes: 0,
                    _hold: hold,
                };
                readable.insert(head.kind, one);
            }
        }
        Self {
            folder,
            readable: Mutex::new(readable),
            streamed_bytes: AtomicU64::new(0),
            damaged: Mutex::new(damaged),
        }
    }

    /// The views that have files.
    pub(crate) fn kinds(&self) -> Vec<ViewKind> {
        self.readable.lock().keys().cloned().collect()
    }

    /// Version and size of a view's file.
    pub(crate) fn file(&self, kind: &ViewKind) -> Option<(Version, u64)> {
        let readable = self.readable.lock();
        readable.get(kind).map(|one| (one.version, one.bytes))
    }

    /// Another process has replaced the file of a view: it is read from now on.
    pub(crate) fn note_replaced(&self, store: &DataStore, head: &Head, bytes: u64) {
        let hold = store.change_stream().hold(head.version);
        self.note_written(head.clone(), bytes, hold);
    }

    /// Counts a commit with this many bytes of changes; returns whether it is time to review the files.
    pub(crate) fn note_streamed(&self, bytes: usize) -> bool {
        let bytes = bytes as u64;
        let before = self.streamed_bytes.fetch_add(bytes, Ordering::Relaxed);
        before / REVIEW_BYTES != (before + bytes) / REVIEW_BYTES
    }

    /// The views whose files retain too much of the change stream.
    pub(crate) fn behind(&self) -> Vec<ViewKind> {
        let readable = self.readable.lock();
        // Under the lock: none of the files is newer than the counter.
        let streamed = self.streamed_bytes.load(Ordering::Relaxed);
        let far = |one: &ReadableFile| {
            streamed.saturating_sub(one.streamed_bytes) > MAX_HELD_BYTES.max(one.bytes / 2)
        };
        let behind = readable.iter().filter(|(_, one)| far(one));
        behind.map(|(kind, _)| kind.clone()).collect()
    }

    /// Whether a base at this version, with this many entries, should be written: there is no file, or it is
    /// far behind.
    pub(crate) fn is_far(&self, kind: &ViewKind, version: Version, len: u64) -> bool {
        let readable = self.readable.lock();
        let streamed = self.streamed_bytes.load(Ordering::Relaxed);
        readable.get(kind).is_none_or(|one| {
            let commits = version.saturating_sub(one.version);
            commits
                > FEW_BEHIND
                    .max(len / WRITTEN_SHARE)
                    .min(MAX_COMMITS_BEHIND / 2)
                || streamed.saturating_sub(one.streamed_bytes) > WRITTEN_BYTES.max(one.bytes)
        })
    }

    /// Removes a view's file.
    pub(crate) fn forget(&self, kind: &ViewKind) {
        self.folder.remove(kind);
        self.readable.lock().remove(kind);
    }

    /// Files found damaged since the database was opened.
    pub(crate) fn damaged(&self) -> Vec<DamagedFile> {
        self.damaged.lock().clone()
    }

    pub(crate) fn note(&self, kind: &ViewKind, reason: String) {
        let name = self.folder.name_of(kind);
        self.damaged.lock().push(DamagedFile { name, reason });
    }

    /// Releases the change stream.
    pub(crate) fn let_go(&self) {
        self.readable.lock().clear();
        self.folder.let_go();
    }

    /// Notes a file that was written, and retains the change stream for it.
    pub(crate) fn note_written(&self, head: Head, bytes: u64, hold: StreamHold) {
        let one = ReadableFile {
            era: head.era,
            version: head.version,
            bytes,
            streamed_bytes: self.streamed_bytes.load(Ordering::Relaxed),
            _hold: hold,
        };
        self.readable.lock().insert(head.kind, one);
    }

    pub(crate) fn head(&self, kind: &ViewKind) -> Option<Head> {
        let readable = self.readable.lock();
        readable.get(kind).map(|one| Head {
            kind: kind.clone(),
            era: one.era,
            version: one.version,
        })
    }
}
