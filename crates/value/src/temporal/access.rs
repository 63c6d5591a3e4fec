//! Fields of temporal values by name: `d.year`, `d.week`, `d.epochMillis`.

use jiff::{civil, tz::Offset};

use super::{
    calendar::{day_of_quarter, quarter},
    format::OffsetText,
};
use crate::{Duration, Value, ValueError, ZonedDateTime, ZonedTime};

/// The field `name` of a temporal value.
///
/// # Errors
/// `NoField` if the type has no such field, `Type` for a value that is not temporal, `Overflow` if the nanoseconds of a
/// duration exceed 64 bits.
pub fn accessor(value: &Value, name: &str) -> Result<Value, ValueError> {
    let found = match value {
        Value::Date(date) => date_field(*date, name),
        Value::LocalTime(time) => time_field(*time, name),
        Value::ZonedTime(ZonedTime { time, offset }) => {
            time_field(*time, name).or_else(|| match name {
                "timezone" => Some(OffsetText(*offset).to_string().into()),
                name => offset_field(*offset, name),
            })
        }
        Value::LocalDateTime(local) => {
            date_field(local.date(), name).or_else(|| time_field(local.time(), name))
        }
        Value::ZonedDateTime(zoned) => zoned_field(zoned, name),
        Value::Duration(duration) => duration_field(duration, name)?,
        other => {
            return Err(ValueError::Type {
                operation: format!("`.{name}`"),
                expected: "a temporal value",
                found: other.type_name(),
            });
        }
    };
    found.ok_or_else(|| ValueError::NoField {
        type_name: value.type_name(),
        field: name.to_owned(),
    })
}

fn date_field(date: civil::Date, name: &str) -> Option<Value> {
    let week = || date.iso_week_date();
    Some(Value::Int(match name {
        "year" => date.year().into(),
        "quarter" => quarter(date),
        "month" => date.month().into(),
        "week" => week().week().into(),
        "weekYear" => week().year().into(),
        "day" => date.day().into(),
        "ordinalDay" => date.day_of_year().into(),
        "weekDay" | "dayOfWeek" => date.weekday().to_monday_one_offset().into(),
        "dayOfQuarter" => day_of_quarter(date),
        _ => return None,
    }))
}

fn time_field(time: civil::Time, name: &str) -> Option<Value> {
    let nanos = i64::from(time.subsec_nanosecond());
    Some(Value::Int(match name {
        "hour" => time.hour().into(),
        "minute" => time.minute().into(),
        "second" => time.second().into(),
        "millisecond" => nanos / 1_000_000,
        "microsecond" => nanos / 1_000,
        "nanosecond" => nanos,
        _ => return None,
    }))
}

fn offset_field(offset: Offset, name: &str) -> Option<Value> {
    let seconds = i64::from(offset.seconds());
    Some(match name {
        "offset" => OffsetText(offset).to_string().into(),
        "offsetMinutes" => Value::Int(seconds / 60),
        "offsetSeconds" => Value::Int(seconds),
        _ => return None,
    })
}

fn zoned_field(zoned: &ZonedDateTime, name: &str) -> Option<Value> {
    Some(match name {
        "timezone" => match zoned.zone_name() {
            Some(name) => name.into(),
            None => OffsetText(zoned.offset()).to_string().into(),
        },
        "epochSeconds" => Value::Int(zoned.epoch_seconds()),
        "epochMillis" => {
            let millis = i64::from(zoned.subsec_nanosecond() / 1_000_000);
            Value::Int(zoned.epoch_seconds() * 1_000 + millis)
        }
        _ => {
            return date_field(zoned.date(), name)
                .or_else(|| time_field(zoned.time(), name))
                .or_else(|| offset_field(zoned.offset(), name));
        }
    })
}

fn duration_field(duration: &Duration, name: &str) -> Result<Option<Value>, ValueError> {
    let Duration {
        months,
        days,
        seconds,
        nanos,
    } = *duration;
    let nanos = i64::from(nanos);
    let total = |per_second: i64| {
        let whole = seconds.checked_mul(per_second);
        let part = nanos / (1_000_000_000 / per_second);
        whole
            .and_then(|whole| whole.checked_add(part))
            .ok_or_else(|| ValueError::Overflow {
                operation: format!("the {name} of a duration"),
            })
    };
    Ok(Some(Value::Int(match name {
        "years" => months / 12,
        "quarters" => months / 3,
        "months" => months,
        "weeks" => days / 7,
        "days" => days,
        "hours" => seconds / 3600,
        "minutes" => seconds / 60,
        "seconds" => seconds,
        "milliseconds" => total(1_000)?,
        "microseconds" => total(1_000_000)?,
        "nanoseconds" => total(1_000_000_000)?,
        "quartersOfYear" => months / 3 % 4,
        "monthsOfQuarter" => months % 3,
        "monthsOfYear" => months % 12,
        "daysOfWeek" => days % 7,
        "minutesOfHour" => seconds / 60 % 60,
        "secondsOfMinute" => seconds % 60,
        "millisecondsOfSecond" => nanos / 1_000_000,
        "microsecondsOfSecond" => nanos / 1_000,
        "nanosecondsOfSecond" => nanos,
        _ => return Ok(None),
    })))
}
