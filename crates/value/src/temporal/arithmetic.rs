//! `+`, `-`, `*` and `/` with durations.

use jiff::civil;

use super::{
    calendar::{add_days, add_months, date_of_epoch_nanos, epoch_day, out_of_range},
    clock::{NANOS_PER_DAY, NANOS_PER_SECOND, nanos_of_day, time_of_nanos},
};
use crate::{Duration, Value, ValueError, ZonedDateTime, ZonedTime};

/// `a + b`: two durations, or a temporal value and a duration in either order. Null gives null.
///
/// Months are added first (a day that the month lacks becomes its last), then days, then seconds. A date only takes
/// whole days, a time only units below a day, and wraps around at midnight.
///
/// # Errors
/// `Type` for other operands, `OutOfRange` and `Overflow` if the result is not representable.
pub fn add(a: &Value, b: &Value) -> Result<Value, ValueError> {
    match (a, b) {
        (Value::Null, _) | (_, Value::Null) => Ok(Value::Null),
        (Value::Duration(a), Value::Duration(b)) => combine("+", a, b, i64::checked_add),
        (instant, Value::Duration(duration)) | (Value::Duration(duration), instant) => {
            shift(instant, duration).unwrap_or_else(|| Err(wrong_operand("+", a, b)))
        }
        _ => Err(wrong_operand("+", a, b)),
    }
}

/// `a - b`: two durations, or a duration from a temporal value. Null gives null.
///
/// # Errors
/// Like [`add`].
pub fn subtract(a: &Value, b: &Value) -> Result<Value, ValueError> {
    match (a, b) {
        (Value::Null, _) | (_, Value::Null) => Ok(Value::Null),
        (Value::Duration(a), Value::Duration(b)) => combine("-", a, b, i64::checked_sub),
        (instant, Value::Duration(duration)) => {
            let negative = duration.negate().ok_or_else(|| overflow("-"))?;
            shift(instant, &negative).unwrap_or_else(|| Err(wrong_operand("-", a, b)))
        }
        _ => Err(wrong_operand("-", a, b)),
    }
}

/// `a * b`: a duration and a number in either order. Null gives null.
///
/// Fractions of a month become days and seconds by the mean month's length (30.436875 days), fractions of a day
/// seconds; fractions of a nanosecond are truncated.
///
/// # Errors
/// Like [`add`].
pub fn multiply(a: &Value, b: &Value) -> Result<Value, ValueError> {
    match (a, b) {
        (Value::Null, _) | (_, Value::Null) => Ok(Value::Null),
        (Value::Duration(duration), Value::Int(factor))
        | (Value::Int(factor), Value::Duration(duration)) => {
            scale("*", duration, i128::from(*factor), 1)
        }
        (Value::Duration(duration), Value::Float(factor))
        | (Value::Float(factor), Value::Duration(duration)) => {
            scale_float("*", duration, |part| part * factor)
        }
        _ => Err(wrong_operand("*", a, b)),
    }
}

/// `a / b`: a duration by a number. Null gives null.
///
/// # Errors
/// Like [`add`], and `DivisionByZero`.
pub fn divide(a: &Value, b: &Value) -> Result<Value, ValueError> {
    match (a, b) {
        (Value::Null, _) | (_, Value::Null) => Ok(Value::Null),
        (Value::Duration(_), Value::Int(0)) => Err(ValueError::DivisionByZero),
        (Value::Duration(_), Value::Float(divisor)) if *divisor == 0.0 => {
            Err(ValueError::DivisionByZero)
        }
        (Value::Duration(duration), Value::Int(divisor)) => {
            scale("/", duration, 1, i128::from(*divisor))
        }
        (Value::Duration(duration), Value::Float(divisor)) => {
            scale_float("/", duration, |part| part / divisor)
        }
        _ => Err(wrong_operand("/", a, b)),
    }
}

fn wrong_operand(sign: &str, a: &Value, b: &Value) -> ValueError {
    let odd = if a.is_temporal() { b } else { a };
    ValueError::Type {
        operation: format!("`{sign}` of {} and {}", a.type_name(), b.type_name()),
        expected: "a duration with a temporal value or a number that it can be joined with",
        found: odd.type_name(),
    }
}

fn overflow(sign: &str) -> ValueError {
    ValueError::Overflow {
        operation: format!("`{sign}` of a duration"),
    }
}

fn combine(
    sign: &str,
    a: &Duration,
    b: &Duration,
    part: fn(i64, i64) -> Option<i64>,
) -> Result<Value, ValueError> {
    let whole = || {
        let nanos = part(a.nanos.into(), b.nanos.into())?;
        Duration::new(
            part(a.months, b.months)?,
            part(a.days, b.days)?,
            part(a.seconds, b.seconds)?,
            nanos,
        )
    };
    whole().map(Value::from).ok_or_else(|| overflow(sign))
}

