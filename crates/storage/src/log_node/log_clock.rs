//! The time of a shared log, whose processes have clocks that may differ.

use std::{sync::Arc, time::Duration};

use isomer_vfs::Time;

use crate::sync::Mutex;

/// The time of a shared log in milliseconds since 1970, as a process sees it.
///
/// Times in the log never decrease. A process whose clock is far ahead, if only for one commit, thus leaves a time that
/// the clocks of the others have not reached. From there the time of the log advances with a monotonic clock until they
/// have: otherwise all later commits would have one time, and limits of age would find nothing old.
#[derive(Debug, Default)]
pub struct LogClock {
    /// A time of the log that was ahead of the clock, and when it was noticed.
    ahead: Mutex<Option<(u64, Duration)>>,
}

impl LogClock {
    /// The time now: at least `last_ms`, the time of the last record, and `clock_ms`, this process's clock.
    /// `monotonic` is called only while the log is ahead of the clock.
    pub fn now_ms(&self, clock_ms: u64, last_ms: u64, monotonic: impl Fn() -> Duration) -> u64 {
        if clock_ms >= last_ms {
            return clock_ms;
        }
        let mut ahead = self.ahead.lock();
        let now = monotonic();
        let advanced = ahead.map_or(0, |(time_ms, since)| {
            let elapsed = now.saturating_sub(since).as_millis();
            time_ms.saturating_add(u64::try_from(elapsed).unwrap_or(u64::MAX))
        });
        if advanced >= last_ms {
            return advanced;
        }
        *ahead = Some((last_ms, now));
        last_ms
    }
}

/// The time of the log, from this process's clocks.
pub(super) struct LogTime {
    clock: Arc<dyn Fn() -> u64 + Send + Sync>,
    time: Arc<dyn Time>,
    ahead: LogClock,
}

impl LogTime {
    pub(super) fn new(clock: Arc<dyn Fn() -> u64 + Send + Sync>, time: Arc<dyn Time>) -> Self {
        Self {
            clock,
            time,
            ahead: LogClock::default(),
        }
    }

    /// The time now; `last_ms` is that of the last record.
    pub(super) fn now_ms(&self, last_ms: u64) -> u64 {
        let monotonic = || self.time.now();
        self.ahead.now_ms((self.clock)(), last_ms, monotonic)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_while_a_log_is_ahead_of_the_clock() {
        let clock = LogClock::default();
        let at = |seconds: u64, last_ms: u64| {
            clock.now_ms(1_000 * seconds, last_ms, || Duration::from_secs(seconds))
        };
        assert_eq!(at(5, 4_000), 5_000);
        // Another process has written a time that is an hour ahead.
        assert_eq!(at(6, 3_600_000), 3_600_000);
        assert_eq!(at(16, 3_600_000), 3_610_000);
        // Its own record, and one that is further ahead.
        assert_eq!(at(17, 3_610_000), 3_611_000);
        assert_eq!(at(18, 9_000_000), 9_000_000);
        assert_eq!(at(20, 9_000_000), 9_002_000);
        assert_eq!(at(9_100, 9_002_000), 9_100_000);
    }
}
