//! Checks at the end of a statement.

use isomer_layout::{
    DataError,
    catalog::{
        rules::described,
        schema::{IndexDef, RecordScope},
    },
    graph::state::{KEY, RecordId, RecordState},
    index::{EntryChanges, IndexEntry, brief_values, entries_of},
};
use isomer_value::{IndexId, LabelId, Map, record::RecordRef};

use crate::{Graph, Transaction};

/// What constraints need to read, and the errors of their violations.
#[derive(Clone, Copy)]
pub struct Constraints<'t> {
    pub(crate) tx: &'t Transaction,
}

/// The checks of constraints: at each write, or deferred to the end of a statement.
///
/// A check of a unique value costs one lookup in its index.
pub struct ConstraintsMut<'t> {
    pub(crate) tx: &'t mut Transaction,
}

impl Transaction {
    /// Reads for constraints, and their errors.
    pub fn constraints(&self) -> Constraints<'_> {
        Constraints { tx: self }
    }

    /// The checks of constraints.
    pub fn constraints_mut(&mut self) -> ConstraintsMut<'_> {
        ConstraintsMut { tx: self }
    }
}

impl ConstraintsMut<'_> {
    /// Defers checks from now on, until [`ConstraintsMut::check_deferred`].
    pub fn defer_checks(&mut self) {
        self.tx.changes.deferred.is_on = true;
    }

    /// Checks what was written since [`ConstraintsMut::defer_checks`]; from now on each write is checked immediately.
    /// Costs one read of each record that violated a constraint in between.
    ///
    /// # Errors
    /// [`DataError::Violates`], [`DataError::NotUnique`]: roll the writes back to a savepoint.
    pub fn check_deferred(&mut self) -> Result<(), DataError> {
        let deferred = std::mem::take(&mut self.tx.changes.deferred);
        let mut broken: Vec<RecordId> = deferred.broken.into_iter().collect();
        broken.sort_unstable();
        for id in broken {
            self.tx.graph().check_schema(id)?;
        }
        let mut claims: Vec<_> = deferred.claims.into_iter().collect();
        claims.sort_unstable();
        for (index, id) in claims {
            self.tx.constraints().check_claim(index, id)?;
        }
        match deferred.waiting.keys().min() {
            Some((label, key)) => Err(self.tx.constraints().key_exists(*label, key)),
            None => Ok(()),
        }
    }

    /// Checks a change to `new` that adds these entries: a violation is refused, or remembered while checks are
    /// deferred.
    pub(crate) fn check_change(
        &mut self,
        id: RecordId,
        new: Option<&impl RecordState>,
        entries: &EntryChanges,
    ) -> Result<(), DataError> {
        let catalog = self.tx.names();
        let kept = match new {
            Some(new) => catalog.schema.check(catalog, Some(id), new),
            None => Ok(()),
        };
        let deferred = &mut self.tx.changes.deferred;
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
            let Some(holder) = self.tx.indexes().observed_holder(entry, id)? else {
                continue;
            };
            if self.tx.changes.deferred.is_on {
                self.tx.changes.deferred.claims.insert((entry.index, id));
                continue;
            }
            return Err(match self.tx.names().index(entry.index) {
                Some(index) => self.tx.constraints().not_unique(index, entry, id, holder),
                None => DataError::Internal("an entry of an unknown index".into()),
            });
        }
        Ok(())
    }
}

impl Graph<'_> {
    /// Refuses a record that breaks a rule about one record.
    #[doc(hidden)]
    pub fn check_schema(self, id: RecordId) -> Result<(), DataError> {
        let catalog = self.tx.names();
        match id {
            RecordId::Node(node) => match self.load_node(node)? {
                Some(state) => catalog.schema.check(catalog, Some(id), &state),
                None => Ok(()),
            },
            RecordId::Relationship(rel) => match self.load_rel_state(rel)? {
                Some(state) => catalog.schema.check(catalog, Some(id), &state),
                None => Ok(()),
            },
        }
    }

    /// The properties of a record that is in a scope, observed.
    #[doc(hidden)]
    pub fn properties_in(self, scope: RecordScope, id: RecordId) -> Result<Option<Map>, DataError> {
        Ok(match id {
            RecordId::Node(id) => {
                let state = self.load_node(id)?.filter(|state| state.is_in(scope));
                state.map(|state| state.properties)
            }
            RecordId::Relationship(id) => {
                let state = self.load_rel_state(id)?.filter(|state| state.is_in(scope));
                state.map(|state| state.properties)
            }
        })
    }
}

impl Constraints<'_> {
    /// Refuses to look up a key that several nodes have at this point of a statement.
    pub(crate) fn check_sole_key(self, label: LabelId, key: &[u8]) -> Result<(), DataError> {
        let waiting = &self.tx.changes.deferred.waiting;
        if waiting.is_empty() || !waiting.contains_key(&(label, key.to_vec())) {
            return Ok(());
        }
        let label = self.tx.names().label_name(label).unwrap_or_default();
        Err(DataError::invalid(format!(
            "two records of {label} have the {KEY} {} at this point of the statement: look it up in another statement",
            brief_values(key)
        )))
    }

    /// The error that another node has a key.
    pub(crate) fn key_exists(self, label: LabelId, key: &[u8]) -> DataError {
        let label = self.tx.names().label_name(label).unwrap_or_default();
        DataError::KeyExists {
            label: label.to_string(),
            key: brief_values(key),
        }
    }

    /// Refuses a record with a value of a unique index that another record has, too.
    fn check_claim(self, index: IndexId, id: RecordId) -> Result<(), DataError> {
        let Some(index) = self.tx.names().index(index) else {
            return Ok(());
        };
        let Some(properties) = self.tx.graph().properties_in(index.scope, id)? else {
            return Ok(());
        };
        for entry in entries_of(index, &properties)? {
            if let Some(holder) = self.tx.indexes().observed_holder(&entry, id)? {
                return Err(self.not_unique(index, &entry, id, holder));
            }
        }
        Ok(())
    }

    /// The error that two records have the values of one entry.
    pub(crate) fn not_unique(
        self,
        index: &IndexDef,
        entry: &IndexEntry,
        id: RecordId,
        holder: RecordId,
    ) -> DataError {
        DataError::NotUnique {
            rule: index.name.to_string(),
            values: entry.described(index, self.tx.names()),
            record: self.described(id),
            holder: self.described(holder),
        }
    }

    /// Describes a record for a message. These reads are not observed: the outcome does not depend on them.
    pub(crate) fn described(self, id: RecordId) -> String {
        let stored = self.tx.read().get(&id.record_key()).ok().flatten();
        let names = &*self.tx.names().names;
        let key = stored.and_then(|bytes| {
            let properties = RecordRef::new(&bytes).ok()?.properties(names).ok()?;
            properties.get(KEY).cloned()
        });
        described(Some(id), key.as_ref())
    }
}
