//! Records: what one commit writes into the log.
//!
//! ```text
//! u32  length of the body as it is stored (sealed)
//! u32  check of the length and the position: low half of XXH3, with the seed inverted
//! u64  check of the body as it is stored: XXH3
//!      body, sealed
//!      zeros up to a multiple of 8
//! ```
//!
//! The checks are seeded with the segment's salt and the record's offset, so that a record that was moved, or
//! that is left from an earlier use of the file, is not valid. The body, with LEB128 numbers:
//!
//! ```text
//! u8   kind: 1 commit, 2 note, 3 ingestion
//! u64  version          of a note: the last one before it
//! u64  time in milliseconds since 1970, never decreasing
//! u64  the last version that was durable when this was written; of a commit and an ingestion, below its version
//! n    length, bytes    entry of the change stream
//! note:   n             the change stream is trimmed up to and including this version
//! commit: n             number of deleted ranges, each: length, start, 1 + length or 0 for the end of the key space, end
//!         n             number of puts and deletions, each: length, key, 1 + length or 0 for a deletion, value
//! ```
//!
//! The pairs of an ingestion are in tables that the manifest names; the record contains its entry of the change
//! stream.
//!
//! After the last record of a synced group there is a *receipt*, until the next record overwrites it:
//!
//! ```text
//! u32  0
//! u32  "rcpt"
//! u64  the last version that is durable
//! u64  check of these: XXH3, seeded as those of a record
//! ```
//!
//! A missing record before it was lost after it had been on disk. The receipt is written after the sync, and is
//! not synced itself: it survives the end of the process, and may be lost with the power.

use std::io;

use isomer_storage::{Commit, KeyRange, Version};
use isomer_vfs::{DiskFile, Seal, SealedPosition};
use xxhash_rust::xxh3::{Xxh3, xxh3_64_with_seed};

/// Bytes of the header before a body.
pub const HEAD_BYTES: usize = 16;

/// Bytes of a receipt: no record is shorter.
pub const RECEIPT_BYTES: usize = 24;
/// The first bytes of a receipt, which no record has.
const RECEIPT: [u8; 8] = *b"\0\0\0\0rcpt";

const COMMIT: u8 = 1;
const NOTE: u8 = 2;
const INGESTION: u8 = 3;

/// Position of a record, which its checksums include.
#[derive(Clone, Copy, Debug)]
pub struct RecordPosition {
    /// Number of the segment.
    pub segment: u64,
    /// Its salt.
    pub salt: u64,
    /// Offset of the record in it.
    pub offset: u64,
}

impl RecordPosition {
    fn seed(self) -> u64 {
        self.salt ^ self.offset.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn place(self) -> SealedPosition {
        SealedPosition {
            file: (u128::from(self.salt) << 64) | u128::from(self.segment),
            at: self.offset,
        }
    }
}

/// A record to write.
#[derive(Clone, Copy, Debug)]
pub enum Write<'a> {
    /// A commit.
    Commit(Commit<'a>),
    /// That the change stream was trimmed.
    Trim {
        /// The last version.
        version: Version,
        /// Up to here.
        upto: Version,
    },
    /// An ingestion of tables.
    Ingestion {
        /// Its version.
        version: Version,
        /// Its entry in the change stream.
        stream: &'a [u8],
    },
}

impl Write<'_> {
    /// The version that it makes; a note makes none.
    pub fn new_version(&self) -> Option<Version> {
        match self {
            Self::Commit(commit) => Some(commit.version),
            Self::Ingestion { version, .. } => Some(*version),
            Self::Trim { .. } => None,
        }
    }

    /// Approximate bytes of its record.
    pub fn content_bytes(&self) -> usize {
        match self {
            Self::Commit(commit) => commit.writes.content_bytes() + commit.stream.len(),
            Self::Trim { .. } => 0,
            Self::Ingestion { stream, .. } => stream.len(),
        }
    }
}

/// A record's body, decoded.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The commit; of a note, the one before it.
    pub version: Version,
    /// When.
    pub time_ms: u64,
    /// The durable watermark.
    pub durable: Version,
    /// Entry in the change stream; may be empty.
    pub stream: &'a [u8],
    /// The rest.
    pub content: Content<'a>,
    /// Bytes of the body.
    pub bytes: usize,
}

/// The content of a record.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// Writes, still encoded.
    Commit(Writes<'a>),
    /// The change stream is trimmed up to here.
    Trim(Version),
    /// An ingestion; the manifest names its tables.
    Ingestion,
}

