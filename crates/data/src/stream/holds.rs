//! Which part of the change stream is retained, and for how long.

use std::collections::{BTreeMap, VecDeque};

use isomer_storage::Version;

use crate::DataStoreOptions;

/// The versions above which the stream is needed, with the number of readers, and its growth.
#[derive(Debug, Default)]
pub(crate) struct Holds {
    readers: BTreeMap<Version, usize>,
    /// Readers whose end is near: they are kept however much is committed until then.
    firm: BTreeMap<Version, usize>,
    /// The length of the stream at each check, oldest first.
    past: VecDeque<Point>,
    /// The clock at the last check, and the time since the first.
    looked_ms: Option<u64>,
    age_ms: u64,
}

/// Most time that counts between two checks: checks happen at commits, and a reader is not late while there is nothing
/// to read.
pub(crate) const MAX_BETWEEN_CHECKS_MS: u64 = 60 * 60 * 1000;

/// A check of the stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) version: Version,
    /// Bytes of entries since opening.
    pub(crate) total_bytes: u64,
    /// Since the first check.
    at_ms: u64,
}

impl Holds {
    /// The lowest version that a reader of this process needs.
    pub(crate) fn lowest(&self) -> Option<Version> {
        let firsts = [self.readers.keys().next(), self.firm.keys().next()];
        firsts.into_iter().flatten().min().copied()
    }

    /// Up to where the stream may be trimmed, at a version and after `bytes` written since opening. `others` are the
    /// versions that other processes need.
    pub(crate) fn trim_limit(
        &mut self,
        version: Version,
        total_bytes: u64,
        options: &DataStoreOptions,
        others: &[Version],
    ) -> Version {
        let at_ms = self.age(options.clock.now_ms());
        self.past.push_back(Point {
            version,
            total_bytes,
            at_ms,
        });
        let last = |is_behind: &dyn Fn(&Point) -> bool| {
            let count = self.past.partition_point(is_behind);
            Some(self.past[count.checked_sub(1)?].version)
        };
        let beyond = |most: u64| last(&|point| total_bytes - point.total_bytes >= most);
        let oldest_ms = at_ms.saturating_sub(options.stream_hold_ms);
        // Commits before a check that is too long ago are too old; later ones may not be.
        let too_old = last(&|point| point.at_ms < oldest_ms).unwrap_or(0);
        let too_much = beyond(options.stream_hold_bytes).map_or(0, |version| version + 1);
        let unread = version
            .saturating_sub(options.stream_retention)
            .max(beyond(options.stream_retention_bytes).unwrap_or(0));
        let waited_for = too_old.max(too_much);
        let reader = self
            .readers
            .range(waited_for..)
            .next()
            .map(|(held, _)| held);
        let others = others.iter().filter(|held| **held >= waited_for).min();
        let firm = self.firm.keys().next();
        let upto = [reader, others, firm]
            .into_iter()
            .flatten()
            .fold(unread, |upto, held| upto.min(*held));
        // Trimmed parts need not be found again.
        while self.past.front().is_some_and(|point| point.version <= upto) {
            self.past.pop_front();
        }
        upto
    }

    /// The time by which readers are judged. It never falls, and setting the clock (the first time synchronisation of a
    /// device, a machine that was suspended) does not make all readers late.
    pub(crate) fn age(&mut self, now_ms: u64) -> u64 {
        let passed = match self.looked_ms.replace(now_ms) {
            Some(before) => now_ms.saturating_sub(before).min(MAX_BETWEEN_CHECKS_MS),
            None => 0,
        };
        self.age_ms += passed;
        self.age_ms
    }

    pub(crate) fn of(&mut self, is_firm: bool) -> &mut BTreeMap<Version, usize> {
        match is_firm {
            true => &mut self.firm,
            false => &mut self.readers,
        }
    }
}
