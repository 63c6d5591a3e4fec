//! The aggregation `gds.graph.project(name, source, target, dataConfig, configuration)`: a graph in memory of a
//! relationship per row.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use isomer_data::Transaction;
use isomer_value::{Map, NodeId, Value};

use super::{
    columns::PropertyValues,
    cypher::{ALL_TYPES, exists, node_of},
};
use crate::{
    error::{ExecError, Result, shown},
    function::Environment,
    procedure::settings::{Settings, refused},
    projection::{GatheredGraph, ProjectedGraph, StatementPlanner, TypeEdges},
};

const PROJECT: &str = "gds.graph.project";

/// Makes the graph of rows, each a list of the five arguments, and describes it; null without rows.
pub(super) fn project_rows(
    rows: &[Value],
    planner: Option<&dyn StatementPlanner>,
    user: &Arc<str>,
    transaction: &Transaction,
    env: &dyn Environment,
) -> Result<Value> {
    let started = Instant::now();
    let Some(first) = rows.first() else {
        return Ok(Value::Null);
    };
    let planner = planner.ok_or_else(|| {
        ExecError::Unsupported(format!(
            "{PROJECT} needs a database with graphs in memory: call it in a separate statement, not in a query that a \
             procedure runs"
        ))
    })?;
    let name = graph_name(first)?;
    if planner.graphs().get(user, &name).is_some() {
        return Err(exists(PROJECT, &name));
    }
    let configuration = Configuration::of(first)?;
    let mut gathered = GatheredRows::default();
    for row in rows {
        if graph_name(row)? != name {
            return Err(refused(
                PROJECT,
                format!(
                    "`graphName` differs between the rows of a group, `{name}` and {}: group by it",
                    shown(argument(row, 0))
                ),
            ));
        }
        gathered.add(row, env)?;
    }
    let graph = gathered.finish(&configuration)?;
    let graph = ProjectedGraph::new(name.clone(), graph, transaction)?;
    let (nodes, relationships) = (graph.nodes.len(), graph.relationship_count());
    if !planner.graphs().add(user, Arc::new(graph)) {
        return Err(exists(PROJECT, &name));
    }
    let mut about = Map::new();
    about.insert("graphName", Value::String(name));
    about.insert("nodeCount", Value::Int(nodes as i64));
    about.insert("relationshipCount", Value::Int(relationships as i64));
    about.insert(
        "projectMillis",
        Value::Int(started.elapsed().as_millis() as i64),
    );
    about.insert("configuration", configuration.shown.into());
    Ok(about.into())
}

fn argument(row: &Value, at: usize) -> &Value {
    const NULL: Value = Value::Null;
    let arguments = row.as_list();
    arguments
        .and_then(|arguments| arguments.get(at))
        .unwrap_or(&NULL)
}

fn graph_name(row: &Value) -> Result<Arc<str>> {
    match argument(row, 0) {
        Value::String(name) if !name.trim().is_empty() => Ok(name.clone()),
        other => Err(refused(
            PROJECT,
            format!(
                "`graphName` is a string that is not empty, not {}",
                shown(other)
            ),
        )),
    }
}

/// What holds for the whole graph.
struct Configuration {
    undirected: Vec<Arc<str>>,
    shown: Map,
}

impl Configuration {
    fn of(row: &Value) -> Result<Self> {
        let given = argument(row, 4);
        let known = [
            "readConcurrency",
            "undirectedRelationshipTypes",
            "inverseIndexedRelationshipTypes",
            "logProgress",
            "jobId",
            "sudo",
        ];
        let settings = Settings::new(PROJECT, given, &known)?;
        settings.integer("readConcurrency", 4, 1..=i64::from(u32::MAX))?;
        settings.boolean("logProgress", true)?;
        settings.boolean("sudo", false)?;
        settings.name("jobId")?;
        // Relationships are followed in both directions without an index.
        settings.names("inverseIndexedRelationshipTypes")?;
        Ok(Self {
            undirected: settings.names("undirectedRelationshipTypes")?,
            shown: match given {
                Value::Map(map) => (**map).clone(),
                _ => Map::new(),
            },
        })
    }

    fn is_undirected(&self, rel_type: &str) -> bool {
        self.undirected
            .iter()
            .any(|name| &**name == "*" || &**name == rel_type)
    }
}

/// A relationship of a row.
struct Link {
    ends: (NodeId, NodeId),
    rel_type: Arc<str>,
    properties: Map,
}