/// The writes of a commit, still encoded: deleted ranges first.
#[derive(Clone, Copy, Debug)]
pub struct Writes<'a>(&'a [u8]);

/// One write of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// A deleted range.
    DeleteRange(KeyRange<'a>),
    /// A put (`Some`) or a deletion.
    Set(&'a [u8], Option<&'a [u8]>),
}

/// The body is malformed although its checksum matches: it was written by another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// What is found at an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// A record with a body of this length, and its checksum.
    Record {
        /// Bytes of the body as stored.
        len: usize,
        /// Its checksum.
        check: u64,
    },
    /// Not a record that was written here.
    None,
}

/// Appends a record to `out`; its position is `position`.
pub fn encode(
    out: &mut Vec<u8>,
    position: RecordPosition,
    seal: &Seal,
    write: Write<'_>,
    time_ms: u64,
    durable: Version,
) {
    assert_durable_before(write, durable);
    let start = out.len();
    out.extend_from_slice(&[0; HEAD_BYTES]);
    let body = out.len();
    put_body(out, write, time_ms, durable);
    debug_assert!(
        is_body_of(&out[body..], write, time_ms, durable),
        "a record is read as it was written"
    );
    seal.seal(position.place(), out, body);
    let len = u32::try_from(out.len() - body).expect("a write set is far below 4 GiB");
    let check = xxh3_64_with_seed(&out[body..], position.seed());
    out[start..body].copy_from_slice(&head_of(position, len, check));
    out.resize(start + (out.len() - start).next_multiple_of(8), 0);
}

/// Recovery takes the loss of a durable version for damage: a record that called its own version durable could not be
/// the torn end of the log.
fn assert_durable_before(write: Write<'_>, durable: Version) {
    assert!(
        write.new_version().is_none_or(|version| durable < version),
        "version {durable} is durable before it is written"
    );
}

/// Whether a body is decoded to this write.
fn is_body_of(body: &[u8], write: Write<'_>, time_ms: u64, durable: Version) -> bool {
    let (version, stream) = match write {
        Write::Commit(commit) => (commit.version, commit.stream),
        Write::Trim { version, .. } => (version, &b""[..]),
        Write::Ingestion { version, stream } => (version, stream),
    };
    decode(body).is_ok_and(|record| {
        let content = match (write, record.content) {
            (Write::Commit(commit), Content::Commit(writes)) => {
                let mut left = commit.writes.deleted_ranges().len() + commit.writes.slots().len();
                let read = writes.for_each(|_| left = left.wrapping_sub(1));
                read.is_ok() && left == 0
            }
            (Write::Trim { upto, .. }, Content::Trim(read)) => read == upto,
            (Write::Ingestion { .. }, Content::Ingestion) => true,
            _ => false,
        };
        let head = (record.version, record.time_ms, record.durable);
        content && head == (version, time_ms, durable) && record.stream == stream
    })
}

/// The header of a record with a body of `len` stored bytes, and its checksum.
fn head_of(position: RecordPosition, len: u32, check: u64) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..4].copy_from_slice(&len.to_le_bytes());
    head[4..8].copy_from_slice(&head_check(position, len).to_le_bytes());
    head[8..].copy_from_slice(&check.to_le_bytes());
    head
}

/// A destination for the parts of a body.
trait Sink {
    fn put(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Writes a body, unencrypted.
fn put_body(out: &mut impl Sink, write: Write<'_>, time_ms: u64, durable: Version) {
    let (kind, version, stream) = match write {
        Write::Commit(commit) => (COMMIT, commit.version, commit.stream),
        Write::Trim { version, .. } => (NOTE, version, &b""[..]),
        Write::Ingestion { version, stream } => (INGESTION, version, stream),
    };
    out.put(&[kind]);
    for number in [version, time_ms, durable] {
        out.put(&number.to_le_bytes());
    }
    put_bytes(out, stream);
    match write {
        Write::Commit(commit) => {
            let ranges = commit.writes.deleted_ranges();
            put_number(out, ranges.len() as u64);
            for range in ranges {
                put_bytes(out, range.start);
                put_optional(out, range.end);
            }
            let slots = commit.writes.slots();
            put_number(out, slots.len() as u64);
            for (key, value) in slots {
                put_bytes(out, key);
                put_optional(out, value);
            }
        }
        Write::Trim { upto, .. } => put_number(out, upto),
        Write::Ingestion { .. } => {}
    }
}

/// Counts the bytes of a body.
struct Length(usize);

impl Sink for Length {
    fn put(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
}

/// Writes a body in pieces and computes its checksum on the way.
struct Pieces<'a> {
    piece: Vec<u8>,
    check: Box<Xxh3>,
    at: u64,
    file: &'a dyn DiskFile,
    outcome: io::Result<()>,
}

/// Bytes of a piece.
const PIECE_BYTES: usize = 1 << 20;

impl Pieces<'_> {
    fn write(&mut self) {
        if self.outcome.is_ok() {
            self.outcome = self.file.write_all_at(&self.piece, self.at);
        }
        self.at += self.piece.len() as u64;
        self.piece.clear();
    }
}

impl Sink for Pieces<'_> {
    fn put(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = PIECE_BYTES - self.piece.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.check.update(now);
            self.piece.extend_from_slice(now);
            if self.piece.len() == PIECE_BYTES {
                self.write();
            }
            bytes = later;
        }
    }
}

