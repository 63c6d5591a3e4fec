//! Durations from text and from maps: sums of amounts of units.

use super::{
    clock::{NANOS_PER_SECOND, nanos_of_day},
    fields::Fields,
    parse::{Scanner, date as parse_date, local_time as parse_time},
};
use crate::{Duration, Map, Value, ValueError};

/// Every unit: its name in maps, its letter in text (those of time after a `T`), and its length in months, days or
/// nanoseconds.
const UNITS: [(&str, Option<char>, Share); 11] = [
    ("years", Some('Y'), Share::Months(12)),
    ("quarters", Some('Q'), Share::Months(3)),
    ("months", Some('M'), Share::Months(1)),
    ("weeks", Some('W'), Share::Days(7)),
    ("days", Some('D'), Share::Days(1)),
    ("hours", Some('H'), Share::Nanos(3600 * NANOS_PER_SECOND)),
    ("minutes", Some('M'), Share::Nanos(60 * NANOS_PER_SECOND)),
    ("seconds", Some('S'), Share::Nanos(NANOS_PER_SECOND)),
    ("milliseconds", None, Share::Nanos(1_000_000)),
    ("microseconds", None, Share::Nanos(1_000)),
    ("nanoseconds", None, Share::Nanos(1)),
];

/// Index of the first unit of time in [`UNITS`].
const FIRST_TIME_UNIT: usize = 5;

#[derive(Clone, Copy)]
enum Share {
    Months(i64),
    Days(i64),
    Nanos(i64),
}

/// Months, days and seconds in billionths.
#[derive(Default)]
struct Sum {
    months: i128,
    days: i128,
    seconds: i128,
}

impl Sum {
    /// Adds an amount of a unit, given in billionths of it.
    fn add(&mut self, share: Share, billionths: i128) -> Option<()> {
        let (sum, amount) = match share {
            Share::Months(months) => (&mut self.months, billionths.checked_mul(months.into())?),
            Share::Days(days) => (&mut self.days, billionths.checked_mul(days.into())?),
            Share::Nanos(nanos) => {
                let unit = i128::from(NANOS_PER_SECOND);
                (
                    &mut self.seconds,
                    billionths.checked_mul(nanos.into())? / unit,
                )
            }
        };
        *sum = sum.checked_add(amount)?;
        Some(())
    }

    fn duration(&self) -> Option<Duration> {
        Duration::from_billionths(self.months, self.days, self.seconds)
    }
}

fn overflow() -> ValueError {
    ValueError::Overflow {
        operation: "a duration".to_owned(),
    }
}

/// `duration(value)` of text, a map of amounts, or a duration. Null gives null.
pub(super) fn create(args: &[Value]) -> Result<Value, ValueError> {
    match args {
        [Value::Null] => Ok(Value::Null),
        [Value::String(text)] => of_text(text).map(Value::from),
        [Value::Map(map)] => of_map(map).map(Value::from),
        [value @ Value::Duration(_)] => Ok(value.clone()),
        other => Err(ValueError::Type {
            operation: "duration".to_owned(),
            expected: "STRING or MAP",
            found: other.first().map_or("no argument", Value::type_name),
        }),
    }
}

fn of_map(map: &Map) -> Result<Duration, ValueError> {
    let fields = Fields::new("duration", map, &[&UNITS.map(|(name, _, _)| name)])?;
    let mut sum = Sum::default();
    for (name, _, share) in UNITS {
        let billionths = match fields.get(name) {
            None => continue,
            Some(Value::Int(int)) => i128::from(*int) * i128::from(NANOS_PER_SECOND),
            Some(Value::Float(float)) if float.abs() < 1e27 => {
                (float * NANOS_PER_SECOND as f64).round() as i128
            }
            Some(Value::Float(float)) => {
                return Err(fields.error(format!("`{name}` of {float} is too large")));
            }
            Some(other) => {
                return Err(fields.error(format!(
                    "`{name}` takes a number, not {}",
                    other.type_name()
                )));
            }
        };
        sum.add(share, billionths).ok_or_else(overflow)?;
    }
    sum.duration().ok_or_else(overflow)
}

/// `P12Y5M14DT16H12M70.5S`, each amount with its own sign and fraction, units in this order; or
/// `P2012-02-02T14:37:21.545`.
pub(super) fn of_text(text: &str) -> Result<Duration, ValueError> {
    let mut scanner = Scanner::new("duration", text);
    let negative = scanner.eat('-');
    if !scanner.eat('P') {
        return Err(scanner.error("it starts with `P`"));
    }
    let year = scanner.rest().split_once('-').map_or("", |(year, _)| year);
    let is_like_date = year.len() == 4 && year.bytes().all(|byte| byte.is_ascii_digit());
    let duration = if is_like_date {
        parse_as_date(&scanner)?
    } else {
        parse_units(&mut scanner)?
    };
    if negative {
        duration.negate().ok_or_else(overflow)
    } else {
        Ok(duration)
    }
}

fn parse_units(scanner: &mut Scanner<'_>) -> Result<Duration, ValueError> {
    let mut sum = Sum::default();
    let mut units = UNITS[..FIRST_TIME_UNIT].iter();
    let (mut in_time, mut is_open) = (false, true);
    while !scanner.is_at_end() {
        if !in_time && scanner.eat('T') {
            in_time = true;
            is_open = true;
            units = UNITS[FIRST_TIME_UNIT..].iter();
            continue;
        }
        let billionths = amount(scanner)?;
        let letter = scanner.rest().chars().next();
        let unit = letter.and_then(|letter| units.find(|(_, own, _)| *own == Some(letter)));
        let Some((_, Some(letter), share)) = unit else {
            let expected = if in_time { "H, M, S" } else { "Y, M, W, D" };
            return Err(scanner.error(format!(
                "an amount must be followed by one of {expected}, in this order, each at most once"
            )));
        };
        scanner.eat(*letter);
        sum.add(*share, billionths).ok_or_else(overflow)?;
        is_open = false;
    }
    if is_open {
        return Err(scanner.error("an amount is missing, such as P1D or PT1H"));
    }
    sum.duration().ok_or_else(overflow)
}

/// A signed decimal number in billionths.
fn amount(scanner: &mut Scanner<'_>) -> Result<i128, ValueError> {
    let negative = scanner.eat('-');
    if !negative {
        scanner.eat('+');
    }
    let digits = scanner.digits();
    let whole: i128 = match digits {
        "" => return Err(scanner.error("a number is expected")),
        digits if digits.len() > 20 => return Err(overflow()),
        digits => digits.parse().map_err(|_| overflow())?,
    };
    let billionths = whole * i128::from(NANOS_PER_SECOND) + i128::from(scanner.billionths()?);
    Ok(if negative { -billionths } else { billionths })
}

/// A duration in the syntax of a date and time.
fn parse_as_date(scanner: &Scanner<'_>) -> Result<Duration, ValueError> {
    let (date, clock) = scanner
        .rest()
        .split_once('T')
        .unwrap_or((scanner.rest(), "00"));
    let whole = |_| scanner.error("written as a date it is P<YYYY>-<MM>-<DD>T<hh>:<mm>:<ss>");
    let date = parse_date(date).map_err(whole)?;
    let time = parse_time(clock).map_err(whole)?;
    let months = i64::from(date.year()) * 12 + i64::from(date.month());
    Duration::new(months, date.day().into(), 0, nanos_of_day(time)).ok_or_else(overflow)
}
