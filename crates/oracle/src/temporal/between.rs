//! The duration from one instant to another.

use super::parts::Parts;
use crate::calendar::{Clock, DAY, Date, Offset, SECOND, since_1970};
use crate::fault::{Fault, Result, unsupported};
use crate::span::Span;

/// `between`, `inmonths`, `indays` or `inseconds`.
///
/// If one of the two has no date, only the times of day count. A missing time of day is midnight; a missing offset is
/// that of the other one. Both are read on the clock of the first.
pub(super) fn between(unit: &str, from: &Parts, to: &Parts) -> Result<Span> {
    if from.zone.is_some() || to.zone.is_some() {
        return unsupported("durations between named time zones");
    }
    let ahead = |parts: &Parts| parts.offset.unwrap_or(Offset(0)).0;
    let shift = match (from.offset, to.offset) {
        (Some(_), Some(_)) => (ahead(from) - ahead(to)) * SECOND,
        _ => 0,
    };
    let (start, end) = (from.clock.unwrap_or(Clock(0)), to.clock.unwrap_or(Clock(0)));
    let (Some(first), Some(last)) = (from.date, to.date) else {
        let nanos = i128::from(end.0 + shift - start.0);
        let has_date = from.date.is_some() || to.date.is_some();
        if has_date && nanos.abs() >= i128::from(DAY) {
            // Only offsets can put a day between two times of day.
            return Err(Fault::LeftOpen("whether such a day counts as one"));
        }
        return Ok(match unit {
            "between" | "inseconds" => Span {
                nanos,
                ..Span::default()
            },
            _ => Span::default(),
        });
    };
    let end = since_1970(last, end) + i128::from(shift);
    let nanos = end - since_1970(first, start);
    let day = i128::from(DAY);
    Ok(match unit {
        "inseconds" => Span {
            nanos,
            ..Span::default()
        },
        "indays" => Span {
            days: (nanos / day) as i64,
            ..Span::default()
        },
        _ => {
            let months = months(first, start, end);
            if unit == "inmonths" {
                return Ok(Span {
                    months,
                    ..Span::default()
                });
            }
            let reached = first.plus_months(months).unwrap_or(first);
            let left = end - since_1970(reached, start);
            Span {
                months,
                days: (left / day) as i64,
                nanos: left % day,
            }
        }
    })
}

/// Whole months: as many as can be counted forwards or backwards without passing the end. A month is whole when the
/// day of the month and the time of day are reached; the end's last day begun counts as its own day.
fn months(first: Date, start: Clock, end: i128) -> i64 {
    let (last, clock) = (
        Date(end.div_euclid(i128::from(DAY)) as i64),
        Clock(end.rem_euclid(i128::from(DAY)) as i64),
    );
    // The last day that is complete, seen from the start.
    let complete = if last > first && clock < start {
        Date(last.0 - 1)
    } else if last < first && clock > start {
        Date(last.0 + 1)
    } else {
        last
    };
    let (year, month, day) = first.parts();
    let (last_year, last_month, last_day) = complete.parts();
    let apart = (last_year - year) * 12 + last_month - month;
    if apart > 0 && last_day < day {
        apart - 1
    } else if apart < 0 && last_day > day {
        apart + 1
    } else {
        apart
    }
}
