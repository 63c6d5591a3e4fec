//! The one total order over all values: openCypher's orderability.
//!
//! Types ascending: map, node, relationship, list, path, point, zoned date-time, local date-time, date, zoned
//! time, local time, duration, bytes, string, boolean, number, NaN, null. `ORDER BY`, `min`, `max` and every
//! index rely on it. Two values are equal in it exactly if they are
//! [equivalent](crate::equality::equivalent).

use std::cmp::Ordering;

use crate::{
    Map, Node, Path, Relationship, Value,
    number::{cmp_floats, cmp_int_float},
    point::point_rank,
    temporal::parts::{duration_rank, zoned_parts, zoned_time_rank},
};

/// Compares any two values. Total, and consistent with equivalence: `Equal` means the same group.
///
/// Maps: fewer entries first, then their names, then their values. Lists and paths: item by item, a prefix first.
/// Strings by code point. Numbers exactly: an integer is never rounded to compare it with a float. Durations by
/// their mean length. Zoned values by their instant, then their offset, then the zone's name.
pub fn cmp_order(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::String(a), Value::String(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Value::Float(a), Value::Float(b)) => cmp_floats(*a, *b),
        (Value::Int(a), Value::Float(b)) if !b.is_nan() => cmp_int_float(*a, *b),
        (Value::Float(a), Value::Int(b)) if !a.is_nan() => cmp_int_float(*b, *a).reverse(),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
        (Value::List(a), Value::List(b)) => cmp_items(a, b),
        (Value::Map(a), Value::Map(b)) => cmp_maps(a, b),
        (Value::Node(a), Value::Node(b)) => a.id.cmp(&b.id),
        (Value::Relationship(a), Value::Relationship(b)) => a.id.cmp(&b.id),
        (Value::Path(a), Value::Path(b)) => cmp_paths(a, b),
        (Value::Date(a), Value::Date(b)) => a.cmp(b),
        (Value::LocalTime(a), Value::LocalTime(b)) => a.cmp(b),
        (Value::ZonedTime(a), Value::ZonedTime(b)) => zoned_time_rank(a).cmp(&zoned_time_rank(b)),
        (Value::LocalDateTime(a), Value::LocalDateTime(b)) => a.cmp(b),
        (Value::ZonedDateTime(a), Value::ZonedDateTime(b)) => zoned_parts(a).cmp(&zoned_parts(b)),
        (Value::Duration(a), Value::Duration(b)) => duration_rank(a).cmp(&duration_rank(b)),
        (Value::Point(a), Value::Point(b)) => point_rank(a).cmp(&point_rank(b)),
        _ => type_rank(a).cmp(&type_rank(b)),
    }
}

/// Rank of the value's type.
pub(crate) fn type_rank(value: &Value) -> u8 {
    match value {
        Value::Map(_) => 0,
        Value::Node(_) => 1,
        Value::Relationship(_) => 2,
        Value::List(_) => 3,
        Value::Path(_) => 4,
        Value::Point(_) => 5,
        Value::ZonedDateTime(_) => 6,
        Value::LocalDateTime(_) => 7,
        Value::Date(_) => 8,
        Value::ZonedTime(_) => 9,
        Value::LocalTime(_) => 10,
        Value::Duration(_) => 11,
        Value::Bytes(_) => 12,
        Value::String(_) => 13,
        Value::Bool(_) => 14,
        Value::Float(float) if float.is_nan() => 16,
        Value::Int(_) | Value::Float(_) => 15,
        Value::Null => 17,
    }
}

fn cmp_items(a: &[Value], b: &[Value]) -> Ordering {
    a.iter()
        .zip(b)
        .map(|(a, b)| cmp_order(a, b))
        .find(|order| order.is_ne())
        .unwrap_or_else(|| a.len().cmp(&b.len()))
}

fn cmp_maps(a: &Map, b: &Map) -> Ordering {
    a.len()
        .cmp(&b.len())
        .then_with(|| a.names().cmp(b.names()))
        .then_with(|| {
            a.values()
                .zip(b.values())
                .map(|(a, b)| cmp_order(a, b))
                .find(|order| order.is_ne())
                .unwrap_or(Ordering::Equal)
        })
}