/// Bytes of the record of a write that is not encrypted.
pub fn plain_bytes(write: Write<'_>, time_ms: u64, durable: Version) -> u64 {
    let mut length = Length(0);
    put_body(&mut length, write, time_ms, durable);
    record_bytes(length.0)
}

/// Writes an unencrypted record to its position, without holding all of it in memory: its header is written
/// last, so that an incomplete record is not valid. The bytes are those of [`encode`].
pub fn write_plain(
    file: &dyn DiskFile,
    position: RecordPosition,
    write: Write<'_>,
    time_ms: u64,
    durable: Version,
) -> io::Result<()> {
    assert_durable_before(write, durable);
    let body = position.offset + HEAD_BYTES as u64;
    let mut pieces = Pieces {
        piece: Vec::with_capacity(PIECE_BYTES),
        check: Box::new(Xxh3::with_seed(position.seed())),
        at: body,
        file,
        outcome: Ok(()),
    };
    put_body(&mut pieces, write, time_ms, durable);
    let len = (pieces.at - body) as usize + pieces.piece.len();
    let padding = record_bytes(len) as usize - HEAD_BYTES - len;
    pieces.piece.extend_from_slice(&[0; 8][..padding]);
    pieces.write();
    pieces.outcome?;
    let len = u32::try_from(len).expect("a write set is far below 4 GiB");
    let head = head_of(position, len, pieces.check.digest());
    file.write_all_at(&head, position.offset)
}

fn head_check(position: RecordPosition, len: u32) -> u32 {
    xxh3_64_with_seed(&len.to_le_bytes(), !position.seed()) as u32
}

/// A receipt at `position` for everything up to `durable`.
pub fn receipt(position: RecordPosition, durable: Version) -> [u8; RECEIPT_BYTES] {
    let mut bytes = [0; RECEIPT_BYTES];
    bytes[..8].copy_from_slice(&RECEIPT);
    bytes[8..16].copy_from_slice(&durable.to_le_bytes());
    let check = xxh3_64_with_seed(&bytes[..16], position.seed());
    bytes[16..].copy_from_slice(&check.to_le_bytes());
    bytes
}

/// Whether a receipt may begin with these bytes.
pub fn may_be_receipt(head: &[u8; HEAD_BYTES]) -> bool {
    head[..8] == RECEIPT
}

/// Reads a receipt: the durable watermark when it was written.
pub fn read_receipt(bytes: &[u8; RECEIPT_BYTES], position: RecordPosition) -> Option<Version> {
    let durable = u64::from_le_bytes(*bytes[8..].first_chunk()?);
    (*bytes == receipt(position, durable)).then_some(durable)
}

/// Corrects the checksums of a record or a receipt at the beginning of `bytes`, for tests with generated bytes;
/// a record whose first checksum begins with `ff` keeps the wrong checksum of its body. Returns the bytes that
/// it takes.
#[cfg(any(test, fuzzing))]
pub(super) fn renew(bytes: &mut [u8], position: RecordPosition) -> usize {
    if let Some(place) = bytes.first_chunk_mut::<RECEIPT_BYTES>()
        && place[..8] == RECEIPT
    {
        let durable = u64::from_le_bytes(*place[8..].first_chunk().expect("24 bytes"));
        *place = receipt(position, durable);
        return RECEIPT_BYTES;
    }
    let Some(head) = bytes.first_chunk::<HEAD_BYTES>() else {
        return bytes.len();
    };
    let len = u32::from_le_bytes(*head.first_chunk().expect("16 bytes"));
    let (broken, end) = (head[4] == 0xff, HEAD_BYTES + len as usize);
    if len == 0 || end > bytes.len() {
        return 8;
    }
    bytes[4..8].copy_from_slice(&head_check(position, len).to_le_bytes());
    if !broken {
        let check = xxh3_64_with_seed(&bytes[HEAD_BYTES..end], position.seed());
        bytes[8..HEAD_BYTES].copy_from_slice(&check.to_le_bytes());
    }
    end.next_multiple_of(8)
}

