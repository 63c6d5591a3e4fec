//! The parts of a graph in memory that algorithms run on.

use std::sync::Arc;

use isomer_algorithms::{SparseRows, StepCounter};

use crate::{
    error::Result,
    procedure::{CallContext, settings::refused},
    projection::{ProjectedGraph, Selected, Selection, TypeEdges},
};

impl ProjectedGraph {
    /// A part of it: from memory if it was selected recently.
    pub(super) fn select(
        &self,
        procedure: &str,
        selection: Selection,
        call: &mut CallContext<'_>,
    ) -> Result<Arc<Selected>> {
        if let Some(known) = self.recent(&selection) {
            return Ok(known);
        }
        let made = Arc::new(self.build(procedure, &selection, call)?);
        self.keep(selection, made.clone());
        Ok(made)
    }

    fn build(
        &self,
        procedure: &str,
        selection: &Selection,
        call: &mut CallContext<'_>,
    ) -> Result<Selected> {
        let types = self.chosen_types(procedure, selection)?;
        let nodes = self.with_labels(procedure, &selection.labels)?;
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
            nodes,
            rows,
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

    /// The nodes with some labels, ascending; none if all nodes are chosen, by no label.
    pub(super) fn with_labels(
        &self,
        procedure: &str,
        labels: &[Arc<str>],
    ) -> Result<Option<Vec<u32>>> {
        if labels.is_empty() {
            return Ok(None);
        }
        let mut nodes = Vec::new();
        for name in labels {
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
