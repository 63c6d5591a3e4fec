//! Temporal values as text: ISO 8601 in openCypher's canonical form.
//!
//! Seconds are omitted if they and their fraction are 0, fractions have no trailing zeros, an offset of 0 is `Z`, a
//! named zone follows in brackets: `1984-10-11T12:31:14.645+01:00[Europe/Stockholm]`.

use std::fmt::{self, Display, Formatter};

use jiff::{civil, tz::Offset};

use super::clock::NANOS_PER_SECOND;
use crate::{Duration, Value, ZonedDateTime, ZonedTime};

/// The canonical text of a temporal value; none for others.
pub fn to_text(value: &Value) -> Option<String> {
    Some(match value {
        Value::Date(date) => DateText(*date).to_string(),
        Value::LocalTime(time) => TimeText(*time).to_string(),
        Value::ZonedTime(time) => time.to_string(),
        Value::LocalDateTime(date_time) => LocalDateTimeText(*date_time).to_string(),
        Value::ZonedDateTime(zoned) => zoned.to_string(),
        Value::Duration(duration) => duration.to_string(),
        _ => return None,
    })
}

struct DateText(civil::Date);
struct TimeText(civil::Time);
struct LocalDateTimeText(civil::DateTime);
pub(super) struct OffsetText(pub Offset);

impl Display for DateText {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let sign = if self.0.year() < 0 { "-" } else { "" };
        let year = self.0.year().unsigned_abs();
        write!(
            f,
            "{sign}{year:04}-{:02}-{:02}",
            self.0.month(),
            self.0.day()
        )
    }
}

impl Display for TimeText {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.0.hour(), self.0.minute())?;
        if self.0.second() != 0 || self.0.subsec_nanosecond() != 0 {
            write!(f, ":{:02}", self.0.second())?;
            write_fraction(f, self.0.subsec_nanosecond().into())?;
        }
        Ok(())
    }
}

impl Display for LocalDateTimeText {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}T{}", DateText(self.0.date()), TimeText(self.0.time()))
    }
}

impl Display for OffsetText {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let seconds = self.0.seconds();
        if seconds == 0 {
            return f.write_str("Z");
        }
        let sign = if seconds < 0 { '-' } else { '+' };
        let size = seconds.unsigned_abs();
        write!(f, "{sign}{:02}:{:02}", size / 3600, size / 60 % 60)?;
        if !size.is_multiple_of(60) {
            write!(f, ":{:02}", size % 60)
        } else {
            Ok(())
        }
    }
}

impl Display for ZonedDateTime {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}{}",
            LocalDateTimeText(self.datetime()),
            OffsetText(self.offset())
        )?;
        self.zone_name()
            .map_or(Ok(()), |name| write!(f, "[{name}]"))
    }
}

impl Display for ZonedTime {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", TimeText(self.time), OffsetText(self.offset))
    }
}

/// `P1Y2M3DT4H5M6.7S`; every part has its own sign, parts of 0 are omitted, and the zero duration is `PT0S`.
impl Display for Duration {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let part = |f: &mut Formatter<'_>, amount: i64, unit: char| match amount {
            0 => Ok(()),
            amount => write!(f, "{amount}{unit}"),
        };
        f.write_str("P")?;
        part(f, self.months / 12, 'Y')?;
        part(f, self.months % 12, 'M')?;
        part(f, self.days, 'D')?;
        if self.seconds == 0 && self.nanos == 0 {
            return f.write_str(if self.months == 0 && self.days == 0 {
                "T0S"
            } else {
                ""
            });
        }
        f.write_str("T")?;
        let nanos = self.time_nanos();
        let unit = i128::from(NANOS_PER_SECOND);
        let seconds = (nanos / unit) as i64; // was 64 bits before
        part(f, seconds / 3600, 'H')?;
        part(f, seconds / 60 % 60, 'M')?;
        let fraction = (nanos % unit) as i64;
        if seconds % 60 != 0 || fraction != 0 {
            let sign = if nanos < 0 { "-" } else { "" };
            write!(f, "{sign}{}", (seconds % 60).abs())?;
            write_fraction(f, fraction.abs())?;
            f.write_str("S")?;
        }
        Ok(())
    }
}

/// A decimal point and `nanos` as a fraction of a second, without trailing zeros; empty for 0.
fn write_fraction(f: &mut Formatter<'_>, nanos: i64) -> fmt::Result {
    if nanos == 0 {
        return Ok(());
    }
    let digits = format!("{nanos:09}");
    write!(f, ".{}", digits.trim_end_matches('0'))
}
