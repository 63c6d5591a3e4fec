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
/// How often a worker sleeps without looking after others wanted the processor, at first and at most.
const RESTS: (u32, u32) = (16, 4_096);

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
    /// How often that will be when others want the processor next.
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
            next_rest: RESTS.0,
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
        let began = Instant::now();
        let mut last = began;
        while last - began < self.window {
            if found() {
                self.next_rest = RESTS.0;
                return true;
            }
            thread::yield_now();
            let now = Instant::now();
            if now - last > OTHERS {
                self.rest = self.next_rest;
                self.next_rest = RESTS.1.min(self.next_rest * 2);
                return false;
            }
            last = now;
        }
        false
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

    #[test]
    fn looking_begins_with_short_sleeps_and_ends_with_a_long_one() {
        let mut polling = Polling::new();
        polling.places = usize::MAX;
        let mut looks = 0;
        assert!(!polling.look(|| panic!("it has not slept yet")));
        for _ in 0..4 {
            polling.slept(Duration::from_micros(40));
        }
        assert_eq!(polling.window, MOST);
        assert!(polling.look(|| {
            looks += 1;
            true
        }));
        assert_eq!(looks, 1);
        polling.slept(Duration::from_millis(1));
        assert!(!polling.look(|| panic!("nobody asks again so soon")));
    }

    #[test]
    fn whoever_has_no_processor_to_spare_does_not_look() {
        let mut polling = Polling::new();
        polling.places = 0;
        polling.slept(Duration::from_micros(40));
        assert!(!polling.look(|| panic!("there is no place")));
        polling.places = usize::MAX;
        let slow = || {
            thread::sleep(2 * OTHERS);
            false
        };
        assert!(!polling.look(slow));
        assert_eq!(polling.rest, RESTS.0, "others had the processor");
        assert!(!polling.look(|| panic!("it rests")));
    }
}
