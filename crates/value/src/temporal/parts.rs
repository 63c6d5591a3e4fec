//! Temporal values as plain numbers: what the codecs store and what orders compare.

use jiff::{
    Timestamp, Zoned, civil,
    tz::{Offset, TimeZone},
};

use crate::{Duration, ValueError, ZonedTime};

pub(crate) const NANOS_PER_SECOND: i64 = 1_000_000_000;
pub(crate) const SECONDS_PER_DAY: i64 = 86_400;
pub(crate) const NANOS_PER_DAY: i64 = SECONDS_PER_DAY * NANOS_PER_SECOND;

/// Seconds in the mean Gregorian month, by which durations are ranked.
const SECONDS_PER_MEAN_MONTH: i128 = 2_629_746;

/// Nanoseconds since midnight.
pub(crate) fn nanos_of_day(time: civil::Time) -> i64 {
    let seconds =
        i64::from(time.hour()) * 3600 + i64::from(time.minute()) * 60 + i64::from(time.second());
    seconds * NANOS_PER_SECOND + i64::from(time.subsec_nanosecond())
}

/// The time this many nanoseconds after midnight, if the day is that long.
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

/// What a zoned time is ordered by: nanoseconds since midnight UTC, which leave the day, then the offset.
pub(crate) fn zoned_time_rank(time: &ZonedTime) -> (i64, i32) {
    let offset = time.offset.seconds();
    (
        nanos_of_day(time.time) - i64::from(offset) * NANOS_PER_SECOND,
        offset,
    )
}

/// What a zoned date-time is ordered by, and stored as: instant, offset and zone name, empty for a fixed offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ZonedParts<'a> {
    pub seconds: i64,
    pub nanos: u32,
    pub offset: i32,
    pub zone: &'a str,
}

pub(crate) fn zoned_parts(value: &Zoned) -> ZonedParts<'_> {
    let total = value.timestamp().as_nanosecond();
    let unit = i128::from(NANOS_PER_SECOND);
    ZonedParts {
        seconds: total.div_euclid(unit) as i64, // an instant of years -9999 to 9999
        nanos: total.rem_euclid(unit) as u32,
        offset: value.offset().seconds(),
        zone: zone_name(value).unwrap_or(""),
    }
}

/// The name of the zone; none where it is a fixed offset, UTC included.
pub(crate) fn zone_name(value: &Zoned) -> Option<&str> {
    let zone = value.time_zone();
    if zone.to_fixed_offset().is_ok() && zone.iana_name().is_none_or(|name| name == "UTC") {
        None
    } else {
        zone.iana_name()
    }
}

/// The zoned date-time of stored parts. A zone that this build does not know any more becomes its offset.
pub(crate) fn zoned_of_parts(parts: ZonedParts<'_>) -> Option<Zoned> {
    let total = i128::from(parts.seconds) * i128::from(NANOS_PER_SECOND) + i128::from(parts.nanos);
    let instant = Timestamp::from_nanosecond(total).ok()?;
    let fixed = Offset::from_seconds(parts.offset).ok()?;
    let zone = match parts.zone {
        "" => TimeZone::fixed(fixed),
        name => TimeZone::get(name).unwrap_or_else(|_| TimeZone::fixed(fixed)),
    };
    Some(instant.to_zoned(zone))
}

/// What durations are ordered by: their mean length in seconds, then nanoseconds, months and days.
pub(crate) fn duration_rank(value: &Duration) -> (i128, i32, i64, i64) {
    let length = i128::from(value.months) * SECONDS_PER_MEAN_MONTH
        + i128::from(value.days) * i128::from(SECONDS_PER_DAY)
        + i128::from(value.seconds);
    (length, value.nanos, value.months, value.days)
}

/// The duration of a rank that [`duration_rank`] gave.
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

/// The zone of this IANA name; a space stands for `_`.
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
