//! Compressed sparse rows (CSR), in chunks of 65,536 node ids.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use crate::{delta::Weighed, slot::Base};

/// Node ids per chunk.
pub(crate) const CHUNK_NODES: usize = 1 << 16;
/// Node ids per page of offsets.
pub(super) const PAGE_NODES: usize = 1 << 8;
pub(super) const PAGES: usize = CHUNK_NODES / PAGE_NODES;
/// A page without offsets: none of its nodes has a relationship.
pub(super) const NO_PAGE: u16 = u16::MAX;

/// A relationship that was created or deleted, seen from one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// The other end.
    pub(crate) other: u32,
    /// The relationship.
    pub(crate) rel: u32,
    /// Whether it was created (otherwise deleted).
    pub(crate) added: bool,
}

impl Weighed for Link {}

/// All relationships of one type, from one side, at one version.
///
/// Shape: chunk `n / 65536` holds node `n`, or is absent if none of its nodes has a relationship.
/// Memory: 4 bytes a relationship, 8 with their ids, and 4 a node of each page of 256 ids that has relationships.
#[derive(Debug)]
pub(crate) struct AdjacencyBase {
    pub(crate) chunks: Vec<Option<Arc<Chunk>>>,
    /// Whether relationship ids are kept.
    pub(crate) with_ids: bool,
    /// Number of relationships.
    pub(crate) count: u64,
    /// Upper bound (exclusive) of all node ids at either end, including ids applied to the delta since.
    bound: AtomicU32,
}

/// The rows of 65,536 consecutive node ids.
///
/// Shape: node `n` (its low 16 bits) belongs to page `p = pages[n / 256]`, and its relationships are
/// `offsets[i]..offsets[i + 1]` of `others` (and of `ids`), `i = 256 p + n % 256`, ascending by other end,
/// then by id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pages: Box<[u16; PAGES]>,
    offsets: Vec<u32>,
    others: Vec<u32>,
    ids: Vec<u32>,
}

impl Chunk {
    /// The range of the relationships of the node with these low 16 bits.
    #[inline]
    fn range(&self, low: usize) -> std::ops::Range<usize> {
        let page = self.pages[low / PAGE_NODES];
        if page == NO_PAGE {
            return 0..0;
        }
        let at = usize::from(page) * PAGE_NODES + low % PAGE_NODES;
        self.offsets[at] as usize..self.offsets[at + 1] as usize
    }

    /// Other ends of a node.
    #[inline]
    pub(crate) fn others(&self, low: usize) -> &[u32] {
        &self.others[self.range(low)]
    }

    /// Relationship ids of a node; empty if ids are not kept.
    #[inline]
    pub(crate) fn ids(&self, low: usize) -> &[u32] {
        if self.ids.is_empty() {
            return &[];
        }
        &self.ids[self.range(low)]
    }

    #[inline]
    pub(crate) fn degree(&self, low: usize) -> usize {
        self.range(low).len()
    }

    pub(crate) fn len(&self) -> usize {
        self.others.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>()
            + PAGES * 2
            + (self.offsets.capacity() + self.others.capacity() + self.ids.capacity()) * 4
    }

    /// The arrays, as a view file stores them: pages, offsets, other ends, ids.
    pub(crate) fn arrays(&self) -> (&[u16], &[u32], &[u32], &[u32]) {
        (&*self.pages, &self.offsets, &self.others, &self.ids)
    }

    /// Builds a chunk from stored arrays; `None` if they are inconsistent, so that no later read can fail.
    pub(crate) fn from_arrays(
        pages: &[u16],
        offsets: Vec<u32>,
        others: Vec<u32>,
        ids: Vec<u32>,
    ) -> Option<Self> {
        let pages: Box<[u16; PAGES]> = Box::new(pages.try_into().ok()?);
        let used = pages.iter().filter(|page| **page != NO_PAGE).count();
        let in_range = |page: &u16| *page == NO_PAGE || usize::from(*page) < used;
        let fits = offsets.len() == used * PAGE_NODES + 1
            && pages.iter().all(in_range)
            && offsets.is_sorted()
            && offsets.first() == Some(&0)
            && offsets.last().map(|last| *last as usize) == Some(others.len())
            && (ids.is_empty() || ids.len() == others.len());
        fits.then_some(Self {
            pages,
            offsets,
            others,
            ids,
        })
    }
}

/// Builds a chunk node by node, in ascending order.
pub(crate) struct ChunkRows {
    chunk: Chunk,
    with_ids: bool,
    /// One past the last node that was added.
    next: usize,
    pages_used: usize,
}

impl ChunkRows {
    pub(crate) fn new(with_ids: bool, capacity: usize) -> Self {
        Self {
            chunk: Chunk {
                pages: Box::new([NO_PAGE; PAGES]),
                offsets: Vec::new(),
                others: Vec::with_capacity(capacity),
                ids: Vec::with_capacity(if with_ids { capacity } else { 0 }),
            },
            with_ids,
            next: 0,
            pages_used: 0,
        }
    }

    /// Adds the relationships of node `low`, which must be above all nodes added so far: sorted by other end,
    /// then id.
    pub(crate) fn put(&mut self, low: usize, others: &[u32], ids: &[u32]) {
        debug_assert!(low >= self.next && low < CHUNK_NODES);
        if others.is_empty() {
            return;
        }
        self.begin(low);
        self.chunk.others.extend_from_slice(others);
        if self.with_ids {
            self.chunk.ids.extend_from_slice(ids);
        }
        debug_assert!(!self.with_ids || self.chunk.ids.len() == self.chunk.others.len());
        self.next = low + 1;
    }

