//! Durations.

use std::cmp::Ordering;

use super::{in_range, raised, unsupported};
use crate::calendar::{Clock, DAY, SECOND, of_1970, since_1970};
use crate::interpreter::Result;
use crate::notation::literal;
use crate::temporal::Moment;
use crate::{Datum, Map};

/// Nanoseconds of the mean month: a twelfth of 365.2425 days.
pub(super) const MEAN_MONTH: i128 = 2_629_746 * SECOND as i128;

/// A duration: months, days and time stay apart, as a month has no fixed number of days, nor a day one of hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Span {
    /// Months.
    pub months: i64,
    /// Days.
    pub days: i64,
    /// Nanoseconds, of either sign.
    pub nanos: i128,
}

impl Span {
    /// A duration whose parts have 64 bits: nanoseconds count in whole seconds and the rest.
    pub(super) fn of(months: i128, days: i128, nanos: i128) -> Result<Self> {
        let seconds = i64::try_from(nanos.div_euclid(i128::from(SECOND)));
        match (i64::try_from(months), i64::try_from(days), seconds) {
            (Ok(months), Ok(days), Ok(_)) => Ok(Self {
                months,
                days,
                nanos,
            }),
            _ => raised("a duration is too long".into()),
        }
    }

    /// Whole seconds, rounded down.
    pub fn seconds(&self) -> i64 {
        self.nanos.div_euclid(i128::from(SECOND)) as i64
    }

    /// Nanoseconds after the whole second.
    pub fn subsecond(&self) -> i64 {
        self.nanos.rem_euclid(i128::from(SECOND)) as i64
    }

    /// By mean length; of two equally long ones, the one with fewer months, then fewer days, is less.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        let length = |span: &Self| {
            i128::from(span.months) * MEAN_MONTH
                + i128::from(span.days) * i128::from(DAY)
                + span.nanos
        };
        length(self)
            .cmp(&length(other))
            .then(self.months.cmp(&other.months))
            .then(self.days.cmp(&other.days))
    }

    /// The sum with `sign` times the other, part by part.
    pub(super) fn plus(&self, other: &Self, sign: i128) -> Result<Self> {
        Self::of(
            i128::from(self.months) + sign * i128::from(other.months),
            i128::from(self.days) + sign * i128::from(other.days),
            self.nanos + sign * other.nanos,
        )
    }

    /// Each part times a number; what is less than a month or a day goes to the parts below.
    pub(super) fn times(&self, factor: &Datum) -> Result<Self> {
        let (above, below) = ratio(factor)?;
        self.scaled(above, below)
    }

    /// Each part divided by a number.
    pub(super) fn divided(&self, divisor: &Datum) -> Result<Self> {
        match ratio(divisor)? {
            (0, _) => raised("a duration is divided by zero".into()),
            (above, below) => self.scaled(below * above.signum(), above.abs()),
        }
    }

    /// Each part times `above / below`, without rounding but for what is less than a nanosecond.
    fn scaled(&self, above: i128, below: i128) -> Result<Self> {
        // The parts of a product: whole ones, and the rest as nanoseconds.
        let part = |amount: i128, unit: i128| -> Option<(i128, i128)> {
            let product = amount.checked_mul(above)?;
            let rest = (product % below).checked_mul(unit)?;
            Some((product / below, rest / below))
        };
        let parts = || {
            let (months, of_month) = part(self.months.into(), MEAN_MONTH)?;
            let (days, of_day) = part(self.days.into(), DAY.into())?;
            let (nanos, _) = part(self.nanos, 1)?;
            let day = i128::from(DAY);
            Some((
                months,
                days + of_month / day,
                nanos + of_month % day + of_day,
            ))
        };
        match parts() {
            Some((months, days, nanos)) => Self::of(months, days, nanos),
            None => unsupported("multiples of very long durations"),
        }
    }

    /// A duration of a map of units.
    pub(super) fn of_fields(fields: &Map) -> Result<Self> {
        let mut sum = Sum::default();
        for (name, value) in fields {
            let Some(amount) = value.to_f64().filter(|amount| amount.is_finite()) else {
                return match value {
                    Datum::Null => unsupported("a duration of null"),
                    other => raised(format!("{} is not an amount of time", literal(other))),
                };
            };
            sum.add(name, amount)?;
        }
        sum.span()
    }
}

