//! The subgraph that an algorithm runs on, read from the transaction into rows of dense numbers.

use std::sync::Arc;

use isomer_algorithms::{SparseRows, StepCounter};
use isomer_data::{GraphRead, RelRow};
use isomer_value::{LabelId, NodeId, PropId, TypeId, Value};
use isomer_views::AdjacencySide;

use super::{
    CallContext,
    settings::{Settings, refused},
};
use crate::{
    error::{ExecError, Result, shown},
    names::{label_number, property_number, type_number},
};

/// Records per read.
const PAGE: usize = 16_384;

/// Direction in which relationships are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FollowDirection {
    /// From their start to their end.
    Outgoing,
    /// From their end to their start.
    Incoming,
    /// Both directions.
    Both,
}

/// Which nodes and relationships the subgraph contains.
pub(super) struct Choice {
    /// All nodes if empty.
    labels: Vec<Arc<str>>,
    /// All relationships if empty.
    types: Vec<Arc<str>>,
    pub(super) direction: FollowDirection,
    /// Property that holds the weight, and the weight of relationships without it.
    weight: Option<(Arc<str>, Option<f64>)>,
}

impl Choice {
    /// From the options `labels`, `types`, `direction`, `weight`, `defaultWeight`. `directions` are the accepted
    /// directions, the default first.
    pub(super) fn of(
        procedure: &str,
        settings: &Settings<'_>,
        directions: &[FollowDirection],
    ) -> Result<Self> {
        let words: Vec<&str> = directions
            .iter()
            .map(|direction| match direction {
                FollowDirection::Outgoing => "outgoing",
                FollowDirection::Incoming => "incoming",
                FollowDirection::Both => "both",
            })
            .collect();
        let direction = directions[settings.choice("direction", &words)?];
        let default = if settings.is_given("defaultWeight") {
            Some(settings.float("defaultWeight", 0.0, 0.0..=f64::MAX)?)
        } else {
            None
        };
        let weight = settings.name("weight")?;
        if default.is_some() && weight.is_none() {
            return Err(refused(
                procedure,
                "`defaultWeight` needs `weight`: name the property that holds the weight",
            ));
        }
        Ok(Self {
            labels: settings.names("labels")?,
            types: settings.names("types")?,
            direction,
            weight: weight.map(|name| (name, default)),
        })
    }
}

/// Nodes and the relationships between them.
pub(super) struct Network {
    /// Ascending; the index is the dense number.
    pub(super) nodes: Vec<NodeId>,
    pub(super) rows: SparseRows,
}

impl Network {
    /// Reads it. What is read (the members of the labels and types, the weights) is part of the transaction's
    /// footprint.
    pub(super) fn load(
        procedure: &str,
        choice: &Choice,
        call: &mut CallContext<'_>,
    ) -> Result<Self> {
        let nodes = nodes(choice, call)?;
        check_node_count(nodes.len())?;
        let numbers = Numbers::new(&nodes, call)?;
        let bytes = numbers.bytes();
        let types = types(choice, call);
        let rows = match in_views(choice, types.as_deref(), &nodes, &numbers, call)? {
            Some(rows) => rows,
            None => in_rows(procedure, choice, types.as_deref(), &numbers, call)?,
        };
        drop(numbers);
        call.release(bytes);
        let rows = turned(rows, choice.direction, call)?;
        Ok(Self { nodes, rows })
    }

    /// The dense number of a node.
    pub(super) fn number(&self, node: NodeId) -> Option<u32> {
        self.nodes
            .binary_search(&node)
            .ok()
            .map(|position| position as u32)
    }
}

/// The chosen types that exist; none if all types are chosen.
fn types(choice: &Choice, call: &CallContext<'_>) -> Option<Vec<TypeId>> {
    if choice.types.is_empty() {
        return None;
    }
    let known = |name: &Arc<str>| type_number(call.transaction, name);
    let mut types: Vec<TypeId> = choice.types.iter().filter_map(known).collect();
    types.sort_unstable();
    types.dedup();
    Some(types)
}

