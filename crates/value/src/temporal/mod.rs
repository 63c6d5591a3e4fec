//! Dates, times, date-times and durations: the types, and every function of the language on them.
//!
//! Functions are pure: those that depend on the clock take it as [`Now`]. [`function`] maps the language's names to
//! them; `+ - * /` are [`add`], [`subtract`], [`multiply`] and [`divide`], `value.name` is [`accessor`], `toString` is
//! [`to_text`]. Years range from -9999 to 9999; results out of this range are errors.

mod access;
mod amounts;
mod arithmetic;
mod between;
mod calendar;
pub(crate) mod clock;
mod create;
mod duration;
mod fields;
mod format;
mod parse;
pub(crate) mod parts;
mod truncate;
mod zoned_date_time;
mod zoned_time;

use jiff::{
    Timestamp, civil,
    tz::{Offset, TimeZone},
};

pub use access::accessor;
pub use arithmetic::{add, divide, multiply, subtract};
pub use duration::Duration;
pub use format::to_text;
pub use zoned_date_time::ZonedDateTime;
pub use zoned_time::ZonedTime;

use crate::{Value, ValueError};

/// The clock and the zone for functions without arguments.
#[derive(Clone, Debug)]
pub struct Now {
    /// The instant.
    pub instant: Timestamp,
    /// The zone of times without one; UTC by default.
    pub zone: TimeZone,
}

impl Now {
    /// An instant in UTC.
    pub fn utc(instant: Timestamp) -> Self {
        Self {
            instant,
            zone: TimeZone::UTC,
        }
    }

    fn zoned(&self) -> ZonedDateTime {
        self.instant.to_zoned(self.zone.clone()).into()
    }

    fn offset(&self) -> Offset {
        self.zone.to_offset(self.instant)
    }
}

/// The types that have a function named after them, except durations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Date,
    LocalTime,
    ZonedTime,
    LocalDateTime,
    ZonedDateTime,
}

impl Kind {
    const ALL: [Self; 5] = [
        Self::Date,
        Self::LocalTime,
        Self::ZonedTime,
        Self::LocalDateTime,
        Self::ZonedDateTime,
    ];

    /// The name of the function, in lower case.
    fn function(self) -> &'static str {
        match self {
            Self::Date => "date",
            Self::LocalTime => "localtime",
            Self::ZonedTime => "time",
            Self::LocalDateTime => "localdatetime",
            Self::ZonedDateTime => "datetime",
        }
    }

    /// The name of the type in messages.
    fn name(self) -> &'static str {
        match self {
            Self::Date => "date",
            Self::LocalTime => "local time",
            Self::ZonedTime => "zoned time",
            Self::LocalDateTime => "local date-time",
            Self::ZonedDateTime => "zoned date-time",
        }
    }
}

/// A temporal function of the language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TemporalFunction(Operation);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Create(Kind),
    CreateNow(Kind),
    Truncate(Kind),
    FromEpoch,
    FromEpochMillis,
    Duration,
    Between,
    InMonths,
    InDays,
    InSeconds,
}

impl TemporalFunction {
    /// Calls the function. Null arguments give null.
    ///
    /// # Errors
    /// Errors in the arguments: `Type`, `Syntax`, `Fields`, `OutOfRange`, `UnknownZone`, `Overflow`.
    pub fn call(self, args: &[Value], now: &Now) -> Result<Value, ValueError> {
        match self.0 {
            Operation::Create(kind) => create::create(kind, args, now),
            Operation::CreateNow(kind) => create::create_now(kind, args, now),
            Operation::Truncate(kind) => truncate::truncate(kind, args, now),
            Operation::FromEpoch => create::from_epoch(args),
            Operation::FromEpochMillis => create::from_epoch_millis(args),
            Operation::Duration => amounts::create(args),
            Operation::Between => between::between(between::Unit::All, args),
            Operation::InMonths => between::between(between::Unit::Months, args),
            Operation::InDays => between::between(between::Unit::Days, args),
            Operation::InSeconds => between::between(between::Unit::Seconds, args),
        }
    }

