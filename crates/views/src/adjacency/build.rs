//! Making adjacency: from the rows, from the other side, from an older base and its changes.

use std::sync::Arc;

use isomer_data::{GraphRead, Transaction, Version};
use isomer_value::{RelId, TypeId};

use super::{
    AdjacencyBase, Link, Side,
    base::{CHUNK_NODES, Chunk, ChunkRows},
    overlay, small,
};
use crate::{build::Effort, error::ViewError, slot::Generation};

/// Relationships read at once.
const BATCH: usize = 8192;

/// Relationships of one chunk of nodes, in any order.
#[derive(Default)]
struct Gathered {
    lows: Vec<u16>,
    others: Vec<u32>,
    ids: Vec<u32>,
}

/// Gathers relationships by the node they are seen from.
struct Gather {
    chunks: Vec<Gathered>,
    with_ids: bool,
    bound: u32,
}

impl Gather {
    fn new(with_ids: bool) -> Self {
        Self {
            chunks: Vec::new(),
            with_ids,
            bound: 0,
        }
    }

    fn push(&mut self, node: u32, other: u32, id: u32) {
        let at = node as usize / CHUNK_NODES;
        if at >= self.chunks.len() {
            self.chunks.resize_with(at + 1, Gathered::default);
        }
        let chunk = &mut self.chunks[at];
        chunk.lows.push((node as usize % CHUNK_NODES) as u16);
        chunk.others.push(other);
        if self.with_ids {
            chunk.ids.push(id);
        }
        self.bound = self.bound.max(node + 1).max(other + 1);
    }

    fn finish(self, effort: &mut Effort<'_>) -> Result<AdjacencyBase, ViewError> {
        let mut chunks = Vec::with_capacity(self.chunks.len());
        for gathered in self.chunks {
            effort.check()?;
            let chunk = gathered.sort(self.with_ids);
            if let Some(chunk) = &chunk {
                effort.reserve(chunk.bytes())?;
            }
            chunks.push(chunk.map(Arc::new));
        }
        chunks.shrink_to_fit();
        Ok(AdjacencyBase::new(chunks, self.with_ids, self.bound))
    }
}

impl Gathered {
    /// The chunk's rows: counted, scattered by node, each sorted by other end and id.
    fn sort(self, with_ids: bool) -> Option<Chunk> {
        let mut starts = vec![0_u32; CHUNK_NODES + 1];
        for &low in &self.lows {
            starts[usize::from(low) + 1] += 1;
        }
        for low in 0..CHUNK_NODES {
            starts[low + 1] += starts[low];
        }
        let mut next = starts.clone();
        let mut rows = ChunkRows::new(with_ids, self.others.len());
        if !with_ids {
            let mut others = vec![0_u32; self.others.len()];
            for (&low, &other) in self.lows.iter().zip(&self.others) {
                let at = &mut next[usize::from(low)];
                others[*at as usize] = other;
                *at += 1;
            }
            for low in 0..CHUNK_NODES {
                let row = &mut others[starts[low] as usize..starts[low + 1] as usize];
                row.sort_unstable();
                rows.put(low, row, &[]);
            }
            return rows.finish();
        }
        let mut pairs = vec![0_u64; self.others.len()];
        for ((&low, &other), &id) in self.lows.iter().zip(&self.others).zip(&self.ids) {
            let at = &mut next[usize::from(low)];
            pairs[*at as usize] = u64::from(other) << 32 | u64::from(id);
            *at += 1;
        }
        let (mut others, mut ids) = (Vec::new(), Vec::new());
        for low in 0..CHUNK_NODES {
            let row = &mut pairs[starts[low] as usize..starts[low + 1] as usize];
            row.sort_unstable();
            others.clear();
            others.extend(row.iter().map(|pair| (pair >> 32) as u32));
            ids.clear();
            ids.extend(row.iter().map(|pair| *pair as u32));
            rows.put(low, &others, &ids);
        }
        rows.finish()
    }
}

/// Reads the relationships of a type from the rows.
pub(crate) fn build(
    tx: &Transaction,
    type_id: TypeId,
    side: Side,
    with_ids: bool,
    effort: &mut Effort<'_>,
) -> Result<AdjacencyBase, ViewError> {
    let mut gather = Gather::new(with_ids);
    let mut rows = Vec::with_capacity(BATCH);
    let mut after: Option<RelId> = None;
    loop {
        effort.check()?;
        rows.clear();
        tx.scan_relationships(Some(type_id), after, BATCH, &mut rows)?;
        // What is gathered takes as much again until it is sorted.
        effort.pass(rows.len() * if with_ids { 10 } else { 6 })?;
        for row in &rows {
            let (node, other) = match side {
                Side::Out => (row.source, row.target),
                Side::In => (row.target, row.source),
            };
            let ids = (small(node.0), small(other.0), small(row.id.0));
            let (Some(node), Some(other), Some(id)) = ids else {
                return Err(ViewError::IdTooLarge);
            };
            gather.push(node, other, id);
        }
        if rows.len() < BATCH {
            break;
        }
        after = rows.last().map(|row| row.id);
    }
    gather.finish(effort)
}

