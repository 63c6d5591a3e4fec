//! How much of a commit's work was in vain because other nodes were faster, and when the node asks them to wait.

use std::time::Duration;

/// So much time of preparing records that lost their position makes a node reserve the next one. Small commits, which
/// are prepared in microseconds, never get there: they get a position by chance.
const MAX_LOST: Duration = Duration::from_millis(2);
/// The length of a reservation, in lengths of the longest preparation; and its least length.
const PREPARATIONS: u32 = 4;
const MIN_RESERVATION: Duration = Duration::from_millis(20);
/// A reservation lasts at most that long.
const MAX_RESERVATION: Duration = Duration::from_secs(60);

/// The attempts of one commit.
#[derive(Debug, Default)]
pub(crate) struct Contention {
    /// When the current attempt began; `None` for the first one, which costs no look at the clock.
    began: Option<Duration>,
    /// How long it took to prepare the records after the first one.
    lost: Duration,
    longest: Duration,
    /// The length of the last reservation.
    reserved_for: Duration,
    /// Whether the node has asked for a reservation, and has not released it.
    is_reserved: bool,
}

impl Contention {
    /// An attempt begins after one that lost its position.
    pub(crate) fn begin_again(&mut self, now: Duration) {
        self.began = Some(now);
    }

    /// The record of this attempt is made.
    pub(crate) fn note_prepared(&mut self, now: impl FnOnce() -> Duration) {
        if let Some(began) = self.began {
            let took = now().saturating_sub(began);
            self.lost += took;
            self.longest = self.longest.max(took);
        }
    }

    /// An attempt has lost its position: how long the next one is to be reserved, if it is. Twice as long as before if
    /// that was not enough.
    pub(crate) fn reservation(&mut self) -> Option<Duration> {
        if self.lost < MAX_LOST {
            return None;
        }
        let least = self.longest.saturating_mul(PREPARATIONS);
        let time = (self.reserved_for * 2).max(least).max(MIN_RESERVATION);
        self.reserved_for = time.min(MAX_RESERVATION);
        self.is_reserved = true;
        Some(self.reserved_for)
    }

    /// Whether there is a reservation to be released; there is none afterwards.
    pub(crate) fn end_reservation(&mut self) -> bool {
        std::mem::replace(&mut self.is_reserved, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_preparations_reserve_and_for_longer_each_time() {
        let at = Duration::from_micros;
        let mut contention = Contention::default();
        contention.note_prepared(|| unreachable!("the first attempt is not measured"));
        assert_eq!(contention.reservation(), None);
        for attempt in 0..199 {
            contention.begin_again(at(1_000 * attempt));
            contention.note_prepared(|| at(1_000 * attempt + 10));
            assert_eq!(contention.reservation(), None, "10 µs each");
        }
        assert!(!contention.end_reservation());
        contention.begin_again(at(0));
        contention.note_prepared(|| at(30_000));
        let first = contention.reservation();
        assert_eq!(first, Some(at(120_000)));
        assert_eq!(contention.reservation(), Some(at(240_000)));
        for _ in 0..100 {
            contention.reservation();
        }
        assert_eq!(contention.reservation(), Some(MAX_RESERVATION));
        assert!(contention.end_reservation() && !contention.end_reservation());
    }
}
