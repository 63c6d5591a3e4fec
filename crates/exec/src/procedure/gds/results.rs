//! What the procedures return in common: distributions, and functions that turn ids into nodes.

use isomer_plan::expr::StaticType;
use isomer_value::{Map, Value};

use super::cypher::node_of;
use crate::{
    error::{Result, shown},
    function::node_value,
    procedure::{settings::refused, table::FunctionRow},
};

/// The version of the library whose names and columns these are.
pub(super) const VERSION: &str = "2.13.0";

/// The functions.
pub(super) const FUNCTIONS: &[FunctionRow] = &[
    FunctionRow::new(
        "gds.version",
        "",
        StaticType::String,
        "the version of the library of which this server has a part",
        |_| Ok(VERSION.into()),
    ),
    FunctionRow::new(
        "gds.util.asNode",
        "nodeId: ANY",
        StaticType::Node,
        "the node with an id that a procedure returned",
        |args| as_node(args.first().unwrap_or(&Value::Null)),
    ),
    FunctionRow::new(
        "gds.util.asNodes",
        "nodeIds: ANY",
        StaticType::Any,
        "the nodes with ids that a procedure returned",
        |args| match args.first() {
            Some(Value::List(ids)) => ids.iter().map(as_node).collect::<Result<Value>>(),
            Some(Value::Null) | None => Ok(Value::Null),
            Some(other) => Err(refused(
                "gds.util.asNodes",
                format!("ids are a list of integers, not {}", shown(other)),
            )),
        },
    ),
];

fn as_node(id: &Value) -> Result<Value> {
    match (id, node_of(id)) {
        (Value::Null, _) => Ok(Value::Null),
        (_, Some(node)) => Ok(node_value(node)),
        (other, None) => Err(refused(
            "gds.util.asNode",
            format!("the id of a node is an integer, not {}", shown(other)),
        )),
    }
}

/// Minimum, maximum, mean and percentiles of numbers. Exact; sorts them.
pub(super) fn distribution(mut numbers: Vec<f64>) -> Value {
    numbers.sort_by(f64::total_cmp);
    let mut map = Map::new();
    let count = numbers.len();
    let (Some(least), Some(most)) = (numbers.first(), numbers.last()) else {
        return map.into();
    };
    map.insert("min", Value::Float(*least));
    map.insert("max", Value::Float(*most));
    map.insert(
        "mean",
        Value::Float(numbers.iter().sum::<f64>() / count as f64),
    );
    for (name, share) in [
        ("p50", 0.5),
        ("p75", 0.75),
        ("p90", 0.9),
        ("p95", 0.95),
        ("p99", 0.99),
        ("p999", 0.999),
    ] {
        let at = (count as f64 * share).ceil() as usize;
        map.insert(name, Value::Float(numbers[at.clamp(1, count) - 1]));
    }
    map.into()
}

/// The sizes of groups.
pub(super) fn sizes(groups: &[u32]) -> Vec<f64> {
    let mut sizes = std::collections::BTreeMap::new();
    for group in groups {
        *sizes.entry(*group).or_insert(0.0) += 1.0;
    }
    sizes.into_values().collect()
}