    /// Writes the offsets up to and including the start of `low`.
    fn begin(&mut self, low: usize) {
        let end = self.chunk.others.len() as u32;
        if self.chunk.pages[low / PAGE_NODES] == NO_PAGE {
            self.end_page();
            self.chunk.pages[low / PAGE_NODES] = self.pages_used as u16;
            self.pages_used += 1;
        }
        let at = (self.pages_used - 1) * PAGE_NODES + low % PAGE_NODES;
        self.chunk.offsets.resize(at + 1, end);
    }

    /// Completes the offsets of the current page.
    fn end_page(&mut self) {
        let end = self.chunk.others.len() as u32;
        self.chunk.offsets.resize(self.pages_used * PAGE_NODES, end);
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.chunk.bytes()
    }

    /// The chunk, or `None` if it is empty.
    pub(crate) fn finish(mut self) -> Option<Chunk> {
        if self.chunk.others.is_empty() {
            return None;
        }
        self.end_page();
        let end = self.chunk.others.len() as u32;
        self.chunk.offsets.push(end);
        self.chunk.offsets.shrink_to_fit();
        self.chunk.others.shrink_to_fit();
        self.chunk.ids.shrink_to_fit();
        Some(self.chunk)
    }
}

impl AdjacencyBase {
    /// Builds a base from chunks.
    pub(crate) fn new(chunks: Vec<Option<Arc<Chunk>>>, with_ids: bool, bound: u32) -> Self {
        let count = chunks.iter().flatten().map(|chunk| chunk.len() as u64);
        Self {
            count: count.sum(),
            chunks,
            with_ids,
            bound: AtomicU32::new(bound),
        }
    }

    /// Upper bound (exclusive) of all node ids at either end.
    pub(crate) fn bound(&self) -> u32 {
        self.bound.load(Ordering::Acquire)
    }

    #[inline]
    pub(crate) fn chunk(&self, node: u32) -> Option<&Chunk> {
        self.chunks.get(node as usize / CHUNK_NODES)?.as_deref()
    }

    /// Other ends of a node, ascending.
    #[inline]
    pub(crate) fn others(&self, node: u32) -> &[u32] {
        match self.chunk(node) {
            Some(chunk) => chunk.others(node as usize % CHUNK_NODES),
            None => &[],
        }
    }

    /// Relationship ids of a node, parallel to its other ends; empty if ids are not kept.
    #[inline]
    pub(crate) fn ids(&self, node: u32) -> &[u32] {
        match self.chunk(node) {
            Some(chunk) => chunk.ids(node as usize % CHUNK_NODES),
            None => &[],
        }
    }

    #[inline]
    pub(crate) fn degree(&self, node: u32) -> usize {
        match self.chunk(node) {
            Some(chunk) => chunk.degree(node as usize % CHUNK_NODES),
            None => 0,
        }
    }
}

impl Base for AdjacencyBase {
    type Change = Link;

    fn bytes(&self) -> usize {
        let chunks = self.chunks.iter().flatten();
        self.chunks.capacity() * 8 + chunks.map(|chunk| chunk.bytes()).sum::<usize>()
    }

    fn len(&self) -> u64 {
        self.count
    }

    fn id_bound(&self) -> u64 {
        self.bound().into()
    }

    fn note_change(&self, node: u32, link: &Link) {
        let bound = node.max(link.other) + 1;
        self.bound.fetch_max(bound, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_however_sparse_they_are() {
        let nodes = [0, 1, 255, 256, 300, 65_535];
        for present in 0..1_u32 << nodes.len() {
            let mut rows = ChunkRows::new(true, 0);
            let has = |at: usize| present & 1 << at != 0;
            for (at, &low) in nodes.iter().enumerate() {
                if has(at) {
                    let others: Vec<u32> = (0..at as u32 + 1).map(|n| n * 3).collect();
                    let ids: Vec<u32> = others.iter().map(|other| other + 100).collect();
                    rows.put(low, &others, &ids);
                }
            }
            let Some(chunk) = rows.finish() else {
                assert_eq!(present, 0);
                continue;
            };
            for low in 0..CHUNK_NODES {
                let expected = match nodes.iter().position(|node| *node == low) {
                    Some(at) if has(at) => at + 1,
                    _ => 0,
                };
                assert_eq!(chunk.degree(low), expected, "{present:b} {low}");
                assert_eq!(chunk.others(low).len(), chunk.ids(low).len());
                let pairs = chunk.others(low).iter().zip(chunk.ids(low));
                assert!(
                    pairs
                        .enumerate()
                        .all(|(n, (other, id))| { *other == n as u32 * 3 && *id == *other + 100 })
                );
            }
            let (pages, offsets, others, ids) = chunk.arrays();
            let back = Chunk::from_arrays(pages, offsets.into(), others.into(), ids.into());
            assert_eq!(back.as_ref(), Some(&chunk));
            assert_eq!(
                Chunk::from_arrays(pages, offsets[1..].into(), others.into(), ids.into()),
                None
            );
        }
    }
}
