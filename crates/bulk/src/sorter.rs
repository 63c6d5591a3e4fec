//! Sorting and storing more than fits into memory: runs and spools in spill files.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    io::{self, Read, Write},
    sync::Arc,
};

use isomer_data::{SpillFile, SpillFolder, SpillReader, SpillRun};

/// Items that can be sorted and spilled.
pub(super) trait Sortable: Ord + Sized {
    /// Bytes on the heap, in addition to the item itself.
    fn heap_bytes(&self) -> usize;
    fn write(&self, out: &mut impl Write) -> io::Result<()>;
    fn read(input: &mut impl Read) -> io::Result<Self>;
}

/// Runs are merged into one at this number, so that merging them needs little memory.
const MAX_RUNS: usize = 64;

/// Sorts by runs: memory up to a budget, then runs in a file, merged at the end.
pub(super) struct Sorter<T> {
    items: Vec<T>,
    /// Heap bytes of the items.
    heap_bytes: usize,
    budget: usize,
    folder: Arc<SpillFolder>,
    file: Option<SpillFile>,
    runs: Vec<(SpillRun, u64)>,
}

impl<T: Sortable> Sorter<T> {
    pub(super) fn new(budget: usize, folder: &Arc<SpillFolder>) -> Self {
        Self {
            items: Vec::new(),
            heap_bytes: 0,
            budget,
            folder: folder.clone(),
            file: None,
            runs: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, item: T) -> io::Result<()> {
        self.heap_bytes += item.heap_bytes();
        self.items.push(item);
        // A full vector would double: its size is checked before.
        let room = if self.items.len() == self.items.capacity() {
            2 * self.items.len()
        } else {
            self.items.capacity()
        };
        if room * size_of::<T>() + self.heap_bytes > self.budget {
            self.spill()?;
        }
        Ok(())
    }

    fn spill(&mut self) -> io::Result<()> {
        self.items.sort_unstable();
        if self.runs.len() == MAX_RUNS {
            self.merge_runs()?;
        }
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(self.folder.file()?),
        };
        let mut out = file.writer();
        for item in &self.items {
            item.write(&mut out)?;
        }
        self.runs.push((out.finish()?, self.items.len() as u64));
        self.items.clear();
        self.heap_bytes = 0;
        Ok(())
    }

    /// Merges all runs into one, in a new file: the old one's space is free again.
    fn merge_runs(&mut self) -> io::Result<()> {
        let runs = std::mem::take(&mut self.runs);
        let count = runs.iter().map(|(_, count)| count).sum();
        let mut file = self.folder.file()?;
        let mut out = file.writer();
        for item in Merge::new(runs)? {
            T::write(&item?, &mut out)?;
        }
        self.runs.push((out.finish()?, count));
        self.file = Some(file);
        Ok(())
    }

    /// All items, ascending.
    pub(super) fn finish(mut self) -> io::Result<Sorted<T>> {
        if self.runs.is_empty() {
            self.items.sort_unstable();
            return Ok(Sorted::Memory(self.items.into_iter()));
        }
        if !self.items.is_empty() {
            self.spill()?;
        }
        Ok(Sorted::Merge(Merge::new(self.runs)?))
    }
}

/// Merges sorted runs.
pub(super) struct Merge<T> {
    runs: Vec<(SpillReader, u64)>,
    heads: BinaryHeap<Reverse<(T, usize)>>,
}

impl<T: Sortable> Merge<T> {
    fn new(runs: Vec<(SpillRun, u64)>) -> io::Result<Self> {
        let mut merge = Self {
            runs: runs
                .into_iter()
                .map(|(run, count)| (run.reader(), count))
                .collect(),
            heads: BinaryHeap::new(),
        };
        for run in 0..merge.runs.len() {
            merge.advance(run)?;
        }
        Ok(merge)
    }

    fn advance(&mut self, run: usize) -> io::Result<()> {
        let (input, left) = &mut self.runs[run];
        if *left > 0 {
            *left -= 1;
            self.heads.push(Reverse((T::read(input)?, run)));
        }
        Ok(())
    }
}

impl<T: Sortable> Iterator for Merge<T> {
    type Item = io::Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        let Reverse((item, run)) = self.heads.pop()?;
        Some(self.advance(run).map(|()| item))
    }
}

/// Items in order, from memory or merged from runs.
pub(super) enum Sorted<T> {
    Memory(std::vec::IntoIter<T>),
    Merge(Merge<T>),
}

impl<T: Sortable> Iterator for Sorted<T> {
    type Item = io::Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Memory(items) => items.next().map(Ok),
            Self::Merge(merge) => merge.next(),
        }
    }
}

