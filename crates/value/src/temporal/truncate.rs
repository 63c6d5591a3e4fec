//! Truncation of dates and times.

use jiff::civil;

use super::{
    Kind, Now,
    access::accessor,
    calendar::{add_days, calendar_date, quarter, week_date},
    create::{create, date_part, time_part, zone_of_temporal, zone_of_value, zoned_from},
    parse,
};
use crate::{Map, Value, ValueError, ZonedTime};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Unit {
    Millennium,
    Century,
    Decade,
    Year,
    WeekYear,
    Quarter,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
}

const UNITS: [(&str, Unit); 14] = [
    ("millennium", Unit::Millennium),
    ("century", Unit::Century),
    ("decade", Unit::Decade),
    ("year", Unit::Year),
    ("weekYear", Unit::WeekYear),
    ("quarter", Unit::Quarter),
    ("month", Unit::Month),
    ("week", Unit::Week),
    ("day", Unit::Day),
    ("hour", Unit::Hour),
    ("minute", Unit::Minute),
    ("second", Unit::Second),
    ("millisecond", Unit::Millisecond),
    ("microsecond", Unit::Microsecond),
];

/// `kind.truncate(unit, value, fields)`: the start of the `unit` that contains `value`, as a `kind`; `fields` then
/// replaces parts of it. Without a value the current time is truncated. A null unit or value gives null.
pub(super) fn truncate(kind: Kind, args: &[Value], now: &Now) -> Result<Value, ValueError> {
    let wrong = |found: &'static str| ValueError::Type {
        operation: format!("{}.truncate", kind.function()),
        expected: "a unit, a temporal value and a map",
        found,
    };
    let (name, value, fields) = match args {
        [name] => (name, None, None),
        [name, value] => (name, Some(value), None),
        [name, value, Value::Null] => (name, Some(value), None),
        [name, value, Value::Map(fields)] => (name, Some(value), Some(&**fields)),
        [_, _, other] => return Err(wrong(other.type_name())),
        _ => return Err(wrong("another number of arguments")),
    };
    if name.is_null() || value.is_some_and(Value::is_null) {
        return Ok(Value::Null);
    }
    let unit = unit(kind, name.as_str().ok_or_else(|| wrong(name.type_name()))?)?;
    let current = Value::from(now.zoned());
    let cut = cut(kind, unit, value.unwrap_or(&current), now)?;
    match fields {
        None => Ok(cut),
        Some(fields) if fields.is_empty() => Ok(cut),
        Some(fields) => replace(kind, unit, cut, fields, now),
    }
}

fn unit(kind: Kind, name: &str) -> Result<Unit, ValueError> {
    let fits = |unit: Unit| match kind {
        Kind::Date => unit <= Unit::Day,
        Kind::LocalTime | Kind::ZonedTime => unit >= Unit::Day,
        Kind::LocalDateTime | Kind::ZonedDateTime => true,
    };
    let known = UNITS.into_iter().filter(|(_, unit)| fits(*unit));
    known
        .clone()
        .find(|(own, _)| own.eq_ignore_ascii_case(name))
        .map(|(_, unit)| unit)
        .ok_or_else(|| {
            let names: Vec<_> = known.map(|(name, _)| name).collect();
            ValueError::Syntax {
                what: "unit to truncate to",
                text: name.chars().take(60).collect(),
                reason: format!("{} takes {}", kind.name(), names.join(", ")),
            }
        })
}

fn cut(kind: Kind, unit: Unit, value: &Value, now: &Now) -> Result<Value, ValueError> {
    let date = || cut_date(unit, date_part(kind, value)?);
    let midnight = civil::Time::midnight();
    Ok(match kind {
        Kind::Date => date()?.into(),
        Kind::LocalTime => cut_time(unit, time_part(kind, value)?)?.into(),
        Kind::ZonedTime => {
            let time = cut_time(unit, time_part(kind, value)?)?;
            let zone = zone_of_temporal(value).unwrap_or_else(|| now.zone.clone());
            let offset = match value {
                Value::ZonedDateTime(zoned) => zoned.offset(),
                _ => zone.to_offset(now.instant),
            };
            ZonedTime { time, offset }.into()
        }
        Kind::LocalDateTime | Kind::ZonedDateTime => {
            let time = if unit <= Unit::Day {
                midnight
            } else {
                cut_time(unit, time_part(kind, value)?)?
            };
            let local = date()?.to_datetime(time);
            match kind {
                Kind::LocalDateTime => local.into(),
                _ => {
                    let zone = zone_of_temporal(value).unwrap_or_else(|| now.zone.clone());
                    zoned_from(value, local, zone)?.into()
                }
            }
        }
    })
}

