//! Conversion of dates from and to calendar fields, weeks, quarters, ordinal days and days since 1970. Every result is
//! checked against the calendar and its range.

use jiff::civil::{Date, ISOWeekDate, Weekday};

use super::clock::NANOS_PER_DAY;
use crate::ValueError;

/// The date of a year, month and day of the month.
pub(super) fn calendar_date(year: i64, month: i64, day: i64) -> Result<Date, ValueError> {
    let year = checked_year(year)?;
    let month = within("month", month, 1, 12)? as i8;
    let days = Date::new(year, month, 1).map_or(31, |first| first.days_in_month());
    let day = within("day", day, 1, days.into())? as i8;
    Date::new(year, month, day)
        .map_err(|_| out_of_range("the date", format!("{year}-{month}-{day}")))
}

/// The date of a week and weekday; the year is the ISO week's year, not the calendar's.
pub(super) fn week_date(year: i64, week: i64, day: i64) -> Result<Date, ValueError> {
    let year = checked_year(year)?;
    let day = Weekday::from_monday_one_offset(within("dayOfWeek", day, 1, 7)? as i8);
    let weeks =
        |week| ISOWeekDate::new(year, week, Weekday::Monday).map(ISOWeekDate::weeks_in_year);
    let week = within("week", week, 1, weeks(1).map_or(53, i64::from))? as i8;
    day.and_then(|day| ISOWeekDate::new(year, week, day))
        .map(ISOWeekDate::date)
        .map_err(|_| out_of_range("the date", format!("{year}-W{week}")))
}

/// The date of a quarter and a day within it.
pub(super) fn quarter_date(year: i64, quarter: i64, day: i64) -> Result<Date, ValueError> {
    let quarter = within("quarter", quarter, 1, 4)?;
    let first = calendar_date(year, quarter * 3 - 2, 1)?;
    let days = (0..3).map(|month| days_in_month(first, month)).sum();
    let day = within("dayOfQuarter", day, 1, days)?;
    date_of_epoch_day(epoch_day(first) + day - 1)
}

fn days_in_month(first: Date, months_later: i8) -> i64 {
    Date::new(first.year(), first.month() + months_later, 1)
        .map_or(0, |date| date.days_in_month().into())
}

/// The date of a year and a day of the year.
pub(super) fn ordinal_date(year: i64, day: i64) -> Result<Date, ValueError> {
    let first = calendar_date(year, 1, 1)?;
    let day = within("ordinalDay", day, 1, first.days_in_year().into())?;
    date_of_epoch_day(epoch_day(first) + day - 1)
}

/// The quarter of a date, 1 to 4.
pub(super) fn quarter(date: Date) -> i64 {
    (i64::from(date.month()) + 2) / 3
}

/// The day within its quarter, from 1.
pub(super) fn day_of_quarter(date: Date) -> i64 {
    let first = Date::new(date.year(), (date.month() - 1) / 3 * 3 + 1, 1).unwrap_or(date);
    epoch_day(date) - epoch_day(first) + 1
}

/// `date` plus `months`; a day that the month lacks becomes its last.
pub(super) fn add_months(date: Date, months: i64) -> Result<Date, ValueError> {
    let at = i64::from(date.year()) * 12 + i64::from(date.month()) - 1;
    let total = at
        .checked_add(months)
        .ok_or_else(|| out_of_range("the date", format!("{months} months later")))?;
    with_year_month(date, total.div_euclid(12), total.rem_euclid(12) + 1)
}

/// `date` in another year and month; a day that the month lacks becomes its last.
pub(super) fn with_year_month(date: Date, year: i64, month: i64) -> Result<Date, ValueError> {
    let first = calendar_date(year, month, 1)?;
    calendar_date(year, month, date.day().min(first.days_in_month()).into())
}

/// `date` plus `days`.
pub(super) fn add_days(date: Date, days: i64) -> Result<Date, ValueError> {
    let day = epoch_day(date).checked_add(days);
    date_of_epoch_day(day.ok_or_else(|| out_of_range("the date", format!("{days} days later")))?)
}

