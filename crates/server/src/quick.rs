//! Fast reads, executed on the thread that parsed their request.
//!
//! Passing a read of one record to a blocking thread, and its answer back, costs more than the read. So it is
//! executed inline while such reads are fast. One of the threads that serve connections is reserved: a read that
//! finds no slot yields and tries again, which takes as long as such a read does. The reserved thread may be used
//! only if the read that has the slot began a moment ago, and none took long recently: on a machine with more threads
//! than processors, the thread with the slot may be waiting for one, and so would all others.
//!
//! A read that blocked, on a disk or a large record, sends those that follow to blocking threads. What counts is that
//! the thread waited or worked, not that it was preempted: the clock alone would send most of them away on a busy
//! machine. Finding that out takes a system call, so it is done only after a read has taken long by the clock.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use isomer_vfs::{Disk, DiskFile, OpenMode, RealDisk};

/// A read that takes longer may have blocked.
const SLOW_READ: Duration = Duration::from_micros(500);
/// Reads that are measured precisely after one that took longer.
const MEASURED_READS: u32 = 64;
/// Reads that go to blocking threads after one that blocked.
const BLOCKING_READS: u32 = 256;
/// Time after the beginning of a read in which another one may use the reserved thread.
const SHARED_START: Duration = Duration::from_micros(100);

/// Whether reads have blocked recently, and how many are running.
#[derive(Debug)]
pub struct InlineReads {
    away: AtomicU32,
    watched: AtomicU32,
    staying: AtomicU32,
    /// When the first of the running inline reads began, in nanoseconds since `start`.
    since: AtomicU64,
    start: Instant,
    /// The threads that serve connections.
    threads: u32,
}

/// The slot of one inline read; released when dropped.
#[derive(Debug)]
pub struct InlineSlot<'a>(&'a InlineReads);

impl Drop for InlineSlot<'_> {
    fn drop(&mut self) {
        self.0.staying.fetch_sub(1, Ordering::Release);
    }
}

/// How long this thread has been runnable without a processor, if the system reports it (Linux does: the second
/// number of `schedstat`, in nanoseconds).
fn time_without_processor() -> Option<Duration> {
    thread_local! {
        static SCHEDSTAT: Option<Arc<dyn DiskFile>> = RealDisk
            .open(Path::new("/proc/thread-self/schedstat"), OpenMode::Read)
            .ok();
    }
    SCHEDSTAT.with(|file| {
        let mut text = [0; 64];
        let count = file.as_ref()?.read_at(&mut text, 0).ok()?;
        let mut numbers = std::str::from_utf8(&text[..count]).ok()?.split(' ');
        numbers.nth(1)?.parse().ok().map(Duration::from_nanos)
    })
}

/// Whether a read was slow, not counting the time without a processor. Assumes so if that time is unknown.
fn is_slow(took: Duration, before: Option<Duration>, after: Option<Duration>) -> bool {
    let kept = before.zip(after);
    let kept = kept.map_or(Duration::ZERO, |(before, after)| {
        after.saturating_sub(before)
    });
    took.saturating_sub(kept) > SLOW_READ
}

/// Decrements a counter; false if it is 0.
fn take_one(counter: &AtomicU32) -> bool {
    let fewer = |count: u32| count.checked_sub(1);
    counter.load(Ordering::Relaxed) > 0
        && counter
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer)
            .is_ok()
}

impl InlineReads {
    /// For `threads` threads that serve connections: with one alone no read is inline.
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

