//! The granules that recent commits changed: validation of optimistic transactions.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::{Granule, GuardMode, StorageError, Version};

/// Granules that the table keeps before it drops the oldest.
const MAX_ENTRIES: usize = 2_000_000;

/// Capacity that the map keeps when it is cleared.
const MIN_CAPACITY: usize = 1 << 16;

/// Comparisons that a check spends on commits outside of the map before it adds them to the map.
const MAX_COMPARES: usize = 32_768;

/// The granules that a transaction declared. A granule may occur more than once.
#[derive(Debug, Default)]
pub struct GuardSet {
    /// Declared to be read or written.
    observed: Vec<Granule>,
    /// Declared to be written or added to.
    changed: Vec<Granule>,
}

impl GuardSet {
    /// Declares a granule.
    pub fn declare(&mut self, granule: Granule, mode: GuardMode) {
        if mode != GuardMode::Add {
            self.observed.push(granule);
        }
        if mode != GuardMode::Read {
            self.changed.push(granule);
        }
    }

    /// What the transaction changes.
    pub fn changed(&self) -> &[Granule] {
        &self.changed
    }

    /// Whether nothing was declared.
    pub fn is_empty(&self) -> bool {
        self.observed.is_empty() && self.changed.is_empty()
    }
}

/// The granules changed by the commits above a floor.
///
/// Most commits are dropped from the table before a transaction that started earlier is validated: their
/// changes are kept as plain lists, in commit order. Only if many lists have to be searched are they added to a
/// map from granule to last change.
///
/// Memory: 16 bytes per change inside the window and about 40 more once it is in the map, at most
/// [`MAX_ENTRIES`] changes. A transaction whose snapshot is older than the floor can no longer be validated and
/// is refused if it observed anything.
#[derive(Debug, Default)]
pub struct GuardTable {
    /// The changes of each commit, oldest first.
    history: VecDeque<(Version, Box<[Granule]>)>,
    /// Number of commits at the front of `history` that are in `last_change`.
    mapped: usize,
    last_change: FxHashMap<Granule, Version>,
    /// Changes in `history`.
    count: usize,
    floor: Version,
}

impl GuardTable {
    /// Whether a transaction that read `snapshot` may commit.
    pub fn check(&mut self, snapshot: Version, footprint: &GuardSet) -> Result<(), StorageError> {
        let observed = footprint.observed.as_slice();
        let Some(&any) = observed.first() else {
            return Ok(());
        };
        // Changes up to the floor were dropped, so a conflict cannot be excluded any more. Refusing is
        // always correct: the transaction is repeated with a newer snapshot.
        if snapshot < self.floor {
            return Err(StorageError::Conflict {
                granule: any,
                version: self.floor,
            });
        }
        // From the newest commit back to the snapshot. With few live
        // transactions these are few commits.
        let since = self.history.iter().skip(self.mapped).rev();
        let since = since.take_while(|(version, _)| *version > snapshot);
        // Comparing contiguous granules costs less than hashing them, up to this product. Beyond it a
        // scan of a large footprint against many commits would be quadratic, with the writer lock held.
        let compares: usize = since
            .clone()
            .map(|(_, changed)| changed.len())
            .sum::<usize>()
            * observed.len();
        if compares > MAX_COMPARES {
            self.map();
        } else {
            for (version, changed) in since {
                if let Some(&granule) = changed.iter().find(|granule| observed.contains(granule)) {
                    return Err(StorageError::Conflict {
                        granule,
                        version: *version,
                    });
                }
            }
        }
        // The commits that are in the map. If it was extended above, these are all; a granule has its
        // last change there, and if that is not after the snapshot, no earlier change is.
        for &granule in observed {
            if let Some(&version) = self.last_change.get(&granule)
                && version > snapshot
            {
                return Err(StorageError::Conflict { granule, version });
            }
        }
        Ok(())
    }

    /// Adds all commits to the map.
    fn map(&mut self) {
        for (version, changed) in self.history.iter().skip(self.mapped) {
            for granule in changed {
                self.last_change.insert(*granule, *version);
            }
        }
        self.mapped = self.history.len();
    }

    /// Records the changes of the commit `version`.
    pub fn record(&mut self, version: Version, footprint: &GuardSet) {
        if footprint.changed.is_empty() {
            return;
        }
        // Only a list is written: most commits leave the table before a
        // validation has to look into the map.
        self.count += footprint.changed.len();
        self.history
            .push_back((version, footprint.changed.as_slice().into()));
    }

