//! `gds.graph.nodeProperty.stream`, `gds.graph.nodeProperties.stream|write|drop`: properties of the nodes of a graph in
//! memory.

use std::{sync::Arc, time::Instant};

use isomer_data::GraphRead as _;
use isomer_plan::catalog::ProcedureMode;
use isomer_value::{Map, NodeId, Value};

use super::{
    arguments::{database, text, user},
    listing::missing,
};
use crate::{
    error::{Result, shown},
    procedure::{
        CallContext,
        settings::{Settings, refused},
        table::ProcedureRow,
    },
    projection::{NodeColumn, ProjectedGraph},
};

const STREAM_ONE: &str = "gds.graph.nodeProperty.stream";
const STREAM: &str = "gds.graph.nodeProperties.stream";
const WRITE: &str = "gds.graph.nodeProperties.write";
const DROP: &str = "gds.graph.nodeProperties.drop";

/// The procedures.
pub(super) const PROCEDURES: &[ProcedureRow] = &[
    ProcedureRow {
        name: STREAM_ONE,
        parameters: "graphName: STRING, nodeProperties: STRING, nodeLabels: ANY = '*', configuration: MAP? = {}",
        results: "nodeId: INTEGER, propertyValue: ANY, nodeLabels: ANY",
        mode: ProcedureMode::Read,
        description: "the values of a property of the nodes of a graph in memory",
        body: stream_one,
    },
    ProcedureRow {
        name: STREAM,
        parameters: "graphName: STRING, nodeProperties: ANY, nodeLabels: ANY = '*', configuration: MAP? = {}",
        results: "nodeId: INTEGER, nodeProperty: STRING, propertyValue: ANY, nodeLabels: ANY",
        mode: ProcedureMode::Read,
        description: "the values of properties of the nodes of a graph in memory, for the nodes that have all of them",
        body: stream,
    },
    ProcedureRow {
        name: WRITE,
        parameters: "graphName: STRING, nodeProperties: ANY, nodeLabels: ANY = '*', configuration: MAP? = {}",
        results: "writeMillis: INTEGER, graphName: STRING, nodeProperties: ANY, propertiesWritten: INTEGER, \
                  configuration: MAP",
        mode: ProcedureMode::Write,
        description: "writes properties of the nodes of a graph in memory to the nodes of the database",
        body: write,
    },
    ProcedureRow {
        name: DROP,
        parameters: "graphName: STRING, nodeProperties: ANY, configuration: MAP? = {}",
        results: "propertiesRemoved: INTEGER, graphName: STRING, nodeProperties: ANY",
        mode: ProcedureMode::Read,
        description: "removes properties of the nodes of a graph in memory",
        body: remove,
    },
];

fn stream_one(arguments: &[Value], call: &mut CallContext<'_>) -> Result<()> {
    text(STREAM_ONE, arguments, 1, "nodeProperties")?;
    emit(STREAM_ONE, arguments, call, false)
}

fn stream(arguments: &[Value], call: &mut CallContext<'_>) -> Result<()> {
    emit(STREAM, arguments, call, true)
}

fn emit(
    procedure: &str,
    arguments: &[Value],
    call: &mut CallContext<'_>,
    names_property: bool,
) -> Result<()> {
    let null = Value::Null;
    let given = arguments.get(3).unwrap_or(&null);
    let settings = Settings::new(procedure, given, &["concurrency", "listNodeLabels"])?;
    settings.integer("concurrency", 4, 1..=i64::from(u32::MAX))?;
    let lists_labels = settings.boolean("listNodeLabels", false)?;
    let graph = graph(procedure, arguments, call)?;
    let requested = RequestedColumns::of(procedure, &graph, arguments)?;
    for at in requested.nodes(procedure, &graph, arguments.get(2))? {
        let labels = match lists_labels {
            true => labels_of(&graph, at),
            false => Value::from(Vec::<Value>::new()),
        };
        let node = Value::Int(graph.nodes[at].0 as i64);
        for (name, _, column) in &requested.columns {
            let mut row = vec![node.clone()];
            if names_property {
                row.push(Value::String(name.clone()));
            }
            row.extend([column.values[at].clone(), labels.clone()]);
            call.emit(row)?;
        }
    }
    Ok(())
}

fn write(arguments: &[Value], call: &mut CallContext<'_>) -> Result<()> {
    let started = Instant::now();
    let null = Value::Null;
    let given = arguments.get(3).unwrap_or(&null);
    let settings = Settings::new(WRITE, given, &["concurrency", "writeConcurrency"])?;
    for name in ["concurrency", "writeConcurrency"] {
        settings.integer(name, 4, 1..=i64::from(u32::MAX))?;
    }
    let graph = graph(WRITE, arguments, call)?;
    let requested = RequestedColumns::of(WRITE, &graph, arguments)?;
    let places = requested.nodes(WRITE, &graph, arguments.get(2))?;
    let nodes: Vec<NodeId> = places.iter().map(|at| graph.nodes[*at]).collect();
    let mut exist = Vec::new();
    call.transaction.nodes_exist(&nodes, &mut exist)?;
    let mut written = 0;
    for ((at, node), _) in places.iter().zip(&nodes).zip(&exist).filter(|(_, is)| **is) {
        for (_, property, column) in &requested.columns {
            call.tick(1)?;
            let mut records = call.transaction.graph_mut();
            records.set_node_property(*node, &[property], column.values[*at].clone())?;
            written += 1;
        }
    }
    call.counters.properties_set += written;
    let names = requested.columns.iter().map(|(_, name, _)| name.clone());
    let configuration = match given {
        Value::Map(_) => given.clone(),
        _ => Map::new().into(),
    };
    call.emit(vec![
        Value::Int(started.elapsed().as_millis() as i64),
        Value::String(graph.name.clone()),
        names.map(Value::String).collect(),
        Value::Int(written as i64),
        configuration,
    ])
}