    /// A slot for an inline read, if reads are fast and one is free.
    pub fn may_inline(&self) -> Option<InlineSlot<'_>> {
        self.may_inline_at(self.start.elapsed())
    }

    fn may_inline_at(&self, now: Duration) -> Option<InlineSlot<'_>> {
        if take_one(&self.away) || self.threads < 2 {
            return None;
        }
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let before = self.staying.fetch_add(1, Ordering::Acquire);
        let stay = InlineSlot(self);
        // The first one records when it began, and with it how long the reserved thread may be shared.
        if before == 0 {
            self.since.store(now, Ordering::Relaxed);
            return Some(stay);
        }
        let is_free = before + 1 < self.threads;
        let has_begun = now.saturating_sub(self.since.load(Ordering::Relaxed));
        let is_young = before < self.threads && u128::from(has_begun) < SHARED_START.as_nanos();
        // After a recent slow read, for whatever reason, the last thread stays reserved.
        let is_young = is_young && self.watched.load(Ordering::Relaxed) == 0;
        (is_free || is_young).then_some(stay)
    }

    /// Whether a read without a slot should try again in a moment: slots are in use, and such reads are fast.
    pub fn may_inline_soon(&self) -> bool {
        self.threads >= 2 && self.away.load(Ordering::Relaxed) == 0
    }

    /// Runs a read on this thread and records whether it was fast.
    pub fn timed<T>(&self, work: impl FnOnce() -> T) -> T {
        // Reads on blocking threads are measured, too: a slow one keeps the next reads there.
        let is_watched = self.away.load(Ordering::Relaxed) > 0 || take_one(&self.watched);
        // Waiting for a processor counts only within the time that the read takes.
        let began = Instant::now();
        let before = is_watched.then(time_without_processor);
        let outcome = work();
        if began.elapsed() > SLOW_READ {
            self.note(before.map(|before| {
                let after = time_without_processor();
                is_slow(began.elapsed(), before, after)
            }));
        }
        outcome
    }

    /// Records a read that took long by the clock; `slow`: whether it was slow, if it was measured precisely.
    fn note(&self, slow: Option<bool>) {
        match slow {
            None => self.watched.store(MEASURED_READS, Ordering::Relaxed),
            Some(true) => {
                self.watched.store(MEASURED_READS, Ordering::Relaxed);
                self.away.store(BLOCKING_READS, Ordering::Relaxed);
            }
            Some(false) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_that_blocked_sends_the_next_ones_away_until_they_are_fast_again() {
        let waits = InlineReads::new(2);
        // The first that takes long turns on precise measurement; one that was preempted does not count.
        waits.note(None);
        assert!(
            waits.may_inline().is_some() && waits.watched.load(Ordering::Relaxed) == MEASURED_READS
        );
        waits.note(Some(false));
        assert!(waits.may_inline().is_some());
        waits.note(Some(true));
        for _ in 0..BLOCKING_READS - 1 {
            assert!(waits.may_inline().is_none() && !waits.may_inline_soon());
        }
        // Still slow on a blocking thread: the next ones go there, too.
        waits.note(Some(true));
        for _ in 0..BLOCKING_READS {
            assert!(waits.may_inline().is_none());
        }
        assert!(waits.may_inline().is_some());
        assert!(waits.may_inline().is_some());
    }

    #[test]
    fn preemption_does_not_count() {
        let long = Duration::from_millis(4);
        let at = |ms| Some(Duration::from_millis(ms));
        assert!(!is_slow(long, at(70), at(74)));
        assert!(!is_slow(long, at(70), at(75)), "two clocks");
        assert!(is_slow(long, at(70), at(72)));
        assert!(is_slow(long, None, at(72)) && is_slow(long, at(70), None));
        assert!(!is_slow(Duration::from_micros(20), None, None));
    }

    /// A read that sleeps twice is slow, whatever the scheduler does.
    #[test]
    fn a_blocked_thread_is_detected() {
        let waits = InlineReads::new(2);
        for _ in 0..2 {
            waits.timed(|| std::thread::sleep(SLOW_READ * 4));
        }
        assert!(waits.may_inline().is_none());
    }

    #[test]
    fn one_thread_is_reserved_unless_all_reads_have_just_begun() {
        let at = Duration::from_millis;
        let waits = InlineReads::new(3);
        let first = waits.may_inline_at(at(1));
        let second = waits.may_inline_at(at(900));
        assert!(first.is_some() && second.is_some());
        assert!(waits.may_inline_at(at(901)).is_none() && waits.may_inline_soon());
        drop(first);
        let third = waits.may_inline_at(at(902));
        assert!(third.is_some());
        drop((second, third));
        let young: Vec<_> = (0..3).map(|_| waits.may_inline_at(at(903))).collect();
        assert!(young.iter().all(Option::is_some));
        assert!(
            waits.may_inline_at(at(903)).is_none(),
            "no more than threads"
        );
        drop(young);
        assert!(waits.may_inline_at(at(904)).is_some());
        assert_eq!(waits.staying.load(Ordering::Relaxed), 0);
        let alone = InlineReads::new(1);
        assert!(alone.may_inline_at(at(1)).is_none() && !alone.may_inline_soon());
    }
}
