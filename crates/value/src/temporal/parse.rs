//! Parses temporal values in all forms of ISO 8601 that the language accepts.
//!
//! Dates: `2015-07-21`, `20150721`, `2015-07`, `201507`, `2015-W30-2`, `2015W302`, `2015-W30`, `2015W30`,
//! `2015-Q2-60`, `2015Q260`, `2015-Q2`, `2015Q2`, `2015-202`, `2015202`, `2015`; a signed year may have any length and
//! must be followed by dashes. Times, optionally with a `T` before them: `21:40:32.142`, `214032.142`, `21:40:32`,
//! `214032`, `21:40`, `2140`, `21`. Zones: `Z`, `+01:00:30`, `+01:00`, `+0100`, `+01`, and, after those or alone, a
//! name: `[Europe/Stockholm]`.

use std::str::FromStr;

use jiff::{
    civil,
    tz::{Offset, TimeZone},
};

use super::{
    calendar::{calendar_date, ordinal_date, quarter_date, week_date, within},
    format::OffsetText,
    parts::zone_of_name,
    zoned_date_time::offsets_at,
};
use crate::{ValueError, ZonedDateTime, ZonedTime};

/// A text that is being parsed; all forms are ASCII.
pub(super) struct Scanner<'a> {
    what: &'static str,
    text: &'a str,
    rest: &'a str,
}

impl<'a> Scanner<'a> {
    pub fn new(what: &'static str, text: &'a str) -> Self {
        Self {
            what,
            text,
            rest: text,
        }
    }

    /// A scanner of a part of the text; its errors show the whole text.
    fn part(&self, rest: &'a str) -> Self {
        Self { rest, ..*self }
    }

    #[cold]
    pub fn error(&self, reason: impl Into<String>) -> ValueError {
        let text = self.text.chars().take(60).collect();
        ValueError::Syntax {
            what: self.what,
            text,
            reason: reason.into(),
        }
    }

    pub fn rest(&self) -> &'a str {
        self.rest
    }

    pub fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn eat(&mut self, wanted: char) -> bool {
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// The longest run of digits at the position.
    pub fn digits(&mut self) -> &'a str {
        let len = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.rest.split_at(len);
        self.rest = rest;
        digits
    }

    /// Exactly `count` digits, more may follow.
    fn number(&mut self, count: usize, name: &str) -> Result<i64, ValueError> {
        let digits = self
            .rest
            .get(..count)
            .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let number = digits.and_then(|digits| digits.parse().ok());
        let number = number
            .ok_or_else(|| self.error(format!("{count} digits of the {name} are expected")))?;
        self.rest = &self.rest[count..];
        Ok(number)
    }

    /// Digits after a point or comma as billionths; further digits are truncated. 0 if there is no point.
    pub fn billionths(&mut self) -> Result<i64, ValueError> {
        if !self.eat('.') && !self.eat(',') {
            return Ok(0);
        }
        let digits = self.digits();
        if digits.is_empty() {
            return Err(self.error("digits are expected behind the decimal point"));
        }
        let kept = &digits[..digits.len().min(9)];
        let number: i64 = kept
            .parse()
            .map_err(|_| self.error("the fraction is not a number"))?;
        Ok(number * 10_i64.pow(9 - kept.len() as u32))
    }

    fn end(&self) -> Result<(), ValueError> {
        if self.is_at_end() {
            Ok(())
        } else {
            Err(self.error(format!("`{}` is not expected", self.rest)))
        }
    }
}

/// A date.
pub(super) fn date(text: &str) -> Result<civil::Date, ValueError> {
    whole_date(Scanner::new("date", text))
}

/// A time without zone.
pub(super) fn local_time(text: &str) -> Result<civil::Time, ValueError> {
    let scanner = Scanner::new("local time", text);
    whole_time(scanner.part(without_mark(text)))
}

/// A time with an offset; without one it gets `default`, or is refused if there is none.
pub(super) fn zoned_time(text: &str, default: Option<Offset>) -> Result<ZonedTime, ValueError> {
    let scanner = Scanner::new("zoned time", text);
    let (clock, zone) = split_zone(without_mark(text));
    let time = whole_time(scanner.part(clock))?;
    let (offset, name) = zone_parts(scanner.part(zone))?;
    match name {
        Some(_) => Err(scanner
            .error("a time without a date takes an offset such as +01:00, not a zone's name")),
        None => Ok(ZonedTime {
            time,
            offset: offset.or(default).ok_or_else(|| {
                scanner.error("it has no offset: write one such as +01:00 behind it")
            })?,
        }),
    }
}

