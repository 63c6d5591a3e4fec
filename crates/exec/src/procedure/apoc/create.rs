//! `apoc.create.*` and `apoc.merge.*`: nodes and relationships whose labels, types and properties are values.

use std::{ops::Bound, sync::Arc};

use isomer_data::{Direction, GraphRead, IndexCursor, IndexSeek, Neighbours, Order};
use isomer_value::{LabelId, Map, Node, NodeId, RelId, Relationship, TypeId, Value, equality};

use super::arguments::invalid;
use crate::{
    error::{Result, shown},
    procedure::{CallContext, table::ProcedureRow},
};

/// Candidates that a search reads at once.
const PAGE: usize = 1_024;
/// The property that every label has an index on.
const KEY: &str = "_key";

/// The procedures.
pub(super) const PROCEDURES: &[ProcedureRow] = &[
    ProcedureRow::writes(
        "apoc.create.node",
        "labels: LIST?, props: MAP?",
        "node: NODE",
        "creates a node",
        |args, call| {
            let labels = labels("apoc.create.node", args, 0, call)?;
            let node = create_node(call, &labels, map(args, 1))?;
            call.emit(vec![node])
        },
    ),
    ProcedureRow::writes(
        "apoc.create.nodes",
        "labels: LIST?, props: LIST?",
        "node: NODE",
        "creates a node for each map of properties",
        |args, call| {
            let labels = labels("apoc.create.nodes", args, 0, call)?;
            for properties in list(args, 1) {
                let properties = properties.as_map().cloned().ok_or_else(|| {
                    let why = format!("the properties must be maps, not {}", shown(properties));
                    invalid("apoc.create.nodes", why)
                })?;
                let node = create_node(call, &labels, properties)?;
                call.emit(vec![node])?;
            }
            Ok(())
        },
    ),
    ProcedureRow::writes(
        "apoc.create.relationship",
        "from: NODE?, relType: STRING, props: MAP?, to: NODE?",
        "rel: RELATIONSHIP",
        "creates a relationship",
        |args, call| {
            let Some(ends) = ends(args, 0, 3) else {
                return Ok(());
            };
            let rel_type = rel_type("apoc.create.relationship", args, call)?;
            let rel = create_relationship(call, rel_type, ends, map(args, 2))?;
            call.emit(vec![rel])
        },
    ),
    ProcedureRow::writes(
        "apoc.create.addLabels",
        "nodes: ANY, labels: LIST?",
        "node: NODE",
        "adds labels to nodes",
        |args, call| {
            let labels = labels("apoc.create.addLabels", args, 1, call)?;
            for node in nodes("apoc.create.addLabels", args)? {
                for label in &labels {
                    let is_new = call.transaction().graph_mut().add_label(node, *label)?;
                    call.counters.labels_added += u64::from(is_new);
                }
                call.emit(vec![node_value(node)])?;
            }
            Ok(())
        },
    ),
    ProcedureRow::writes(
        "apoc.create.removeLabels",
        "nodes: ANY, labels: LIST?",
        "node: NODE",
        "removes labels from nodes",
        |args, call| {
            let labels = labels("apoc.create.removeLabels", args, 1, call)?;
            for node in nodes("apoc.create.removeLabels", args)? {
                for label in &labels {
                    let had = call.transaction().graph_mut().remove_label(node, *label)?;
                    call.counters.labels_removed += u64::from(had);
                }
                call.emit(vec![node_value(node)])?;
            }
            Ok(())
        },
    ),
    ProcedureRow::writes(
        "apoc.create.setLabels",
        "nodes: ANY, labels: LIST?",
        "node: NODE",
        "replaces the labels of nodes",
        set_labels,
    ),
    ProcedureRow::writes(
        "apoc.create.setProperty",
        "nodes: ANY, key: STRING, value: ANY",
        "node: NODE",
        "sets a property of nodes; null removes it",
        |args, call| {
            let key = text("apoc.create.setProperty", args, 1)?;
            for node in nodes("apoc.create.setProperty", args)? {
                let value = args.get(2).cloned().unwrap_or_default();
                let mut graph = call.transaction().graph_mut();
                graph.set_node_property(node, &[&key], value)?;
                call.counters.properties_set += 1;
                call.emit(vec![node_value(node)])?;
            }
            Ok(())
        },
    ),
    ProcedureRow::writes(
        "apoc.create.setProperties",
        "nodes: ANY, keys: LIST, values: LIST",
        "node: NODE",
        "sets properties of nodes; null removes one",
        |args, call| {
            let (keys, values) = (list(args, 1), list(args, 2));
            if keys.len() != values.len() {
                let (keys, values) = (keys.len(), values.len());
                return Err(invalid(
                    "apoc.create.setProperties",
                    format!("{keys} keys and {values} values: give as many values as keys"),
                ));
            }
            for node in nodes("apoc.create.setProperties", args)? {
                for (key, value) in keys.iter().zip(values) {
                    let key = key.as_str().ok_or_else(|| {
                        invalid("apoc.create.setProperties", "the keys must be strings")
                    })?;
                    let mut graph = call.transaction().graph_mut();
                    graph.set_node_property(node, &[key], value.clone())?;
                    call.counters.properties_set += 1;
                }
                call.emit(vec![node_value(node)])?;
            }
            Ok(())
        },
    ),
    ProcedureRow::writes(
        "apoc.merge.node",
        "labels: LIST, identProps: MAP, onCreateProps: MAP? = {}, onMatchProps: MAP? = {}",
        "node: NODE",
        "the nodes with these labels and properties, or one that is created",
        |args, call| merge_node("apoc.merge.node", args, call),
    ),
    ProcedureRow::writes(
        "apoc.merge.node.eager",
        "labels: LIST, identProps: MAP, onCreateProps: MAP? = {}, onMatchProps: MAP? = {}",
        "node: NODE",
        "the nodes with these labels and properties, or one that is created",
        |args, call| merge_node("apoc.merge.node.eager", args, call),
    ),
    ProcedureRow::writes(
        "apoc.merge.relationship",
        "startNode: NODE?, relType: STRING, identProps: MAP?, onCreateProps: MAP?, endNode: NODE?, \
         onMatchProps: MAP? = {}",
        "rel: RELATIONSHIP",
        "the relationships of a type with these properties between two nodes, or one that is created",
        |args, call| merge_relationship("apoc.merge.relationship", args, call),
    ),
    ProcedureRow::writes(
        "apoc.merge.relationship.eager",
        "startNode: NODE?, relType: STRING, identProps: MAP?, onCreateProps: MAP?, endNode: NODE?, \
         onMatchProps: MAP? = {}",
        "rel: RELATIONSHIP",
        "the relationships of a type with these properties between two nodes, or one that is created",
        |args, call| merge_relationship("apoc.merge.relationship.eager", args, call),
    ),
];

