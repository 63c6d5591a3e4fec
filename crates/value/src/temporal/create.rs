//! Creation of dates and times: from the clock, text, maps and other temporal values.

use jiff::{
    civil,
    tz::{Offset, TimeZone},
};

use super::{
    Kind, Now,
    clock::{NANOS_PER_DAY, NANOS_PER_SECOND, nanos_of_day, time_of_nanos},
    fields::{DATE_FIELDS, Fields, TIME_FIELDS},
    parse,
};
use crate::{Map, Value, ValueError, ZonedDateTime, ZonedTime};

/// A value of `kind` from one argument (text, a map of fields, or another temporal value), or without one from the
/// clock.
/// Null gives null.
pub(super) fn create(kind: Kind, args: &[Value], now: &Now) -> Result<Value, ValueError> {
    match args {
        [] => Ok(of_zoned(kind, &now.zoned())),
        [Value::Null] => Ok(Value::Null),
        [Value::String(text)] => of_text(kind, text, now),
        [Value::Map(map)] => of_map(kind, map, now),
        [value] => of_temporal(kind, value, now),
        _ => Err(ValueError::Fields {
            what: kind.name(),
            reason: "one argument is expected".into(),
        }),
    }
}

/// The current value of `kind`, in the zone of the argument if there is one. Null gives null.
pub(super) fn create_now(kind: Kind, args: &[Value], now: &Now) -> Result<Value, ValueError> {
    match args {
        [] => Ok(of_zoned(kind, &now.zoned())),
        [Value::Null] => Ok(Value::Null),
        [zone] => Ok(of_zoned(
            kind,
            &now.instant.to_zoned(zone_of_value(zone)?).into(),
        )),
        _ => Err(ValueError::Fields {
            what: kind.name(),
            reason: "one time zone is expected".into(),
        }),
    }
}

/// `datetime.fromepoch(seconds, nanoseconds)`.
pub(super) fn from_epoch(args: &[Value]) -> Result<Value, ValueError> {
    let [seconds, nanos] = ints("datetime.fromepoch", args)?;
    epoch(i128::from(seconds) * i128::from(NANOS_PER_SECOND) + i128::from(nanos))
}

/// `datetime.fromepochmillis(milliseconds)`.
pub(super) fn from_epoch_millis(args: &[Value]) -> Result<Value, ValueError> {
    let [millis] = ints("datetime.fromepochmillis", args)?;
    epoch(i128::from(millis) * 1_000_000)
}

fn ints<const N: usize>(operation: &str, args: &[Value]) -> Result<[i64; N], ValueError> {
    let wrong = |found| ValueError::Type {
        operation: operation.into(),
        expected: "integers",
        found,
    };
    let args: &[Value; N] = args
        .try_into()
        .map_err(|_| wrong("another number of arguments"))?;
    let mut ints = [0; N];
    for (int, arg) in ints.iter_mut().zip(args) {
        *int = arg.as_int().ok_or_else(|| wrong(arg.type_name()))?;
    }
    Ok(ints)
}

fn epoch(nanos: i128) -> Result<Value, ValueError> {
    Ok(ZonedDateTime::of_epoch_nanos(nanos, TimeZone::UTC)?.into())
}

fn of_text(kind: Kind, text: &str, now: &Now) -> Result<Value, ValueError> {
    Ok(match kind {
        Kind::Date => parse::date(text)?.into(),
        Kind::LocalTime => parse::local_time(text)?.into(),
        Kind::ZonedTime => parse::zoned_time(text, Some(now.offset()))?.into(),
        Kind::LocalDateTime => parse::local_date_time(text)?.into(),
        Kind::ZonedDateTime => parse::zoned_date_time(text, Some(&now.zone))?.into(),
    })
}

fn of_zoned(kind: Kind, zoned: &ZonedDateTime) -> Value {
    match kind {
        Kind::Date => zoned.date().into(),
        Kind::LocalTime => zoned.time().into(),
        Kind::ZonedTime => ZonedTime {
            time: zoned.time(),
            offset: zoned.offset(),
        }
        .into(),
        Kind::LocalDateTime => zoned.datetime().into(),
        Kind::ZonedDateTime => zoned.clone().into(),
    }
}

fn of_temporal(kind: Kind, value: &Value, now: &Now) -> Result<Value, ValueError> {
    Ok(match kind {
        Kind::Date => date_part(kind, value)?.into(),
        Kind::LocalTime => time_part(kind, value)?.into(),
        Kind::ZonedTime => {
            let offset = offset_of(value).unwrap_or_else(|| now.offset());
            ZonedTime {
                time: time_part(kind, value)?,
                offset,
            }
            .into()
        }
        Kind::LocalDateTime => date_part(kind, value)?
            .to_datetime(time_or_midnight(kind, value)?)
            .into(),
        Kind::ZonedDateTime => match value {
            Value::ZonedDateTime(_) => value.clone(),
            _ => {
                let local = date_part(kind, value)?.to_datetime(time_or_midnight(kind, value)?);
                ZonedDateTime::of_local(local, now.zone.clone())?.into()
            }
        },
    })
}