    /// The minimum and maximum number of arguments.
    pub fn arity(self) -> (usize, usize) {
        match self.0 {
            Operation::Create(_) | Operation::CreateNow(_) => (0, 1),
            Operation::Truncate(_) => (1, 3),
            Operation::FromEpochMillis | Operation::Duration => (1, 1),
            Operation::FromEpoch
            | Operation::Between
            | Operation::InMonths
            | Operation::InDays
            | Operation::InSeconds => (2, 2),
        }
    }

    /// Whether a call with this number of arguments depends on the clock.
    pub fn reads_clock(self, arg_count: usize) -> bool {
        match self.0 {
            Operation::CreateNow(_) => true,
            Operation::Create(_) => arg_count == 0,
            Operation::Truncate(_) => arg_count < 2,
            _ => false,
        }
    }
}

/// The function of this name (case-insensitive): `date`, `localtime`, `time`, `localdatetime` and `datetime`, each also
/// with `.transaction`, `.statement`, `.realtime` and `.truncate`; `datetime.fromepoch`, `datetime.fromepochmillis`;
/// `duration`, `duration.between`, `duration.inMonths`, `duration.inDays`, `duration.inSeconds`. The caller's [`Now`]
/// determines which clock the first three read.
pub fn function(name: &str) -> Option<TemporalFunction> {
    let (head, tail) = name.split_once('.').unwrap_or((name, ""));
    let is = |text: &str, wanted: &str| text.eq_ignore_ascii_case(wanted);
    let found = |tails: &[(&str, Operation)]| {
        tails
            .iter()
            .find(|(own, _)| is(tail, own))
            .map(|(_, operation)| TemporalFunction(*operation))
    };
    if let Some(kind) = Kind::ALL.into_iter().find(|kind| is(head, kind.function())) {
        let of_kind = found(&[
            ("", Operation::Create(kind)),
            ("truncate", Operation::Truncate(kind)),
            ("transaction", Operation::CreateNow(kind)),
            ("statement", Operation::CreateNow(kind)),
            ("realtime", Operation::CreateNow(kind)),
        ]);
        let of_epoch = || {
            found(&[
                ("fromEpoch", Operation::FromEpoch),
                ("fromEpochMillis", Operation::FromEpochMillis),
            ])
            .filter(|_| kind == Kind::ZonedDateTime)
        };
        return of_kind.or_else(of_epoch);
    }
    if !is(head, "duration") {
        return None;
    }
    found(&[
        ("", Operation::Duration),
        ("between", Operation::Between),
        ("inMonths", Operation::InMonths),
        ("inDays", Operation::InDays),
        ("inSeconds", Operation::InSeconds),
    ])
}

/// Parses a date in one of the forms that `date()` accepts.
///
/// # Errors
/// `Syntax` for other texts, `OutOfRange` for a day that does not exist.
pub fn date_of_text(text: &str) -> Result<civil::Date, ValueError> {
    parse::date(text)
}

/// Parses a time without a zone in one of the forms that `localtime()` accepts.
///
/// # Errors
/// Like [`date_of_text`].
pub fn local_time_of_text(text: &str) -> Result<civil::Time, ValueError> {
    parse::local_time(text)
}

/// Parses a time in one of the forms that `time()` accepts; the text must contain the offset.
///
/// # Errors
/// Like [`date_of_text`].
pub fn zoned_time_of_text(text: &str) -> Result<ZonedTime, ValueError> {
    parse::zoned_time(text, None)
}

/// Parses a date and time without a zone in one of the forms that `localdatetime()` accepts.
///
/// # Errors
/// Like [`date_of_text`].
pub fn local_date_time_of_text(text: &str) -> Result<civil::DateTime, ValueError> {
    parse::local_date_time(text)
}

/// Parses a date-time in one of the forms that `datetime()` accepts; the text must contain the offset or the zone.
///
/// # Errors
/// Like [`date_of_text`], and `UnknownZone`.
pub fn zoned_date_time_of_text(text: &str) -> Result<ZonedDateTime, ValueError> {
    parse::zoned_date_time(text, None)
}

/// Parses a duration in one of the forms that `duration()` accepts.
///
/// # Errors
/// Like [`date_of_text`], and `Overflow`.
pub fn duration_of_text(text: &str) -> Result<Duration, ValueError> {
    amounts::of_text(text)
}

#[cfg(test)]
mod tests;
