//! Dates and times of columns, parsed by the language's own parsers: texts with parts that these would ignore are
//! refused.

use std::borrow::Cow;

use isomer_db::{Value, temporal};
use isomer_value::ValueError;

use super::column_type::ColumnType;

/// Every type with a name for messages: the suggested declaration for a text of another type.
const TYPES: [(ColumnType, &str); 5] = [
    (ColumnType::Date, "date"),
    (ColumnType::LocalTime, "localtime"),
    (ColumnType::ZonedTime, "time"),
    (ColumnType::LocalDateTime, "localdatetime"),
    (ColumnType::ZonedDateTime, "datetime"),
];

/// The date or time of a column of one of the five types; a space may replace the `T`, as in SQL.
///
/// # Errors
/// The error of the text, and the type that it could be declared as.
pub fn read(column_type: ColumnType, text: &str) -> Result<Value, String> {
    if has_more_than_nanoseconds(text) {
        return Err("it has more than nine decimals of a second".into());
    }
    let iso = with_mark(text);
    parse(column_type, &iso).map_err(|error| {
        let other = TYPES
            .into_iter()
            .find(|(other, _)| *other != column_type && parse(*other, &iso).is_ok());
        match (other, error) {
            (Some((_, name)), _) => format!("declare it `{name}`"),
            (None, ValueError::Syntax { reason, .. }) => reason,
            (None, error) => error.to_string(),
        }
    })
}

/// The duration of a column.
///
/// # Errors
/// What to add to a message that the text is none; nothing if that says it all.
pub fn read_duration(text: &str) -> Result<Value, &'static str> {
    if text.ends_with(['S', 's']) && has_more_than_nanoseconds(text) {
        return Err(": it has more than nine decimals of a second");
    }
    let duration = temporal::duration_of_text(text).map_err(|_| "")?;
    Ok(duration.into())
}

/// Whether the text is a date or time of any type.
pub fn is_moment(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit())
        && TYPES.into_iter().any(|(one, _)| read(one, text).is_ok())
}

fn parse(column_type: ColumnType, text: &str) -> Result<Value, ValueError> {
    Ok(match column_type {
        ColumnType::Date => temporal::date_of_text(text)?.into(),
        ColumnType::LocalTime => temporal::local_time_of_text(text)?.into(),
        ColumnType::ZonedTime => temporal::zoned_time_of_text(text)?.into(),
        ColumnType::LocalDateTime => temporal::local_date_time_of_text(text)?.into(),
        _ => temporal::zoned_date_time_of_text(text)?.into(),
    })
}

/// `2026-02-28 17:30` with the `T` that the language requires.
fn with_mark(text: &str) -> Cow<'_, str> {
    let is_digit = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_digit());
    match text.split_once(' ') {
        Some((date, clock)) if is_digit(date.bytes().last()) && is_digit(clock.bytes().next()) => {
            Cow::Owned(format!("{date}T{clock}"))
        }
        _ => Cow::Borrowed(text),
    }
}

/// Digits after the ninth would be truncated.
fn has_more_than_nanoseconds(text: &str) -> bool {
    let Some((_, fraction)) = text.split_once(['.', ',']) else {
        return false;
    };
    let digits = fraction.bytes().take_while(u8::is_ascii_digit);
    digits.skip(9).any(|digit| digit != b'0')
}
