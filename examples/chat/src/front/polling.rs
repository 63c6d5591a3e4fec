//! Adaptive busy polling before a worker sleeps.
//!
//! A sleeping processor is slow to wake, a virtual one in particular; a client that sends its next request
//! immediately is faster than that. As in the guest halt polling of Linux, the polling window adapts to the durations
//! of sleeps; workers do not poll while other threads could use the processor.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Maximum polling window.
const MOST: Duration = Duration::from_micros(50);
/// Initial polling window.
const LEAST: Duration = Duration::from_micros(10);
/// A sleep of at most this duration would have been avoided by polling: waking takes that long.
const SPARED: Duration = Duration::from_micros(100);
/// If one poll takes longer, another thread had the processor.
const OTHERS: Duration = Duration::from_micros(15);
/// Maximum number of sleeps without polling after polling did not pay.
const MOST_SKIPS: u32 = 4_096;

/// Number of polling workers.
static LOOKING: AtomicUsize = AtomicUsize::new(0);

/// A slot of a polling worker, released when dropped.
struct PollingSlot;

impl PollingSlot {
    fn take(slots: usize) -> Option<Self> {
        let slot = Self;
        (LOOKING.fetch_add(1, Ordering::Relaxed) < slots).then_some(slot)
    }
}

impl Drop for PollingSlot {
    fn drop(&mut self) {
        LOOKING.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(super) struct Polling {
    /// Current polling window.
    window: Duration,
    /// Remaining sleeps without polling.
    skips: u32,
    /// How many there will be after polling does not pay again: four more if it found nothing, which costs its
    /// window; twice as many if other threads took the processor, which costs milliseconds; half as many after it
    /// paid.
    next_skips: u32,
    /// How many workers may poll concurrently: each has a client somewhere, possibly on this machine.
    slots: usize,
}

impl Polling {
    pub(super) fn new() -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Self {
            window: Duration::ZERO,
            skips: 0,
            next_skips: 1,
            slots: processors / 2,
        }
    }

    /// Polls until work is found, or it no longer pays; returns whether work was found.
    pub(super) fn look(&mut self, mut found: impl FnMut() -> bool) -> bool {
        if self.skips > 0 {
            self.skips -= 1;
            return false;
        }
        if self.window.is_zero() {
            return false;
        }
        let Some(_slot) = PollingSlot::take(self.slots) else {
            return false;
        };
        if found() {
            return true;
        }
        let began = Instant::now();
        let mut last = began;
        while last - began < self.window {
            thread::yield_now();
            if found() {
                // It paid: halving adapts within a few requests after many clients became one.
                self.next_skips = 1.max(self.next_skips / 2);
                return true;
            }
            let now = Instant::now();
            if now - last > OTHERS {
                self.skips(16.max(self.next_skips * 2));
                return false;
            }
            last = now;
        }
        self.skips(self.next_skips + 4);
        false
    }

    fn skips(&mut self, next_skips: u32) {
        self.skips = self.next_skips;
        self.next_skips = next_skips.min(MOST_SKIPS);
    }

    /// Adapts to a sleep that work ended.
    pub(super) fn slept(&mut self, time: Duration) {
        self.window = match time {
            short if short <= SPARED => (self.window * 2).clamp(LEAST, MOST),
            _ => Duration::ZERO,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A state after a sleep short enough to poll.
    fn looking() -> Polling {
        let mut polling = Polling::new();
        polling.slots = usize::MAX;
        polling.slept(Duration::from_micros(40));
        polling
    }

    fn not_looked_for() -> bool {
        panic!("it does not poll")
    }

    #[test]
    fn polling_begins_with_short_sleeps_and_ends_with_a_long_one() {
        let mut polling = looking();
        for _ in 0..3 {
            polling.slept(Duration::from_micros(40));
        }
        assert_eq!(polling.window, MOST);
        assert!(polling.look(|| true));
        polling.slept(Duration::from_millis(1));
        assert!(!polling.look(not_looked_for));
    }

    #[test]
    fn polling_becomes_rarer_without_and_more_frequent_with_success() {
        let mut polling = looking();
        assert!(!polling.look(|| false));
        let after_one = polling.next_skips;
        while polling.skips > 0 {
            assert!(!polling.look(not_looked_for));
        }
        assert!(!polling.look(|| false));
        let after_two = polling.next_skips;
        assert!(1 < after_one && after_one < after_two);
        polling.skips = 0;
        assert!(polling.look(|| true), "at once");
        assert_eq!(
            polling.next_skips, after_two,
            "work that was already there is not due to polling"
        );
        polling.window = Duration::from_secs(60);
        let found_later = || {
            let mut asked = 0;
            move || {
                asked += 1;
                asked > 1
            }
        };
        while polling.next_skips > 1 {
            let before = polling.next_skips;
            assert!(polling.look(found_later()));
            assert_eq!(polling.next_skips, before / 2);
        }
    }

    #[test]
    fn polling_stops_when_the_processor_is_shared() {
        let mut polling = looking();
        polling.slots = 0;
        assert!(!polling.look(not_looked_for));
        polling.slots = usize::MAX;
        let others = || {
            thread::sleep(2 * OTHERS);
            false
        };
        assert!(!polling.look(others));
        assert!(polling.next_skips >= 16, "other threads had the processor");
        assert!(!polling.look(not_looked_for));
    }
}
