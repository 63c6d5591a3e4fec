//! Functions on dates, times, date-times and durations; their arithmetic and fields. The implementation is in
//! `isomer_value::temporal`; this module adds names, clocks and errors.

use isomer_plan::{expr::Arithmetic, function::Function as Builtin};
use isomer_value::{
    Value,
    temporal::{self, Now},
};

use super::{
    body::{Function, lenient},
    environment::Environment,
};
use crate::error::{ExecError, Result};

/// Which clock a function reads.
#[derive(Clone, Copy)]
enum Clock {
    Transaction,
    Statement,
    Real,
}

pub(super) fn find(function: Builtin) -> Option<Function> {
    macro_rules! table {
        ($($variant:ident $name:literal $clock:ident;)*) => {
            match function {
                Builtin::Timestamp => lenient(|_, env| Ok(Value::Int(env.statement_time().as_millisecond()))),
                $(Builtin::$variant => lenient(|args, env| call($name, Clock::$clock, args, env)),)*
                _ => None,
            }
        };
    }
    table! {
        Date "date" Statement;
        Time "time" Statement;
        LocalTime "localtime" Statement;
        DateTime "datetime" Statement;
        LocalDateTime "localdatetime" Statement;
        Duration "duration" Statement;
        DateTruncate "date.truncate" Statement;
        TimeTruncate "time.truncate" Statement;
        LocalTimeTruncate "localtime.truncate" Statement;
        DateTimeTruncate "datetime.truncate" Statement;
        LocalDateTimeTruncate "localdatetime.truncate" Statement;
        DateTransaction "date.transaction" Transaction;
        DateStatement "date.statement" Statement;
        DateRealtime "date.realtime" Real;
        TimeTransaction "time.transaction" Transaction;
        TimeStatement "time.statement" Statement;
        TimeRealtime "time.realtime" Real;
        LocalTimeTransaction "localtime.transaction" Transaction;
        LocalTimeStatement "localtime.statement" Statement;
        LocalTimeRealtime "localtime.realtime" Real;
        DateTimeTransaction "datetime.transaction" Transaction;
        DateTimeStatement "datetime.statement" Statement;
        DateTimeRealtime "datetime.realtime" Real;
        LocalDateTimeTransaction "localdatetime.transaction" Transaction;
        LocalDateTimeStatement "localdatetime.statement" Statement;
        LocalDateTimeRealtime "localdatetime.realtime" Real;
        DateTimeFromEpoch "datetime.fromepoch" Statement;
        DateTimeFromEpochMillis "datetime.fromepochmillis" Statement;
        DurationBetween "duration.between" Statement;
        DurationInMonths "duration.inMonths" Statement;
        DurationInDays "duration.inDays" Statement;
        DurationInSeconds "duration.inSeconds" Statement;
    }
}

fn call(name: &'static str, clock: Clock, args: &[Value], env: &dyn Environment) -> Result<Value> {
    let function = temporal::function(name)
        .ok_or_else(|| ExecError::Internal(format!("no temporal function {name}")))?;
    let instant = match clock {
        Clock::Transaction => env.transaction_time(),
        Clock::Statement => env.statement_time(),
        Clock::Real => env.real_time(),
    };
    Ok(function.call(
        args,
        &Now {
            instant,
            zone: env.time_zone(),
        },
    )?)
}

/// A temporal value as text; none for other values.
pub(super) fn to_text(value: &Value) -> Option<String> {
    temporal::to_text(value)
}

/// Arithmetic with a temporal value on at least one side; none if the operation does not exist.
pub(crate) fn arithmetic(op: Arithmetic, left: &Value, right: &Value) -> Option<Result<Value>> {
    if !left.is_temporal() && !right.is_temporal() {
        return None;
    }
    let made = match op {
        Arithmetic::Add => temporal::add(left, right),
        Arithmetic::Subtract => temporal::subtract(left, right),
        Arithmetic::Multiply => temporal::multiply(left, right),
        Arithmetic::Divide => temporal::divide(left, right),
        Arithmetic::Modulo | Arithmetic::Power | Arithmetic::Concat => return None,
    };
    Some(made.map_err(ExecError::from))
}

/// `value.name` of a temporal value; none for other values.
pub(super) fn field(value: &Value, name: &str) -> Option<Result<Value>> {
    value
        .is_temporal()
        .then(|| temporal::accessor(value, field_name(name)).map_err(ExecError::from))
}

/// The fields with a letter in upper case: in statements, case does not matter.
const CAMEL_CASE_FIELDS: [&str; 18] = [
    "dayOfQuarter",
    "dayOfWeek",
    "daysOfWeek",
    "epochMillis",
    "epochSeconds",
    "microsecondsOfSecond",
    "millisecondsOfSecond",
    "minutesOfHour",
    "monthsOfQuarter",
    "monthsOfYear",
    "nanosecondsOfSecond",
    "offsetMinutes",
    "offsetSeconds",
    "ordinalDay",
    "quartersOfYear",
    "secondsOfMinute",
    "weekDay",
    "weekYear",
];
/// The other fields.
const LOWER_CASE_FIELDS: [&str; 24] = [
    "year",
    "years",
    "quarter",
    "quarters",
    "month",
    "months",
    "week",
    "weeks",
    "day",
    "days",
    "hour",
    "hours",
    "minute",
    "minutes",
    "second",
    "seconds",
    "millisecond",
    "milliseconds",
    "microsecond",
    "microseconds",
    "nanosecond",
    "nanoseconds",
    "offset",
    "timezone",
];

/// A field of temporal values by its name in any case; other names as they are.
fn field_name(name: &str) -> &str {
    // Nearly all statements write the name as it is.
    if LOWER_CASE_FIELDS.contains(&name) || CAMEL_CASE_FIELDS.contains(&name) {
        return name;
    }
    let mut all = CAMEL_CASE_FIELDS.iter().chain(&LOWER_CASE_FIELDS);
    all.find(|field| field.eq_ignore_ascii_case(name))
        .map_or(name, |field| *field)
}
