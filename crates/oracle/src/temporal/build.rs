//! Dates and times from maps of fields, and from other values.

use super::parts::Parts;
use super::text::zone_of;
use crate::calendar::{Clock, DAY, Date, Moment, Offset, SECOND, of_1970};
use crate::fault::{Result, in_range, raised, unsupported};
use crate::notation::literal;
use crate::{Datum, Map};

/// The date, or date and time, that many seconds after 1970 began in UTC.
pub(super) fn of_epoch(seconds: i64, nanos: i64) -> Result<Datum> {
    let total = i128::from(seconds) * i128::from(SECOND) + i128::from(nanos);
    let (date, clock) = in_range(of_1970(total), "date-time")?;
    Ok(Moment {
        date,
        clock,
        offset: Offset(0),
        zone: None,
    }
    .into())
}

/// A value of another type: what that type does not have is dropped, what it needs in addition must be there, except
/// for the offset, which is UTC then.
pub(super) fn of_value(function: &str, value: &Datum) -> Result<Datum> {
    let Some(parts) = Parts::of(value) else {
        return raised(format!("{function}({})", literal(value)));
    };
    if parts.zone.is_some() {
        return unsupported("values of named time zones");
    }
    assembled(function, parts.date, parts.clock, parts.offset)
}

/// The value of the function's type with these parts.
pub(super) fn assembled(
    function: &str,
    date: Option<Date>,
    clock: Option<Clock>,
    offset: Option<Offset>,
) -> Result<Datum> {
    let offset = offset.unwrap_or(Offset(0));
    Ok(match (function, date, clock) {
        ("date", Some(date), _) => Datum::Date(date),
        ("localtime", _, Some(clock)) => Datum::LocalTime(clock),
        ("time", _, Some(clock)) => Datum::Time(clock, offset),
        ("localdatetime", Some(date), Some(clock)) => Datum::LocalDateTime(date, clock),
        ("datetime", Some(date), Some(clock)) => Moment {
            date,
            clock,
            offset,
            zone: None,
        }
        .into(),
        _ => return raised(format!("a value without the parts of a {function}")),
    })
}

/// The fields, in addition to the year, of which a date is made: one of these groups, its larger field first.
const DATE_GROUPS: [&[&str]; 4] = [
    &["month", "day"],
    &["week", "dayOfWeek"],
    &["quarter", "dayOfQuarter"],
    &["ordinalDay"],
];
const CLOCK_FIELDS: [&str; 6] = [
    "hour",
    "minute",
    "second",
    "millisecond",
    "microsecond",
    "nanosecond",
];

fn is_field(function: &str, name: &str) -> bool {
    let of_date = ["date", "datetime", "year"].contains(&name)
        || DATE_GROUPS.iter().any(|group| group.contains(&name));
    let of_clock = ["time", "datetime"].contains(&name) || CLOCK_FIELDS.contains(&name);
    match function {
        "date" => of_date,
        "localtime" => of_clock,
        "time" => of_clock || name == "timezone",
        "localdatetime" => of_date || of_clock,
        _ => of_date || of_clock || name == "timezone",
    }
}

/// An integer field.
fn number(fields: &Map, name: &str) -> Result<Option<i64>> {
    match fields.get(name) {
        None => Ok(None),
        Some(Datum::Int(number)) => Ok(Some(*number)),
        Some(Datum::Null) => unsupported("fields that are null"),
        Some(other) => raised(format!("{name} is {}", literal(other))),
    }
}

/// A temporal value under one of two names.
fn base(fields: &Map, names: [&str; 2]) -> Result<Option<Parts>> {
    let mut found = None;
    for name in names {
        let Some(value) = fields.get(name) else {
            continue;
        };
        found = match Parts::of(value) {
            Some(_) if found.is_some() => return unsupported("two bases"),
            Some(parts) if parts.zone.is_some() => {
                return unsupported("values of named time zones");
            }
            Some(parts) => Some(parts),
            None if value.is_null() => return unsupported("fields that are null"),
            None => return raised(format!("{name} is {}", literal(value))),
        };
    }
    Ok(found)
}

/// A value of a map of fields.
pub(super) fn of_fields(function: &str, fields: &Map) -> Result<Datum> {
    if function == "datetime" && fields.contains_key("epochSeconds") {
        let is_known = |name: &str| matches!(name, "epochSeconds" | "nanosecond");
        if !fields.keys().all(|name| is_known(name)) {
            return unsupported("an epoch with other fields");
        }
        let seconds = number(fields, "epochSeconds")?.unwrap_or(0);
        return of_epoch(seconds, number(fields, "nanosecond")?.unwrap_or(0));
    }
    if function == "datetime" && fields.contains_key("epochMillis") {
        return unsupported("an epoch in milliseconds");
    }
    if let Some(name) = fields.keys().find(|name| !is_field(function, name)) {
        return raised(format!("{name} is not a field of a {function}"));
    }
    let date_base = base(fields, ["date", "datetime"])?;
    let clock_base = base(fields, ["time", "datetime"])?;
    let date = match function {
        "localtime" | "time" => None,
        _ => Some(date_of(fields, date_base.as_ref().map(|base| base.date))?),
    };
    let clock = match function {
        "date" => None,
        _ => {
            let old = match &clock_base {
                Some(base) => Some(in_range(base.clock, "time of day")?),
                None => None,
            };
            // A date-time of a date alone begins at midnight.
            let starts_at = old.or_else(|| date.map(|_| Clock(0)));
            Some(clock_of(fields, starts_at, old.is_some())?)
        }
    };
    let old_offset = clock_base.and_then(|base| base.offset);
    let given = fields.get("timezone").map(zone_of).transpose()?;
    let (Some(old), Some(new), Some(clock)) = (old_offset, given, clock) else {
        return assembled(function, date, clock, given.or(old_offset));
    };
    // The same instant on another clock.
    let shifted = i128::from(clock.0) + i128::from((new.0 - old.0) * SECOND);
    match date {
        None => {
            let clock = Clock(shifted.rem_euclid(i128::from(DAY)) as i64);
            assembled(function, None, Some(clock), Some(new))
        }
        Some(date) => {
            let local = of_1970(i128::from(date.0) * i128::from(DAY) + shifted);
            let (date, clock) = in_range(local, "date-time")?;
            assembled(function, Some(date), Some(clock), Some(new))
        }
    }
}

