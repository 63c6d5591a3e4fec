//! `truncate`: a value cut off below a unit, then with some fields.

use super::build::{assembled, clock_of, date_of};
use super::parts::Parts;
use super::text::zone_of;
use crate::calendar::{Clock, Date, SECOND};
use crate::fault::{Result, in_range, raised, unsupported};
use crate::notation::literal;
use crate::{Datum, Map};

pub(super) fn truncate(function: &str, unit: &str, value: &Datum, fields: &Map) -> Result<Datum> {
    let Some(mut parts) = Parts::of(value) else {
        return raised(format!("{} is not cut off", literal(value)));
    };
    if parts.zone.is_some() {
        return unsupported("values of named time zones");
    }
    let unit = unit.to_lowercase();
    let has_date = matches!(function, "date" | "localdatetime" | "datetime");
    let nanos = match unit.as_str() {
        "hour" => Some(3600 * SECOND),
        "minute" => Some(60 * SECOND),
        "second" => Some(SECOND),
        "millisecond" => Some(1_000_000),
        "microsecond" => Some(1_000),
        _ => None,
    };
    match nanos {
        Some(_) if function == "date" => return raised(format!("a date has no {unit}")),
        Some(nanos) => {
            let clock = match (parts.clock, parts.date) {
                (Some(clock), _) => clock,
                (None, Some(_)) if has_date => Clock(0),
                _ => return raised(format!("a value without a {unit}")),
            };
            parts.clock = Some(Clock(clock.0 - clock.0 % nanos));
        }
        None => {
            if has_date {
                let date = in_range(parts.date, "date")?;
                parts.date = Some(cut(date, &unit)?);
            } else if unit != "day" {
                return raised(format!("a time is not cut off at a {unit}"));
            } else if parts.clock.is_none() {
                return raised("a value without a time");
            }
            parts.clock = Some(Clock(0));
        }
    }
    let date = match has_date {
        true => Some(date_of(fields, Some(parts.date))?),
        false => None,
    };
    let clock = match function {
        "date" => None,
        _ => {
            let clock = parts.clock.unwrap_or(Clock(0));
            // What was cut off is 0, so that smaller fields add to what is left.
            let whole = Clock(clock.0 - clock.0 % SECOND);
            let made = clock_of(fields, Some(whole), true)?;
            Some(Clock(made.0 + clock.0 % SECOND))
        }
    };
    // The clock keeps what it shows where another zone is given.
    let offset = fields.get("timezone").map(zone_of).transpose()?;
    assembled(function, date, clock, offset.or(parts.offset))
}

fn cut(date: Date, unit: &str) -> Result<Date> {
    let (year, month, _) = date.parts();
    let first_year = |years: i64| Date::of(year.div_euclid(years) * years, 1, 1);
    let cut = match unit {
        "millennium" => first_year(1000),
        "century" => first_year(100),
        "decade" => first_year(10),
        "year" => first_year(1),
        "weekyear" => Date::of_week(date.week_year(), 1, 1),
        "quarter" => Date::of(year, date.quarter() * 3 - 2, 1),
        "month" => Date::of(year, month, 1),
        "week" => date.plus_days(1 - date.weekday()),
        "day" => Some(date),
        other => return raised(format!("{other} is not a unit")),
    };
    in_range(cut, "date")
}
