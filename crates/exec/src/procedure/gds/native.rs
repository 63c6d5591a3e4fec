//! `gds.graph.project`: a graph of the nodes with some labels and the relationships of some types.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use isomer_data::{GraphRead, RelRow};
use isomer_plan::catalog::ProcedureMode;
use isomer_value::{Map, NodeId, Value};

use super::{
    arguments::text,
    columns::{NodeProperty, node_properties},
    cypher::{ALL_TYPES, NodeRows, add, check_is_new},
};
use crate::{
    error::{Result, shown},
    names::{label_number, property_number, type_number},
    procedure::{
        CallContext,
        network::scan,
        settings::{Settings, refused},
        table::ProcedureRow,
    },
    projection::{GatheredGraph, ProjectedGraph, TypeEdges},
};

/// Relationships per read.
const PAGE: usize = 16_384;
const PROJECT: &str = "gds.graph.project";

/// The procedure.
pub(super) const PROCEDURES: &[ProcedureRow] = &[ProcedureRow {
    name: PROJECT,
    parameters: "graphName: STRING, nodeProjection: ANY, relationshipProjection: ANY, configuration: MAP? = {}",
    results: "nodeProjection: ANY, relationshipProjection: ANY, graphName: STRING, nodeCount: INTEGER, \
              relationshipCount: INTEGER, projectMillis: INTEGER",
    mode: ProcedureMode::Read,
    description: "a graph in memory: the nodes with some labels, and the relationships of some types between them",
    body: project,
}];

fn project(arguments: &[Value], call: &mut CallContext<'_>) -> Result<()> {
    let started = Instant::now();
    let name = text(PROJECT, arguments, 0, "graphName")?;
    let null = Value::Null;
    let given = |at: usize| arguments.get(at).unwrap_or(&null);
    let (of_nodes, of_relationships) = (given(1), given(2));
    check_is_new(PROJECT, &name, call)?;
    let settings = Settings::new(
        PROJECT,
        given(3),
        &[
            "nodeProperties",
            "relationshipProperties",
            "readConcurrency",
            "validateRelationships",
        ],
    )?;
    settings.integer("readConcurrency", 4, 1..=i64::from(u32::MAX))?;
    settings.boolean("validateRelationships", false)?;
    let common = match settings.any("relationshipProperties") {
        Some(value) => properties(value)?,
        None => Vec::new(),
    };
    let mut types = type_projections(of_relationships)?;
    for projection in &mut types {
        projection.properties.extend_from_slice(&common);
    }
    let of_all_nodes = match settings.any("nodeProperties") {
        Some(value) => node_properties(PROJECT, value)?,
        None => Vec::new(),
    };
    let mut rows = NodeRows::default();
    for mut projection in label_projections(of_nodes)? {
        projection.properties.extend_from_slice(&of_all_nodes);
        projection.read(&mut rows, call)?;
    }
    let (nodes, labels, properties) = rows.finish(PROJECT, call)?;
    let mut gathered = GatheredGraph {
        nodes,
        labels,
        types: BTreeMap::new(),
        properties,
        configuration: Map::new(),
    };
    for projection in types {
        let edges = projection.read(&gathered.nodes, call)?;
        gathered.types.insert(projection.name, edges);
    }
    gathered
        .configuration
        .insert("nodeProjection", of_nodes.clone());
    gathered
        .configuration
        .insert("relationshipProjection", of_relationships.clone());
    let graph = ProjectedGraph::new(name.clone(), gathered, call.transaction)?;
    let (node_count, relationship_count) = (graph.nodes.len(), graph.relationship_count());
    add(PROJECT, graph, call)?;
    call.emit(vec![
        of_nodes.clone(),
        of_relationships.clone(),
        Value::String(name),
        Value::Int(node_count as i64),
        Value::Int(relationship_count as i64),
        Value::Int(started.elapsed().as_millis() as i64),
    ])
}

/// The nodes with one label.
struct LabelProjection {
    /// The label; `*` for all nodes.
    label: Arc<str>,
    /// Its name in the graph.
    name: Arc<str>,
    properties: Vec<NodeProperty>,
}

