//! File format of adjacency (`view_file::format` describes the enclosing file).
//!
//! ```text
//! first block
//!   u8            whether the relationships' ids are stored
//!   u32           bound: all node ids lie below it
//!   u32           number of chunks
//!   u64           number of relationships
//! one block per chunk of 65,536 node ids, empty for a chunk without relationships; else
//!   256 × u16     pages (see `base::Chunk`): the position of its offsets, ffff without any
//!   u32           number of relationships
//!   packed …      per node of each stored page, in order: its number of relationships, then its other ends:
//!                 the first one, then the difference of each to the one before it
//!   packed …      if ids are stored, the relationship ids in the same order: the difference of each to the one
//!                 before it (0 before the first), as `zigzag(i)` of its 32 bits: 2i, or -2i - 1 below 0
//! ```
//! `packed` is a number in 1 to 5 bytes, the low seven bits first, with the highest bit set in all but the last
//! (LEB128). Other ends ascend, so that most differences take two bytes instead of four; so do ids of
//! relationships that were loaded in order.

use std::sync::Arc;

use isomer_data::{Catalog, Transaction};

use super::{
    AdjacencyBase,
    base::{CHUNK_NODES, Chunk, ChunkRows, NO_PAGE, PAGE_NODES, PAGES},
};
use crate::{
    ViewKind,
    build::Effort,
    error::ViewError,
    registry::Registry,
    slot::{Generation, Slot},
    view_file::{Blocks, Stored, Taker, ViewFileError, Writer, malformed, push_packed},
};

impl Stored for AdjacencyBase {
    fn store(&self, _: &Catalog, writer: &mut Writer) -> Result<(), ViewFileError> {
        let mut block = head(self.with_ids, self.bound(), self.chunks.len(), self.count);
        writer.block(&block)?;
        for chunk in &self.chunks {
            block.clear();
            if let Some(chunk) = chunk {
                push_chunk(chunk, &mut block);
            }
            writer.block(&block)?;
        }
        Ok(())
    }

    fn load(blocks: &mut Blocks, _: &Catalog, effort: &mut Effort<'_>) -> Result<Self, ViewError> {
        let mut head = Taker(blocks.expect(effort)?);
        let fields = (|| Some((head.u8()?, head.u32()?, head.u32()?, head.u64()?)))();
        let (with_ids, bound, count, relationships) = fields.ok_or_else(malformed)?;
        let with_ids = with_ids != 0;
        let mut chunks = Vec::new();
        for _ in 0..count {
            effort.check()?;
            let block = blocks.expect(effort)?;
            if block.is_empty() {
                chunks.push(None);
                continue;
            }
            let chunk = take_chunk(block, with_ids).ok_or_else(malformed)?;
            effort.reserve(chunk.bytes())?;
            chunks.push(Some(Arc::new(chunk)));
        }
        let base = Self::new(chunks, with_ids, bound);
        if base.count != relationships {
            return Err(malformed().into());
        }
        Ok(base)
    }

    fn fresh(
        tx: &Transaction,
        kind: &ViewKind,
        like: &Self,
        effort: &mut Effort<'_>,
    ) -> Result<Self, ViewError> {
        match kind {
            ViewKind::Adjacency(type_id, side) => {
                super::build(tx, *type_id, *side, like.with_ids, effort)
            }
            _ => Err(malformed().into()),
        }
    }

    fn merged(
        generation: &Generation<Self>,
        tx: &Transaction,
        _: &ViewKind,
        effort: &mut Effort<'_>,
    ) -> Result<Self, ViewError> {
        super::merge(generation, tx.version(), effort)
    }

    fn agrees(&self, other: &Self) -> bool {
        let length = self.chunks.len().max(other.chunks.len());
        let chunk = |base: &Self, at: usize| base.chunks.get(at).cloned().flatten();
        (0..length).all(|at| chunk(self, at) == chunk(other, at))
    }

    fn enter(registry: &mut Registry, kind: &ViewKind, slot: Arc<Slot<Self>>) {
        if let ViewKind::Adjacency(type_id, side) = kind {
            registry.adjacency.insert((*type_id, *side), slot);
        }
    }
}

/// The first block.
fn head(with_ids: bool, bound: u32, chunks: usize, count: u64) -> Vec<u8> {
    let mut block = vec![with_ids.into()];
    block.extend_from_slice(&bound.to_le_bytes());
    block.extend_from_slice(&(chunks as u32).to_le_bytes());
    block.extend_from_slice(&count.to_le_bytes());
    block
}

/// Streams a base to a file with only one chunk in memory: relationships with their ids, in row order.
pub(crate) struct AdjacencyWriter {
    rows: ChunkRows,
    /// The current chunk.
    chunk: usize,
    /// The current row.
    node: u32,
    others: Vec<u32>,
    ids: Vec<u32>,
    block: Vec<u8>,
}

impl AdjacencyWriter {
    /// Starts a base of `count` relationships; `last` is the largest node id with a relationship, `bound`
    /// exceeds all node ids.
    pub(crate) fn new(
        writer: &mut Writer,
        count: u64,
        last: u32,
        bound: u32,
    ) -> Result<Self, ViewFileError> {
        let chunks = last as usize / CHUNK_NODES + 1;
        writer.block(&head(true, bound, chunks, count))?;
        Ok(Self {
            rows: ChunkRows::new(true, 0),
            chunk: 0,
            node: 0,
            others: Vec::new(),
            ids: Vec::new(),
            block: Vec::new(),
        })
    }

