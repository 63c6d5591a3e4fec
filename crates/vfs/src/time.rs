//! The clock that work is paced by.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// A clock that never goes back, and that can be waited for.
pub trait Time: Send + Sync + fmt::Debug {
    /// Time since some beginning.
    fn now(&self) -> Duration;
    /// Waits.
    fn sleep(&self, time: Duration);
}

/// The machine's.
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

/// One that stands still but for who sleeps: who waits is there at once. Clones share it. Beside a [`crate::SimDisk`] it makes
/// whatever depends on time the same in each run.
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
