//! Builds adjacency: from the rows, by transposing the other side, or by merging an older base with its
//! delta.

use std::sync::Arc;

use isomer_data::{GraphRead, Transaction, Version};
use isomer_value::{RelId, TypeId};

use super::{
    AdjacencyBase, Link,
    base::{CHUNK_NODES, Chunk, ChunkRows},
    overlay,
};
use crate::{build::Effort, error::ViewError, id::small, side::AdjacencySide, slot::Generation};

/// Relationships read per batch.
const BATCH: usize = 8192;

/// Relationships buffered for sorting while one side is transposed into the other: about 40 MB.
const TRANSPOSED_AT_ONCE: usize = 4 << 20;

/// Relationships of one chunk of nodes, unsorted.
#[derive(Default)]
struct Gathered {
    lows: Vec<u16>,
    others: Vec<u32>,
    ids: Vec<u32>,
}

/// Collects relationships by the node they are seen from.
struct Gather {
    chunks: Vec<Gathered>,
    with_ids: bool,
    bound: u32,
    /// Bytes allocated and not yet reserved from the budget.
    taken: usize,
}

impl Gather {
    fn new(with_ids: bool) -> Self {
        Self {
            chunks: Vec::new(),
            with_ids,
            bound: 0,
            taken: 0,
        }
    }

    fn push(&mut self, node: u32, other: u32, id: u32) {
        let at = node as usize / CHUNK_NODES;
        if at >= self.chunks.len() {
            self.chunks.resize_with(at + 1, Gathered::default);
        }
        let chunk = &mut self.chunks[at];
        if chunk.lows.len() == chunk.lows.capacity() {
            self.taken += chunk.grow(self.with_ids);
        }
        chunk.push(node, other, self.with_ids.then_some(id));
        self.bound = self.bound.max(node + 1).max(other + 1);
    }

    /// Reserves memory for what was collected since the last call; sorting takes as much again as the rows.
    fn reserve_collected(&mut self, effort: &mut Effort<'_>) -> Result<(), ViewError> {
        effort.pass(std::mem::take(&mut self.taken))
    }

    fn finish(self, effort: &mut Effort<'_>) -> Result<AdjacencyBase, ViewError> {
        let mut chunks = Vec::with_capacity(self.chunks.len());
        for gathered in self.chunks {
            effort.check()?;
            chunks.push(gathered.into_chunk(self.with_ids, effort)?);
        }
        chunks.shrink_to_fit();
        Ok(AdjacencyBase::new(chunks, self.with_ids, self.bound))
    }
}

impl Gathered {
    /// Allocates capacity for `count` relationships.
    fn with_capacity(count: usize, with_ids: bool) -> Self {
        Self {
            lows: Vec::with_capacity(count),
            others: Vec::with_capacity(count),
            ids: Vec::with_capacity(if with_ids { count } else { 0 }),
        }
    }

    fn bytes_of(count: usize, with_ids: bool) -> usize {
        count * if with_ids { 10 } else { 6 }
    }

    /// Doubles the capacity; returns the bytes added.
    fn grow(&mut self, with_ids: bool) -> usize {
        let more = self.lows.len().max(16);
        self.lows.reserve_exact(more);
        self.others.reserve_exact(more);
        if with_ids {
            self.ids.reserve_exact(more);
        }
        Self::bytes_of(more, with_ids)
    }

    fn push(&mut self, node: u32, other: u32, id: Option<u32>) {
        self.lows.push((node as usize % CHUNK_NODES) as u16);
        self.others.push(other);
        self.ids.extend(id);
    }

    fn into_chunk(
        self,
        with_ids: bool,
        effort: &mut Effort<'_>,
    ) -> Result<Option<Arc<Chunk>>, ViewError> {
        let chunk = self.sort(with_ids);
        if let Some(chunk) = &chunk {
            effort.reserve(chunk.bytes())?;
        }
        Ok(chunk.map(Arc::new))
    }

