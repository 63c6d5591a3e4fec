//! Durations.

use super::clock::{NANOS_PER_DAY, NANOS_PER_SECOND};

/// A duration in four parts, none of which is converted to another: a month has no fixed number of days, nor a day of
/// seconds.
///
/// `nanos` is 0 to 999,999,999 and counts forward from `seconds`, even if that is negative: -0.5 s is `seconds: -1,
/// nanos: 500_000_000`.
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
    /// Nanoseconds in the mean Gregorian month: used to convert fractions of a month to days and seconds.
    pub(super) const NANOS_PER_MEAN_MONTH: i128 = 2_629_746 * NANOS_PER_SECOND as i128;

    /// The duration of these parts; nanoseconds of any sign and size are carried into the seconds. None if the seconds
    /// exceed 64 bits.
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

    /// The negated duration; none if a part has no negation in 64 bits.
    pub fn negate(&self) -> Option<Self> {
        let nanos = -self.time_nanos();
        Self::from_wide(-i128::from(self.months), -i128::from(self.days), 0, nanos)
    }

    /// The duration of wide parts: `of_month` is the fraction of a month in nanoseconds, whose whole days are carried.
    pub(super) fn from_wide(months: i128, days: i128, of_month: i128, nanos: i128) -> Option<Self> {
        let per_day = i128::from(NANOS_PER_DAY);
        let unit = i128::from(NANOS_PER_SECOND);
        let nanos = nanos.checked_add(of_month % per_day)?;
        Some(Self {
            months: months.try_into().ok()?,
            days: days.checked_add(of_month / per_day)?.try_into().ok()?,
            seconds: nanos.div_euclid(unit).try_into().ok()?,
            nanos: nanos.rem_euclid(unit) as i32,
        })
    }

    /// The duration of months, days and seconds in billionths. A fraction of a month becomes days and seconds by the
    /// mean month's length, a fraction of a day seconds.
    pub(super) fn from_billionths(months: i128, days: i128, seconds: i128) -> Option<Self> {
        let unit = i128::from(NANOS_PER_SECOND);
        let of_month = months % unit * (Self::NANOS_PER_MEAN_MONTH / unit);
        let of_day = days % unit * (i128::from(NANOS_PER_DAY) / unit);
        Self::from_wide(
            months / unit,
            days / unit,
            of_month,
            seconds.checked_add(of_day)?,
        )
    }
}
