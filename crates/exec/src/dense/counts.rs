//! A count per node id, and the list of ids with a count.

use std::cell::RefCell;

use super::pool::{Pool, PooledBytes};

thread_local! {
    static POOL: RefCell<Pool<Arrays>> = RefCell::default();
}

/// All counts are zero except those of the ids that were met.
#[derive(Default)]
struct Arrays {
    counts: Vec<u64>,
    met: Vec<u32>,
}

/// Counts by node id, initially all zero. Memory: 8 bytes per id up to the largest, pooled by the thread between
/// queries, and 4 per id that has a count; clearing costs as much as counting did.
///
/// Sums are not checked: the caller guarantees that the total fits into 64 bits.
pub(crate) struct Counts(Arrays);

impl Counts {
    /// No counts; reuses a pooled array if it has room for at most `most` ids.
    pub(crate) fn take(most: usize) -> Self {
        let pool = POOL.with(|pool| pool.borrow_mut().take());
        Self(
            pool.filter(|pool| pool.counts.len() <= most)
                .unwrap_or_default(),
        )
    }

    /// Grows to hold ids below `bound`.
    pub(crate) fn cover(&mut self, bound: u32) {
        let bound = bound as usize;
        if bound > self.0.counts.len() {
            let room = bound.max(64).next_power_of_two();
            self.0.counts.resize(room, 0);
        }
    }

    /// Capacity in ids.
    pub(crate) fn bound(&self) -> usize {
        self.0.counts.len()
    }

    /// Adds `times`, which is not zero, to the count of each of these ids; the capacity must suffice.
    #[inline]
    pub(crate) fn add_all(&mut self, ids: &[u32], times: u64) {
        debug_assert!(times > 0);
        let Arrays { counts, met } = &mut self.0;
        for &id in ids {
            let count = &mut counts[id as usize];
            if *count == 0 {
                met.push(id);
            }
            *count += times;
        }
    }

    /// The ids that have a count, in the order in which they were met.
    pub(crate) fn met(&self) -> &[u32] {
        &self.0.met
    }

    /// The count of an id.
    pub(crate) fn get(&self, id: u32) -> u64 {
        self.0.counts.get(id as usize).copied().unwrap_or(0)
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.0.counts.len() * 8 + self.0.met.capacity() * 4
    }
}

impl Drop for Counts {
    fn drop(&mut self) {
        let Some(place) =
            PooledBytes::try_reserve(self.0.counts.capacity() * 8 + self.0.met.capacity() * 4)
        else {
            return;
        };
        let mut arrays = std::mem::take(&mut self.0);
        if arrays.met.len() > arrays.counts.len() / 8 {
            arrays.counts.fill(0);
        } else {
            let counts = &mut arrays.counts;
            arrays.met.iter().for_each(|id| counts[*id as usize] = 0);
        }
        arrays.met.clear();
        // A thread that ends pools nothing.
        let _ = POOL.try_with(|pool| pool.borrow_mut().put(arrays, place));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn counts_are_zero_again_when_they_are_taken_again() {
        for round in 1..20_u32 {
            let mut counts = Counts::take(1 << 20);
            let mut model = BTreeMap::new();
            let ids: Vec<u32> = (0..300).map(|n| n * (round * 37 + 1) % 5_000).collect();
            counts.cover(5_000);
            for piece in ids.chunks(7) {
                counts.add_all(piece, u64::from(round));
                for id in piece {
                    *model.entry(*id).or_insert(0) += u64::from(round);
                }
            }
            let mut met = counts.met().to_vec();
            met.sort_unstable();
            assert!(met.iter().eq(model.keys()), "{round}");
            assert!(model.iter().all(|(id, count)| counts.get(*id) == *count));
        }
    }
}