    /// Builds the chunk's rows: counting sort by node, each row sorted by other end and id.
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

/// Builds adjacency of a type from the rows.
pub(crate) fn build(
    tx: &Transaction,
    type_id: TypeId,
    side: AdjacencySide,
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
        for row in &rows {
            let (node, other) = match side {
                AdjacencySide::Out => (row.source, row.target),
                AdjacencySide::In => (row.target, row.source),
            };
            let ids = (small(node.0), small(other.0), small(row.id.0));
            let (Some(node), Some(other), Some(id)) = ids else {
                return Err(ViewError::IdTooLarge);
            };
            gather.push(node, other, id);
        }
        gather.reserve_collected(effort)?;
        if rows.len() < BATCH {
            break;
        }
        after = rows.last().map(|row| row.id);
    }
    gather.finish(effort)
}

/// Transposes a view, as of `version`: counts relationships per target chunk, then processes a few chunks at
/// a time, so that unsorted data stays small compared with the views. Cost: one pass over the rows per
/// [`TRANSPOSED_AT_ONCE`] relationships.
pub(crate) fn transpose(
    generation: &Generation<AdjacencyBase>,
    version: Version,
    effort: &mut Effort<'_>,
) -> Result<AdjacencyBase, ViewError> {
    transpose_by(TRANSPOSED_AT_ONCE, generation, version, effort)
}

fn transpose_by(
    at_once: usize,
    generation: &Generation<AdjacencyBase>,
    version: Version,
    effort: &mut Effort<'_>,
) -> Result<AdjacencyBase, ViewError> {
    let with_ids = generation.base.with_ids;
    // First pass: exact sizes per target chunk, so that the second pass allocates once and needs no resizing.
    let mut counts: Vec<usize> = Vec::new();
    let mut bound = 0;
    each_row(generation, version, effort, |node, others, _| {
        let Some(&most) = others.last() else { return };
        bound = bound.max(node + 1).max(most + 1);
        let at = most as usize / CHUNK_NODES;
        if at >= counts.len() {
            counts.resize(at + 1, 0);
        }
        for &other in others {
            counts[other as usize / CHUNK_NODES] += 1;
        }
    })?;
    let mut chunks = Vec::with_capacity(counts.len());
    while let Some(first) = (chunks.len() < counts.len()).then_some(chunks.len()) {
        let mut sum = 0;
        // Take as many chunks as fit into one batch, at least one: a single chunk may exceed the batch size.
        let fitting = |count: &&usize| {
            sum += **count;
            sum <= at_once
        };
        let some = counts[first..].iter().take_while(fitting).count().max(1);
        let counts = &counts[first..first + some];
        let bytes = Gathered::bytes_of(counts.iter().sum(), with_ids);
        effort.pass(bytes)?;
        let room = |&count: &usize| Gathered::with_capacity(count, with_ids);
        let mut gathered: Vec<_> = counts.iter().map(room).collect();
        let (from, upto) = (first * CHUNK_NODES, (first + some) * CHUNK_NODES);
        each_row(generation, version, effort, |node, others, ids| {
            // The row ascends, so the batch's targets are one contiguous part of it.
            let start = others.partition_point(|&other| (other as usize) < from);
            for (at, &other) in others.iter().enumerate().skip(start) {
                if other as usize >= upto {
                    break;
                }
                gathered[other as usize / CHUNK_NODES - first].push(
                    other,
                    node,
                    with_ids.then(|| ids[at]),
                );
            }
        })?;
        for gathered in gathered {
            chunks.push(gathered.into_chunk(with_ids, effort)?);
        }
        effort.passed(bytes);
    }
    Ok(AdjacencyBase::new(chunks, with_ids, bound))
}

/// Each node with its other ends, ascending, and the relationship ids if the base has them, as of `version`.
fn each_row(
    generation: &Generation<AdjacencyBase>,
    version: Version,
    effort: &Effort<'_>,
    mut visit: impl FnMut(u32, &[u32], &[u32]),
) -> Result<(), ViewError> {
    let from = &generation.base;
    let changed = generation.delta.nodes(generation.from, version);
    let mut changes = Vec::new();
    let (mut others, mut ids) = (Vec::new(), Vec::new());
    let last = changed.last().map_or(0, |node| node + 1);
    let chunk_count = from.chunks.len().max((last as usize).div_ceil(CHUNK_NODES));
    for at in 0..chunk_count {
        effort.check()?;
        for low in 0..CHUNK_NODES {
            let node = (at * CHUNK_NODES + low) as u32;
            // A clear bit proves that the base is current. A set bit may be a false positive (shared bits), in
            // which case the merge below copies the row unchanged.
            if !generation.delta.touched(node) {
                visit(node, from.others(node), from.ids(node));
                continue;
            }
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
            visit(node, &others, &ids);
        }
    }
    Ok(())
}

