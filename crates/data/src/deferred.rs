//! Deferred constraint checks: a violation by one write of a statement may be repaired by a later write of the same
//! statement.
//!
//! While checks are deferred, a violating write is remembered instead of refused, and checked again at the end of the
//! statement. A write that violates nothing costs what it costs without deferral.
//!
//! Rules of one record (existence, type, bounds, closed labels) depend on the last state of the record alone: a record
//! is remembered while its last write violates one. Uniqueness depends on other records too: of two records that have
//! one value at the end of a statement, the second one got it while the first one had it, and was remembered then.
//!
//! A `_key` leads to one node. Other nodes that get it wait, in order, until the node before them releases it; a lookup
//! of a key for which a node waits is refused, as it would have to return several nodes.
//!
//! Memory: some 16 bytes a remembered record, counted as bytes of the transaction's write set.

use std::collections::VecDeque;

use isomer_value::{IndexId, LabelId, NodeId, record::RecordRef};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::{
    DataError, IndexDef, Transaction, catalog,
    graph::{KEY, NodeState},
    index::{EntryChanges, IndexEntry, brief_values, entries_of},
    keyspace,
};

/// The checks that are due at the end of a statement.
#[derive(Debug, Default)]
pub(crate) struct Deferred {
    is_on: bool,
    /// Records whose last write violates a rule.
    broken: FxHashSet<NodeId>,
    /// Records that got a value of a unique index while another one had it.
    claims: FxHashSet<(IndexId, NodeId)>,
    /// Nodes that wait for a `_key` in a label.
    waiting: FxHashMap<(LabelId, Vec<u8>), VecDeque<NodeId>>,
    /// Approximate bytes of the keys for which nodes wait.
    waiting_bytes: usize,
}

/// Bytes of one entry in the map of waiting nodes, without the key.
const WAITING_BYTES: usize = 128;

impl Deferred {
    /// Memory in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.broken.capacity() * (size_of::<NodeId>() + 1)
            + self.claims.capacity() * (size_of::<(IndexId, NodeId)>() + 1)
            + self.waiting_bytes
    }

    /// Whether some node waits for a key.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Adds a node to the queue for a key that another one has; returns whether checks are deferred.
    pub(crate) fn wait_for_key(&mut self, id: NodeId, (label, key): (LabelId, &[u8])) -> bool {
        if self.is_on {
            self.waiting_bytes += WAITING_BYTES + key.len();
            let waiting = self.waiting.entry((label, key.to_vec()));
            waiting.or_default().push_back(id);
        }
        self.is_on
    }

    /// A node releases a key; returns `None` where no other node waits for it. Returns the node to which the key leads
    /// from now on, if that changes.
    pub(crate) fn release_key(
        &mut self,
        id: NodeId,
        place: &(LabelId, Vec<u8>),
    ) -> Option<Option<NodeId>> {
        let waiting = self.waiting.get_mut(place)?;
        let next = match waiting.iter().position(|other| *other == id) {
            Some(at) => {
                waiting.remove(at);
                None
            }
            None => waiting.pop_front(),
        };
        self.waiting_bytes -= WAITING_BYTES + place.1.len();
        if waiting.is_empty() {
            self.waiting.remove(place);
        }
        Some(next)
    }
}

impl Transaction {
    /// Defers checks from now on, until [`Transaction::check_deferred`].
    pub fn defer_checks(&mut self) {
        self.deferred_mut().is_on = true;
    }

    /// Checks what was written since [`Transaction::defer_checks`]; from now on each write is checked immediately.
    /// Costs one read of each record that violated a constraint in between.
    ///
    /// # Errors
    /// [`DataError::Violates`], [`DataError::NotUnique`]: roll the writes back to a savepoint.
    pub fn check_deferred(&mut self) -> Result<(), DataError> {
        let deferred = std::mem::take(self.deferred_mut());
        let mut broken: Vec<NodeId> = deferred.broken.into_iter().collect();
        broken.sort_unstable();
        for id in broken {
            if let Some(node) = self.load_node(id)? {
                let catalog = self.catalog_ref();
                catalog.schema.check(catalog, Some(id), &node)?;
            }
        }
        let mut claims: Vec<_> = deferred.claims.into_iter().collect();
        claims.sort_unstable();
        for (index, id) in claims {
            self.check_claim(index, id)?;
        }
        match deferred.waiting.keys().min() {
            Some((label, key)) => Err(self.key_exists(*label, key)),
            None => Ok(()),
        }
    }

