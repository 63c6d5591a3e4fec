//! Commits on their way to the views.
//!
//! Who commits hands its changes in and goes on. They are told to the views by whoever first looks at a version that has them,
//! by the worker while nobody does, and by who commits where much waits: many at once are told for less than each by itself,
//! and mostly on a thread that nobody waits for. What a reader sees is the same, as it never looks before they are told.

use std::sync::atomic::{AtomicU64, Ordering};

use isomer_data::Version;
use parking_lot::{Mutex, MutexGuard};

/// So many bytes wait at most: more are told by who has them. With those that are being told, and with what the two buffers
/// keep free, up to 2 MiB are held.
const MOST_BYTES: usize = 1 << 19;
/// The worker is woken once per so many commits.
const WAKE: usize = 64;

/// Commits that were handed in and not told yet.
#[derive(Debug)]
pub(crate) struct Inbox {
    waiting: Mutex<Waiting>,
    /// The lowest version that was not told yet, as far as it is handed in; `Version::MAX` where there is none.
    first: AtomicU64,
}

/// What is in the inbox.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    pub(crate) commits: Commits,
    /// The newest version handed in that changed anything and was not abandoned.
    pub(crate) newest: Version,
    /// Whether anything is kept: nobody is told of anything otherwise.
    pub(crate) open: bool,
}

/// Changes of commits, one behind the other.
#[derive(Debug, Default)]
pub(crate) struct Commits {
    /// Versions, ascending, and where their changes end.
    ends: Vec<(Version, usize)>,
    bytes: Vec<u8>,
}

/// What is to be done by who has handed in a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    Nothing,
    /// There is something for the worker.
    Wake,
    /// Too much would wait: it was not taken, and is told now.
    Tell,
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
    /// Hands a commit in, before anybody can see it.
    pub(crate) fn put(&self, version: Version, changes: &[u8]) -> Then {
        let mut waiting = self.waiting.lock();
        if !waiting.open {
            waiting.newest = version;
            return Then::Nothing;
        }
        let more = changes.len() + size_of::<(Version, usize)>();
        if waiting.commits.held_bytes() + more >= MOST_BYTES {
            return Then::Tell;
        }
        waiting.newest = version;
        let commits = &mut waiting.commits;
        commits.bytes.extend_from_slice(changes);
        commits.ends.push((version, commits.bytes.len()));
        self.first.fetch_min(version, Ordering::AcqRel);
        match commits.ends.len() % WAKE {
            0 => Then::Wake,
            _ => Then::Nothing,
        }
    }

    /// A commit that was not taken is told now: the feed is held, and nobody sees the commit yet.
    pub(crate) fn told_at_once(&self, version: Version) {
        self.waiting.lock().newest = version;
    }

    /// Whether something is not told yet that a reader of `version` must see.
    #[inline]
    pub(crate) fn lacks(&self, version: Version) -> bool {
        self.first.load(Ordering::Acquire) <= version
    }

    /// Takes out what waits; answers the newest version that was handed in. Until [`Inbox::told`] it is still lacking.
    pub(crate) fn take(&self, into: &mut Commits) -> Version {
        let mut waiting = self.waiting.lock();
        std::mem::swap(&mut waiting.commits, into);
        waiting.newest
    }

    /// What was taken out was told.
    pub(crate) fn told(&self) {
        let waiting = self.waiting.lock();
        let first = waiting.commits.ends.first();
        let first = first.map_or(Version::MAX, |(version, _)| *version);
        self.first.store(first, Ordering::Release);
    }

    /// The commits from `from` on did not happen, or nobody knows.
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

    /// The newest version handed in.
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

    /// Forgets them.
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
    fn what_is_handed_in_is_lacking_until_it_is_told() {
        let inbox = Inbox::default();
        assert_eq!(inbox.put(3, b"x"), Then::Nothing);
        assert!(!inbox.lacks(9) && inbox.newest() == 3);
        inbox.lock().open = true;
        for (version, changes) in [(5, &b"ab"[..]), (6, b"c"), (8, b"def")] {
            assert_eq!(inbox.put(version, changes), Then::Nothing);
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
        assert!(inbox.lacks(5), "it is not told yet");
        inbox.put(10, b"g");
        inbox.told();
        assert!(!inbox.lacks(9) && inbox.lacks(10));
        inbox.put(11, b"hi");
        inbox.abandon(11);
        assert_eq!(inbox.newest(), 10);
        taken.clear();
        inbox.take(&mut taken);
        assert_eq!(all(&taken), [(10, b"g".to_vec())]);
        inbox.abandon(4);
        inbox.told();
        assert!(!inbox.lacks(Version::MAX - 1) && inbox.newest() == 3);
    }

    #[test]
    fn much_is_told_by_who_hands_it_in_and_many_wake_the_worker() {
        let inbox = Inbox::default();
        inbox.lock().open = true;
        let wakes = (1..=3 * WAKE as u64).filter(|version| inbox.put(*version, b"x") == Then::Wake);
        assert_eq!(wakes.count(), 3);
        let waiting = inbox.lock().commits.held_bytes();
        assert_eq!(inbox.put(1000, &vec![0; MOST_BYTES - waiting]), Then::Tell);
        // It lies where it lay, and is told by who has it.
        assert_eq!(inbox.lock().commits.held_bytes(), waiting);
        assert_eq!(inbox.newest(), 3 * WAKE as u64);
        inbox.told_at_once(1000);
        assert_eq!(inbox.newest(), 1000);
        // However many small ones there are, no more is held.
        let taken = (1001..100_000).take_while(|version| inbox.put(*version, b"x") != Then::Tell);
        assert!(taken.count() > 1000);
        let waiting = inbox.lock();
        assert!(waiting.commits.held_bytes() < MOST_BYTES);
        assert!(waiting.commits.bytes.capacity() < 2 * MOST_BYTES);
    }
}
