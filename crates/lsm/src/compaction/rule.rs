//! Which versions a compaction keeps.

use isomer_storage::Version;

use crate::RangeTombstones;

/// The versions that may still be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readable {
    /// Versions of snapshots that are held, ascending.
    pub snapshots: Vec<Version>,
    /// Every version from here on may be read, including future ones. At most the last published version.
    pub from: Version,
}

/// Provides the versions that may still be read. The implementation refuses older ones to new readers from then
/// on.
pub trait Horizon: Send + Sync {
    /// The versions that may still be read.
    fn readable(&self) -> Readable;
}

impl Horizon for Readable {
    fn readable(&self) -> Readable {
        self.clone()
    }
}

impl Readable {
    /// Whether a reader may see an entry written at `version` and replaced or deleted at `superseded` (`None`:
    /// never).
    #[inline]
    pub fn sees(&self, version: Version, superseded: Option<Version>) -> bool {
        let Some(superseded) = superseded else {
            return true;
        };
        // A reader may be at `superseded - 1`, which is at or after `from`.
        if superseded > self.from {
            return true;
        }
        // The first snapshot that has the entry decides: if it is at or after the superseding
        // version, all later ones are.
        let at = self.snapshots.partition_point(|snap| *snap < version);
        self.snapshots
            .get(at)
            .is_some_and(|snap| *snap < superseded)
    }

    /// No reader is older than this.
    pub fn floor(&self) -> Version {
        self.snapshots
            .first()
            .map_or(self.from, |first| self.from.min(*first))
    }
}

/// What a compaction does with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It has not been superseded.
    Current,
    /// It is superseded; readers older than this version may see it.
    Until(Version),
    /// It is not visible to any reader.
    Gone,
}

/// Follows the entries of a compaction and decides which stay.
pub(crate) struct Rule<'a> {
    pub(crate) readable: &'a Readable,
    /// All range tombstones in the levels.
    pub(crate) range_tombstones: &'a RangeTombstones,
    /// The next newer version of the current key.
    younger: Option<Version>,
}

impl<'a> Rule<'a> {
    pub(crate) fn new(readable: &'a Readable, range_tombstones: &'a RangeTombstones) -> Self {
        Self {
            readable,
            range_tombstones,
            younger: None,
        }
    }

    /// Starts the next key.
    pub(crate) fn next_key(&mut self) {
        self.younger = None;
    }

    /// Decides about the entry; entries of a key come newest first.
    pub(crate) fn fate(&mut self, key: &[u8], version: Version) -> Fate {
        // An entry that is dropped still supersedes the older ones of its key.
        let mut superseded = self.younger;
        self.younger = Some(version);
        if !self.range_tombstones.is_empty()
            && let Some(deleted_at) = self.range_tombstones.oldest_after(key, version)
        {
            // Whatever came first ended the entry.
            superseded = Some(superseded.map_or(deleted_at, |younger| younger.min(deleted_at)));
        }
        match superseded {
            None => Fate::Current,
            Some(until) if self.readable.sees(version, superseded) => Fate::Until(until),
            Some(_) => Fate::Gone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_stays_while_a_reader_may_see_it() {
        let readable = Readable {
            snapshots: vec![5, 9],
            from: 20,
        };
        assert_eq!(readable.floor(), 5);
        for version in 0..25 {
            assert!(readable.sees(version, None));
            for superseded in version + 1..30 {
                let seen = (version..superseded).any(|at| [5, 9].contains(&at) || at >= 20);
                assert_eq!(readable.sees(version, Some(superseded)), seen);
            }
        }
    }
}
