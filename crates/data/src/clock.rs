//! Where the time of day comes from: a test brings its own.

use std::{
    fmt::Debug,
    sync::OnceLock,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

/// A clock, for what expires. It may be set back and forward: that moves when something expires, and nothing else.
pub trait Clock: Debug + Send + Sync {
    /// Milliseconds since 1970 UTC.
    fn now_ms(&self) -> u64;

    /// Milliseconds that have passed since some moment of this process: no setting of the clock moves it.
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
