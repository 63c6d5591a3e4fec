//! Which history a version belongs to: for files outside the database, which must not be taken for those of another
//! history.
//!
//! Version numbers are reused: after a crash that lost buffered commits, and in a copy that is used as another
//! database. So each opening that writes begins an *era* with a unique name, in the first commit that it makes; as
//! commits reach the disk in order, a lost era implies that all later commits are lost. A pair of era and version then
//! identifies one state of the database permanently, and [`Lineage::holds`] says whether that state is in the past of
//! the open database.
//!
//! The record is created when a file outside is kept for the first time (`Eras::begin` in `isomer-data`); from then on
//! every opening that writes adds its era. Layout, all numbers big endian:
//!
//! ```text
//! 01                  format
//! u8 n, then n times, oldest first:
//!   16 bytes          name of the era
//!   u64 first         the version that it began with
//!   u64 until         the last version that belongs to it, ff×8 for the newest
//! u64 trimmed          the change stream was trimmed up to and including this version
//! ```

use isomer_storage::{Read, Version};

use crate::{DataError, keyspace::LINEAGE};

/// The format of the record.
const FORMAT: u8 = 1;
/// Most eras that are remembered: files of an older one are built again.
const MAX_ERAS: usize = 100;

/// The name of an era: random.
pub type EraId = [u8; 16];

/// The part of the history that one opening wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Era {
    id: EraId,
    first: Version,
    until: Version,
}

/// The eras in the past of a database, and how far back its change stream reaches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lineage {
    eras: Vec<Era>,
    /// The change stream was trimmed up to and including this version.
    pub trimmed: Version,
    /// The version of the open database.
    pub now: Version,
}

impl Lineage {
    /// Whether the state of `version` in the era `id` is in the past of this database.
    pub fn holds(&self, id: &EraId, version: Version) -> bool {
        let known = self.eras.iter().find(|era| era.id == *id);
        known.is_some_and(|era| (era.first..=era.until).contains(&version) && version <= self.now)
    }

    /// Whether no era was ever recorded.
    pub fn is_empty(&self) -> bool {
        self.eras.is_empty()
    }

    /// The newest era, to which later commits belong; nothing if none was ever recorded.
    pub fn newest(&self) -> Option<EraId> {
        self.eras.last().map(|era| era.id)
    }

    /// How many eras began after the given one; nothing if it is unknown. Files of an old one should be built again
    /// before it is forgotten, which it is after a hundred.
    pub fn age(&self, id: &EraId) -> Option<usize> {
        let newer = self.eras.iter().rev().position(|era| era.id == *id)?;
        Some(newer)
    }

    /// Whether the change stream has all commits after `version`.
    pub fn has_changes_since(&self, version: Version) -> bool {
        self.trimmed <= version
    }

    /// The record at the version of `read`; empty if there is none.
    ///
    /// # Errors
    /// [`DataError::Corrupt`] for an unreadable record.
    pub fn load(read: &(impl Read + ?Sized)) -> Result<Self, DataError> {
        let now = read.version();
        match read.get(LINEAGE)? {
            None => Ok(Self {
                now,
                ..Self::default()
            }),
            Some(bytes) => Self::decode(&bytes, now)
                .ok_or_else(|| DataError::corrupt("the record of eras is malformed")),
        }
    }

    /// Decodes what [`Lineage::encode`] returns; `now` is the version at which it was read.
    pub fn decode(mut bytes: &[u8], now: Version) -> Option<Self> {
        fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
            let (head, rest) = bytes.split_first_chunk::<N>()?;
            *bytes = rest;
            Some(*head)
        }
        let [format, count] = take::<2>(&mut bytes)?;
        if format != FORMAT {
            return None;
        }
        let mut eras = Vec::with_capacity(count.into());
        for _ in 0..count {
            eras.push(Era {
                id: take(&mut bytes)?,
                first: u64::from_be_bytes(take(&mut bytes)?),
                until: u64::from_be_bytes(take(&mut bytes)?),
            });
        }
        let trimmed = u64::from_be_bytes(take(&mut bytes)?);
        bytes.is_empty().then_some(Self { eras, trimmed, now })
    }

    /// The stored record.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![FORMAT, self.eras.len() as u8];
        for era in &self.eras {
            bytes.extend_from_slice(&era.id);
            bytes.extend_from_slice(&era.first.to_be_bytes());
            bytes.extend_from_slice(&era.until.to_be_bytes());
        }
        bytes.extend_from_slice(&self.trimmed.to_be_bytes());
        bytes
    }

    /// Ends the newest era at `version` and begins another one there.
    pub fn begin(&mut self, version: Version) -> EraId {
        if let Some(newest) = self.eras.last_mut() {
            newest.until = newest.until.min(version);
        }
        if self.eras.len() == MAX_ERAS {
            self.eras.remove(0);
        }
        let id = *uuid::Uuid::now_v7().as_bytes();
        self.eras.push(Era {
            id,
            first: version,
            until: Version::MAX,
        });
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_comes_back_and_no_bytes_make_it_panic() {
        let mut lineage = Lineage::default();
        for version in 0..2 * MAX_ERAS as u64 {
            lineage.begin(version);
        }
        lineage.trimmed = 7;
        assert_eq!(lineage.eras.len(), MAX_ERAS);
        let bytes = lineage.encode();
        assert_eq!(Lineage::decode(&bytes, 0), Some(lineage));
        for cut in 0..bytes.len() {
            assert_eq!(Lineage::decode(&bytes[..cut], 0), None);
        }
    }
}
