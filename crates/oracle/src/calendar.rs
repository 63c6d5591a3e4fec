//! Days, clocks and offsets: the proleptic Gregorian calendar and the weeks of ISO 8601, by counting.

use std::sync::Arc;

/// Nanoseconds of a second.
pub const SECOND: i64 = 1_000_000_000;
/// Nanoseconds of a day.
pub const DAY: i64 = 24 * 60 * 60 * SECOND;
/// The years that the product has; a value outside them is an error.
pub const YEARS: std::ops::RangeInclusive<i64> = -9999..=9999;

/// Day numbers count from 1970-01-01. It was a Thursday.
const DAYS_BEFORE_1970: i64 = days_before_year(1970);

/// A day, by its number; 0 is 1970-01-01.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Date(pub i64);

/// A time of day in nanoseconds since midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Clock(pub i64);

/// How many seconds a clock is ahead of UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Offset(pub i64);

/// Whether a year has a 29 February.
pub fn is_leap(year: i64) -> bool {
    year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0)
}

/// The days of a month.
pub fn month_length(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from the beginning of year 1 to that of `year`: 365 each, and one more for each leap year between.
const fn days_before_year(year: i64) -> i64 {
    let past = year - 1;
    365 * past + past.div_euclid(4) - past.div_euclid(100) + past.div_euclid(400)
}

impl Date {
    /// The day of a year, a month and a day; `None` if there is none, or outside the years of the product.
    pub fn of(year: i64, month: i64, day: i64) -> Option<Self> {
        let is_day = YEARS.contains(&year)
            && (1..=12).contains(&month)
            && (1..=month_length(year, month)).contains(&day);
        let before: i64 = (1..month).map(|month| month_length(year, month)).sum();
        is_day.then(|| Self(days_before_year(year) - DAYS_BEFORE_1970 + before + day - 1))
    }

    /// The day `of_year`, counted from 1.
    pub fn of_ordinal(year: i64, of_year: i64) -> Option<Self> {
        let length = if is_leap(year) { 366 } else { 365 };
        match (1..=length).contains(&of_year) {
            true => Self::of(year, 1, 1)?.plus_days(of_year - 1),
            false => None,
        }
    }

    /// The day of a week; weeks begin on Monday, and the first one has the year's first Thursday.
    pub fn of_week(week_year: i64, week: i64, weekday: i64) -> Option<Self> {
        let fourth = Self::of(week_year, 1, 4)?;
        let monday = fourth.0 - (fourth.weekday() - 1);
        let made = Self(monday + (week - 1) * 7 + weekday - 1);
        let is_valid =
            (1..=7).contains(&weekday) && made.week() == week && made.week_year() == week_year;
        is_valid.then(|| made.checked()).flatten()
    }

    /// The day of a quarter, counted from 1.
    pub fn of_quarter(year: i64, quarter: i64, of_quarter: i64) -> Option<Self> {
        let first = (1..=4).contains(&quarter).then_some(quarter * 3 - 2)?;
        let length: i64 = (first..first + 3)
            .map(|month| month_length(year, month))
            .sum();
        match (1..=length).contains(&of_quarter) {
            true => Self::of(year, first, 1)?.plus_days(of_quarter - 1),
            false => None,
        }
    }

    /// This day, if it is within the years of the product.
    fn checked(self) -> Option<Self> {
        YEARS.contains(&self.year()).then_some(self)
    }

    /// Year, month and day.
    pub fn parts(self) -> (i64, i64, i64) {
        // The mean year has 365.2425 days: at most one year off.
        let since_1 = self.0 + DAYS_BEFORE_1970;
        let mut year = (since_1 * 10_000).div_euclid(3_652_425) + 1;
        while days_before_year(year + 1) <= since_1 {
            year += 1;
        }
        while days_before_year(year) > since_1 {
            year -= 1;
        }
        let mut left = since_1 - days_before_year(year);
        let mut month = 1;
        while left >= month_length(year, month) {
            left -= month_length(year, month);
            month += 1;
        }
        (year, month, left + 1)
    }

    /// The year.
    pub fn year(self) -> i64 {
        self.parts().0
    }

    /// The day of the year, counted from 1.
    pub fn of_year(self) -> i64 {
        self.0 + DAYS_BEFORE_1970 - days_before_year(self.year()) + 1
    }

    /// The day of the week: Monday is 1.
    pub fn weekday(self) -> i64 {
        (self.0 + 3).rem_euclid(7) + 1
    }

    /// The Thursday of the same week, whose year is the week's year.
    fn thursday(self) -> Self {
        Self(self.0 + 4 - self.weekday())
    }

    /// The year to which its week belongs.
    pub fn week_year(self) -> i64 {
        self.thursday().year()
    }

    /// The number of its week in that year.
    pub fn week(self) -> i64 {
        (self.thursday().of_year() - 1) / 7 + 1
    }

    /// The quarter.
    pub fn quarter(self) -> i64 {
        (self.parts().1 - 1) / 3 + 1
    }

    /// The day of the quarter, counted from 1.
    pub fn of_quarter_day(self) -> i64 {
        let (year, _, _) = self.parts();
        let first = self.quarter() * 3 - 2;
        let before: i64 = (1..first).map(|month| month_length(year, month)).sum();
        self.of_year() - before
    }

    /// As many days later.
    pub fn plus_days(self, days: i64) -> Option<Self> {
        let day = self.0.checked_add(days)?;
        // Five million days on either side are more than the years of the product.
        (day.abs() < 5_000_000)
            .then_some(Self(day))
            .and_then(Self::checked)
    }

    /// As many months later, on the last day of the month if it has no such day.
    pub fn plus_months(self, months: i64) -> Option<Self> {
        let (year, month, day) = self.parts();
        let counted = (year * 12 + month - 1).checked_add(months)?;
        let (year, month) = (counted.div_euclid(12), counted.rem_euclid(12) + 1);
        Self::of(year, month, day.min(month_length(year, month)))
    }
}

impl Clock {
    /// A time of day; `None` if there is none.
    pub fn of(hour: i64, minute: i64, second: i64, nanos: i64) -> Option<Self> {
        let is_time = (0..24).contains(&hour)
            && (0..60).contains(&minute)
            && (0..60).contains(&second)
            && (0..SECOND).contains(&nanos);
        is_time.then(|| Self(((hour * 60 + minute) * 60 + second) * SECOND + nanos))
    }

    /// Hour, minute, second and nanoseconds.
    pub fn parts(self) -> (i64, i64, i64, i64) {
        let seconds = self.0 / SECOND;
        (
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60,
            self.0 % SECOND,
        )
    }
}

/// Nanoseconds since 1970 began on the same clock.
pub fn since_1970(date: Date, clock: Clock) -> i128 {
    i128::from(date.0) * i128::from(DAY) + i128::from(clock.0)
}

/// The day and the time of day that many nanoseconds after 1970 began; `None` outside the years of the product.
pub fn of_1970(nanos: i128) -> Option<(Date, Clock)> {
    let day = i64::try_from(nanos.div_euclid(i128::from(DAY))).ok()?;
    let clock = nanos.rem_euclid(i128::from(DAY)) as i64;
    Some((Date(0).plus_days(day)?, Clock(clock)))
}

/// A day and a time of day on a clock with an offset from UTC.
#[derive(Clone, Debug)]
pub struct Moment {
    /// The day.
    pub date: Date,
    /// The time of day.
    pub clock: Clock,
    /// How far the clock is ahead of UTC.
    pub offset: Offset,
    /// The name of the time zone, unless it is the offset.
    pub zone: Option<Arc<str>>,
}

impl Moment {
    /// Nanoseconds since 1970 began in UTC.
    pub fn instant(&self) -> i128 {
        since_1970(self.date, self.clock) - i128::from(self.offset.0) * i128::from(SECOND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(year: i64, month: i64, day: i64) -> Date {
        Date::of(year, month, day).expect("a day of the calendar")
    }

    /// Known days: the epoch, 29 February of years that are leap years and not, the day that JDN 2,451,545 names.
    #[test]
    fn days_are_numbered_as_in_almanacs() {
        assert_eq!(date(1970, 1, 1), Date(0));
        assert_eq!(date(2000, 1, 1), Date(10_957));
        assert_eq!(date(1600, 1, 1), Date(-135_140));
        assert_eq!(date(1969, 12, 31), Date(-1));
        assert_eq!(date(0, 1, 1), Date(-719_528));
        assert_eq!(date(9999, 12, 31), Date(2_932_896));
        assert_eq!(date(-9999, 1, 1), Date(-4_371_587));
        assert!(Date::of(1900, 2, 29).is_none() && Date::of(2000, 2, 29).is_some());
        assert!(Date::of(2023, 4, 31).is_none() && Date::of(10_000, 1, 1).is_none());
    }

    #[test]
    fn every_day_of_800_years_has_its_parts() {
        let mut expected = (1600, 1, 1);
        for number in date(1600, 1, 1).0..date(2400, 1, 1).0 {
            assert_eq!(Date(number).parts(), expected);
            let (year, month, day) = expected;
            expected = match (day == month_length(year, month), month) {
                (true, 12) => (year + 1, 1, 1),
                (true, _) => (year, month + 1, 1),
                (false, _) => (year, month, day + 1),
            };
        }
    }

    /// Weeks at the turns of years, from ISO 8601 and the openCypher TCK.
    #[test]
    fn weeks_begin_on_monday_and_the_first_has_a_thursday() {
        for (year, month, day, week_year, week, weekday) in [
            (1984, 1, 1, 1983, 52, 7),
            (1984, 10, 11, 1984, 41, 4),
            (1816, 12, 30, 1817, 1, 1),
            (1818, 12, 28, 1818, 53, 1),
            (2005, 1, 1, 2004, 53, 6),
            (2008, 12, 29, 2009, 1, 1),
            (2010, 1, 3, 2009, 53, 7),
        ] {
            let day = date(year, month, day);
            let found = (day.week_year(), day.week(), day.weekday());
            assert_eq!(found, (week_year, week, weekday));
            assert_eq!(Date::of_week(week_year, week, weekday), Some(day));
        }
        assert_eq!(Date::of_week(2021, 53, 1), None);
    }

    #[test]
    fn quarters_and_days_of_years() {
        let day = date(1984, 11, 11);
        assert_eq!(
            (day.of_year(), day.quarter(), day.of_quarter_day()),
            (316, 4, 42)
        );
        assert_eq!(Date::of_quarter(1984, 3, 45), Some(date(1984, 8, 14)));
        assert_eq!(Date::of_ordinal(1984, 202), Some(date(1984, 7, 20)));
        assert_eq!(Date::of_ordinal(1983, 366), None);
    }

    #[test]
    fn months_end_on_their_last_day() {
        assert_eq!(date(2024, 1, 31).plus_months(1), Some(date(2024, 2, 29)));
        assert_eq!(date(2024, 3, 31).plus_months(-13), Some(date(2023, 2, 28)));
        assert_eq!(date(9999, 12, 1).plus_months(1), None);
        assert_eq!(date(9999, 12, 31).plus_days(1), None);
    }
}
