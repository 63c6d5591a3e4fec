//! Random graphs, and schemas that accelerate queries without changing a result.

use std::sync::Arc;

use isomer_oracle::calendar::{Clock, Date, Offset, SECOND};
use isomer_oracle::graph::{Graph, Node, Relationship};
use isomer_oracle::temporal::{Moment, Span};
use isomer_oracle::{Datum, Map};

use crate::random::Random;

/// Labels of nodes.
pub const LABELS: [&str; 3] = ["A", "B", "C"];
/// Types of relationships.
pub const TYPES: [&str; 3] = ["T", "U", "V"];
/// Strings in properties.
pub const TEXTS: [&str; 6] = ["a", "b", "ab", "", "é", "A b"];

/// Up to seven nodes and ten relationships, including loops and parallel ones. Every node and relationship
/// has a unique number `i`; all else is random.
pub fn graph(random: &mut Random) -> Graph {
    let mut graph = Graph::default();
    let count = match random.below(12) {
        0 => 0,
        1 => 1,
        2 => 8 + random.below(4),
        _ => 2 + random.below(6),
    };
    let mut ids = Vec::new();
    for at in 0..count {
        let labels: Vec<String> = LABELS
            .iter()
            .filter(|_| random.once_in(2))
            .map(|name| (*name).to_owned())
            .collect();
        let mut properties = properties(random, at as i64);
        if !labels.is_empty() && random.once_in(3) {
            properties.insert("_key".into(), format!("k{at}").into());
        }
        ids.push(graph.add_node(Node {
            labels: labels.into_iter().collect(),
            properties,
        }));
    }
    if ids.is_empty() {
        return graph;
    }
    let relationships = match random.once_in(4) {
        true => count + random.below(9),
        false => random.below(11),
    };
    for at in 0..relationships {
        let mut properties = Map::new();
        properties.insert("i".into(), Datum::Int(at as i64));
        if !random.once_in(4) {
            properties.insert("w".into(), Datum::Int(random.below(3) as i64));
        }
        if random.once_in(3) {
            properties.insert("s".into(), Datum::from(*random.pick(&TEXTS)));
        }
        let (source, target) = (*random.pick(&ids), *random.pick(&ids));
        let name = (*random.pick(&TYPES)).to_owned();
        graph.add_relationship(Relationship {
            source,
            target,
            name,
            properties,
        });
    }
    graph
}

fn properties(random: &mut Random, at: i64) -> Map {
    let mut map = Map::new();
    map.insert("i".into(), Datum::Int(at));
    if !random.once_in(4) {
        map.insert("v".into(), Datum::Int(random.below(4) as i64));
    }
    if !random.once_in(3) {
        map.insert("f".into(), Datum::Float(random.below(5) as f64 + 0.5));
    }
    if !random.once_in(3) {
        map.insert("s".into(), Datum::from(*random.pick(&TEXTS)));
    }
    if random.once_in(2) {
        map.insert("b".into(), Datum::Bool(random.once_in(2)));
    }
    if random.once_in(2) {
        let items: Vec<Datum> = (0..random.below(4))
            .map(|_| Datum::Int(random.below(3) as i64))
            .collect();
        map.insert("l".into(), items.into());
    }
    if random.once_in(3) {
        let inner = Map::from_iter([(Arc::from("z"), Datum::from(*random.pick(&TEXTS)))]);
        let whole = Map::from_iter([
            (Arc::from("x"), Datum::Int(random.below(3) as i64)),
            (Arc::from("y"), inner.into()),
        ]);
        map.insert("d".into(), whole.into());
    }
    if random.once_in(4) {
        map.insert("t".into(), Datum::Date(day(random)));
    }
    if random.once_in(2) {
        map.insert("m".into(), mixed(random));
    }
    for (name, kind) in [("z", 4), ("h", 1), ("du", 5)] {
        if random.once_in(3) {
            map.insert(name.into(), temporal(random, kind));
        }
    }
    map
}

