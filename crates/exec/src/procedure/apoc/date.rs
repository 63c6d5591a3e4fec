//! `apoc.date.*`: times as numbers since 1970 in a unit, and patterns in the notation of Java's `DateTimeFormatter`.

use std::fmt::Write as _;

use isomer_plan::expr::StaticType;
use isomer_value::{
    Value,
    jiff::{
        Timestamp, Zoned, civil,
        tz::{Offset, TimeZone},
    },
    temporal,
};

use super::arguments::Arguments;
use crate::{error::Result, procedure::table::FunctionRow};

const DEFAULT_PATTERN: &str = "yyyy-MM-dd HH:mm:ss";

/// The functions.
pub(super) const FUNCTIONS: &[FunctionRow] = &[
    FunctionRow::new(
        "apoc.date.format",
        "time: INTEGER?, unit: STRING = 'ms', format: STRING? = null, timezone: STRING? = ''",
        StaticType::Any,
        "a time as text, by a pattern: yyyy-MM-dd HH:mm:ss",
        |args| {
            let args = Arguments::new("apoc.date.format", args);
            let Some(time) = args.integer(0)? else {
                return Ok(Value::Null);
            };
            let at = zoned(args, time, 1, 3)?;
            let pattern = args.text(2)?.unwrap_or(DEFAULT_PATTERN);
            format(args, &at, pattern).map(Value::from)
        },
    ),
    FunctionRow::new(
        "apoc.date.parse",
        "time: STRING?, unit: STRING = 'ms', format: STRING? = null, timezone: STRING? = ''",
        StaticType::Any,
        "the time of a text, by a pattern, in a unit since 1970",
        |args| {
            let args = Arguments::new("apoc.date.parse", args);
            let Some(text) = args.text(0)?.filter(|text| !text.trim().is_empty()) else {
                return Ok(Value::Null);
            };
            let pattern = args.text(2)?.unwrap_or(DEFAULT_PATTERN);
            let at = parse(args, text, pattern, &time_zone(args, 3)?)?;
            let unit = unit(args, 1)?;
            Ok(Value::Int(at.timestamp().as_millisecond() / unit))
        },
    ),
    FunctionRow::new(
        "apoc.date.convert",
        "time: INTEGER?, unit: STRING, toUnit: STRING",
        StaticType::Any,
        "a time in another unit",
        |args| {
            let args = Arguments::new("apoc.date.convert", args);
            let Some(time) = args.integer(0)? else {
                return Ok(Value::Null);
            };
            let ms = milliseconds(args, time, 1)?;
            Ok(Value::Int(ms / unit(args, 2)?))
        },
    ),
    FunctionRow::new(
        "apoc.date.add",
        "time: INTEGER?, unit: STRING, addValue: INTEGER, addUnit: STRING",
        StaticType::Any,
        "a time plus an amount in another unit",
        |args| {
            let args = Arguments::new("apoc.date.add", args);
            let (Some(time), Some(amount)) = (args.integer(0)?, args.integer(2)?) else {
                return Ok(Value::Null);
            };
            let (ms, added) = (milliseconds(args, time, 1)?, milliseconds(args, amount, 3)?);
            let sum = ms.checked_add(added);
            let sum = sum.ok_or_else(|| args.invalid("the sum does not fit into 64 bits"))?;
            Ok(Value::Int(sum / unit(args, 1)?))
        },
    ),
    FunctionRow::new(
        "apoc.date.field",
        "time: INTEGER?, unit: STRING = 'd', timezone: STRING? = 'UTC'",
        StaticType::Any,
        "a part of a time in milliseconds: years, month, d, h, m, s, ms, weekday",
        |args| {
            let args = Arguments::new("apoc.date.field", args);
            let (Some(time), Some(unit)) = (args.integer(0)?, args.text(1)?) else {
                return Ok(Value::Null);
            };
            let at = at_millisecond(args, time, time_zone(args, 2)?)?;
            let field = match unit.to_ascii_lowercase().as_str() {
                "year" | "years" => i64::from(at.year()),
                "month" | "months" => i64::from(at.month()),
                "d" | "day" | "days" => i64::from(at.day()),
                "w" | "weekday" | "weekdays" => i64::from(at.weekday().to_monday_one_offset()),
                "h" | "hour" | "hours" => i64::from(at.hour()),
                "m" | "minute" | "minutes" => i64::from(at.minute()),
                "s" | "second" | "seconds" => i64::from(at.second()),
                "ms" | "milli" | "millis" | "milliseconds" => i64::from(at.millisecond()),
                other => return Err(args.invalid(format!("there is no part `{other}` of a time"))),
            };
            Ok(Value::Int(field))
        },
    ),
    FunctionRow::new(
        "apoc.date.convertFormat",
        "temporal: STRING?, currentFormat: STRING, convertTo: STRING? = 'yyyy-MM-dd'",
        StaticType::Any,
        "a time as text in another format: a pattern, or a name such as iso_offset_date_time",
        |args| {
            let args = Arguments::new("apoc.date.convertFormat", args);
            let (Some(text), Some(from), Some(to)) = (args.text(0)?, args.text(1)?, args.text(2)?)
            else {
                return Ok(Value::Null);
            };
            let at = parse(args, text, from, &TimeZone::UTC)?;
            format(args, &at, to).map(Value::from)
        },
    ),
    FunctionRow::new(
        "apoc.date.toISO8601",
        "time: INTEGER?, unit: STRING = 'ms'",
        StaticType::Any,
        "a time as text, such as 2021-06-07T09:53:02.000Z",
        |args| {
            let args = Arguments::new("apoc.date.toISO8601", args);
            let Some(time) = args.integer(0)? else {
                return Ok(Value::Null);
            };
            let at = zoned(args, time, 1, usize::MAX)?;
            format(args, &at, "yyyy-MM-dd'T'HH:mm:ss.SSSX").map(Value::from)
        },
    ),
    FunctionRow::new(
        "apoc.date.fromISO8601",
        "time: STRING?",
        StaticType::Any,
        "the milliseconds since 1970 of a text such as 2021-06-07T09:53:02.000Z",
        |args| {
            let args = Arguments::new("apoc.date.fromISO8601", args);
            let Some(text) = args.text(0)? else {
                return Ok(Value::Null);
            };
            let at = parse(args, text, "iso_zoned_date_time", &TimeZone::UTC)?;
            Ok(Value::Int(at.timestamp().as_millisecond()))
        },
    ),
];