/// The labels of a node projection.
fn label_projections(given: &Value) -> Result<Vec<LabelProjection>> {
    let plain = |label: &Arc<str>, name: &Arc<str>| LabelProjection {
        label: label.clone(),
        name: name.clone(),
        properties: Vec::new(),
    };
    match given {
        Value::String(label) => Ok(vec![plain(label, label)]),
        Value::List(items) => {
            let mut all = Vec::new();
            for item in items.iter() {
                all.extend(label_projections(item)?);
            }
            Ok(all)
        }
        Value::Map(map) => {
            let mut all = Vec::new();
            for (name, value) in map.iter() {
                if let Value::String(label) = value {
                    all.push(plain(label, name));
                    continue;
                }
                let settings = Settings::new(PROJECT, value, &["label", "properties"])?;
                let label = settings.name("label")?.unwrap_or_else(|| name.clone());
                let mut projection = plain(&label, name);
                if let Some(properties) = settings.any("properties") {
                    projection.properties = node_properties(PROJECT, properties)?;
                }
                all.push(projection);
            }
            Ok(all)
        }
        other => {
            let why = format!(
                "a node projection is a label, a list of labels, or a map of names to labels, not {}",
                shown(other)
            );
            Err(refused(PROJECT, why))
        }
    }
}

impl LabelProjection {
    fn read(&self, rows: &mut NodeRows, call: &mut CallContext<'_>) -> Result<()> {
        let number = match &*self.label {
            "*" => None,
            label => Some(label_number(call.transaction, label).ok_or_else(|| {
                let why = format!("no node has the label `{label}`: '*' projects all nodes");
                refused(PROJECT, why)
            })?),
        };
        let mut found: Vec<NodeId> = Vec::new();
        scan(number, call, &mut found)?;
        for property in &self.properties {
            property.read(&found, &mut rows.properties, call)?;
        }
        let names: &[Arc<str>] = match number {
            None => &[],
            Some(_) => std::slice::from_ref(&self.name),
        };
        found
            .into_iter()
            .try_for_each(|node| rows.put(node, names, call))
    }
}

/// How the relationships of a type are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Orientation {
    Natural,
    Reverse,
    Undirected,
}

/// A property of relationships: its name in the graph and in the database, and the value where it is missing.
type PropertyProjection = (Arc<str>, Arc<str>, f64);

/// The relationships of one type.
struct TypeProjection {
    /// Its name in the graph.
    name: Arc<str>,
    /// The type; `*` for all.
    rel_type: Arc<str>,
    orientation: Orientation,
    properties: Vec<PropertyProjection>,
}

/// The types of a relationship projection.
fn type_projections(given: &Value) -> Result<Vec<TypeProjection>> {
    match given {
        Value::String(name) => Ok(vec![TypeProjection {
            name: match &**name {
                "*" => ALL_TYPES.into(),
                _ => name.clone(),
            },
            rel_type: name.clone(),
            orientation: Orientation::Natural,
            properties: Vec::new(),
        }]),
        Value::List(items) => {
            let mut all = Vec::new();
            for item in items.iter() {
                all.extend(type_projections(item)?);
            }
            Ok(all)
        }
        Value::Map(map) => map
            .iter()
            .map(|(name, value)| type_projection(name, value))
            .collect(),
        other => Err(refused(
            PROJECT,
            format!(
                "a relationship projection is a type, a list of types, or a map of names to projections, not {}",
                shown(other)
            ),
        )),
    }
}

fn type_projection(name: &Arc<str>, given: &Value) -> Result<TypeProjection> {
    let mut projection = TypeProjection {
        name: name.clone(),
        rel_type: name.clone(),
        orientation: Orientation::Natural,
        properties: Vec::new(),
    };
    if let Value::String(rel_type) = given {
        projection.rel_type = rel_type.clone();
        return Ok(projection);
    }
    let settings = Settings::new(PROJECT, given, &["type", "orientation", "properties"])?;
    if let Some(rel_type) = settings.name("type")? {
        projection.rel_type = rel_type;
    }
    let words = ["NATURAL", "REVERSE", "UNDIRECTED"];
    projection.orientation = [
        Orientation::Natural,
        Orientation::Reverse,
        Orientation::Undirected,
    ][settings.choice("orientation", &words)?];
    if let Some(value) = settings.any("properties") {
        projection.properties = properties(value)?;
    }
    Ok(projection)
}