/// A day of few, so that equal ones are frequent; some at the ends of months and weeks.
fn day(random: &mut Random) -> Date {
    let (year, month, day) = *random.pick(&[
        (2020, 1, 1),
        (2020, 2, 1),
        (2020, 2, 29),
        (2020, 3, 1),
        (2019, 12, 31),
        (2021, 1, 3),
        (1969, 7, 20),
    ]);
    Date::of(year, month, day).unwrap_or(Date(0))
}

fn clock(random: &mut Random) -> Clock {
    let minutes = *random.pick(&[0, 1, 12 * 60, 12 * 60 + 30, 23 * 60 + 59]);
    Clock(minutes * 60 * SECOND + *random.pick(&[0, 0, SECOND / 2, 1]))
}

/// A temporal value: of six kinds, the duration is the last.
fn temporal(random: &mut Random, kind: u64) -> Datum {
    let offset = |random: &mut Random| Offset(*random.pick(&[0, 0, 3600, -5400]));
    match kind {
        0 => Datum::Date(day(random)),
        1 => Datum::LocalTime(clock(random)),
        2 => Datum::Time(clock(random), offset(random)),
        3 => Datum::LocalDateTime(day(random), clock(random)),
        4 => Datum::from(Moment {
            date: day(random),
            clock: clock(random),
            offset: offset(random),
            zone: None,
        }),
        _ => Datum::from(Span {
            months: *random.pick(&[0, 0, 1, -2]),
            days: *random.pick(&[0, 1, 30, -1]),
            nanos: i128::from(*random.pick(&[0, 0, 24 * 3600, -1, 90])) * i128::from(SECOND),
        }),
    }
}

/// A value of any kind.
fn mixed(random: &mut Random) -> Datum {
    match random.below(9) {
        7 | 8 => {
            let kind = random.below(6);
            temporal(random, kind)
        }
        0 => Datum::Int(random.below(3) as i64),
        1 => Datum::Float(random.below(3) as f64),
        2 => Datum::from(*random.pick(&TEXTS)),
        3 => Datum::Bool(random.once_in(2)),
        4 => vec![Datum::Int(1), Datum::Null].into(),
        5 => Datum::Float(f64::NAN),
        _ => Map::from_iter([(Arc::from("x"), Datum::Int(1))]).into(),
    }
}

/// Statements that create indexes.
pub fn schema(random: &mut Random) -> Vec<String> {
    let all = [
        "CREATE INDEX FOR (n:A) ON (n.v)",
        "CREATE INDEX FOR (n:B) ON (n.v, n.s)",
        "CREATE INDEX FOR (n:A) ON (n.s)",
        "CREATE INDEX FOR (n:C) ON (n.d.x)",
        "CREATE INDEX FOR (n:B) ON (n.l[])",
        "CREATE INDEX FOR (n:C) ON (n.m)",
        "CREATE INDEX FOR (n:A) ON (n.f)",
        "CREATE INDEX FOR (n:B) ON (n.i)",
        "CREATE INDEX FOR (n:A) ON (n.t)",
        "CREATE INDEX FOR (n:B) ON (n.z)",
        "CREATE INDEX FOR (n:C) ON (n.h, n.t)",
        "CREATE INDEX FOR (n:A) ON (n.du)",
        "CREATE INDEX FOR ()-[r:T]-() ON (r.w)",
        "CREATE INDEX FOR ()-[r:U]-() ON (r.w, r.s)",
        "CREATE INDEX FOR ()-[r:T]-() ON (r.s)",
        "CREATE INDEX FOR ()-[r:V]-() ON (r.i)",
        "CREATE INDEX FOR ()-[r:U]-() ON (r.i)",
    ];
    let chosen = all.iter().filter(|_| !random.once_in(3));
    chosen.map(|text| (*text).to_owned()).collect()
}
