//! `gds.graph.project.cypher`: a graph from the rows of two statements, and the statements that a procedure runs.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use isomer_plan::{
    catalog::ProcedureMode,
    physical::{StatementClass, StatementMode},
};
use isomer_value::{Map, NodeId, Value};

use super::{
    arguments::{database, text, user},
    columns::PropertyValues,
};
use crate::{
    error::{Result, shown},
    execution::{Execution, ExecutionOptions},
    procedure::{
        CallContext,
        settings::{Settings, refused},
        table::ProcedureRow,
    },
    projection::{GatheredGraph, NodeColumn, ProjectedGraph, TypeEdges},
    result::ResultRows,
};

/// The type of relationships whose rows name none.
pub(super) const ALL_TYPES: &str = "__ALL__";

/// The procedure.
pub(super) const PROCEDURES: &[ProcedureRow] = &[ProcedureRow {
    name: "gds.graph.project.cypher",
    parameters: "graphName: STRING, nodeQuery: STRING, relationshipQuery: STRING, configuration: MAP? = {}",
    results: "nodeQuery: STRING, relationshipQuery: STRING, graphName: STRING, nodeCount: INTEGER, \
              relationshipCount: INTEGER, projectMillis: INTEGER",
    mode: ProcedureMode::Read,
    description: "a graph in memory: its nodes are the rows of a query with the column `id`, its relationships those \
                  of one with `source` and `target`; other columns are properties",
    body: project,
}];

const PROJECT: &str = "gds.graph.project.cypher";

fn project(arguments: &[Value], call: &mut CallContext<'_>) -> Result<()> {
    let started = Instant::now();
    let name = text(PROJECT, arguments, 0, "graphName")?;
    let node_query = text(PROJECT, arguments, 1, "nodeQuery")?;
    let relationship_query = text(PROJECT, arguments, 2, "relationshipQuery")?;
    let given = arguments.get(3).unwrap_or(&Value::Null);
    let graph = from_queries(
        PROJECT,
        &name,
        [&node_query, &relationship_query],
        given,
        call,
    )?;
    let (nodes, relationships) = (graph.nodes.len(), graph.relationship_count());
    add(PROJECT, graph, call)?;
    call.emit(vec![
        Value::String(node_query),
        Value::String(relationship_query),
        Value::String(name),
        Value::Int(nodes as i64),
        Value::Int(relationships as i64),
        Value::Int(started.elapsed().as_millis() as i64),
    ])
}

/// Adds a graph to the catalog; refused if there is one of its name.
pub(super) fn add(procedure: &str, graph: ProjectedGraph, call: &CallContext<'_>) -> Result<()> {
    let name = graph.name.clone();
    let database = database(procedure, call)?;
    match database.planner.graphs().add(&user(call), Arc::new(graph)) {
        true => Ok(()),
        false => Err(exists(procedure, &name)),
    }
}

/// Refuses the name of an existing graph, before any work is done.
pub(super) fn check_is_new(procedure: &str, name: &Arc<str>, call: &CallContext<'_>) -> Result<()> {
    if name.trim().is_empty() {
        return Err(refused(
            procedure,
            "the name of a graph is empty: give it one",
        ));
    }
    let database = database(procedure, call)?;
    match database.planner.graphs().get(&user(call), name) {
        Some(_) => Err(exists(procedure, name)),
        None => Ok(()),
    }
}

/// The error for a name that is taken.
pub(super) fn exists(procedure: &str, name: &str) -> crate::ExecError {
    refused(
        procedure,
        format!(
            "a graph with name '{name}' already exists: drop it with gds.graph.drop, or choose another name"
        ),
    )
}

