//! `apoc.refactor.mergeNodes`: several nodes become one.

use std::{collections::BTreeMap, sync::Arc};

use isomer_data::{Direction, GraphRead, Neighbours};
use isomer_value::{Map, Node, NodeId, RelId, TypeId, Value};

use super::arguments::invalid;
use crate::{
    error::{Result, shown},
    procedure::{CallContext, table::ProcedureRow},
};

const MERGE_NODES: &str = "apoc.refactor.mergeNodes";

/// The procedures.
pub(super) const PROCEDURES: &[ProcedureRow] = &[ProcedureRow::writes(
    MERGE_NODES,
    "nodes: LIST, config: MAP? = {}",
    "node: NODE",
    "merges nodes into the first one, with their labels, relationships and {properties: 'override', 'discard' or \
     'combine'}; {mergeRels: true} merges relationships of one type between the same nodes",
    merge_nodes,
)];

/// Which of two values of a property remains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// The later one.
    Override,
    /// The earlier one.
    Discard,
    /// A list of all distinct ones.
    Combine,
}

impl Rule {
    fn of(value: &Value) -> Result<Self> {
        let name = match value {
            Value::String(name) => name.to_ascii_lowercase(),
            // One rule for all properties.
            Value::Map(map) if map.len() == 1 && map.get(".*").is_some() => {
                return map.get(".*").map_or(Ok(Self::Override), Self::of);
            }
            other => return Err(Self::unknown(other)),
        };
        match name.as_str() {
            "override" | "overwrite" => Ok(Self::Override),
            "discard" => Ok(Self::Discard),
            "combine" => Ok(Self::Combine),
            _ => Err(Self::unknown(value)),
        }
    }

    fn unknown(value: &Value) -> crate::ExecError {
        let why = format!(
            "invalid `properties` {}: expected 'override', 'discard' or 'combine', for all properties",
            shown(value)
        );
        invalid(MERGE_NODES, why)
    }

    /// Adds the properties of a later record.
    fn add(self, target: &mut Map, later: &Map) {
        for (name, value) in later.iter() {
            let merged = match target.get(name) {
                None => value.clone(),
                Some(old) => match self {
                    Self::Override => value.clone(),
                    Self::Discard => continue,
                    Self::Combine => combined(old, value),
                },
            };
            target.insert(name.clone(), merged);
        }
    }
}

/// The distinct elements of two values; a single one stays as it is.
fn combined(old: &Value, new: &Value) -> Value {
    let mut all: Vec<Value> = match old {
        Value::List(items) => items.to_vec(),
        one => vec![one.clone()],
    };
    let more: &[Value] = match new {
        Value::List(items) => items,
        one => std::slice::from_ref(one),
    };
    for value in more {
        if !all.contains(value) {
            all.push(value.clone());
        }
    }
    if all.len() == 1 && !matches!(old, Value::List(_)) {
        return all.remove(0);
    }
    all.into()
}

/// The options of a call.
struct Options {
    rule: Rule,
    merges_relationships: bool,
    keeps_loops: bool,
}

impl Options {
    fn of(config: &Map) -> Result<Self> {
        let mut options = Self {
            rule: Rule::Override,
            merges_relationships: false,
            keeps_loops: true,
        };
        for (name, value) in config.iter() {
            let truth = || {
                let why = format!("`{name}` must be true or false, not {}", shown(value));
                value.as_bool().ok_or_else(|| invalid(MERGE_NODES, why))
            };
            match &**name {
                "properties" => options.rule = Rule::of(value)?,
                "mergeRels" => options.merges_relationships = truth()?,
                "produceSelfRel" => options.keeps_loops = truth()?,
                other => {
                    let why = format!(
                        "unknown option `{other}`: expected properties, mergeRels or produceSelfRel"
                    );
                    return Err(invalid(MERGE_NODES, why));
                }
            }
        }
        Ok(options)
    }
}

/// A relationship of a merged node, with its ends after the merge.
struct Moved {
    type_id: TypeId,
    source: NodeId,
    target: NodeId,
    properties: Map,
}

