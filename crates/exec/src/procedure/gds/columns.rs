//! Properties of the nodes of a graph in memory, gathered from records and rows.

use std::{collections::BTreeMap, sync::Arc};

use isomer_data::GraphRead as _;
use isomer_value::{NodeId, Value};

use crate::{
    error::{Result, shown},
    names::property_number,
    procedure::{
        CallContext,
        settings::{Settings, refused},
    },
    projection::NodeColumn,
};

/// The values of a property, before nodes are numbered.
#[derive(Default)]
struct PropertyRows {
    /// Null where a node has no value. The first value of a node counts.
    values: Vec<(NodeId, Value)>,
    /// The value of nodes without one.
    default: Value,
}

/// The values of properties, before nodes are numbered.
#[derive(Default)]
pub(super) struct PropertyValues(BTreeMap<Arc<str>, PropertyRows>);

/// A property that a projection names.
#[derive(Clone)]
pub(super) struct NodeProperty {
    /// Its name in the graph.
    name: Arc<str>,
    /// Its name in the database.
    property: Arc<str>,
    default: Value,
}

/// The properties of a projection: a name, a list of names, or a map of names to names or to `{property,
/// defaultValue}`.
pub(super) fn node_properties(procedure: &str, given: &Value) -> Result<Vec<NodeProperty>> {
    let plain = |name: &Arc<str>, property: &Arc<str>| NodeProperty {
        name: name.clone(),
        property: property.clone(),
        default: Value::Null,
    };
    match given {
        Value::String(name) => Ok(vec![plain(name, name)]),
        Value::List(items) => {
            let mut all = Vec::new();
            for item in items.iter() {
                all.extend(node_properties(procedure, item)?);
            }
            Ok(all)
        }
        Value::Map(map) => {
            let one = |(name, value): (&Arc<str>, &Value)| {
                if let Value::String(property) = value {
                    return Ok(plain(name, property));
                }
                let settings = Settings::new(procedure, value, &["property", "defaultValue"])?;
                let default = settings.any("defaultValue").cloned().unwrap_or_default();
                check(procedure, name, &default)?;
                Ok(NodeProperty {
                    name: name.clone(),
                    property: settings.name("property")?.unwrap_or_else(|| name.clone()),
                    default,
                })
            };
            map.iter().map(one).collect()
        }
        other => Err(refused(
            procedure,
            format!(
                "properties of nodes are a name, a list of names, or a map of names, not {}",
                shown(other)
            ),
        )),
    }
}

impl NodeProperty {
    /// Reads the property of some nodes.
    pub(super) fn read(
        &self,
        nodes: &[NodeId],
        values: &mut PropertyValues,
        call: &mut CallContext<'_>,
    ) -> Result<()> {
        let mut column = [Vec::with_capacity(nodes.len())];
        match property_number(call.transaction, &self.property) {
            Some(prop) => call
                .transaction
                .node_properties(nodes, &[prop], &mut column)?,
            None => column[0].resize(nodes.len(), Value::Null),
        }
        let [read] = column;
        call.tick(nodes.len())?;
        call.hold(nodes.len() * size_of::<(NodeId, Value)>())?;
        let rows = values.0.entry(self.name.clone()).or_default();
        rows.default = self.default.clone();
        rows.values.extend(nodes.iter().copied().zip(read));
        Ok(())
    }
}

/// Refuses what is neither a number nor a list of numbers.
fn check(procedure: &str, name: &str, value: &Value) -> Result<()> {
    let is_number = |value: &Value| matches!(value, Value::Int(_) | Value::Float(_));
    let fits = match value {
        Value::Null => true,
        Value::List(items) => items.iter().all(is_number),
        value => is_number(value),
    };
    match fits {
        true => Ok(()),
        false => Err(refused(
            procedure,
            format!(
                "the property `{name}` of a node is a number or a list of numbers, not {}",
                shown(value)
            ),
        )),
    }
}

impl PropertyValues {
    /// Adds the value of a node.
    pub(super) fn put(&mut self, name: &Arc<str>, node: NodeId, value: Value) {
        let rows = self.0.entry(name.clone()).or_default();
        rows.values.push((node, value));
    }

    /// A column per property over `nodes`, which ascend.
    pub(super) fn finish(
        self,
        procedure: &str,
        nodes: &[NodeId],
    ) -> Result<BTreeMap<Arc<str>, NodeColumn>> {
        let mut columns = BTreeMap::new();
        for (name, rows) in self.0 {
            for (_, value) in &rows.values {
                check(procedure, &name, value)?;
            }
            let mut values = vec![Value::Null; nodes.len()];
            let mut missing = Vec::new();
            // The first value of a node is written last.
            for (node, value) in rows.values.into_iter().rev() {
                let Ok(at) = nodes.binary_search(&node) else {
                    continue;
                };
                if value.is_null() {
                    missing.push(at);
                }
                values[at] = value;
            }
            missing.retain(|at| values[*at].is_null());
            let column = of_one_kind(values, missing, rows.default);
            columns.insert(name, column);
        }
        Ok(columns)
    }
}

/// The column of values of one kind: numbers are all integers or all floats. Nodes in `missing` get the default, or
/// what the library takes for it: NaN, or the smallest integer.
pub(super) fn of_one_kind(
    mut values: Vec<Value>,
    missing: Vec<usize>,
    default: Value,
) -> NodeColumn {
    let has_floats = values
        .iter()
        .chain([&default])
        .any(|value| matches!(value, Value::Float(_)));
    let has_ints = values
        .iter()
        .chain([&default])
        .any(|value| matches!(value, Value::Int(_)));
    let default = match default {
        Value::Null if has_floats || !has_ints && !has_lists(&values) => Value::Float(f64::NAN),
        Value::Null if has_ints => Value::Int(i64::MIN),
        given => given,
    };
    for at in missing {
        values[at] = default.clone();
    }
    if has_floats {
        for value in &mut values {
            if let Value::Int(number) = value {
                *value = Value::Float(*number as f64);
            }
        }
    }
    NodeColumn {
        values,
        is_computed: false,
    }
}

fn has_lists(values: &[Value]) -> bool {
    values.iter().any(|value| matches!(value, Value::List(_)))
}
