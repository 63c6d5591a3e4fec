//! Records of the shared log.
//!
//! ```text
//! "isomerSR", u32 format, u128 log, u64 writer, u128 nonce, u64 hash of the record before (0: none), u64 length, content,
//! u64 check
//! ```
//!
//! Numbers are little-endian. The check is XXH3 of everything before it, seeded with the position, so that a record at
//! another position than its own is recognised. The hash of a record is its check.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::{LogId, Position};

/// Identifies an attempt to commit; a random number.
pub type Nonce = u128;

/// The hash of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordHash(pub u64);

const MAGIC: [u8; 8] = *b"isomerSR";
/// Version of the format. A node refuses records of any other one: it would not apply them as their writer did.
pub const FORMAT: u32 = 1;
const HEAD_BYTES: usize = 8 + 4 + 16 + 8 + 16 + 8 + 8;
const CHECK_BYTES: usize = 8;

/// A group of transactions that was committed as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The log that it belongs to.
    pub log: LogId,
    /// The node that appended it.
    pub writer: u64,
    /// Tells this attempt from all others.
    pub nonce: Nonce,
    /// The hash of the record before.
    pub previous: RecordHash,
    /// What the state machine applies.
    pub content: &'a [u8],
}

/// Why bytes are not a valid record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Of another version of the program.
    #[error(
        "the record {at} has the format {format}, and this program knows {FORMAT}: use the version of the program that the other processes use"
    )]
    Format {
        /// Its position.
        at: Position,
        /// Its format.
        format: u32,
    },
    /// Of another log.
    #[error(
        "the record {at} belongs to the shared log {found}, and not to {log}: restore the database whole"
    )]
    OtherLog {
        /// Its position.
        at: Position,
        /// The log that it names.
        found: LogId,
        /// The log that it was read from.
        log: LogId,
    },
    /// Torn, foreign or changed.
    #[error("the record {at} is damaged: {what}")]
    Damaged {
        /// Its position.
        at: Position,
        /// What is wrong.
        what: &'static str,
    },
    /// It follows another record than the one before it.
    #[error(
        "the record {at} does not follow the state of this process: restore the database whole"
    )]
    OtherHistory {
        /// Its position.
        at: Position,
    },
}

/// Appends the check of a record, which is its hash.
fn put_check(at: Position, bytes: &mut Vec<u8>) -> RecordHash {
    let check = xxh3_64_with_seed(bytes, at);
    bytes.extend_from_slice(&check.to_le_bytes());
    RecordHash(check)
}

/// Makes the bytes of a record its content again.
pub(crate) fn unwrap_content(bytes: &mut Vec<u8>) {
    bytes.truncate(bytes.len().saturating_sub(CHECK_BYTES));
    bytes.drain(..HEAD_BYTES.min(bytes.len()));
}

impl<'a> Record<'a> {
    /// Size of a record with `content_bytes` of content.
    pub fn encoded_bytes(content_bytes: usize) -> usize {
        HEAD_BYTES + content_bytes + CHECK_BYTES
    }

    /// The bytes of the record for the position `at`, and its hash.
    pub fn encode(&self, at: Position) -> (Vec<u8>, RecordHash) {
        let mut bytes = Vec::new();
        let hash = self.encode_to(at, &mut bytes);
        (bytes, hash)
    }

    /// Like [`Record::encode`]; the bytes replace those in `bytes`.
    pub(crate) fn encode_to(&self, at: Position, bytes: &mut Vec<u8>) -> RecordHash {
        bytes.clear();
        bytes.reserve(Self::encoded_bytes(self.content.len()));
        self.put_head(self.content.len(), bytes);
        bytes.extend_from_slice(self.content);
        put_check(at, bytes)
    }

    /// Makes `content` the bytes of the record for the position `at`, without a copy of it; the content of `self` does
    /// not count. Returns the hash of the record. [`unwrap_content`] undoes it.
    pub(crate) fn wrap_content(&self, at: Position, content: &mut Vec<u8>) -> RecordHash {
        let mut head = Vec::with_capacity(HEAD_BYTES);
        self.put_head(content.len(), &mut head);
        content.reserve_exact(HEAD_BYTES + CHECK_BYTES);
        content.splice(0..0, head);
        put_check(at, content)
    }

