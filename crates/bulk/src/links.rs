//! Sorting adjacency: entries are partitioned into ranges of nodes as they arrive; each range is sorted when it is
//! written.
//!
//! It has no merge phase, so an entry is compared with those of the same range alone: 128 ranges, of which one is in
//! memory while it is written. A range that does not fit into memory (one node with very many relationships) is sorted
//! by runs.

use std::{
    io::{self, Read, Write},
    sync::Arc,
};

use crate::sorter::{Sortable, Sorted, Sorter};
use isomer_data::{SpillFolder, SpillParts, SpillRun};

/// Ranges of nodes.
const RANGES: u64 = 128;
/// Bytes of an entry, in memory and in files.
const ENTRY_BYTES: usize = size_of::<Packed>();
/// Bits of the other end and of the number; the rest is for the node within its range, and the side.
const BITS: u32 = 48;

/// One entry of an adjacency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Link {
    pub(super) node: u64,
    /// Whether it is the entry of its target.
    pub(super) incoming: bool,
    pub(super) other: u64,
    /// Number of the relationship in its load.
    pub(super) number: u64,
}

/// An entry of one range, in its order: node within the range and side, other end, number.
type Packed = u128;

impl Sortable for Packed {
    fn heap_bytes(&self) -> usize {
        0
    }

    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&self.to_le_bytes())
    }

    fn read(input: &mut impl Read) -> io::Result<Self> {
        let mut bytes = [0; ENTRY_BYTES];
        input.read_exact(&mut bytes)?;
        Ok(Self::from_le_bytes(bytes))
    }
}

/// Accepts entries in any order.
pub(super) struct Links {
    first: u64,
    width: u64,
    ranges: Vec<Vec<Packed>>,
    counts: Vec<u64>,
    /// Bytes that the ranges hold in memory.
    held: usize,
    budget: usize,
    folder: Arc<SpillFolder>,
    parts: Option<SpillParts>,
}

impl Links {
    /// For nodes with ids mostly in `nodes`; others are accepted, too.
    pub(super) fn new(
        nodes: std::ops::Range<u64>,
        budget: usize,
        folder: &Arc<SpillFolder>,
    ) -> Self {
        let width = nodes.end.saturating_sub(nodes.start).div_ceil(RANGES);
        Self {
            first: nodes.start,
            width: width.max(1),
            ranges: (0..RANGES).map(|_| Vec::new()).collect(),
            counts: vec![0; RANGES as usize],
            held: 0,
            budget,
            folder: folder.clone(),
            parts: None,
        }
    }

    pub(super) fn push(&mut self, link: Link) -> io::Result<()> {
        let from = link.node.saturating_sub(self.first);
        let range = (from / self.width).min(RANGES - 1);
        let low = (from - range * self.width) << 1 | u64::from(link.incoming);
        let fits = link.node >= self.first
            && low <= u64::from(u32::MAX)
            && (link.other | link.number) >> BITS == 0;
        if !fits {
            return Err(io::Error::other(
                "ids of nodes or a number of relationships beyond what a load can sort: load less at once",
            ));
        }
        let packed = Packed::from(low) << (2 * BITS)
            | Packed::from(link.other) << BITS
            | Packed::from(link.number);
        let items = &mut self.ranges[range as usize];
        if items.len() == items.capacity() {
            // The vector doubles; both copies exist only briefly.
            let more = items.capacity().max(64) * ENTRY_BYTES;
            if self.held + more > self.budget {
                self.spill()?;
            }
            let items = &mut self.ranges[range as usize];
            let before = items.capacity();
            items.reserve_exact(before.max(64));
            self.held += (items.capacity() - before) * ENTRY_BYTES;
        }
        self.ranges[range as usize].push(packed);
        self.counts[range as usize] += 1;
        Ok(())
    }

    fn spill(&mut self) -> io::Result<()> {
        let parts = match &mut self.parts {
            Some(parts) => parts,
            none => none.insert(SpillParts::new(self.folder.file()?, RANGES as usize)),
        };
        let mut bytes = Vec::new();
        for (range, items) in self.ranges.iter_mut().enumerate() {
            for items in items.chunks(4096) {
                bytes.clear();
                bytes.extend(items.iter().flat_map(|item| item.to_le_bytes()));
                parts.write(range, &bytes)?;
            }
            *items = Vec::new();
        }
        self.held = 0;
        Ok(())
    }

