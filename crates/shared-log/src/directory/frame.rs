//! Segments and frames: how the log is stored.
//!
//! A segment is the file `NNNNNNNNNNNNNNNNNNNN.log`, named by the position of its first record. Numbers are
//! little-endian.
//!
//! ```text
//! header, 64 bytes:
//!   "isomerSL", u32 format, u32 0, u128 log, u64 first position, u64 hash of the frame before (0: none), u64 salt,
//!   u64 check: XXH3 of the bytes before
//! frames, each aligned to 8 bytes:
//!   u32 "fram", u32 length of the record
//!   u64 position
//!   u64 durable: the records below this position were durable when the frame was written
//!   u64 hash of the frame before
//!   u64 check of the record: XXH3, seeded with the position
//!   u64 check of the 40 bytes before: XXH3, seeded with the segment's salt; the *hash* of the frame
//!   record, zeros up to a multiple of 8
//! zeros
//! ```
//!
//! The file grows in steps, with zeros ahead of the frames, so that a sync seldom has to write its length; see
//! [`super::tail`]. A frame is valid only at its position and in its segment, so that bytes of a record are never
//! mistaken for one.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::{LogId, Position};

/// Version of the format of segments and manifest.
pub(super) const FORMAT: u32 = 1;
/// Largest record.
pub(super) const MAX_RECORD_BYTES: usize = 64 << 20;
/// Bytes of a segment's header: the offset of its first frame.
pub(super) const HEADER_BYTES: usize = 64;
/// Bytes of a frame before its record.
pub(super) const HEAD_BYTES: usize = 48;

const SEGMENT: [u8; 8] = *b"isomerSL";
const FRAME: u32 = u32::from_le_bytes(*b"fram");

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) log: LogId,
    /// Position of its first record.
    pub(super) first: Position,
    /// Hash of the frame before.
    pub(super) previous: u64,
    /// A random number.
    pub(super) salt: u64,
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = Vec::with_capacity(HEADER_BYTES);
        out.extend_from_slice(&SEGMENT);
        out.extend_from_slice(&FORMAT.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.log.0.to_le_bytes());
        for number in [self.first, self.previous, self.salt] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        let mut bytes = [0; HEADER_BYTES];
        bytes[..56].copy_from_slice(&out);
        bytes[56..].copy_from_slice(&xxh3_64(&out).to_le_bytes());
        bytes
    }

    /// The header in `bytes`; `None` if it is damaged, or has another format.
    pub(super) fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let mut rest = &bytes[16..];
        let header = Self {
            log: LogId(u128::from_le_bytes(take(&mut rest)?)),
            first: u64::from_le_bytes(take(&mut rest)?),
            previous: u64::from_le_bytes(take(&mut rest)?),
            salt: u64::from_le_bytes(take(&mut rest)?),
        };
        (header.encode() == *bytes).then_some(header)
    }
}

/// The bytes of a frame before its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Length of the record.
    pub(super) length: u32,
    pub(super) position: Position,
    /// The records below this position were durable when the frame was written.
    pub(super) durable: Position,
    /// Hash of the frame before.
    pub(super) previous: u64,
    /// Check of the record.
    pub(super) check: u64,
}

/// The check of a record at `position`.
pub(super) fn record_check(record: &[u8], position: Position) -> u64 {
    xxh3_64_with_seed(record, position)
}

/// Bytes of the frame of a record with `length` bytes.
pub(super) fn frame_bytes(length: usize) -> u64 {
    (HEAD_BYTES + length).next_multiple_of(8) as u64
}

impl Head {
    /// The bytes in a segment with the salt `salt`, and the hash of the frame.
    pub(super) fn encode(&self, salt: u64) -> ([u8; HEAD_BYTES], u64) {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..4].copy_from_slice(&FRAME.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.length.to_le_bytes());
        let numbers = [self.position, self.durable, self.previous, self.check];
        for (at, number) in (8..).step_by(8).zip(numbers) {
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        let hash = xxh3_64_with_seed(&bytes[..40], salt);
        bytes[40..].copy_from_slice(&hash.to_le_bytes());
        (bytes, hash)
    }

    /// The head in `bytes` and the hash of the frame; `None` if it is not one of this segment.
    pub(super) fn decode(bytes: &[u8; HEAD_BYTES], salt: u64) -> Option<(Self, u64)> {
        let mut rest = &bytes[..];
        if u32::from_le_bytes(take(&mut rest)?) != FRAME {
            return None;
        }
        let head = Self {
            length: u32::from_le_bytes(take(&mut rest)?),
            position: u64::from_le_bytes(take(&mut rest)?),
            durable: u64::from_le_bytes(take(&mut rest)?),
            previous: u64::from_le_bytes(take(&mut rest)?),
            check: u64::from_le_bytes(take(&mut rest)?),
        };
        let hash = u64::from_le_bytes(take(&mut rest)?);
        (xxh3_64_with_seed(&bytes[..40], salt) == hash).then_some((head, hash))
    }
}

/// Takes the first `N` bytes.
pub(super) fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_heads_come_back_and_every_changed_bit_is_noticed() {
        let header = Header {
            log: LogId(1 << 100),
            first: 7,
            previous: 8,
            salt: 9,
        };
        assert_eq!(Header::decode(&header.encode()), Some(header));
        let head = Head {
            length: 5,
            position: 7,
            durable: 6,
            previous: 8,
            check: record_check(b"hello", 7),
        };
        let (bytes, hash) = head.encode(9);
        assert_eq!(Head::decode(&bytes, 9), Some((head, hash)));
        assert_eq!(Head::decode(&bytes, 10), None, "another segment");
        for bit in 0..HEADER_BYTES * 8 {
            let mut changed = header.encode();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::decode(&changed), None, "{bit}");
        }
        for bit in 0..HEAD_BYTES * 8 {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Head::decode(&changed, 9), None, "{bit}");
        }
    }

    #[test]
    fn frames_are_aligned() {
        assert_eq!([0, 1, 8, 9].map(frame_bytes), [48, 56, 56, 64]);
    }
}
