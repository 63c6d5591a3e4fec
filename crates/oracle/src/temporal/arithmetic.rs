//! Arithmetic of durations, and of dates and times with durations.

use crate::calendar::{Clock, DAY, Date, Moment, of_1970, since_1970};
use crate::fault::{Result, in_range, raised, unsupported};
use crate::notation::literal;
use crate::span::{Span, Sum};
use crate::{Datum, Map};

/// `+` and `-` of temporal values, and durations times and by numbers; `None` if the operands are others.
pub(crate) fn arithmetic(op: char, left: &Datum, right: &Datum) -> Option<Result<Datum>> {
    Some(match (op, left, right) {
        ('+' | '-', Datum::Duration(a), Datum::Duration(b)) => {
            a.plus(b, if op == '+' { 1 } else { -1 }).map(Datum::from)
        }
        ('+' | '-', instant, Datum::Duration(span)) if instant.is_instant() => {
            shifted(instant, span, if op == '+' { 1 } else { -1 })
        }
        ('+', Datum::Duration(span), instant) if instant.is_instant() => shifted(instant, span, 1),
        ('*', Datum::Duration(span), factor) | ('*', factor, Datum::Duration(span))
            if factor.is_number() =>
        {
            times(span, factor).map(Datum::from)
        }
        ('/', Datum::Duration(span), divisor) if divisor.is_number() => {
            divided(span, divisor).map(Datum::from)
        }
        _ => return None,
    })
}

/// An instant and `sign` times a duration: months first, then days, then the time. Dates take the whole days of the
/// time, times of day nothing but the time.
fn shifted(instant: &Datum, span: &Span, sign: i64) -> Result<Datum> {
    let nanos = span.nanos * i128::from(sign);
    let of_day = |clock: Clock| {
        let sum = (i128::from(clock.0) + nanos).rem_euclid(i128::from(DAY));
        Clock(sum as i64)
    };
    let months_and_days = |date: Date| {
        let later = date.plus_months(span.months.checked_mul(sign)?)?;
        later.plus_days(span.days.checked_mul(sign)?)
    };
    Ok(match instant {
        Datum::Date(date) => {
            let whole_days = i64::try_from(nanos / i128::from(DAY)).unwrap_or(i64::MAX);
            let later = months_and_days(*date).and_then(|date| date.plus_days(whole_days));
            Datum::Date(in_range(later, "date")?)
        }
        Datum::LocalTime(clock) => Datum::LocalTime(of_day(*clock)),
        Datum::Time(clock, offset) => Datum::Time(of_day(*clock), *offset),
        Datum::LocalDateTime(date, clock) => {
            let later = months_and_days(*date);
            let later = later.and_then(|date| of_1970(since_1970(date, *clock) + nanos));
            let (date, clock) = in_range(later, "date-time")?;
            Datum::LocalDateTime(date, clock)
        }
        Datum::DateTime(moment) => {
            if moment.zone.is_some() {
                return unsupported("arithmetic in named time zones");
            }
            let later = months_and_days(moment.date);
            let later = later.and_then(|date| of_1970(since_1970(date, moment.clock) + nanos));
            let (date, clock) = in_range(later, "date-time")?;
            Moment {
                date,
                clock,
                ..(**moment).clone()
            }
            .into()
        }
        other => return raised(format!("a duration is not added to {}", literal(other))),
    })
}

/// Each part times a number; what is less than a month or a day goes to the parts below.
fn times(span: &Span, factor: &Datum) -> Result<Span> {
    let (above, below) = ratio(factor)?;
    span.scaled(above, below)
}

/// Each part divided by a number.
fn divided(span: &Span, divisor: &Datum) -> Result<Span> {
    match ratio(divisor)? {
        (0, _) => raised("a duration is divided by zero"),
        (above, below) => span.scaled(below * above.signum(), above.abs()),
    }
}

/// A number as a fraction of integers.
fn ratio(number: &Datum) -> Result<(i128, i128)> {
    match number {
        Datum::Int(whole) => Ok((i128::from(*whole), 1)),
        Datum::Float(number) if !number.is_finite() => {
            raised(format!("a duration is multiplied by {number}"))
        }
        Datum::Float(number) => {
            // A double of moderate size is a whole number of a power of two.
            let (mut above, mut below) = (*number, 1_i128);
            while above.fract() != 0.0 && below < 1 << 60 {
                (above, below) = (above * 2.0, below * 2);
            }
            match above.fract() == 0.0 && above.abs() < 1e18 {
                true => Ok((above as i128, below)),
                false => unsupported("durations times very large or very small numbers"),
            }
        }
        other => raised(format!("a duration is multiplied by {}", literal(other))),
    }
}

/// A duration of a map of units.
pub(super) fn span_of_fields(fields: &Map) -> Result<Span> {
    let mut sum = Sum::default();
    for (name, value) in fields {
        let Some(amount) = value.to_f64().filter(|amount| amount.is_finite()) else {
            return match value {
                Datum::Null => unsupported("a duration of null"),
                other => raised(format!("{} is not an amount of time", literal(other))),
            };
        };
        sum.add(name, amount)?;
    }
    sum.span()
}
