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

/// The time since the machine started, in which the time of a suspended machine counts: a process that was suspended
/// for long notices it. Linux, macOS and Windows have such a clock; on another system it may stop during a suspension.
/// Moments of different processes of one machine can be compared on Linux and macOS.
#[derive(Clone, Copy, Debug, Default)]
pub struct BootTime;

impl Time for BootTime {
    fn now(&self) -> Duration {
        crate::platform::system::boot_time()
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// A simulated clock that advances only by [`SimTime::advance`], and by sleeping: a sleep returns at once. Clones share
/// it. Together with [`crate::SimDisk`] it makes everything that depends on time deterministic.
#[derive(Clone, Debug, Default)]
pub struct SimTime(Arc<Mutex<Duration>>);

impl SimTime {
    /// Lets `time` pass.
    pub fn advance(&self, time: Duration) {
        *self.0.lock() += time;
    }
}

impl Time for SimTime {
    fn now(&self) -> Duration {
        *self.0.lock()
    }

    fn sleep(&self, time: Duration) {
        self.advance(time);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_the_machine_passes() {
        let before = BootTime.now();
        BootTime.sleep(Duration::from_millis(5));
        assert!(BootTime.now() - before >= Duration::from_millis(5));
    }
}
