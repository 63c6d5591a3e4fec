//! A set of numbers, most of which are consecutive.

use std::collections::BTreeMap;

/// Number of runs that may grow at a time: those of a few types or labels, whose ids arrive interleaved.
const GROWING: usize = 4;

/// Numbers, stored as the runs in which they arrive. Memory: one entry a run; a number that extends a run costs no
/// search.
#[derive(Debug, Default)]
pub(super) struct Runs {
    /// Start and end (exclusive). The run that grew last is the first.
    growing: Vec<(u64, u64)>,
    /// By their first number: the end (exclusive).
    settled: BTreeMap<u64, u64>,
}

impl Runs {
    /// Adds a number. Numbers are new each time.
    pub(super) fn insert(&mut self, number: u64) {
        match self.growing.iter().position(|(_, end)| *end == number) {
            Some(at) => {
                self.growing[at].1 += 1;
                self.growing.swap(0, at);
            }
            None => {
                if self.growing.len() == GROWING
                    && let Some((start, end)) = self.growing.pop()
                {
                    self.settled.insert(start, end);
                }
                self.growing.insert(0, (number, number + 1));
            }
        }
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        let holds = |run: &(u64, u64)| (run.0..run.1).contains(&number);
        if self.growing.iter().any(holds) {
            return true;
        }
        let before = self.settled.range(..=number).next_back();
        before.is_some_and(|(_, end)| number < *end)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Numbers from several interleaved counters, each of which increments or jumps.
        #[test]
        fn it_is_a_set(steps in prop::collection::vec((0..7_u64, 0..4_u64), 0..300)) {
            let mut next: Vec<u64> = (0..7).map(|counter| counter * 1_000_000).collect();
            let (mut runs, mut set) = (Runs::default(), BTreeSet::new());
            for (counter, leap) in steps {
                let number = &mut next[counter as usize];
                *number += leap / 3 * 5;
                runs.insert(*number);
                set.insert(*number);
                *number += 1;
                prop_assert!(runs.contains(*number - 1) && !runs.contains(*number));
            }
            for number in set.iter().flat_map(|number| [number.saturating_sub(1), *number, number + 1]) {
                prop_assert_eq!(runs.contains(number), set.contains(&number), "{}", number);
            }
        }
    }
}
