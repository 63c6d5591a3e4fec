//! Units of time, and times of day as nanoseconds since midnight.

use jiff::civil;

pub(crate) const NANOS_PER_SECOND: i64 = 1_000_000_000;
pub(crate) const SECONDS_PER_DAY: i64 = 86_400;
pub(crate) const NANOS_PER_DAY: i64 = SECONDS_PER_DAY * NANOS_PER_SECOND;

/// Nanoseconds since midnight.
pub(crate) fn nanos_of_day(time: civil::Time) -> i64 {
    let seconds =
        i64::from(time.hour()) * 3600 + i64::from(time.minute()) * 60 + i64::from(time.second());
    seconds * NANOS_PER_SECOND + i64::from(time.subsec_nanosecond())
}

/// The time this many nanoseconds after midnight, if it is within the day.
pub(crate) fn time_of_nanos(nanos: i64) -> Option<civil::Time> {
    if !(0..NANOS_PER_DAY).contains(&nanos) {
        return None;
    }
    let seconds = nanos / NANOS_PER_SECOND;
    let part = |value: i64| i8::try_from(value).ok();
    civil::Time::new(
        part(seconds / 3600)?,
        part(seconds / 60 % 60)?,
        part(seconds % 60)?,
        i32::try_from(nanos % NANOS_PER_SECOND).ok()?,
    )
    .ok()
}