#[derive(Default)]
struct GatheredRows {
    /// Labels of the first row of each node.
    labels: BTreeMap<NodeId, Vec<Arc<str>>>,
    properties: PropertyValues,
    links: Vec<Link>,
}

impl GatheredRows {
    fn add(&mut self, row: &Value, env: &dyn Environment) -> Result<()> {
        let data = argument(row, 3);
        let known = [
            "sourceNodeLabels",
            "targetNodeLabels",
            "sourceNodeProperties",
            "targetNodeProperties",
            "relationshipType",
            "relationshipProperties",
        ];
        let settings = Settings::new(PROJECT, data, &known)?;
        let source = node(row, 1, "sourceNode")?;
        self.add_node(
            source,
            ["sourceNodeLabels", "sourceNodeProperties"],
            &settings,
            env,
        )?;
        if argument(row, 2).is_null() {
            return Ok(());
        }
        let target = node(row, 2, "targetNode")?;
        self.add_node(
            target,
            ["targetNodeLabels", "targetNodeProperties"],
            &settings,
            env,
        )?;
        self.links.push(Link {
            ends: (source, target),
            rel_type: settings
                .name("relationshipType")?
                .unwrap_or_else(|| ALL_TYPES.into()),
            properties: settings.map("relationshipProperties")?,
        });
        Ok(())
    }

    fn add_node(
        &mut self,
        node: NodeId,
        [of_labels, of_properties]: [&str; 2],
        settings: &Settings<'_>,
        env: &dyn Environment,
    ) -> Result<()> {
        if self.labels.contains_key(&node) {
            return Ok(());
        }
        let labels = match settings.any(of_labels) {
            Some(Value::Bool(true)) => env.node_labels(node)?,
            Some(Value::Bool(false)) => Vec::new(),
            _ => settings.names(of_labels)?,
        };
        self.labels.insert(node, labels);
        for (name, value) in settings.map(of_properties)?.iter() {
            self.properties.put(name, node, value.clone());
        }
        Ok(())
    }

    fn finish(self, configuration: &Configuration) -> Result<GatheredGraph> {
        let nodes: Vec<NodeId> = self.labels.keys().copied().collect();
        crate::procedure::network::check_node_count(nodes.len())?;
        let mut labels: BTreeMap<Arc<str>, Vec<u32>> = BTreeMap::new();
        for (number, names) in self.labels.into_values().enumerate() {
            for name in names {
                let of_label = labels.entry(name).or_default();
                // A label may be named twice.
                if of_label.last() != Some(&(number as u32)) {
                    of_label.push(number as u32);
                }
            }
        }
        let number = |node: NodeId| nodes.binary_search(&node).map_or(u32::MAX, |at| at as u32);
        let mut types: BTreeMap<Arc<str>, TypeEdges> = BTreeMap::new();
        for link in self.links {
            let undirected = configuration.is_undirected(&link.rel_type);
            let edges = types.entry(link.rel_type).or_default();
            edges.is_undirected = undirected;
            let (source, target) = (number(link.ends.0), number(link.ends.1));
            let before = edges.pairs.len();
            edges.pairs.push((source, target));
            if undirected && source != target {
                edges.pairs.push((target, source));
            }
            let after = edges.pairs.len();
            for (name, value) in link.properties.iter() {
                let number = match value {
                    Value::Null => f64::NAN,
                    value => value.to_f64().ok_or_else(|| {
                        let why = format!(
                            "the property `{name}` of a relationship is a number, not {}",
                            shown(value)
                        );
                        refused(PROJECT, why)
                    })?,
                };
                let values = edges.properties.entry(name.clone()).or_default();
                // Relationships before it have no such property.
                values.resize(before, f64::NAN);
                values.resize(after, number);
            }
        }
        for edges in types.values_mut() {
            let count = edges.pairs.len();
            let columns = edges.properties.values_mut();
            columns.for_each(|values| values.resize(count, f64::NAN));
        }
        let properties = self.properties.finish(PROJECT, &nodes)?;
        Ok(GatheredGraph {
            nodes,
            labels,
            types,
            properties,
            configuration: configuration.shown.clone(),
        })
    }
}

fn node(row: &Value, at: usize, name: &str) -> Result<NodeId> {
    let value = argument(row, at);
    node_of(value).ok_or_else(|| {
        refused(
            PROJECT,
            format!("`{name}` is a node or its id, not {}", shown(value)),
        )
    })
}
