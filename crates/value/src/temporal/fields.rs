//! Temporal values from maps: which fields are present, and the date and time that they define, from nothing or from a
//! base whose other fields are kept.

use jiff::civil;

use super::{
    calendar::{
        calendar_date, day_of_quarter, ordinal_date, quarter, quarter_date, week_date,
        with_year_month, within,
    },
    parse,
};
use crate::{Map, Value, ValueError};

pub(super) const DATE_FIELDS: &[&str] = &[
    "year",
    "month",
    "day",
    "week",
    "dayOfWeek",
    "quarter",
    "dayOfQuarter",
    "ordinalDay",
];
pub(super) const TIME_FIELDS: &[&str] = &[
    "hour",
    "minute",
    "second",
    "millisecond",
    "microsecond",
    "nanosecond",
];

/// The fields of a map that define a value of type `what`.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    pub what: &'static str,
    map: &'a Map,
    /// Whether each field is written as this module does. Names are case-insensitive, as in Neo4j.
    is_exact: bool,
}

impl<'a> Fields<'a> {
    /// Checks that every field of `map` is in one of the `known` lists.
    pub fn new(what: &'static str, map: &'a Map, known: &[&[&str]]) -> Result<Self, ValueError> {
        let is_known = |name: &str, same: fn(&str, &str) -> bool| {
            known
                .iter()
                .any(|list| list.iter().any(|one| same(one, name)))
        };
        let fields = Self {
            what,
            map,
            is_exact: map.names().all(|name| is_known(name, |a, b| a == b)),
        };
        if fields.is_exact {
            return Ok(fields);
        }
        match map
            .names()
            .find(|name| !is_known(name, str::eq_ignore_ascii_case))
        {
            None => Ok(fields),
            Some(name) => Err(fields.error(format!(
                "it has no field `{name}`; known are {}",
                known.concat().join(", ")
            ))),
        }
    }

    #[cold]
    pub fn error(&self, reason: impl Into<String>) -> ValueError {
        ValueError::Fields {
            what: self.what,
            reason: reason.into(),
        }
    }