/// The graph of two queries: the first gives nodes, the second relationships.
pub(super) fn from_queries(
    procedure: &str,
    name: &Arc<str>,
    [node_query, relationship_query]: [&Arc<str>; 2],
    given: &Value,
    call: &mut CallContext<'_>,
) -> Result<ProjectedGraph> {
    check_is_new(procedure, name, call)?;
    let known = ["parameters", "validateRelationships", "readConcurrency"];
    let settings = Settings::new(procedure, given, &known)?;
    let validates = settings.boolean("validateRelationships", true)?;
    settings.integer("readConcurrency", 4, 1..=i64::from(u32::MAX))?;
    let parameters = settings.map("parameters")?;
    let mut nodes = NodeRows::default();
    run(
        procedure,
        node_query,
        &parameters,
        call,
        |columns, row, call| nodes.add(procedure, columns, row, call),
    )?;
    let (numbered, labels, properties) = nodes.finish(procedure, call)?;
    let mut edges = EdgeRows {
        procedure,
        nodes: &numbered,
        validates,
        types: BTreeMap::new(),
        held_bytes: 0,
    };
    run(
        procedure,
        relationship_query,
        &parameters,
        call,
        |columns, row, call| edges.add(columns, row, call),
    )?;
    let types = edges.types;
    let mut configuration = Map::new();
    configuration.insert("nodeQuery", Value::String(node_query.clone()));
    configuration.insert(
        "relationshipQuery",
        Value::String(relationship_query.clone()),
    );
    configuration.insert("validateRelationships", Value::Bool(validates));
    let gathered = GatheredGraph {
        nodes: numbered,
        labels,
        types,
        properties,
        configuration,
    };
    ProjectedGraph::new(name.clone(), gathered, call.transaction)
}

/// Runs a statement that only reads, in the transaction of the call and within its limits. `take` gets each row.
fn run(
    procedure: &str,
    statement: &str,
    parameters: &Map,
    call: &mut CallContext<'_>,
    mut take: impl FnMut(&[Arc<str>], &[Value], &mut CallContext<'_>) -> Result<()>,
) -> Result<()> {
    let database = database(procedure, call)?;
    let plan = database.planner.plan(statement, call.transaction)?;
    if plan.class != StatementClass::Read || plan.mode != StatementMode::Run {
        return Err(refused(
            procedure,
            format!("a projection only reads, and this statement does not: {statement}"),
        ));
    }
    let (limits, cancel) = call.watch.of_nested();
    // Without a planner: a statement within it that ran others could nest without end.
    let options = ExecutionOptions {
        limits,
        cancel,
        registry: database.registry.clone(),
        views: database.views.clone(),
        ..ExecutionOptions::default()
    };
    let started = Execution::start(plan.clone(), parameters, &options, call.transaction);
    let mut execution = started.map_err(|error| error.within(procedure))?;
    let mut rows = ResultRows::new();
    loop {
        let more = execution.next_rows(call.transaction, &mut rows);
        let more = more.map_err(|error| error.within(procedure))?;
        for row in rows.iter() {
            take(&plan.columns, row, call)?;
        }
        if !more {
            return Ok(());
        }
    }
}

/// The value of a column.
fn cell<'r>(columns: &[Arc<str>], row: &'r [Value], name: &str) -> Option<&'r Value> {
    let at = columns.iter().position(|column| &**column == name)?;
    row.get(at)
}

/// The node of a value: an id, or the node itself.
pub(super) fn node_of(value: &Value) -> Option<NodeId> {
    match value {
        Value::Node(node) => Some(node.id),
        Value::Int(id) => u64::try_from(*id).ok().map(NodeId),
        _ => None,
    }
}

fn node_in(procedure: &str, columns: &[Arc<str>], row: &[Value], name: &str) -> Result<NodeId> {
    let value = cell(columns, row, name).ok_or_else(|| {
        let why = format!(
            "a query has no column `{name}`: its columns are {}",
            columns.join(", ")
        );
        refused(procedure, why)
    })?;
    node_of(value).ok_or_else(|| {
        refused(
            procedure,
            format!("`{name}` is the id of a node, not {}", shown(value)),
        )
    })
}

/// The rows of the query for nodes.
#[derive(Default)]
pub(super) struct NodeRows {
    nodes: Vec<NodeId>,
    labels: BTreeMap<Arc<str>, Vec<NodeId>>,
    pub(super) properties: PropertyValues,
}

/// Nodes in the order of their numbers, per label its nodes, and per property its values.
pub(super) type NumberedNodes = (
    Vec<NodeId>,
    BTreeMap<Arc<str>, Vec<u32>>,
    BTreeMap<Arc<str>, NodeColumn>,
);

