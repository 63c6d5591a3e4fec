//! Paths of least weight as procedures.
//!
//! | procedure | what it gives |
//! |---|---|
//! | `algo.shortestPath(source, target, [options]) YIELD path, weight` | a path of least weight (Dijkstra 1959, or A* where nodes have positions); no row where there is none |
//! | `algo.shortestPaths(source, target, k, [options]) YIELD rank, path, weight` | the `k` lightest that visit no node twice, lightest first (Yen 1971, with Lawler's rule of where to leave a path) |
//!
//! Options: `types`, `direction` (`'outgoing'`, `'incoming'`, `'both'`), `weight` (a property of the relationships; without it each
//! weighs 1) and `defaultWeight` for those that lack it. A weight is a finite number from 0, anything else an error. `position` (a
//! property of the nodes that holds a point) and `perUnit` (what a relationship weighs at least for each unit of distance) make the
//! search go towards the target: see [`Estimate`].

use std::cmp::Reverse;
use std::collections::{BinaryHeap, hash_map::Entry};
use std::sync::Arc;

use isomer_data::{Direction, GraphRead, Neighbours, RelRow};
use isomer_plan::{
    catalog::{ProcedureField, ProcedureMode, ProcedureSignature},
    expr::Kind,
};
use isomer_value::{Node, NodeId, Path, PropId, RelId, TypeId, Value};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    Call, Procedure, Registry,
    estimate::Estimate,
    settings::{Settings, refused},
};
use crate::{
    column::relationship,
    context::{known_prop, known_type},
    error::{Result, shown},
};

