//! What reads lose by looking into many runs, and the merges that this pays for.
//!
//! A reader looks for a key in one run after another. Each run that it passes is a *detour*. Where there are many reads and few
//! writes no level fills, and without this every read would take the same detours for ever. So detours add up to bytes that may be
//! merged early, about as many as take as long, in the way that LevelDB counts seeks ("implementation notes", compactions). Early
//! merges therefore take no more of a processor than the detours that led to them.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

use crate::lanes::Lanes;

/// A detour takes about as long as to merge so many bytes: 0.1 us, in memory, at 80 MB/s.
const BYTES_PER_DETOUR: u64 = 8;
/// Detours between two looks at whether a merge is paid for: some milliseconds of them.
const BETWEEN_LOOKS: u64 = 1 << 16;
/// To begin a scan in a run takes as long as so many detours.
const SEEK: u64 = 4;

/// Detours since the tables were opened.
#[derive(Default)]
pub(crate) struct Detours {
    /// Each thread counts in its lane. Two that meet in one may lose some: it is an estimate.
    taken: Lanes<AtomicU64>,
    /// How many there were when a merge was made for them.
    spent: AtomicU64,
    /// Called now and then when there are more.
    told: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Detours {
    /// Has `told` called, on threads that read, each time that many more were taken. It must not wait.
    pub(crate) fn tell(&self, told: impl Fn() + Send + Sync + 'static) {
        // Nobody else has set it.
        let _ = self.told.set(Box::new(told));
    }

    /// A lookup passed so many runs.
    #[inline]
    pub(crate) fn add(&self, runs: u32) {
        if runs > 0 {
            self.count(runs.into());
        }
    }

    /// A scan began in so many runs, where one would have done.
    pub(crate) fn add_scan(&self, runs: usize) {
        if runs > 1 {
            self.count((runs as u64 - 1) * SEEK);
        }
    }

    #[inline]
    fn count(&self, more: u64) {
        let taken = self.taken.here();
        let before = taken.load(Ordering::Relaxed);
        let after = before.wrapping_add(more);
        taken.store(after, Ordering::Relaxed);
        if before / BETWEEN_LOOKS != after / BETWEEN_LOOKS {
            self.look();
        }
    }

    #[cold]
    fn look(&self) {
        if let Some(told) = self.told.get() {
            told();
        }
    }

    fn all(&self) -> u64 {
        let taken = self.taken.each().map(|lane| lane.load(Ordering::Relaxed));
        taken.fold(0, u64::wrapping_add)
    }

    /// Bytes that may be merged for the detours since the last merge that was made for some.
    pub(crate) fn earned_bytes(&self) -> u64 {
        let left = self
            .all()
            .saturating_sub(self.spent.load(Ordering::Relaxed));
        left.saturating_mul(BYTES_PER_DETOUR)
    }

    /// A merge is made for all of them: the next one is paid for by those that are taken from now on.
    pub(crate) fn spend(&self) {
        self.spent.store(self.all(), Ordering::Relaxed);
    }
}

impl std::fmt::Debug for Detours {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = self.earned_bytes();
        write!(formatter, "Detours({bytes} bytes)")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, atomic::AtomicUsize};

    use super::*;

    #[test]
    fn detours_are_told_of_and_spent() {
        let (detours, calls) = (Detours::default(), Arc::new(AtomicUsize::new(0)));
        let told = calls.clone();
        detours.tell(move || {
            told.fetch_add(1, Ordering::Relaxed);
        });
        for _ in 0..2 * BETWEEN_LOOKS {
            detours.add(0);
            detours.add_scan(1);
        }
        assert_eq!(
            (detours.earned_bytes(), calls.load(Ordering::Relaxed)),
            (0, 0)
        );
        for _ in 0..BETWEEN_LOOKS / 2 {
            detours.add(3);
        }
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        let taken = 3 * (BETWEEN_LOOKS / 2);
        assert_eq!(detours.earned_bytes(), taken * BYTES_PER_DETOUR);
        detours.add_scan(3);
        assert_eq!(
            detours.earned_bytes(),
            (taken + 2 * SEEK) * BYTES_PER_DETOUR
        );
        detours.spend();
        assert_eq!(detours.earned_bytes(), 0);
        detours.add(2);
        assert_eq!(detours.earned_bytes(), 2 * BYTES_PER_DETOUR);
    }
}
