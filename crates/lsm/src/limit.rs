//! A rate limiter for background writes: a token bucket.
//!
//! A token is a byte. Tokens accrue at the limit's rate, and at most a tenth of a second's worth is saved up.
//! Flushes and compactions take tokens for what they have written and then wait for their debt: a compaction
//! until there is no debt, a flush for its own bytes at most, so that flushes have priority.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use isomer_storage::sync::Mutex;
use isomer_vfs::Time;

/// Tokens that are saved up, as a fraction of a second.
const SAVED: f64 = 0.1;
/// Longest sleep before the condition is checked again.
const STEP: Duration = Duration::from_millis(20);

/// Kind of background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Writers may wait for it.
    Flush,
    /// Writers do not wait for it.
    Compaction,
}

/// A limit of bytes per second.
#[derive(Debug)]
pub struct Limiter {
    bytes_per_second: f64,
    time: Arc<dyn Time>,
    bucket: Mutex<Bucket>,
    stopped: AtomicBool,
}

#[derive(Debug)]
struct Bucket {
    /// Negative: bytes that were written ahead of their time.
    tokens: f64,
    at: Duration,
}

impl Limiter {
    /// A limit, which is at least one byte a second.
    pub fn new(bytes_per_second: u64, time: Arc<dyn Time>) -> Self {
        let at = time.now();
        Self {
            bytes_per_second: bytes_per_second.max(1) as f64,
            time,
            bucket: Mutex::new(Bucket { tokens: 0.0, at }),
            stopped: AtomicBool::new(false),
        }
    }

    /// Ends all waits.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    /// Takes the tokens for written bytes, and waits until more may be written.
    pub fn take(&self, bytes: usize, work: Work) {
        let mut debt = self.change(bytes as f64);
        let mut left = match work {
            Work::Flush => self.seconds(bytes as f64),
            Work::Compaction => Duration::MAX,
        };
        while debt > Duration::ZERO && left > Duration::ZERO {
            if self.stopped.load(Ordering::Acquire) {
                return;
            }
            let step = debt.min(left).min(STEP);
            self.time.sleep(step);
            left = left.saturating_sub(step);
            debt = self.change(0.0);
        }
    }

    fn seconds(&self, bytes: f64) -> Duration {
        Duration::from_secs_f64(bytes.max(0.0) / self.bytes_per_second)
    }

    /// Adds the tokens accrued since the last call, takes some; returns for how long there will be a debt.
    fn change(&self, taken: f64) -> Duration {
        let mut bucket = self.bucket.lock();
        let now = self.time.now();
        let come = now.saturating_sub(bucket.at).as_secs_f64() * self.bytes_per_second;
        bucket.at = now;
        bucket.tokens = (bucket.tokens + come).min(self.bytes_per_second * SAVED) - taken;
        self.seconds(-bucket.tokens)
    }
}

#[cfg(test)]
mod tests {
    use isomer_vfs::SimTime;

    use super::*;

    fn limiter(rate: u64) -> (Limiter, SimTime) {
        let time = SimTime::default();
        (Limiter::new(rate, Arc::new(time.clone())), time)
    }

    fn close(time: &SimTime, seconds: f64) {
        let now = time.now().as_secs_f64();
        assert!((now - seconds).abs() < 0.001, "{now} s, not {seconds} s");
    }

    #[test]
    fn bytes_take_their_time_however_they_are_cut() {
        for pieces in [1, 7, 1000] {
            let (limiter, time) = limiter(1_000_000);
            for _ in 0..pieces {
                limiter.take(5_000_000 / pieces, Work::Compaction);
            }
            close(&time, (5_000_000 / pieces * pieces) as f64 / 1e6);
        }
    }

    #[test]
    fn only_a_tenth_of_a_second_is_saved_up() {
        let (limiter, time) = limiter(1_000_000);
        time.sleep(Duration::from_secs(60));
        limiter.take(100_000, Work::Compaction);
        close(&time, 60.0);
        limiter.take(500_000, Work::Compaction);
        close(&time, 60.5);
    }

    /// A flush waits for its own bytes, a compaction for both.
    #[test]
    fn flushes_have_priority_over_compactions() {
        let (limiter, time) = limiter(1_000_000);
        limiter.change(3_000_000.0);
        limiter.take(1_000_000, Work::Flush);
        close(&time, 1.0);
        limiter.take(0, Work::Compaction);
        close(&time, 4.0);
    }

    #[test]
    fn stopping_ends_waits() {
        let (limiter, time) = limiter(1);
        limiter.stop();
        limiter.take(1 << 30, Work::Compaction);
        close(&time, 0.0);
    }
}
