//! `apoc.path.subgraphNodes`, `apoc.path.subgraphAll`: the nodes that a breadth-first search reaches.

use std::collections::HashSet;

use isomer_data::{Direction, GraphRead, Neighbours, NodeLabels};
use isomer_value::{LabelId, Map, Node, NodeId, RelId, Relationship, TypeId, Value};

use super::arguments::invalid;
use crate::{
    error::{Result, shown},
    procedure::{CallContext, table::ProcedureRow},
};

/// Nodes expanded at once.
const PAGE: usize = 1_024;
/// Memory of a reached node: its id in a set and a list.
const NODE_BYTES: usize = 48;
const PARAMETERS: &str = "start: ANY, config: MAP?";

/// The procedures.
pub(super) const PROCEDURES: &[ProcedureRow] = &[
    ProcedureRow::reads(
        "apoc.path.subgraphNodes",
        PARAMETERS,
        "node: NODE",
        "the nodes that are reached from some nodes within {maxLevel}, over {relationshipFilter: 'A>|<B|C'} and nodes \
         of {labelFilter: '+A|-B'}; at most {limit}",
        |args, call| {
            for node in reachable_nodes("apoc.path.subgraphNodes", args, call)? {
                call.emit(vec![node_value(node)])?;
            }
            Ok(())
        },
    ),
    ProcedureRow::reads(
        "apoc.path.subgraphAll",
        PARAMETERS,
        "nodes: LIST, relationships: LIST",
        "the nodes that are reached from some nodes, as in apoc.path.subgraphNodes, and all relationships between them",
        |args, call| {
            let nodes = reachable_nodes("apoc.path.subgraphAll", args, call)?;
            let relationships = between(call, &nodes)?;
            let nodes: Value = nodes.into_iter().map(node_value).collect();
            call.emit(vec![nodes, relationships])
        },
    ),
];

fn node_value(id: NodeId) -> Value {
    Value::from(Node { id, content: None })
}

/// What a search follows and where it ends.
struct Search {
    /// Directions and types to expand; no types are all types.
    steps: Vec<(Direction, Vec<TypeId>)>,
    /// Nodes need one of these labels, if there are any.
    wanted: Option<Vec<LabelId>>,
    unwanted: Vec<LabelId>,
    filters_start: bool,
    has_start: bool,
    max_level: usize,
    limit: usize,
}

impl Search {
    fn of(procedure: &str, config: &Map, call: &CallContext<'_>) -> Result<Self> {
        let mut search = Self {
            steps: vec![(Direction::Both, Vec::new())],
            wanted: None,
            unwanted: Vec::new(),
            filters_start: false,
            has_start: true,
            max_level: usize::MAX,
            limit: usize::MAX,
        };
        for (name, value) in config.iter() {
            let wrong = |wanted: &str| {
                let why = format!("`{name}` must be {wanted}, not {}", shown(value));
                invalid(procedure, why)
            };
            let text = || value.as_str().ok_or_else(|| wrong("a string"));
            let count = || match value {
                Value::Int(-1) => Ok(usize::MAX),
                Value::Int(number @ 0..) => Ok(usize::try_from(*number).unwrap_or(usize::MAX)),
                _ => Err(wrong("a number from 0, or -1 for no limit")),
            };
            match &**name {
                _ if value.is_null() => {}
                "relationshipFilter" => search.steps = steps(procedure, text()?, call)?,
                "labelFilter" => search.filter_labels(procedure, text()?, call)?,
                "maxLevel" => search.max_level = count()?,
                "limit" => search.limit = count()?,
                "minLevel" => match count()? {
                    0 => {}
                    1 => search.has_start = false,
                    _ => return Err(wrong("0 or 1")),
                },
                "filterStartNode" => {
                    search.filters_start = value.as_bool().ok_or_else(|| wrong("true or false"))?;
                }
                "bfs" if *value == Value::Bool(true) => {}
                _ => {
                    let why = format!(
                        "unsupported option `{name}`: expected maxLevel, minLevel, relationshipFilter, \
                         labelFilter, filterStartNode, limit, or bfs: true"
                    );
                    return Err(invalid(procedure, why));
                }
            }
        }
        Ok(search)
    }

    fn filter_labels(
        &mut self,
        procedure: &str,
        filter: &str,
        call: &CallContext<'_>,
    ) -> Result<()> {
        let catalog = call.reader().catalog();
        for part in filter
            .split('|')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            let (list, name) = match part.as_bytes()[0] {
                b'/' | b'>' => {
                    let why =
                        format!("unsupported label filter `{part}`: expected +LABEL or -LABEL");
                    return Err(invalid(procedure, why));
                }
                b'-' => (&mut self.unwanted, &part[1..]),
                b'+' => (self.wanted.get_or_insert_default(), &part[1..]),
                _ => (self.wanted.get_or_insert_default(), part),
            };
            // No node has a label without a number.
            list.extend(catalog.label_id(name));
        }
        Ok(())
    }

    fn admits(&self, labels: &[LabelId]) -> bool {
        let has = |label: &LabelId| labels.contains(label);
        self.wanted
            .as_ref()
            .is_none_or(|wanted| wanted.iter().any(has))
            && !self.unwanted.iter().any(has)
    }
}

