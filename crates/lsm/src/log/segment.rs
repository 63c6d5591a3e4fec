//! Segments: the files of the log.
//!
//! ```text
//! 0     "isomerLG", u32 format, u32 0, u64 number, u64 salt, u64 bytes of the file, u64 check of these (XXH3)
//! 512   zeros while the segment is open; in a closed segment:
//!       "isomerLE", u64 end of the records, u64 first version, u64 last version (0: none), u64 first time, u64 last time,
//!       u64 number of entries of the change stream, u64 the change stream is trimmed up to here, u64 the last version
//!       that was durable, u64 check of these, seeded with the salt
//! 1024  records, then zeros or data from an earlier use of the file
//! ```
//!
//! A file is never shorter than its header says while it is open, nor than the end of its records once it is
//! closed: otherwise it was cut. The name is the number in hexadecimal digits with the extension `log`. Salts
//! are random, so that data from an earlier use of a recycled file is not valid as a record.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use isomer_storage::Version;
use isomer_storage::sync::Mutex;
use isomer_vfs::DiskFile;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Where the records begin.
pub const FIRST_RECORD: u64 = 1024;
/// Where the closing part begins.
const CLOSING: u64 = 512;
const FORMAT: u32 = 1;
const OPEN_MAGIC: [u8; 8] = *b"isomerLG";
const CLOSED_MAGIC: [u8; 8] = *b"isomerLE";
/// Approximate bytes of records between two marks.
pub const MARK_BYTES: u64 = 64 << 10;

/// A segment.
#[derive(Debug)]
pub struct Segment {
    pub number: u64,
    pub salt: u64,
    /// Bytes of the file.
    pub capacity: u64,
    pub file: Arc<dyn DiskFile>,
    pub state: Mutex<Extent>,
    /// Held while the file is synced; contains the error if that failed once.
    pub failed_sync: Mutex<Option<String>>,
}

/// The contents of a segment.
#[derive(Clone, Debug, Default)]
pub struct Extent {
    /// End of the records.
    pub end: u64,
    /// The end of the synced part.
    pub synced_end: u64,
    /// First and last commit; 0 if there is none.
    pub first: Version,
    pub last: Version,
    pub first_ms: u64,
    pub last_ms: u64,
    pub stream_entries: u64,
    /// Offsets of some versions, ascending.
    pub marks: Vec<(Version, u64)>,
    /// Whether the segment is full.
    pub closed: bool,
    /// Whether the closing part is written.
    pub closing_written: bool,
}

impl Extent {
    /// Records a commit at `offset`.
    pub fn note(&mut self, version: Version, time_ms: u64, streams: bool, offset: u64) {
        if self.first == 0 {
            (self.first, self.first_ms) = (version, time_ms);
        }
        (self.last, self.last_ms) = (version, time_ms);
        self.stream_entries += u64::from(streams);
        self.mark(version, offset);
    }

    /// Marks the offset of a version, if the last mark is far enough before it.
    pub fn mark(&mut self, version: Version, offset: u64) {
        let last = self.marks.last();
        if last.is_none_or(|(_, at)| offset >= at + MARK_BYTES) {
            self.marks.push((version, offset));
        }
    }

    /// An offset of a record at or before that of `version`.
    pub fn offset_before(&self, version: Version) -> u64 {
        let behind = self.marks.partition_point(|(first, _)| *first <= version);
        behind
            .checked_sub(1)
            .map_or(FIRST_RECORD, |at| self.marks[at].1)
    }
}

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHead {
    pub number: u64,
    pub salt: u64,
    pub capacity: u64,
}

/// The closing part of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Closing {
    pub end: u64,
    pub first: Version,
    pub last: Version,
    pub first_ms: u64,
    pub last_ms: u64,
    pub stream_entries: u64,
    pub trimmed: Version,
    pub durable: Version,
}

/// A part of a segment's first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<T> {
    /// It is valid.
    Valid(T),
    /// Zeros: it was not written.
    Absent,
    /// Of a newer format.
    Newer(u32),
    /// Anything else.
    Damaged,
}

/// The extension of a segment's file that is about to be removed.
pub const OLD: &str = "old";

/// The path of a segment.
pub fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:016x}.log"))
}

/// The number in a segment's file name.
pub fn number_of(name: &Path) -> Option<u64> {
    let name = name.to_str()?;
    let digits = name.strip_suffix(".log")?;
    (digits.len() == 16)
        .then(|| u64::from_str_radix(digits, 16).ok())
        .flatten()
}

/// The number in the name of a file that is, or was about to become or to stop being, a segment.
pub fn number_of_path(path: &Path) -> Option<u64> {
    let name = path.with_extension("log");
    number_of(Path::new(name.file_name()?))
}