    /// Appends the next relationship: ordered by `node`, `other`, `id`.
    #[inline]
    pub(crate) fn push(
        &mut self,
        writer: &mut Writer,
        node: u32,
        other: u32,
        id: u32,
    ) -> Result<(), ViewFileError> {
        if node != self.node {
            self.end_row();
            let chunk = node as usize / CHUNK_NODES;
            while self.chunk < chunk {
                self.end_chunk(writer)?;
            }
            self.node = node;
        }
        self.others.push(other);
        self.ids.push(id);
        Ok(())
    }

    fn end_row(&mut self) {
        let low = self.node as usize % CHUNK_NODES;
        self.rows.put(low, &self.others, &self.ids);
        self.others.clear();
        self.ids.clear();
    }

    fn end_chunk(&mut self, writer: &mut Writer) -> Result<(), ViewFileError> {
        self.block.clear();
        if let Some(chunk) = std::mem::replace(&mut self.rows, ChunkRows::new(true, 0)).finish() {
            push_chunk(&chunk, &mut self.block);
        }
        self.chunk += 1;
        writer.block(&self.block)
    }

    /// Writes the remaining data.
    pub(crate) fn finish(mut self, writer: &mut Writer) -> Result<(), ViewFileError> {
        self.end_row();
        self.end_chunk(writer)
    }

    /// Approximate memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.rows.bytes() + (self.others.capacity() + self.ids.capacity()) * 4
    }
}

fn push_chunk(chunk: &Chunk, block: &mut Vec<u8>) {
    let (pages, offsets, others, ids) = chunk.arrays();
    for page in pages {
        block.extend_from_slice(&page.to_le_bytes());
    }
    block.extend_from_slice(&(others.len() as u32).to_le_bytes());
    for row in offsets.windows(2) {
        let row = &others[row[0] as usize..row[1] as usize];
        push_packed(block, row.len() as u32);
        let mut before = 0;
        for other in row {
            push_packed(block, other - before);
            before = *other;
        }
    }
    let mut before = 0_u32;
    for id in ids {
        let step = id.wrapping_sub(before) as i32;
        push_packed(block, (step << 1 ^ step >> 31) as u32);
        before = *id;
    }
}

fn take_chunk(block: &[u8], with_ids: bool) -> Option<Chunk> {
    let mut taker = Taker(block);
    let two = |two: &[u8]| u16::from_le_bytes([two[0], two[1]]);
    let pages: Vec<u16> = taker.bytes(PAGES * 2)?.chunks_exact(2).map(two).collect();
    let rows = pages.iter().filter(|page| **page != NO_PAGE).count() * PAGE_NODES;
    let count = taker.u32()? as usize;
    // Each relationship takes at least one byte: a wrong count cannot cause a large allocation.
    if count.checked_add(rows)? > taker.0.len() {
        return None;
    }
    let mut offsets = Vec::with_capacity(rows + 1);
    let mut others = Vec::with_capacity(count);
    offsets.push(0);
    for _ in 0..rows {
        let degree = taker.packed()? as usize;
        if degree > count - others.len() {
            return None;
        }
        let mut other = 0_u32;
        for _ in 0..degree {
            other = other.checked_add(taker.packed()?)?;
            others.push(other);
        }
        offsets.push(others.len() as u32);
    }
    let mut ids = Vec::with_capacity(if with_ids { count } else { 0 });
    let mut id = 0_u32;
    while with_ids && ids.len() < count {
        let zigzag = taker.packed()?;
        id = id.wrapping_add(zigzag >> 1 ^ (zigzag & 1).wrapping_neg());
        ids.push(id);
    }
    if !taker.is_empty() || others.len() != count {
        return None;
    }
    Chunk::from_arrays(&pages, offsets, others, ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_come_back_and_no_bytes_make_it_panic() {
        for with_ids in [false, true] {
            let mut rows = ChunkRows::new(with_ids, 0);
            let mut put = |low: usize, others: &[u32]| {
                let ids: Vec<u32> = others.iter().map(|other| other ^ 0x55).collect();
                rows.put(low, others, if with_ids { &ids } else { &[] });
            };
            put(0, &[0, 0, 3, u32::MAX]);
            put(255, &[7]);
            put(256, &[7, 8]);
            put(40_000, &(0..5_000).map(|n| n * 40).collect::<Vec<_>>());
            let chunk = rows.finish().unwrap();
            let mut block = Vec::new();
            push_chunk(&chunk, &mut block);
            assert_eq!(take_chunk(&block, with_ids).as_ref(), Some(&chunk));
            for cut in (0..block.len()).step_by(7) {
                assert_eq!(take_chunk(&block[..cut], with_ids), None);
            }
            // Without the enclosing checksum the data may decode to something else, but decoding never
            // panics.
            for bit in (0..block.len() * 8).step_by(1_009) {
                let mut flipped = block.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                if let Some(chunk) = take_chunk(&flipped, with_ids) {
                    (0..1 << 16).for_each(|low| assert!(chunk.others(low).len() <= chunk.len()));
                }
            }
        }
    }
}
