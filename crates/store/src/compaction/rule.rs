//! What a merge keeps.

use isomer_storage::Version;

use crate::Erasures;

/// Which versions may still be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Readable {
    /// Versions of snapshots that are held, ascending.
    pub snapshots: Vec<Version>,
    /// Every version from here on may be read, and those to come. At most the last published version.
    pub from: Version,
}

/// Says which versions may still be read. Whoever answers refuses older ones to new readers from then on.
pub trait Horizon: Send + Sync {
    /// Which versions may still be read.
    fn readable(&self) -> Readable;
}

impl Horizon for Readable {
    fn readable(&self) -> Readable {
        self.clone()
    }
}

impl Readable {
    /// Whether a reader may see what lies at `version` and was replaced or taken out at `superseded` (`None`: never).
    #[inline]
    pub fn sees(&self, version: Version, superseded: Option<Version>) -> bool {
        let Some(superseded) = superseded else {
            return true;
        };
        if superseded > self.from {
            return true;
        }
        let at = self.snapshots.partition_point(|snap| *snap < version);
        self.snapshots
            .get(at)
            .is_some_and(|snap| *snap < superseded)
    }

    /// No reader is older.
    pub fn floor(&self) -> Version {
        self.snapshots
            .first()
            .map_or(self.from, |first| self.from.min(*first))
    }
}

/// What becomes of an entry in a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Nothing took its place.
    Current,
    /// Readers older than this version may see it.
    Until(Version),
    /// Nobody can see it.
    Gone,
}

/// Follows the entries of a merge and says of each whether it stays.
pub(crate) struct Rule<'a> {
    pub(crate) readable: &'a Readable,
    /// Everything that is erased anywhere in the levels.
    pub(crate) erasures: &'a Erasures,
    /// The next younger version of the key at hand.
    younger: Option<Version>,
}

impl<'a> Rule<'a> {
    pub(crate) fn new(readable: &'a Readable, erasures: &'a Erasures) -> Self {
        Self {
            readable,
            erasures,
            younger: None,
        }
    }

    /// Another key begins.
    pub(crate) fn next_key(&mut self) {
        self.younger = None;
    }

    /// What becomes of the entry; entries of a key come from the newest on.
    pub(crate) fn fate(&mut self, key: &[u8], version: Version) -> Fate {
        let mut superseded = self.younger;
        self.younger = Some(version);
        if !self.erasures.is_empty()
            && let Some(erased) = self.erasures.oldest_after(key, version)
        {
            superseded = Some(superseded.map_or(erased, |younger| younger.min(erased)));
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
    fn a_version_stays_while_somebody_may_see_it() {
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