fn list(args: &[Value], at: usize) -> &[Value] {
    args.get(at).and_then(Value::as_list).unwrap_or_default()
}

fn map(args: &[Value], at: usize) -> Map {
    let map = args.get(at).and_then(Value::as_map);
    map.cloned().unwrap_or_default()
}

fn text(procedure: &str, args: &[Value], at: usize) -> Result<Arc<str>> {
    match args.get(at) {
        Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
        other => Err(invalid(
            procedure,
            format!(
                "a name must be a string that is not empty, not {}",
                shown(other.unwrap_or(&Value::Null))
            ),
        )),
    }
}

/// The labels of an argument; new names get a number.
fn labels(
    procedure: &str,
    args: &[Value],
    at: usize,
    call: &mut CallContext<'_>,
) -> Result<Vec<LabelId>> {
    let names = list(args, at);
    let mut ids = Vec::with_capacity(names.len());
    for at in 0..names.len() {
        let name = text(procedure, names, at)?;
        let known = call.transaction().name_ids().find_label(&name);
        ids.push(match known {
            Some(id) => id,
            None => call.transaction().name_ids().intern_label(&name)?,
        });
    }
    Ok(ids)
}

/// The type that the second argument names; a new name gets a number.
fn rel_type(procedure: &str, args: &[Value], call: &mut CallContext<'_>) -> Result<TypeId> {
    let name = text(procedure, args, 1)?;
    let known = call.transaction().name_ids().find_type(&name);
    Ok(match known {
        Some(id) => id,
        None => call.transaction().name_ids().intern_type(&name)?,
    })
}

/// The node or nodes of the first argument.
fn nodes(procedure: &str, args: &[Value]) -> Result<Vec<NodeId>> {
    let given = args.first().unwrap_or(&Value::Null);
    let node = |value: &Value| match value {
        Value::Node(node) => Ok(node.id),
        other => Err(invalid(
            procedure,
            format!("takes a node or a list of nodes, not {}", shown(other)),
        )),
    };
    match given {
        Value::Null => Ok(Vec::new()),
        Value::List(items) => items.iter().map(node).collect(),
        one => Ok(vec![node(one)?]),
    }
}

