//! Which granules were changed lately, and by which commit: the validation of optimistic transactions.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::{Granule, GuardMode, StorageError, Version};

/// Granules that the table keeps before it forgets the oldest: about 64 bytes each.
const MAX_ENTRIES: usize = 2_000_000;

/// A transaction's footprint: each granule once, with the modes in which it was declared.
#[derive(Debug, Default)]
pub struct Footprint {
    modes: FxHashMap<Granule, u8>,
}

const READ: u8 = 1;
const WRITE: u8 = 2;
const ADD: u8 = 4;

impl Footprint {
    /// Declares a granule.
    pub fn declare(&mut self, granule: Granule, mode: GuardMode) {
        *self.modes.entry(granule).or_default() |= match mode {
            GuardMode::Read => READ,
            GuardMode::Write => WRITE,
            GuardMode::Add => ADD,
        };
    }

    /// Number of granules.
    pub fn len(&self) -> usize {
        self.modes.len()
    }

    /// Whether nothing was declared.
    pub fn is_empty(&self) -> bool {
        self.modes.is_empty()
    }

    fn observed(&self) -> impl Iterator<Item = Granule> {
        self.modes
            .iter()
            .filter(|(_, modes)| **modes & (READ | WRITE) != 0)
            .map(|(granule, _)| *granule)
    }

    fn changed(&self) -> impl Iterator<Item = Granule> {
        self.modes
            .iter()
            .filter(|(_, modes)| **modes & (WRITE | ADD) != 0)
            .map(|(granule, _)| *granule)
    }
}

/// Granule → the last commit that changed it, for commits above a floor.
///
/// Memory: about 64 bytes a change inside the window, at most [`MAX_ENTRIES`] changes. A transaction whose snapshot
/// is older than the floor can no longer be checked and is refused if it observed anything.
#[derive(Debug, Default)]
pub struct GuardTable {
    last_change: FxHashMap<Granule, Version>,
    /// The changes in commit order, for forgetting them.
    history: VecDeque<(Version, Granule)>,
    floor: Version,
}

impl GuardTable {
    /// Whether a transaction that read `snapshot` may commit.
    pub fn check(&self, snapshot: Version, footprint: &Footprint) -> Result<(), StorageError> {
        for granule in footprint.observed() {
            if snapshot < self.floor {
                return Err(StorageError::Conflict {
                    granule,
                    version: self.floor,
                });
            }
            if let Some(&version) = self.last_change.get(&granule)
                && version > snapshot
            {
                return Err(StorageError::Conflict { granule, version });
            }
        }
        Ok(())
    }

    /// Notes what the commit `version` changed.
    pub fn record(&mut self, version: Version, footprint: &Footprint) {
        for granule in footprint.changed() {
            self.last_change.insert(granule, version);
            self.history.push_back((version, granule));
        }
    }

    /// Takes over the changes of `later`, whose versions are all above those kept here.
    pub fn append(&mut self, later: GuardTable) {
        self.last_change.extend(later.last_change);
        self.history.extend(later.history);
    }

    /// Forgets what no transaction needs any more: `oldest` is the oldest snapshot of a live one.
    pub fn forget_before(&mut self, oldest: Version) {
        while let Some(&(version, granule)) = self.history.front() {
            if version > oldest && self.history.len() <= MAX_ENTRIES {
                break;
            }
            self.floor = self.floor.max(if version > oldest {
                version
            } else {
                self.floor
            });
            self.history.pop_front();
            if self.last_change.get(&granule) == Some(&version) {
                self.last_change.remove(&granule);
            }
        }
        if self.history.is_empty() && self.last_change.capacity() > 4096 {
            self.last_change = FxHashMap::default();
            self.history = VecDeque::new();
        }
    }

    /// Refuses every transaction that observed anything at a snapshot before `version`: something changed that has no
    /// footprint.
    pub fn raise_floor(&mut self, version: Version) {
        self.floor = self.floor.max(version);
    }

    /// Changes kept.
    pub fn len(&self) -> usize {
        self.history.len()
    }

    /// Whether no change is kept.
    pub fn is_empty(&self) -> bool {
        self.history.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn footprint(modes: &[(u128, GuardMode)]) -> Footprint {
        let mut footprint = Footprint::default();
        for &(granule, mode) in modes {
            footprint.declare(Granule(granule), mode);
        }
        footprint
    }

    /// A change that no live transaction can be older than is forgotten; the others stay.
    #[test]
    fn the_window_ends_at_the_oldest_snapshot() {
        let mut table = GuardTable::default();
        for version in 1..=10 {
            table.record(
                version,
                &footprint(&[
                    (u128::from(version), GuardMode::Write),
                    (99, GuardMode::Add),
                ]),
            );
        }
        table.forget_before(4);
        assert_eq!(table.len(), 12);
        let reads_5 = footprint(&[(5, GuardMode::Read)]);
        assert!(matches!(
            table.check(4, &reads_5),
            Err(StorageError::Conflict { version: 5, .. })
        ));
        assert!(table.check(5, &reads_5).is_ok());
        assert!(table.check(4, &footprint(&[(4, GuardMode::Read)])).is_ok());
        let reads_99 = footprint(&[(99, GuardMode::Read)]);
        assert!(matches!(
            table.check(9, &reads_99),
            Err(StorageError::Conflict { version: 10, .. })
        ));
        table.forget_before(10);
        assert!(table.is_empty());
        assert!(table.check(10, &reads_99).is_ok());
    }

    /// A full table forgets its oldest changes and refuses whoever would have needed them.
    #[test]
    fn a_full_table_refuses_old_observers() {
        let mut table = GuardTable::default();
        for version in 1..=(MAX_ENTRIES as u64 + 5) {
            table.record(
                version,
                &footprint(&[(u128::from(version), GuardMode::Write)]),
            );
        }
        table.forget_before(0);
        assert_eq!(table.len(), MAX_ENTRIES);
        let unrelated = footprint(&[(u128::MAX, GuardMode::Read)]);
        assert!(matches!(
            table.check(4, &unrelated),
            Err(StorageError::Conflict { version: 5, .. })
        ));
        assert!(table.check(5, &unrelated).is_ok());
        assert!(table.check(0, &footprint(&[(7, GuardMode::Add)])).is_ok());
    }

    /// Reads and writes collide with changes, additions with nothing.
    #[test]
    fn additions_pass() {
        for (committed, changes) in [
            (GuardMode::Read, false),
            (GuardMode::Write, true),
            (GuardMode::Add, true),
        ] {
            let mut table = GuardTable::default();
            table.record(1, &footprint(&[(7, committed)]));
            for (mode, observes) in [
                (GuardMode::Read, true),
                (GuardMode::Write, true),
                (GuardMode::Add, false),
            ] {
                assert_eq!(
                    table.check(0, &footprint(&[(7, mode)])).is_err(),
                    changes && observes,
                    "{mode:?} after {committed:?}"
                );
            }
        }
    }
}
