//! Date-times with a zone.

use jiff::{
    Timestamp, Zoned, civil,
    tz::{AmbiguousOffset, Offset, TimeZone},
};

use super::{
    calendar::{date_of_epoch_day, epoch_day, out_of_range},
    clock::{NANOS_PER_SECOND, SECONDS_PER_DAY, nanos_of_day, time_of_nanos},
};
use crate::ValueError;

/// The local date and time in a zone, with the offset from UTC at that time.
///
/// In every zone the local time ranges from -9999-01-01T00:00 to 9999-12-31T23:59:59.999999999, so that
/// `9999-12-31T23:59:59Z` is a value. `jiff::Zoned` ends 26 hours earlier at either side, because its instants must be
/// representable in every zone. The instant here is the local time minus the offset, in 64 bits of seconds.
#[derive(Clone, Debug)]
pub struct ZonedDateTime {
    local: civil::DateTime,
    offset: Offset,
    zone: TimeZone,
}

impl ZonedDateTime {
    /// The local time `local` in `zone`. A time in a gap moves forward by the length of the gap; of a time that occurs
    /// twice, the first is used.
    ///
    /// # Errors
    /// `OutOfRange` if moving forward leaves the year 9999.
    pub fn of_local(local: civil::DateTime, zone: TimeZone) -> Result<Self, ValueError> {
        match zone.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { offset }
            | AmbiguousOffset::Fold { before: offset, .. } => Ok(Self {
                local,
                offset,
                zone,
            }),
            AmbiguousOffset::Gap { before, .. } => {
                let seconds = seconds_since_1970(local) - i64::from(before.seconds());
                Self::of_epoch(seconds, local.subsec_nanosecond().unsigned_abs(), zone)
            }
        }
    }

    /// Like [`ZonedDateTime::of_local`], but of a time that occurs twice, the one with this offset is used.
    ///
    /// # Errors
    /// Like [`ZonedDateTime::of_local`].
    pub fn of_local_with_offset(
        local: civil::DateTime,
        offset: Offset,
        zone: TimeZone,
    ) -> Result<Self, ValueError> {
        if offsets_at(&zone, local).contains(&Some(offset)) {
            Ok(Self {
                local,
                offset,
                zone,
            })
        } else {
            Self::of_local(local, zone)
        }
    }

    /// The local time `local` with a fixed offset from UTC.
    pub fn of_offset(local: civil::DateTime, offset: Offset) -> Self {
        Self {
            local,
            offset,
            zone: TimeZone::fixed(offset),
        }
    }

    /// The instant `seconds` and `nanos` after (or before) the start of 1970 in UTC, in `zone`.
    ///
    /// # Errors
    /// `OutOfRange` if the local time is not within the years -9999 to 9999, or `nanos` are a second or more.
    pub fn of_epoch(seconds: i64, nanos: u32, zone: TimeZone) -> Result<Self, ValueError> {
        let offset = offset_at(&zone, seconds);
        let local = || {
            let local = seconds.checked_add(offset.seconds().into())?;
            let of_day = local.rem_euclid(SECONDS_PER_DAY) * NANOS_PER_SECOND + i64::from(nanos);
            let date = date_of_epoch_day(local.div_euclid(SECONDS_PER_DAY)).ok()?;
            let nanos = i64::from(nanos) < NANOS_PER_SECOND;
            Some(date.to_datetime(time_of_nanos(of_day).filter(|_| nanos)?))
        };
        let local = local().ok_or_else(|| {
            let value = format!("{seconds} seconds after 1970 at the offset {offset}");
            out_of_range("the date-time", value)
        })?;
        Ok(Self {
            local,
            offset,
            zone,
        })
    }

    /// Like [`ZonedDateTime::of_epoch`], in nanoseconds.
    ///
    /// # Errors
    /// Like [`ZonedDateTime::of_epoch`].
    pub fn of_epoch_nanos(nanos: i128, zone: TimeZone) -> Result<Self, ValueError> {
        let unit = i128::from(NANOS_PER_SECOND);
        let seconds = i64::try_from(nanos.div_euclid(unit)).map_err(|_| {
            out_of_range("the date-time", format!("{nanos} nanoseconds after 1970"))
        })?;
        Self::of_epoch(seconds, nanos.rem_euclid(unit) as u32, zone)
    }

    /// The same instant in another zone.
    ///
    /// # Errors
    /// `OutOfRange` if the local time there is not within the years -9999 to 9999.
    pub fn with_time_zone(&self, zone: TimeZone) -> Result<Self, ValueError> {
        Self::of_epoch(self.epoch_seconds(), self.subsec_nanosecond(), zone)
    }

    /// Whole seconds since the start of 1970 in UTC, rounded down: [`ZonedDateTime::subsec_nanosecond`] is the rest.
    pub fn epoch_seconds(&self) -> i64 {
        seconds_since_1970(self.local) - i64::from(self.offset.seconds())
    }

    /// Nanoseconds since the start of 1970 in UTC.
    pub fn epoch_nanos(&self) -> i128 {
        i128::from(self.epoch_seconds()) * i128::from(NANOS_PER_SECOND)
            + i128::from(self.subsec_nanosecond())
    }

    /// Nanoseconds within the second, 0 to 999,999,999.
    pub fn subsec_nanosecond(&self) -> u32 {
        self.local.subsec_nanosecond().unsigned_abs()
    }

    /// The local date and time.
    pub fn datetime(&self) -> civil::DateTime {
        self.local
    }

    /// The local date.
    pub fn date(&self) -> civil::Date {
        self.local.date()
    }

    /// The local time of day.
    pub fn time(&self) -> civil::Time {
        self.local.time()
    }

    /// The offset from UTC.
    pub fn offset(&self) -> Offset {
        self.offset
    }

    /// The zone.
    pub fn time_zone(&self) -> &TimeZone {
        &self.zone
    }

    /// The name of the zone; none for a fixed offset, including UTC.
    pub fn zone_name(&self) -> Option<&str> {
        let name = self.zone.iana_name()?;
        (name != "UTC" || self.zone.to_fixed_offset().is_err()).then_some(name)
    }

    /// The same as a value of the date library; none within 26 hours of either end, where the library has no values.
    pub fn to_jiff(&self) -> Option<Zoned> {
        let instant = Timestamp::from_nanosecond(self.epoch_nanos()).ok()?;
        Some(instant.to_zoned(self.zone.clone()))
    }
}