/// Paths compare as alternating lists of their nodes and relationships.
fn cmp_paths(a: &Path, b: &Path) -> Ordering {
    let node = |a: &Node, b: &Node| a.id.cmp(&b.id);
    let step = |a: &(&Relationship, &Node), b: &(&Relationship, &Node)| {
        a.0.id.cmp(&b.0.id).then_with(|| node(a.1, b.1))
    };
    let start = match (a.nodes.first(), b.nodes.first()) {
        (Some(a), Some(b)) => node(a, b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    };
    start.then_with(|| {
        let mut steps = a.relationships.iter().zip(a.nodes.iter().skip(1));
        let mut others = b.relationships.iter().zip(b.nodes.iter().skip(1));
        loop {
            match (steps.next(), others.next()) {
                (Some(a), Some(b)) => match step(&a, &b) {
                    Ordering::Equal => {}
                    order => return order,
                },
                (a, b) => return a.is_some().cmp(&b.is_some()),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Duration, NodeId, Point, RelId, TypeId, ZonedTime};
    use jiff::{civil, tz::Offset};

    /// One or more values of every type, in ascending order.
    fn ladder() -> Vec<Value> {
        let node = |id| Node::new(NodeId(id));
        let rel = |id| Relationship::new(RelId(id), TypeId(0), NodeId(1), NodeId(2));
        let map = |entries: &[(&'static str, i64)]| {
            Value::from(
                entries
                    .iter()
                    .map(|(k, v)| (*k, Value::Int(*v)))
                    .collect::<Map>(),
            )
        };
        let list = |items: &[Value]| Value::from(items.to_vec());
        let path = |ids: &[u64]| {
            Value::from(Path {
                nodes: ids.iter().map(|id| node(*id)).collect(),
                relationships: ids.iter().skip(1).map(|id| rel(*id)).collect(),
            })
        };
        let date = civil::date(2024, 2, 29);
        let time = civil::time(1, 2, 3, 4);
        let offset = |hours| Offset::constant(hours);
        let instant = jiff::Timestamp::UNIX_EPOCH;
        let two_53 = 9_007_199_254_740_992_i64;
        vec![
            map(&[]),
            map(&[("b", 1)]),
            map(&[("b", 2)]),
            map(&[("c", 0)]),
            map(&[("a", 0), ("b", 0)]),
            node(1).into(),
            node(2).into(),
            rel(1).into(),
            rel(2).into(),
            list(&[]),
            list(&["a".into()]),
            list(&["a".into(), 1_i64.into()]),
            list(&[1_i64.into()]),
            list(&[1_i64.into(), "a".into()]),
            list(&[1_i64.into(), Value::Null]),
            list(&[Value::Null, 1_i64.into()]),
            path(&[1]),
            path(&[1, 2]),
            path(&[1, 3]),
            path(&[2]),
            Point {
                crs: crate::Crs::Wgs84,
                x: 1.0,
                y: 2.0,
                z: 0.0,
            }
            .into(),
            Point {
                crs: crate::Crs::Cartesian,
                x: -1.0,
                y: 2.0,
                z: 0.0,
            }
            .into(),
            Point {
                crs: crate::Crs::Cartesian,
                x: 0.0,
                y: 2.0,
                z: 0.0,
            }
            .into(),
            instant.to_zoned(offset(-1).to_time_zone()).into(),
            instant.to_zoned(offset(1).to_time_zone()).into(),
            date.at(1, 2, 3, 4).into(),
            date.at(1, 2, 3, 5).into(),
            date.yesterday().unwrap().into(),
            date.into(),
            ZonedTime {
                time,
                offset: offset(2),
            }
            .into(),
            ZonedTime {
                time,
                offset: offset(1),
            }
            .into(),
            time.into(),
            Duration {
                days: 30,
                ..Duration::default()
            }
            .into(),
            Duration {
                months: 1,
                ..Duration::default()
            }
            .into(),
            Duration {
                days: 31,
                ..Duration::default()
            }
            .into(),
            Value::Bytes((&[][..]).into()),
            Value::Bytes((&[0][..]).into()),
            "".into(),
            "a".into(),
            "a\0".into(),
            "b".into(),
            "\u{ffff}".into(),
            "\u{10000}".into(),
            false.into(),
            true.into(),
            f64::NEG_INFINITY.into(),
            i64::MIN.into(),
            (-1.5).into(),
            0_i64.into(),
            f64::MIN_POSITIVE.into(),
            (two_53 as f64).into(),
            (two_53 + 1).into(),
            (two_53 as f64 + 2.0).into(),
            i64::MAX.into(),
            9_223_372_036_854_775_808.0.into(),
            f64::INFINITY.into(),
            f64::NAN.into(),
            Value::Null,
        ]
    }

    #[test]
    fn every_rung_is_above_those_below() {
        let ladder = ladder();
        for (i, a) in ladder.iter().enumerate() {
            for (j, b) in ladder.iter().enumerate() {
                assert_eq!(cmp_order(a, b), i.cmp(&j), "{a:?} against {b:?}");
            }
        }
    }

    #[test]
    fn numbers_of_two_types_are_one_number_line() {
        assert_eq!(cmp_order(&1_i64.into(), &1.0.into()), Ordering::Equal);
        assert_eq!(cmp_order(&0.0.into(), &(-0.0).into()), Ordering::Equal);
        assert_eq!(
            cmp_order(&f64::NAN.into(), &(-f64::NAN).into()),
            Ordering::Equal
        );
        assert_eq!(
            cmp_order(&f64::NAN.into(), &1_i64.into()),
            Ordering::Greater
        );
    }
}