    /// Records the changes of the commit `version` of another process.
    pub fn record_remote(
        &mut self,
        version: Version,
        changed: impl ExactSizeIterator<Item = Granule>,
    ) {
        if changed.len() > 0 {
            self.count += changed.len();
            self.history.push_back((version, changed.collect()));
        }
    }

    /// Moves the changes out of `later`, whose versions are all above those kept here.
    pub fn append(&mut self, later: &mut GuardTable) {
        self.count += later.count;
        // Behind the mapped prefix of `history`, so `mapped` stays correct;
        // the map of `later` is dropped.
        self.history.extend(later.history.drain(..));
        later.clear();
    }

    /// Drops all changes. The map keeps its capacity unless that is large: the leader of a group may be any
    /// thread, and a map reallocated by each of them would leave memory in each thread's heap arena.
    pub fn clear(&mut self) {
        self.history.clear();
        (self.mapped, self.count) = (0, 0);
        if self.last_change.capacity() > MIN_CAPACITY {
            self.last_change = FxHashMap::default();
            self.history = VecDeque::new();
        } else if !self.last_change.is_empty() {
            self.last_change.clear();
        }
    }

    /// Drops changes that no transaction needs any more: `oldest` is the oldest snapshot of a live one.
    pub fn forget_before(&mut self, oldest: Version) {
        // The usual case with no transaction older than the last commit: everything is dropped at once,
        // without looking into the map.
        if let Some((last, _)) = self.history.back()
            && *last <= oldest
        {
            return self.clear();
        }
        while let Some((version, changed)) = self.history.front() {
            let version = *version;
            if version > oldest && self.count <= MAX_ENTRIES {
                break;
            }
            if version > oldest {
                self.floor = self.floor.max(version);
            }
            self.count -= changed.len();
            // Mapped commits are at the front of `history`, so the front one is
            // in the map as long as any is.
            if self.mapped > 0 {
                self.mapped -= 1;
                for granule in changed {
                    // A later commit may have changed the same granule; its version must stay.
                    if self.last_change.get(granule) == Some(&version) {
                        self.last_change.remove(granule);
                    }
                }
            }
            self.history.pop_front();
        }
    }

    /// Refuses every transaction that observed anything at a snapshot before `version`: a change without a
    /// footprint took place.
    pub fn raise_floor(&mut self, version: Version) {
        self.floor = self.floor.max(version);
    }

    /// Changes kept.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether no change is kept.
    pub fn is_empty(&self) -> bool {
        self.history.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn footprint(modes: &[(u128, GuardMode)]) -> GuardSet {
        let mut footprint = GuardSet::default();
        for &(granule, mode) in modes {
            footprint.declare(Granule(granule), mode);
        }
        footprint
    }

    /// A change older than every live transaction is dropped; the others stay.
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

    /// A full table drops its oldest changes and refuses the transactions that would need them.
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

    /// The result is the same whether commits are searched one by one or in the map, also while some are
    /// dropped.
    #[test]
    fn large_footprints_find_the_same_conflicts_as_small_ones() {
        let mut table = GuardTable::default();
        for version in 1..=200_u64 {
            let changes: Vec<_> = (0..10)
                .map(|at| (u128::from(version * 10 + at), GuardMode::Add))
                .collect();
            table.record(version, &footprint(&changes));
            let oldest = version.saturating_sub(50);
            table.forget_before(oldest);
            let reads = |granule: u64, others: u128| {
                let others = (0..others).map(|other| ((1 << 64) + other, GuardMode::Read));
                let own = (u128::from(granule), GuardMode::Read);
                footprint(&others.chain([own]).collect::<Vec<_>>())
            };
            let changed = version - version / 7 % 40;
            if changed > oldest {
                for others in [0, 5, 500] {
                    let reads = reads(changed * 10 + 3, others);
                    assert!(matches!(
                        table.check(changed - 1, &reads),
                        Err(StorageError::Conflict { version, granule })
                            if version == changed && granule.0 == u128::from(changed * 10 + 3)
                    ));
                    assert!(table.check(changed, &reads).is_ok());
                }
            }
        }
        table.forget_before(200);
        assert!(table.is_empty() && table.last_change.is_empty());
    }

    /// Reads and writes conflict with changes, additions with nothing.
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
