//! Spilling to disk: files without a name, that are deleted when they are closed, and that are read back as they were
//! written or not at all.
//!
//! A file holds *runs*, each written once from its start to its end and then read, from any thread, any number of
//! times. A run is a stream of bytes in blocks of up to [`SPILL_BLOCK_BYTES`]:
//!
//! ```text
//! u32 bytes of the payload, little-endian
//! u64 XXH3 of the payload, seeded with the block's offset in the file
//! payload
//! ```
//!
//! Where the database is encrypted, the payload is sealed by a key that was drawn for this opening and is kept nowhere.

use std::{
    fs::{self, OpenOptions},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering},
    },
};

use isomer_vfs::{DiskFile, RealDisk, Seal, SealedPosition, private_file, private_folder};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::StorageError;

/// Bytes of payload in a full block: the buffer of a writer or a reader of one run.
pub const SPILL_BLOCK_BYTES: usize = 32 << 10;

const HEADER_BYTES: usize = 12;

/// The prefix of the names that spill files have between their creation and the removal of the name.
const FILE_NAME_START: &str = "isomer-spill-";

/// A folder for spill files; created with the first one.
///
/// The name of a file is removed as soon as it is open: it uses its space until it is closed, also by a crash, and no
/// longer. A crash in between leaves an empty file, which [`SpillFolder::clean`] removes.
#[derive(Debug)]
pub struct SpillFolder {
    path: PathBuf,
    open_files: AtomicUsize,
    written_bytes: AtomicU64,
    fault: AtomicU8,
    seal: Seal,
}

/// Faults that tests inject.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SpillFault {
    /// Nothing.
    None,
    /// One bit of each block read is flipped.
    Damage,
    /// The disk is full.
    Full,
}

impl SpillFolder {
    /// The folder `path`; it is not created yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self::sealed(path, Seal::plain())
    }

    /// The folder `path`, for files that `seal` encrypts.
    pub fn sealed(path: impl Into<PathBuf>, seal: Seal) -> Self {
        Self {
            seal,
            path: path.into(),
            open_files: AtomicUsize::new(0),
            written_bytes: AtomicU64::new(0),
            fault: AtomicU8::new(SpillFault::None as u8),
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Files in use.
    pub fn open_files(&self) -> usize {
        self.open_files.load(Ordering::Relaxed)
    }

    /// Bytes written so far, in all files.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Ordering::Relaxed)
    }

    /// Injects a fault, for tests.
    #[doc(hidden)]
    pub fn set_fault(&self, fault: SpillFault) {
        self.fault.store(fault as u8, Ordering::Relaxed);
    }

    fn has_fault(&self, fault: SpillFault) -> bool {
        self.fault.load(Ordering::Relaxed) == fault as u8
    }

    /// A new, empty file.
    pub fn file(self: &Arc<Self>) -> io::Result<SpillFile> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        private_folder().recursive(true).create(&self.path)?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{FILE_NAME_START}{}-{number}", std::process::id());
        let path = self.path.join(name);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        let file = RealDisk::file(private_file(&mut options).open(&path)?);
        fs::remove_file(&path)?;
        self.open_files.fetch_add(1, Ordering::Relaxed);
        Ok(SpillFile {
            shared: Arc::new(Shared {
                file,
                number,
                folder: self.clone(),
            }),
            end: 0,
        })
    }

    /// Removes what a crash left behind. The caller must own the folder exclusively.
    pub fn clean(&self) -> io::Result<()> {
        let entries = match fs::read_dir(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            if entry
                .file_name()
                .to_string_lossy()
                .starts_with(FILE_NAME_START)
            {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Explains an error of one of its files: a full disk, damage, or another problem with the folder.
    pub fn explain(&self, error: &io::Error) -> StorageError {
        let place = self.path.display();
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                StorageError::Unavailable(format!(
                    "the disk of the temporary folder `{place}` is full: free space there, raise the memory limit, or name another folder"
                ))
            }
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                StorageError::Corrupt(format!(
                    "a temporary file in `{place}` is not what was written to it: run the statement again, and check the disk"
                ))
            }
            _ => StorageError::Unavailable(format!(
                "a temporary file in `{place}` cannot be used: {error}: check the folder, or name another one"
            )),
        }
    }
}

#[derive(Debug)]
struct Shared {
    file: Arc<dyn DiskFile>,
    /// Distinguishes it from all others of the process.
    number: u64,
    folder: Arc<SpillFolder>,
}