impl NodeRows {
    fn add(
        &mut self,
        procedure: &str,
        columns: &[Arc<str>],
        row: &[Value],
        call: &mut CallContext<'_>,
    ) -> Result<()> {
        let node = node_in(procedure, columns, row, "id")?;
        let labels = match cell(columns, row, "labels") {
            None => Vec::new(),
            Some(Value::List(labels)) => labels
                .iter()
                .map(|label| label_of(procedure, label))
                .collect::<Result<_>>()?,
            Some(other) => {
                let why = format!("`labels` is a list of strings, not {}", shown(other));
                return Err(refused(procedure, why));
            }
        };
        for (name, value) in columns.iter().zip(row) {
            if !["id", "labels"].contains(&&**name) {
                call.hold(size_of::<(NodeId, Value)>())?;
                self.properties.put(name, node, value.clone());
            }
        }
        self.put(node, &labels, call)
    }

    /// Adds a node.
    pub(super) fn put(
        &mut self,
        node: NodeId,
        labels: &[Arc<str>],
        call: &mut CallContext<'_>,
    ) -> Result<()> {
        call.hold((1 + labels.len()) * size_of::<NodeId>())?;
        self.nodes.push(node);
        for label in labels {
            self.labels.entry(label.clone()).or_default().push(node);
        }
        Ok(())
    }

    /// The nodes, numbered.
    pub(super) fn finish(
        self,
        procedure: &str,
        call: &mut CallContext<'_>,
    ) -> Result<NumberedNodes> {
        let mut nodes = self.nodes;
        nodes.sort_unstable();
        nodes.dedup();
        crate::procedure::network::check_node_count(nodes.len())?;
        let mut labels = BTreeMap::new();
        for (label, of_label) in self.labels {
            call.hold(of_label.len() * size_of::<u32>())?;
            let numbers = of_label
                .iter()
                .filter_map(|node| nodes.binary_search(node).ok());
            let mut numbers: Vec<u32> = numbers.map(|number| number as u32).collect();
            numbers.sort_unstable();
            numbers.dedup();
            labels.insert(label, numbers);
        }
        let properties = self.properties.finish(procedure, &nodes)?;
        Ok((nodes, labels, properties))
    }
}

fn label_of(procedure: &str, value: &Value) -> Result<Arc<str>> {
    match value {
        Value::String(label) => Ok(label.clone()),
        other => Err(refused(
            procedure,
            format!("a label is a string, not {}", shown(other)),
        )),
    }
}

/// The rows of the query for relationships.
struct EdgeRows<'n> {
    procedure: &'n str,
    nodes: &'n [NodeId],
    validates: bool,
    types: BTreeMap<Arc<str>, TypeEdges>,
    held_bytes: usize,
}

impl EdgeRows<'_> {
    fn add(
        &mut self,
        columns: &[Arc<str>],
        row: &[Value],
        call: &mut CallContext<'_>,
    ) -> Result<()> {
        let mut ends = [0; 2];
        for (end, name) in ends.iter_mut().zip(["source", "target"]) {
            let node = node_in(self.procedure, columns, row, name)?;
            match self.nodes.binary_search(&node) {
                Ok(number) => *end = number as u32,
                Err(_) if self.validates => {
                    return Err(refused(
                        self.procedure,
                        format!(
                            "a relationship has node {node} as its {name}, which is not among the nodes: let the query \
                             for nodes return it, or set `validateRelationships: false`"
                        ),
                    ));
                }
                Err(_) => return Ok(()),
            }
        }
        let name: Arc<str> = match cell(columns, row, "type") {
            None => ALL_TYPES.into(),
            Some(Value::String(name)) => name.clone(),
            Some(other) => {
                let why = format!("`type` is a string, not {}", shown(other));
                return Err(refused(self.procedure, why));
            }
        };
        let edges = self.types.entry(name).or_default();
        edges.pairs.push((ends[0], ends[1]));
        for (column, value) in columns.iter().zip(row) {
            if ["source", "target", "type"].contains(&&**column) {
                continue;
            }
            let number = match value {
                Value::Null => f64::NAN,
                value => value.to_f64().ok_or_else(|| {
                    let why = format!("the property `{column}` is a number, not {}", shown(value));
                    refused(self.procedure, why)
                })?,
            };
            match edges.properties.get_mut(column) {
                Some(values) => values.push(number),
                None => drop(edges.properties.insert(column.clone(), vec![number])),
            }
        }
        // Vectors double, so that up to twice the values are allocated.
        let bytes = 2 * (8 + (columns.len() - 2) * size_of::<f64>());
        self.held_bytes += bytes;
        call.hold(bytes)
    }
}