/// The date of the fields. What they do not say is taken from the base, or is the first there is; fields of two groups
/// are an error.
pub(super) fn date_of(fields: &Map, base: Option<Option<Date>>) -> Result<Date> {
    let base = match base {
        Some(Some(base)) => Some(base),
        Some(None) => return raised("a base without a date"),
        None => None,
    };
    let named = |group: &&&[&str]| group.iter().any(|name| fields.contains_key(*name));
    let mut groups = DATE_GROUPS.iter().filter(named);
    let group = groups.next().copied();
    if groups.next().is_some() {
        return raised("fields of two kinds of dates");
    }
    let year = number(fields, "year")?;
    if year.is_none() && base.is_none() {
        return raised("a date needs a year");
    }
    let field = |name: &str, of_base: &dyn Fn(Date) -> i64| -> Result<i64> {
        Ok(number(fields, name)?.unwrap_or_else(|| base.map_or(1, of_base)))
    };
    let year_of = |of_base: &dyn Fn(Date) -> i64| year.or_else(|| base.map(of_base)).unwrap_or(1);
    let needs = |larger: &str, smaller: &str| -> Result<()> {
        let is_missing =
            base.is_none() && fields.contains_key(smaller) && !fields.contains_key(larger);
        match is_missing {
            true => raised(format!("{smaller} without {larger}")),
            false => Ok(()),
        }
    };
    let made = match group.and_then(|group| group.first().copied()) {
        Some("week") => {
            needs("week", "dayOfWeek")?;
            Date::of_week(
                year_of(&Date::week_year),
                field("week", &Date::week)?,
                field("dayOfWeek", &Date::weekday)?,
            )
        }
        Some("quarter") => {
            needs("quarter", "dayOfQuarter")?;
            Date::of_quarter(
                year_of(&Date::year),
                field("quarter", &Date::quarter)?,
                field("dayOfQuarter", &Date::of_quarter_day)?,
            )
        }
        Some("ordinalDay") => {
            Date::of_ordinal(year_of(&Date::year), field("ordinalDay", &Date::of_year)?)
        }
        _ => {
            needs("month", "day")?;
            Date::of(
                year_of(&Date::year),
                field("month", &|base| base.parts().1)?,
                field("day", &|base| base.parts().2)?,
            )
        }
    };
    in_range(made, "date")
}

/// The time of day of the fields; what they do not say is taken from `starts_at`.
pub(super) fn clock_of(fields: &Map, starts_at: Option<Clock>, has_base: bool) -> Result<Clock> {
    if starts_at.is_none() && !fields.contains_key("hour") {
        return raised("a time needs an hour");
    }
    let skips = |larger: &str, smaller: &[&str]| {
        !has_base
            && !fields.contains_key(larger)
            && smaller.iter().any(|name| fields.contains_key(*name))
    };
    if skips("hour", &CLOCK_FIELDS[1..])
        || skips("minute", &CLOCK_FIELDS[2..])
        || skips("second", &CLOCK_FIELDS[3..])
    {
        return raised("a smaller field of a time without the larger one");
    }
    let (hour, minute, second, nanos) = starts_at.unwrap_or(Clock(0)).parts();
    let fraction = ["millisecond", "microsecond", "nanosecond"];
    let given = [
        number(fields, fraction[0])?,
        number(fields, fraction[1])?,
        number(fields, fraction[2])?,
    ];
    let nanos = match given {
        [None, None, None] => nanos,
        _ if nanos > 0 => return unsupported("a part of a fraction of a second of another value"),
        [millis, micros, rest] => {
            // Each one has the digits that the larger one leaves.
            let limits = [
                1_000,
                if millis.is_some() { 1_000 } else { 1_000_000 },
                match (millis, micros) {
                    (_, Some(_)) => 1_000,
                    (Some(_), None) => 1_000_000,
                    (None, None) => SECOND,
                },
            ];
            let digits = [millis, micros, rest];
            let fits = |(value, limit): (&Option<i64>, i64)| {
                value.is_none_or(|value| (0..limit).contains(&value))
            };
            if !digits.iter().zip(limits).all(fits) {
                return raised("a fraction of a second is out of range");
            }
            let part = |value: Option<i64>, unit: i64| value.unwrap_or(0) * unit;
            part(millis, 1_000_000) + part(micros, 1_000) + part(rest, 1)
        }
    };
    let made = Clock::of(
        number(fields, "hour")?.unwrap_or(hour),
        number(fields, "minute")?.unwrap_or(minute),
        number(fields, "second")?.unwrap_or(second),
        nanos,
    );
    in_range(made, "time of day")
}