/// The milliseconds of the unit that an argument names.
fn unit(args: Arguments<'_>, at: usize) -> Result<i64> {
    let name = args.text(at)?.unwrap_or("ms");
    Ok(match name.to_ascii_lowercase().as_str() {
        "ms" | "milli" | "millis" | "milliseconds" => 1,
        "s" | "second" | "seconds" => 1_000,
        "m" | "minute" | "minutes" => 60_000,
        "h" | "hour" | "hours" => 3_600_000,
        "d" | "day" | "days" => 86_400_000,
        other => {
            return Err(args.invalid(format!(
                "there is no unit `{other}`: the units are ms, s, m, h and d"
            )));
        }
    })
}

/// A time in the unit that an argument names, in milliseconds.
fn milliseconds(args: Arguments<'_>, time: i64, unit_at: usize) -> Result<i64> {
    let ms = time.checked_mul(unit(args, unit_at)?);
    ms.ok_or_else(|| args.invalid(format!("the time {time} does not fit into 64 bits of ms")))
}

fn time_zone(args: Arguments<'_>, at: usize) -> Result<TimeZone> {
    let name = args.text(at)?.unwrap_or_default();
    match name {
        "" | "UTC" | "Z" => Ok(TimeZone::UTC),
        name => TimeZone::get(name).map_err(|error| args.invalid(error)),
    }
}

fn at_millisecond(args: Arguments<'_>, ms: i64, zone: TimeZone) -> Result<Zoned> {
    let at = Timestamp::from_millisecond(ms).map_err(|error| args.invalid(error))?;
    Ok(at.to_zoned(zone))
}

/// The time of the first argument, in the unit and the time zone that other arguments name.
fn zoned(args: Arguments<'_>, time: i64, unit_at: usize, zone_at: usize) -> Result<Zoned> {
    let ms = milliseconds(args, time, unit_at)?;
    at_millisecond(args, ms, time_zone(args, zone_at)?)
}