/// Same instant, same zone.
impl PartialEq for ZonedDateTime {
    fn eq(&self, other: &Self) -> bool {
        self.local == other.local && self.offset == other.offset && self.zone == other.zone
    }
}

impl Eq for ZonedDateTime {}

impl From<Zoned> for ZonedDateTime {
    fn from(zoned: Zoned) -> Self {
        Self {
            local: zoned.datetime(),
            offset: zoned.offset(),
            zone: zoned.time_zone().clone(),
        }
    }
}

/// The possible offsets of `zone` at `local`: none in a gap, two if the time occurs twice.
pub(super) fn offsets_at(zone: &TimeZone, local: civil::DateTime) -> [Option<Offset>; 2] {
    match zone.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { offset } => [Some(offset), None],
        AmbiguousOffset::Fold { before, after } => [Some(before), Some(after)],
        AmbiguousOffset::Gap { .. } => [None, None],
    }
}

/// The offset of `zone` at an instant. Beyond the library's instants no zone changes any more.
fn offset_at(zone: &TimeZone, seconds: i64) -> Offset {
    let instant = Timestamp::from_second(seconds).unwrap_or(if seconds < 0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    });
    zone.to_offset(instant)
}

/// Whole seconds of the local time since 1970, rounded down.
fn seconds_since_1970(local: civil::DateTime) -> i64 {
    epoch_day(local.date()) * SECONDS_PER_DAY + nanos_of_day(local.time()) / NANOS_PER_SECOND
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both ends in every zone of the database: local to instant and back, and the offset of the last representable
    /// instant.
    #[test]
    fn both_ends_are_sayable_in_every_zone() {
        let ends = [civil::DateTime::MIN, civil::DateTime::MAX];
        let mut count = 0;
        for name in jiff::tz::db().available() {
            let Ok(zone) = TimeZone::get(name.as_str()) else {
                continue;
            };
            for local in ends {
                let zoned = ZonedDateTime::of_local(local, zone.clone()).unwrap();
                assert_eq!(zoned.datetime(), local, "{name}");
                let back = ZonedDateTime::of_epoch_nanos(zoned.epoch_nanos(), zone.clone());
                assert_eq!(back, Ok(zoned), "{name}");
                count += 1;
            }
        }
        assert!(count > 500, "{count} zones");
        for hours in [-18, -12, 0, 14, 18] {
            for local in ends {
                let zoned = ZonedDateTime::of_offset(local, jiff::tz::offset(hours));
                let zone = zoned.time_zone().clone();
                assert_eq!(
                    ZonedDateTime::of_epoch_nanos(zoned.epoch_nanos(), zone),
                    Ok(zoned)
                );
            }
        }
        let last = ZonedDateTime::of_offset(civil::DateTime::MAX, Offset::UTC);
        assert!(ZonedDateTime::of_epoch_nanos(last.epoch_nanos() + 1, TimeZone::UTC).is_err());
        assert!(
            last.with_time_zone(TimeZone::fixed(jiff::tz::offset(1)))
                .is_err()
        );
        assert!(last.to_jiff().is_none());
    }

    /// If the library has the value too, both agree.
    #[test]
    fn agrees_with_the_library() {
        for name in [
            "Europe/Rome",
            "America/Los_Angeles",
            "Australia/Lord_Howe",
            "UTC",
        ] {
            let zone = TimeZone::get(name).unwrap();
            let mut local = civil::date(2023, 1, 1).at(0, 7, 0, 5);
            while local.year() < 2024 {
                let own = ZonedDateTime::of_local(local, zone.clone()).unwrap();
                let theirs = zone.to_zoned(local).unwrap();
                assert_eq!(own.to_jiff().unwrap(), theirs);
                assert_eq!(own, ZonedDateTime::from(theirs.clone()));
                assert_eq!(own.epoch_nanos(), theirs.timestamp().as_nanosecond());
                assert_eq!(own.offset(), theirs.offset());
                local = local.checked_add(jiff::Span::new().minutes(30)).unwrap();
            }
        }
    }
}
