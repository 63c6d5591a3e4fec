//! Spilled values come back unchanged.

use std::{io::Write, sync::Arc};

use isomer_data::SpillFolder;
use isomer_value::{
    Crs, Duration, Map, Node, NodeContent, NodeId, Path, Point, RelId, Relationship,
    RelationshipContent, TypeId, Value, ZonedTime, jiff,
};
use proptest::prelude::*;

use super::codec::{put_row, read_row};

/// Values of every type, nested a few levels.
fn value() -> impl Strategy<Value = Value> {
    let text = || "[a-zé]{0,6}";
    let zoned = |seconds: i64, zone: &str| {
        let zone = jiff::tz::TimeZone::get(zone).expect("a known zone");
        let instant = jiff::Timestamp::from_second(seconds).expect("a second in range");
        Value::from(instant.to_zoned(zone))
    };
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        prop_oneof![
            any::<f64>(),
            Just(f64::NAN),
            Just(-0.0),
            Just(f64::INFINITY)
        ]
        .prop_map(Value::Float),
        text().prop_map(Value::from),
        prop::collection::vec(any::<u8>(), 0..20).prop_map(Value::from),
        any::<u64>().prop_map(|id| Value::Node(Arc::new(Node::new(NodeId(id))))),
        (any::<u64>(), any::<u32>()).prop_map(|(id, other)| {
            let (source, target) = (NodeId(id), NodeId(other.into()));
            Value::Relationship(Arc::new(Relationship::new(
                RelId(id),
                TypeId(other),
                source,
                target,
            )))
        }),
        (1..28_i8).prop_map(|day| Value::Date(jiff::civil::date(2024, 2, day))),
        (0..60_i8).prop_map(|second| Value::LocalTime(jiff::civil::time(
            23,
            59,
            second,
            999_999_999
        ))),
        (-18..18_i8).prop_map(|hours| Value::ZonedTime(ZonedTime {
            time: jiff::civil::time(1, 2, 3, 4),
            offset: jiff::tz::offset(hours),
        })),
        (1..9999_i16)
            .prop_map(|year| Value::LocalDateTime(jiff::civil::date(year, 1, 1).at(0, 0, 0, 1))),
        (0..2_000_000_000_i64).prop_map(move |seconds| zoned(seconds, "Europe/Rome")),
        (any::<i32>(), any::<i32>()).prop_map(|(months, seconds)| Value::from(Duration {
            months: months.into(),
            days: 0,
            seconds: seconds.into(),
            nanos: 5,
        })),
        (any::<f64>(), any::<f64>()).prop_map(|(x, y)| Value::from(Point {
            crs: Crs::Cartesian,
            x,
            y,
            z: 0.0,
        })),
    ];
    leaf.prop_recursive(4, 32, 5, move |inner| {
        let map = || prop::collection::btree_map("[a-z]{1,4}", inner.clone(), 0..4);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            map().prop_map(|map| Value::from(Map::from_iter(map))),
            (any::<u64>(), map()).prop_map(|(id, map)| {
                let content = NodeContent {
                    labels: vec!["A".into(), "B".into()].into(),
                    properties: Map::from_iter(map),
                };
                let node = Node {
                    id: NodeId(id),
                    content: Some(Arc::new(content)),
                };
                let mut rel = Relationship::new(RelId(id), TypeId(1), NodeId(id), NodeId(3));
                rel.content = Some(Arc::new(RelationshipContent {
                    type_name: "T".into(),
                    properties: Map::new(),
                }));
                Value::Path(Arc::new(Path {
                    nodes: vec![node, Node::new(NodeId(3))],
                    relationships: vec![rel],
                }))
            }),
        ]
    })
}

/// Equality down to the bits of floats and the loaded content of nodes, which `==` does not compare.
fn spelled(values: &[Value]) -> String {
    format!("{values:?}")
}

proptest! {
    /// Rows of any width and any values come back exactly; truncated anywhere, they are an error.
    #[test]
    fn rows_come_back(rows in prop::collection::vec(prop::collection::vec(value(), 0..5), 1..8)) {
        let outer = tempfile::tempdir().unwrap();
        let folder = Arc::new(SpillFolder::new(outer.path()));
        let mut file = folder.file().unwrap();
        let mut bytes = Vec::new();
        for row in &rows {
            put_row(&mut bytes, row.iter()).unwrap();
        }
        let mut out = file.writer();
        out.write_all(&bytes).unwrap();
        let whole = out.finish().unwrap();
        let mut out = file.writer();
        out.write_all(&bytes[..bytes.len() - 1]).unwrap();
        let cut = out.finish().unwrap();

        let mut reader = whole.reader();
        let (mut buffer, mut values) = (Vec::new(), Vec::new());
        for row in &rows {
            prop_assert!(read_row(&mut reader, &mut buffer, &mut values).unwrap());
            prop_assert_eq!(spelled(&values), spelled(row));
        }
        prop_assert!(!read_row(&mut reader, &mut buffer, &mut values).unwrap());

        let mut reader = cut.reader();
        let read: Result<Vec<bool>, _> = rows
            .iter()
            .map(|_| read_row(&mut reader, &mut buffer, &mut values))
            .collect();
        prop_assert!(read.is_err());
    }
}

/// Values nested deeper than allowed are refused, without recursion.
#[test]
fn depth_is_bounded() {
    let mut deep = Value::Null;
    for _ in 0..1000 {
        deep = Value::from(vec![deep]);
    }
    let refused = put_row(&mut Vec::new(), [&deep].into_iter());
    assert!(refused.unwrap_err().to_string().contains("nested"));
}
