//! A per-statement cache of node properties and labels, for nodes that rows return to.
//!
//! Only for statements that write nothing, so that cached values cannot change. A scan in the order of ids bypasses the
//! cache, because the data layer reads it as one range; traversals over relationships return to the same nodes
//! repeatedly and use the cache.

use isomer_data::{GraphRead, NodeLabels};
use isomer_plan::physical::StatementClass;
use isomer_value::{LabelId, NodeId, PropId, Value};
use rustc_hash::FxHashMap;

use crate::{context::Cx, error::Result, value_size::value_bytes};

/// Maximum size as a fraction of the memory limit; beyond it the cache is cleared.
const SHARE_OF_MEMORY: usize = 8;
/// Larger values are not cached.
const MAX_VALUE_BYTES: usize = 256;

/// Makes room for `bytes` more; clears the cache if they do not fit.
fn make_room(bytes: usize, cx: &mut Cx<'_>) {
    let most = cx.run.watch.limits().memory_bytes / SHARE_OF_MEMORY;
    if cx.run.caches.remembered.held_bytes + bytes > most || cx.run.watch.allow(bytes).is_err() {
        let forgotten = std::mem::take(&mut cx.run.caches.remembered);
        cx.run.watch.release(forgotten.held_bytes);
    }
    if cx.run.watch.hold(bytes).is_ok() {
        cx.run.caches.remembered.held_bytes += bytes;
    }
}

/// Whether the nodes come in the order of their ids, without duplicates.
fn is_ascending(nodes: &[NodeId]) -> bool {
    nodes.windows(2).all(|pair| pair[0] < pair[1])
}

/// The nodes that are not cached, ascending, without duplicates.
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
        .caches
        .remembered
        .properties
        .remove(&prop)
        .unwrap_or_default();
    let missing = missing(nodes, |node| known.contains_key(node));
    let mut large = FxHashMap::default();
    let mut bytes = 0;
    for (node, value) in missing.iter().zip(read(&missing, prop, cx)?) {
        let size = value_bytes(&value);
        if size <= MAX_VALUE_BYTES {
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
    let before = cx.run.caches.remembered.held_bytes;
    make_room(bytes, cx);
    if cx.run.caches.remembered.held_bytes >= before + bytes {
        cx.run.caches.remembered.properties.insert(prop, known);
    }
    Ok(values)
}

/// Bytes of records that are read at once, before the values read are counted.
pub(super) const READ_BYTES: usize = 256 << 10;

fn read(nodes: &[NodeId], prop: PropId, cx: &mut Cx<'_>) -> Result<Vec<Value>> {
    let mut column = [Vec::with_capacity(nodes.len())];
    cx.reader()
        .node_properties_within(nodes, &[prop], READ_BYTES, &mut column)?;
    let is_small = column[0].len() >= nodes.len() && !cx.reader().has_column(prop);
    let mut counted = if is_small {
        // Of the last records, which are small together, only the last one may be large.
        nodes.len().saturating_sub(1)
    } else {
        0
    };
    loop {
        cx.count_all_computed(&column[0][counted..])?;
        counted = column[0].len();
        if counted >= nodes.len() {
            let [values] = column;
            return Ok(values);
        }
        cx.tx.graph().node_properties_within(
            &nodes[counted..],
            &[prop],
            READ_BYTES,
            &mut column,
        )?;
    }
}

/// Whether each node satisfies `test` on its labels.
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
    let missing = missing(nodes, |node| {
        cx.run.caches.remembered.labels.contains_key(node)
    });
    cx.reader().node_labels(&missing, &mut read)?;
    let mut known = std::mem::take(&mut cx.run.caches.remembered.labels);
    for (at, node) in missing.iter().enumerate() {
        known.insert(*node, read.of(at).into());
    }
    let answers = nodes
        .iter()
        .map(|node| Some(known.get(node).is_some_and(|labels| test(labels))))
        .collect();
    let (before, bytes) = (cx.run.caches.remembered.held_bytes, missing.len() * 48);
    make_room(bytes, cx);
    if cx.run.caches.remembered.held_bytes >= before + bytes {
        cx.run.caches.remembered.labels = known;
    }
    Ok(answers)
}
