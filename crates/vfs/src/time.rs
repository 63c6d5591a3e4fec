//! The clock used for pacing and timeouts.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// A monotonic clock that callers can wait on.
pub trait Time: Send + Sync + fmt::Debug {
    /// Time since an arbitrary origin.
    fn now(&self) -> Duration;
    /// Sleeps.
    fn sleep(&self, time: Duration);
}

/// The system clock.
#[derive(Clone, Copy, Debug)]
pub struct RealTime(Instant);

impl Default for RealTime {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Time for RealTime {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// A simulated clock that advances only by sleeping: a sleep returns at once. Clones share it. Together with
/// [`crate::SimDisk`] it makes everything that depends on time deterministic.
#[derive(Clone, Debug, Default)]
pub struct SimTime(Arc<Mutex<Duration>>);

impl Time for SimTime {
    fn now(&self) -> Duration {
        *self.0.lock()
    }

    fn sleep(&self, time: Duration) {
        *self.0.lock() += time;
    }
}
