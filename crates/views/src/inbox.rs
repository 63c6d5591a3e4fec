//! The queue of commits that are not yet applied to the views.
//!
//! A committing thread enqueues its changes and continues. They are applied by the first reader of a version
//! that has them, by the worker if no reader comes, or by the committing thread if the queue is full:
//! applying a batch costs less than applying each commit separately, and mostly happens on a thread that no
//! client waits for. Readers cannot observe the delay, because they apply the queue before they read.

use std::sync::atomic::{AtomicU64, Ordering};

use isomer_data::Version;
use parking_lot::{Mutex, MutexGuard};

/// Maximum bytes in the queue; a commit beyond it is applied by its own thread. Together with the batch being
/// applied and the capacity that both buffers keep, up to 2 MiB are held.
const MAX_QUEUE_BYTES: usize = 1 << 19;
/// The worker is woken once per this many commits.
const WAKE_COMMITS: usize = 64;

/// Commits that were enqueued and not yet applied.
#[derive(Debug)]
pub(crate) struct Inbox {
    waiting: Mutex<Waiting>,
    /// The lowest enqueued version that is not yet applied; `Version::MAX` if there is none.
    first: AtomicU64,
}

/// The content of the inbox.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    pub(crate) commits: Commits,
    /// The newest enqueued version that changed anything and was not abandoned.
    pub(crate) newest: Version,
    /// Whether commits are collected: while no view exists, none needs them.
    pub(crate) open: bool,
}

/// Changes of commits, concatenated.
#[derive(Debug, Default)]
pub(crate) struct Commits {
    /// Versions, ascending, with the end offset of their changes.
    ends: Vec<(Version, usize)>,
    bytes: Vec<u8>,
}

/// What the committing thread must do after enqueueing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AfterPut {
    Nothing,
    /// Wake the worker.
    WakeWorker,
    /// The queue is full: the commit was not enqueued and must be applied now.
    ApplyNow,
}

impl Default for Inbox {
    fn default() -> Self {
        Self {
            waiting: Mutex::default(),
            first: AtomicU64::new(Version::MAX),
        }
    }
}

impl Inbox {
    /// Enqueues a commit, before it becomes visible.
    pub(crate) fn put(&self, version: Version, changes: &[u8]) -> AfterPut {
        let mut waiting = self.waiting.lock();
        if !waiting.open {
            waiting.newest = version;
            return AfterPut::Nothing;
        }
        let more = changes.len() + size_of::<(Version, usize)>();
        if waiting.commits.held_bytes() + more >= MAX_QUEUE_BYTES {
            return AfterPut::ApplyNow;
        }
        waiting.newest = version;
        let commits = &mut waiting.commits;
        commits.bytes.extend_from_slice(changes);
        commits.ends.push((version, commits.bytes.len()));
        self.first.fetch_min(version, Ordering::AcqRel);
        match commits.ends.len() % WAKE_COMMITS {
            0 => AfterPut::WakeWorker,
            _ => AfterPut::Nothing,
        }
    }

    /// Records that a commit that was not enqueued is applied now: the caller holds the feed, and the commit
    /// is not visible yet.
    pub(crate) fn applied_at_once(&self, version: Version) {
        self.waiting.lock().newest = version;
    }

    /// Whether a commit that a reader of `version` must see is not yet applied.
    #[inline]
    pub(crate) fn lacks(&self, version: Version) -> bool {
        self.first.load(Ordering::Acquire) <= version
    }

    /// Takes all enqueued commits; returns the newest enqueued version. They count as lacking until
    /// [`Inbox::mark_applied`].
    pub(crate) fn take(&self, into: &mut Commits) -> Version {
        let mut waiting = self.waiting.lock();
        std::mem::swap(&mut waiting.commits, into);
        waiting.newest
    }

    /// The commits taken last were applied.
    pub(crate) fn mark_applied(&self) {
        let waiting = self.waiting.lock();
        let first = waiting.commits.ends.first();
        let first = first.map_or(Version::MAX, |(version, _)| *version);
        self.first.store(first, Ordering::Release);
    }

