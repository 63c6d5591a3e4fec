//! Values of the interpreter.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::calendar::{Clock, Date, Moment, Offset};
use crate::span::Span;

/// Names to values.
pub type Map = BTreeMap<Arc<str>, Datum>;

/// A value of the language. Rust's `==` is deliberately absent: [`logic`](crate::logic) has the language's relations.
#[derive(Clone, Debug, Default)]
pub enum Datum {
    /// Null.
    #[default]
    Null,
    /// True or false.
    Bool(bool),
    /// A 64-bit integer.
    Int(i64),
    /// An IEEE 754 double.
    Float(f64),
    /// Text.
    Text(Arc<str>),
    /// Raw bytes.
    Bytes(Arc<[u8]>),
    /// Values in order.
    List(Arc<Vec<Datum>>),
    /// Names to values.
    Map(Arc<Map>),
    /// A node.
    Node(Arc<NodeValue>),
    /// A relationship.
    Relationship(Arc<RelationshipValue>),
    /// A path.
    Path(Arc<PathValue>),
    /// A day.
    Date(Date),
    /// A time of day.
    LocalTime(Clock),
    /// A time of day on a clock with an offset from UTC.
    Time(Clock, Offset),
    /// A day and a time of day.
    LocalDateTime(Date, Clock),
    /// A day and a time of day on a clock with an offset from UTC.
    DateTime(Arc<Moment>),
    /// A duration.
    Duration(Arc<Span>),
    /// A point.
    Point(Arc<PointValue>),
}

/// Labels and properties of a node.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// Its labels.
    pub labels: BTreeSet<String>,
    /// Its properties.
    pub properties: Map,
}

/// A node as a value. Its identity is its number.
#[derive(Clone, Debug)]
pub struct NodeValue {
    /// Its number.
    pub id: u64,
    /// Labels and properties, if the value was read from a result.
    pub content: Option<Node>,
}

/// A relationship as a value. Its identity is its number.
#[derive(Clone, Debug)]
pub struct RelationshipValue {
    /// Its number.
    pub id: u64,
    /// The number of the node where it starts.
    pub source: u64,
    /// The number of the node where it ends.
    pub target: u64,
    /// Type and properties, if the value was read from a result.
    pub content: Option<(String, Map)>,
}

/// A path: one node more than relationships.
#[derive(Clone, Debug)]
pub struct PathValue {
    /// The nodes.
    pub nodes: Vec<NodeValue>,
    /// The relationships.
    pub relationships: Vec<RelationshipValue>,
}

/// A point. The interpreter passes points on and compares them; it makes none.
#[derive(Clone, Debug)]
pub struct PointValue {
    /// Position of the coordinate reference system in the order of points.
    pub system: u8,
    /// The coordinates; 0 for one that the system does not have.
    pub coordinates: [f64; 3],
}

/// The types of values, in the ascending order of the language's orderability. NaN is a separate type there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A map.
    Map,
    /// A node.
    Node,
    /// A relationship.
    Relationship,
    /// A list.
    List,
    /// A path.
    Path,
    /// A point.
    Point,
    /// A date-time with an offset.
    DateTime,
    /// A date-time without one.
    LocalDateTime,
    /// A date.
    Date,
    /// A time with an offset.
    Time,
    /// A time without one.
    LocalTime,
    /// A duration.
    Duration,
    /// Bytes.
    Bytes,
    /// Text.
    Text,
    /// A boolean.
    Bool,
    /// An integer, or a float that is a number.
    Number,
    /// The float that is not a number.
    NotANumber,
    /// Null.
    Null,
}

impl Datum {
    /// Its type.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Null => Kind::Null,
            Self::Bool(_) => Kind::Bool,
            Self::Float(number) if number.is_nan() => Kind::NotANumber,
            Self::Int(_) | Self::Float(_) => Kind::Number,
            Self::Text(_) => Kind::Text,
            Self::Bytes(_) => Kind::Bytes,
            Self::List(_) => Kind::List,
            Self::Map(_) => Kind::Map,
            Self::Node(_) => Kind::Node,
            Self::Relationship(_) => Kind::Relationship,
            Self::Path(_) => Kind::Path,
            Self::Date(_) => Kind::Date,
            Self::LocalTime(_) => Kind::LocalTime,
            Self::Time(..) => Kind::Time,
            Self::LocalDateTime(..) => Kind::LocalDateTime,
            Self::DateTime(_) => Kind::DateTime,
            Self::Duration(_) => Kind::Duration,
            Self::Point(_) => Kind::Point,
        }
    }

    /// Whether it is null.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Whether it is a number.
    pub fn is_number(&self) -> bool {
        matches!(self, Self::Int(_) | Self::Float(_))
    }

    /// Whether it is a date, a time, a date-time or a duration.
    pub fn is_temporal(&self) -> bool {
        self.is_instant() || matches!(self, Self::Duration(_))
    }

    /// Whether it is a date, a time or a date-time.
    pub fn is_instant(&self) -> bool {
        matches!(
            self.kind(),
            Kind::Date | Kind::LocalTime | Kind::Time | Kind::LocalDateTime | Kind::DateTime
        )
    }

    /// The nearest double of a number.
    pub fn to_f64(&self) -> Option<f64> {
        match self {
            Self::Int(number) => Some(*number as f64),
            Self::Float(number) => Some(*number),
            _ => None,
        }
    }

    /// The integer.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// A node without content.
    pub fn node(id: u64) -> Self {
        Self::Node(Arc::new(NodeValue { id, content: None }))
    }
}

impl From<bool> for Datum {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Datum {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Datum {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<&str> for Datum {
    fn from(value: &str) -> Self {
        Self::Text(value.into())
    }
}

impl From<String> for Datum {
    fn from(value: String) -> Self {
        Self::Text(value.into())
    }
}

impl From<Vec<Datum>> for Datum {
    fn from(value: Vec<Datum>) -> Self {
        Self::List(Arc::new(value))
    }
}

impl From<Map> for Datum {
    fn from(value: Map) -> Self {
        Self::Map(Arc::new(value))
    }
}

impl From<Span> for Datum {
    fn from(value: Span) -> Self {
        Self::Duration(Arc::new(value))
    }
}

impl From<Moment> for Datum {
    fn from(value: Moment) -> Self {
        Self::DateTime(Arc::new(value))
    }
}

impl<T: Into<Datum>> From<Option<T>> for Datum {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl FromIterator<Datum> for Datum {
    fn from_iter<I: IntoIterator<Item = Datum>>(items: I) -> Self {
        Self::from(items.into_iter().collect::<Vec<_>>())
    }
}