/// Writes the header of an open segment.
pub fn write_head(file: &dyn DiskFile, head: SegmentHead) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(FIRST_RECORD as usize);
    bytes.extend_from_slice(&OPEN_MAGIC);
    bytes.extend_from_slice(&FORMAT.to_le_bytes());
    bytes.extend_from_slice(&0u32.to_le_bytes());
    for number in [head.number, head.salt, head.capacity] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    let check = xxh3_64_with_seed(&bytes, 0);
    bytes.extend_from_slice(&check.to_le_bytes());
    bytes.resize(FIRST_RECORD as usize, 0);
    file.write_all_at(&bytes, 0)
}

/// Reads a segment's header.
pub fn read_head(file: &dyn DiskFile) -> io::Result<Part<SegmentHead>> {
    let mut bytes = [0; 48];
    match file.read_exact_at(&mut bytes, 0) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Part::Absent),
        other => other?,
    }
    let word = |at: usize| word_at(&bytes, at);
    if bytes == [0; 48] {
        return Ok(Part::Absent);
    }
    if bytes[..8] != OPEN_MAGIC || word(5) != xxh3_64_with_seed(&bytes[..40], 0) {
        return Ok(Part::Damaged);
    }
    let format = word(1) as u32;
    if format > FORMAT {
        return Ok(Part::Newer(format));
    }
    Ok(Part::Valid(SegmentHead {
        number: word(2),
        salt: word(3),
        capacity: word(4),
    }))
}

/// Closes a segment, all of which is durable already.
pub fn write_closing(file: &dyn DiskFile, salt: u64, closing: Closing) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(80);
    bytes.extend_from_slice(&CLOSED_MAGIC);
    for number in closing.words() {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    let check = xxh3_64_with_seed(&bytes, salt);
    bytes.extend_from_slice(&check.to_le_bytes());
    file.write_all_at(&bytes, CLOSING)
}

impl Closing {
    fn words(self) -> [u64; 8] {
        let Self {
            end,
            first,
            last,
            first_ms,
            last_ms,
            stream_entries,
            trimmed,
            durable,
        } = self;
        [
            end,
            first,
            last,
            first_ms,
            last_ms,
            stream_entries,
            trimmed,
            durable,
        ]
    }
}

/// Whether a segment's file has another history than `earlier`, one of the same number that was closed and has
/// commits: it was written by another copy of the database, or after it was reset.
pub fn has_other_history(file: &dyn DiskFile, earlier: &dyn DiskFile) -> io::Result<bool> {
    let (Part::Valid(head), Part::Valid(earlier_head)) = (read_head(file)?, read_head(earlier)?)
    else {
        return Ok(false); // damaged: reading it reports that
    };
    // One without commits may have been lost and created again.
    let has_commits = matches!(
        read_closing(earlier, earlier_head.salt)?,
        Part::Valid(closing) if closing.last > 0
    );
    Ok(has_commits && head.salt != earlier_head.salt)
}

/// Reads a segment's closing part.
pub fn read_closing(file: &dyn DiskFile, salt: u64) -> io::Result<Part<Closing>> {
    let mut bytes = [0; 80];
    match file.read_exact_at(&mut bytes, CLOSING) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Part::Damaged),
        other => other?,
    }
    if bytes == [0; 80] {
        return Ok(Part::Absent);
    }
    let word = |at: usize| word_at(&bytes, at);
    if bytes[..8] != CLOSED_MAGIC || word(9) != xxh3_64_with_seed(&bytes[..72], salt) {
        return Ok(Part::Damaged);
    }
    Ok(Part::Valid(Closing {
        end: word(1),
        first: word(2),
        last: word(3),
        first_ms: word(4),
        last_ms: word(5),
        stream_entries: word(6),
        trimmed: word(7),
        durable: word(8),
    }))
}

/// Corrects the checksums of a header and, if there is one, of a closing part, for tests with generated bytes.
/// Returns the salt.
#[cfg(any(test, fuzzing))]
pub(super) fn renew(bytes: &mut [u8], number: u64) -> u64 {
    bytes[..8].copy_from_slice(&OPEN_MAGIC);
    bytes[8..16].copy_from_slice(&u64::from(FORMAT).to_le_bytes());
    bytes[16..24].copy_from_slice(&number.to_le_bytes());
    let check = xxh3_64_with_seed(&bytes[..40], 0);
    bytes[40..48].copy_from_slice(&check.to_le_bytes());
    let salt = word_at(bytes, 3);
    let closing = &mut bytes[CLOSING as usize..][..80];
    if closing[0] != 0 {
        closing[..8].copy_from_slice(&CLOSED_MAGIC);
        let check = xxh3_64_with_seed(&closing[..72], salt);
        closing[72..].copy_from_slice(&check.to_le_bytes());
    }
    salt
}

fn word_at(bytes: &[u8], at: usize) -> u64 {
    let bytes = &bytes[at * 8..at * 8 + 8];
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}