fn cut_date(unit: Unit, date: civil::Date) -> Result<civil::Date, ValueError> {
    let year = i64::from(date.year());
    let first_of = |years: i64| calendar_date(year.div_euclid(years) * years, 1, 1);
    match unit {
        Unit::Millennium => first_of(1000),
        Unit::Century => first_of(100),
        Unit::Decade => first_of(10),
        Unit::Year => first_of(1),
        Unit::WeekYear => week_date(date.iso_week_date().year().into(), 1, 1),
        Unit::Quarter => calendar_date(year, quarter(date) * 3 - 2, 1),
        Unit::Month => calendar_date(year, date.month().into(), 1),
        Unit::Week => add_days(date, -i64::from(date.weekday().to_monday_zero_offset())),
        _ => Ok(date),
    }
}

fn cut_time(unit: Unit, time: civil::Time) -> Result<civil::Time, ValueError> {
    let [hour, minute, second] = [time.hour(), time.minute(), time.second()].map(i64::from);
    let nanos = i64::from(time.subsec_nanosecond());
    match unit {
        Unit::Hour => parse::time(hour, 0, 0, 0),
        Unit::Minute => parse::time(hour, minute, 0, 0),
        Unit::Second => parse::time(hour, minute, second, 0),
        Unit::Millisecond => parse::time(hour, minute, second, nanos / 1_000_000 * 1_000_000),
        Unit::Microsecond => parse::time(hour, minute, second, nanos / 1_000 * 1_000),
        _ => Ok(civil::Time::midnight()),
    }
}

/// `cut` with some parts replaced. A zone among them changes the zone, not the local time.
fn replace(
    kind: Kind,
    unit: Unit,
    cut: Value,
    fields: &Map,
    now: &Now,
) -> Result<Value, ValueError> {
    let mut fields = fields.clone();
    let mut base = cut;
    let is_zoned = matches!(kind, Kind::ZonedTime | Kind::ZonedDateTime);
    if is_zoned && let Some(zone) = fields.remove("timezone") {
        base = with_zone(base, &zone, now)?;
    }
    if let Ok(time) = time_part(kind, &base) {
        keep_larger_parts(unit, time, &mut fields);
    }
    if fields.is_empty() {
        return Ok(base);
    }
    let name = match kind {
        Kind::Date => "date",
        Kind::LocalTime | Kind::ZonedTime => "time",
        Kind::LocalDateTime | Kind::ZonedDateTime if fields.contains("time") => "date",
        Kind::LocalDateTime | Kind::ZonedDateTime => "datetime",
    };
    let own_zone = fields.get("time").and_then(zone_of_temporal);
    if kind == Kind::ZonedDateTime && name == "date" && own_zone.is_none() {
        fields.insert("timezone", accessor(&base, "timezone")?);
    }
    if let Some(twice) = ["date", "datetime", "epochSeconds", "epochMillis", name]
        .iter()
        .find(|own| fields.contains(own))
    {
        return Err(ValueError::Fields {
            what: kind.name(),
            reason: format!("`{twice}` cannot replace a part of a truncated value"),
        });
    }
    fields.insert(name, base);
    create(kind, &[Value::from(fields)], now)
}

fn with_zone(value: Value, zone: &Value, now: &Now) -> Result<Value, ValueError> {
    let zone = zone_of_value(zone)?;
    Ok(match value {
        Value::ZonedTime(ZonedTime { time, .. }) => ZonedTime {
            time,
            offset: zone.to_offset(now.instant),
        }
        .into(),
        Value::ZonedDateTime(ref own) => zoned_from(&value, own.datetime(), zone)?.into(),
        other => other,
    })
}

/// Nanoseconds set in a value truncated to milliseconds count within its millisecond: the larger parts stay.
fn keep_larger_parts(unit: Unit, time: civil::Time, fields: &mut Map) {
    let nanos = i64::from(time.subsec_nanosecond());
    let has_nanos = fields.contains("nanosecond");
    let has_micros = fields.contains("microsecond");
    if fields.contains("millisecond") {
        return;
    }
    match unit {
        Unit::Millisecond if has_nanos || has_micros => {
            fields.insert("millisecond", Value::Int(nanos / 1_000_000));
        }
        Unit::Microsecond if has_nanos && !has_micros => {
            fields.insert("microsecond", Value::Int(nanos / 1_000));
        }
        _ => {}
    }
}
