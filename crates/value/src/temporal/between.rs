//! The duration between two temporal values: `duration.between`, `inMonths`, `inDays`, `inSeconds`.
//!
//! If one side lacks a date, a time or a zone, the other's is used; a date counts as its midnight.

use jiff::{civil, tz::TimeZone};

use super::{
    arithmetic::{local_nanos, shift_calendar},
    calendar::{add_days, add_months, epoch_day},
    clock::{NANOS_PER_SECOND, nanos_of_day},
    parts::zoned_time_rank,
};
use crate::{Duration, Value, ValueError, ZonedDateTime, ZonedTime};

/// The units of the result.
#[derive(Clone, Copy)]
pub(super) enum Unit {
    /// Months, then days, then seconds: the largest first.
    All,
    Months,
    Days,
    Seconds,
}

/// The duration from the first argument to the second. Null gives null.
pub(super) fn between(unit: Unit, args: &[Value]) -> Result<Value, ValueError> {
    let wrong = |found| ValueError::Type {
        operation: "a duration between two values".into(),
        expected: "two dates, times or date-times",
        found,
    };
    let [from, to] = args else {
        return Err(wrong("another number of arguments"));
    };
    if from.is_null() || to.is_null() {
        return Ok(Value::Null);
    }
    let moment = |value| Moment::new(value).ok_or_else(|| wrong(Value::type_name(value)));
    let (from, to) = Moment::align(moment(from)?, moment(to)?)?;
    let duration = match unit {
        Unit::Months => Duration {
            months: from.months_until(&to)?,
            ..Duration::default()
        },
        Unit::Days => Duration {
            days: from.days_until(&to)?,
            ..Duration::default()
        },
        Unit::Seconds => of_nanos(0, 0, from.nanos_until(&to)?),
        Unit::All => {
            let months = from.months_until(&to)?;
            let later = from.shift(months, 0)?;
            let days = later.days_until(&to)?;
            of_nanos(months, days, later.shift(0, days)?.nanos_until(&to)?)
        }
    };
    Ok(duration.into())
}

fn of_nanos(months: i64, days: i64, nanos: i128) -> Duration {
    let unit = i128::from(NANOS_PER_SECOND);
    // Twenty thousand years of seconds fit easily.
    Duration {
        months,
        days,
        seconds: nanos.div_euclid(unit) as i64,
        nanos: nanos.rem_euclid(unit) as i32,
    }
}

#[derive(Clone)]
enum Moment {
    LocalTime(civil::Time),
    ZonedTime(ZonedTime),
    Local(civil::DateTime),
    Zoned(ZonedDateTime),
}

