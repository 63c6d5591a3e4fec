//! The part of the graph that an algorithm is asked about, read from the transaction into rows of dense numbers.

use std::sync::Arc;

use isomer_data::{GraphRead, RelRow};
use isomer_value::{LabelId, NodeId, PropId, TypeId, Value};

use super::{
    Call,
    settings::{Settings, refused},
};
use crate::{
    algorithm::{Rows, graph::check_node_count},
    context::{known_label, known_prop, known_type},
    error::{Result, shown},
};

/// Records that are read at once.
const PAGE: usize = 16_384;

/// Which way relationships are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// From their start to their end.
    Outgoing,
    /// From their end to their start.
    Incoming,
    /// Both ways.
    Both,
}

/// Which nodes and relationships belong to it.
pub(super) struct Choice {
    /// All nodes if empty.
    labels: Vec<Arc<str>>,
    /// All relationships if empty.
    types: Vec<Arc<str>>,
    pub(super) way: Way,
    /// Property that holds the weight, and the weight of those without.
    weight: Option<(Arc<str>, Option<f64>)>,
}

impl Choice {
    /// From the options `labels`, `types`, `direction`, `weight`, `defaultWeight`. `ways` are the directions to choose from, the
    /// one that is meant otherwise first.
    pub(super) fn of(procedure: &str, settings: &Settings<'_>, ways: &[Way]) -> Result<Self> {
        let words: Vec<&str> = ways
            .iter()
            .map(|way| match way {
                Way::Outgoing => "outgoing",
                Way::Incoming => "incoming",
                Way::Both => "both",
            })
            .collect();
        let way = ways[settings.choice("direction", &words)?];
        let default = match settings.is_given("defaultWeight") {
            true => Some(settings.float("defaultWeight", 0.0, 0.0..=f64::MAX)?),
            false => None,
        };
        let weight = settings.name("weight")?;
        if default.is_some() && weight.is_none() {
            return Err(refused(
                procedure,
                "`defaultWeight` stands for a missing `weight`: name the property that holds it",
            ));
        }
        Ok(Self {
            labels: settings.names("labels")?,
            types: settings.names("types")?,
            way,
            weight: weight.map(|name| (name, default)),
        })
    }
}

/// Nodes and the relationships between them.
pub(super) struct Network {
    /// Ascending; the position is the dense number.
    pub(super) nodes: Vec<NodeId>,
    pub(super) rows: Rows,
}

impl Network {
    /// Reads it. What was read (the members of the labels and types, the weights) is part of the transaction's footprint.
    pub(super) fn load(procedure: &str, choice: &Choice, call: &mut Call<'_>) -> Result<Self> {
        let nodes = nodes(choice, call)?;
        check_node_count(nodes.len())?;
        let numbers = Numbers::new(&nodes, call)?;
        let edges = Edges::read(procedure, choice, &numbers, call)?;
        let (count, weighted) = (edges.pairs.len(), choice.weight.is_some());
        let bytes = Rows::bytes_for(nodes.len(), count, weighted);
        call.hold(bytes * 2)?; // and what places them
        let mut rows = Rows::new(nodes.len(), &edges.pairs, &edges.weights);
        call.release(bytes + edges.held_bytes + numbers.bytes());
        drop(edges);
        drop(numbers);
        if choice.way != Way::Outgoing {
            call.hold(bytes)?;
            let reversed = rows.reversed();
            rows = match choice.way {
                Way::Both => {
                    call.hold(bytes * 2)?;
                    let both = rows.undirected(&reversed);
                    call.release(bytes);
                    both
                }
                _ => reversed,
            };
            call.release(bytes);
        }
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

/// The nodes that carry one of the labels, ascending.
fn nodes(choice: &Choice, call: &mut Call<'_>) -> Result<Vec<NodeId>> {
    let mut found = Vec::new();
    if choice.labels.is_empty() {
        scan(None, call, &mut found)?;
        return Ok(found);
    }
    let labels: Vec<LabelId> = choice
        .labels
        .iter()
        .filter_map(|name| known_label(call.transaction, name))
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

fn scan(label: Option<LabelId>, call: &mut Call<'_>, found: &mut Vec<NodeId>) -> Result<()> {
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

/// Dense numbers of node ids.
enum Numbers<'n> {
    /// By the distance from the first id; ids that are absent have none. For ids without large gaps.
    Span { first: u64, numbers: Vec<u32> },
    /// By search.
    Sorted(&'n [NodeId]),
}

const ABSENT: u32 = u32::MAX;

impl<'n> Numbers<'n> {
    fn new(nodes: &'n [NodeId], call: &mut Call<'_>) -> Result<Self> {
        let (Some(first), Some(last)) = (nodes.first(), nodes.last()) else {
            return Ok(Self::Sorted(nodes));
        };
        let span = (last.0 - first.0) as usize;
        if span >= nodes.len().saturating_mul(4).saturating_add(1024) {
            return Ok(Self::Sorted(nodes));
        }
        call.hold((span + 1) * size_of::<u32>())?;
        let mut numbers = vec![ABSENT; span + 1];
        for (number, node) in nodes.iter().enumerate() {
            numbers[(node.0 - first.0) as usize] = number as u32;
        }
        Ok(Self::Span {
            first: first.0,
            numbers,
        })
    }

    #[inline]
    fn of(&self, node: NodeId) -> Option<u32> {
        match self {
            Self::Span { first, numbers } => {
                let at = usize::try_from(node.0.checked_sub(*first)?).ok()?;
                numbers.get(at).copied().filter(|number| *number != ABSENT)
            }
            Self::Sorted(nodes) => nodes.binary_search(&node).ok().map(|at| at as u32),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Span { numbers, .. } => numbers.len() * size_of::<u32>(),
            Self::Sorted(_) => 0,
        }
    }
}

/// Relationships between chosen nodes, in any order.
#[derive(Default)]
struct Edges {
    pairs: Vec<(u32, u32)>,
    /// Beside `pairs`, or empty.
    weights: Vec<f64>,
    held_bytes: usize,
}

impl Edges {
    fn read(
        procedure: &str,
        choice: &Choice,
        numbers: &Numbers<'_>,
        call: &mut Call<'_>,
    ) -> Result<Self> {
        let mut types: Vec<Option<TypeId>> = choice
            .types
            .iter()
            .filter_map(|name| known_type(call.transaction, name).map(Some))
            .collect();
        types.sort_unstable();
        types.dedup();
        if choice.types.is_empty() {
            types.push(None);
        }
        let weight = choice.weight.as_ref().map(|(name, default)| Weight {
            procedure,
            name,
            prop: known_prop(call.transaction, name),
            default: *default,
        });
        let mut edges = Self::default();
        for type_id in types {
            edges.scan(type_id, weight.as_ref(), numbers, call)?;
        }
        Ok(edges)
    }

    fn scan(
        &mut self,
        type_id: Option<TypeId>,
        weight: Option<&Weight<'_>>,
        numbers: &Numbers<'_>,
        call: &mut Call<'_>,
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

/// Where weights come from.
struct Weight<'a> {
    procedure: &'a str,
    name: &'a str,
    /// None where no record ever had the property.
    prop: Option<PropId>,
    default: Option<f64>,
}

impl Weight<'_> {
    fn read(&self, page: &[RelRow], call: &mut Call<'_>, out: &mut Vec<f64>) -> Result<()> {
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
                        "relationship {} has {} in `{}`: a weight is a finite number from 0; `defaultWeight` stands for null",
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
