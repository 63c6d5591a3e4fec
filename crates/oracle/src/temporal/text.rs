//! Temporal values from and to the text of ISO 8601.

use crate::Datum;
use crate::calendar::{Clock, Date, Moment, Offset, SECOND};
use crate::fault::{Result, in_range, raised, unsupported};
use crate::span::{Span, Sum};

/// The text of a temporal value; `None` for other values.
pub fn show(value: &Datum) -> Option<String> {
    Some(match value {
        Datum::Date(date) => show_date(*date),
        Datum::LocalTime(clock) => show_clock(*clock),
        Datum::Time(clock, offset) => show_clock(*clock) + &show_offset(*offset),
        Datum::LocalDateTime(date, clock) => format!("{}T{}", show_date(*date), show_clock(*clock)),
        Datum::DateTime(moment) => {
            let local = format!("{}T{}", show_date(moment.date), show_clock(moment.clock));
            let offset = show_offset(moment.offset);
            match &moment.zone {
                Some(zone) => format!("{local}{offset}[{zone}]"),
                None => local + &offset,
            }
        }
        Datum::Duration(span) => show_span(span),
        _ => return None,
    })
}

fn show_date(date: Date) -> String {
    let (year, month, day) = date.parts();
    let sign = if year < 0 { "-" } else { "" };
    format!("{sign}{:04}-{month:02}-{day:02}", year.abs())
}

/// Seconds are left out if they are 0; their fraction has no trailing zeros.
fn show_clock(clock: Clock) -> String {
    let (hour, minute, second, nanos) = clock.parts();
    let mut text = format!("{hour:02}:{minute:02}");
    if second > 0 || nanos > 0 {
        text += &format!(":{second:02}{}", fraction(nanos));
    }
    text
}

fn fraction(nanos: i64) -> String {
    match nanos {
        0 => String::new(),
        nanos => format!(".{}", format!("{nanos:09}").trim_end_matches('0')),
    }
}

pub(super) fn show_offset(offset: Offset) -> String {
    let seconds = offset.0.abs();
    let sign = if offset.0 < 0 { '-' } else { '+' };
    let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match (seconds, rest) {
        (0, _) => "Z".into(),
        (_, 0) => format!("{sign}{hours:02}:{minutes:02}"),
        _ => format!("{sign}{hours:02}:{minutes:02}:{rest:02}"),
    }
}

/// The name of a time zone, or its offset.
pub(super) fn zone_text(offset: Offset, zone: Option<&str>) -> String {
    zone.map_or_else(|| show_offset(offset), str::to_owned)
}

/// Every part has its own sign; a part that is 0 is left out.
fn show_span(span: &Span) -> String {
    let part = |amount: i64, unit: char| match amount {
        0 => String::new(),
        amount => format!("{amount}{unit}"),
    };
    let date = part(span.months / 12, 'Y') + &part(span.months % 12, 'M') + &part(span.days, 'D');
    let second = i128::from(SECOND);
    let (seconds, nanos) = ((span.nanos / second) as i64, (span.nanos % second) as i64);
    let mut time = part(seconds / 3600, 'H') + &part(seconds / 60 % 60, 'M');
    if seconds % 60 != 0 || nanos != 0 {
        let sign = if span.nanos < 0 { "-" } else { "" };
        time += &format!("{sign}{}{}S", (seconds % 60).abs(), fraction(nanos.abs()));
    }
    match (date.is_empty(), time.is_empty()) {
        (true, true) => "PT0S".into(),
        (_, true) => format!("P{date}"),
        _ => format!("P{date}T{time}"),
    }
}