impl Shared {
    fn place(&self, offset: u64) -> SealedPosition {
        SealedPosition {
            file: self.number.into(),
            at: offset,
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.folder.open_files.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A spill file: consecutive runs. Its space is free when it and its last run are dropped.
#[derive(Debug)]
pub struct SpillFile {
    shared: Arc<Shared>,
    end: u64,
}

impl SpillFile {
    /// Begins a run at the end of the file.
    pub fn writer(&mut self) -> SpillWriter<'_> {
        let start = self.end;
        SpillWriter {
            file: self,
            start,
            block: Vec::with_capacity(HEADER_BYTES + SPILL_BLOCK_BYTES),
        }
    }

    /// Writes one block, header first, at the end of the file.
    fn append(&mut self, block: &mut Vec<u8>) -> io::Result<()> {
        let folder = &self.shared.folder;
        if folder.has_fault(SpillFault::Full) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let place = self.shared.place(self.end);
        folder.seal.seal(place, block, HEADER_BYTES);
        let payload = block.len() - HEADER_BYTES;
        let sum = xxh3_64_with_seed(&block[HEADER_BYTES..], self.end);
        block[..4].copy_from_slice(&(payload as u32).to_le_bytes());
        block[4..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
        self.shared.file.write_all_at(block, self.end)?;
        self.end += block.len() as u64;
        folder
            .written_bytes
            .fetch_add(block.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Bytes in it.
    pub fn bytes(&self) -> u64 {
        self.end
    }

    /// The underlying handle, for tests that damage it.
    #[doc(hidden)]
    pub fn raw(&self) -> &dyn DiskFile {
        &*self.shared.file
    }
}

/// Writes one run.
pub struct SpillWriter<'f> {
    file: &'f mut SpillFile,
    start: u64,
    block: Vec<u8>,
}

impl SpillWriter<'_> {
    /// Writes the rest.
    pub fn finish(mut self) -> io::Result<SpillRun> {
        self.flush()?;
        Ok(SpillRun {
            shared: self.file.shared.clone(),
            blocks: Blocks::Range(self.start..self.file.end),
        })
    }
}

impl Write for SpillWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.block.is_empty() {
            self.block.resize(HEADER_BYTES, 0);
        }
        let taken = bytes
            .len()
            .min(HEADER_BYTES + SPILL_BLOCK_BYTES - self.block.len());
        self.block.extend_from_slice(&bytes[..taken]);
        if self.block.len() == HEADER_BYTES + SPILL_BLOCK_BYTES {
            self.flush()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.block.len() > HEADER_BYTES {
            self.file.append(&mut self.block)?;
        }
        self.block.clear();
        Ok(())
    }
}

/// Several runs that are written concurrently into one file: partitions.
#[derive(Debug)]
pub struct SpillParts {
    file: SpillFile,
    parts: Vec<Part>,
}

#[derive(Debug, Default)]
struct Part {
    block: Vec<u8>,
    offsets: Vec<u64>,
}

impl SpillParts {
    /// `count` empty runs. Memory: a block for each that was begun, 8 bytes for each block written.
    pub fn new(file: SpillFile, count: usize) -> Self {
        Self {
            file,
            parts: (0..count).map(|_| Part::default()).collect(),
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.parts.len()
    }

    /// Appends to run number `part`.
    pub fn write(&mut self, part: usize, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let Part { block, offsets } = &mut self.parts[part];
            if block.is_empty() {
                block.reserve_exact(HEADER_BYTES + SPILL_BLOCK_BYTES);
                block.resize(HEADER_BYTES, 0);
            }
            let taken = bytes
                .len()
                .min(HEADER_BYTES + SPILL_BLOCK_BYTES - block.len());
            block.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            if block.len() == HEADER_BYTES + SPILL_BLOCK_BYTES {
                offsets.push(self.file.end);
                self.file.append(block)?;
                block.clear();
            }
        }
        Ok(())
    }

    /// The runs, in order.
    pub fn finish(mut self) -> io::Result<Vec<SpillRun>> {
        let mut runs = Vec::with_capacity(self.parts.len());
        for Part {
            mut block,
            mut offsets,
        } in std::mem::take(&mut self.parts)
        {
            if block.len() > HEADER_BYTES {
                offsets.push(self.file.end);
                self.file.append(&mut block)?;
            }
            runs.push(SpillRun {
                shared: self.file.shared.clone(),
                blocks: Blocks::List(offsets.into()),
            });
        }
        Ok(runs)
    }
}

/// A completely written run.
#[derive(Clone, Debug)]
pub struct SpillRun {
    shared: Arc<Shared>,
    blocks: Blocks,
}

#[derive(Clone, Debug)]
enum Blocks {
    /// Consecutive blocks.
    Range(std::ops::Range<u64>),
    /// Blocks at these offsets.
    List(Arc<[u64]>),
}

impl SpillRun {
    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        match &self.blocks {
            Blocks::Range(range) => range.is_empty(),
            Blocks::List(offsets) => offsets.is_empty(),
        }
    }

    /// Reads it from its start.
    pub fn reader(&self) -> SpillReader {
        SpillReader {
            run: self.clone(),
            next: match &self.blocks {
                Blocks::Range(range) => range.start,
                Blocks::List(_) => 0,
            },
            block: Vec::new(),
            at: 0,
        }
    }
}

/// Reads one run. An error of kind `InvalidData` or `UnexpectedEof` says that the file is damaged.
#[derive(Debug)]
pub struct SpillReader {
    run: SpillRun,
    /// The offset of the next block, or its number in the list.
    next: u64,
    block: Vec<u8>,
    at: usize,
}

impl SpillReader {
    /// Whether everything was read.
    pub fn is_at_end(&self) -> bool {
        self.at == self.block.len() && self.next_offset().is_none()
    }

