//! A graph in memory: nodes with labels, and relationships with numeric properties, by type.

use std::{collections::BTreeMap, sync::Arc, time::SystemTime};

use isomer_algorithms::{SparseRows, StepCounter};
use isomer_data::{MemoryKind, Reservation, Version};
use isomer_value::{Map, NodeId, Value};
use parking_lot::Mutex;

use crate::{
    error::Result,
    procedure::{CallContext, network::Network, settings::refused},
};

/// Selections whose rows are kept, so that repeated calls do not build them again.
const KEPT_SELECTIONS: usize = 4;

/// A part of the database, copied when it was projected.
pub(super) struct ProjectedGraph {
    pub(super) name: Arc<str>,
    /// Ascending; the index is the dense number.
    pub(super) nodes: Vec<NodeId>,
    /// Per label its nodes, ascending.
    labels: BTreeMap<Arc<str>, Vec<u32>>,
    types: BTreeMap<Arc<str>, TypeEdges>,
    pub(super) version: Version,
    pub(super) made_at: SystemTime,
    /// What it was made of, as `gds.graph.list` shows it.
    pub(super) configuration: Map,
    kept: Mutex<RecentSelections>,
}

/// Rows of recent selections, and the memory of the whole graph.
struct RecentSelections {
    selections: Vec<(Selection, Arc<Selected>)>,
    reservation: Reservation,
    bytes_of_graph: usize,
}

/// Relationships of one type. An undirected one is stored once in each direction.
#[derive(Default)]
pub(super) struct TypeEdges {
    pub(super) is_undirected: bool,
    /// Dense numbers.
    pub(super) pairs: Vec<(u32, u32)>,
    /// Per property a value for each pair; NaN where there is none.
    pub(super) properties: BTreeMap<Arc<str>, Vec<f64>>,
}

impl TypeEdges {
    fn bytes(&self) -> usize {
        self.pairs.len() * (size_of::<(u32, u32)>() + self.properties.len() * size_of::<f64>())
    }
}

/// The part of a graph that an algorithm runs on.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Selection {
    /// All nodes if empty.
    pub(super) labels: Vec<Arc<str>>,
    /// All types if empty.
    pub(super) types: Vec<Arc<str>>,
    /// Property with the weights; every relationship weighs 1 without it.
    pub(super) weight: Option<Arc<str>>,
}

/// A selected part of a graph.
pub(super) struct Selected {
    pub(super) network: Network,
    /// Whether every relationship is stored in both directions.
    pub(super) is_undirected: bool,
}

impl Selected {
    fn bytes(&self) -> usize {
        self.network.nodes.len() * size_of::<NodeId>() + self.network.rows.bytes()
    }
}

/// What a projection has gathered.
pub(super) struct GatheredGraph {
    /// Ascending, without repetitions.
    pub(super) nodes: Vec<NodeId>,
    /// Per label its nodes, as dense numbers, ascending.
    pub(super) labels: BTreeMap<Arc<str>, Vec<u32>>,
    pub(super) types: BTreeMap<Arc<str>, TypeEdges>,
    pub(super) configuration: Map,
}

impl GatheredGraph {
    /// The graph, with its memory reserved in the budget of the database.
    pub(super) fn finish(
        self,
        name: Arc<str>,
        call: &mut CallContext<'_>,
    ) -> Result<ProjectedGraph> {
        let labels: usize = self
            .labels
            .values()
            .map(|nodes| nodes.len() * size_of::<u32>())
            .sum();
        let edges: usize = self.types.values().map(TypeEdges::bytes).sum();
        let bytes = self.nodes.len() * size_of::<NodeId>() + labels + edges;
        let memory = call.transaction.store().memory();
        let mut reservation = memory.reservation(MemoryKind::Queries);
        reservation
            .grow(bytes)
            .map_err(isomer_data::DataError::from)?;
        Ok(ProjectedGraph {
            name,
            nodes: self.nodes,
            labels: self.labels,
            types: self.types,
            version: call.transaction.version(),
            made_at: SystemTime::now(),
            configuration: self.configuration,
            kept: Mutex::new(RecentSelections {
                selections: Vec::new(),
                reservation,
                bytes_of_graph: bytes,
            }),
        })
    }
}