/// Days since 1970-01-01 in the proleptic Gregorian calendar (Howard Hinnant's `days_from_civil`).
pub(super) fn epoch_day(date: Date) -> i64 {
    let (month, day) = (i64::from(date.month()), i64::from(date.day()));
    let year = i64::from(date.year()) - i64::from(month <= 2); // years start in March: the leap day is the last
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The inverse of [`epoch_day`].
pub(super) fn date_of_epoch_day(day: i64) -> Result<Date, ValueError> {
    let error = || out_of_range("the date", format!("day {day} after 1970-01-01"));
    if day.unsigned_abs() > 5_000_000 {
        return Err(error());
    }
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    Date::new(
        i16::try_from(year).map_err(|_| error())?,
        month as i8,
        day as i8,
    )
    .map_err(|_| error())
}

/// The date, and the nanoseconds into it, this many nanoseconds after the start of 1970-01-01.
pub(super) fn date_of_epoch_nanos(nanos: i128) -> Result<(Date, i64), ValueError> {
    let per_day = i128::from(NANOS_PER_DAY);
    let day = i64::try_from(nanos.div_euclid(per_day)).unwrap_or(i64::MAX);
    Ok((date_of_epoch_day(day)?, nanos.rem_euclid(per_day) as i64))
}

fn checked_year(year: i64) -> Result<i16, ValueError> {
    Ok(within("year", year, -9999, 9999)? as i16)
}

/// `value`, if it is from `min` to `max`.
pub(super) fn within(what: &str, value: i64, min: i64, max: i64) -> Result<i64, ValueError> {
    if (min..=max).contains(&value) {
        return Ok(value);
    }
    Err(ValueError::OutOfRange {
        what: what.to_owned(),
        value: value.to_string(),
        range: format!("{min} to {max}"),
    })
}

/// The error for a date or date-time out of the calendar's range.
pub(super) fn out_of_range(what: &str, value: String) -> ValueError {
    ValueError::OutOfRange {
        what: what.to_owned(),
        value,
        range: "the years -9999 to 9999".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;

    #[test]
    fn days_are_counted_both_ways() {
        assert_eq!(epoch_day(date(1970, 1, 1)), 0);
        assert_eq!(epoch_day(date(2000, 3, 1)), 11_017);
        for start in [
            date(-9999, 1, 1),
            date(-1, 12, 1),
            date(1899, 1, 1),
            date(1999, 12, 1),
            date(9999, 1, 1),
        ] {
            let mut day = start;
            for step in 0..364 {
                assert_eq!(epoch_day(day), epoch_day(start) + step);
                assert_eq!(date_of_epoch_day(epoch_day(day)), Ok(day));
                day = day.tomorrow().unwrap();
            }
        }
        assert!(date_of_epoch_day(epoch_day(date(9999, 12, 31)) + 1).is_err());
        assert!(date_of_epoch_day(epoch_day(date(-9999, 1, 1)) - 1).is_err());
        assert!(date_of_epoch_day(i64::MIN).is_err());
    }

    #[test]
    fn the_ways_of_counting_agree() {
        assert_eq!(week_date(1817, 1, 2), Ok(date(1816, 12, 31)));
        assert_eq!(quarter_date(1984, 3, 45), Ok(date(1984, 8, 14)));
        assert_eq!(ordinal_date(1984, 202), Ok(date(1984, 7, 20)));
        assert_eq!(day_of_quarter(date(1984, 11, 11)), 42);
        assert_eq!(add_months(date(2024, 1, 31), 1), Ok(date(2024, 2, 29)));
        assert_eq!(add_months(date(2024, 1, 31), -11), Ok(date(2023, 2, 28)));
    }

    #[test]
    fn what_the_calendar_lacks_is_refused() {
        for refused in [
            calendar_date(2023, 2, 29),
            calendar_date(10_000, 1, 1),
            calendar_date(2023, 13, 1),
            week_date(2023, 53, 1),
            week_date(2023, 1, 8),
            quarter_date(2023, 1, 91),
            ordinal_date(2023, 366),
            add_months(date(9999, 12, 1), 1),
            add_months(date(0, 1, 1), i64::MAX),
            add_days(date(0, 1, 1), i64::MIN),
        ] {
            assert!(
                matches!(refused, Err(ValueError::OutOfRange { .. })),
                "{refused:?}"
            );
        }
    }
}