    /// All entries in order.
    pub(super) fn finish(self) -> io::Result<SortedLinks> {
        let runs = match self.parts {
            Some(parts) => parts.finish()?.into_iter().map(Some).collect(),
            None => self.ranges.iter().map(|_| None).collect(),
        };
        Ok(SortedLinks {
            first: self.first,
            width: self.width,
            ranges: self.ranges.into_iter(),
            runs,
            counts: self.counts,
            next: 0,
            budget: self.budget,
            folder: self.folder,
            range: Sorted::Memory(Vec::new().into_iter()),
        })
    }
}

/// All entries: by node, outgoing before incoming, by other end, by number.
pub(super) struct SortedLinks {
    first: u64,
    width: u64,
    ranges: std::vec::IntoIter<Vec<Packed>>,
    runs: Vec<Option<SpillRun>>,
    counts: Vec<u64>,
    /// The next range.
    next: usize,
    budget: usize,
    folder: Arc<SpillFolder>,
    /// The rest of the previous range.
    range: Sorted<Packed>,
}

impl SortedLinks {
    /// Sorts the next range.
    fn advance(&mut self, mut items: Vec<Packed>) -> io::Result<()> {
        let number = self.next;
        self.next += 1;
        let run = self.runs[number].take();
        let all = usize::try_from(self.counts[number]).unwrap_or(usize::MAX);
        if all.saturating_mul(ENTRY_BYTES) <= self.budget {
            items.reserve_exact(all - items.len());
            read_all(run, |item| {
                items.push(item);
                Ok(())
            })?;
            items.sort_unstable();
            self.range = Sorted::Memory(items.into_iter());
            return Ok(());
        }
        let mut sorter = Sorter::new(self.budget, &self.folder);
        items.into_iter().try_for_each(|item| sorter.push(item))?;
        read_all(run, |item| sorter.push(item))?;
        self.range = sorter.finish()?;
        Ok(())
    }

    fn link(&self, packed: Packed) -> Link {
        let low = (packed >> (2 * BITS)) as u64;
        let mask = (1 << BITS) - 1;
        Link {
            node: self.first + (self.next as u64 - 1) * self.width + (low >> 1),
            incoming: low & 1 == 1,
            other: (packed >> BITS) as u64 & mask,
            number: packed as u64 & mask,
        }
    }
}

fn read_all(
    run: Option<SpillRun>,
    mut visit: impl FnMut(Packed) -> io::Result<()>,
) -> io::Result<()> {
    let Some(mut run) = run.map(|run| run.reader()) else {
        return Ok(());
    };
    while !run.is_at_end() {
        visit(Packed::read(&mut run)?)?;
    }
    Ok(())
}

impl Iterator for SortedLinks {
    type Item = io::Result<Link>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.range.next() {
                Some(Ok(packed)) => return Some(Ok(self.link(packed))),
                Some(Err(error)) => return Some(Err(error)),
                None => {
                    let items = self.ranges.next()?;
                    if let Err(error) = self.advance(items) {
                        return Some(Err(error));
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(random: &mut u64, nodes: u64) -> Link {
        let mut next = |below: u64| {
            *random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (*random >> 33) % below
        };
        // Half of them at one node.
        Link {
            node: if next(2) == 0 { 7 } else { next(nodes) },
            incoming: next(2) == 0,
            other: next(nodes),
            number: next(1 << 20),
        }
    }

    #[test]
    fn every_entry_comes_in_order_however_little_memory_there_is() {
        for (budget, nodes) in [(1 << 20, 1000), (20_000, 1000), (20_000, 5)] {
            let outer = tempfile::tempdir().unwrap();
            let folder = Arc::new(SpillFolder::new(outer.path()));
            let mut random = budget as u64;
            // Some nodes lie behind the announced range.
            let mut links = Links::new(0..nodes / 2 + 1, budget, &folder);
            let mut expected: Vec<Link> = (0..5000).map(|_| link(&mut random, nodes)).collect();
            expected.iter().for_each(|link| links.push(*link).unwrap());
            let far = Link {
                node: 1 << 40,
                ..expected[0]
            };
            assert!(links.push(far).is_err());
            expected.sort_unstable();
            let found: Vec<Link> = links.finish().unwrap().map(Result::unwrap).collect();
            assert_eq!(found, expected);
            assert_eq!(folder.written_bytes() > 0, budget < 1 << 20);
            assert_eq!(folder.open_files(), 0);
        }
    }
}
