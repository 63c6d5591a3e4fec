//! Procedures for paths of least weight.
//!
//! | procedure | what it gives |
//! |---|---|
//! | `algo.shortestPath(source, target, [options]) YIELD path, weight` | a path of least weight (Dijkstra 1959, or A* where nodes have positions); no row where there is none |
//! | `algo.shortestPaths(source, target, k, [options]) YIELD rank, path, weight` | the `k` lightest that visit no node twice, lightest first (Yen 1971, with Lawler's rule of where to leave a path) |
//!
//! Options: `types`, `direction` (`'outgoing'`, `'incoming'`, `'both'`), `weight` (a property of the relationships; by
//! default each weighs 1) and `defaultWeight` for relationships without it. Weights must be finite and not negative.
//! `position` (a property of the nodes that holds a point) and `perUnit` (the minimum weight of a relationship per unit
//! of distance) enable the A* heuristic: see [`Estimate`].

use std::cmp::Reverse;
use std::collections::{BinaryHeap, hash_map::Entry};
use std::sync::Arc;

use isomer_data::{Direction, GraphRead, Neighbours, RelRow};
use isomer_plan::{
    catalog::{ProcedureField, ProcedureMode, ProcedureSignature},
    expr::StaticType,
};
use isomer_value::{Node, NodeId, Path, PropId, RelId, TypeId, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    CallContext, Procedure, Registry,
    estimate::Estimate,
    settings::{Settings, refused},
};
use crate::{
    column::relationship,
    error::{Result, shown},
    names::{property_number, type_number},
};

/// Registers the procedures.
pub(super) fn register(registry: &mut Registry) {
    for many in [false, true] {
        let signature = Arc::new(signature(many));
        registry.add_procedure(Arc::new(PathProcedure { many, signature }));
    }
}

struct PathProcedure {
    /// Whether several paths are asked for.
    many: bool,
    signature: Arc<ProcedureSignature>,
}

fn signature(many: bool) -> ProcedureSignature {
    let field = |name: &str, kind: StaticType, default: Option<Value>| ProcedureField {
        name: name.into(),
        kind,
        nullable: default.is_some(),
        default,
    };
    let mut parameters = vec![
        field("source", StaticType::Node, None),
        field("target", StaticType::Node, None),
    ];
    let mut results = vec![
        field("path", StaticType::Path, None),
        field("weight", StaticType::Float, None),
    ];
    if many {
        parameters.push(field("k", StaticType::Integer, None));
        results.insert(0, field("rank", StaticType::Integer, None));
    }
    parameters.push(field("options", StaticType::Map, Some(Value::Null)));
    ProcedureSignature {
        name: if many {
            "algo.shortestPaths"
        } else {
            "algo.shortestPath"
        }
        .into(),
        parameters,
        results,
        mode: ProcedureMode::Read,
    }
}

impl Procedure for PathProcedure {
    fn signature(&self) -> &Arc<ProcedureSignature> {
        &self.signature
    }

    fn call(&self, arguments: &[Value], call: &mut CallContext<'_>) -> Result<()> {
        let name = &self.signature.name;
        let node = |at: usize| {
            arguments
                .get(at)
                .and_then(Value::as_node)
                .map(|node| node.id)
        };
        let (Some(source), Some(target)) = (node(0), node(1)) else {
            return Err(refused(name, "source and target are nodes"));
        };
        let count = match (self.many, arguments.get(2)) {
            (false, _) => 1,
            (true, Some(Value::Int(count))) if *count > 0 => *count as usize,
            (true, other) => {
                let given = shown(other.unwrap_or(&Value::Null));
                return Err(refused(name, format!("k is at least 1, not {given}")));
            }
        };
        let options = arguments.last().unwrap_or(&Value::Null);
        let mut graph = SearchGraph::of(name, options, target, call)?;
        graph.remembers = count > 1;
        for (at, way) in lightest(&mut graph, source, target, count, call)?
            .iter()
            .enumerate()
        {
            let mut row = vec![way.path(source), Value::Float(way.weight)];
            if self.many {
                row.insert(0, Value::Int(at as i64 + 1));
            }
            call.emit(row)?;
        }
        Ok(())
    }
}