fn remove(arguments: &[Value], call: &mut CallContext<'_>) -> Result<()> {
    let null = Value::Null;
    let given = arguments.get(2).unwrap_or(&null);
    Settings::new(DROP, given, &["concurrency"])?;
    let graph = graph(DROP, arguments, call)?;
    let requested = RequestedColumns::of(DROP, &graph, arguments)?;
    let mut removed = 0;
    for (name, _, column) in &requested.columns {
        if graph.remove_property(name).is_some() {
            removed += column
                .values
                .iter()
                .filter(|value| !value.is_null())
                .count();
        }
    }
    call.emit(vec![
        Value::Int(removed as i64),
        Value::String(graph.name.clone()),
        arguments.get(1).cloned().unwrap_or_default(),
    ])
}

/// The graph of the first argument.
fn graph(
    procedure: &str,
    arguments: &[Value],
    call: &CallContext<'_>,
) -> Result<Arc<ProjectedGraph>> {
    let name = text(procedure, arguments, 0, "graphName")?;
    let database = database(procedure, call)?;
    let found = database.planner.graphs().get(&user(call), &name);
    found.ok_or_else(|| missing(procedure, &name))
}

/// The properties that a call names.
struct RequestedColumns {
    /// Name in the graph, name in the database, and values.
    columns: Vec<(Arc<str>, Arc<str>, Arc<NodeColumn>)>,
}

impl RequestedColumns {
    fn of(procedure: &str, graph: &ProjectedGraph, arguments: &[Value]) -> Result<Self> {
        let mut names = Vec::new();
        read_names(
            procedure,
            arguments.get(1).unwrap_or(&Value::Null),
            &mut names,
        )?;
        let column = |(name, property): (Arc<str>, Arc<str>)| {
            let found = graph.property(&name).ok_or_else(|| {
                let known = graph.property_names();
                let has = match known.is_empty() {
                    true => "no properties: project it with `nodeProperties`".to_owned(),
                    false => known.join(", "),
                };
                refused(
                    procedure,
                    format!(
                        "nodes of the graph `{}` have no property `{name}`: they have {has}",
                        graph.name
                    ),
                )
            })?;
            Ok((name, property, found))
        };
        let columns = names.into_iter().map(column).collect::<Result<_>>()?;
        Ok(Self { columns })
    }

    /// The numbers of the nodes with some labels that have all of the properties.
    fn nodes(
        &self,
        procedure: &str,
        graph: &ProjectedGraph,
        labels: Option<&Value>,
    ) -> Result<Vec<usize>> {
        let chosen = graph.with_labels(procedure, &label_names(procedure, labels)?)?;
        let all = 0..graph.nodes.len();
        let numbers: Vec<usize> = match chosen {
            None => all.collect(),
            Some(chosen) => chosen.into_iter().map(|at| at as usize).collect(),
        };
        let has_all = |at: &usize| {
            let mut columns = self.columns.iter();
            columns.all(|(_, _, column)| !column.values[*at].is_null())
        };
        Ok(numbers.into_iter().filter(has_all).collect())
    }
}

/// Properties as a name, a map of names to new names, or a list of these.
fn read_names(procedure: &str, given: &Value, names: &mut Vec<(Arc<str>, Arc<str>)>) -> Result<()> {
    let wrong = |value: &Value| {
        let why = format!(
            "`nodeProperties` is a name, a list of names, or a map of names to new names, not {}",
            shown(value)
        );
        refused(procedure, why)
    };
    match given {
        Value::String(name) => names.push((name.clone(), name.clone())),
        Value::List(items) => {
            for item in items.iter() {
                read_names(procedure, item, names)?;
            }
        }
        Value::Map(map) => {
            for (name, value) in map.iter() {
                let Value::String(property) = value else {
                    return Err(wrong(value));
                };
                names.push((name.clone(), property.clone()));
            }
        }
        other => return Err(wrong(other)),
    }
    Ok(())
}

/// Names of labels; none for `*`.
fn label_names(procedure: &str, given: Option<&Value>) -> Result<Vec<Arc<str>>> {
    let name = |value: &Value| match value {
        Value::String(name) => Ok(name.clone()),
        other => Err(refused(
            procedure,
            format!(
                "`nodeLabels` is a string or a list of strings, not {}",
                shown(other)
            ),
        )),
    };
    let names: Vec<Arc<str>> = match given {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::List(items)) => items.iter().map(name).collect::<Result<_>>()?,
        Some(value) => vec![name(value)?],
    };
    Ok(match names.iter().any(|name| &**name == "*") {
        true => Vec::new(),
        false => names,
    })
}

/// The labels of a node of the graph.
fn labels_of(graph: &ProjectedGraph, at: usize) -> Value {
    let labels = graph.labels.iter();
    let own = labels.filter(|(_, nodes)| nodes.binary_search(&(at as u32)).is_ok());
    own.map(|(label, _)| Value::String(label.clone())).collect()
}
