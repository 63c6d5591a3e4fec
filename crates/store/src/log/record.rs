//! Records: what one commit writes into the log.
//!
//! ```text
//! u32  length of the body as it is stored (sealed)
//! u32  check of the length and the place: low half of XXH3, under the seed with all bits turned over
//! u64  check of the body as it is stored: XXH3
//!      body, sealed
//!      zeros up to a multiple of 8
//! ```
//!
//! The checks are seeded with the segment's salt and the record's offset, so that a record that was moved, or is left
//! from an earlier use of the file, is none. The body, with LEB128 numbers:
//!
//! ```text
//! u8   kind: 1 commit, 2 note, 3 ingestion
//! u64  version          of a note: the last one before it
//! u64  time in milliseconds since 1970, never falling
//! u64  the last version that was durable when this was written
//! n    length, bytes    entry of the change stream
//! note:   n             the change stream is forgotten up to and including this version
//! commit: n             number of deleted ranges, each: length, start, 1 + length or 0 for the end of the key space, end
//!         n             number of puts and deletions, each: length, key, 1 + length or 0 for a deletion, value
//! ```
//!
//! An ingestion's pairs are in tables that the manifest brings in; it has its place in the change stream here.
//!
//! Behind the last record of a group that was synced stands a *receipt*, until the next record takes its place:
//!
//! ```text
//! u32  0
//! u32  "rcpt"
//! u64  the last version that is durable
//! u64  check of these: XXH3, seeded as those of a record
//! ```
//!
//! What is missing before it was lost after it had been on disk. It is written after the sync, and not synced itself:
//! a process that ends leaves it, a loss of power may take it away.

use isomer_storage::{Commit, KeyRange, Version};
use isomer_vfs::{Place, Seal};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Bytes before a body.
pub const HEAD_BYTES: usize = 16;

/// Bytes of a receipt: no record is shorter.
pub const RECEIPT_BYTES: usize = 24;
/// How a receipt begins: as no record does.
const RECEIPT: [u8; 8] = *b"\0\0\0\0rcpt";

const COMMIT: u8 = 1;
const NOTE: u8 = 2;
const INGESTION: u8 = 3;

/// Where a record is, as far as its checks go.
#[derive(Clone, Copy, Debug)]
pub struct Spot {
    /// Number of the segment.
    pub segment: u64,
    /// Its salt.
    pub salt: u64,
    /// Offset of the record in it.
    pub offset: u64,
}

impl Spot {
    fn seed(self) -> u64 {
        self.salt ^ self.offset.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn place(self) -> Place {
        Place {
            file: (u128::from(self.salt) << 64) | u128::from(self.segment),
            at: self.offset,
        }
    }
}

/// What is written.
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

/// A record's body, decoded.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The commit; of a note the one before it.
    pub version: Version,
    /// When.
    pub time_ms: u64,
    /// What was durable.
    pub durable: Version,
    /// Entry in the change stream, where not empty.
    pub stream: &'a [u8],
    /// The rest.
    pub content: Content<'a>,
    /// Bytes of the body.
    pub bytes: usize,
}

/// What a record brings.
#[derive(Clone, Copy, Debug)]
pub enum Content<'a> {
    /// Writes, still encoded.
    Commit(Writes<'a>),
    /// The change stream is forgotten up to here.
    Trim(Version),
    /// Tables of the manifest.
    Ingestion,
}

/// The writes of a commit, read one after another: deleted ranges first.
#[derive(Clone, Copy, Debug)]
pub struct Writes<'a>(&'a [u8]);

/// One write of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// A deleted range.
    Erase(KeyRange<'a>),
    /// A put (`Some`) or a deletion.
    Set(&'a [u8], Option<&'a [u8]>),
}

/// The body is not one: its checksum says that it was written so, so the program that wrote it is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// What is found at an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// A record with a body of so many bytes, and its check.
    Record {
        /// Bytes of the body as stored.
        len: usize,
        /// Its checksum.
        check: u64,
    },
    /// Nothing that was written as a record here.
    None,
}