    fn next_offset(&self) -> Option<u64> {
        match &self.run.blocks {
            Blocks::Range(range) => (self.next < range.end).then_some(self.next),
            Blocks::List(offsets) => offsets.get(self.next as usize).copied(),
        }
    }

    /// Reads the next block into memory; false at the end.
    fn load(&mut self) -> io::Result<bool> {
        let Some(offset) = self.next_offset() else {
            return Ok(false);
        };
        let file = &self.run.shared.file;
        let damaged = || io::Error::from(io::ErrorKind::InvalidData);
        let mut header = [0; HEADER_BYTES];
        file.read_exact_at(&mut header, offset)?;
        let [a, b, c, d, sum @ ..] = header;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        let shared = &self.run.shared;
        let seal = &shared.folder.seal;
        if length == 0 || length > SPILL_BLOCK_BYTES + seal.overhead() {
            return Err(damaged());
        }
        self.block.resize(length, 0);
        file.read_exact_at(&mut self.block, offset + HEADER_BYTES as u64)?;
        if shared.folder.has_fault(SpillFault::Damage) {
            self.block[length / 2] ^= 4;
        }
        if xxh3_64_with_seed(&self.block, offset) != u64::from_le_bytes(sum) {
            return Err(damaged());
        }
        seal.open(shared.place(offset), &mut self.block, 0)
            .map_err(|_| damaged())?;
        self.at = 0;
        self.next += match &self.run.blocks {
            Blocks::Range(_) => (HEADER_BYTES + length) as u64,
            Blocks::List(_) => 1,
        };
        Ok(true)
    }
}

impl Read for SpillReader {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at == self.block.len() && !self.load()? {
            return Ok(0);
        }
        let taken = out.len().min(self.block.len() - self.at);
        out[..taken].copy_from_slice(&self.block[self.at..self.at + taken]);
        self.at += taken;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, Arc<SpillFolder>) {
        let outer = tempfile::tempdir().unwrap();
        let folder = Arc::new(SpillFolder::new(outer.path().join("tmp")));
        (outer, folder)
    }

    fn read_all(run: &SpillRun) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        run.reader().read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    #[test]
    fn runs_are_read_as_they_were_written_and_their_files_have_no_name() {
        let (_outer, folder) = folder();
        folder.clean().unwrap();
        let mut file = folder.file().unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let texts: Vec<Vec<u8>> = [
            0,
            1,
            SPILL_BLOCK_BYTES - 1,
            SPILL_BLOCK_BYTES,
            3 * SPILL_BLOCK_BYTES + 7,
        ]
        .iter()
        .map(|length| (0..*length).map(|at| (at % 251) as u8).collect())
        .collect();
        let runs: Vec<SpillRun> = texts
            .iter()
            .map(|text| {
                let mut writer = file.writer();
                text.chunks(1000)
                    .for_each(|part| writer.write_all(part).unwrap());
                writer.finish().unwrap()
            })
            .collect();
        assert!(runs[0].is_empty() && runs[0].reader().is_at_end());
        assert_eq!(folder.written_bytes(), file.bytes());
        drop(file);
        for (run, text) in runs.iter().zip(&texts) {
            assert_eq!(&read_all(run).unwrap(), text);
        }
        assert_eq!(folder.open_files(), 1);
        drop(runs);
        assert_eq!(folder.open_files(), 0);
    }

