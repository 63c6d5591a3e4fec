//! The value type that all crates above use.

use std::sync::Arc;

use jiff::civil;

use crate::point::point_rank;
use crate::{Duration, Map, Node, Path, Point, Relationship, ZonedDateTime, ZonedTime};

/// A value of any type of the language. Cloning copies at most a pointer and increments a count; 24 bytes.
///
/// `==` in Rust is *identity*: same type, same content, NaN identical to itself, `1` not identical to `1.0`.
/// The language's own relations are [`equality::equal`](crate::equality::equal) (three-valued `=`),
/// [`equality::equivalent`](crate::equality::equivalent) (grouping) and
/// [`order::cmp_order`](crate::order::cmp_order) (sorting).
///
/// Deliberately not `#[non_exhaustive]`: every codec, function and interface must decide what it does with a new type,
/// so a `match` without a `_` arm must fail to compile. A new type of value is therefore a new major version.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// Null.
    #[default]
    Null,
    /// True or false.
    Bool(bool),
    /// A 64-bit signed integer, exact.
    Int(i64),
    /// An IEEE 754 double; NaN and the infinities included.
    Float(f64),
    /// Unicode text.
    String(Arc<str>),
    /// Raw bytes.
    Bytes(Arc<[u8]>),
    /// Values in order.
    List(Arc<Vec<Value>>),
    /// Names to values.
    Map(Arc<Map>),
    /// A node.
    Node(Arc<Node>),
    /// A relationship.
    Relationship(Arc<Relationship>),
    /// A path.
    Path(Arc<Path>),
    /// A day of the proleptic Gregorian calendar, years -9999 to 9999.
    Date(civil::Date),
    /// A time of day without a zone, to the nanosecond.
    LocalTime(civil::Time),
    /// A time of day with an offset from UTC.
    ZonedTime(ZonedTime),
    /// A day and a time without a zone.
    LocalDateTime(civil::DateTime),
    /// An instant with a time zone or a fixed offset.
    ZonedDateTime(Arc<ZonedDateTime>),
    /// An amount of months, days, seconds and nanoseconds.
    Duration(Arc<Duration>),
    /// A point.
    Point(Arc<Point>),
}

impl Value {
    /// The empty list.
    pub fn empty_list() -> Self {
        Self::List(Arc::new(Vec::new()))
    }

    /// The name of the value's type as the language and its messages spell it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "NULL",
            Self::Bool(_) => "BOOLEAN",
            Self::Int(_) => "INTEGER",
            Self::Float(_) => "FLOAT",
            Self::String(_) => "STRING",
            Self::Bytes(_) => "BYTES",
            Self::List(_) => "LIST",
            Self::Map(_) => "MAP",
            Self::Node(_) => "NODE",
            Self::Relationship(_) => "RELATIONSHIP",
            Self::Path(_) => "PATH",
            Self::Date(_) => "DATE",
            Self::LocalTime(_) => "LOCAL TIME",
            Self::ZonedTime(_) => "ZONED TIME",
            Self::LocalDateTime(_) => "LOCAL DATETIME",
            Self::ZonedDateTime(_) => "ZONED DATETIME",
            Self::Duration(_) => "DURATION",
            Self::Point(_) => "POINT",
        }
    }

    /// Whether the value is null.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Whether lists and maps are nested in more than `levels` levels. Recursion is bounded by `levels`.
    pub fn nests_deeper(&self, levels: usize) -> bool {
        match self {
            Self::List(items) => {
                levels == 0 || items.iter().any(|item| item.nests_deeper(levels - 1))
            }
            Self::Map(map) => levels == 0 || map.values().any(|item| item.nests_deeper(levels - 1)),
            _ => false,
        }
    }

    /// Whether the value is an integer or a float.
    pub fn is_number(&self) -> bool {
        matches!(self, Self::Int(_) | Self::Float(_))
    }

    /// Whether the value is a date, a time, a date-time or a duration.
    pub fn is_temporal(&self) -> bool {
        matches!(
            self,
            Self::Date(_)
                | Self::LocalTime(_)
                | Self::ZonedTime(_)
                | Self::LocalDateTime(_)
                | Self::ZonedDateTime(_)
                | Self::Duration(_)
        )
    }

    /// The boolean, if the value is one.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The integer, if the value is one. A float never is, not even `1.0`.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// The float, if the value is one. An integer never is: see [`Value::to_f64`].
    pub fn as_float(&self) -> Option<f64> {
        match self {
            Self::Float(value) => Some(*value),
            _ => None,
        }
    }

    /// The nearest double, if the value is an integer or a float.
    pub fn to_f64(&self) -> Option<f64> {
        match self {
            Self::Int(value) => Some(*value as f64),
            Self::Float(value) => Some(*value),
            _ => None,
        }
    }

    /// The string, if the value is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(value) => Some(value),
            _ => None,
        }
    }

    /// The bytes, if the value is a byte string.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(value) => Some(value),
            _ => None,
        }
    }

    /// The items, if the value is a list.
    pub fn as_list(&self) -> Option<&[Value]> {
        match self {
            Self::List(value) => Some(value),
            _ => None,
        }
    }

    /// The map, if the value is one (not the properties of a node).
    pub fn as_map(&self) -> Option<&Map> {
        match self {
            Self::Map(value) => Some(value),
            _ => None,
        }
    }

    /// The node, if the value is one.
    pub fn as_node(&self) -> Option<&Node> {
        match self {
            Self::Node(value) => Some(value),
            _ => None,
        }
    }

    /// The relationship, if the value is one.
    pub fn as_relationship(&self) -> Option<&Relationship> {
        match self {
            Self::Relationship(value) => Some(value),
            _ => None,
        }
    }

    /// The path, if the value is one.
    pub fn as_path(&self) -> Option<&Path> {
        match self {
            Self::Path(value) => Some(value),
            _ => None,
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a == b || (a.is_nan() && b.is_nan()),
            (Self::String(a), Self::String(b)) => a == b,
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::List(a), Self::List(b)) => a == b,
            (Self::Map(a), Self::Map(b)) => a == b,
            (Self::Node(a), Self::Node(b)) => a.id == b.id,
            (Self::Relationship(a), Self::Relationship(b)) => a.id == b.id,
            (Self::Path(a), Self::Path(b)) => a == b,
            (Self::Date(a), Self::Date(b)) => a == b,
            (Self::LocalTime(a), Self::LocalTime(b)) => a == b,
            (Self::ZonedTime(a), Self::ZonedTime(b)) => a == b,
            (Self::LocalDateTime(a), Self::LocalDateTime(b)) => a == b,
            (Self::ZonedDateTime(a), Self::ZonedDateTime(b)) => a == b,
            (Self::Duration(a), Self::Duration(b)) => a == b,
            (Self::Point(a), Self::Point(b)) => point_rank(a) == point_rank(b),
            _ => false,
        }
    }
}

