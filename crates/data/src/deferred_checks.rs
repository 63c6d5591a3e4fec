//! Checks at the end of a statement.

use isomer_value::{IndexId, LabelId, NodeId, record::RecordRef};

use crate::{
    DataError, IndexDef, Transaction, catalog,
    graph::{KEY, NodeState},
    index::{EntryChanges, IndexEntry, brief_values, entries_of},
    keyspace,
};

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
    pub(crate) fn described(&self, id: NodeId) -> String {
        let stored = self.read().get(&keyspace::node(id)).ok().flatten();
        let names = &*self.catalog_ref().names;
        let key = stored.and_then(|bytes| {
            let properties = RecordRef::new(&bytes).ok()?.properties(names).ok()?;
            properties.get(KEY).cloned()
        });
        catalog::described(Some(id), key.as_ref())
    }
}