/// Adds them.
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
    let field = |name: &str, kind: Kind, default: Option<Value>| ProcedureField {
        name: name.into(),
        kind,
        nullable: default.is_some(),
        default,
    };
    let mut parameters = vec![
        field("source", Kind::Node, None),
        field("target", Kind::Node, None),
    ];
    let mut results = vec![
        field("path", Kind::Path, None),
        field("weight", Kind::Float, None),
    ];
    if many {
        parameters.push(field("k", Kind::Integer, None));
        results.insert(0, field("rank", Kind::Integer, None));
    }
    parameters.push(field("options", Kind::Map, Some(Value::Null)));
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

    fn call(&self, arguments: &[Value], call: &mut Call<'_>) -> Result<()> {
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
        let mut ways = Ways::of(name, options, target, call)?;
        ways.remembers = count > 1;
        for (at, way) in lightest(&mut ways, source, target, count, call)?
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

/// A way from the source.
#[derive(Clone, Debug, PartialEq)]
struct Way {
    steps: Vec<Step>,
    weight: f64,
    /// The number of steps that it shares with the way that it leaves.
    leaves_at: usize,
}

impl Way {
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

/// Where ways may lead, and what that weighs, from read views where they stand.
struct Ways {
    procedure: Arc<str>,
    /// None where no type asked for exists.
    types: Option<Vec<TypeId>>,
    direction: Direction,
    weight: Weight,
    default: Option<f64>,
    /// Whether nodes are come back to: several ways are asked for.
    remembers: bool,
    known: FxHashMap<NodeId, Arc<[Step]>>,
    /// What is left to the target at least.
    estimate: Option<Estimate>,
}

enum Weight {
    /// Each weighs 1.
    One,
    /// A property that no record has.
    Unknown(Arc<str>),
    Property(Arc<str>, PropId),
}

impl Ways {
    fn of(
        procedure: &Arc<str>,
        options: &Value,
        target: NodeId,
        call: &mut Call<'_>,
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
            .filter_map(|name| known_type(transaction, name))
            .collect();
        let weight = match settings.name("weight")? {
            None => Weight::One,
            Some(name) => match known_prop(transaction, &name) {
                Some(id) => Weight::Property(name, id),
                None => Weight::Unknown(name),
            },
        };
        let default = match settings.is_given("defaultWeight") {
            false => None,
            true if matches!(weight, Weight::One) => {
                return Err(refused(
                    procedure,
                    "`defaultWeight` stands for a missing `weight`: name the property that holds it",
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

    /// What is left at least from the ends of the steps of `node`, put into `left`; nothing of it where nobody can say.
    fn left(
        &mut self,
        node: NodeId,
        steps: &[Step],
        left: &mut Vec<f64>,
        call: &mut Call<'_>,
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

    /// The steps from a node. Who asks ticks: a node that is remembered costs its steps again.
    fn from(&mut self, node: NodeId, call: &mut Call<'_>) -> Result<Arc<[Step]>> {
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

    fn weights(&self, rows: &[RelRow], call: &mut Call<'_>) -> Result<Vec<f64>> {
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
                let weight = match value.is_null() {
                    true => self.default,
                    false => value.to_f64(),
                };
                weight
                    .filter(|weight| *weight >= 0.0 && weight.is_finite())
                    .ok_or_else(|| {
                        refused(
                            &self.procedure,
                            format!(
                                "relationship {} has {} in `{name}`: a weight is a finite number from 0; `defaultWeight` stands for null",
                                rel.id,
                                shown(&value)
                            ),
                        )
                    })
            })
            .collect()
    }
}

/// What a way may not use.
#[derive(Default)]
struct Closed {
    nodes: FxHashSet<NodeId>,
    /// First steps.
    rels: FxHashSet<RelId>,
}

/// A distance as a key: ordered, never NaN.
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

/// How a node was reached best so far.
struct Reached {
    weight: f64,
    /// The node before, and the step from there.
    last: Option<(NodeId, Step)>,
    /// Whether the ways that go on from it were looked at.
    done: bool,
}

/// A lightest way from one node to another, if there is one. Nodes are looked at by what the way over them weighs at least. Estimates
/// never fall by more than a step weighs, so that no node is looked at twice but for rounding, where it is.
fn lightest_way(
    ways: &mut Ways,
    from: NodeId,
    to: NodeId,
    closed: &Closed,
    call: &mut Call<'_>,
) -> Result<Option<Vec<Step>>> {
    let mut reached: FxHashMap<NodeId, Reached> = FxHashMap::default();
    let mut open = BinaryHeap::from([(Reverse(Cost(0.0)), Reverse(from))]);
    let start = Reached {
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
            _ => continue, // a heavier way to it, found before the one that it was reached by
        };
        if node == to {
            found = true;
            break;
        }
        let steps = ways.from(node, call)?;
        call.tick(1 + steps.len())?;
        ways.left(node, &steps, &mut left, call)?;
        for (step, left) in steps.iter().zip(&left) {
            let (rel, next, step_weight) = *step;
            if closed.nodes.contains(&next) || (node == from && closed.rels.contains(&rel.id)) {
                continue;
            }
            let total = weight + step_weight;
            let way = Reached {
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
        let entry = size_of::<(NodeId, Reached)>() + 1;
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

/// Weight, number of steps, relationships, and where it leaves another way.
type Rank = (Cost, usize, Vec<RelId>, usize);

/// The lightest ways without a node twice, at most `count`.
fn lightest(
    ways: &mut Ways,
    source: NodeId,
    target: NodeId,
    count: usize,
    call: &mut Call<'_>,
) -> Result<Vec<Way>> {
    let mut found: Vec<Way> = Vec::new();
    // Ways that leave one of those found, lightest first; of equal ones that of fewest steps, then of the oldest records.
    let mut open: BinaryHeap<Reverse<Rank>> = BinaryHeap::new();
    let mut steps_of: FxHashMap<Vec<RelId>, Vec<Step>> = FxHashMap::default();
    let Some(first) = lightest_way(ways, source, target, &Closed::default(), call)? else {
        return Ok(found);
    };
    found.push(way(first, 0));
    while found.len() < count {
        let Some(last) = found.last().cloned() else {
            break;
        };
        for at in last.leaves_at..last.steps.len() {
            let shared = &last.steps[..at];
            let spur = shared.last().map_or(source, |(_, node, _)| *node);
            let mut closed = Closed::default();
            for known in &found {
                call.tick(1 + at)?;
                let same = known.steps.len() > at
                    && known.steps[..at]
                        .iter()
                        .zip(shared)
                        .all(|(a, b)| a.0.id == b.0.id);
                if same {
                    closed.rels.insert(known.steps[at].0.id);
                }
            }
            closed.nodes.insert(source);
            closed.nodes.extend(shared.iter().map(|(_, node, _)| *node));
            let Some(rest) = lightest_way(ways, spur, target, &closed, call)? else {
                continue;
            };
            let steps: Vec<Step> = shared.iter().copied().chain(rest).collect();
            let key: Vec<RelId> = steps.iter().map(|(rel, ..)| rel.id).collect();
            let made = way(steps, at);
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
        found.push(way(steps, at));
    }
    Ok(found)
}

fn way(steps: Vec<Step>, leaves_at: usize) -> Way {
    Way {
        weight: steps.iter().map(|(.., weight)| weight).sum(),
        steps,
        leaves_at,
    }
}
