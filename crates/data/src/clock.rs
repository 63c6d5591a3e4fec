//! Where the time of day comes from: a test brings its own.

use std::{
    fmt::Debug,
    time::{SystemTime, UNIX_EPOCH},
};

/// A clock, for what expires. It may be set back and forward: that moves when something expires, and nothing else.
pub trait Clock: Debug + Send + Sync {
    /// Milliseconds since 1970 UTC.
    fn now_ms(&self) -> u64;
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