impl Eq for Value {}

macro_rules! from {
    ($($source:ty => |$value:ident| $made:expr),* $(,)?) => {
        $(impl From<$source> for Value {
            fn from($value: $source) -> Self {
                $made
            }
        })*
    };
}

from! {
    bool => |value| Self::Bool(value),
    i64 => |value| Self::Int(value),
    i32 => |value| Self::Int(value.into()),
    u32 => |value| Self::Int(value.into()),
    f64 => |value| Self::Float(value),
    &str => |value| Self::String(value.into()),
    String => |value| Self::String(value.into()),
    Arc<str> => |value| Self::String(value),
    &[u8] => |value| Self::Bytes(value.into()),
    Vec<u8> => |value| Self::Bytes(value.into()),
    Arc<[u8]> => |value| Self::Bytes(value),
    Vec<Value> => |value| Self::List(Arc::new(value)),
    Map => |value| Self::Map(Arc::new(value)),
    Node => |value| Self::Node(Arc::new(value)),
    Relationship => |value| Self::Relationship(Arc::new(value)),
    Path => |value| Self::Path(Arc::new(value)),
    civil::Date => |value| Self::Date(value),
    civil::Time => |value| Self::LocalTime(value),
    ZonedTime => |value| Self::ZonedTime(value),
    civil::DateTime => |value| Self::LocalDateTime(value),
    ZonedDateTime => |value| Self::ZonedDateTime(Arc::new(value)),
    jiff::Zoned => |value| Self::ZonedDateTime(Arc::new(value.into())),
    Duration => |value| Self::Duration(Arc::new(value)),
    Point => |value| Self::Point(Arc::new(value)),
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl FromIterator<Value> for Value {
    fn from_iter<I: IntoIterator<Item = Value>>(items: I) -> Self {
        Self::from(items.into_iter().collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_takes_24_bytes() {
        assert_eq!(size_of::<Value>(), 24);
    }

    #[test]
    fn rust_equality_is_identity() {
        assert_eq!(Value::Float(f64::NAN), Value::Float(f64::NAN));
        assert_ne!(Value::Int(1), Value::Float(1.0));
        assert_eq!(
            Value::from(vec![Value::Null, "a".into()]),
            Value::from(vec![Value::Null, "a".into()])
        );
        let map = |value: i64| Value::from(Map::from_iter([("a", Value::Int(value))]));
        assert_eq!(map(1), map(1));
        assert_ne!(map(1), map(2));
    }

    #[test]
    fn options_become_null() {
        assert_eq!(Value::from(None::<i64>), Value::Null);
        assert_eq!(Value::from(Some(3_i64)), Value::Int(3));
    }
}
