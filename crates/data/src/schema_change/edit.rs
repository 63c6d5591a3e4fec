//! What a schema change writes.

use isomer_layout::{
    DataError,
    catalog::{
        schema::{Constraint, IndexDef},
        stored,
    },
    keyspace::{self, after_prefix},
};
use isomer_storage::{EngineTransaction, KeyRange};
use isomer_value::IndexId;

/// Definitions that a schema change puts and removes, and entries that it deletes.
#[derive(Default)]
pub(super) struct Edit {
    put: Vec<(Vec<u8>, Vec<u8>)>,
    removed: Vec<Vec<u8>>,
    /// Prefixes under which all keys are deleted.
    erased: Vec<Vec<u8>>,
}

impl Edit {
    pub(super) fn put_index(&mut self, index: &IndexDef) -> Result<(), DataError> {
        self.put.push((
            keyspace::index_definition(index.id),
            stored::index_value(index)?,
        ));
        Ok(())
    }

    pub(super) fn put_constraint(&mut self, constraint: &Constraint) -> Result<(), DataError> {
        self.put.push((
            keyspace::constraint_definition(&constraint.name),
            stored::constraint_value(constraint)?,
        ));
        Ok(())
    }

    pub(super) fn remove_index(&mut self, id: IndexId) {
        self.removed.push(keyspace::index_definition(id));
        self.removed.push(keyspace::given_up(id));
        self.erased.push(keyspace::entries_of(id));
    }

    /// Removes the definition of a constraint.
    pub(super) fn remove_constraint(&mut self, name: &str) {
        self.removed.push(keyspace::constraint_definition(name));
    }

    /// Applies it to an engine transaction.
    pub(super) fn write(&self, tx: &mut dyn EngineTransaction) -> Result<(), DataError> {
        for key in &self.removed {
            tx.delete(key)?;
        }
        for (key, value) in &self.put {
            tx.put(key, value)?;
        }
        for prefix in &self.erased {
            tx.delete_range(KeyRange {
                start: prefix,
                end: after_prefix(prefix).as_deref(),
            })?;
        }
        Ok(())
    }
}