/// The same relationships, at the version `version`, seen from their other end.
pub(crate) fn transpose(
    generation: &Generation<AdjacencyBase>,
    version: Version,
    effort: &mut Effort<'_>,
) -> Result<AdjacencyBase, ViewError> {
    let from = &generation.base;
    let mut gather = Gather::new(from.with_ids);
    let changed = generation.delta.nodes(generation.from, version);
    let mut changes = Vec::new();
    let (mut others, mut ids) = (Vec::new(), Vec::new());
    let last = changed.last().map_or(0, |node| node + 1);
    let chunk_count = from.chunks.len().max((last as usize).div_ceil(CHUNK_NODES));
    for at in 0..chunk_count {
        effort.check()?;
        let len = from
            .chunks
            .get(at)
            .and_then(|chunk| Some(chunk.as_ref()?.len()));
        effort.pass(len.unwrap_or(0) * if from.with_ids { 10 } else { 6 })?;
        for low in 0..CHUNK_NODES {
            let node = (at * CHUNK_NODES + low) as u32;
            let (row, row_ids) = if generation.delta.touched(node) {
                visible(generation, version, node, &mut changes);
                others.clear();
                ids.clear();
                overlay::apply(
                    from.others(node),
                    from.ids(node),
                    &changes,
                    &mut others,
                    &mut ids,
                );
                (&others[..], &ids[..])
            } else {
                (from.others(node), from.ids(node))
            };
            for (position, &other) in row.iter().enumerate() {
                let id = row_ids.get(position).copied().unwrap_or_default();
                gather.push(other, node, id);
            }
        }
    }
    gather.finish(effort)
}

/// The base as of `version`: chunks without changes are shared.
pub(crate) fn merge(
    generation: &Generation<AdjacencyBase>,
    version: Version,
    effort: &mut Effort<'_>,
) -> Result<AdjacencyBase, ViewError> {
    let old = &generation.base;
    let changed = generation.delta.nodes(generation.from, version);
    let mut chunks = old.chunks.clone();
    let mut bound = old.bound();
    let mut changes = Vec::new();
    let (mut others, mut ids) = (Vec::new(), Vec::new());
    for nodes in changed.chunk_by(|a, b| *a as usize / CHUNK_NODES == *b as usize / CHUNK_NODES) {
        effort.check()?;
        let at = nodes[0] as usize / CHUNK_NODES;
        if at >= chunks.len() {
            chunks.resize(at + 1, None);
        }
        let chunk = chunks[at].take();
        let len = chunk.as_ref().map_or(0, |chunk| chunk.len());
        let mut rows = ChunkRows::new(old.with_ids, len + nodes.len());
        let mut next = nodes.iter().peekable();
        for low in 0..CHUNK_NODES {
            let (row, row_ids) = match &chunk {
                Some(chunk) => (chunk.others(low), chunk.ids(low)),
                None => (&[][..], &[][..]),
            };
            let Some(&&node) = next
                .peek()
                .filter(|node| ***node as usize % CHUNK_NODES == low)
            else {
                rows.put(low, row, row_ids);
                continue;
            };
            next.next();
            visible(generation, version, node, &mut changes);
            if let Some(most) = changes.iter().map(|change| change.other).max() {
                bound = bound.max(node + 1).max(most + 1);
            }
            others.clear();
            ids.clear();
            overlay::apply(row, row_ids, &changes, &mut others, &mut ids);
            rows.put(low, &others, &ids);
        }
        let chunk = rows.finish();
        if let Some(chunk) = &chunk {
            effort.reserve(chunk.bytes())?;
        }
        chunks[at] = chunk.map(Arc::new);
    }
    Ok(AdjacencyBase::new(chunks, old.with_ids, bound))
}

/// The node's changes up to `version`, settled.
fn visible(
    generation: &Generation<AdjacencyBase>,
    version: Version,
    node: u32,
    changes: &mut Vec<Link>,
) {
    changes.clear();
    generation
        .delta
        .newest_first(node, generation.from, version, |link| changes.push(*link));
    overlay::settle(changes);
}
