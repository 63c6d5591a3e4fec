//! The types of columns.

use std::sync::Arc;

use isomer_db::{Value, jiff};

/// Integers up to here are exact as doubles.
const EXACT: u64 = 1 << 53;
/// Lists nested deeper than this are sent as JSON.
const MAX_LEVELS: usize = 8;
/// Range of 64-bit microseconds and nanoseconds since 1970, in seconds.
const MICROS_REACH: i64 = i64::MAX / 1_000_000;
const NANOS_REACH: i64 = i64::MAX / 1_000_000_000;

/// Type of a column, apart from nulls. Kinds form a lattice with [`Kind::Null`] at the bottom and [`Kind::Json`] at
/// the top.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Only nulls.
    Null,
    /// Booleans.
    Bool,
    /// Integers; `exact`: all of them can be represented exactly as doubles.
    Int {
        /// Whether all can be represented exactly as doubles.
        exact: bool,
    },
    /// Doubles.
    Float,
    /// Strings.
    Text,
    /// Bytes.
    Bytes,
    /// Days.
    Date,
    /// Times of day without a zone, in nanoseconds.
    Time,
    /// Instants, or days and times without a zone.
    Instant {
        /// Whether microseconds represent all of them exactly.
        micros: bool,
        /// Whether all are within the range of nanoseconds.
        nanos: bool,
        /// The time zone of all of them.
        zone: Option<Arc<str>>,
        /// Whether the client requested it by name: then instants of any zone are converted to UTC.
        any_zone: bool,
    },
    /// Durations in months, days and nanoseconds.
    Amount,
    /// Lists of one kind.
    List(Box<Kind>),
    /// Anything, as JSON text.
    Json,
}

impl Kind {
    /// The kind of a value.
    pub fn of(value: &Value) -> Self {
        Self::within(value, MAX_LEVELS)
    }

    fn within(value: &Value, levels: usize) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Bool,
            Value::Int(int) => Self::Int {
                exact: int.unsigned_abs() <= EXACT,
            },
            Value::Float(_) => Self::Float,
            Value::String(_) => Self::Text,
            Value::Bytes(_) => Self::Bytes,
            Value::Date(_) => Self::Date,
            Value::LocalTime(_) => Self::Time,
            Value::LocalDateTime(time) => {
                let (seconds, nanos) = since_1970(*time);
                Self::instant(seconds, nanos, None)
            }
            Value::ZonedDateTime(zoned) => {
                let nanos = zoned.subsec_nanosecond().cast_signed();
                match zone_of(zoned) {
                    Some(zone) => Self::instant(zoned.epoch_seconds(), nanos, Some(zone)),
                    None => Self::Json,
                }
            }
            Value::Duration(amount) => match amount_of(amount) {
                Some(_) => Self::Amount,
                None => Self::Json,
            },
            Value::List(_) if levels == 0 => Self::Json,
            Value::List(items) => {
                let mut kind = Self::Null;
                for item in items.iter() {
                    kind = kind.or(Self::within(item, levels - 1));
                }
                Self::List(Box::new(kind))
            }
            // Arrow has no type for times with a zone, points, records, or what contains them.
            _ => Self::Json,
        }
    }

    fn instant(seconds: i64, nanos: i32, zone: Option<Arc<str>>) -> Self {
        let kind = Self::Instant {
            micros: nanos % 1000 == 0 && seconds.abs() < MICROS_REACH,
            nanos: seconds.abs() < NANOS_REACH,
            zone,
            any_zone: false,
        };
        match kind {
            Self::Instant {
                micros: false,
                nanos: false,
                ..
            } => Self::Json,
            kind => kind,
        }
    }

    /// The least upper bound of both.
    pub fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Null, kind) | (kind, Self::Null) => kind,
            (Self::Int { exact: one }, Self::Int { exact: two }) => Self::Int { exact: one && two },
            (Self::Int { exact: true }, Self::Float) | (Self::Float, Self::Int { exact: true }) => {
                Self::Float
            }
            (
                Self::Instant {
                    micros,
                    nanos,
                    zone,
                    any_zone,
                },
                Self::Instant {
                    micros: other_micros,
                    nanos: other_nanos,
                    zone: other_zone,
                    any_zone: other_any,
                },
            ) if zone == other_zone && any_zone == other_any => {
                let (micros, nanos) = (micros && other_micros, nanos && other_nanos);
                match micros || nanos {
                    true => Self::Instant {
                        micros,
                        nanos,
                        zone,
                        any_zone,
                    },
                    false => Self::Json,
                }
            }
            (Self::List(one), Self::List(two)) => Self::List(Box::new(one.or(*two))),
            (one, two) if one == two => one,
            _ => Self::Json,
        }
    }

    /// Parses the name that clients use: `int`, `[string]`, …
    pub fn of_name(name: &str) -> Option<Self> {
        let inner = name
            .strip_prefix('[')
            .and_then(|name| name.strip_suffix(']'));
        if let Some(inner) = inner {
            let levels = name.bytes().take_while(|byte| *byte == b'[').count();
            return (levels <= MAX_LEVELS)
                .then(|| Self::of_name(inner).map(|kind| Self::List(Box::new(kind))))
                .flatten();
        }
        Some(match name {
            "bool" => Self::Bool,
            "int" => Self::Int { exact: false },
            "float" => Self::Float,
            "string" => Self::Text,
            "bytes" => Self::Bytes,
            "date" => Self::Date,
            "time" => Self::Time,
            "duration" => Self::Amount,
            "json" => Self::Json,
            "datetime" => Self::Instant {
                micros: true,
                nanos: false,
                zone: Some("UTC".into()),
                any_zone: true,
            },
            "localdatetime" => Self::Instant {
                micros: true,
                nanos: false,
                zone: None,
                any_zone: false,
            },
            _ => return None,
        })
    }

    /// Its name in messages.
    pub fn name(&self) -> String {
        match self {
            Self::Null => "null".into(),
            Self::Bool => "bool".into(),
            Self::Int { .. } => "int".into(),
            Self::Float => "float".into(),
            Self::Text => "string".into(),
            Self::Bytes => "bytes".into(),
            Self::Date => "date".into(),
            Self::Time => "time".into(),
            Self::Instant { zone: None, .. } => "localdatetime".into(),
            Self::Instant { .. } => "datetime".into(),
            Self::Amount => "duration".into(),
            Self::List(kind) => format!("[{}]", kind.name()),
            Self::Json => "json".into(),
        }
    }
}