fn of_map(kind: Kind, map: &Map, now: &Now) -> Result<Value, ValueError> {
    let mut fields = map.iter();
    if let (Some((name, zone)), None) = (fields.next(), fields.next())
        && name.eq_ignore_ascii_case("timezone")
    {
        return create_now(kind, std::slice::from_ref(zone), now);
    }
    Ok(match kind {
        Kind::Date => {
            let fields = Fields::new(kind.name(), map, &[DATE_FIELDS, &["date", "datetime"]])?;
            date_of_fields(kind, &fields)?.into()
        }
        Kind::LocalTime => {
            let fields = Fields::new(kind.name(), map, &[TIME_FIELDS, &["time", "datetime"]])?;
            time_of_fields(kind, &fields)?.into()
        }
        Kind::ZonedTime => {
            let fields = Fields::new(
                kind.name(),
                map,
                &[TIME_FIELDS, &["time", "datetime", "timezone"]],
            )?;
            zoned_time_of_fields(kind, &fields, now)?.into()
        }
        Kind::LocalDateTime => {
            let bases = &["date", "time", "datetime"];
            let fields = Fields::new(kind.name(), map, &[DATE_FIELDS, TIME_FIELDS, bases])?;
            date_of_fields(kind, &fields)?
                .to_datetime(time_of_fields(kind, &fields)?)
                .into()
        }
        Kind::ZonedDateTime => {
            let others = &[
                "date",
                "time",
                "datetime",
                "timezone",
                "epochSeconds",
                "epochMillis",
            ];
            let fields = Fields::new(kind.name(), map, &[DATE_FIELDS, TIME_FIELDS, others])?;
            zoned_of_fields(kind, &fields, now)?.into()
        }
    })
}

/// The value of the base field `own` or `datetime`; not both.
fn base<'a>(fields: &Fields<'a>, own: &str) -> Result<Option<&'a Value>, ValueError> {
    match (fields.get(own), fields.get("datetime")) {
        (Some(_), Some(_)) => {
            Err(fields.error(format!("`{own}` and `datetime` exclude one another")))
        }
        (base, date_time) => Ok(base.or(date_time)),
    }
}

fn date_of_fields(kind: Kind, fields: &Fields<'_>) -> Result<civil::Date, ValueError> {
    let base = base(fields, "date")?
        .map(|base| date_part(kind, base))
        .transpose()?;
    fields.date(base)
}

fn time_of_fields(kind: Kind, fields: &Fields<'_>) -> Result<civil::Time, ValueError> {
    let base = match base(fields, "time")? {
        Some(base) if fields.get("datetime").is_some() => Some(time_or_midnight(kind, base)?),
        Some(base) => Some(time_part(kind, base)?),
        None => None,
    };
    fields.time(base)
}

fn zoned_time_of_fields(
    kind: Kind,
    fields: &Fields<'_>,
    now: &Now,
) -> Result<ZonedTime, ValueError> {
    if !fields.has(&["hour", "time", "datetime"]) {
        return Err(fields.error("`hour` is missing"));
    }
    let time = time_of_fields(kind, fields)?;
    let base = base(fields, "time")?;
    let own = base.and_then(offset_of);
    let Some(zone) = fields.get("timezone") else {
        return Ok(ZonedTime {
            time,
            offset: own.unwrap_or_else(|| now.offset()),
        });
    };
    let zone = zone_of_value(zone)?;
    let offset = match base {
        Some(Value::ZonedDateTime(base)) => base.with_time_zone(zone)?.offset(),
        _ => zone.to_offset(now.instant),
    };
    Ok(match own {
        None => ZonedTime { time, offset },
        Some(own) => shift(ZonedTime { time, offset: own }, offset),
    })
}

/// The same instant of the day at another offset.
fn shift(time: ZonedTime, offset: Offset) -> ZonedTime {
    let ahead = i64::from(offset.seconds() - time.offset.seconds()) * NANOS_PER_SECOND;
    let nanos = (nanos_of_day(time.time) + ahead).rem_euclid(NANOS_PER_DAY);
    ZonedTime {
        time: time_of_nanos(nanos).unwrap_or(time.time),
        offset,
    }
}