/// A step: the relationship, the node that it leads to, and its weight.
type Step = (RelRow, NodeId, f64);

/// A path from the source.
#[derive(Clone, Debug, PartialEq)]
struct PathFromSource {
    steps: Vec<Step>,
    weight: f64,
    /// The number of steps that it shares with the path from which it deviates.
    deviates_at: usize,
}

impl PathFromSource {
    fn path(&self, source: NodeId) -> Value {
        let node = |id| Node { id, content: None };
        Value::from(Path {
            nodes: std::iter::once(source)
                .chain(self.steps.iter().map(|(_, to, _)| *to))
                .map(node)
                .collect(),
            relationships: self
                .steps
                .iter()
                .map(|(rel, ..)| relationship(*rel))
                .collect(),
        })
    }

    fn bytes(&self) -> usize {
        self.steps.len() * size_of::<Step>() + 64
    }
}

/// The graph that the searches run on, from read views if they are available.
struct SearchGraph {
    procedure: Arc<str>,
    /// None if none of the chosen types exists.
    types: Option<Vec<TypeId>>,
    direction: Direction,
    weight: Weight,
    default: Option<f64>,
    /// Whether nodes are visited repeatedly: several paths are wanted.
    remembers: bool,
    known: FxHashMap<NodeId, Arc<[Step]>>,
    /// Lower bound of the remaining distance to the target.
    estimate: Option<Estimate>,
}

enum Weight {
    /// Each weighs 1.
    One,
    /// A property that no record has.
    Unknown(Arc<str>),
    Property(Arc<str>, PropId),
}

impl SearchGraph {
    fn of(
        procedure: &Arc<str>,
        options: &Value,
        target: NodeId,
        call: &mut CallContext<'_>,
    ) -> Result<Self> {
        let known = [
            "types",
            "direction",
            "weight",
            "defaultWeight",
            "position",
            "perUnit",
        ];
        let settings = Settings::new(procedure, options, &known)?;
        let names = settings.names("types")?;
        let transaction = call.transaction();
        let ids: Vec<TypeId> = names
            .iter()
            .filter_map(|name| type_number(transaction, name))
            .collect();
        let weight = match settings.name("weight")? {
            None => Weight::One,
            Some(name) => match property_number(transaction, &name) {
                Some(id) => Weight::Property(name, id),
                None => Weight::Unknown(name),
            },
        };
        let default = match settings.is_given("defaultWeight") {
            false => None,
            true if matches!(weight, Weight::One) => {
                return Err(refused(
                    procedure,
                    "`defaultWeight` needs `weight`: name the property that holds the weight",
                ));
            }
            true => Some(settings.float("defaultWeight", 0.0, 0.0..=f64::MAX)?),
        };
        let words = ["outgoing", "incoming", "both"];
        let direction = [Direction::Outgoing, Direction::Incoming, Direction::Both]
            [settings.choice("direction", &words)?];
        Ok(Self {
            procedure: procedure.clone(),
            types: (names.is_empty() || !ids.is_empty()).then_some(ids),
            direction,
            weight,
            default,
            remembers: false,
            known: FxHashMap::default(),
            estimate: Estimate::of(procedure, &settings, target, call)?,
        })
    }

    /// The remaining distances from the ends of the steps of `node`, written to `left`; empty if there is no estimate.
    fn remaining_estimates(
        &mut self,
        node: NodeId,
        steps: &[Step],
        left: &mut Vec<f64>,
        call: &mut CallContext<'_>,
    ) -> Result<()> {
        match &mut self.estimate {
            Some(estimate) => {
                let ends: Vec<_> = steps.iter().map(|(_, to, weight)| (*to, *weight)).collect();
                estimate.of_steps(node, &ends, left, call)
            }
            None => {
                left.clear();
                left.resize(steps.len(), 0.0);
                Ok(())
            }
        }
    }