/// The duration times `factor / divisor`, exactly.
fn scale(
    sign: &str,
    duration: &Duration,
    factor: i128,
    divisor: i128,
) -> Result<Value, ValueError> {
    let months = i128::from(duration.months) * factor;
    let days = i128::from(duration.days) * factor;
    // The remainder is below the divisor: less than 2^63 months of 2^52 nanoseconds.
    let of_month = months % divisor * Duration::NANOS_PER_MEAN_MONTH / divisor;
    let of_day = days % divisor * i128::from(NANOS_PER_DAY) / divisor;
    let time = duration
        .time_nanos()
        .checked_mul(factor)
        .ok_or_else(|| overflow(sign))?
        / divisor;
    Duration::from_wide(months / divisor, days / divisor, of_month, of_day + time)
        .map(Value::from)
        .ok_or_else(|| overflow(sign))
}

/// The duration with every part scaled as a double.
fn scale_float(
    sign: &str,
    duration: &Duration,
    scaled: impl Fn(f64) -> f64,
) -> Result<Value, ValueError> {
    let months = scaled(duration.months as f64);
    let days = scaled(duration.days as f64);
    let seconds = scaled(duration.seconds as f64);
    let nanos = scaled(f64::from(duration.nanos));
    if ![months, days, seconds, nanos]
        .iter()
        .all(|part| part.abs() < 1e27)
    {
        return Err(overflow(sign)); // NaN too
    }
    let of_month = (months.fract() * Duration::NANOS_PER_MEAN_MONTH as f64).round() as i128;
    let of_day = (days.fract() * NANOS_PER_DAY as f64).round() as i128;
    let whole_seconds = seconds.trunc() as i128 * i128::from(NANOS_PER_SECOND);
    let of_second = (seconds.fract() * NANOS_PER_SECOND as f64).round() as i128;
    let time = whole_seconds + of_second + nanos as i128;
    Duration::from_wide(months as i128, days as i128, of_month, of_day + time)
        .map(Value::from)
        .ok_or_else(|| overflow(sign))
}

/// The instant, date or time plus a duration; none for other values.
fn shift(value: &Value, duration: &Duration) -> Option<Result<Value, ValueError>> {
    Some(match value {
        Value::Date(date) => shift_date(*date, duration).map(Value::from),
        Value::LocalTime(time) => Ok(shift_time(*time, duration).into()),
        Value::ZonedTime(ZonedTime { time, offset }) => Ok(ZonedTime {
            time: shift_time(*time, duration),
            offset: *offset,
        }
        .into()),
        Value::LocalDateTime(local) => shift_local(*local, duration).map(Value::from),
        Value::ZonedDateTime(zoned) => shift_zoned(zoned, duration).map(Value::from),
        _ => return None,
    })
}

fn shift_date(date: civil::Date, duration: &Duration) -> Result<civil::Date, ValueError> {
    let whole_days = duration.time_nanos() / i128::from(NANOS_PER_DAY);
    let days = i128::from(duration.days) + whole_days;
    let days =
        i64::try_from(days).map_err(|_| out_of_range("the date", format!("{days} days later")))?;
    add_days(add_months(date, duration.months)?, days)
}

/// Wraps around at midnight.
fn shift_time(time: civil::Time, duration: &Duration) -> civil::Time {
    let nanos = i128::from(nanos_of_day(time)) + duration.time_nanos();
    time_of_nanos(nanos.rem_euclid(i128::from(NANOS_PER_DAY)) as i64).unwrap_or(time)
}

fn shift_local(local: civil::DateTime, duration: &Duration) -> Result<civil::DateTime, ValueError> {
    let date = add_days(add_months(local.date(), duration.months)?, duration.days)?;
    let nanos = local_nanos(date.to_datetime(local.time())) + duration.time_nanos();
    let (date, nanos) = date_of_epoch_nanos(nanos)?;
    Ok(date.to_datetime(time_of_nanos(nanos).unwrap_or_default()))
}

/// Nanoseconds of the local time since 1970.
pub(super) fn local_nanos(local: civil::DateTime) -> i128 {
    i128::from(epoch_day(local.date())) * i128::from(NANOS_PER_DAY)
        + i128::from(nanos_of_day(local.time()))
}

fn shift_zoned(from: &ZonedDateTime, duration: &Duration) -> Result<ZonedDateTime, ValueError> {
    let moved = shift_calendar(from, duration.months, duration.days)?;
    let nanos = moved.epoch_nanos() + duration.time_nanos();
    ZonedDateTime::of_epoch_nanos(nanos, moved.time_zone().clone())
}

/// The same time of day in the same zone, months and days later. If the zone has this time twice, the offset stays.
pub(super) fn shift_calendar(
    from: &ZonedDateTime,
    months: i64,
    days: i64,
) -> Result<ZonedDateTime, ValueError> {
    if months == 0 && days == 0 {
        return Ok(from.clone());
    }
    let date = add_days(add_months(from.date(), months)?, days)?;
    let local = date.to_datetime(from.time());
    ZonedDateTime::of_local_with_offset(local, from.offset(), from.time_zone().clone())
}
