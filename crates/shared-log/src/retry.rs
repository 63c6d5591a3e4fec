//! How long a call is repeated.

use std::time::Duration;

use isomer_vfs::Time;

use crate::LogError;

/// When a call that failed for a passing reason is repeated: after pauses that double, each shortened at random by up
/// to a half so that several nodes do not repeat in step, until the deadline. A call is made at least once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// How long after the first attempt another one may begin. Zero: there is one attempt.
    pub deadline: Duration,
    /// The first pause.
    pub first_pause: Duration,
    /// No pause is longer.
    pub longest_pause: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(10),
            first_pause: Duration::from_millis(10),
            longest_pause: Duration::from_secs(1),
        }
    }
}

impl Retry {
    /// Makes a call that has no effect, or the same one each time, until it succeeds, is refused, or the deadline is
    /// over. `random` gives any numbers.
    ///
    /// # Errors
    /// That of the last attempt.
    pub fn call<T>(
        self,
        time: &dyn Time,
        mut random: impl FnMut() -> u64,
        mut call: impl FnMut() -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        let mut attempts = Attempts::new(self, time.now());
        loop {
            match call() {
                Err(LogError::Unavailable(_)) if attempts.wait(time, random()) => {}
                outcome => return outcome,
            }
        }
    }
}

/// The attempts of one call.
#[derive(Debug)]
pub(crate) struct Attempts {
    retry: Retry,
    until: Duration,
    pause: Duration,
}

impl Attempts {
    /// The first attempt begins at the time `now`.
    pub(crate) fn new(retry: Retry, now: Duration) -> Self {
        Self {
            retry,
            until: now.saturating_add(retry.deadline),
            pause: retry.first_pause,
        }
    }

    /// Waits until the next attempt; returns whether there is one. `random` is any number.
    pub(crate) fn wait(&mut self, time: &dyn Time, random: u64) -> bool {
        let longest = self.pause.min(self.retry.longest_pause);
        self.pause = longest.saturating_mul(2);
        let part = f64::from(random as u32) / f64::from(u32::MAX);
        let pause = longest.mul_f64(1.0 - part / 2.0);
        if self.until.saturating_sub(time.now()) <= pause {
            return false;
        }
        time.sleep(pause);
        true
    }
}

#[cfg(test)]
mod tests {
    use isomer_vfs::SimTime;

    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_end_before_the_deadline() {
        let time = SimTime::default();
        let retry = Retry {
            deadline: Duration::from_millis(1_000),
            first_pause: Duration::from_millis(10),
            longest_pause: Duration::from_millis(200),
        };
        let mut attempts = Attempts::new(retry, time.now());
        let mut pauses = Vec::new();
        loop {
            let before = time.now();
            if !attempts.wait(&time, 0) {
                break;
            }
            pauses.push((time.now() - before).as_millis());
        }
        assert_eq!(pauses, [10, 20, 40, 80, 160, 200, 200, 200]);
        assert!(time.now() < retry.deadline);
    }

    #[test]
    fn pauses_differ_by_chance() {
        let time = SimTime::default();
        let mut attempts = Attempts::new(Retry::default(), time.now());
        assert!(attempts.wait(&time, u64::from(u32::MAX)));
        assert_eq!(time.now(), Duration::from_millis(5));
    }

    #[test]
    fn without_a_deadline_there_is_one_attempt() {
        let time = SimTime::default();
        let retry = Retry {
            deadline: Duration::ZERO,
            ..Retry::default()
        };
        assert!(!Attempts::new(retry, time.now()).wait(&time, 0));
    }
}