/// A date and a time without zone; midnight without a time.
pub(super) fn local_date_time(text: &str) -> Result<civil::DateTime, ValueError> {
    let scanner = Scanner::new("local date-time", text);
    let (date, clock) = split_time(text);
    let date = whole_date(scanner.part(date))?;
    Ok(
        date.to_datetime(clock.map_or(Ok(civil::Time::midnight()), |clock| {
            whole_time(scanner.part(clock))
        })?),
    )
}

/// A date, a time and a zone; without a zone it gets `default`, or is refused if there is none. An offset before a
/// zone's name must be one that the zone has at that time; it selects one of two occurrences of a local time. `Z`
/// before a zone is not an offset of the zone (RFC 9557): the time is in UTC, and the value is the same instant in the
/// zone.
pub(super) fn zoned_date_time(
    text: &str,
    default: Option<&TimeZone>,
) -> Result<ZonedDateTime, ValueError> {
    let scanner = Scanner::new("zoned date-time", text);
    let (date, clock) = split_time(text);
    let date = whole_date(scanner.part(date))?;
    let (clock, zone) = clock.map_or(("00", ""), split_zone);
    let local = date.to_datetime(whole_time(scanner.part(clock))?);
    match (zone_parts(scanner.part(zone))?, default) {
        ((Some(offset), None), _) => Ok(ZonedDateTime::of_offset(local, offset)),
        ((Some(offset), Some(name)), _) => {
            let named = zone_of_name(name)?;
            if zone.starts_with(['Z', 'z']) {
                return ZonedDateTime::of_offset(local, offset).with_time_zone(named);
            }
            let allowed = offsets_at(&named, local);
            if !allowed.contains(&Some(offset)) {
                return Err(scanner.error(disagreement(offset, name, allowed[0])));
            }
            ZonedDateTime::of_local_with_offset(local, offset, named)
        }
        ((None, Some(name)), _) => ZonedDateTime::of_local(local, zone_of_name(name)?),
        ((None, None), Some(default)) => ZonedDateTime::of_local(local, default.clone()),
        ((None, None), None) => Err(scanner.error(
            "it has no zone: write an offset such as +01:00 or [Area/City] behind the time",
        )),
    }
}

/// Parses the text forms that the language's `datetime()` accepts, with an offset, a zone or both.
impl FromStr for ZonedDateTime {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        zoned_date_time(text, None)
    }
}

fn disagreement(offset: Offset, name: &str, allowed: Option<Offset>) -> String {
    match allowed {
        Some(allowed) => format!(
            "{name} is at {} then, not at {}: leave the offset or the zone out",
            OffsetText(allowed),
            OffsetText(offset)
        ),
        None => format!("clocks in {name} skip that time: leave the zone out"),
    }
}

/// A zone: an offset or a name.
pub(super) fn zone(text: &str) -> Result<TimeZone, ValueError> {
    let is_offset = text.starts_with(['+', '-']) || matches!(text, "Z" | "z");
    if !is_offset {
        return zone_of_name(text);
    }
    let mut scanner = Scanner::new("time zone", text);
    let offset = offset(&mut scanner)?;
    scanner.end()?;
    Ok(TimeZone::fixed(offset))
}

/// A time without its optional `T`.
fn without_mark(text: &str) -> &str {
    text.strip_prefix(['T', 't']).unwrap_or(text)
}

fn split_time(text: &str) -> (&str, Option<&str>) {
    text.split_once(['T', 't'])
        .map_or((text, None), |(date, clock)| (date, Some(clock)))
}

fn split_zone(clock: &str) -> (&str, &str) {
    clock.split_at(clock.find(['Z', 'z', '+', '-', '[']).unwrap_or(clock.len()))
}