/// Appends a record to `out`. Its offset is `spot.offset`.
pub fn encode(
    out: &mut Vec<u8>,
    spot: Spot,
    seal: &Seal,
    write: Write<'_>,
    time_ms: u64,
    durable: Version,
) {
    let start = out.len();
    out.extend_from_slice(&[0; HEAD_BYTES]);
    let body = out.len();
    let (kind, version, stream) = match write {
        Write::Commit(commit) => (COMMIT, commit.version, commit.stream),
        Write::Trim { version, .. } => (NOTE, version, &b""[..]),
        Write::Ingestion { version, stream } => (INGESTION, version, stream),
    };
    out.push(kind);
    for number in [version, time_ms, durable] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    put_bytes(out, stream);
    match write {
        Write::Commit(commit) => {
            let erased = commit.writes.erased();
            put_number(out, erased.len() as u64);
            for range in erased {
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
    seal.seal(spot.place(), out, body);
    let len = u32::try_from(out.len() - body).expect("a write set is far below 4 GiB");
    let head = &mut out[start..body];
    head[..4].copy_from_slice(&len.to_le_bytes());
    head[4..8].copy_from_slice(&head_check(spot, len).to_le_bytes());
    let check = xxh3_64_with_seed(&out[body..], spot.seed());
    out[start + 8..body].copy_from_slice(&check.to_le_bytes());
    out.resize(start + (out.len() - start).next_multiple_of(8), 0);
}

fn head_check(spot: Spot, len: u32) -> u32 {
    xxh3_64_with_seed(&len.to_le_bytes(), !spot.seed()) as u32
}

/// A receipt at `spot` for everything up to `durable`.
pub fn receipt(spot: Spot, durable: Version) -> [u8; RECEIPT_BYTES] {
    let mut bytes = [0; RECEIPT_BYTES];
    bytes[..8].copy_from_slice(&RECEIPT);
    bytes[8..16].copy_from_slice(&durable.to_le_bytes());
    let check = xxh3_64_with_seed(&bytes[..16], spot.seed());
    bytes[16..].copy_from_slice(&check.to_le_bytes());
    bytes
}

/// Whether a receipt may begin so.
pub fn may_be_receipt(head: &[u8; HEAD_BYTES]) -> bool {
    head[..8] == RECEIPT
}

/// Reads a receipt: what was durable when it was written.
pub fn read_receipt(bytes: &[u8; RECEIPT_BYTES], spot: Spot) -> Option<Version> {
    let durable = u64::from_le_bytes(*bytes[8..].first_chunk()?);
    (*bytes == receipt(spot, durable)).then_some(durable)
}

/// Makes the checks right of whatever stands at the beginning of `bytes` as a record or a receipt, for tests that make up what they
/// guard; a record whose first check begins with `ff` keeps its body's wrong one. Answers the bytes that it takes.
pub(super) fn renew(bytes: &mut [u8], spot: Spot) -> usize {
    if let Some(place) = bytes.first_chunk_mut::<RECEIPT_BYTES>()
        && place[..8] == RECEIPT
    {
        let durable = u64::from_le_bytes(*place[8..].first_chunk().expect("24 bytes"));
        *place = receipt(spot, durable);
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
    bytes[4..8].copy_from_slice(&head_check(spot, len).to_le_bytes());
    if !broken {
        let check = xxh3_64_with_seed(&bytes[HEAD_BYTES..end], spot.seed());
        bytes[8..HEAD_BYTES].copy_from_slice(&check.to_le_bytes());
    }
    end.next_multiple_of(8)
}

/// Bytes of a record with a body of `len` bytes.
pub fn record_bytes(len: usize) -> u64 {
    (HEAD_BYTES + len).next_multiple_of(8) as u64
}

/// Reads the head of a record.
pub fn head(bytes: &[u8; HEAD_BYTES], spot: Spot) -> Head {
    let number =
        |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let len = number(0);
    if len == 0 || number(4) != head_check(spot, len) {
        return Head::None;
    }
    Head::Record {
        len: len as usize,
        check: u64::from(number(8)) | (u64::from(number(12)) << 32),
    }
}

/// Checks and unseals a body in place; answers whether it is what was written.
pub fn open(body: &mut Vec<u8>, spot: Spot, seal: &Seal, check: u64) -> bool {
    xxh3_64_with_seed(body, spot.seed()) == check && seal.open(spot.place(), body, 0).is_ok()
}

/// Decodes an unsealed body.
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
            each(Change::Erase(KeyRange { start, end }));
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

fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn put_optional(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    put_number(out, bytes.map_or(0, |bytes| bytes.len() as u64 + 1));
    out.extend_from_slice(bytes.unwrap_or_default());
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