impl Moment {
    fn new(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Date(date) => Self::Local(date.to_datetime(civil::Time::midnight())),
            Value::LocalTime(time) => Self::LocalTime(*time),
            Value::ZonedTime(time) => Self::ZonedTime(*time),
            Value::LocalDateTime(local) => Self::Local(*local),
            Value::ZonedDateTime(zoned) => Self::Zoned((**zoned).clone()),
            _ => return None,
        })
    }

    /// Makes both have a date or neither, and both a zone or neither.
    fn align(from: Self, to: Self) -> Result<(Self, Self), ValueError> {
        let (from_date, to_date) = (from.date(), to.date());
        let from = from.with_date(to_date)?;
        let to = to.with_date(from_date)?;
        let (from_zone, to_zone) = (from.zone(), to.zone());
        Ok((from.with_zone(to_zone)?, to.with_zone(from_zone)?))
    }

    fn date(&self) -> Option<civil::Date> {
        match self {
            Self::LocalTime(_) | Self::ZonedTime(_) => None,
            Self::Local(local) => Some(local.date()),
            Self::Zoned(zoned) => Some(zoned.date()),
        }
    }

    fn zone(&self) -> Option<TimeZone> {
        match self {
            Self::LocalTime(_) | Self::Local(_) => None,
            Self::ZonedTime(time) => Some(TimeZone::fixed(time.offset)),
            Self::Zoned(zoned) => Some(zoned.time_zone().clone()),
        }
    }

    fn with_date(self, date: Option<civil::Date>) -> Result<Self, ValueError> {
        Ok(match (self, date) {
            (Self::LocalTime(time), Some(date)) => Self::Local(date.to_datetime(time)),
            (Self::ZonedTime(ZonedTime { time, offset }), Some(date)) => {
                Self::Zoned(ZonedDateTime::of_offset(date.to_datetime(time), offset))
            }
            (own, _) => own,
        })
    }

    fn with_zone(self, zone: Option<TimeZone>) -> Result<Self, ValueError> {
        Ok(match (self, zone) {
            (Self::Local(local), Some(zone)) => Self::Zoned(ZonedDateTime::of_local(local, zone)?),
            // Without a date, the zone is the other time's offset.
            (Self::LocalTime(time), Some(zone)) => {
                let offset = zone.to_offset(jiff::Timestamp::UNIX_EPOCH);
                Self::ZonedTime(ZonedTime { time, offset })
            }
            (own, _) => own,
        })
    }

    /// The two dates and times in the zone of the first. None for times without a date.
    fn calendar(&self, to: &Self) -> Result<Option<[civil::DateTime; 2]>, ValueError> {
        Ok(match (self, to) {
            (Self::Local(from), Self::Local(to)) => Some([*from, *to]),
            (Self::Zoned(from), Self::Zoned(to)) => {
                let to = to.with_time_zone(from.time_zone().clone())?;
                Some([from.datetime(), to.datetime()])
            }
            _ => None,
        })
    }

    fn months_until(&self, to: &Self) -> Result<i64, ValueError> {
        let Some([from, to]) = self.calendar(to)? else {
            return Ok(0);
        };
        // As `java.time` counts, and with it Neo4j: the last day counts only if the time of day is reached, and a
        // month only if the day of the month is. 32 is more than the days of any month.
        let mut last = to.date();
        if last > from.date() && to.time() < from.time() {
            last = add_days(last, -1)?;
        } else if last < from.date() && to.time() > from.time() {
            last = add_days(last, 1)?;
        }
        let counted = |date: civil::Date| {
            (i64::from(date.year()) * 12 + i64::from(date.month())) * 32 + i64::from(date.day())
        };
        Ok((counted(last) - counted(from.date())) / 32)
    }

    fn days_until(&self, to: &Self) -> Result<i64, ValueError> {
        let Some([from, to]) = self.calendar(to)? else {
            return Ok(0);
        };
        let days = epoch_day(to.date()) - epoch_day(from.date());
        Ok(match days {
            1.. if to.time() < from.time() => days - 1,
            ..=-1 if to.time() > from.time() => days + 1,
            _ => days,
        })
    }

    fn nanos_until(&self, to: &Self) -> Result<i128, ValueError> {
        Ok(match (self, to) {
            (Self::Zoned(from), Self::Zoned(to)) => to.epoch_nanos() - from.epoch_nanos(),
            (Self::Local(from), Self::Local(to)) => local_nanos(*to) - local_nanos(*from),
            (from, to) => i128::from(to.nanos_of_day() - from.nanos_of_day()),
        })
    }

    fn nanos_of_day(&self) -> i64 {
        match self {
            Self::LocalTime(time) => nanos_of_day(*time),
            Self::ZonedTime(time) => zoned_time_rank(time).0,
            Self::Local(local) => nanos_of_day(local.time()),
            Self::Zoned(zoned) => nanos_of_day(zoned.time()),
        }
    }

    fn shift(&self, months: i64, days: i64) -> Result<Self, ValueError> {
        Ok(match self {
            Self::Local(local) => Self::Local(
                add_days(add_months(local.date(), months)?, days)?.to_datetime(local.time()),
            ),
            Self::Zoned(zoned) => Self::Zoned(shift_calendar(zoned, months, days)?),
            time => time.clone(),
        })
    }
}
