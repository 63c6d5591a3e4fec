//! The seek budget: the cost of lookups that search several runs, and the early compactions that it pays for
//! (seek-triggered compaction).
//!
//! A lookup searches one run after another; each run that does not have the key is a *wasted seek*. If there
//! are many reads and few writes, no level becomes full, and every read would waste the same seeks forever. So
//! wasted seeks accumulate a budget in bytes that may be compacted early, about as many bytes as take the same
//! time, as LevelDB counts seeks ("implementation notes", compactions). Early compactions therefore take no
//! more processor time than the wasted seeks that caused them.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering},
};

use crate::sharded::Sharded;

/// Bytes whose compaction takes about as long as a wasted seek: 0.1 us, in memory, at 80 MB/s.
const BYTES_PER_WASTED_SEEK: u64 = 8;
/// Wasted seeks between two checks whether a compaction is paid for: some milliseconds of them.
const CHECK_INTERVAL: u64 = 1 << 16;
/// Starting a scan in a run takes as long as this many wasted seeks.
const SEEKS_PER_SCAN_START: u64 = 4;

/// Wasted seeks since the tables were opened.
#[derive(Default)]
pub(crate) struct SeekBudget {
    /// Counted per thread group. Two threads of one group may lose some counts: it is an estimate.
    wasted: Sharded<AtomicU64>,
    /// Their number when a compaction was last started for them.
    spent: AtomicU64,
    /// Called now and then as they grow.
    callback: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl SeekBudget {
    /// Sets a callback that runs on reading threads, each time that [`CHECK_INTERVAL`] more seeks were wasted.
    /// It must not block.
    pub(crate) fn on_due(&self, callback: impl Fn() + Send + Sync + 'static) {
        // It is set only once.
        let _ = self.callback.set(Box::new(callback));
    }

    /// A lookup searched this many runs in vain.
    #[inline]
    pub(crate) fn add(&self, runs: u32) {
        if runs > 0 {
            self.count(runs.into());
        }
    }

    /// A scan started in this many runs, where one would have been enough.
    pub(crate) fn add_scan(&self, runs: usize) {
        if runs > 1 {
            self.count((runs as u64 - 1) * SEEKS_PER_SCAN_START);
        }
    }

    #[inline]
    fn count(&self, more: u64) {
        let wasted = self.wasted.local();
        let before = wasted.load(Ordering::Relaxed);
        let after = before.wrapping_add(more);
        wasted.store(after, Ordering::Relaxed);
        if before / CHECK_INTERVAL != after / CHECK_INTERVAL {
            self.notify();
        }
    }

    #[cold]
    fn notify(&self) {
        if let Some(callback) = self.callback.get() {
            callback();
        }
    }

    fn total(&self) -> u64 {
        let wasted = self
            .wasted
            .iter()
            .map(|shard| shard.load(Ordering::Relaxed));
        wasted.fold(0, u64::wrapping_add)
    }

    /// Bytes that may be compacted for the seeks wasted since the last compaction that was started for some.
    pub(crate) fn earned_bytes(&self) -> u64 {
        let left = self
            .total()
            .saturating_sub(self.spent.load(Ordering::Relaxed));
        left.saturating_mul(BYTES_PER_WASTED_SEEK)
    }

    /// Resets the budget for a compaction: the next one is paid for by later seeks.
    pub(crate) fn spend(&self) {
        self.spent.store(self.total(), Ordering::Relaxed);
    }
}

impl std::fmt::Debug for SeekBudget {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = self.earned_bytes();
        write!(formatter, "SeekBudget({bytes} bytes)")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, atomic::AtomicUsize};

    use super::*;

    #[test]
    fn wasted_seeks_are_reported_and_spent() {
        let (seek_budget, calls) = (SeekBudget::default(), Arc::new(AtomicUsize::new(0)));
        let callback = calls.clone();
        seek_budget.on_due(move || {
            callback.fetch_add(1, Ordering::Relaxed);
        });
        for _ in 0..2 * CHECK_INTERVAL {
            seek_budget.add(0);
            seek_budget.add_scan(1);
        }
        assert_eq!(
            (seek_budget.earned_bytes(), calls.load(Ordering::Relaxed)),
            (0, 0)
        );
        for _ in 0..CHECK_INTERVAL / 2 {
            seek_budget.add(3);
        }
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        let wasted = 3 * (CHECK_INTERVAL / 2);
        assert_eq!(seek_budget.earned_bytes(), wasted * BYTES_PER_WASTED_SEEK);
        seek_budget.add_scan(3);
        assert_eq!(
            seek_budget.earned_bytes(),
            (wasted + 2 * SEEKS_PER_SCAN_START) * BYTES_PER_WASTED_SEEK
        );
        seek_budget.spend();
        assert_eq!(seek_budget.earned_bytes(), 0);
        seek_budget.add(2);
        assert_eq!(seek_budget.earned_bytes(), 2 * BYTES_PER_WASTED_SEEK);
    }
}