impl ProjectedGraph {
    /// Number of relationships; undirected ones count twice.
    pub(super) fn relationship_count(&self) -> usize {
        self.types.values().map(|edges| edges.pairs.len()).sum()
    }

    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        self.kept.lock().reservation.bytes()
    }

    /// Labels and types, with the properties of the latter, as `gds.graph.list` shows them.
    pub(super) fn schema(&self) -> Map {
        let labels = self
            .labels
            .keys()
            .map(|label| (label.clone(), Value::from(Map::new())));
        let types = self.types.iter().map(|(name, edges)| {
            let properties = edges.properties.keys().map(|property| {
                let about = "Float (DefaultValue(NaN), PERSISTENT, Aggregation.NONE)";
                (property.clone(), Value::from(about))
            });
            (name.clone(), Value::from(properties.collect::<Map>()))
        });
        let mut schema = Map::new();
        schema.insert("graphProperties", Map::new().into());
        schema.insert("nodes", labels.collect::<Map>().into());
        schema.insert("relationships", types.collect::<Map>().into());
        schema
    }

    /// A part of it: from memory if it was selected recently.
    pub(super) fn select(
        &self,
        procedure: &str,
        selection: Selection,
        call: &mut CallContext<'_>,
    ) -> Result<Arc<Selected>> {
        let known = self.kept.lock().find(&selection);
        if let Some(known) = known {
            return Ok(known);
        }
        let made = Arc::new(self.build(procedure, &selection, call)?);
        self.kept.lock().keep(selection, made.clone());
        Ok(made)
    }

    fn build(
        &self,
        procedure: &str,
        selection: &Selection,
        call: &mut CallContext<'_>,
    ) -> Result<Selected> {
        let types = self.chosen_types(procedure, selection)?;
        let nodes = self.chosen_nodes(procedure, selection)?;
        let numbers = nodes.as_ref().map(|nodes| {
            let mut numbers = vec![u32::MAX; self.nodes.len()];
            for (number, node) in nodes.iter().enumerate() {
                numbers[*node as usize] = number as u32;
            }
            numbers
        });
        let count: usize = types.iter().map(|(_, edges)| edges.pairs.len()).sum();
        let weighted = selection.weight.is_some();
        let node_count = nodes.as_ref().map_or(self.nodes.len(), Vec::len);
        let scratch = count * (size_of::<(u32, u32)>() + size_of::<f64>())
            + SparseRows::bytes_for(node_count, count, weighted)
            + numbers.as_ref().map_or(0, Vec::len) * size_of::<u32>();
        call.hold(scratch)?;
        let (mut pairs, mut weights) = (Vec::with_capacity(count), Vec::new());
        for (name, edges) in &types {
            let values = match &selection.weight {
                None => None,
                Some(property) => Some(edges.properties.get(property).ok_or_else(|| {
                    refused(
                        procedure,
                        format!(
                            "relationships of the type `{name}` have no property `{property}` in the graph `{}`: \
                             project it with them",
                            self.name
                        ),
                    )
                })?),
            };
            for (at, (source, target)) in edges.pairs.iter().enumerate() {
                let ends = match &numbers {
                    None => (*source, *target),
                    Some(numbers) => (numbers[*source as usize], numbers[*target as usize]),
                };
                if ends.0 == u32::MAX || ends.1 == u32::MAX {
                    continue;
                }
                pairs.push(ends);
                if let Some(values) = values {
                    weights.push(self.checked_weight(
                        procedure,
                        values[at],
                        selection,
                        edges.pairs[at],
                    )?);
                }
            }
        }
        let stop = call.stop();
        let rows = SparseRows::new(node_count, &pairs, &weights, &mut StepCounter::new(&stop))?;
        call.release(scratch);
        let nodes = match nodes {
            None => self.nodes.clone(),
            Some(nodes) => nodes
                .iter()
                .map(|node| self.nodes[*node as usize])
                .collect(),
        };
        Ok(Selected {
            network: Network { nodes, rows },
            is_undirected: types.iter().all(|(_, edges)| edges.is_undirected),
        })
    }

    /// Algorithms take weights that are finite and not negative.
    fn checked_weight(
        &self,
        procedure: &str,
        weight: f64,
        selection: &Selection,
        ends: (u32, u32),
    ) -> Result<f64> {
        if weight >= 0.0 && weight.is_finite() {
            return Ok(weight);
        }
        let (source, target) = (self.nodes[ends.0 as usize], self.nodes[ends.1 as usize]);
        let property = selection.weight.as_deref().unwrap_or_default();
        Err(refused(
            procedure,
            format!(
                "the relationship from node {source} to node {target} has {weight} in `{property}`: weights must be \
                 finite and not negative; project it with a `defaultValue`"
            ),
        ))
    }

    fn chosen_types(
        &self,
        procedure: &str,
        selection: &Selection,
    ) -> Result<Vec<(&Arc<str>, &TypeEdges)>> {
        if selection.types.is_empty() {
            return Ok(self.types.iter().collect());
        }
        let types = selection.types.iter().map(|name| {
            self.types.get_key_value(name).ok_or_else(|| {
                let known: Vec<&str> = self.types.keys().map(|name| &**name).collect();
                refused(
                    procedure,
                    format!(
                        "the graph `{}` has no relationship type `{name}`: it has {}",
                        self.name,
                        known.join(", ")
                    ),
                )
            })
        });
        types.collect()
    }

    /// The nodes of the chosen labels; none if all nodes are chosen.
    fn chosen_nodes(&self, procedure: &str, selection: &Selection) -> Result<Option<Vec<u32>>> {
        if selection.labels.is_empty() {
            return Ok(None);
        }
        let mut nodes = Vec::new();
        for name in &selection.labels {
            let of_label = self.labels.get(name).ok_or_else(|| {
                let known: Vec<&str> = self.labels.keys().map(|name| &**name).collect();
                refused(
                    procedure,
                    format!(
                        "the graph `{}` has no label `{name}`: it has {}",
                        self.name,
                        known.join(", ")
                    ),
                )
            })?;
            nodes.extend_from_slice(of_label);
        }
        nodes.sort_unstable();
        nodes.dedup();
        Ok(Some(nodes))
    }
}

impl RecentSelections {
    fn find(&mut self, selection: &Selection) -> Option<Arc<Selected>> {
        let at = self
            .selections
            .iter()
            .position(|(known, _)| known == selection)?;
        // The latest is the last.
        let found = self.selections.remove(at);
        let selected = found.1.clone();
        self.selections.push(found);
        Some(selected)
    }

    /// Keeps a selection if the budget has room for it.
    fn keep(&mut self, selection: Selection, selected: Arc<Selected>) {
        if self.selections.len() == KEPT_SELECTIONS {
            self.selections.remove(0);
        }
        self.selections.push((selection, selected));
        let rows: usize = self
            .selections
            .iter()
            .map(|(_, selected)| selected.bytes())
            .sum();
        if self.reservation.resize(self.bytes_of_graph + rows).is_err() {
            self.selections.clear();
            // A smaller reservation is never refused.
            let _ = self.reservation.resize(self.bytes_of_graph);
        }
    }
}
