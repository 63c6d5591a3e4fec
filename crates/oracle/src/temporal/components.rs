//! `value.component`, its name in any case.

use super::parts::Parts;
use super::text::{show_offset, zone_text};
use crate::Datum;
use crate::calendar::{Clock, Date, SECOND, since_1970};
use crate::span::Span;

/// A component of a temporal value; `None` if there is no such component.
pub(crate) fn component(value: &Datum, name: &str) -> Option<Datum> {
    let name = name.to_ascii_lowercase();
    let name = name.as_str();
    if let Datum::Duration(span) = value {
        return of_span(span, name).map(Datum::Int);
    }
    let parts = Parts::of(value)?;
    let of_date = parts.date.and_then(|date| of_date(date, name));
    let of_clock = || parts.clock.and_then(|clock| of_clock(clock, name));
    if let Some(number) = of_date.or_else(of_clock) {
        return Some(Datum::Int(number));
    }
    let offset = parts.offset?;
    Some(match name {
        "timezone" => zone_text(offset, parts.zone.as_deref()).into(),
        "offset" => show_offset(offset).into(),
        "offsetminutes" => Datum::Int(offset.0 / 60),
        "offsetseconds" => Datum::Int(offset.0),
        "epochseconds" | "epochmillis" => {
            let local = since_1970(parts.date?, parts.clock?);
            let instant = local - i128::from(offset.0) * i128::from(SECOND);
            let unit = if name == "epochseconds" {
                SECOND
            } else {
                SECOND / 1000
            };
            Datum::Int(instant.div_euclid(i128::from(unit)) as i64)
        }
        _ => return None,
    })
}

fn of_date(date: Date, name: &str) -> Option<i64> {
    let (year, month, day) = date.parts();
    Some(match name {
        "year" => year,
        "quarter" => date.quarter(),
        "month" => month,
        "week" => date.week(),
        "weekyear" => date.week_year(),
        "day" => day,
        "ordinalday" => date.of_year(),
        "weekday" | "dayofweek" => date.weekday(),
        "dayofquarter" => date.of_quarter_day(),
        _ => return None,
    })
}

fn of_clock(clock: Clock, name: &str) -> Option<i64> {
    let (hour, minute, second, nanos) = clock.parts();
    Some(match name {
        "hour" => hour,
        "minute" => minute,
        "second" => second,
        "millisecond" => nanos / 1_000_000,
        "microsecond" => nanos / 1_000,
        "nanosecond" => nanos,
        _ => return None,
    })
}

fn of_span(span: &Span, name: &str) -> Option<i64> {
    let (months, days) = (span.months, span.days);
    let (seconds, nanos) = (span.seconds(), span.subsecond());
    Some(match name {
        "years" => months / 12,
        "quarters" => months / 3,
        "months" => months,
        "weeks" => days / 7,
        "days" => days,
        "hours" => seconds / 3600,
        "minutes" => seconds / 60,
        "seconds" => seconds,
        "milliseconds" => seconds * 1000 + nanos / 1_000_000,
        "microseconds" => seconds * 1_000_000 + nanos / 1_000,
        "nanoseconds" => i64::try_from(span.nanos).ok()?,
        "quartersofyear" => months / 3 % 4,
        "monthsofquarter" => months % 3,
        "monthsofyear" => months % 12,
        "daysofweek" => days % 7,
        "minutesofhour" => seconds / 60 % 60,
        "secondsofminute" => seconds % 60,
        "millisecondsofsecond" => nanos / 1_000_000,
        "microsecondsofsecond" => nanos / 1_000,
        "nanosecondsofsecond" => nanos,
        _ => return None,
    })
}