/// Bytes of a record with a body of `len` bytes.
pub fn record_bytes(len: usize) -> u64 {
    (HEAD_BYTES + len).next_multiple_of(8) as u64
}

/// Reads the header of a record.
pub fn head(bytes: &[u8; HEAD_BYTES], position: RecordPosition) -> Head {
    let number =
        |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let len = number(0);
    if len == 0 || number(4) != head_check(position, len) {
        return Head::None;
    }
    Head::Record {
        len: len as usize,
        check: u64::from(number(8)) | (u64::from(number(12)) << 32),
    }
}

/// Checks and decrypts a body in place; returns whether it is intact.
pub fn open(body: &mut Vec<u8>, position: RecordPosition, seal: &Seal, check: u64) -> bool {
    xxh3_64_with_seed(body, position.seed()) == check
        && seal.open(position.place(), body, 0).is_ok()
}

/// Decodes a decrypted body.
pub fn decode(body: &[u8]) -> Result<Record<'_>, Malformed> {
    let mut rest = body;
    let (&kind, after) = rest.split_first().ok_or(Malformed)?;
    rest = after;
    let mut word = || {
        let (word, after) = rest.split_first_chunk::<8>().ok_or(Malformed)?;
        rest = after;
        Ok(u64::from_le_bytes(*word))
    };
    let (version, time_ms, durable) = (word()?, word()?, word()?);
    let stream = take_bytes(&mut rest)?;
    let content = match kind {
        COMMIT => Content::Commit(Writes(rest)),
        NOTE => Content::Trim(take_number(&mut rest)?),
        INGESTION => Content::Ingestion,
        _ => return Err(Malformed),
    };
    if kind != NOTE && durable >= version {
        return Err(Malformed);
    }
    Ok(Record {
        version,
        time_ms,
        durable,
        stream,
        content,
        bytes: body.len(),
    })
}

impl<'a> Writes<'a> {
    /// Calls `each` with every write.
    pub fn for_each(self, mut each: impl FnMut(Change<'a>)) -> Result<(), Malformed> {
        let mut rest = self.0;
        for _ in 0..take_number(&mut rest)? {
            let start = take_bytes(&mut rest)?;
            let end = take_optional(&mut rest)?;
            each(Change::DeleteRange(KeyRange { start, end }));
        }
        for _ in 0..take_number(&mut rest)? {
            let key = take_bytes(&mut rest)?;
            each(Change::Set(key, take_optional(&mut rest)?));
        }
        if rest.is_empty() {
            Ok(())
        } else {
            Err(Malformed)
        }
    }
}

#[inline]
fn put_number(out: &mut impl Sink, mut number: u64) {
    while number >= 0x80 {
        out.put(&[number as u8 | 0x80]);
        number >>= 7;
    }
    out.put(&[number as u8]);
}

#[inline]
fn put_bytes(out: &mut impl Sink, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.put(bytes);
}

#[inline]
fn put_optional(out: &mut impl Sink, bytes: Option<&[u8]>) {
    put_number(out, bytes.map_or(0, |bytes| bytes.len() as u64 + 1));
    out.put(bytes.unwrap_or_default());
}

fn take_number(rest: &mut &[u8]) -> Result<u64, Malformed> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, after) = rest.split_first().ok_or(Malformed)?;
        *rest = after;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(Malformed)
}

fn take<'a>(rest: &mut &'a [u8], len: u64) -> Result<&'a [u8], Malformed> {
    let len = usize::try_from(len).map_err(|_| Malformed)?;
    let (bytes, after) = rest.split_at_checked(len).ok_or(Malformed)?;
    *rest = after;
    Ok(bytes)
}

fn take_bytes<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Malformed> {
    let len = take_number(rest)?;
    take(rest, len)
}

fn take_optional<'a>(rest: &mut &'a [u8]) -> Result<Option<&'a [u8]>, Malformed> {
    match take_number(rest)?.checked_sub(1) {
        Some(len) => take(rest, len).map(Some),
        None => Ok(None),
    }
}
