//! Sorting and keeping more than fits into memory: runs and spools in unnamed temporary files.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    fs::{File, OpenOptions},
    io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

/// What can be sorted and spilled.
pub(super) trait Sortable: Ord + Sized {
    /// Bytes that it holds in memory.
    fn size(&self) -> usize;
    fn write(&self, out: &mut impl Write) -> io::Result<()>;
    fn read(input: &mut impl Read) -> io::Result<Self>;
}

/// Sorts by runs: memory up to a budget, then a file per run, merged at the end.
pub(super) struct Sorter<T> {
    items: Vec<T>,
    bytes: usize,
    budget: usize,
    folder: PathBuf,
    runs: Vec<(File, u64)>,
}

impl<T: Sortable> Sorter<T> {
    pub(super) fn new(budget: usize, folder: &Path) -> Self {
        Self {
            items: Vec::new(),
            bytes: 0,
            budget,
            folder: folder.to_owned(),
            runs: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, item: T) -> io::Result<()> {
        self.bytes += item.size();
        self.items.push(item);
        if self.bytes > self.budget {
            self.spill()?;
        }
        Ok(())
    }

    fn spill(&mut self) -> io::Result<()> {
        self.items.sort_unstable();
        let mut out = BufWriter::with_capacity(1 << 18, unnamed_file(&self.folder)?);
        for item in &self.items {
            item.write(&mut out)?;
        }
        let mut file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.seek(SeekFrom::Start(0))?;
        self.runs.push((file, self.items.len() as u64));
        self.items.clear();
        self.bytes = 0;
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
        self.items = Vec::new();
        let mut runs = Vec::new();
        let mut heads = BinaryHeap::new();
        for (file, left) in self.runs {
            let mut run = Run {
                input: BufReader::with_capacity(1 << 17, file),
                left,
            };
            if let Some(item) = run.next()? {
                heads.push(Reverse((item, runs.len())));
            }
            runs.push(run);
        }
        Ok(Sorted::Merge { runs, heads })
    }
}

struct Run {
    input: BufReader<File>,
    left: u64,
}

impl Run {
    fn next<T: Sortable>(&mut self) -> io::Result<Option<T>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        T::read(&mut self.input).map(Some)
    }
}

/// Items in order, from memory or merged from runs.
pub(super) enum Sorted<T> {
    Memory(std::vec::IntoIter<T>),
    #[allow(private_interfaces)] // the runs are this module's own
    Merge {
        runs: Vec<Run>,
        heads: BinaryHeap<Reverse<(T, usize)>>,
    },
}

impl<T: Sortable> Iterator for Sorted<T> {
    type Item = io::Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Memory(items) => items.next().map(Ok),
            Self::Merge { runs, heads } => {
                let Reverse((item, run)) = heads.pop()?;
                match runs[run].next() {
                    Ok(Some(next)) => heads.push(Reverse((next, run))),
                    Ok(None) => {}
                    Err(error) => return Some(Err(error)),
                }
                Some(Ok(item))
            }
        }
    }
}

/// Byte strings in the order of their arrival: memory up to a budget, then a file.
pub(super) struct Spool {
    buffer: Vec<u8>,
    budget: usize,
    folder: PathBuf,
    file: Option<File>,
    count: u64,
}

impl Spool {
    pub(super) fn new(budget: usize, folder: &Path) -> Self {
        Self {
            buffer: Vec::new(),
            budget,
            folder: folder.to_owned(),
            file: None,
            count: 0,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) -> io::Result<()> {
        let length = u32::try_from(bytes.len())
            .map_err(|_| io::Error::other("a record is longer than 4 GiB"))?;
        self.buffer.extend_from_slice(&length.to_le_bytes());
        self.buffer.extend_from_slice(bytes);
        self.count += 1;
        if self.buffer.len() > self.budget {
            let file = match &mut self.file {
                Some(file) => file,
                None => self.file.insert(unnamed_file(&self.folder)?),
            };
            file.write_all(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }

    /// Number of byte strings.
    pub(super) fn len(&self) -> u64 {
        self.count
    }

    /// All of them in order.
    pub(super) fn finish(self) -> io::Result<Spooled> {
        let mut file = self.file;
        if let Some(file) = &mut file {
            file.seek(SeekFrom::Start(0))?;
        }
        let file: Box<dyn Read> = match file {
            Some(file) => Box::new(BufReader::with_capacity(1 << 18, file)),
            None => Box::new(io::empty()),
        };
        Ok(Spooled {
            input: file.chain(io::Cursor::new(self.buffer)),
            left: self.count,
        })
    }
}

/// A spool read from its start.
pub(super) struct Spooled {
    input: io::Chain<Box<dyn Read>, io::Cursor<Vec<u8>>>,
    left: u64,
}

impl Iterator for Spooled {
    type Item = io::Result<Vec<u8>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        Some(read_bytes(&mut self.input))
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

/// A file that nobody else sees and that is gone when it is closed.
fn unnamed_file(folder: &Path) -> io::Result<File> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = format!(
        "isomer-load-{}-{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    );
    let path = folder.join(name);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Sortable for u64 {
        fn size(&self) -> usize {
            8
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

    #[test]
    fn many_runs_merge_into_one_order() {
        for budget in [100, 1 << 20] {
            let folder = tempfile::tempdir().unwrap();
            let mut sorter = Sorter::new(budget, folder.path());
            (0..1000_u64).for_each(|number| sorter.push(number * 7919 % 1009).unwrap());
            let sorted: Vec<u64> = sorter.finish().unwrap().map(Result::unwrap).collect();
            let mut expected: Vec<u64> = (0..1000).map(|number| number * 7919 % 1009).collect();
            expected.sort_unstable();
            assert_eq!(sorted, expected);
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn a_spool_gives_back_what_it_took() {
        for budget in [10, 1 << 20] {
            let mut spool = Spool::new(budget, &std::env::temp_dir());
            let strings: Vec<Vec<u8>> = (0..100_u8)
                .map(|length| vec![length; length.into()])
                .collect();
            strings
                .iter()
                .for_each(|string| spool.push(string).unwrap());
            assert_eq!(spool.len(), 100);
            assert_eq!(
                spool
                    .finish()
                    .unwrap()
                    .map(Result::unwrap)
                    .collect::<Vec<_>>(),
                strings
            );
        }
    }
}
