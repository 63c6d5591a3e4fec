//! Records of the shared log.
//!
//! ```text
//! "isomerSR", u32 format, u64 writer, u128 nonce, u64 hash of the record before (0: none), u32 length, content, u64 check
//! ```
//!
//! Numbers are little-endian. The check is XXH3 of everything before it, seeded with the position, so that a record at
//! another position than its own is recognised. The hash of a record is its check.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::Position;

/// Identifies an attempt to commit; a random number.
pub type Nonce = u128;

/// The hash of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordHash(pub u64);

const MAGIC: [u8; 8] = *b"isomerSR";
/// Version of the format. A node refuses records of any other one: it would not apply them as their writer did.
pub const FORMAT: u32 = 1;
const HEAD_BYTES: usize = 8 + 4 + 8 + 16 + 8 + 4;
const CHECK_BYTES: usize = 8;

/// A group of transactions that was committed as one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
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
    /// Torn, foreign or changed.
    #[error("the record {at} is damaged: {what}")]
    Damaged {
        /// Its position.
        at: Position,
        /// What is wrong.
        what: &'static str,
    },
}

impl<'a> Record<'a> {
    /// Size of a record with `content_bytes` of content.
    pub fn encoded_bytes(content_bytes: usize) -> usize {
        HEAD_BYTES + content_bytes + CHECK_BYTES
    }

    /// The bytes of the record for the position `at`, and its hash. The content is below 4 GiB.
    pub fn encode(&self, at: Position) -> (Vec<u8>, RecordHash) {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + self.content.len() + CHECK_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&self.writer.to_le_bytes());
        bytes.extend_from_slice(&self.nonce.to_le_bytes());
        bytes.extend_from_slice(&self.previous.0.to_le_bytes());
        let length = u32::try_from(self.content.len()).expect("a log takes no record of 4 GiB");
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(self.content);
        let check = xxh3_64_with_seed(&bytes, at);
        bytes.extend_from_slice(&check.to_le_bytes());
        (bytes, RecordHash(check))
    }

    /// The record in `bytes`, read at the position `at` after one with the hash `previous`; and its hash.
    ///
    /// # Errors
    /// `Format` for a record of another version, `Damaged` for anything that is not the successor of the record before.
    pub fn decode(
        bytes: &'a [u8],
        at: Position,
        previous: RecordHash,
    ) -> Result<(Self, RecordHash), RecordError> {
        let damaged = |what| RecordError::Damaged { at, what };
        let mut rest = bytes;
        let mut take = |count: usize| {
            let (part, behind) = rest.split_at_checked(count).ok_or(RecordError::Damaged {
                at,
                what: "it is too short",
            })?;
            rest = behind;
            Ok(part)
        };
        if take(8)? != MAGIC {
            return Err(damaged("it does not begin as a record does"));
        }
        let format = u32::from_le_bytes(fixed(take(4)?));
        if format != FORMAT {
            return Err(RecordError::Format { at, format });
        }
        let writer = u64::from_le_bytes(fixed(take(8)?));
        let nonce = u128::from_le_bytes(fixed(take(16)?));
        let before = RecordHash(u64::from_le_bytes(fixed(take(8)?)));
        let length = u32::from_le_bytes(fixed(take(4)?));
        let content = take(length as usize)?;
        let check = u64::from_le_bytes(fixed(take(CHECK_BYTES)?));
        if !rest.is_empty() {
            return Err(damaged("bytes follow its end"));
        }
        if check != xxh3_64_with_seed(&bytes[..bytes.len() - CHECK_BYTES], at) {
            return Err(damaged("its check does not match"));
        }
        if before != previous {
            return Err(damaged("it follows another record than the one before it"));
        }
        let record = Self {
            writer,
            nonce,
            previous,
            content,
        };
        Ok((record, RecordHash(check)))
    }
}

/// An array of a slice of its length.
fn fixed<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("the length was asked for")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(content: &[u8]) -> Record<'_> {
        Record {
            writer: 7,
            nonce: 1 << 100,
            previous: RecordHash(9),
            content,
        }
    }

    #[test]
    fn a_record_comes_back_at_its_position_only() {
        let own = record(b"abc");
        let (bytes, hash) = own.encode(5);
        assert_eq!(Record::decode(&bytes, 5, RecordHash(9)), Ok((own, hash)),);
        assert!(Record::decode(&bytes, 6, RecordHash(9)).is_err());
        assert!(Record::decode(&bytes, 5, RecordHash(8)).is_err());
    }

    #[test]
    fn every_changed_or_missing_byte_is_noticed() {
        let (bytes, _) = record(b"some content").encode(5);
        for at in 0..bytes.len() {
            assert!(
                Record::decode(&bytes[..at], 5, RecordHash(9)).is_err(),
                "cut at {at}"
            );
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                assert!(
                    Record::decode(&changed, 5, RecordHash(9)).is_err(),
                    "{at} {bit}"
                );
            }
        }
        let mut longer = bytes;
        longer.push(0);
        assert!(Record::decode(&longer, 5, RecordHash(9)).is_err());
    }

    #[test]
    fn a_record_of_another_version_is_refused_by_its_format() {
        let (mut bytes, _) = record(b"").encode(1);
        bytes[8] = 2;
        let refused = Record::decode(&bytes, 1, RecordHash(9)).expect_err("another format");
        assert_eq!(refused, RecordError::Format { at: 1, format: 2 });
        assert!(refused.to_string().contains("the version of the program"));
    }
}