    fn put_head(&self, content_bytes: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&FORMAT.to_le_bytes());
        out.extend_from_slice(&self.log.0.to_le_bytes());
        out.extend_from_slice(&self.writer.to_le_bytes());
        out.extend_from_slice(&self.nonce.to_le_bytes());
        out.extend_from_slice(&self.previous.0.to_le_bytes());
        out.extend_from_slice(&(content_bytes as u64).to_le_bytes());
    }

    /// The record in `bytes`, read from the log `log` at the position `at`; and its hash. [`Record::follows`] compares
    /// it with the record before.
    ///
    /// # Errors
    /// `Format` for a record of another version, `OtherLog` for one of another log, `Damaged` for anything else that is
    /// no record for this position.
    pub fn decode(
        bytes: &'a [u8],
        at: Position,
        log: LogId,
    ) -> Result<(Self, RecordHash), RecordError> {
        let damaged = |what| RecordError::Damaged { at, what };
        let too_short = || damaged("it is too short");
        let mut rest = bytes;
        if take(&mut rest).ok_or_else(too_short)? != MAGIC {
            return Err(damaged("it does not begin as a record does"));
        }
        let format = u32::from_le_bytes(take(&mut rest).ok_or_else(too_short)?);
        if format != FORMAT {
            return Err(RecordError::Format { at, format });
        }
        let (body, check) = rest.split_last_chunk().ok_or_else(too_short)?;
        let check = u64::from_le_bytes(*check);
        if check != xxh3_64_with_seed(&bytes[..bytes.len() - CHECK_BYTES], at) {
            return Err(damaged("its check does not match"));
        }
        let (record, length) = Self::fields(body).ok_or_else(too_short)?;
        if length != record.content.len() as u64 {
            return Err(damaged("its length does not match"));
        }
        if record.log != log {
            let found = record.log;
            return Err(RecordError::OtherLog { at, found, log });
        }
        Ok((record, RecordHash(check)))
    }

    /// The fields after the format, and the length of the content that they name.
    fn fields(mut body: &'a [u8]) -> Option<(Self, u64)> {
        let log = LogId(u128::from_le_bytes(take(&mut body)?));
        let writer = u64::from_le_bytes(take(&mut body)?);
        let nonce = u128::from_le_bytes(take(&mut body)?);
        let previous = RecordHash(u64::from_le_bytes(take(&mut body)?));
        let length = u64::from_le_bytes(take(&mut body)?);
        let record = Self {
            log,
            writer,
            nonce,
            previous,
            content: body,
        };
        Some((record, length))
    }

    /// Checks that the record at `at` follows one with the hash `previous`.
    ///
    /// # Errors
    /// `OtherHistory`.
    pub fn follows(&self, at: Position, previous: RecordHash) -> Result<(), RecordError> {
        match self.previous == previous {
            true => Ok(()),
            false => Err(RecordError::OtherHistory { at }),
        }
    }
}

/// Takes the first `N` bytes.
fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: LogId = LogId(77);

    fn record(content: &[u8]) -> Record<'_> {
        Record {
            log: LOG,
            writer: 7,
            nonce: 1 << 100,
            previous: RecordHash(9),
            content,
        }
    }

    #[test]
    fn a_content_becomes_the_same_record_in_place() {
        for content in [&b""[..], b"some content", &[7; 3_000]] {
            let own = record(content);
            let expected = own.encode(9);
            let mut bytes = content.to_vec();
            let hash = Record {
                content: &[],
                ..own
            }
            .wrap_content(9, &mut bytes);
            assert_eq!((&bytes, hash), (&expected.0, expected.1));
            unwrap_content(&mut bytes);
            assert_eq!(bytes, content);
        }
    }

    #[test]
    fn a_record_comes_back_at_its_position_and_from_its_log_only() {
        let own = record(b"abc");
        let (bytes, hash) = own.encode(5);
        assert_eq!(bytes.len(), Record::encoded_bytes(3));
        assert_eq!(Record::decode(&bytes, 5, LOG), Ok((own.clone(), hash)));
        assert!(Record::decode(&bytes, 6, LOG).is_err());
        let (at, found, log) = (5, LOG, LogId(78));
        assert_eq!(
            Record::decode(&bytes, 5, log),
            Err(RecordError::OtherLog { at, found, log })
        );
        assert_eq!(own.follows(5, RecordHash(9)), Ok(()));
        let refused = own.follows(5, RecordHash(8));
        assert_eq!(refused, Err(RecordError::OtherHistory { at: 5 }));
    }

    #[test]
    fn every_changed_or_missing_byte_is_noticed() {
        let (bytes, _) = record(b"some content").encode(5);
        for at in 0..bytes.len() {
            assert!(Record::decode(&bytes[..at], 5, LOG).is_err(), "cut at {at}");
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                assert!(Record::decode(&changed, 5, LOG).is_err(), "{at} {bit}");
            }
        }
        let mut longer = bytes;
        longer.push(0);
        assert!(Record::decode(&longer, 5, LOG).is_err());
    }

    #[test]
    fn a_record_of_another_version_is_refused_by_its_format() {
        let (mut bytes, _) = record(b"").encode(1);
        bytes[8] = 2;
        let refused = Record::decode(&bytes, 1, LOG).expect_err("another format");
        assert_eq!(refused, RecordError::Format { at: 1, format: 2 });
        assert!(refused.to_string().contains("the version of the program"));
    }
}