/// The directions and types of a filter such as `KNOWS>|<LIKES|NEAR`.
fn steps(
    procedure: &str,
    filter: &str,
    call: &CallContext<'_>,
) -> Result<Vec<(Direction, Vec<TypeId>)>> {
    let catalog = call.reader().catalog();
    let mut steps: Vec<(Direction, Vec<TypeId>)> = Vec::new();
    for part in filter
        .split('|')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        let (direction, name) = match (part.strip_prefix('<'), part.strip_suffix('>')) {
            (Some(rest), None) => (Direction::Incoming, rest),
            (None, Some(rest)) => (Direction::Outgoing, rest),
            (None, None) => (Direction::Both, part),
            (Some(_), Some(_)) => {
                let why =
                    format!("invalid relationship filter `{part}`: expected TYPE, TYPE> or <TYPE");
                return Err(invalid(procedure, why));
            }
        };
        if name.is_empty() {
            steps.push((direction, Vec::new()));
        } else if let Some(id) = catalog.type_id(name) {
            steps.push((direction, vec![id]));
        }
    }
    let is_any = filter.split('|').all(|part| part.trim().is_empty());
    if is_any {
        steps.push((Direction::Both, Vec::new()));
    }
    Ok(steps)
}

fn reachable_nodes(
    procedure: &str,
    args: &[Value],
    call: &mut CallContext<'_>,
) -> Result<Vec<NodeId>> {
    let config = args
        .get(1)
        .and_then(Value::as_map)
        .cloned()
        .unwrap_or_default();
    let search = Search::of(procedure, &config, call)?;
    let mut level: Vec<NodeId> = Vec::new();
    let given = args.first().unwrap_or(&Value::Null);
    let starts: &[Value] = match given {
        Value::Null => &[],
        Value::List(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    };
    let mut seen = HashSet::new();
    for start in starts {
        let Value::Node(node) = start else {
            let why = format!(
                "starts at a node or a list of nodes, not at {}",
                shown(start)
            );
            return Err(invalid(procedure, why));
        };
        if seen.insert(node.id) {
            level.push(node.id);
        }
    }
    if search.filters_start {
        level = admitted(call, &search, level)?;
    }
    let mut found = Vec::new();
    if search.has_start {
        found.extend_from_slice(&level);
    }
    let mut depth = 0;
    while !level.is_empty() && depth < search.max_level && found.len() < search.limit {
        let mut next = Vec::new();
        for page in level.chunks(PAGE) {
            expand(call, &search, page, &mut seen, &mut next)?;
        }
        level = admitted(call, &search, next)?;
        call.hold(level.len() * NODE_BYTES)?;
        found.extend_from_slice(&level);
        depth += 1;
    }
    found.truncate(search.limit);
    Ok(found)
}

/// Appends the nodes that are reached from a page for the first time.
fn expand(
    call: &mut CallContext<'_>,
    search: &Search,
    page: &[NodeId],
    seen: &mut HashSet<NodeId>,
    next: &mut Vec<NodeId>,
) -> Result<()> {
    let mut neighbours = Neighbours::new();
    for (direction, types) in &search.steps {
        for direction in each_way(*direction) {
            call.reader()
                .expand(page, direction, types, &mut neighbours)?;
            call.tick(neighbours.rows().len())?;
            for row in neighbours.rows() {
                let other = match direction {
                    Direction::Incoming => row.source,
                    _ => row.target,
                };
                if seen.insert(other) {
                    next.push(other);
                }
            }
        }
    }
    Ok(())
}

fn each_way(direction: Direction) -> Vec<Direction> {
    match direction {
        Direction::Both => vec![Direction::Outgoing, Direction::Incoming],
        one => vec![one],
    }
}

/// The nodes that the label filter admits, in their order.
fn admitted(
    call: &mut CallContext<'_>,
    search: &Search,
    nodes: Vec<NodeId>,
) -> Result<Vec<NodeId>> {
    if search.wanted.is_none() && search.unwanted.is_empty() {
        return Ok(nodes);
    }
    let mut kept = Vec::with_capacity(nodes.len());
    let mut labels = NodeLabels::new();
    for page in nodes.chunks(PAGE) {
        call.reader().node_labels(page, &mut labels)?;
        call.tick(page.len())?;
        let pairs = page.iter().enumerate();
        kept.extend(
            pairs
                .filter(|(at, _)| search.admits(labels.of(*at)))
                .map(|(_, node)| *node),
        );
    }
    Ok(kept)
}

/// The relationships between nodes of a set.
fn between(call: &mut CallContext<'_>, nodes: &[NodeId]) -> Result<Value> {
    let set: HashSet<NodeId> = nodes.iter().copied().collect();
    let mut seen: HashSet<RelId> = HashSet::new();
    let mut found = Vec::new();
    let mut neighbours = Neighbours::new();
    for page in nodes.chunks(PAGE) {
        call.reader()
            .expand(page, Direction::Outgoing, &[], &mut neighbours)?;
        call.tick(neighbours.rows().len())?;
        for row in neighbours.rows() {
            if set.contains(&row.target) && seen.insert(row.id) {
                found.push(Value::from(Relationship {
                    id: row.id,
                    type_id: row.type_id,
                    source: row.source,
                    target: row.target,
                    content: None,
                }));
            }
        }
    }
    call.hold(seen.len() * NODE_BYTES)?;
    Ok(found.into())
}