    /// The commits from version `from` on were rolled back, or their outcome is unknown.
    pub(crate) fn abandon(&self, from: Version) {
        let mut waiting = self.waiting.lock();
        let left = waiting
            .commits
            .ends
            .partition_point(|(version, _)| *version < from);
        let commits = &mut waiting.commits;
        let bytes = left.checked_sub(1).map_or(0, |last| commits.ends[last].1);
        commits.ends.truncate(left);
        commits.bytes.truncate(bytes);
        waiting.newest = waiting.newest.min(from.saturating_sub(1));
    }

    /// The newest enqueued version.
    pub(crate) fn newest(&self) -> Version {
        self.waiting.lock().newest
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock()
    }
}

impl Commits {
    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    fn held_bytes(&self) -> usize {
        self.bytes.len() + self.ends.len() * size_of::<(Version, usize)>()
    }

    /// Versions and changes, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Version, &[u8])> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(_, end)| *end));
        let parts = starts.zip(&self.ends);
        parts.map(|(start, (version, end))| (*version, &self.bytes[start..*end]))
    }

    /// Removes all commits.
    pub(crate) fn clear(&mut self) {
        self.ends.clear();
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(commits: &Commits) -> Vec<(Version, Vec<u8>)> {
        commits
            .iter()
            .map(|(version, bytes)| (version, bytes.to_vec()))
            .collect()
    }

    #[test]
    fn an_enqueued_commit_is_lacking_until_it_is_applied() {
        let inbox = Inbox::default();
        assert_eq!(inbox.put(3, b"x"), AfterPut::Nothing);
        assert!(!inbox.lacks(9) && inbox.newest() == 3);
        inbox.lock().open = true;
        for (version, changes) in [(5, &b"ab"[..]), (6, b"c"), (8, b"def")] {
            assert_eq!(inbox.put(version, changes), AfterPut::Nothing);
        }
        assert!(!inbox.lacks(4) && inbox.lacks(5) && inbox.lacks(9));
        let mut taken = Commits::default();
        assert_eq!(inbox.take(&mut taken), 8);
        assert_eq!(
            all(&taken),
            [
                (5, b"ab".to_vec()),
                (6, b"c".to_vec()),
                (8, b"def".to_vec())
            ]
        );
        assert!(inbox.lacks(5), "it is not applied yet");
        inbox.put(10, b"g");
        inbox.mark_applied();
        assert!(!inbox.lacks(9) && inbox.lacks(10));
        inbox.put(11, b"hi");
        inbox.abandon(11);
        assert_eq!(inbox.newest(), 10);
        taken.clear();
        inbox.take(&mut taken);
        assert_eq!(all(&taken), [(10, b"g".to_vec())]);
        inbox.abandon(4);
        inbox.mark_applied();
        assert!(!inbox.lacks(Version::MAX - 1) && inbox.newest() == 3);
    }

    #[test]
    fn large_commits_are_applied_by_their_thread_and_many_small_ones_wake_the_worker() {
        let inbox = Inbox::default();
        inbox.lock().open = true;
        let wakes = (1..=3 * WAKE_COMMITS as u64)
            .filter(|version| inbox.put(*version, b"x") == AfterPut::WakeWorker);
        assert_eq!(wakes.count(), 3);
        let waiting = inbox.lock().commits.held_bytes();
        assert_eq!(
            inbox.put(1000, &vec![0; MAX_QUEUE_BYTES - waiting]),
            AfterPut::ApplyNow
        );
        // It stays in the caller's buffer, and the caller applies it.
        assert_eq!(inbox.lock().commits.held_bytes(), waiting);
        assert_eq!(inbox.newest(), 3 * WAKE_COMMITS as u64);
        inbox.applied_at_once(1000);
        assert_eq!(inbox.newest(), 1000);
        // Many small commits do not exceed the limit either.
        let taken =
            (1001..100_000).take_while(|version| inbox.put(*version, b"x") != AfterPut::ApplyNow);
        assert!(taken.count() > 1000);
        let waiting = inbox.lock();
        assert!(waiting.commits.held_bytes() < MAX_QUEUE_BYTES);
        assert!(waiting.commits.bytes.capacity() < 2 * MAX_QUEUE_BYTES);
    }
}
