//! The product's values as the oracle's: field by field, without the product's relations or temporal functions.

use std::sync::Arc;

use isomer_oracle::calendar::{Clock, Date, Offset, SECOND};
use isomer_oracle::graph::Node;
use isomer_oracle::temporal::{Moment, Span};
use isomer_oracle::{Datum, Map, NodeValue, PathValue, PointValue, RelationshipValue};
use isomer_value::jiff::civil;
use isomer_value::{Crs, Value};

/// A value of a result.
pub fn datum(value: &Value) -> Datum {
    match value {
        Value::Null => Datum::Null,
        Value::Bool(value) => Datum::Bool(*value),
        Value::Int(value) => Datum::Int(*value),
        Value::Float(value) => Datum::Float(*value),
        Value::String(value) => Datum::Text(value.clone()),
        Value::Bytes(value) => Datum::Bytes(value.clone()),
        Value::List(items) => items.iter().map(datum).collect(),
        Value::Map(entries) => Datum::from(map(entries)),
        Value::Node(one) => Datum::Node(Arc::new(node(one))),
        Value::Relationship(one) => Datum::Relationship(Arc::new(relationship(one))),
        Value::Path(path) => Datum::Path(Arc::new(PathValue {
            nodes: path.nodes.iter().map(node).collect(),
            relationships: path.relationships.iter().map(relationship).collect(),
        })),
        Value::Date(value) => Datum::Date(date(*value)),
        Value::LocalTime(value) => Datum::LocalTime(clock(*value)),
        Value::ZonedTime(value) => {
            Datum::Time(clock(value.time), Offset(value.offset.seconds().into()))
        }
        Value::LocalDateTime(value) => {
            Datum::LocalDateTime(date(value.date()), clock(value.time()))
        }
        Value::ZonedDateTime(value) => Datum::from(Moment {
            date: date(value.date()),
            clock: clock(value.time()),
            offset: Offset(value.offset().seconds().into()),
            zone: value.zone_name().map(Arc::from),
        }),
        Value::Duration(value) => Datum::from(Span {
            months: value.months,
            days: value.days,
            nanos: i128::from(value.seconds) * i128::from(SECOND) + i128::from(value.nanos),
        }),
        Value::Point(value) => Datum::Point(Arc::new(PointValue {
            system: match value.crs {
                Crs::Wgs84 => 0,
                Crs::Wgs84Height => 1,
                Crs::Cartesian => 2,
                Crs::Cartesian3d => 3,
            },
            coordinates: [value.x, value.y, value.z],
        })),
    }
}

/// Properties, or a map of a result.
pub fn map(entries: &isomer_value::Map) -> Map {
    let entries = entries.iter();
    entries
        .map(|(name, value)| (name.clone(), datum(value)))
        .collect()
}

fn node(one: &isomer_value::Node) -> NodeValue {
    NodeValue {
        id: one.id.0,
        content: one.content.as_deref().map(|content| Node {
            labels: content.labels.iter().map(ToString::to_string).collect(),
            properties: map(&content.properties),
        }),
    }
}

fn relationship(one: &isomer_value::Relationship) -> RelationshipValue {
    RelationshipValue {
        id: one.id.0,
        source: one.source.0,
        target: one.target.0,
        content: one
            .content
            .as_deref()
            .map(|content| (content.type_name.to_string(), map(&content.properties))),
    }
}

fn date(value: civil::Date) -> Date {
    let (year, month, day) = (value.year(), value.month(), value.day());
    Date::of(year.into(), month.into(), day.into()).expect("a date of the product is a day")
}

fn clock(value: civil::Time) -> Clock {
    let (hour, minute, second) = (value.hour(), value.minute(), value.second());
    let nanos = value.subsec_nanosecond().into();
    Clock::of(hour.into(), minute.into(), second.into(), nanos)
        .expect("a time of the product is a time of day")
}

#[cfg(test)]
mod tests {
    use super::*;
    use isomer_oracle::notation::literal;

    /// Values of the product, and what the oracle calls them.
    #[test]
    fn values_keep_their_parts() {
        let database = isomer_db::Database::open_in_memory().expect("a database in memory");
        for text in [
            "date('2020-02-29')",
            "localtime('23:59:59.000000001')",
            "time('12:00-01:30')",
            "localdatetime('-0044-03-15T12:00')",
            "datetime('1984-10-11T12:31:14.645+02:05:59')",
            "duration('P-1Y2M-3DT-4.5S')",
            "[1, {a: 1.5, b: 'é'}, null, true]",
        ] {
            let rows = database.query(&format!("RETURN {text} AS x")).expect(text);
            let value = &rows.rows()[0].values()[0];
            let shown = literal(&datum(value));
            let again = database.query(&format!("RETURN {shown} = {text} AS x"));
            let again = again.expect(&shown);
            assert!(!value.is_null() || text == "null");
            match &again.rows()[0].values()[0] {
                // A list with a null equals nothing for certain.
                Value::Null => assert_eq!(shown, text),
                equal => assert_eq!(*equal, Value::Bool(true), "{shown}"),
            }
        }
    }
}