    /// The steps from a node. The caller counts the work: a cached node costs its steps again.
    fn from(&mut self, node: NodeId, call: &mut CallContext<'_>) -> Result<Arc<[Step]>> {
        if let Some(known) = self.known.get(&node) {
            return Ok(known.clone());
        }
        let mut found = Neighbours::new();
        if let Some(types) = &self.types {
            call.reader()
                .expand(&[node], self.direction, types, &mut found)?;
        }
        let rows = found.rows();
        let weights = self.weights(rows, call)?;
        let steps: Arc<[Step]> = rows
            .iter()
            .zip(weights)
            .map(|(rel, weight)| {
                let to = if rel.source == node {
                    rel.target
                } else {
                    rel.source
                };
                (*rel, to, weight)
            })
            .collect();
        if self.remembers {
            call.hold(steps.len() * size_of::<Step>() + 64)?;
            self.known.insert(node, steps.clone());
        }
        Ok(steps)
    }

    fn weights(&self, rows: &[RelRow], call: &mut CallContext<'_>) -> Result<Vec<f64>> {
        let (name, values) = match &self.weight {
            Weight::One => return Ok(vec![1.0; rows.len()]),
            Weight::Unknown(name) => (name, vec![Value::Null; rows.len()]),
            Weight::Property(name, id) => {
                let ids: Vec<RelId> = rows.iter().map(|rel| rel.id).collect();
                let mut column = [Vec::with_capacity(ids.len())];
                call.reader()
                    .relationship_properties(&ids, &[*id], &mut column)?;
                let [values] = column;
                (name, values)
            }
        };
        rows.iter()
            .zip(values)
            .map(|(rel, value)| {
                let weight = if value.is_null() { self.default } else { value.to_f64() };
                weight
                    .filter(|weight| *weight >= 0.0 && weight.is_finite())
                    .ok_or_else(|| {
                        refused(
                            &self.procedure,
                            format!(
                                "relationship {} has {} in `{name}`: weights must be finite and not negative; `defaultWeight` replaces null",
                                rel.id,
                                shown(&value)
                            ),
                        )
                    })
            })
            .collect()
    }
}

/// What a path must not use.
#[derive(Default)]
struct Excluded {
    nodes: FxHashSet<NodeId>,
    /// First steps.
    rels: FxHashSet<RelId>,
}

/// A distance as a key: totally ordered, never NaN.
#[derive(Clone, Copy, PartialEq)]
struct Cost(f64);

impl Eq for Cost {}

