//! Amounts of time.

use super::parts::NANOS_PER_SECOND;

/// An amount of time in four parts, none of which becomes another by itself: a month has no fixed number of days,
/// nor a day of seconds.
///
/// `nanos` is 0 to 999,999,999 and counts forward from `seconds`, also where that is negative: -0.5 s is
/// `seconds: -1, nanos: 500_000_000`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Duration {
    /// Months.
    pub months: i64,
    /// Days.
    pub days: i64,
    /// Whole seconds, rounded down.
    pub seconds: i64,
    /// Nanoseconds past `seconds`.
    pub nanos: i32,
}

impl Duration {
    /// The duration of these parts; nanoseconds of any sign and size are carried into the seconds.
    /// Nothing if the seconds leave 64 bits.
    pub fn new(months: i64, days: i64, seconds: i64, nanos: i64) -> Option<Self> {
        let seconds = seconds.checked_add(nanos.div_euclid(NANOS_PER_SECOND))?;
        Some(Self {
            months,
            days,
            seconds,
            nanos: nanos.rem_euclid(NANOS_PER_SECOND) as i32,
        })
    }

    /// Seconds and nanoseconds together, in nanoseconds.
    pub fn time_nanos(&self) -> i128 {
        i128::from(self.seconds) * i128::from(NANOS_PER_SECOND) + i128::from(self.nanos)
    }
}
