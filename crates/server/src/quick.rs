//! Reads that are over in microseconds, done where their request was parsed.
//!
//! Handing a read of one record to a thread that may wait, and its answer back, costs more than the read. So it stays where it is while
//! such reads are quick. Of the threads that serve all connections one is left to others: a read that finds no place looks again after
//! others had their turn, which takes as long as such a read does. Only where the one that has the place has just begun a second one
//! may join it, and none took long lately: on processors with more threads than they run, who has the place may have to wait for one, and so
//! would all others.
//!
//! One that had to wait, for a disk or a large record, sends those that follow to threads that may wait. What counts is that the thread
//! waited or worked, and not that it was kept from its processor: the clock alone would send most of them away on a busy machine. To ask
//! for that costs a call of the kernel, so it is asked for only once a read has taken long by the clock.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// A read that takes longer may have waited for something.
const QUICK: Duration = Duration::from_micros(500);
/// Reads that are looked at more closely after one that took longer.
const WATCHED: u32 = 64;
/// Reads that go to other threads after one that waited.
const AWAY: u32 = 256;
/// For so long after one began, another one may join it on the last thread.
const YOUNG: Duration = Duration::from_micros(100);

/// Whether reads have waited lately, and how many are under way.
#[derive(Debug)]
pub struct Waits {
    away: AtomicU32,
    watched: AtomicU32,
    staying: AtomicU32,
    /// When the first of those that stay began, in nanoseconds since `start`.
    since: AtomicU64,
    start: Instant,
    /// The threads that serve connections.
    threads: u32,
}

/// The right of one read to stay where it is; given back when it is dropped.
#[derive(Debug)]
pub struct Stay<'a>(&'a Waits);

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        self.0.staying.fetch_sub(1, Ordering::Release);
    }
}

/// For how long this thread has been kept from a processor while it had something to do, where the system tells (Linux does: the second
/// number of `schedstat`, in nanoseconds).
fn kept_waiting() -> Option<Duration> {
    thread_local! {
        static TOLD: Option<File> = File::open("/proc/thread-self/schedstat").ok();
    }
    TOLD.with(|told| {
        let mut text = [0; 64];
        let count = told.as_ref()?.read_at(&mut text, 0).ok()?;
        let mut numbers = std::str::from_utf8(&text[..count]).ok()?.split(' ');
        numbers.nth(1)?.parse().ok().map(Duration::from_nanos)
    })
}

/// Whether a read was no quick one, apart from what its thread was kept from a processor. Who cannot know takes it for slow.
fn is_slow(took: Duration, before: Option<Duration>, after: Option<Duration>) -> bool {
    let kept = before.zip(after);
    let kept = kept.map_or(Duration::ZERO, |(before, after)| {
        after.saturating_sub(before)
    });
    took.saturating_sub(kept) > QUICK
}

/// Takes one from a counter; false where there is none.
fn take_one(counter: &AtomicU32) -> bool {
    let fewer = |count: u32| count.checked_sub(1);
    counter.load(Ordering::Relaxed) > 0
        && counter
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer)
            .is_ok()
}

impl Waits {
    /// For connections that are served by so many threads: with one alone no read ever stays.
    pub fn new(threads: usize) -> Self {
        Self {
            away: AtomicU32::new(0),
            watched: AtomicU32::new(0),
            staying: AtomicU32::new(0),
            since: AtomicU64::new(0),
            start: Instant::now(),
            threads: u32::try_from(threads).unwrap_or(u32::MAX),
        }
    }

