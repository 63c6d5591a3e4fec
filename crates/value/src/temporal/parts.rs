//! Temporal values as plain numbers: stored by the codecs and compared by orders.

use jiff::tz::{Offset, TimeZone};

use super::clock::{NANOS_PER_SECOND, SECONDS_PER_DAY, nanos_of_day};
use crate::{Duration, ValueError, ZonedDateTime, ZonedTime};

/// Seconds in the mean Gregorian month, used for ordering durations.
const SECONDS_PER_MEAN_MONTH: i128 = 2_629_746;

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