/// Merges base and delta as of `version`; chunks without changes are shared with the old base.
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
        // Only chunks with changed nodes are rebuilt; all others keep their `Arc`, so that a merge costs
        // time and memory in proportion to the changes, not to the base.
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

/// The node's net changes up to `version`.
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
    overlay::normalise(changes);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use isomer_storage::{MemoryBudget, MemoryKind};

    use super::*;
    use crate::delta::Delta;

    fn base_of(
        links: &[(u32, u32, u32)],
        with_ids: bool,
        effort: &mut Effort<'_>,
    ) -> AdjacencyBase {
        let mut gather = Gather::new(with_ids);
        for &(node, other, id) in links {
            gather.push(node, other, id);
        }
        gather.reserve_collected(effort).unwrap();
        gather.finish(effort).unwrap()
    }

    #[test]
    fn the_other_side_is_made_within_little_more_than_it_takes() {
        const NODES: u32 = 3 * CHUNK_NODES as u32 + 17;
        // The second chunk has no incoming relationships, the third more than one batch.
        let aimed = |n: u32| match n % 7 {
            0..4 => 2 * CHUNK_NODES as u32 + n % 1000,
            _ => n.wrapping_mul(2_654_435_761) % NODES,
        };
        let links: Vec<_> = (0..40_000)
            .map(|n| (n * 31 % NODES, aimed(n), n))
            .filter(|(_, other, _)| *other as usize / CHUNK_NODES != 1)
            .collect();
        let turned: Vec<_> = links.iter().map(|&(a, b, id)| (b, a, id)).collect();
        for with_ids in [true, false] {
            let (stop, memory) = (AtomicBool::new(false), MemoryBudget::new(1 << 30));
            let make_room = |_| false;
            let effort = || {
                let some = || memory.reservation(MemoryKind::Views);
                Effort::new(&stop, &|| true, &make_room, some(), some())
            };
            let (from, wanted) = {
                let mut effort = effort();
                let from = base_of(&links, with_ids, &mut effort);
                (from, base_of(&turned, with_ids, &mut effort))
            };
            let generation = Generation {
                from: 0,
                base: from,
                delta: std::sync::Arc::new(Delta::new(u64::from(NODES))),
                reservation: memory.reservation(MemoryKind::Views).into(),
            };
            for at_once in [1, 5_000, 1 << 20] {
                let mut effort = effort();
                let made = transpose_by(at_once, &generation, 0, &mut effort).unwrap();
                assert_eq!(made.bound(), wanted.bound());
                for node in 0..NODES + 2 {
                    assert_eq!(made.others(node), wanted.others(node), "{node}");
                    assert_eq!(made.ids(node), wanted.ids(node), "{node}");
                }
                // All transient reservations are released at the end.
                assert_eq!(effort.passing_bytes(), 0);
                let kept = effort.into_kept().bytes();
                assert!(kept >= made.chunks.iter().flatten().map(|c| c.bytes()).sum());
            }
            // Enough for the final rows and for those of the largest chunk, not for all of them twice.
            let kept = wanted
                .chunks
                .iter()
                .flatten()
                .map(|c| c.bytes())
                .sum::<usize>();
            let largest = Gathered::bytes_of(24_000, with_ids);
            let tight = MemoryBudget::new(2 * (kept + largest + (256 << 10)));
            let some = || tight.reservation(MemoryKind::Views);
            let mut effort = Effort::new(&stop, &|| true, &make_room, some(), some());
            transpose_by(5_000, &generation, 0, &mut effort).unwrap();
        }
    }
}
