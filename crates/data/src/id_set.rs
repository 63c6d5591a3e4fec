//! A set of numbers of nodes or relationships.

use roaring::RoaringTreemap;
use rustc_hash::FxHashSet;

/// With more members than this a bitmap uses less memory, and is as fast.
const MAX_HASHED_IDS: usize = 4096;

/// A set of numbers of nodes or relationships.
///
/// A hash table while it has few members, then a compressed bitmap. Memory: up to 80 KiB; beyond that 2 bytes a member
/// at most where many of the numbers are close to each other, and an eighth of a byte where nearly all of them are
/// members.
#[derive(Clone, Debug)]
pub struct IdSet(Form);

#[derive(Clone, Debug)]
enum Form {
    Few(FxHashSet<u64>),
    Many(RoaringTreemap),
}

impl Default for IdSet {
    fn default() -> Self {
        Self(Form::Few(FxHashSet::default()))
    }
}

impl IdSet {
    /// Adds a number; returns whether it was new.
    #[inline]
    pub fn insert(&mut self, id: u64) -> bool {
        match &mut self.0 {
            Form::Few(few) => {
                let fresh = few.insert(id);
                if few.len() > MAX_HASHED_IDS {
                    self.0 = Form::Many(std::mem::take(few).into_iter().collect());
                }
                fresh
            }
            Form::Many(many) => many.insert(id),
        }
    }

    /// Removes a number.
    pub fn remove(&mut self, id: u64) {
        match &mut self.0 {
            Form::Few(few) => few.remove(&id),
            Form::Many(many) => many.remove(id),
        };
    }

    /// Whether a number is a member.
    #[inline]
    pub fn contains(&self, id: u64) -> bool {
        match &self.0 {
            Form::Few(few) => !few.is_empty() && few.contains(&id),
            Form::Many(many) => many.contains(id),
        }
    }

    /// Whether there is no member.
    #[inline]
    pub fn is_empty(&self) -> bool {
        match &self.0 {
            Form::Few(few) => few.is_empty(),
            Form::Many(many) => many.is_empty(),
        }
    }

    /// Number of members.
    pub fn len(&self) -> u64 {
        match &self.0 {
            Form::Few(few) => few.len() as u64,
            Form::Many(many) => many.len(),
        }
    }

    /// Removes all members.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Approximate bytes of memory of the members.
    pub fn bytes(&self) -> usize {
        match &self.0 {
            Form::Few(few) => few.capacity() * 9,
            // Sorted arrays of two bytes a member; bitmaps take less.
            Form::Many(many) => many.len() as usize * 2,
        }
    }
}

impl Extend<u64> for IdSet {
    fn extend<I: IntoIterator<Item = u64>>(&mut self, ids: I) {
        ids.into_iter().for_each(|id| {
            self.insert(id);
        });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// It equals a set of the standard library, in both of its forms.
        #[test]
        fn it_is_a_set(steps in prop::collection::vec((0..40_000_u64, 0..8_u8), 0..20_000)) {
            let (mut set, mut model) = (IdSet::default(), BTreeSet::new());
            for (id, step) in steps {
                match step {
                    0 => {
                        set.remove(id);
                        model.remove(&id);
                    }
                    _ => prop_assert_eq!(set.insert(id), model.insert(id)),
                }
                prop_assert_eq!(set.len(), model.len() as u64);
                prop_assert_eq!(set.contains(id / 2), model.contains(&(id / 2)));
            }
            prop_assert_eq!(set.is_empty(), model.is_empty());
        }
    }

    /// The set of millions of deleted nodes is small.
    #[test]
    fn many_members_use_little_memory() {
        let mut set = IdSet::default();
        set.extend(0..2_000_000);
        assert_eq!(set.len(), 2_000_000);
        assert!(set.bytes() <= 4 << 20);
    }
}
