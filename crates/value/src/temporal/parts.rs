//! Temporal values as plain numbers: stored by the codecs and compared by orders.

use jiff::{
    civil,
    tz::{Offset, TimeZone},
};

use crate::{Duration, ValueError, ZonedDateTime, ZonedTime};

pub(crate) const NANOS_PER_SECOND: i64 = 1_000_000_000;
pub(crate) const SECONDS_PER_DAY: i64 = 86_400;
pub(crate) const NANOS_PER_DAY: i64 = SECONDS_PER_DAY * NANOS_PER_SECOND;

/// Seconds in the mean Gregorian month, used for ordering durations.
const SECONDS_PER_MEAN_MONTH: i128 = 2_629_746;

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

/// The sort key of a zoned time: nanoseconds since midnight UTC, which may leave the day, then the offset.
pub(crate) fn zoned_time_rank(time: &ZonedTime) -> (i64, i32) {
    let offset = time.offset.seconds();
    (
        nanos_of_day(time.time) - i64::from(offset) * NANOS_PER_SECOND,
        offset,
    )
}

/// The sort key and stored form of a zoned date-time: instant, offset and zone name, empty for a fixed offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ZonedParts<'a> {
    pub seconds: i64,
    pub nanos: u32,
    pub offset: i32,
    pub zone: &'a str,
}

pub(crate) fn zoned_parts(value: &ZonedDateTime) -> ZonedParts<'_> {
    ZonedParts {
        seconds: value.epoch_seconds(),
        nanos: value.subsec_nanosecond(),
        offset: value.offset().seconds(),
        zone: value.zone_name().unwrap_or(""),
    }
}

/// The zoned date-time of stored parts. A zone that is unknown to this build is replaced by its offset.
pub(crate) fn zoned_of_parts(parts: ZonedParts<'_>) -> Option<ZonedDateTime> {
    let fixed = Offset::from_seconds(parts.offset).ok()?;
    let zone = match parts.zone {
        "" => TimeZone::fixed(fixed),
        name => TimeZone::get(name).unwrap_or_else(|_| TimeZone::fixed(fixed)),
    };
    ZonedDateTime::of_epoch(parts.seconds, parts.nanos, zone).ok()
}

/// The sort key of durations: their mean length in seconds, then nanoseconds, months and days.
pub(crate) fn duration_rank(value: &Duration) -> (i128, i32, i64, i64) {
    let length = i128::from(value.months) * SECONDS_PER_MEAN_MONTH
        + i128::from(value.days) * i128::from(SECONDS_PER_DAY)
        + i128::from(value.seconds);
    (length, value.nanos, value.months, value.days)
}

/// The inverse of [`duration_rank`].
pub(crate) fn duration_of_rank(rank: (i128, i32, i64, i64)) -> Option<Duration> {
    let (length, nanos, months, days) = rank;
    let seconds = length
        .checked_sub(i128::from(months) * SECONDS_PER_MEAN_MONTH)?
        .checked_sub(i128::from(days) * i128::from(SECONDS_PER_DAY))?;
    if !(0..NANOS_PER_SECOND as i32).contains(&nanos) {
        return None;
    }
    Some(Duration {
        months,
        days,
        seconds: i64::try_from(seconds).ok()?,
        nanos,
    })
}

/// The zone with this IANA name; spaces replace `_`.
pub(crate) fn zone_of_name(name: &str) -> Result<TimeZone, ValueError> {
    let unknown = || ValueError::UnknownZone {
        name: name.chars().take(60).collect(),
    };
    // `Etc/Unknown` and POSIX rules would be zones without a name to store.
    let zone = TimeZone::get(&name.replace(' ', "_")).map_err(|_| unknown())?;
    if zone.iana_name().is_some() {
        Ok(zone)
    } else {
        Err(unknown())
    }
}