fn ends(args: &[Value], from: usize, to: usize) -> Option<(NodeId, NodeId)> {
    let node = |at: usize| args.get(at).and_then(Value::as_node).map(|node| node.id);
    node(from).zip(node(to))
}

fn node_value(id: NodeId) -> Value {
    Value::from(Node { id, content: None })
}

/// How many properties have a value.
fn present(properties: &Map) -> u64 {
    properties.values().filter(|value| !value.is_null()).count() as u64
}

fn create_node(call: &mut CallContext<'_>, labels: &[LabelId], properties: Map) -> Result<Value> {
    call.tick(1)?;
    let mut graph = call.transaction().graph_mut();
    let node = graph.create_node(labels, &properties)?;
    call.counters.nodes_created += 1;
    call.counters.labels_added += labels.len() as u64;
    call.counters.properties_set += present(&properties);
    Ok(node_value(node))
}

fn create_relationship(
    call: &mut CallContext<'_>,
    type_id: TypeId,
    (source, target): (NodeId, NodeId),
    properties: Map,
) -> Result<Value> {
    call.tick(1)?;
    let mut graph = call.transaction().graph_mut();
    let id = graph.create_relationship(type_id, source, target, &properties)?;
    call.counters.relationships_created += 1;
    call.counters.properties_set += present(&properties);
    Ok(relationship_value(id, type_id, source, target))
}

fn relationship_value(id: RelId, type_id: TypeId, source: NodeId, target: NodeId) -> Value {
    Value::from(Relationship {
        id,
        type_id,
        source,
        target,
        content: None,
    })
}

fn set_labels(args: &[Value], call: &mut CallContext<'_>) -> Result<()> {
    let wanted = labels("apoc.create.setLabels", args, 1, call)?;
    for node in nodes("apoc.create.setLabels", args)? {
        let mut present = isomer_data::NodeLabels::new();
        call.reader().node_labels(&[node], &mut present)?;
        let old: Vec<LabelId> = present.of(0).to_vec();
        let mut changed = (0, 0);
        let mut graph = call.transaction().graph_mut();
        for label in old.iter().filter(|label| !wanted.contains(label)) {
            changed.0 += u64::from(graph.remove_label(node, *label)?);
        }
        for label in &wanted {
            changed.1 += u64::from(graph.add_label(node, *label)?);
        }
        call.counters.labels_removed += changed.0;
        call.counters.labels_added += changed.1;
        call.emit(vec![node_value(node)])?;
    }
    Ok(())
}

/// Fails for a null among the properties that identify a record, as `MERGE` does.
fn check_identity(procedure: &str, identity: &Map) -> Result<()> {
    match identity.iter().find(|(_, value)| value.is_null()) {
        Some((name, _)) => Err(invalid(
            procedure,
            format!("the property `{name}` that identifies a record is null: give it a value"),
        )),
        None => Ok(()),
    }
}

fn has_all(properties: &Map, identity: &Map) -> bool {
    identity.iter().all(|(name, value)| {
        let found = properties.get(name);
        found.is_some_and(|found| equality::equal(found, value) == Some(true))
    })
}

fn both(first: &Map, second: Map) -> Map {
    let mut merged = first.clone();
    for (name, value) in second.iter() {
        merged.insert(name.clone(), value.clone());
    }
    merged
}

fn merge_node(procedure: &'static str, args: &[Value], call: &mut CallContext<'_>) -> Result<()> {
    let (identity, created, matched) = (map(args, 1), map(args, 2), map(args, 3));
    check_identity(procedure, &identity)?;
    if identity.is_empty() {
        return Err(invalid(
            procedure,
            "no property identifies the node: give at least one in the second argument",
        ));
    }
    let labels = labels(procedure, args, 0, call)?;
    let found = find_nodes(call, &labels, &identity)?;
    if found.is_empty() {
        let node = create_node(call, &labels, both(&identity, created))?;
        return call.emit(vec![node]);
    }
    for node in found {
        if !matched.is_empty() {
            let mut graph = call.transaction().graph_mut();
            graph.merge_node_properties(node, &matched)?;
            call.counters.properties_set += matched.len() as u64;
        }
        call.emit(vec![node_value(node)])?;
    }
    Ok(())
}