/// A value of the function's type.
pub(super) fn parse(function: &str, text: &str) -> Result<Datum> {
    let bad = || raised(format!("`{text}` is not a {function}"));
    if text.contains('[') {
        return unsupported("named time zones");
    }
    let (date, time) = match function {
        "date" => (Some(text), None),
        "localtime" | "time" => (None, Some(text)),
        _ => match text.split_once('T') {
            Some((date, time)) => (Some(date), Some(time)),
            None => (Some(text), None),
        },
    };
    let Some(date) = date.map_or(Some(None), |text| parse_date(text).map(Some)) else {
        return bad();
    };
    let has_offset = matches!(function, "time" | "datetime");
    let (time, offset) = match time {
        Some(time) if has_offset => {
            let at = time.find(['Z', '+', '-']).unwrap_or(time.len());
            let Some(offset) = parse_offset(&time[at..]) else {
                return bad();
            };
            (Some(&time[..at]), offset)
        }
        other => (other, Offset(0)),
    };
    let Some(clock) = time.map_or(Some(Clock(0)), parse_clock) else {
        return bad();
    };
    Ok(match (function, date) {
        ("date", Some(date)) => Datum::Date(date),
        ("localdatetime", Some(date)) => Datum::LocalDateTime(date, clock),
        ("datetime", Some(date)) => Moment {
            date,
            clock,
            offset,
            zone: None,
        }
        .into(),
        ("localtime", _) => Datum::LocalTime(clock),
        _ => Datum::Time(clock, offset),
    })
}

/// The number that `text` is, if it has that many digits.
fn digits(text: &str, count: usize) -> Option<i64> {
    let fits = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    fits.then(|| text.parse().ok()).flatten()
}

/// Year; year and month; year, month and day; year and week, or also the weekday; year and day of the year. Each with
/// hyphens or without.
fn parse_date(text: &str) -> Option<Date> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (year, rest) = text.split_at_checked(4)?;
    let year = sign * digits(year, 4)?;
    if let Some(week) = rest.strip_prefix("-W").or_else(|| rest.strip_prefix('W')) {
        let (week, day) = week.split_at_checked(2)?;
        let weekday = match (day, rest.starts_with('-')) {
            ("", _) => 1,
            (day, true) => digits(day.strip_prefix('-')?, 1)?,
            (day, false) => digits(day, 1)?,
        };
        return Date::of_week(year, digits(week, 2)?, weekday);
    }
    let (fields, has_hyphens) = match rest.strip_prefix('-') {
        Some(fields) => (fields, true),
        None => (rest, false),
    };
    match (fields.len(), has_hyphens) {
        (0, false) => Date::of(year, 1, 1),
        (2, _) => Date::of(year, digits(fields, 2)?, 1),
        (3, _) => Date::of_ordinal(year, digits(fields, 3)?),
        (4, false) => Date::of(
            year,
            digits(fields.get(..2)?, 2)?,
            digits(fields.get(2..)?, 2)?,
        ),
        (5, true) => {
            let (month, day) = fields.split_once('-')?;
            Date::of(year, digits(month, 2)?, digits(day, 2)?)
        }
        _ => None,
    }
}

/// Hour; hour and minute; hour, minute and second with up to nine digits of a fraction. With colons or without.
fn parse_clock(text: &str) -> Option<Clock> {
    let (text, fraction) = match text.split_once(['.', ',']) {
        Some((text, fraction)) => (text, Some(fraction)),
        None => (text, None),
    };
    let compact = match text.len() {
        5 | 8 => text.replace(':', ""),
        _ => text.to_owned(),
    };
    let field = |at: usize| match compact.get(at..) {
        None | Some("") => Some(0),
        Some(rest) => digits(rest.get(..2)?, 2),
    };
    if ![2, 4, 6].contains(&compact.len()) || (fraction.is_some() && compact.len() < 6) {
        return None;
    }
    let nanos = match fraction {
        None => 0,
        Some(fraction) if (1..=9).contains(&fraction.len()) => {
            digits(&format!("{fraction:0<9}"), 9)?
        }
        Some(_) => return None,
    };
    Clock::of(field(0)?, field(2)?, field(4)?, nanos)
}

