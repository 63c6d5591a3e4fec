//! Types of columns, by the names that users declare.

use isomer_db::Value;

/// The type as which a column's texts are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// The text unchanged.
    String,
    /// 64-bit integer.
    Int,
    /// Double.
    Float,
    /// `true` or `false`.
    Bool,
    /// `2026-02-28`.
    Date,
    /// `17:30:00`.
    LocalTime,
    /// `17:30:00+01:00`.
    ZonedTime,
    /// `2026-02-28T17:30:00`.
    LocalDateTime,
    /// `2026-02-28T17:30:00+01:00` or with a zone: `…[Europe/Rome]`.
    ZonedDateTime,
    /// `P1DT2H`.
    Duration,
    /// `{"x": 1, "y": 2}`, or with `longitude` and `latitude`.
    Point,
    /// Base64.
    Bytes,
    /// Any JSON.
    Json,
    /// The column is ignored.
    Ignore,
}

/// The names of the types, for messages and help.
pub const TYPE_NAMES: &str = "string, int, float, bool, date, localtime, time, localdatetime, datetime, \
                              duration, point, bytes, json, ignore";

impl ColumnType {
    /// The type of that name (case-insensitive), including neo4j-admin's names.
    pub(super) fn parse(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "string" | "str" | "text" | "char" => Self::String,
            "int" | "integer" | "long" | "short" | "byte" => Self::Int,
            "float" | "double" => Self::Float,
            "bool" | "boolean" => Self::Bool,
            "date" => Self::Date,
            "localtime" => Self::LocalTime,
            "time" => Self::ZonedTime,
            "localdatetime" => Self::LocalDateTime,
            "datetime" | "instant" | "timestamp" => Self::ZonedDateTime,
            "duration" => Self::Duration,
            "point" => Self::Point,
            "bytes" => Self::Bytes,
            "json" => Self::Json,
            "ignore" => Self::Ignore,
            _ => return None,
        })
    }

    pub(super) fn noun(self) -> &'static str {
        match self {
            Self::String => "a string",
            Self::Int => "an integer",
            Self::Float => "a number",
            Self::Bool => "true or false",
            Self::Date => "a date such as 2026-02-28",
            Self::LocalTime => "a local time such as 17:30:00",
            Self::ZonedTime => "a time with an offset such as 17:30:00+01:00",
            Self::LocalDateTime => "a local date-time such as 2026-02-28T17:30:00",
            Self::ZonedDateTime => "a date-time with a zone such as 2026-02-28T17:30:00+01:00",
            Self::Duration => "a duration such as P1DT2H",
            Self::Point => {
                "a point such as {\"x\": 1, \"y\": 2} or {\"longitude\": 8.5, \"latitude\": 47.4}"
            }
            Self::Bytes => "bytes in base64",
            Self::Json | Self::Ignore => "JSON",
        }
    }

    /// Whether a typed value (from JSON) is of this type.
    pub(super) fn is_of(self, value: &Value) -> bool {
        matches!(
            (self, value),
            (Self::String, Value::String(_))
                | (Self::Int, Value::Int(_))
                | (Self::Float, Value::Float(_))
                | (Self::Bool, Value::Bool(_))
                | (Self::Date, Value::Date(_))
                | (Self::LocalTime, Value::LocalTime(_))
                | (Self::ZonedTime, Value::ZonedTime(_))
                | (Self::LocalDateTime, Value::LocalDateTime(_))
                | (Self::ZonedDateTime, Value::ZonedDateTime(_))
                | (Self::Duration, Value::Duration(_))
                | (Self::Point, Value::Point(_))
                | (Self::Bytes, Value::Bytes(_))
        )
    }
}
