//! Looking for work for a moment before a worker sleeps.
//!
//! A processor that sleeps is slow to wake, a virtual one above all; a client that asks again as soon as it is answered comes back
//! sooner than that. As in the guest halt polling of Linux, how long is looked follows what sleeping would have taken; and
//! nobody looks while others could use the processor.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

/// How long is looked at most.
const MOST: Duration = Duration::from_micros(50);
/// How long is looked at first.
const LEAST: Duration = Duration::from_micros(10);
/// A sleep that is no longer would have been spared by looking: it takes that long to wake.
const SPARED: Duration = Duration::from_micros(100);
/// Somebody else had the processor if one look took so long.
const OTHERS: Duration = Duration::from_micros(15);
/// How often a worker sleeps without looking after a look that did not pay, at most.
const MOST_RESTS: u32 = 4_096;

/// How many workers look.
static LOOKING: AtomicUsize = AtomicUsize::new(0);

/// A place among those who look, given back when it is dropped.
struct Place;

impl Place {
    fn take(places: usize) -> Option<Self> {
        let place = Self;
        (LOOKING.fetch_add(1, Ordering::Relaxed) < places).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        LOOKING.fetch_sub(1, Ordering::Relaxed);
    }
}

pub(super) struct Polling {
    /// How long is looked.
    window: Duration,
    /// How often nothing is looked for.
    rest: u32,
    /// How often that will be after the next look that does not pay: more by four where one found nothing, which costs its window; twice
    /// as many where others took the processor meanwhile, which costs milliseconds; half as many where one paid.
    next_rest: u32,
    /// How many workers may look at once: each has a client somewhere, here perhaps.
    places: usize,
}

impl Polling {
    pub(super) fn new() -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Self {
            window: Duration::ZERO,
            rest: 0,
            next_rest: 1,
            places: processors / 2,
        }
    }

    /// Looks until something is found, or it does not pay any longer; whether it was found.
    pub(super) fn look(&mut self, mut found: impl FnMut() -> bool) -> bool {
        if self.rest > 0 {
            self.rest -= 1;
            return false;
        }
        if self.window.is_zero() {
            return false;
        }
        let Some(_place) = Place::take(self.places) else {
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
                // It paid: whoever was disturbed by many forgets it within a few requests of one that is alone.
                self.next_rest = 1.max(self.next_rest / 2);
                return true;
            }
            let now = Instant::now();
            if now - last > OTHERS {
                self.rest(16.max(self.next_rest * 2));
                return false;
            }
            last = now;
        }
        self.rest(self.next_rest + 4);
        false
    }

    fn rest(&mut self, next_rest: u32) {
        self.rest = self.next_rest;
        self.next_rest = next_rest.min(MOST_RESTS);
    }

    /// Learns from a sleep that work ended.
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

    /// It has slept for so short a time that it looks.
    fn looking() -> Polling {
        let mut polling = Polling::new();
        polling.places = usize::MAX;
        polling.slept(Duration::from_micros(40));
        polling
    }

    fn not_looked_for() -> bool {
        panic!("nothing is looked for")
    }

    #[test]
    fn looking_begins_with_short_sleeps_and_ends_with_a_long_one() {
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
    fn whoever_found_nothing_looks_less_often_and_whoever_finds_more_often() {
        let mut polling = looking();
        assert!(!polling.look(|| false));
        let after_one = polling.next_rest;
        while polling.rest > 0 {
            assert!(!polling.look(not_looked_for));
        }
        assert!(!polling.look(|| false));
        let after_two = polling.next_rest;
        assert!(1 < after_one && after_one < after_two);
        polling.rest = 0;
        assert!(polling.look(|| true), "at once");
        assert_eq!(
            polling.next_rest, after_two,
            "what was there already is not due to the looking"
        );
        polling.window = Duration::from_secs(60);
        let found_later = || {
            let mut asked = 0;
            move || {
                asked += 1;
                asked > 1
            }
        };
        while polling.next_rest > 1 {
            let before = polling.next_rest;
            assert!(polling.look(found_later()));
            assert_eq!(polling.next_rest, before / 2);
        }
    }

    #[test]
    fn whoever_has_no_processor_to_spare_does_not_look() {
        let mut polling = looking();
        polling.places = 0;
        assert!(!polling.look(not_looked_for));
        polling.places = usize::MAX;
        let others = || {
            thread::sleep(2 * OTHERS);
            false
        };
        assert!(!polling.look(others));
        assert!(polling.next_rest >= 16, "others had the processor");
        assert!(!polling.look(not_looked_for));
    }
}