fn zoned_of_fields(
    kind: Kind,
    fields: &Fields<'_>,
    now: &Now,
) -> Result<ZonedDateTime, ValueError> {
    let wanted = fields.get("timezone").map(zone_of_value).transpose()?;
    if fields.has(&["epochSeconds", "epochMillis"]) {
        let nanos = epoch_of_fields(fields)?;
        return ZonedDateTime::of_epoch_nanos(nanos, wanted.unwrap_or(TimeZone::UTC));
    }
    let local = date_of_fields(kind, fields)?.to_datetime(time_of_fields(kind, fields)?);
    // A value with a zone is converted to the wanted one; a value without is interpreted in it.
    let base = base(fields, "time")?;
    let own = base.and_then(|base| Some((base, zone_of_temporal(base)?)));
    match (own, wanted) {
        (Some((base, own)), Some(wanted)) => zoned_from(base, local, own)?.with_time_zone(wanted),
        (Some((base, own)), None) => zoned_from(base, local, own),
        (None, Some(wanted)) => ZonedDateTime::of_local(local, wanted),
        (None, None) => ZonedDateTime::of_local(local, now.zone.clone()),
    }
}

/// Nanoseconds since 1970.
fn epoch_of_fields(fields: &Fields<'_>) -> Result<i128, ValueError> {
    let (seconds, millis) = (fields.int("epochSeconds")?, fields.int("epochMillis")?);
    if fields.has(DATE_FIELDS)
        || fields.has(&["hour", "minute", "second", "date", "time", "datetime"])
    {
        return Err(fields.error("an epoch cannot be combined with a date or time"));
    }
    let whole = match (seconds, millis) {
        (Some(seconds), None) => i128::from(seconds) * i128::from(NANOS_PER_SECOND),
        (None, Some(millis)) => i128::from(millis) * 1_000_000,
        _ => return Err(fields.error("`epochSeconds` and `epochMillis` exclude one another")),
    };
    let part = ["millisecond", "microsecond", "nanosecond"]
        .into_iter()
        .zip([1_000_000, 1_000, 1]);
    let mut nanos = whole;
    for (name, unit) in part {
        nanos += i128::from(fields.int(name)?.unwrap_or(0)) * unit;
    }
    Ok(nanos)
}

/// The local time `local` in `zone`, derived from `source`: of a time that occurs twice, the one with the source's
/// offset is used.
pub(super) fn zoned_from(
    source: &Value,
    local: civil::DateTime,
    zone: TimeZone,
) -> Result<ZonedDateTime, ValueError> {
    match source {
        Value::ZonedDateTime(source) => {
            ZonedDateTime::of_local_with_offset(local, source.offset(), zone)
        }
        _ => ZonedDateTime::of_local(local, zone),
    }
}

/// The zone that a string names, by name or by offset.
pub(super) fn zone_of_value(value: &Value) -> Result<TimeZone, ValueError> {
    match value {
        Value::String(name) => parse::zone(name),
        other => Err(ValueError::Type {
            operation: "a time zone".into(),
            expected: "STRING",
            found: other.type_name(),
        }),
    }
}

/// The date of a value that has one.
pub(super) fn date_part(kind: Kind, value: &Value) -> Result<civil::Date, ValueError> {
    match value {
        Value::Date(date) => Ok(*date),
        Value::LocalDateTime(local) => Ok(local.date()),
        Value::ZonedDateTime(zoned) => Ok(zoned.date()),
        other => Err(wrong_base(kind, "a value with a date", other)),
    }
}

/// The time of day of a value that has one.
pub(super) fn time_part(kind: Kind, value: &Value) -> Result<civil::Time, ValueError> {
    match value {
        Value::LocalTime(time) => Ok(*time),
        Value::ZonedTime(zoned) => Ok(zoned.time),
        Value::LocalDateTime(local) => Ok(local.time()),
        Value::ZonedDateTime(zoned) => Ok(zoned.time()),
        other => Err(wrong_base(kind, "a value with a time", other)),
    }
}

/// The time of day; for a date its start.
pub(super) fn time_or_midnight(kind: Kind, value: &Value) -> Result<civil::Time, ValueError> {
    match value {
        Value::Date(_) => Ok(civil::Time::midnight()),
        other => time_part(kind, other),
    }
}

fn wrong_base(kind: Kind, expected: &'static str, found: &Value) -> ValueError {
    ValueError::Type {
        operation: kind.function().to_owned(),
        expected,
        found: found.type_name(),
    }
}

fn offset_of(value: &Value) -> Option<Offset> {
    match value {
        Value::ZonedTime(time) => Some(time.offset),
        Value::ZonedDateTime(zoned) => Some(zoned.offset()),
        _ => None,
    }
}

/// The zone of a value that has one; for a time its offset.
pub(super) fn zone_of_temporal(value: &Value) -> Option<TimeZone> {
    match value {
        Value::ZonedTime(time) => Some(TimeZone::fixed(time.offset)),
        Value::ZonedDateTime(zoned) => Some(zoned.time_zone().clone()),
        _ => None,
    }
}
