//! Dates, times and durations, as the openCypher proposal CIP2015-08-06 and the TCK define them.
//!
//! Clocks have a fixed offset. A value with a named time zone can be compared and shown; whatever would need the rules
//! of its zone is not supported.

mod between;
mod build;
mod components;
mod span;
mod text;
mod truncate;

use std::cmp::Ordering;
use std::sync::Arc;

pub use span::Span;
pub use text::show;

use crate::calendar::{Clock, Date, Offset, SECOND, since_1970};
use crate::interpreter::{Fault, Result};
use crate::notation::literal;
use crate::{Datum, Map};

pub(crate) use components::component;

/// A day and a time of day on a clock with an offset from UTC.
#[derive(Clone, Debug)]
pub struct Moment {
    /// The day.
    pub date: Date,
    /// The time of day.
    pub clock: Clock,
    /// How far the clock is ahead of UTC.
    pub offset: Offset,
    /// The name of the time zone, unless it is the offset.
    pub zone: Option<Arc<str>>,
}

impl Moment {
    /// Nanoseconds since 1970 began in UTC.
    pub fn instant(&self) -> i128 {
        since_1970(self.date, self.clock) - i128::from(self.offset.0) * i128::from(SECOND)
    }
}

fn raised<T>(message: String) -> Result<T> {
    Err(Fault::Raised(message))
}

fn unsupported<T>(what: &str) -> Result<T> {
    Err(Fault::Unknown(what.to_owned()))
}

/// A value that exists, or the error that there is none.
fn in_range<T>(value: Option<T>, what: &str) -> Result<T> {
    match value {
        Some(value) => Ok(value),
        None => raised(format!("there is no such {what}")),
    }
}

/// The order of two values of one temporal type. Values with an offset compare by their instant first; durations by
/// their mean length first.
pub(crate) fn order(a: &Datum, b: &Datum) -> Option<Ordering> {
    Some(match (a, b) {
        (Datum::Date(a), Datum::Date(b)) => a.cmp(b),
        (Datum::LocalTime(a), Datum::LocalTime(b)) => a.cmp(b),
        (Datum::LocalDateTime(day, at), Datum::LocalDateTime(other, then)) => {
            day.cmp(other).then(at.cmp(then))
        }
        (Datum::Time(at, ahead), Datum::Time(then, other)) => {
            let (instant, later) = (at.0 - ahead.0 * SECOND, then.0 - other.0 * SECOND);
            instant.cmp(&later).then(ahead.cmp(other))
        }
        (Datum::DateTime(a), Datum::DateTime(b)) => a
            .instant()
            .cmp(&b.instant())
            .then(a.offset.cmp(&b.offset))
            .then_with(|| a.zone.cmp(&b.zone)),
        (Datum::Duration(a), Datum::Duration(b)) => a.order(b),
        _ => return None,
    })
}

/// The date, the time of day and the clock of a value, as far as it has them.
#[derive(Clone, Debug, Default)]
struct Parts {
    date: Option<Date>,
    clock: Option<Clock>,
    offset: Option<Offset>,
    zone: Option<Arc<str>>,
}

impl Parts {
    fn of(value: &Datum) -> Option<Self> {
        let (date, clock, offset) = match value {
            Datum::Date(date) => (Some(*date), None, None),
            Datum::LocalTime(clock) => (None, Some(*clock), None),
            Datum::Time(clock, offset) => (None, Some(*clock), Some(*offset)),
            Datum::LocalDateTime(date, clock) => (Some(*date), Some(*clock), None),
            Datum::DateTime(moment) => {
                return Some(Self {
                    date: Some(moment.date),
                    clock: Some(moment.clock),
                    offset: Some(moment.offset),
                    zone: moment.zone.clone(),
                });
            }
            _ => return None,
        };
        Some(Self {
            date,
            clock,
            offset,
            zone: None,
        })
    }
}

/// A temporal function; `None` if there is none of that name. The arguments are not null.
pub(crate) fn call(name: &str, arguments: &[Datum]) -> Option<Result<Datum>> {
    let wrong = || {
        let shown: Vec<String> = arguments.iter().map(literal).collect();
        raised(format!("{name}({})", shown.join(", ")))
    };
    Some(match (name, arguments) {
        ("date" | "localtime" | "time" | "localdatetime" | "datetime", []) => {
            unsupported("the clock")
        }
        ("date" | "localtime" | "time" | "localdatetime" | "datetime", [Datum::Text(text)]) => {
            text::parse(name, text)
        }
        ("date" | "localtime" | "time" | "localdatetime" | "datetime", [Datum::Map(fields)]) => {
            build::of_fields(name, fields)
        }
        ("date" | "localtime" | "time" | "localdatetime" | "datetime", [value]) => {
            build::of_value(name, value)
        }
        ("duration", [Datum::Text(text)]) => text::parse_span(text).map(Datum::from),
        ("duration", [Datum::Map(fields)]) => Span::of_fields(fields).map(Datum::from),
        ("duration", [Datum::Duration(span)]) => Ok(Datum::Duration(span.clone())),
        ("datetime.fromepoch", [Datum::Int(seconds), Datum::Int(nanos)]) => {
            build::of_epoch(*seconds, *nanos)
        }
        ("datetime.fromepochmillis", [Datum::Int(millis)]) => build::of_epoch(
            millis.div_euclid(1000),
            millis.rem_euclid(1000) * (SECOND / 1000),
        ),
        (
            "duration.between" | "duration.inmonths" | "duration.indays" | "duration.inseconds",
            [a, b],
        ) => match (Parts::of(a), Parts::of(b)) {
            (Some(a), Some(b)) => {
                between::between(&name["duration.".len()..], &a, &b).map(Datum::from)
            }
            _ => wrong(),
        },
        _ => {
            let kind = name.strip_suffix(".truncate")?;
            match arguments {
                [Datum::Text(unit), value] => truncate::truncate(kind, unit, value, &Map::new()),
                [Datum::Text(unit), value, Datum::Map(fields)] => {
                    truncate::truncate(kind, unit, value, fields)
                }
                _ => wrong(),
            }
        }
    })
}

/// `+` and `-` of temporal values, and durations times and by numbers; `None` if the operands are others.
pub(crate) fn arithmetic(op: char, left: &Datum, right: &Datum) -> Option<Result<Datum>> {
    Some(match (op, left, right) {
        ('+' | '-', Datum::Duration(a), Datum::Duration(b)) => {
            a.plus(b, if op == '+' { 1 } else { -1 }).map(Datum::from)
        }
        ('+' | '-', instant, Datum::Duration(span)) if instant.is_instant() => {
            span::shifted(instant, span, if op == '+' { 1 } else { -1 })
        }
        ('+', Datum::Duration(span), instant) if instant.is_instant() => {
            span::shifted(instant, span, 1)
        }
        ('*', Datum::Duration(span), factor) | ('*', factor, Datum::Duration(span))
            if factor.is_number() =>
        {
            span.times(factor).map(Datum::from)
        }
        ('/', Datum::Duration(span), divisor) if divisor.is_number() => {
            span.divided(divisor).map(Datum::from)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