/// The relationships from start to end, from read views if they are available and contain all that is needed.
fn in_views(
    choice: &Choice,
    types: Option<&[TypeId]>,
    nodes: &[NodeId],
    numbers: &Numbers<'_>,
    call: &mut CallContext<'_>,
) -> Result<Option<SparseRows>> {
    let own_writes = !call.transaction.view_reads().dirty().linked().is_empty();
    if own_writes || choice.weight.is_some() || types.is_some_and(<[TypeId]>::is_empty) {
        return Ok(None);
    }
    let views = call.views;
    if !views.is_enabled() || views.version() != call.transaction.version() {
        return Ok(None);
    }
    let found = match types {
        Some(types) => views.adjacency_of_types(types, AdjacencySide::Out),
        None => views.adjacency(None, AdjacencySide::Out),
    };
    let Some(adjacency) = found else {
        return Ok(None); // being built for later queries
    };
    match types {
        Some(types) => types
            .iter()
            .for_each(|one| call.transaction.view_reads().note_type_members(Some(*one))),
        None => call.transaction.view_reads().note_type_members(None),
    }
    let mut held = 0;
    let mut offsets = Vec::with_capacity(nodes.len() + 1);
    let mut targets: Vec<u32> = Vec::new();
    let mut scratch = Vec::new();
    offsets.push(0);
    for node in nodes {
        let small = u32::try_from(node.0).unwrap_or(u32::MAX);
        let around = adjacency.neighbours(small, &mut scratch);
        call.tick(1 + around.len() / 64)?;
        let within = around
            .iter()
            .filter_map(|other| numbers.of(NodeId((*other).into())));
        targets.extend(within);
        offsets.push(targets.len());
        if targets.capacity() > held {
            call.hold((targets.capacity() - held) * size_of::<u32>())?;
            held = targets.capacity();
        }
    }
    call.hold(offsets.len() * size_of::<usize>())?;
    Ok(Some(SparseRows::from_rows(offsets, targets)))
}

/// The relationships from start to end, from the rows.
fn in_rows(
    procedure: &str,
    choice: &Choice,
    types: Option<&[TypeId]>,
    numbers: &Numbers<'_>,
    call: &mut CallContext<'_>,
) -> Result<SparseRows> {
    let edges = Edges::read(procedure, choice, types, numbers, call)?;
    let (count, weighted) = (edges.pairs.len(), choice.weight.is_some());
    let bytes = SparseRows::bytes_for(numbers.count(), count, weighted);
    call.hold(bytes * 2)?; // and the arrays used for placing them
    let stop = call.stop();
    let mut pace = StepCounter::new(&stop);
    let rows = SparseRows::new(numbers.count(), &edges.pairs, &edges.weights, &mut pace)?;
    call.release(bytes + edges.held_bytes);
    Ok(rows)
}

/// Refuses more nodes than dense numbers can represent.
pub(super) fn check_node_count(nodes: usize) -> Result<()> {
    if nodes >= u32::MAX as usize {
        return Err(ExecError::limit(
            format!("{} nodes in a graph algorithm", u32::MAX),
            "name fewer labels",
        ));
    }
    Ok(())
}

/// The rows in the direction in which they are followed.
fn turned(
    rows: SparseRows,
    direction: FollowDirection,
    call: &mut CallContext<'_>,
) -> Result<SparseRows> {
    if direction == FollowDirection::Outgoing {
        return Ok(rows);
    }
    let bytes = rows.bytes();
    call.hold(bytes)?;
    let stop = call.stop();
    let mut pace = StepCounter::new(&stop);
    let reversed = rows.reversed(&mut pace)?;
    if direction == FollowDirection::Incoming {
        call.release(bytes);
        return Ok(reversed);
    }
    call.hold(bytes * 2)?;
    let both = rows.undirected(&reversed, &mut pace)?;
    call.release(bytes * 2);
    Ok(both)
}

/// The nodes that carry one of the labels, ascending.
fn nodes(choice: &Choice, call: &mut CallContext<'_>) -> Result<Vec<NodeId>> {
    let mut found = Vec::new();
    if choice.labels.is_empty() {
        scan(None, call, &mut found)?;
        return Ok(found);
    }
    let labels: Vec<LabelId> = choice
        .labels
        .iter()
        .filter_map(|name| label_number(call.transaction, name))
        .collect();
    for label in &labels {
        scan(Some(*label), call, &mut found)?;
    }
    if labels.len() > 1 {
        found.sort_unstable();
        found.dedup();
    }
    Ok(found)
}

/// All nodes, or those with a label, ascending.
pub(super) fn scan(
    label: Option<LabelId>,
    call: &mut CallContext<'_>,
    found: &mut Vec<NodeId>,
) -> Result<()> {
    let mut after = None;
    loop {
        let before = found.len();
        call.hold(PAGE * size_of::<NodeId>())?;
        call.transaction.scan_nodes(label, after, PAGE, found)?;
        let more = found.len() - before;
        call.tick(more)?;
        after = found.last().copied();
        if more < PAGE {
            return Ok(());
        }
    }
}

/// Maps node ids to dense numbers.
struct Numbers<'n> {
    nodes: &'n [NodeId],
    /// For ids without large gaps: the number by the distance from the first id, [`NO_NODE`] for those left out.
    /// Otherwise a binary search is used.
    span: Vec<u32>,
}

