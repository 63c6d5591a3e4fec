//! Maps from property names to values.

use std::sync::Arc;

use crate::Value;

/// A map from names to values: entries sorted by name, each name once.
///
/// `get` is a binary search; building from `n` unsorted entries is O(n log n), the last of equal names wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Map {
    entries: Vec<(Arc<str>, Value)>,
}

impl Map {
    /// The empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// The value under `name`.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.position(name).ok().map(|at| &self.entries[at].1)
    }

    /// The value under `name`, to be changed in place.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Value> {
        self.position(name).ok().map(|at| &mut self.entries[at].1)
    }

    /// Whether there is an entry of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.position(name).is_ok()
    }

    /// Puts `value` under `name` and returns what was there.
    pub fn insert(&mut self, name: impl Into<Arc<str>>, value: Value) -> Option<Value> {
        let name = name.into();
        match self.position(&name) {
            Ok(at) => Some(std::mem::replace(&mut self.entries[at].1, value)),
            Err(at) => {
                self.entries.insert(at, (name, value));
                None
            }
        }
    }

    /// Takes `name` out.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        self.position(name).ok().map(|at| self.entries.remove(at).1)
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Entries in the order of their names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, &Value)> + DoubleEndedIterator {
        self.entries.iter().map(|(name, value)| (name, value))
    }

    /// Names in order.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &Arc<str>> + DoubleEndedIterator {
        self.entries.iter().map(|(name, _)| name)
    }

    /// Values in the order of their names.
    pub fn values(&self) -> impl ExactSizeIterator<Item = &Value> + DoubleEndedIterator {
        self.entries.iter().map(|(_, value)| value)
    }

    /// A map of entries that are already sorted by name, each name once.
    pub fn from_sorted(entries: Vec<(Arc<str>, Value)>) -> Self {
        debug_assert!(
            entries.windows(2).all(|pair| pair[0].0 < pair[1].0),
            "entries must come sorted, names once"
        );
        Self { entries }
    }

    fn position(&self, name: &str) -> Result<usize, usize> {
        self.entries
            .binary_search_by(|(entry, _)| entry.as_ref().cmp(name))
    }
}

impl<N: Into<Arc<str>>> FromIterator<(N, Value)> for Map {
    fn from_iter<I: IntoIterator<Item = (N, Value)>>(entries: I) -> Self {
        let mut entries: Vec<(Arc<str>, Value)> = entries
            .into_iter()
            .map(|(name, value)| (name.into(), value))
            .collect();
        entries.reverse();
        entries.sort_by(|a, b| a.0.cmp(&b.0)); // stable: of equal names the last given now stands first
        entries.dedup_by(|later, first| later.0 == first.0);
        Self { entries }
    }
}

impl IntoIterator for Map {
    type Item = (Arc<str>, Value);
    type IntoIter = std::vec::IntoIter<(Arc<str>, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.entries.into_iter()
    }
}