/// The zone of an instant, by its name or its offset; `None` for an offset that is not a whole number of minutes,
/// which Arrow cannot name.
pub(super) fn zone_of(zoned: &isomer_value::ZonedDateTime) -> Option<Arc<str>> {
    if let Some(name) = zoned.time_zone().iana_name() {
        return Some(name.into());
    }
    let seconds = zoned.offset().seconds();
    let (sign, minutes) = (if seconds < 0 { '-' } else { '+' }, seconds.abs() / 60);
    let is_whole = seconds % 60 == 0;
    is_whole.then(|| format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60).into())
}

/// Days from 1970-01-01 of the proleptic Gregorian calendar (by eras of 400 years, beginning in March).
pub(super) fn days_since_1970(date: jiff::civil::Date) -> i32 {
    let (year, month, day) = (
        i32::from(date.year()),
        i32::from(date.month()),
        i32::from(date.day()),
    );
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Nanoseconds since midnight.
pub(super) fn nanos_of_day(time: jiff::civil::Time) -> i64 {
    let seconds =
        i64::from(time.hour()) * 3600 + i64::from(time.minute()) * 60 + i64::from(time.second());
    seconds * 1_000_000_000 + i64::from(time.subsec_nanosecond())
}

/// Whole seconds since 1970 by the calendar, and nanoseconds past them.
pub(super) fn since_1970(time: jiff::civil::DateTime) -> (i64, i32) {
    let nanos = nanos_of_day(time.time());
    let seconds = i64::from(days_since_1970(time.date())) * 86_400 + nanos / 1_000_000_000;
    (seconds, time.subsec_nanosecond())
}

/// Months, days and nanoseconds, if they are in Arrow's range.
pub(super) fn amount_of(amount: &isomer_db::temporal::Duration) -> Option<(i32, i32, i64)> {
    let nanos = amount
        .seconds
        .checked_mul(1_000_000_000)?
        .checked_add(i64::from(amount.nanos))?;
    Some((
        i32::try_from(amount.months).ok()?,
        i32::try_from(amount.days).ok()?,
        nanos,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_kinds_are_joined_to_their_least_upper_bound() {
        let list = |items: Vec<Value>| Value::from(items);
        let kind = |values: &[Value]| {
            let kinds = values.iter().map(Kind::of);
            kinds.fold(Kind::Null, Kind::or)
        };
        let large = Value::Int((1 << 53) + 1);
        assert_eq!(kind(&[]), Kind::Null);
        assert_eq!(kind(&[Value::Null, Value::Bool(true)]), Kind::Bool);
        assert_eq!(kind(&[Value::Int(1), Value::Float(0.5)]), Kind::Float);
        assert_eq!(kind(&[large.clone(), Value::Float(0.5)]), Kind::Json);
        assert_eq!(kind(&[Value::Int(1), large]), Kind::Int { exact: false });
        assert_eq!(kind(&[Value::Int(1), "x".into()]), Kind::Json);
        let ints = list(vec![Value::Int(1), Value::Null]);
        assert_eq!(kind(&[ints.clone(), list(vec![])]).name(), "[int]");
        assert_eq!(kind(&[ints, list(vec!["x".into()])]).name(), "[json]");
        let mut deep = Value::Int(1);
        for _ in 0..100 {
            deep = list(vec![deep]);
        }
        assert_eq!(kind(&[deep]).name().matches('[').count(), MAX_LEVELS);
        for name in [
            "int",
            "[[string]]",
            "datetime",
            "localdatetime",
            "duration",
            "json",
        ] {
            assert_eq!(Kind::of_name(name).unwrap().name(), name);
        }
        for wrong in ["", "text", "[int", "int]", &"[".repeat(100_000)] {
            assert_eq!(Kind::of_name(wrong), None);
        }
        let deep = format!("{}int{}", "[".repeat(50_000), "]".repeat(50_000));
        assert_eq!(Kind::of_name(&deep), None);
    }

    #[test]
    fn instants_of_one_zone_form_a_column_and_those_of_several_do_not() {
        let at = |zone: &str| {
            let text = format!("2026-11-22T12:00:00{zone}");
            Value::from(text.parse::<jiff::Zoned>().unwrap())
        };
        let kind = |zones: &[&str]| {
            let kinds = zones.iter().map(|zone| Kind::of(&at(zone)));
            kinds.fold(Kind::Null, Kind::or).name()
        };
        assert_eq!(kind(&["+00:00[UTC]", "+00:00[UTC]"]), "datetime");
        assert_eq!(kind(&["+00:00[UTC]", "+01:00[Europe/Paris]"]), "json");
        assert_eq!(kind(&["+01:00[+01:00]"]), "datetime");
        let offset = jiff::tz::Offset::from_seconds(3_630).unwrap();
        let odd = jiff::Timestamp::UNIX_EPOCH.to_zoned(offset.to_time_zone());
        assert_eq!(Kind::of(&Value::from(odd)), Kind::Json);
        // A column whose first rows were in UTC accepts no other zone later; one requested by name accepts all.
        let (utc, paris) = (at("+00:00[UTC]"), at("+01:00[Europe/Paris]"));
        let mut found = super::super::column::Column::new(&Kind::of(&utc));
        assert!(found.push(&utc).is_ok() && found.push(&paris).is_err());
        let mut asked = super::super::column::Column::new(&Kind::of_name("datetime").unwrap());
        assert!(asked.push(&utc).is_ok() && asked.push(&paris).is_ok());
    }

    #[test]
    fn days_are_counted_by_the_calendar() {
        for (year, month, day) in [
            (1970, 1, 1),
            (1969, 12, 31),
            (2000, 2, 29),
            (1900, 3, 1),
            (2026, 11, 21),
            (1, 1, 1),
            (-1, 2, 28),
            (-9998, 1, 2),
            (9998, 12, 31),
        ] {
            let date = jiff::civil::date(year, month, day);
            let midnight = date.to_zoned(jiff::tz::TimeZone::UTC).unwrap().timestamp();
            assert_eq!(
                i64::from(days_since_1970(date)),
                midnight.as_second().div_euclid(86_400),
                "{date}"
            );
        }
    }
}
