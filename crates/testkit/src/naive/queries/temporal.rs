//! Random expressions of dates, times and durations. None of them is out of range, whatever they are made of.

use super::expression::{expression, leaf};
use super::maker::{Kind, Maker};

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

pub(super) fn temporal_kind(maker: &mut Maker<'_>) -> Kind {
    *maker.random.pick(&KINDS)
}

fn with_date(maker: &mut Maker<'_>, depth: u32) -> String {
    let kind = *maker.random.pick(&WITH_DATE);
    expression(maker, kind, depth)
}

fn with_clock(maker: &mut Maker<'_>, depth: u32) -> String {
    let kind = *maker.random.pick(&WITH_CLOCK);
    expression(maker, kind, depth)
}

fn instant(maker: &mut Maker<'_>, depth: u32) -> String {
    match maker.once_in(2) {
        true => with_date(maker, depth),
        false => with_clock(maker, depth),
    }
}

/// A value that is not null, as fields of maps must be.
fn present(maker: &mut Maker<'_>, kind: Kind, depth: u32) -> String {
    let literal = temporal_literal(maker, kind);
    match maker.once_in(2) {
        true => format!("coalesce({}, {literal})", expression(maker, kind, depth)),
        false => literal,
    }
}

/// A temporal expression of a kind.
pub(super) fn temporal(maker: &mut Maker<'_>, kind: Kind, depth: u32) -> String {
    if kind == Kind::Duration {
        return duration(maker, depth);
    }
    let name = function(kind);
    match maker.random.below(6) {
        0 | 1 => {
            let op = maker.pick(&["+", "-"]);
            let duration = expression(maker, Kind::Duration, depth);
            format!("({} {op} {duration})", expression(maker, kind, depth))
        }
        2 => truncated(maker, kind, depth),
        3 => {
            let other = match kind {
                Kind::Date => with_date(maker, depth),
                Kind::LocalTime | Kind::Time => with_clock(maker, depth),
                _ => {
                    let kind = *maker.random.pick(&[Kind::LocalDateTime, Kind::DateTime]);
                    expression(maker, kind, depth)
                }
            };
            format!("{name}({other})")
        }
        4 => selected(maker, kind, depth),
        _ => format!("{name}(toString({}))", expression(maker, kind, depth)),
    }
}