fn whole_date(mut scanner: Scanner<'_>) -> Result<civil::Date, ValueError> {
    let sign = if scanner.eat('-') {
        Some(-1)
    } else {
        scanner.eat('+').then_some(1)
    };
    let start = scanner.rest();
    let run = scanner.digits();
    let is_long =
        sign.is_some() && run.len() > 4 && (scanner.is_at_end() || scanner.rest().starts_with('-'));
    let year_len = if is_long { run.len() } else { 4 };
    let year = start
        .get(..year_len)
        .and_then(|year| year.parse().ok())
        .filter(|_| run.len() >= 4);
    let year: i64 = year.ok_or_else(|| scanner.error("a year of four digits is expected"))?;
    let year = year * sign.unwrap_or(1);
    scanner.rest = &start[year_len..];
    if scanner.is_at_end() {
        return calendar_date(year, 1, 1);
    }
    let dashed = scanner.eat('-');
    let separated = |scanner: &mut Scanner<'_>| {
        if dashed {
            scanner.eat('-')
        } else {
            !scanner.is_at_end()
        }
    };
    let date = if scanner.eat('W') {
        let week = scanner.number(2, "week")?;
        let day = if separated(&mut scanner) {
            scanner.number(1, "day of the week")?
        } else {
            1
        };
        week_date(year, week, day)
    } else if scanner.eat('Q') {
        let quarter = scanner.number(1, "quarter")?;
        let day = if separated(&mut scanner) {
            scanner.number(2, "day of the quarter")?
        } else {
            1
        };
        quarter_date(year, quarter, day)
    } else if scanner
        .rest()
        .bytes()
        .take_while(u8::is_ascii_digit)
        .count()
        == 3
    {
        ordinal_date(year, scanner.number(3, "day of the year")?)
    } else {
        let month = scanner.number(2, "month")?;
        let day = if separated(&mut scanner) {
            scanner.number(2, "day")?
        } else {
            1
        };
        calendar_date(year, month, day)
    };
    scanner.end().and(date)
}

fn whole_time(mut scanner: Scanner<'_>) -> Result<civil::Time, ValueError> {
    let hour = scanner.number(2, "hour")?;
    let colons = scanner.eat(':');
    let (mut minute, mut second, mut nanos) = (0, 0, 0);
    if colons || !scanner.is_at_end() {
        minute = scanner.number(2, "minute")?;
        if if colons {
            scanner.eat(':')
        } else {
            !scanner.is_at_end()
        } {
            second = scanner.number(2, "second")?;
            nanos = scanner.billionths()?;
        }
    }
    scanner.end()?;
    time(hour, minute, second, nanos)
}

/// The time of these parts.
pub(super) fn time(
    hour: i64,
    minute: i64,
    second: i64,
    nanos: i64,
) -> Result<civil::Time, ValueError> {
    let hour = within("hour", hour, 0, 23)? as i8;
    let minute = within("minute", minute, 0, 59)? as i8;
    let second = within("second", second, 0, 59)? as i8;
    let nanos = within("nanosecond", nanos, 0, 999_999_999)? as i32;
    Ok(civil::time(hour, minute, second, nanos))
}

/// An offset and a zone's name, if they are given.
fn zone_parts(mut scanner: Scanner<'_>) -> Result<(Option<Offset>, Option<&str>), ValueError> {
    let offset = match scanner.rest().chars().next() {
        None | Some('[') => None,
        Some(_) => Some(offset(&mut scanner)?),
    };
    if scanner.is_at_end() {
        return Ok((offset, None));
    }
    let name = scanner
        .rest()
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    name.map(|name| (offset, Some(name))).ok_or_else(|| {
        scanner.error(format!(
            "`{}` is not a zone: write [Area/City] behind the time",
            scanner.rest()
        ))
    })
}

fn offset(scanner: &mut Scanner<'_>) -> Result<Offset, ValueError> {
    if scanner.eat('Z') || scanner.eat('z') {
        return Ok(Offset::UTC);
    }
    let sign = if scanner.eat('-') {
        -1
    } else {
        i64::from(scanner.eat('+'))
    };
    if sign == 0 {
        return Err(scanner.error("an offset such as +01:00 is expected"));
    }
    let mut seconds = scanner.number(2, "offset")? * 3600;
    let colons = scanner.eat(':');
    let more = |scanner: &Scanner<'_>| {
        scanner
            .rest()
            .starts_with(|next: char| next.is_ascii_digit())
    };
    if colons || more(scanner) {
        seconds += within(
            "minute of the offset",
            scanner.number(2, "minute of the offset")?,
            0,
            59,
        )? * 60;
        if if colons {
            scanner.eat(':')
        } else {
            more(scanner)
        } {
            seconds += within(
                "second of the offset",
                scanner.number(2, "second of the offset")?,
                0,
                59,
            )?;
        }
    }
    let seconds = within("offset in seconds", sign * seconds, -18 * 3600, 18 * 3600)?;
    Offset::from_seconds(seconds as i32).map_err(|_| scanner.error("the offset is out of range"))
}
