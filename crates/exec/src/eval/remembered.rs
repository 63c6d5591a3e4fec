//! What a statement has read of nodes already: properties and labels of nodes that rows come back to.
//!
//! Only for statements that write nothing, so that nothing remembered can change under them. A scan in the order of ids is
//! read straight from the data layer, which reads it as one range; what walks over relationships comes back to the same
//! nodes again and again, and finds them here.

use isomer_data::{GraphRead, NodeLabels};
use isomer_plan::physical::StatementClass;
use isomer_value::{LabelId, NodeId, PropId, Value};
use rustc_hash::FxHashMap;

use crate::{column::value_bytes, context::Cx, error::Result};

/// What may be remembered, as a part of the memory limit; above that everything is forgotten.
const SHARE_OF_MEMORY: usize = 8;
/// Values larger than this are read again.
const MOST_VALUE_BYTES: usize = 256;

/// What was read.
#[derive(Default)]
pub(crate) struct Remembered {
    properties: FxHashMap<PropId, FxHashMap<NodeId, Value>>,
    labels: FxHashMap<NodeId, Box<[LabelId]>>,
    /// About how many bytes that is.
    held_bytes: usize,
}

/// Makes room for `bytes` more, by forgetting everything where they do not fit.
fn make_room(bytes: usize, cx: &mut Cx<'_>) {
    let most = cx.run.watch.limits().memory_bytes / SHARE_OF_MEMORY;
    if cx.run.remembered.held_bytes + bytes > most || cx.run.watch.allow(bytes).is_err() {
        let forgotten = std::mem::take(&mut cx.run.remembered);
        cx.run.watch.release(forgotten.held_bytes);
    }
    if cx.run.watch.hold(bytes).is_ok() {
        cx.run.remembered.held_bytes += bytes;
    }
}

/// Whether the nodes come in the order of their ids, each once.
fn is_ascending(nodes: &[NodeId]) -> bool {
    nodes.windows(2).all(|pair| pair[0] < pair[1])
}

/// The nodes that are not known, ascending, each once.
fn missing(nodes: &[NodeId], is_known: impl Fn(&NodeId) -> bool) -> Vec<NodeId> {
    let mut missing: Vec<NodeId> = nodes
        .iter()
        .copied()
        .filter(|node| !is_known(node))
        .collect();
    missing.sort_unstable();
    missing.dedup();
    missing
}

/// One property of each node.
pub(super) fn properties(nodes: &[NodeId], prop: PropId, cx: &mut Cx<'_>) -> Result<Vec<Value>> {
    let remembers = cx.run.plan.class == StatementClass::Read;
    if !remembers || nodes.len() < 2 || is_ascending(nodes) || cx.reader().has_column(prop) {
        return read(nodes, prop, cx);
    }
    let mut known = cx
        .run
        .remembered
        .properties
        .remove(&prop)
        .unwrap_or_default();
    let missing = missing(nodes, |node| known.contains_key(node));
    let mut large = FxHashMap::default();
    let mut bytes = 0;
    for (node, value) in missing.iter().zip(read(&missing, prop, cx)?) {
        let size = value_bytes(&value);
        if size <= MOST_VALUE_BYTES {
            bytes += size + 16;
            known.insert(*node, value);
        } else {
            large.insert(*node, value);
        }
    }
    let values = nodes
        .iter()
        .map(|node| {
            let found = known.get(node).or_else(|| large.get(node));
            found.cloned().unwrap_or_default()
        })
        .collect();
    let before = cx.run.remembered.held_bytes;
    make_room(bytes, cx);
    if cx.run.remembered.held_bytes >= before + bytes {
        cx.run.remembered.properties.insert(prop, known);
    }
    Ok(values)
}

fn read(nodes: &[NodeId], prop: PropId, cx: &mut Cx<'_>) -> Result<Vec<Value>> {
    let mut column = [Vec::with_capacity(nodes.len())];
    cx.reader().node_properties(nodes, &[prop], &mut column)?;
    let [values] = column;
    Ok(values)
}

/// Whether each node carries what `test` asks of its labels.
pub(super) fn labels(
    nodes: &[NodeId],
    test: impl Fn(&[LabelId]) -> bool,
    cx: &mut Cx<'_>,
) -> Result<Vec<Option<bool>>> {
    let mut read = NodeLabels::new();
    if nodes.len() < 2
        || is_ascending(nodes)
        || cx.run.plan.class != StatementClass::Read
        || cx.reader().has_labels()
    {
        cx.reader().node_labels(nodes, &mut read)?;
        return Ok((0..nodes.len()).map(|at| Some(test(read.of(at)))).collect());
    }
    let missing = missing(nodes, |node| cx.run.remembered.labels.contains_key(node));
    cx.reader().node_labels(&missing, &mut read)?;
    let mut known = std::mem::take(&mut cx.run.remembered.labels);
    for (at, node) in missing.iter().enumerate() {
        known.insert(*node, read.of(at).into());
    }
    let answers = nodes
        .iter()
        .map(|node| Some(known.get(node).is_some_and(|labels| test(labels))))
        .collect();
    let (before, bytes) = (cx.run.remembered.held_bytes, missing.len() * 48);
    make_room(bytes, cx);
    if cx.run.remembered.held_bytes >= before + bytes {
        cx.run.remembered.labels = known;
    }
    Ok(answers)
}