    /// Refuses to look up a key that several nodes have at this point of a statement.
    pub(crate) fn check_sole_key(&self, label: LabelId, key: &[u8]) -> Result<(), DataError> {
        let waiting = &self.deferred_ref().waiting;
        if waiting.is_empty() || !waiting.contains_key(&(label, key.to_vec())) {
            return Ok(());
        }
        let label = self.catalog_ref().label_name(label).unwrap_or_default();
        Err(DataError::invalid(format!(
            "two records of {label} have the {KEY} {} at this point of the statement: look it up in another statement",
            brief_values(key)
        )))
    }

    /// The error that another node has a key.
    pub(crate) fn key_exists(&self, label: LabelId, key: &[u8]) -> DataError {
        let label = self.catalog_ref().label_name(label).unwrap_or_default();
        DataError::KeyExists {
            label: label.to_string(),
            key: brief_values(key),
        }
    }

    /// Refuses a record with a value of a unique index that another record has, too.
    fn check_claim(&self, index: IndexId, id: NodeId) -> Result<(), DataError> {
        let Some(index) = self.catalog_ref().index(index) else {
            return Ok(());
        };
        let Some(node) = self.load_node(id)? else {
            return Ok(());
        };
        if node.labels.binary_search(&index.label).is_err() {
            return Ok(());
        }
        for entry in entries_of(index, &node)? {
            if let Some(holder) = self.observed_holder(&entry, id)? {
                return Err(self.not_unique(index, &entry, id, holder));
            }
        }
        Ok(())
    }

    /// Checks a change to `new` that adds these entries: a violation is refused, or remembered while checks are
    /// deferred.
    pub(crate) fn check_node_change(
        &mut self,
        id: NodeId,
        new: Option<&NodeState>,
        entries: &EntryChanges,
    ) -> Result<(), DataError> {
        let catalog = self.catalog_ref();
        let kept = match new {
            Some(new) => catalog.schema.check(catalog, Some(id), new),
            None => Ok(()),
        };
        let deferred = self.deferred_mut();
        match kept {
            Err(DataError::Violates { .. }) if deferred.is_on => {
                deferred.broken.insert(id);
            }
            Err(error) => return Err(error),
            Ok(()) if deferred.broken.is_empty() => {}
            Ok(()) => {
                deferred.broken.remove(&id);
            }
        }
        for entry in entries.added.iter().filter(|entry| entry.unique) {
            let Some(holder) = self.observed_holder(entry, id)? else {
                continue;
            };
            if self.deferred_mut().is_on {
                self.deferred_mut().claims.insert((entry.index, id));
                continue;
            }
            return Err(match self.catalog_ref().index(entry.index) {
                Some(index) => self.not_unique(index, entry, id, holder),
                None => DataError::Internal("an entry of an unknown index".into()),
            });
        }
        Ok(())
    }

    /// The error that two records have the values of one entry.
    pub(crate) fn not_unique(
        &self,
        index: &IndexDef,
        entry: &IndexEntry,
        id: NodeId,
        holder: NodeId,
    ) -> DataError {
        DataError::NotUnique {
            rule: index.name.to_string(),
            values: entry.described(index, self.catalog_ref()),
            record: self.described(id),
            holder: self.described(holder),
        }
    }

    /// Describes a node for a message. These reads are not observed: the outcome does not depend on them.
    fn described(&self, id: NodeId) -> String {
        let stored = self.read().get(&keyspace::node(id)).ok().flatten();
        let names = &*self.catalog_ref().names;
        let key = stored.and_then(|bytes| {
            let properties = RecordRef::new(&bytes).ok()?.properties(names).ok()?;
            properties.get(KEY).cloned()
        });
        catalog::described(Some(id), key.as_ref())
    }
}