/// `Z`, nothing, or a sign with hours, minutes and seconds.
fn parse_offset(text: &str) -> Option<Offset> {
    let sign = match text.chars().next() {
        None => return Some(Offset(0)),
        Some('Z') if text.len() == 1 => return Some(Offset(0)),
        Some('+') => 1,
        Some('-') => -1,
        Some(_) => return None,
    };
    let (hour, minute, second, _) = parse_clock(&text[1..])?.parts();
    let seconds = (hour * 60 + minute) * 60 + second;
    (seconds <= 18 * 3600).then_some(Offset(sign * seconds))
}

/// `P` and amounts with units, or with a date and a time in their place.
pub(super) fn parse_span(text: &str) -> Result<Span> {
    let bad = || raised(format!("`{text}` is not a duration"));
    let Some(rest) = text.strip_prefix('P') else {
        return bad();
    };
    let (date, time) = match rest.split_once('T') {
        Some((date, time)) => (date, Some(time)),
        None => (rest, None),
    };
    let mut sum = Sum::default();
    let is_date_form = date.contains('-') && date.ends_with(|last: char| last.is_ascii_digit());
    if is_date_form {
        let (Some(date), Some(clock)) = (parse_date(date), parse_clock(time.unwrap_or("00")))
        else {
            return bad();
        };
        let ((years, months, days), (hours, minutes, seconds, nanos)) =
            (date.parts(), clock.parts());
        for (unit, amount) in [
            ("years", years),
            ("months", months),
            ("days", days),
            ("hours", hours),
            ("minutes", minutes),
            ("seconds", seconds),
            ("nanoseconds", nanos),
        ] {
            sum.add(unit, amount as f64)?;
        }
        return sum.span();
    }
    let dates = [
        ('Y', "years"),
        ('M', "months"),
        ('W', "weeks"),
        ('D', "days"),
    ];
    let times = [('H', "hours"), ('M', "minutes"), ('S', "seconds")];
    let whole = amounts(date, &dates, &mut sum)
        .and_then(|some| Some(some + amounts(time.unwrap_or(""), &times, &mut sum)?));
    match whole {
        Some(1..) if time != Some("") => sum.span(),
        _ => bad(),
    }
}

/// Adds amounts with units in that order; returns how many there are.
fn amounts(text: &str, units: &[(char, &str)], sum: &mut Sum) -> Option<usize> {
    let (mut rest, mut units, mut count) = (text, units.iter(), 0);
    while !rest.is_empty() {
        let at = rest.find(|one: char| !one.is_ascii_digit() && !"+-.,".contains(one))?;
        let unit = rest[at..].chars().next()?;
        let (_, name) = units.find(|(letter, _)| *letter == unit)?;
        let amount: f64 = rest[..at].replace(',', ".").parse().ok()?;
        match *name {
            // Exactly: a double of seconds does not hold nanoseconds.
            "seconds" => add_seconds(&rest[..at].replace(',', "."), sum)?,
            name => sum.add(name, amount).ok()?,
        }
        rest = &rest[at + unit.len_utf8()..];
        count += 1;
    }
    Some(count)
}

fn add_seconds(text: &str, sum: &mut Sum) -> Option<()> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let fraction = format!("{fraction:0<9}");
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    sum.add("seconds", whole.parse::<i64>().ok()? as f64).ok()?;
    let nanos = digits(fraction.get(..9)?, 9)?;
    sum.add("nanoseconds", sign * nanos as f64).ok()
}

/// A time zone given as text; only offsets are supported.
pub(super) fn zone_of(value: &Datum) -> Result<Offset> {
    match value {
        Datum::Text(text) if text.contains(|one: char| one.is_ascii_lowercase()) => {
            unsupported("named time zones")
        }
        Datum::Text(text) if text.is_empty() => raised("an empty time zone"),
        Datum::Text(text) => in_range(parse_offset(text), "offset"),
        _ => raised("a time zone is text"),
    }
}