    #[test]
    fn runs_are_written_concurrently() {
        let (_outer, folder) = folder();
        let mut parts = SpillParts::new(folder.file().unwrap(), 3);
        let mut expected = vec![Vec::new(); 3];
        for number in 0..100_000_u32 {
            let part = (number % 2) as usize;
            parts.write(part, &number.to_le_bytes()).unwrap();
            expected[part].extend(number.to_le_bytes());
        }
        let runs = parts.finish().unwrap();
        for (run, bytes) in runs.iter().zip(&expected) {
            assert_eq!(&read_all(run).unwrap(), bytes);
        }
        assert!(runs[2].is_empty());
    }

    /// Any changed byte, and any truncation of a file, is an error, never other bytes.
    #[test]
    fn damage_is_an_error() {
        let (_outer, folder) = folder();
        let mut file = folder.file().unwrap();
        let mut writer = file.writer();
        writer.write_all(&[7; 100]).unwrap();
        let run = writer.finish().unwrap();
        for at in 0..file.bytes() {
            let mut byte = [0];
            file.raw().read_exact_at(&mut byte, at).unwrap();
            file.raw().write_all_at(&[byte[0] ^ 1], at).unwrap();
            let error = read_all(&run).unwrap_err();
            assert!(
                matches!(folder.explain(&error), StorageError::Corrupt(_)),
                "byte {at}: {error}"
            );
            file.raw().write_all_at(&byte, at).unwrap();
        }
        assert_eq!(read_all(&run).unwrap(), [7; 100]);
        file.raw().set_len(50).unwrap();
        let error = read_all(&run).unwrap_err();
        assert!(matches!(folder.explain(&error), StorageError::Corrupt(_)));
    }

    /// The files of an encrypted database reveal nothing, and are read back all the same.
    #[test]
    fn sealed_files_hide_their_content() {
        let outer = tempfile::tempdir().unwrap();
        let folder = Arc::new(SpillFolder::sealed(
            outer.path(),
            Seal::ephemeral().unwrap(),
        ));
        let text = b"the secret ".repeat(10_000);
        let mut file = folder.file().unwrap();
        let mut writer = file.writer();
        writer.write_all(&text).unwrap();
        let run = writer.finish().unwrap();
        let mut stored = vec![0; file.bytes() as usize];
        file.raw().read_exact_at(&mut stored, 0).unwrap();
        assert!(!stored.windows(6).any(|six| six == b"secret"));
        assert_eq!(read_all(&run).unwrap(), text);
        let mut parts = SpillParts::new(folder.file().unwrap(), 2);
        parts.write(1, &text).unwrap();
        assert_eq!(read_all(&parts.finish().unwrap()[1]).unwrap(), text);
        // A block is not accepted for another one either, even with a matching checksum.
        let mut other = file.writer();
        other.write_all(&text[..100]).unwrap();
        let other = other.finish().unwrap();
        file.raw().write_all_at(&stored[..200], 0).unwrap();
        assert_eq!(read_all(&other).unwrap(), text[..100]);
        let mut damaged = stored[..HEADER_BYTES + SPILL_BLOCK_BYTES + 44].to_vec();
        damaged[HEADER_BYTES + 5] ^= 1;
        let sum = xxh3_64_with_seed(&damaged[HEADER_BYTES..], 0);
        damaged[4..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
        file.raw().write_all_at(&damaged, 0).unwrap();
        let error = read_all(&run).unwrap_err();
        assert!(matches!(folder.explain(&error), StorageError::Corrupt(_)));
    }

    #[test]
    fn a_full_disk_is_reported_as_such() {
        let (_outer, folder) = folder();
        folder.set_fault(SpillFault::Full);
        let mut file = folder.file().unwrap();
        let mut writer = file.writer();
        writer.write_all(b"lost").unwrap();
        let error = folder.explain(&writer.finish().unwrap_err());
        assert!(error.to_string().contains("full"), "{error}");
    }

    #[test]
    fn what_a_crash_left_is_removed_and_nothing_else() {
        let (_outer, folder) = folder();
        drop(folder.file().unwrap());
        fs::write(folder.path().join("isomer-spill-1-1"), b"left").unwrap();
        fs::write(folder.path().join("foreign"), b"kept").unwrap();
        folder.clean().unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