/// Java's pattern of a format that APOC names.
fn named_pattern(name: &str) -> Option<&'static str> {
    Some(match name.to_ascii_lowercase().as_str() {
        "iso_date" | "iso_local_date" | "date" => "yyyy-MM-dd",
        "basic_date" => "yyyyMMdd",
        "iso_local_time" | "iso_time" => "HH:mm:ss",
        "iso_local_date_time" | "date_hour_minute_second" => "yyyy-MM-dd'T'HH:mm:ss",
        "date_hour_minute_second_millis" => "yyyy-MM-dd'T'HH:mm:ss.SSS",
        "basic_date_time" => "yyyyMMdd'T'HHmmss.SSSX",
        "basic_date_time_no_millis" => "yyyyMMdd'T'HHmmssX",
        "date_time" => "yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
        "date_time_no_millis" => "yyyy-MM-dd'T'HH:mm:ssXXX",
        "year" => "yyyy",
        "year_month" => "yyyy-MM",
        _ => return None,
    })
}

/// Whether a name means the format of ISO 8601 with as many digits as the time has.
fn is_iso_date_time(name: &str) -> bool {
    matches!(
        name.to_ascii_lowercase().as_str(),
        "iso_zoned_date_time" | "iso_offset_date_time" | "iso_date_time" | "iso_instant"
    )
}

/// Most repetitions of a letter in a pattern: as many digits as the year and fractions have in Java.
const MAX_REPEATED: usize = 19;

/// One part of a pattern: a letter and how often it is repeated, or a text.
enum Part {
    Field(char, usize),
    Text(String),
}

fn parts(pattern: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut letters = pattern.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\'' => {
                let mut text = String::new();
                if letters.next_if_eq(&'\'').is_some() {
                    text.push('\'');
                } else {
                    while let Some(letter) = letters.next() {
                        if letter != '\'' {
                            text.push(letter);
                        } else if letters.next_if_eq(&'\'').is_some() {
                            text.push('\'');
                        } else {
                            break;
                        }
                    }
                }
                parts.push(Part::Text(text));
            }
            letter if letter.is_ascii_alphabetic() => {
                let mut count = 1;
                while letters.next_if_eq(&letter).is_some() {
                    count += 1;
                }
                parts.push(Part::Field(letter, count));
            }
            letter => parts.push(Part::Text(letter.to_string())),
        }
    }
    parts
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];

