//! Durations as months, days and time.

use std::cmp::Ordering;

use crate::calendar::{DAY, SECOND};
use crate::fault::{Result, raised, unsupported};

/// Nanoseconds of the mean month: a twelfth of 365.2425 days.
const MEAN_MONTH: i128 = 2_629_746 * SECOND as i128;

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
    pub(crate) fn of(months: i128, days: i128, nanos: i128) -> Result<Self> {
        let seconds = i64::try_from(nanos.div_euclid(i128::from(SECOND)));
        match (i64::try_from(months), i64::try_from(days), seconds) {
            (Ok(months), Ok(days), Ok(_)) => Ok(Self {
                months,
                days,
                nanos,
            }),
            _ => raised("a duration is too long"),
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
    pub(crate) fn order(&self, other: &Self) -> Ordering {
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
    pub(crate) fn plus(&self, other: &Self, sign: i128) -> Result<Self> {
        Self::of(
            i128::from(self.months) + sign * i128::from(other.months),
            i128::from(self.days) + sign * i128::from(other.days),
            self.nanos + sign * other.nanos,
        )
    }

    /// Each part times `above / below`, without rounding but for what is less than a nanosecond.
    pub(crate) fn scaled(&self, above: i128, below: i128) -> Result<Self> {
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
}

/// Amounts of several units. Those with a fraction carry it to the unit below.
#[derive(Default)]
pub(crate) struct Sum {
    months: i128,
    days: i128,
    nanos: i128,
}

impl Sum {
    /// Adds an amount of a unit, named as in maps.
    pub(crate) fn add(&mut self, unit: &str, amount: f64) -> Result<()> {
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

    pub(crate) fn span(&self) -> Result<Span> {
        Span::of(self.months, self.days, self.nanos)
    }
}