/// Byte strings in the order of their arrival: memory up to a budget, then runs in a file.
pub(super) struct Spool {
    buffer: Vec<u8>,
    budget: usize,
    folder: Arc<SpillFolder>,
    file: Option<SpillFile>,
    runs: Vec<SpillRun>,
    count: u64,
}

/// A spool's buffer is flushed at this size, however large its budget: more would not be faster.
const MAX_SPOOL_BYTES: usize = 16 << 20;

impl Spool {
    pub(super) fn new(budget: usize, folder: &Arc<SpillFolder>) -> Self {
        Self {
            buffer: Vec::new(),
            budget: budget.min(MAX_SPOOL_BYTES),
            folder: folder.clone(),
            file: None,
            runs: Vec::new(),
            count: 0,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        let length = u32::try_from(bytes.len())
            .map_err(|_| io::Error::other("a record is longer than 4 GiB"))?;
        if self.buffer.len() + 4 + bytes.len() > self.budget {
            self.spill()?;
        }
        self.buffer.extend_from_slice(&length.to_le_bytes());
        self.buffer.extend_from_slice(bytes);
        self.count += 1;
        Ok(())
    }

    fn spill(&mut self) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(self.folder.file()?),
        };
        let mut out = file.writer();
        out.write_all(&self.buffer)?;
        self.runs.push(out.finish()?);
        self.buffer.clear();
        Ok(())
    }

    /// Number of byte strings.
    pub(super) fn len(&self) -> u64 {
        self.count
    }

    /// All of them in order.
    pub(super) fn finish(self) -> Spooled {
        Spooled {
            left: self.count,
            run: None,
            runs: self.runs.into_iter(),
            rest: io::Cursor::new(self.buffer),
        }
    }
}

/// A spool read from its start.
pub(super) struct Spooled {
    left: u64,
    run: Option<SpillReader>,
    runs: std::vec::IntoIter<SpillRun>,
    rest: io::Cursor<Vec<u8>>,
}

impl Iterator for Spooled {
    type Item = io::Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        if self.run.as_ref().is_none_or(SpillReader::is_at_end) {
            self.run = self.runs.next().map(|run| run.reader());
        }
        Some(match &mut self.run {
            Some(run) => read_bytes(run),
            None => read_bytes(&mut self.rest),
        })
    }
}

pub(super) fn write_bytes(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    out.write_all(&(bytes.len() as u32).to_le_bytes())?;
    out.write_all(bytes)
}

pub(super) fn read_bytes(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    input.read_exact(&mut length)?;
    let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Sortable for u64 {
        fn heap_bytes(&self) -> usize {
            0
        }
        fn write(&self, out: &mut impl Write) -> io::Result<()> {
            out.write_all(&self.to_le_bytes())
        }
        fn read(input: &mut impl Read) -> io::Result<Self> {
            let mut bytes = [0; 8];
            input.read_exact(&mut bytes)?;
            Ok(Self::from_le_bytes(bytes))
        }
    }

    fn folder() -> (tempfile::TempDir, Arc<SpillFolder>) {
        let outer = tempfile::tempdir().unwrap();
        let folder = Arc::new(SpillFolder::new(outer.path()));
        (outer, folder)
    }

    #[test]
    fn many_runs_merge_into_one_order() {
        for budget in [100, 1 << 20] {
            let (_outer, folder) = folder();
            let mut sorter = Sorter::new(budget, &folder);
            (0..1000_u64).for_each(|number| sorter.push(number * 7919 % 1009).unwrap());
            let sorted: Vec<u64> = sorter.finish().unwrap().map(Result::unwrap).collect();
            let mut expected: Vec<u64> = (0..1000).map(|number| number * 7919 % 1009).collect();
            expected.sort_unstable();
            assert_eq!(sorted, expected);
            assert_eq!(
                (budget > 100, folder.open_files()),
                (folder.written_bytes() == 0, 0)
            );
        }
    }

    #[test]
    fn a_spool_gives_back_what_it_took() {
        for budget in [10, 1000, 1 << 20] {
            let (_outer, folder) = folder();
            let mut spool = Spool::new(budget, &folder);
            let strings: Vec<Vec<u8>> = (0..100_u8)
                .map(|length| vec![length; length.into()])
                .collect();
            strings
                .iter()
                .for_each(|string| spool.push(string).unwrap());
            assert_eq!(spool.len(), 100);
            let read: Vec<Vec<u8>> = spool.finish().map(Result::unwrap).collect();
            assert_eq!(read, strings);
            assert_eq!(folder.open_files(), 0);
        }
    }
}