    pub fn get(&self, name: &str) -> Option<&'a Value> {
        let exact = self.map.get(name);
        if exact.is_some() || self.is_exact {
            return exact;
        }
        let mut others = self.map.iter();
        let found = others.find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value)
    }

    pub fn has(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.get(name).is_some())
    }

    pub fn int(&self, name: &str) -> Result<Option<i64>, ValueError> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::Int(int)) => Ok(Some(*int)),
            Some(other) => Err(self.error(format!(
                "`{name}` takes an integer, not {}",
                other.type_name()
            ))),
        }
    }

    /// The date that the fields define; missing fields are taken from `base`, or are the first.
    pub fn date(&self, base: Option<civil::Date>) -> Result<civil::Date, ValueError> {
        let groups: [&[&str]; 4] = [
            &["month", "day"],
            &["week", "dayOfWeek"],
            &["quarter", "dayOfQuarter"],
            &["ordinalDay"],
        ];
        let given: Vec<usize> = (0..groups.len())
            .filter(|group| self.has(groups[*group]))
            .collect();
        if let [first, second, ..] = given[..] {
            let (first, second) = (groups[first].join("/"), groups[second].join("/"));
            return Err(self.error(format!(
                "{first} and {second} name the day twice: give one of the two"
            )));
        }
        let year = self.int("year")?;
        let base_year = |year_of: fn(civil::Date) -> i64| {
            year.or(base.map(year_of))
                .ok_or_else(|| self.error("`year` is missing"))
        };
        let calendar_year = || base_year(|base| base.year().into());
        match given.first() {
            Some(1) => {
                let week_of = |base: civil::Date| base.iso_week_date();
                let year = base_year(|base| base.iso_week_date().year().into())?;
                let week = self
                    .int("week")?
                    .or(base.map(|base| week_of(base).week().into()));
                let week = week.ok_or_else(|| self.error("`dayOfWeek` needs `week`"))?;
                let day = base.map_or(1, |base| {
                    week_of(base).weekday().to_monday_one_offset().into()
                });
                week_date(year, week, self.int("dayOfWeek")?.unwrap_or(day))
            }
            Some(2) => self.quarter_date(calendar_year()?, base),
            Some(3) => ordinal_date(calendar_year()?, self.int("ordinalDay")?.unwrap_or(1)),
            _ => self.calendar_date(calendar_year()?, base),
        }
    }

    fn calendar_date(
        &self,
        year: i64,
        base: Option<civil::Date>,
    ) -> Result<civil::Date, ValueError> {
        let (month, day) = (self.int("month")?, self.int("day")?);
        match (base, month, day) {
            (None, None, Some(_)) => Err(self.error("`day` needs `month`")),
            (None, month, day) => calendar_date(year, month.unwrap_or(1), day.unwrap_or(1)),
            (Some(base), month, None) => {
                with_year_month(base, year, month.unwrap_or(base.month().into()))
            }
            (Some(base), month, Some(day)) => {
                calendar_date(year, month.unwrap_or(base.month().into()), day)
            }
        }
    }

    fn quarter_date(
        &self,
        year: i64,
        base: Option<civil::Date>,
    ) -> Result<civil::Date, ValueError> {
        let (number, day) = (self.int("quarter")?, self.int("dayOfQuarter")?);
        match (base, number, day) {
            (None, None, _) => Err(self.error("`dayOfQuarter` needs `quarter`")),
            (None, Some(number), day) => quarter_date(year, number, day.unwrap_or(1)),
            (Some(base), number, Some(day)) => {
                quarter_date(year, number.unwrap_or(quarter(base)), day)
            }
            (Some(base), Some(number), None) => {
                let number = within("quarter", number, 1, 4)?;
                with_year_month(
                    base,
                    year,
                    number * 3 - 2 + i64::from((base.month() - 1) % 3),
                )
            }
            (Some(base), None, None) => quarter_date(year, quarter(base), day_of_quarter(base)),
        }
    }

    /// The time that the fields define; missing fields are taken from `base`, or are 0.
    pub fn time(&self, base: Option<civil::Time>) -> Result<civil::Time, ValueError> {
        if base.is_none() {
            for pair in [["hour", "minute"], ["minute", "second"]] {
                if self.has(&pair[1..]) && !self.has(&pair[..1]) {
                    return Err(self.error(format!("`{}` needs `{}`", pair[1], pair[0])));
                }
            }
            if self.has(&TIME_FIELDS[3..]) && !self.has(&["second"]) {
                return Err(self.error("a part of a second needs `second`"));
            }
        }
        let or_base = |name, part: fn(civil::Time) -> i8| {
            Ok::<_, ValueError>(
                self.int(name)?
                    .unwrap_or(base.map_or(0, |base| part(base).into())),
            )
        };
        parse::time(
            or_base("hour", civil::Time::hour)?,
            or_base("minute", civil::Time::minute)?,
            or_base("second", civil::Time::second)?,
            self.nanos()?
                .unwrap_or(base.map_or(0, |base| base.subsec_nanosecond().into())),
        )
    }

    /// The fraction of a second that the fields define together: a smaller unit counts within the next larger one
    /// given.
    fn nanos(&self) -> Result<Option<i64>, ValueError> {
        let mut total = None;
        let mut max = 999_999_999;
        for (name, unit) in [
            ("millisecond", 1_000_000),
            ("microsecond", 1_000),
            ("nanosecond", 1),
        ] {
            if let Some(value) = self.int(name)? {
                let value = within(name, value, 0, max / unit)?;
                total = Some(total.unwrap_or(0) + value * unit);
                max = unit - 1;
            }
        }
        Ok(total)
    }
}
