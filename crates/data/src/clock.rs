//! The time of day, as a trait: tests use a clock of their choice.

use std::{
    fmt::Debug,
    sync::OnceLock,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

/// A clock, for expiry. It may be set back and forward: that changes when entries expire, and nothing else.
pub trait Clock: Debug + Send + Sync {
    /// Milliseconds since 1970 UTC.
    fn now_ms(&self) -> u64;

    /// Milliseconds since an arbitrary moment of this process: setting the clock does not change it.
    fn passed_ms(&self) -> u64 {
        static START: OnceLock<Instant> = OnceLock::new();
        let passed = START.get_or_init(Instant::now).elapsed();
        u64::try_from(passed.as_millis()).unwrap_or(u64::MAX)
    }
}

/// The clock of the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
    }
}
