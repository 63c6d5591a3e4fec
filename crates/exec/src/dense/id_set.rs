//! A set of numbers that are mostly small.

use std::marker::PhantomData;

use isomer_value::NodeId;
use rustc_hash::FxHashSet;

use super::Marks;

/// Numbers below this are stored as bits: at most 8 MiB of them.
const DENSE: u64 = 1 << 26;

/// A value that is identified by a number.
pub(crate) trait Numbered: Copy {
    /// The number; unique per value.
    fn number(self) -> u64;
}

impl Numbered for NodeId {
    fn number(self) -> u64 {
        self.0
    }
}

impl Numbered for i64 {
    fn number(self) -> u64 {
        self as u64 // negative ones become very large
    }
}

/// A set of node ids or integers: a bitmap for small numbers, a hash set for others.
pub(crate) struct IdSet<T> {
    small: Marks,
    large: FxHashSet<u64>,
    of: PhantomData<T>,
}

impl<T> Default for IdSet<T> {
    fn default() -> Self {
        Self {
            small: Marks::take(),
            large: FxHashSet::default(),
            of: PhantomData,
        }
    }
}

impl<T: Numbered> IdSet<T> {
    /// Inserts it; returns whether it is new.
    #[inline]
    pub(crate) fn insert(&mut self, item: T) -> bool {
        match item.number() {
            small if small < DENSE => self.small.insert(small as u32),
            large => self.large.insert(large),
        }
    }

    /// Whether the set contains it.
    pub(crate) fn contains(&self, item: T) -> bool {
        match item.number() {
            small if small < DENSE => self.small.contains(small as u32),
            large => self.large.contains(&large),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_is_found_once() {
        let numbers = [0, 1, -1, 63, 64, i64::MIN, i64::MAX, 1 << 26, (1 << 26) - 1];
        for _ in 0..2 {
            let mut set = IdSet::default();
            assert!(numbers.iter().all(|number| set.insert(*number)));
            assert!(numbers.iter().all(|number| !set.insert(*number)));
            assert!(numbers.iter().all(|number| set.contains(*number)));
            assert!(!set.contains(7) && !set.contains(1 << 40));
        }
    }
}
