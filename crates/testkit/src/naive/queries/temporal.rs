//! Random expressions of dates, times and durations. None of them is out of range, whatever they are made of.

use super::{Kind, Maker};

const KINDS: [Kind; 6] = [
    Kind::Date,
    Kind::LocalTime,
    Kind::Time,
    Kind::LocalDateTime,
    Kind::DateTime,
    Kind::Duration,
];
const WITH_DATE: [Kind; 3] = [Kind::Date, Kind::LocalDateTime, Kind::DateTime];
const WITH_CLOCK: [Kind; 4] = [
    Kind::LocalTime,
    Kind::Time,
    Kind::LocalDateTime,
    Kind::DateTime,
];

/// The function that makes values of a kind.
fn function(kind: Kind) -> &'static str {
    match kind {
        Kind::Date => "date",
        Kind::LocalTime => "localtime",
        Kind::Time => "time",
        Kind::LocalDateTime => "localdatetime",
        Kind::DateTime => "datetime",
        _ => "duration",
    }
}

impl Maker<'_> {
    pub(super) fn temporal_kind(&mut self) -> Kind {
        *self.random.pick(&KINDS)
    }

    fn with_date(&mut self, depth: u32) -> String {
        let kind = *self.random.pick(&WITH_DATE);
        self.expression(kind, depth)
    }

    fn with_clock(&mut self, depth: u32) -> String {
        let kind = *self.random.pick(&WITH_CLOCK);
        self.expression(kind, depth)
    }

    fn instant(&mut self, depth: u32) -> String {
        match self.once_in(2) {
            true => self.with_date(depth),
            false => self.with_clock(depth),
        }
    }

    /// A value that is not null, as fields of maps must be.
    fn present(&mut self, kind: Kind, depth: u32) -> String {
        let literal = self.temporal_literal(kind);
        match self.once_in(2) {
            true => format!("coalesce({}, {literal})", self.expression(kind, depth)),
            false => literal,
        }
    }

    /// A temporal expression of a kind.
    pub(super) fn temporal(&mut self, kind: Kind, depth: u32) -> String {
        if kind == Kind::Duration {
            return self.duration(depth);
        }
        let name = function(kind);
        match self.random.below(6) {
            0 | 1 => {
                let op = self.pick(&["+", "-"]);
                let duration = self.expression(Kind::Duration, depth);
                format!("({} {op} {duration})", self.expression(kind, depth))
            }
            2 => self.truncated(kind, depth),
            3 => {
                let other = match kind {
                    Kind::Date => self.with_date(depth),
                    Kind::LocalTime | Kind::Time => self.with_clock(depth),
                    _ => {
                        let kind = *self.random.pick(&[Kind::LocalDateTime, Kind::DateTime]);
                        self.expression(kind, depth)
                    }
                };
                format!("{name}({other})")
            }
            4 => self.selected(kind, depth),
            _ => format!("{name}(toString({}))", self.expression(kind, depth)),
        }
    }

    fn truncated(&mut self, kind: Kind, depth: u32) -> String {
        let name = function(kind);
        let dates = [
            "millennium",
            "century",
            "decade",
            "year",
            "weekYear",
            "quarter",
            "month",
            "week",
            "day",
        ];
        let times = [
            "day",
            "hour",
            "minute",
            "second",
            "millisecond",
            "microsecond",
        ];
        let (unit, value) = match (kind, self.once_in(2)) {
            (Kind::Date, _) => (self.pick(&dates), self.with_date(depth)),
            (Kind::LocalTime | Kind::Time, _) => (self.pick(&times), self.with_clock(depth)),
            (_, true) => (self.pick(&dates), self.with_date(depth)),
            (_, false) => (self.pick(&times), {
                let kind = *self.random.pick(&[Kind::LocalDateTime, Kind::DateTime]);
                self.expression(kind, depth)
            }),
        };
        let field = match unit {
            "week" => "{dayOfWeek: 3}",
            "year" => "{month: 5}",
            "month" => "{day: 28}",
            "hour" => "{minute: 7, nanosecond: 12}",
            "millisecond" => "{nanosecond: 5}",
            _ => "{}",
        };
        match self.once_in(2) {
            true => format!("{name}.truncate('{unit}', {value}, {field})"),
            false => format!("{name}.truncate('{unit}', {value})"),
        }
    }

    /// A value of fields, most of them of another value.
    fn selected(&mut self, kind: Kind, depth: u32) -> String {
        let date_kind = *self.random.pick(&WITH_DATE);
        let clock_kind = *self.random.pick(&WITH_CLOCK);
        let date = match self.random.below(8) {
            0 => "year: 1984, week: 10, dayOfWeek: 3".to_owned(),
            1 => "year: 2019, quarter: 3, dayOfQuarter: 45".to_owned(),
            2 => "year: 2021, ordinalDay: 365".to_owned(),
            3 => format!("date: {}", self.present(date_kind, depth)),
            4 => format!("date: {}, day: 28", self.present(date_kind, depth)),
            5 => format!("date: {}, month: 2, day: 3", self.present(date_kind, depth)),
            6 => format!("date: {}, week: 9", self.present(date_kind, depth)),
            _ => format!("date: {}, ordinalDay: 60", self.present(date_kind, depth)),
        };
        let time = match self.random.below(5) {
            0 => "hour: 12, minute: 31, second: 14, nanosecond: 645876123".to_owned(),
            1 => "hour: 7".to_owned(),
            2 => "hour: 23, minute: 59, second: 1, millisecond: 2, microsecond: 3".to_owned(),
            3 => format!("time: {}", self.present(clock_kind, depth)),
            _ => format!("time: {}, second: 42", self.present(clock_kind, depth)),
        };
        let zone = match self.once_in(2) {
            true => format!(", timezone: '{}'", self.pick(&["+05:00", "-01:30", "Z"])),
            false => String::new(),
        };
        match kind {
            Kind::Date => format!("date({{{date}}})"),
            Kind::LocalTime => format!("localtime({{{time}}})"),
            Kind::Time => format!("time({{{time}{zone}}})"),
            Kind::LocalDateTime => format!("localdatetime({{{date}, {time}}})"),
            _ => format!("datetime({{{date}, {time}{zone}}})"),
        }
    }

    fn duration(&mut self, depth: u32) -> String {
        match self.random.below(8) {
            0 | 1 => {
                let op = self.pick(&["+", "-"]);
                let (a, b) = (
                    self.expression(Kind::Duration, depth),
                    self.expression(Kind::Duration, depth),
                );
                format!("({a} {op} {b})")
            }
            2 => {
                let factor = self.pick(&["* 2", "* 0.5", "/ 2", "* -1", "/ 0.25"]);
                format!("({} {factor})", self.expression(Kind::Duration, depth))
            }
            3 => {
                let amount = self.pick(&["2", "-3", "1.5", "0.25"]);
                let unit = self.pick(&[
                    "years", "quarters", "months", "weeks", "days", "hours", "minutes", "seconds",
                ]);
                format!("duration({{{unit}: {amount}, days: 1, milliseconds: -1}})")
            }
            4 => format!("-{}", self.leaf(Kind::Duration)),
            _ => {
                let unit = self.pick(&["between", "between", "inMonths", "inDays", "inSeconds"]);
                let (a, b) = (self.instant(depth), self.instant(depth));
                format!("duration.{unit}({a}, {b})")
            }
        }
    }

    /// A comparison of temporal values, most of them of one kind.
    pub(super) fn temporal_test(&mut self, depth: u32) -> String {
        let comparison = self.pick(&["=", "<>", "<", "<=", ">", ">="]);
        let kind = self.temporal_kind();
        let other = match self.once_in(4) {
            true => self.temporal_kind(),
            false => kind,
        };
        format!(
            "{} {comparison} {}",
            self.expression(kind, depth),
            self.expression(other, depth)
        )
    }

    /// A component that is an integer.
    pub(super) fn component(&mut self, depth: u32) -> String {
        let kind = self.temporal_kind();
        let of_date = [
            "year",
            "quarter",
            "month",
            "week",
            "weekYear",
            "day",
            "ordinalDay",
            "weekDay",
            "dayOfQuarter",
        ];
        let of_clock = [
            "hour",
            "minute",
            "second",
            "millisecond",
            "microsecond",
            "nanosecond",
        ];
        let name = match kind {
            Kind::Date => self.pick(&of_date),
            Kind::LocalTime => self.pick(&of_clock),
            Kind::Time => match self.once_in(3) {
                true => self.pick(&["offsetMinutes", "offsetSeconds"]),
                false => self.pick(&of_clock),
            },
            Kind::LocalDateTime => match self.once_in(2) {
                true => self.pick(&of_date),
                false => self.pick(&of_clock),
            },
            Kind::DateTime => match self.once_in(3) {
                true => self.pick(&["epochSeconds", "epochMillis", "offsetSeconds"]),
                false => self.pick(&of_date),
            },
            _ => self.pick(&[
                "years",
                "quarters",
                "months",
                "weeks",
                "days",
                "hours",
                "minutes",
                "seconds",
                "milliseconds",
                "quartersOfYear",
                "monthsOfQuarter",
                "monthsOfYear",
                "daysOfWeek",
                "minutesOfHour",
                "secondsOfMinute",
                "nanosecondsOfSecond",
            ]),
        };
        format!("({}).{name}", self.expression(kind, depth))
    }

    /// A literal in the form of a function call.
    pub(super) fn temporal_literal(&mut self, kind: Kind) -> String {
        let date = self.pick(&[
            "2020-02-01",
            "2020-02-29",
            "2019-12-31",
            "1984-W41-4",
            "2021003",
            "1969-07",
        ]);
        let clock = self.pick(&["12:00", "12:30:00.5", "235959", "00", "23:59:59.999999999"]);
        let offset = self.pick(&["Z", "+01:00", "-0130", "+05"]);
        match kind {
            Kind::Date => format!("date('{date}')"),
            Kind::LocalTime => format!("localtime('{clock}')"),
            Kind::Time => format!("time('{clock}{offset}')"),
            Kind::LocalDateTime => format!("localdatetime('{date}T{clock}')"),
            Kind::DateTime => format!("datetime('{date}T{clock}{offset}')"),
            _ => format!(
                "duration('{}')",
                self.pick(&[
                    "P1M",
                    "P1D",
                    "PT24H",
                    "P30D",
                    "P-1Y2M",
                    "PT-0.5S",
                    "P2W",
                    "P1Y2M3DT4H5M6.789S",
                    "PT90M"
                ])
            ),
        }
    }
}