/// A name, or its first three letters for up to three letters in the pattern.
fn name_of(names: &[&'static str], number: i8, count: usize) -> &'static str {
    let index = usize::try_from(number - 1).unwrap_or(0);
    let name = names.get(index).copied().unwrap_or_default();
    match count {
        0..=3 => &name[..3],
        _ => name,
    }
}

fn format(args: Arguments<'_>, at: &Zoned, pattern: &str) -> Result<String> {
    if is_iso_date_time(pattern) {
        let text = temporal::to_text(&Value::from(at.clone())).unwrap_or_default();
        // Only `iso_zoned_date_time` has the name of the zone.
        let is_zoned = pattern.eq_ignore_ascii_case("iso_zoned_date_time");
        let end = text.find('[').filter(|_| !is_zoned);
        return Ok(text[..end.unwrap_or(text.len())].to_owned());
    }
    let pattern = named_pattern(pattern).unwrap_or(pattern);
    let mut text = String::with_capacity(pattern.len() + 8);
    for part in parts(pattern) {
        let (letter, count) = match part {
            Part::Text(part) => {
                text.push_str(&part);
                continue;
            }
            Part::Field(letter, count) if count > MAX_REPEATED => {
                return Err(args.invalid(format!(
                    "the letter `{letter}` is repeated {count} times in the format: at most {MAX_REPEATED}"
                )));
            }
            Part::Field(letter, count) => (letter, count),
        };
        let number = |number: i64| format!("{number:0count$}");
        let hour = i64::from(at.hour());
        text.push_str(&match letter {
            'y' | 'u' if count == 2 => format!("{:02}", at.year().rem_euclid(100)),
            'y' | 'u' => number(at.year().into()),
            'M' | 'L' if count >= 3 => name_of(&MONTHS, at.month(), count).to_owned(),
            'M' | 'L' => number(at.month().into()),
            'd' => number(at.day().into()),
            'D' => number(at.day_of_year().into()),
            'E' => name_of(&DAYS, at.weekday().to_monday_one_offset(), count).to_owned(),
            'H' => number(hour),
            'k' => number(if hour == 0 { 24 } else { hour }),
            'K' => number(hour % 12),
            'h' => number(if hour % 12 == 0 { 12 } else { hour % 12 }),
            'a' => (if hour < 12 { "AM" } else { "PM" }).to_owned(),
            'm' => number(at.minute().into()),
            's' => number(at.second().into()),
            'S' => {
                let nanos = format!("{:09}", at.subsec_nanosecond());
                nanos[..count.min(9)].to_owned()
            }
            'X' | 'x' | 'Z' => offset_text(at.offset(), letter, count),
            'z' | 'V' => at.time_zone().iana_name().unwrap_or("UTC").to_owned(),
            other => return Err(unknown_letter(args, other)),
        });
    }
    Ok(text)
}

fn unknown_letter(args: Arguments<'_>, letter: char) -> crate::ExecError {
    args.invalid(format!(
        "the letter `{letter}` of the format is not available: use y M d D E H h k K m s S a X x Z z, and quotes for text"
    ))
}

fn offset_text(offset: Offset, letter: char, count: usize) -> String {
    let seconds = offset.seconds();
    if seconds == 0 && letter == 'X' {
        return "Z".to_owned();
    }
    let sign = if seconds < 0 { '-' } else { '+' };
    let (hours, minutes) = (seconds.abs() / 3_600, seconds.abs() / 60 % 60);
    let mut text = format!("{sign}{hours:02}");
    let has_colon = letter != 'Z' && count >= 3;
    if letter == 'Z' || count >= 2 || minutes != 0 {
        let colon = if has_colon { ":" } else { "" };
        // Writing to a string does not fail.
        let _ = write!(text, "{colon}{minutes:02}");
    }
    text
}

/// The fields of a time while they are read.
struct Fields {
    year: i16,
    month: i8,
    day: i8,
    hour: i8,
    minute: i8,
    second: i8,
    nanosecond: i32,
    is_afternoon: Option<bool>,
    zone: Option<TimeZone>,
}

fn parse(args: Arguments<'_>, text: &str, pattern: &str, zone: &TimeZone) -> Result<Zoned> {
    let wrong = || args.invalid(format!("`{text}` is not a time in the format `{pattern}`"));
    if is_iso_date_time(pattern) {
        if let Ok(at) = temporal::zoned_date_time_of_text(text) {
            return at_millisecond_of(args, &Value::from(at));
        }
        let local = temporal::local_date_time_of_text(text).map_err(|_| wrong())?;
        return local.to_zoned(zone.clone()).map_err(|_| wrong());
    }
    if pattern.eq_ignore_ascii_case("iso_local_date_time") {
        let local = temporal::local_date_time_of_text(text).map_err(|_| wrong())?;
        return local.to_zoned(zone.clone()).map_err(|_| wrong());
    }
    let mut fields = Fields {
        year: 1970,
        month: 1,
        day: 1,
        hour: 0,
        minute: 0,
        second: 0,
        nanosecond: 0,
        is_afternoon: None,
        zone: None,
    };
    let mut rest = text;
    let parts = parts(named_pattern(pattern).unwrap_or(pattern));
    for (at, part) in parts.iter().enumerate() {
        match part {
            Part::Text(part) => rest = rest.strip_prefix(part.as_str()).ok_or_else(wrong)?,
            Part::Field(letter, count) => {
                let is_last_digit = !matches!(parts.get(at + 1), Some(Part::Field(..)));
                let most = if is_last_digit { 9 } else { *count };
                rest = fields
                    .read(args, *letter, *count, most, rest)?
                    .ok_or_else(wrong)?;
            }
        }
    }
    if !rest.is_empty() {
        return Err(wrong());
    }
    let local = fields.local().ok_or_else(wrong)?;
    let zone = fields.zone.unwrap_or_else(|| zone.clone());
    local.to_zoned(zone).map_err(|_| wrong())
}

fn at_millisecond_of(args: Arguments<'_>, value: &Value) -> Result<Zoned> {
    match value {
        Value::ZonedDateTime(at) => at
            .to_jiff()
            .ok_or_else(|| args.invalid("the time is outside of the years -9999 to 9999")),
        other => Err(args.wrong("a time", other)),
    }
}

impl Fields {
    /// Reads a field from the start of a text, and returns the rest; none if the text does not fit.
    fn read<'t>(
        &mut self,
        args: Arguments<'_>,
        letter: char,
        count: usize,
        most: usize,
        text: &'t str,
    ) -> Result<Option<&'t str>> {
        match letter {
            'a' => {
                let mut halves = [("AM", false), ("PM", true)].into_iter();
                let half = text
                    .get(..2)
                    .and_then(|half| halves.find(|(name, _)| name.eq_ignore_ascii_case(half)));
                self.is_afternoon = half.map(|(_, is_afternoon)| is_afternoon);
                return Ok(half.map(|_| &text[2..]));
            }
            'X' | 'x' | 'Z' => return Ok(self.read_offset(text)),
            'E' | 'M' | 'L' if count >= 3 => {
                let names: &[&str] = if letter == 'E' { &DAYS } else { &MONTHS };
                return Ok(self.read_name(names, letter != 'E', count, text));
            }
            _ => {}
        }
        let length = text
            .bytes()
            .take(most)
            .take_while(u8::is_ascii_digit)
            .count();
        let (digits, rest) = text.split_at(length);
        let Ok(number) = digits.parse::<i32>() else {
            return Ok(None);
        };
        let small = i8::try_from(number).unwrap_or(i8::MAX);
        match letter {
            'y' | 'u' if count == 2 => {
                self.year = i16::try_from(2_000 + number).unwrap_or(i16::MAX)
            }
            'y' | 'u' => self.year = i16::try_from(number).unwrap_or(i16::MAX),
            'M' | 'L' => self.month = small,
            'd' => self.day = small,
            'H' | 'h' | 'K' => self.hour = small,
            'k' => self.hour = small % 24,
            'm' => self.minute = small,
            's' => self.second = small,
            'S' => {
                let power = u32::try_from(9_usize.saturating_sub(length)).unwrap_or(0);
                self.nanosecond = number.saturating_mul(10_i32.pow(power));
            }
            other => return Err(unknown_letter(args, other)),
        }
        Ok(Some(rest))
    }

    fn read_name<'t>(
        &mut self,
        names: &[&str],
        is_month: bool,
        count: usize,
        text: &'t str,
    ) -> Option<&'t str> {
        for (at, name) in names.iter().enumerate() {
            let name = if count > 3 { name } else { &name[..3] };
            let start = text.get(..name.len());
            if start.is_some_and(|start| start.eq_ignore_ascii_case(name)) {
                if is_month {
                    self.month = i8::try_from(at + 1).unwrap_or(1);
                }
                return Some(&text[name.len()..]);
            }
        }
        None
    }

    fn read_offset<'t>(&mut self, text: &'t str) -> Option<&'t str> {
        if let Some(rest) = text.strip_prefix('Z') {
            self.zone = Some(TimeZone::UTC);
            return Some(rest);
        }
        let sign = match text.as_bytes().first()? {
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        let hours: i32 = text.get(1..3)?.parse().ok()?;
        let rest = &text[3..];
        let digits = rest.strip_prefix(':').unwrap_or(rest);
        let minutes = digits
            .get(..2)
            .and_then(|digits| digits.parse::<i32>().ok());
        let rest = if minutes.is_some() {
            &digits[2..]
        } else {
            rest
        };
        let seconds = sign * (hours * 3_600 + minutes.unwrap_or(0) * 60);
        self.zone = Some(TimeZone::fixed(Offset::from_seconds(seconds).ok()?));
        Some(rest)
    }

    fn local(&self) -> Option<civil::DateTime> {
        let hour = match self.is_afternoon {
            None => self.hour,
            Some(is_afternoon) => self.hour % 12 + if is_afternoon { 12 } else { 0 },
        };
        let date = civil::Date::new(self.year, self.month, self.day).ok()?;
        let time = civil::Time::new(hour, self.minute, self.second, self.nanosecond).ok()?;
        Some(date.to_datetime(time))
    }
}