    /// Whether the next read may stay where it is.
    pub fn may_stay(&self) -> Option<Stay<'_>> {
        self.may_stay_at(self.start.elapsed())
    }

    fn may_stay_at(&self, now: Duration) -> Option<Stay<'_>> {
        if take_one(&self.away) || self.threads < 2 {
            return None;
        }
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let before = self.staying.fetch_add(1, Ordering::Acquire);
        let stay = Stay(self);
        if before == 0 {
            self.since.store(now, Ordering::Relaxed);
            return Some(stay);
        }
        let is_free = before + 1 < self.threads;
        let has_begun = now.saturating_sub(self.since.load(Ordering::Relaxed));
        let is_young = before < self.threads && u128::from(has_begun) < YOUNG.as_nanos();
        // Where one took long lately, for whatever reason, the last thread is left to others.
        let is_young = is_young && self.watched.load(Ordering::Relaxed) == 0;
        (is_free || is_young).then_some(stay)
    }

    /// Whether it pays for a read that may not stay to ask again in a moment: others stay, and such reads are quick.
    pub fn may_stay_soon(&self) -> bool {
        self.threads >= 2 && self.away.load(Ordering::Relaxed) == 0
    }

    /// Does a read, wherever it is done, and notes whether it was quick.
    pub fn timed<T>(&self, work: impl FnOnce() -> T) -> T {
        let is_watched = self.away.load(Ordering::Relaxed) > 0 || take_one(&self.watched);
        // What it is kept from its processor counts only within the time that it takes.
        let began = Instant::now();
        let before = is_watched.then(kept_waiting);
        let outcome = work();
        if began.elapsed() > QUICK {
            self.note(before.map(|before| {
                let after = kept_waiting();
                is_slow(began.elapsed(), before, after)
            }));
        }
        outcome
    }

    /// A read took long by the clock; where it was looked at more closely, whether it was slow.
    fn note(&self, slow: Option<bool>) {
        match slow {
            None => self.watched.store(WATCHED, Ordering::Relaxed),
            Some(true) => {
                self.watched.store(WATCHED, Ordering::Relaxed);
                self.away.store(AWAY, Ordering::Relaxed);
            }
            Some(false) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_that_waited_sends_those_that_follow_away_until_they_are_quick_again() {
        let waits = Waits::new(2);
        // The first that takes long is a reason to look more closely, and one that was kept from its processor is none.
        waits.note(None);
        assert!(waits.may_stay().is_some() && waits.watched.load(Ordering::Relaxed) == WATCHED);
        waits.note(Some(false));
        assert!(waits.may_stay().is_some());
        waits.note(Some(true));
        for _ in 0..AWAY - 1 {
            assert!(waits.may_stay().is_none() && !waits.may_stay_soon());
        }
        // Still slow, though done elsewhere: it goes on.
        waits.note(Some(true));
        for _ in 0..AWAY {
            assert!(waits.may_stay().is_none());
        }
        assert!(waits.may_stay().is_some());
        assert!(waits.may_stay().is_some());
    }

    #[test]
    fn to_be_kept_from_a_processor_is_no_reason() {
        let long = Duration::from_millis(4);
        let at = |ms| Some(Duration::from_millis(ms));
        assert!(!is_slow(long, at(70), at(74)));
        assert!(!is_slow(long, at(70), at(75)), "two clocks");
        assert!(is_slow(long, at(70), at(72)));
        assert!(is_slow(long, None, at(72)) && is_slow(long, at(70), None));
        assert!(!is_slow(Duration::from_micros(20), None, None));
    }

    /// A read that sleeps twice is slow, whatever the processor does.
    #[test]
    fn who_waits_is_noticed() {
        let waits = Waits::new(2);
        for _ in 0..2 {
            waits.timed(|| std::thread::sleep(QUICK * 4));
        }
        assert!(waits.may_stay().is_none());
    }

    #[test]
    fn one_thread_is_left_to_others_unless_all_have_just_begun() {
        let at = Duration::from_millis;
        let waits = Waits::new(3);
        let first = waits.may_stay_at(at(1));
        let second = waits.may_stay_at(at(900));
        assert!(first.is_some() && second.is_some());
        assert!(waits.may_stay_at(at(901)).is_none() && waits.may_stay_soon());
        drop(first);
        let third = waits.may_stay_at(at(902));
        assert!(third.is_some());
        drop((second, third));
        let young: Vec<_> = (0..3).map(|_| waits.may_stay_at(at(903))).collect();
        assert!(young.iter().all(Option::is_some));
        assert!(waits.may_stay_at(at(903)).is_none(), "no more than threads");
        drop(young);
        assert!(waits.may_stay_at(at(904)).is_some());
        assert_eq!(waits.staying.load(Ordering::Relaxed), 0);
        let alone = Waits::new(1);
        assert!(alone.may_stay_at(at(1)).is_none() && !alone.may_stay_soon());
    }
}