/// The nodes with all of the labels and properties: those of an index if there is one on one of the properties,
/// otherwise all nodes of the first label.
fn find_nodes(
    call: &mut CallContext<'_>,
    labels: &[LabelId],
    identity: &Map,
) -> Result<Vec<NodeId>> {
    let mut found = Vec::new();
    if let Some(label) = labels.first()
        && let Some(key) = identity.get(KEY)
    {
        let candidate = call.reader().node_by_key(*label, key)?;
        keep_matching(call, candidate.as_slice(), labels, identity, &mut found)?;
        return Ok(found);
    }
    let catalog = call.reader().catalog();
    let indexed = labels.iter().find_map(|label| {
        catalog.usable_indexes(*label).find_map(|index| {
            // A record without one of several fields is not in the index.
            let [field] = &index.fields[..] else {
                return None;
            };
            if field.each {
                return None;
            }
            let name = field.path.0.first().filter(|_| field.path.0.len() == 1)?;
            Some((index.id, identity.get(name)?.clone()))
        })
    });
    let mut candidates = Vec::new();
    if let Some((index, value)) = indexed {
        let seek = IndexSeek {
            index,
            prefix: &[value],
            range: (Bound::Unbounded, Bound::Unbounded),
            order: Order::Ascending,
        };
        let mut cursor = IndexCursor::default();
        while !cursor.is_done() {
            candidates.clear();
            let reader = call.reader();
            reader.index_seek(&seek, &mut cursor, PAGE, &mut candidates)?;
            keep_matching(call, &candidates, labels, identity, &mut found)?;
        }
        return Ok(found);
    }
    let mut after = None;
    loop {
        candidates.clear();
        let label = labels.first().copied();
        let reader = call.reader();
        reader.scan_nodes(label, after, PAGE, &mut candidates)?;
        let Some(last) = candidates.last() else {
            return Ok(found);
        };
        after = Some(*last);
        keep_matching(call, &candidates, labels, identity, &mut found)?;
    }
}

fn keep_matching(
    call: &mut CallContext<'_>,
    candidates: &[NodeId],
    labels: &[LabelId],
    identity: &Map,
    found: &mut Vec<NodeId>,
) -> Result<()> {
    call.tick(candidates.len())?;
    let mut contents = Vec::with_capacity(candidates.len());
    let mut known = isomer_data::NodeLabels::new();
    let reader = call.reader();
    reader.node_contents(candidates, &mut contents)?;
    reader.node_labels(candidates, &mut known)?;
    for (at, (node, content)) in candidates.iter().zip(&contents).enumerate() {
        let has_labels = labels.iter().all(|label| known.of(at).contains(label));
        if let Some(content) = content
            && has_labels
            && has_all(&content.properties, identity)
        {
            found.push(*node);
        }
    }
    Ok(())
}

fn merge_relationship(
    procedure: &'static str,
    args: &[Value],
    call: &mut CallContext<'_>,
) -> Result<()> {
    let Some((source, target)) = ends(args, 0, 4) else {
        return Ok(());
    };
    let (identity, created, matched) = (map(args, 2), map(args, 3), map(args, 5));
    check_identity(procedure, &identity)?;
    let type_id = rel_type(procedure, args, call)?;
    let mut between = Neighbours::new();
    let mut contents = Vec::new();
    let reader = call.reader();
    let pair = [(source, target)];
    reader.expand_into(&pair, Direction::Outgoing, &[type_id], &mut between)?;
    let ids: Vec<RelId> = between.rows().iter().map(|row| row.id).collect();
    reader.relationship_contents(&ids, &mut contents)?;
    let with_identity = |content: &Option<Arc<isomer_value::RelationshipContent>>| {
        let content = content.as_ref();
        content.is_some_and(|content| has_all(&content.properties, &identity))
    };
    let found = ids.iter().zip(&contents);
    let found: Vec<RelId> = found
        .filter(|(_, content)| with_identity(content))
        .map(|(id, _)| *id)
        .collect();
    if found.is_empty() {
        let properties = both(&identity, created);
        let rel = create_relationship(call, type_id, (source, target), properties)?;
        return call.emit(vec![rel]);
    }
    for rel in found {
        if !matched.is_empty() {
            let mut graph = call.transaction().graph_mut();
            graph.merge_relationship_properties(rel, &matched)?;
            call.counters.properties_set += matched.len() as u64;
        }
        call.emit(vec![relationship_value(rel, type_id, source, target)])?;
    }
    Ok(())
}