const NO_NODE: u32 = u32::MAX;

impl<'n> Numbers<'n> {
    fn new(nodes: &'n [NodeId], call: &mut CallContext<'_>) -> Result<Self> {
        let mut span = Vec::new();
        if let (Some(first), Some(last)) = (nodes.first(), nodes.last()) {
            let width = last.0 - first.0;
            if width < nodes.len() as u64 * 4 + 1024 {
                call.hold((width as usize + 1) * size_of::<u32>())?;
                span.resize(width as usize + 1, NO_NODE);
                for (number, node) in nodes.iter().enumerate() {
                    span[(node.0 - first.0) as usize] = number as u32;
                }
            }
        }
        Ok(Self { nodes, span })
    }

    #[inline]
    fn of(&self, node: NodeId) -> Option<u32> {
        if self.span.is_empty() {
            return self.nodes.binary_search(&node).ok().map(|at| at as u32);
        }
        let at = usize::try_from(node.0.checked_sub(self.nodes[0].0)?).ok()?;
        self.span
            .get(at)
            .copied()
            .filter(|number| *number != NO_NODE)
    }

    fn count(&self) -> usize {
        self.nodes.len()
    }

    fn bytes(&self) -> usize {
        self.span.len() * size_of::<u32>()
    }
}

/// Relationships between chosen nodes, in any order.
#[derive(Default)]
struct Edges {
    pairs: Vec<(u32, u32)>,
    /// Parallel to `pairs`, or empty.
    weights: Vec<f64>,
    held_bytes: usize,
}

impl Edges {
    fn read(
        procedure: &str,
        choice: &Choice,
        types: Option<&[TypeId]>,
        numbers: &Numbers<'_>,
        call: &mut CallContext<'_>,
    ) -> Result<Self> {
        let weight = choice.weight.as_ref().map(|(name, default)| Weight {
            procedure,
            name,
            prop: property_number(call.transaction, name),
            default: *default,
        });
        let mut edges = Self::default();
        match types {
            Some(types) => {
                for type_id in types {
                    edges.scan(Some(*type_id), weight.as_ref(), numbers, call)?;
                }
            }
            None => edges.scan(None, weight.as_ref(), numbers, call)?,
        }
        Ok(edges)
    }

    fn scan(
        &mut self,
        type_id: Option<TypeId>,
        weight: Option<&Weight<'_>>,
        numbers: &Numbers<'_>,
        call: &mut CallContext<'_>,
    ) -> Result<()> {
        let mut after = None;
        let mut page: Vec<RelRow> = Vec::with_capacity(PAGE);
        loop {
            page.clear();
            call.transaction
                .scan_relationships(type_id, after, PAGE, &mut page)?;
            call.tick(page.len())?;
            after = page.last().map(|row| row.id);
            let last = page.len() < PAGE;
            page.retain(|row| {
                let ends = numbers.of(row.source).zip(numbers.of(row.target));
                self.pairs.extend(ends);
                ends.is_some()
            });
            if let Some(weight) = weight {
                weight.read(&page, call, &mut self.weights)?;
            }
            let bytes = self.pairs.capacity() * size_of::<(u32, u32)>()
                + self.weights.capacity() * size_of::<f64>();
            call.hold(bytes - self.held_bytes)?;
            self.held_bytes = bytes;
            if last {
                return Ok(());
            }
        }
    }
}

/// Source of weights.
struct Weight<'a> {
    procedure: &'a str,
    name: &'a str,
    /// None if no record ever had the property.
    prop: Option<PropId>,
    default: Option<f64>,
}

impl Weight<'_> {
    fn read(&self, page: &[RelRow], call: &mut CallContext<'_>, out: &mut Vec<f64>) -> Result<()> {
        let ids: Vec<_> = page.iter().map(|row| row.id).collect();
        let mut column = [Vec::new()];
        match self.prop {
            Some(prop) => call
                .transaction
                .relationship_properties(&ids, &[prop], &mut column)?,
            None => column[0].resize(ids.len(), Value::Null),
        }
        for (value, row) in column[0].iter().zip(page) {
            let weight = match (value, self.default) {
                (Value::Null, Some(default)) => Some(default),
                (value, _) => value
                    .to_f64()
                    .filter(|weight| *weight >= 0.0 && weight.is_finite()),
            };
            out.push(weight.ok_or_else(|| {
                refused(
                    self.procedure,
                    format!(
                        "relationship {} has {} in `{}`: weights must be finite and not negative; `defaultWeight` replaces null",
                        row.id,
                        shown(value),
                        self.name
                    ),
                )
            })?);
        }
        Ok(())
    }
}