impl PartialOrd for Cost {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Cost {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// The best known path to a node.
struct BestPath {
    weight: f64,
    /// The predecessor, and the step from it.
    last: Option<(NodeId, Step)>,
    /// Whether its outgoing steps were expanded.
    done: bool,
}

/// A lightest path between two nodes, if there is one. Nodes are expanded by the estimated total weight of the paths
/// over them. The estimate is consistent (it never falls by more than a step weighs), so a node is expanded twice only
/// because of rounding.
fn lightest_path(
    graph: &mut SearchGraph,
    from: NodeId,
    to: NodeId,
    excluded: &Excluded,
    call: &mut CallContext<'_>,
) -> Result<Option<Vec<Step>>> {
    let mut reached: FxHashMap<NodeId, BestPath> = FxHashMap::default();
    let mut open = BinaryHeap::from([(Reverse(Cost(0.0)), Reverse(from))]);
    let start = BestPath {
        weight: 0.0,
        last: None,
        done: false,
    };
    reached.insert(from, start);
    let (mut held, mut found) = (0, false);
    let mut left = Vec::new();
    while let Some((_, Reverse(node))) = open.pop() {
        let weight = match reached.get_mut(&node) {
            Some(known) if !known.done => {
                known.done = true;
                known.weight
            }
            _ => continue, // an outdated queue entry: a lighter path was found since
        };
        if node == to {
            found = true;
            break;
        }
        let steps = graph.from(node, call)?;
        call.tick(1 + steps.len())?;
        graph.remaining_estimates(node, &steps, &mut left, call)?;
        for (step, left) in steps.iter().zip(&left) {
            let (rel, next, step_weight) = *step;
            if excluded.nodes.contains(&next) || (node == from && excluded.rels.contains(&rel.id)) {
                continue;
            }
            let total = weight + step_weight;
            let way = BestPath {
                weight: total,
                last: Some((node, *step)),
                done: false,
            };
            match reached.entry(next) {
                Entry::Vacant(place) => {
                    place.insert(way);
                }
                Entry::Occupied(mut known) if total < known.get().weight => {
                    known.insert(way);
                }
                Entry::Occupied(_) => continue,
            }
            open.push((Reverse(Cost(total + left)), Reverse(next)));
        }
        let entry = size_of::<(NodeId, BestPath)>() + 1;
        let bytes = reached.capacity() * entry + open.capacity() * 24;
        if bytes > held {
            call.hold(bytes - held)?;
            held = bytes;
        }
    }
    call.release(held);
    if !found {
        return Ok(None);
    }
    let mut steps = Vec::new();
    let mut at = to;
    while let Some((before, step)) = reached.get(&at).and_then(|way| way.last) {
        steps.push(step);
        at = before;
    }
    steps.reverse();
    Ok(Some(steps))
}

/// Weight, number of steps, relationships, and the index at which it deviates from another path.
type Rank = (Cost, usize, Vec<RelId>, usize);

/// The lightest paths that repeat no node, at most `count`.
fn lightest(
    graph: &mut SearchGraph,
    source: NodeId,
    target: NodeId,
    count: usize,
    call: &mut CallContext<'_>,
) -> Result<Vec<PathFromSource>> {
    let mut found: Vec<PathFromSource> = Vec::new();
    // Candidates that deviate from a path already found, lightest first; ties by fewest steps, then by lowest ids.
    let mut open: BinaryHeap<Reverse<Rank>> = BinaryHeap::new();
    let mut steps_of: FxHashMap<Vec<RelId>, Vec<Step>> = FxHashMap::default();
    let Some(first) = lightest_path(graph, source, target, &Excluded::default(), call)? else {
        return Ok(found);
    };
    found.push(path_of(first, 0));
    while found.len() < count {
        let Some(last) = found.last().cloned() else {
            break;
        };
        for at in last.deviates_at..last.steps.len() {
            let shared = &last.steps[..at];
            let spur = shared.last().map_or(source, |(_, node, _)| *node);
            let mut excluded = Excluded::default();
            for known in &found {
                call.tick(1 + at)?;
                let same = known.steps.len() > at
                    && known.steps[..at]
                        .iter()
                        .zip(shared)
                        .all(|(a, b)| a.0.id == b.0.id);
                if same {
                    excluded.rels.insert(known.steps[at].0.id);
                }
            }
            excluded.nodes.insert(source);
            excluded
                .nodes
                .extend(shared.iter().map(|(_, node, _)| *node));
            let Some(rest) = lightest_path(graph, spur, target, &excluded, call)? else {
                continue;
            };
            let steps: Vec<Step> = shared.iter().copied().chain(rest).collect();
            let key: Vec<RelId> = steps.iter().map(|(rel, ..)| rel.id).collect();
            let made = path_of(steps, at);
            if let Entry::Vacant(place) = steps_of.entry(key) {
                call.hold(made.bytes() * 2)?;
                let rels = place.key().clone();
                open.push(Reverse((Cost(made.weight), made.steps.len(), rels, at)));
                place.insert(made.steps);
            }
        }
        let Some(Reverse((_, _, key, at))) = open.pop() else {
            break;
        };
        let steps = steps_of.get(&key).cloned().unwrap_or_default();
        found.push(path_of(steps, at));
    }
    Ok(found)
}

fn path_of(steps: Vec<Step>, deviates_at: usize) -> PathFromSource {
    PathFromSource {
        weight: steps.iter().map(|(.., weight)| weight).sum(),
        steps,
        deviates_at,
    }
}