fn merge_nodes(args: &[Value], call: &mut CallContext<'_>) -> Result<()> {
    let config = args
        .get(1)
        .and_then(Value::as_map)
        .cloned()
        .unwrap_or_default();
    let options = Options::of(&config)?;
    let mut ids: Vec<NodeId> = Vec::new();
    for value in args.first().and_then(Value::as_list).unwrap_or_default() {
        match value {
            Value::Node(node) if !ids.contains(&node.id) => ids.push(node.id),
            Value::Node(_) | Value::Null => {}
            other => {
                let why = format!("takes a list of nodes, not of {}", shown(other));
                return Err(invalid(MERGE_NODES, why));
            }
        }
    }
    let Some((target, others)) = ids.split_first() else {
        return Ok(());
    };
    let moved = relationships(call, *target, others, &options)?;
    let (properties, labels) = contents(call, &ids, options.rule)?;
    // The merged nodes go first, so that unique values are free when the remaining one gets them.
    let mut graph = call.transaction().graph_mut();
    let mut deleted = 0;
    for other in others {
        deleted += graph.delete_node(*other, true)?.len() as u64;
    }
    graph.replace_node_properties(*target, &properties)?;
    let mut added = 0;
    for label in labels {
        added += u64::from(graph.add_label(*target, label)?);
    }
    call.counters.nodes_deleted += others.len() as u64;
    call.counters.relationships_deleted += deleted;
    call.counters.properties_set += properties.len() as u64;
    call.counters.labels_added += added;
    write_relationships(call, *target, moved, &options)?;
    call.emit(vec![Value::from(Node {
        id: *target,
        content: None,
    })])
}

/// The properties of all nodes merged, and the labels of all but the first.
fn contents(
    call: &mut CallContext<'_>,
    ids: &[NodeId],
    rule: Rule,
) -> Result<(Map, Vec<isomer_value::LabelId>)> {
    let mut contents = Vec::with_capacity(ids.len());
    let mut labels = isomer_data::NodeLabels::new();
    let reader = call.reader();
    reader.node_contents(ids, &mut contents)?;
    reader.node_labels(ids, &mut labels)?;
    let mut merged = Map::new();
    for content in contents.into_iter().flatten() {
        rule.add(&mut merged, &content.properties);
    }
    let labels = (1..ids.len())
        .flat_map(|at| labels.of(at).to_vec())
        .collect();
    Ok((merged, labels))
}

/// The relationships of the nodes that are merged into `target`, each once.
fn relationships(
    call: &mut CallContext<'_>,
    target: NodeId,
    others: &[NodeId],
    options: &Options,
) -> Result<Vec<Moved>> {
    let mut neighbours = Neighbours::new();
    let mut found: BTreeMap<RelId, (TypeId, NodeId, NodeId)> = BTreeMap::new();
    for direction in [Direction::Outgoing, Direction::Incoming] {
        call.reader()
            .expand(others, direction, &[], &mut neighbours)?;
        call.tick(neighbours.rows().len())?;
        for row in neighbours.rows() {
            found.insert(row.id, (row.type_id, row.source, row.target));
        }
    }
    let ids: Vec<RelId> = found.keys().copied().collect();
    let mut contents = Vec::with_capacity(ids.len());
    call.reader().relationship_contents(&ids, &mut contents)?;
    let end = |node: NodeId| if others.contains(&node) { target } else { node };
    let moved = found
        .into_values()
        .zip(contents)
        .filter_map(|((type_id, from, to), content)| {
            let (from, to) = (end(from), end(to));
            let is_kept = options.keeps_loops || from != to;
            is_kept.then(|| Moved {
                type_id,
                source: from,
                target: to,
                properties: content
                    .map(|content| content.properties.clone())
                    .unwrap_or_default(),
            })
        });
    Ok(moved.collect())
}

fn write_relationships(
    call: &mut CallContext<'_>,
    target: NodeId,
    moved: Vec<Moved>,
    options: &Options,
) -> Result<()> {
    // Of each type and ends the one that remains, with its properties.
    let mut kept: BTreeMap<(TypeId, NodeId, NodeId), (RelId, Map)> = BTreeMap::new();
    if options.merges_relationships {
        let mut neighbours = Neighbours::new();
        for direction in [Direction::Outgoing, Direction::Incoming] {
            call.reader()
                .expand(&[target], direction, &[], &mut neighbours)?;
            let ids: Vec<RelId> = neighbours.rows().iter().map(|row| row.id).collect();
            let mut contents: Vec<Option<Arc<isomer_value::RelationshipContent>>> = Vec::new();
            call.reader().relationship_contents(&ids, &mut contents)?;
            for (row, content) in neighbours.rows().iter().zip(contents) {
                let properties = content.map(|content| content.properties.clone());
                let key = (row.type_id, row.source, row.target);
                kept.entry(key)
                    .or_insert((row.id, properties.unwrap_or_default()));
            }
        }
    }
    for one in moved {
        call.tick(1)?;
        let key = (one.type_id, one.source, one.target);
        let mut graph = call.transaction().graph_mut();
        if let Some((id, properties)) = kept.get_mut(&key) {
            options.rule.add(properties, &one.properties);
            graph.merge_relationship_properties(*id, properties)?;
            call.counters.properties_set += properties.len() as u64;
            continue;
        }
        let id = graph.create_relationship(one.type_id, one.source, one.target, &one.properties)?;
        call.counters.relationships_created += 1;
        call.counters.properties_set += one.properties.len() as u64;
        if options.merges_relationships {
            kept.insert(key, (id, one.properties));
        }
    }
    Ok(())
}
