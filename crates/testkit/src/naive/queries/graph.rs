//! Random graphs, and schemas that speed queries over them up without changing an answer.

use isomer_value::{Map, Value, jiff::civil};

use crate::naive::interpreter::graph::{Graph, Node, Relationship};
use crate::random::Random;

/// Labels of nodes.
pub const LABELS: [&str; 3] = ["A", "B", "C"];
/// Types of relationships.
pub const TYPES: [&str; 3] = ["T", "U", "V"];
/// Texts that occur.
pub const TEXTS: [&str; 6] = ["a", "b", "ab", "", "é", "A b"];

/// Up to seven nodes and ten relationships, loops and parallel ones among them. Every node and relationship has a number
/// `i` of its own; what else it has is left to chance.
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
            properties.insert("_key", format!("k{at}").into());
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
        properties.insert("i", Value::Int(at as i64));
        if !random.once_in(4) {
            properties.insert("w", Value::Int(random.below(3) as i64));
        }
        if random.once_in(3) {
            properties.insert("s", Value::from(*random.pick(&TEXTS)));
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
    map.insert("i", Value::Int(at));
    if !random.once_in(4) {
        map.insert("v", Value::Int(random.below(4) as i64));
    }
    if !random.once_in(3) {
        map.insert("f", Value::Float(random.below(5) as f64 + 0.5));
    }
    if !random.once_in(3) {
        map.insert("s", Value::from(*random.pick(&TEXTS)));
    }
    if random.once_in(2) {
        map.insert("b", Value::Bool(random.once_in(2)));
    }
    if random.once_in(2) {
        let items: Vec<Value> = (0..random.below(4))
            .map(|_| Value::Int(random.below(3) as i64))
            .collect();
        map.insert("l", items.into());
    }
    if random.once_in(3) {
        let inner = Map::from_iter([("z", Value::from(*random.pick(&TEXTS)))]);
        let whole = Map::from_iter([
            ("x", Value::Int(random.below(3) as i64)),
            ("y", inner.into()),
        ]);
        map.insert("d", whole.into());
    }
    if random.once_in(4) {
        map.insert("t", civil::date(2020, 1 + random.below(3) as i8, 1).into());
    }
    if random.once_in(2) {
        map.insert("m", mixed(random));
    }
    map
}

/// A value of any kind.
fn mixed(random: &mut Random) -> Value {
    match random.below(7) {
        0 => Value::Int(random.below(3) as i64),
        1 => Value::Float(random.below(3) as f64),
        2 => Value::from(*random.pick(&TEXTS)),
        3 => Value::Bool(random.once_in(2)),
        4 => vec![Value::Int(1), Value::Null].into(),
        5 => Value::Float(f64::NAN),
        _ => Map::from_iter([("x", Value::Int(1))]).into(),
    }
}

/// Statements that make indexes.
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
    ];
    let chosen = all.iter().filter(|_| !random.once_in(3));
    chosen.map(|text| (*text).to_owned()).collect()
}