/// A number as a fraction of integers.
fn ratio(number: &Datum) -> Result<(i128, i128)> {
    match number {
        Datum::Int(whole) => Ok((i128::from(*whole), 1)),
        Datum::Float(number) if !number.is_finite() => {
            raised(format!("a duration is multiplied by {number}"))
        }
        Datum::Float(number) => {
            // A double of moderate size is a whole number of a power of two.
            let (mut above, mut below) = (*number, 1_i128);
            while above.fract() != 0.0 && below < 1 << 60 {
                (above, below) = (above * 2.0, below * 2);
            }
            match above.fract() == 0.0 && above.abs() < 1e18 {
                true => Ok((above as i128, below)),
                false => unsupported("durations times very large or very small numbers"),
            }
        }
        other => raised(format!("a duration is multiplied by {}", literal(other))),
    }
}

/// Amounts of several units. Those with a fraction carry it to the unit below.
#[derive(Default)]
pub(super) struct Sum {
    months: i128,
    days: i128,
    nanos: i128,
}

impl Sum {
    /// Adds an amount of a unit, named as in maps.
    pub(super) fn add(&mut self, unit: &str, amount: f64) -> Result<()> {
        let second = SECOND as f64;
        match unit {
            "years" => self.months(amount * 12.0),
            "quarters" => self.months(amount * 3.0),
            "months" => self.months(amount),
            "weeks" => self.days(amount * 7.0),
            "days" => self.days(amount),
            "hours" => self.nanos(amount * 3600.0 * second),
            "minutes" => self.nanos(amount * 60.0 * second),
            "seconds" => self.nanos(amount * second),
            "milliseconds" => self.nanos(amount * 1e6),
            "microseconds" => self.nanos(amount * 1e3),
            "nanoseconds" => self.nanos(amount),
            other => return raised(format!("{other} is not a unit of durations")),
        }
        Ok(())
    }

    fn months(&mut self, amount: f64) {
        self.months += amount.trunc() as i128;
        // Of a fraction of a month, the whole days are days.
        let nanos = (amount.fract() * MEAN_MONTH as f64).trunc() as i128;
        self.days += nanos / i128::from(DAY);
        self.nanos += nanos % i128::from(DAY);
    }

    fn days(&mut self, amount: f64) {
        self.days += amount.trunc() as i128;
        self.nanos(amount.fract() * DAY as f64);
    }

    fn nanos(&mut self, amount: f64) {
        self.nanos += amount.trunc() as i128;
    }

    pub(super) fn span(&self) -> Result<Span> {
        Span::of(self.months, self.days, self.nanos)
    }
}

/// An instant and `sign` times a duration: months first, then days, then the time. Dates take the whole days of the
/// time, times of day nothing but the time.
pub(super) fn shifted(instant: &Datum, span: &Span, sign: i64) -> Result<Datum> {
    let nanos = span.nanos * i128::from(sign);
    let of_day = |clock: Clock| {
        let sum = (i128::from(clock.0) + nanos).rem_euclid(i128::from(DAY));
        Clock(sum as i64)
    };
    let months_and_days = |date: crate::calendar::Date| {
        let later = date.plus_months(span.months.checked_mul(sign)?)?;
        later.plus_days(span.days.checked_mul(sign)?)
    };
    Ok(match instant {
        Datum::Date(date) => {
            let whole_days = i64::try_from(nanos / i128::from(DAY)).unwrap_or(i64::MAX);
            let later = months_and_days(*date).and_then(|date| date.plus_days(whole_days));
            Datum::Date(in_range(later, "date")?)
        }
        Datum::LocalTime(clock) => Datum::LocalTime(of_day(*clock)),
        Datum::Time(clock, offset) => Datum::Time(of_day(*clock), *offset),
        Datum::LocalDateTime(date, clock) => {
            let later = months_and_days(*date);
            let later = later.and_then(|date| of_1970(since_1970(date, *clock) + nanos));
            let (date, clock) = in_range(later, "date-time")?;
            Datum::LocalDateTime(date, clock)
        }
        Datum::DateTime(moment) => {
            if moment.zone.is_some() {
                return unsupported("arithmetic in named time zones");
            }
            let later = months_and_days(moment.date);
            let later = later.and_then(|date| of_1970(since_1970(date, moment.clock) + nanos));
            let (date, clock) = in_range(later, "date-time")?;
            Moment {
                date,
                clock,
                ..(**moment).clone()
            }
            .into()
        }
        other => return raised(format!("a duration is not added to {}", literal(other))),
    })
}