/// A name, a list of names, or a map of names to `{property, defaultValue}`.
fn properties(given: &Value) -> Result<Vec<PropertyProjection>> {
    match given {
        Value::String(name) => Ok(vec![(name.clone(), name.clone(), f64::NAN)]),
        Value::List(items) => {
            let mut all = Vec::new();
            for item in items.iter() {
                all.extend(properties(item)?);
            }
            Ok(all)
        }
        Value::Map(map) => {
            let mut all = Vec::new();
            for (name, value) in map.iter() {
                if let Value::String(property) = value {
                    all.push((name.clone(), property.clone(), f64::NAN));
                    continue;
                }
                let settings = Settings::new(PROJECT, value, &["property", "defaultValue"])?;
                let property = settings.name("property")?.unwrap_or_else(|| name.clone());
                let default = match settings.is_given("defaultValue") {
                    true => settings.float("defaultValue", 0.0, f64::MIN..=f64::MAX)?,
                    false => f64::NAN,
                };
                all.push((name.clone(), property, default));
            }
            Ok(all)
        }
        other => Err(refused(
            PROJECT,
            format!(
                "properties of relationships are a name, a list of names, or a map of names, not {}",
                shown(other)
            ),
        )),
    }
}

impl TypeProjection {
    /// Reads the relationships between `nodes`.
    fn read(&self, nodes: &[NodeId], call: &mut CallContext<'_>) -> Result<TypeEdges> {
        let number = match &*self.rel_type {
            "*" => None,
            name => Some(type_number(call.transaction, name).ok_or_else(|| {
                let why = format!(
                    "no relationship has the type `{name}`: '*' projects all relationships"
                );
                refused(PROJECT, why)
            })?),
        };
        let mut edges = TypeEdges {
            is_undirected: self.orientation == Orientation::Undirected,
            ..TypeEdges::default()
        };
        for (name, ..) in &self.properties {
            edges.properties.insert(name.clone(), Vec::new());
        }
        let mut page: Vec<RelRow> = Vec::with_capacity(PAGE);
        let mut after = None;
        loop {
            page.clear();
            call.transaction
                .scan_relationships(number, after, PAGE, &mut page)?;
            call.tick(page.len())?;
            after = page.last().map(|row| row.id);
            let is_last = page.len() < PAGE;
            self.take(&page, nodes, &mut edges, call)?;
            if is_last {
                return Ok(edges);
            }
        }
    }

    fn take(
        &self,
        page: &[RelRow],
        nodes: &[NodeId],
        edges: &mut TypeEdges,
        call: &mut CallContext<'_>,
    ) -> Result<()> {
        let number = |node: NodeId| nodes.binary_search(&node).ok().map(|at| at as u32);
        let within: Vec<(usize, (u32, u32))> = page
            .iter()
            .enumerate()
            .filter_map(|(at, row)| Some((at, (number(row.source)?, number(row.target)?))))
            .collect();
        // Vectors double, and undirected relationships are stored twice.
        call.hold(within.len() * (8 + 8 * self.properties.len()) * 4)?;
        for (_, (source, target)) in &within {
            match self.orientation {
                Orientation::Natural => edges.pairs.push((*source, *target)),
                Orientation::Reverse => edges.pairs.push((*target, *source)),
                Orientation::Undirected => {
                    edges.pairs.push((*source, *target));
                    if source != target {
                        edges.pairs.push((*target, *source));
                    }
                }
            }
        }
        for (name, property, default) in &self.properties {
            let ids: Vec<_> = within.iter().map(|(at, _)| page[*at].id).collect();
            let mut column = [Vec::with_capacity(ids.len())];
            match property_number(call.transaction, property) {
                Some(prop) => {
                    call.transaction
                        .relationship_properties(&ids, &[prop], &mut column)?
                }
                None => column[0].resize(ids.len(), Value::Null),
            }
            let [values] = column;
            let numbers = edges.properties.entry(name.clone()).or_default();
            for (value, (at, (source, target))) in values.iter().zip(&within) {
                let number = match value {
                    Value::Null => *default,
                    value => value.to_f64().ok_or_else(|| {
                        let why = format!(
                            "relationship {} has {} in `{property}`: a property of a projection is a number",
                            page[*at].id,
                            shown(value)
                        );
                        refused(PROJECT, why)
                    })?,
                };
                numbers.push(number);
                if self.orientation == Orientation::Undirected && source != target {
                    numbers.push(number);
                }
            }
        }
        Ok(())
    }
}
