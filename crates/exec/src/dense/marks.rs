//! Sets of node ids, and a number per node id, pooled by the thread between queries.
//!
//! A search in a graph of a million nodes marks a thousand of them: clearing must cost as much as marking, and the
//! memory must be allocated already. Both types grow with the largest id that they meet.

use std::cell::RefCell;

use super::pool::{Pool, PooledBytes};

#[derive(Default)]
struct Shelves {
    bits: Pool<Bits>,
    numbers: Pool<Vec<u32>>,
}

thread_local! {
    static POOL: RefCell<Shelves> = RefCell::default();
}

/// One bit per id, and the list of nonzero words.
#[derive(Default)]
struct Bits {
    words: Vec<u64>,
    /// The words that were zero before an insertion.
    used: Vec<u32>,
}

/// A set of node ids. Memory: one bit per id up to the largest, and 4 bytes per 64 ids that hold one.
#[derive(Default)]
pub(crate) struct Marks(Bits);

impl Marks {
    /// An empty set.
    pub(crate) fn take() -> Self {
        let pool = POOL.with(|pool| pool.borrow_mut().bits.take());
        Self(pool.unwrap_or_default())
    }

    /// Inserts `id`; returns whether it is new.
    #[inline]
    pub(crate) fn insert(&mut self, id: u32) -> bool {
        let at = (id / 64) as usize;
        if at >= self.0.words.len() {
            self.grow(at);
        }
        let word = &mut self.0.words[at];
        let bit = 1 << (id % 64);
        if *word & bit != 0 {
            return false;
        }
        if *word == 0 {
            self.0.used.push(at as u32);
        }
        *word |= bit;
        true
    }

    /// Whether the set contains `id`.
    #[inline]
    pub(crate) fn contains(&self, id: u32) -> bool {
        let word = self.0.words.get((id / 64) as usize);
        word.is_some_and(|word| word & (1 << (id % 64)) != 0)
    }

    /// Clears the set.
    pub(crate) fn clear(&mut self) {
        let Bits { words, used } = &mut self.0;
        if used.len() > words.len() / 8 {
            words.fill(0);
        } else {
            used.iter().for_each(|at| words[*at as usize] = 0);
        }
        used.clear();
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.0.words.len() * 8 + self.0.used.len() * 4
    }

    #[cold]
    fn grow(&mut self, at: usize) {
        self.0.words.resize((at + 1).next_power_of_two(), 0);
    }
}

impl Drop for Marks {
    fn drop(&mut self) {
        let bytes = self.0.words.capacity() * 8 + self.0.used.capacity() * 4;
        let Some(place) = PooledBytes::try_reserve(bytes) else {
            return;
        };
        self.clear();
        let bits = std::mem::take(&mut self.0);
        // A thread that ends pools nothing.
        let _ = POOL.try_with(|pool| pool.borrow_mut().bits.put(bits, place));
    }
}

/// A number per node id; an id that was never set reads as an arbitrary number. Memory: 4 bytes per id up to the
/// largest.
#[derive(Default)]
pub(crate) struct Numbers(Vec<u32>);

impl Numbers {
    /// No number is set.
    pub(crate) fn take() -> Self {
        let pool = POOL.with(|pool| pool.borrow_mut().numbers.take());
        Self(pool.unwrap_or_default())
    }

    /// Sets the number of `id`.
    #[inline]
    pub(crate) fn put(&mut self, id: u32, number: u32) {
        let at = id as usize;
        if at >= self.0.len() {
            self.grow(at);
        }
        self.0[at] = number;
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.0.len() * 4
    }

    /// The last number set for `id`.
    #[inline]
    pub(crate) fn get(&self, id: u32) -> u32 {
        self.0.get(id as usize).copied().unwrap_or(0)
    }

    #[cold]
    fn grow(&mut self, at: usize) {
        self.0.resize((at + 1).next_power_of_two(), 0);
    }
}

impl Drop for Numbers {
    fn drop(&mut self) {
        let Some(place) = PooledBytes::try_reserve(self.0.capacity() * 4) else {
            return;
        };
        let numbers = std::mem::take(&mut self.0);
        let _ = POOL.try_with(|pool| pool.borrow_mut().numbers.put(numbers, place));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_empty_again_when_it_is_taken_again() {
        for round in 0..20_u32 {
            let mut marks = Marks::take();
            let ids: Vec<u32> = (0..200).map(|n| n * (round * 37 + 1) % 100_000).collect();
            let mut seen = std::collections::BTreeSet::new();
            for &id in &ids {
                assert_eq!(marks.contains(id), seen.contains(&id), "{round} {id}");
                assert_eq!(marks.insert(id), seen.insert(id), "{round} {id}");
                assert!(marks.contains(id));
            }
            if round % 3 == 0 {
                marks.clear();
                assert!(ids.iter().all(|id| !marks.contains(*id)));
                assert!(marks.insert(ids[0]));
            }
        }
    }

    #[test]
    fn numbers_return_the_last_value_set() {
        for _ in 0..3 {
            let mut numbers = Numbers::take();
            for id in [5, 70_000, 5, 12] {
                numbers.put(id, id + 1);
                assert_eq!(numbers.get(id), id + 1);
            }
        }
    }
}