fn truncated(maker: &mut Maker<'_>, kind: Kind, depth: u32) -> String {
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
    let (unit, value) = match (kind, maker.once_in(2)) {
        (Kind::Date, _) => (maker.pick(&dates), with_date(maker, depth)),
        (Kind::LocalTime | Kind::Time, _) => (maker.pick(&times), with_clock(maker, depth)),
        (_, true) => (maker.pick(&dates), with_date(maker, depth)),
        (_, false) => (maker.pick(&times), {
            let kind = *maker.random.pick(&[Kind::LocalDateTime, Kind::DateTime]);
            expression(maker, kind, depth)
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
    match maker.once_in(2) {
        true => format!("{name}.truncate('{unit}', {value}, {field})"),
        false => format!("{name}.truncate('{unit}', {value})"),
    }
}

/// A value of fields, most of them of another value.
fn selected(maker: &mut Maker<'_>, kind: Kind, depth: u32) -> String {
    let date_kind = *maker.random.pick(&WITH_DATE);
    let clock_kind = *maker.random.pick(&WITH_CLOCK);
    let date = match maker.random.below(8) {
        0 => "year: 1984, week: 10, dayOfWeek: 3".to_owned(),
        1 => "year: 2019, quarter: 3, dayOfQuarter: 45".to_owned(),
        2 => "year: 2021, ordinalDay: 365".to_owned(),
        3 => format!("date: {}", present(maker, date_kind, depth)),
        4 => format!("date: {}, day: 28", present(maker, date_kind, depth)),
        5 => format!(
            "date: {}, month: 2, day: 3",
            present(maker, date_kind, depth)
        ),
        6 => format!("date: {}, week: 9", present(maker, date_kind, depth)),
        _ => format!("date: {}, ordinalDay: 60", present(maker, date_kind, depth)),
    };
    let time = match maker.random.below(5) {
        0 => "hour: 12, minute: 31, second: 14, nanosecond: 645876123".to_owned(),
        1 => "hour: 7".to_owned(),
        2 => "hour: 23, minute: 59, second: 1, millisecond: 2, microsecond: 3".to_owned(),
        3 => format!("time: {}", present(maker, clock_kind, depth)),
        _ => format!("time: {}, second: 42", present(maker, clock_kind, depth)),
    };
    let zone = match maker.once_in(2) {
        true => format!(", timezone: '{}'", maker.pick(&["+05:00", "-01:30", "Z"])),
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

fn duration(maker: &mut Maker<'_>, depth: u32) -> String {
    match maker.random.below(8) {
        0 | 1 => {
            let op = maker.pick(&["+", "-"]);
            let (a, b) = (
                expression(maker, Kind::Duration, depth),
                expression(maker, Kind::Duration, depth),
            );
            format!("({a} {op} {b})")
        }
        2 => {
            let factor = maker.pick(&["* 2", "* 0.5", "/ 2", "* -1", "/ 0.25"]);
            format!("({} {factor})", expression(maker, Kind::Duration, depth))
        }
        3 => {
            let amount = maker.pick(&["2", "-3", "1.5", "0.25"]);
            let unit = maker.pick(&[
                "years", "quarters", "months", "weeks", "days", "hours", "minutes", "seconds",
            ]);
            format!("duration({{{unit}: {amount}, days: 1, milliseconds: -1}})")
        }
        4 => format!("-{}", leaf(maker, Kind::Duration)),
        _ => {
            let unit = maker.pick(&["between", "between", "inMonths", "inDays", "inSeconds"]);
            let (a, b) = (instant(maker, depth), instant(maker, depth));
            format!("duration.{unit}({a}, {b})")
        }
    }
}

/// A comparison of temporal values, most of them of one kind.
pub(super) fn temporal_test(maker: &mut Maker<'_>, depth: u32) -> String {
    let comparison = maker.pick(&["=", "<>", "<", "<=", ">", ">="]);
    let kind = temporal_kind(maker);
    let other = match maker.once_in(4) {
        true => temporal_kind(maker),
        false => kind,
    };
    format!(
        "{} {comparison} {}",
        expression(maker, kind, depth),
        expression(maker, other, depth)
    )
}

/// A component that is an integer.
pub(super) fn component(maker: &mut Maker<'_>, depth: u32) -> String {
    let kind = temporal_kind(maker);
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
        Kind::Date => maker.pick(&of_date),
        Kind::LocalTime => maker.pick(&of_clock),
        Kind::Time => match maker.once_in(3) {
            true => maker.pick(&["offsetMinutes", "offsetSeconds"]),
            false => maker.pick(&of_clock),
        },
        Kind::LocalDateTime => match maker.once_in(2) {
            true => maker.pick(&of_date),
            false => maker.pick(&of_clock),
        },
        Kind::DateTime => match maker.once_in(3) {
            true => maker.pick(&["epochSeconds", "epochMillis", "offsetSeconds"]),
            false => maker.pick(&of_date),
        },
        _ => maker.pick(&[
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
    format!("({}).{name}", expression(maker, kind, depth))
}

/// A literal in the form of a function call.
pub(super) fn temporal_literal(maker: &mut Maker<'_>, kind: Kind) -> String {
    let date = maker.pick(&[
        "2020-02-01",
        "2020-02-29",
        "2019-12-31",
        "1984-W41-4",
        "2021003",
        "1969-07",
    ]);
    let clock = maker.pick(&["12:00", "12:30:00.5", "235959", "00", "23:59:59.999999999"]);
    let offset = maker.pick(&["Z", "+01:00", "-0130", "+05"]);
    match kind {
        Kind::Date => format!("date('{date}')"),
        Kind::LocalTime => format!("localtime('{clock}')"),
        Kind::Time => format!("time('{clock}{offset}')"),
        Kind::LocalDateTime => format!("localdatetime('{date}T{clock}')"),
        Kind::DateTime => format!("datetime('{date}T{clock}{offset}')"),
        _ => format!(
            "duration('{}')",
            maker.pick(&[
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
