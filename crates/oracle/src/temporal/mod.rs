//! Dates, times and durations, as the openCypher proposal CIP2015-08-06 and the TCK define them.
//!
//! Clocks have a fixed offset. A value with a named time zone can be compared and shown; whatever would need the rules
//! of its zone is not supported.

mod arithmetic;
mod between;
mod build;
mod components;
mod parts;
mod text;
mod truncate;

use std::cmp::Ordering;

use parts::Parts;

pub use crate::calendar::Moment;
use crate::calendar::SECOND;
use crate::fault::{Result, raised, unsupported};
use crate::notation::literal;
pub use crate::span::Span;
use crate::{Datum, Map};

pub(crate) use arithmetic::arithmetic;
pub(crate) use components::component;
pub use text::show;

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
        ("duration", [Datum::Map(fields)]) => arithmetic::span_of_fields(fields).map(Datum::from),
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

#[cfg(test)]
mod tests;
