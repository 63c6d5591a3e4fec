//! `gds.graph.list`, `gds.graph.exists`, `gds.graph.drop`: the graphs in memory.

use std::{sync::Arc, time::SystemTime};

use isomer_plan::catalog::ProcedureMode;
use isomer_value::{Map, Value, jiff::tz::TimeZone, temporal::ZonedDateTime};

use super::arguments::{database, text, user};
use crate::{
    error::{Result, shown},
    procedure::{CallContext, settings::refused, table::ProcedureRow},
    projection::ProjectedGraph,
};

const ABOUT_A_GRAPH: &str = "graphName: STRING, database: STRING, configuration: MAP, memoryUsage: STRING, \
    sizeInBytes: INTEGER, nodeCount: INTEGER, relationshipCount: INTEGER, density: FLOAT, creationTime: ANY, \
    modificationTime: ANY, schema: MAP";

/// The procedures.
pub(super) const PROCEDURES: &[ProcedureRow] = &[
    ProcedureRow {
        name: "gds.graph.list",
        parameters: "graphName: STRING? = null",
        results: ABOUT_A_GRAPH,
        mode: ProcedureMode::Read,
        description: "the graphs in memory of the user, or the one with a name",
        body: list,
    },
    ProcedureRow {
        name: "gds.graph.exists",
        parameters: "graphName: STRING",
        results: "graphName: STRING, exists: BOOLEAN",
        mode: ProcedureMode::Read,
        description: "whether the user has a graph in memory with a name",
        body: exists,
    },
    ProcedureRow {
        name: "gds.graph.drop",
        parameters: "graphName: ANY, failIfMissing: BOOLEAN = true, dbName: STRING = '', username: STRING = ''",
        results: ABOUT_A_GRAPH,
        mode: ProcedureMode::Read,
        description: "drops the graph in memory with a name, or those of a list",
        body: remove,
    },
    ProcedureRow {
        name: "gds.version",
        parameters: "",
        results: "gdsVersion: STRING",
        mode: ProcedureMode::Read,
        description: "the version of the library of which this server has a part",
        body: |_, call| call.emit(vec![super::results::VERSION.into()]),
    },
];

fn list(arguments: &[Value], call: &mut CallContext<'_>) -> Result<()> {
    let database = database("gds.graph.list", call)?;
    for graph in database.planner.graphs().of_user(&user(call)) {
        let is_asked = match arguments.first() {
            Some(Value::String(name)) => *name == graph.name,
            _ => true,
        };
        if is_asked {
            let row = about(&graph, call);
            call.emit(row)?;
        }
    }
    Ok(())
}

fn exists(arguments: &[Value], call: &mut CallContext<'_>) -> Result<()> {
    let name = text("gds.graph.exists", arguments, 0, "graphName")?;
    let database = database("gds.graph.exists", call)?;
    let found = database.planner.graphs().get(&user(call), &name);
    call.emit(vec![Value::String(name), Value::Bool(found.is_some())])
}

fn remove(arguments: &[Value], call: &mut CallContext<'_>) -> Result<()> {
    const DROP: &str = "gds.graph.drop";
    let names: Vec<Arc<str>> = match arguments.first() {
        Some(Value::String(name)) => vec![name.clone()],
        Some(Value::List(items)) => (0..items.len())
            .map(|at| text(DROP, items, at, "graphName"))
            .collect::<Result<_>>()?,
        other => {
            let given = shown(other.unwrap_or(&Value::Null));
            let why = format!("`graphName` is a string or a list of strings, not {given}");
            return Err(refused(DROP, why));
        }
    };
    for (at, name) in [(2, "dbName"), (3, "username")] {
        if !text(DROP, arguments, at, name)?.is_empty() {
            let why = format!(
                "`{name}` must be empty: only graphs of the user and the database of the statement are dropped"
            );
            return Err(refused(DROP, why));
        }
    }
    let (database, user) = (database(DROP, call)?, user(call));
    let graphs = database.planner.graphs();
    let must_exist = arguments.get(1) != Some(&Value::Bool(false));
    if must_exist && let Some(name) = names.iter().find(|name| graphs.get(&user, name).is_none()) {
        return Err(missing(DROP, name));
    }
    for name in names {
        if let Some(graph) = graphs.remove(&user, &name) {
            let row = about(&graph, call);
            call.emit(row)?;
        }
    }
    Ok(())
}

/// The error for a name without a graph.
pub(super) fn missing(procedure: &str, name: &str) -> crate::ExecError {
    refused(
        procedure,
        format!(
            "graph with name `{name}` does not exist: gds.graph.project makes one, gds.graph.list shows all"
        ),
    )
}

fn about(graph: &ProjectedGraph, call: &CallContext<'_>) -> Vec<Value> {
    let (nodes, relationships) = (graph.nodes.len() as f64, graph.relationship_count() as f64);
    let density = match nodes > 1.0 {
        true => relationships / (nodes * (nodes - 1.0)),
        false => 0.0,
    };
    let bytes = graph.bytes();
    let database = call.host.as_ref().map(|host| host.database_name());
    let mut configuration: Map = graph.configuration.clone();
    configuration.insert("version", Value::Int(graph.version as i64));
    let (made, modified) = (moment(graph.made_at), moment(graph.modified_at()));
    vec![
        Value::String(graph.name.clone()),
        database.map_or(Value::Null, Value::String),
        configuration.into(),
        format!("{} KiB", bytes.div_ceil(1024)).into(),
        Value::Int(bytes as i64),
        Value::Int(graph.nodes.len() as i64),
        Value::Int(graph.relationship_count() as i64),
        Value::Float(density),
        made,
        modified,
        graph.schema().into(),
    ]
}

fn moment(time: SystemTime) -> Value {
    let since = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    let made = ZonedDateTime::of_epoch(seconds, since.subsec_nanos(), TimeZone::UTC);
    made.map_or(Value::Null, Value::from)
}
