//! Which properties are convergent fields of some record, and which indexes cannot hold them.

use isomer_layout::{DataError, keyspace};
use isomer_storage::{Durability, GuardMode};
use isomer_value::{IndexId, PropId};

use crate::{DataStore, footprint::Item};

impl DataStore {
    /// Whether some record has this property as a convergent field, or had it: the values are not in records.
    pub fn is_convergent(&self, prop: PropId) -> bool {
        self.shared().own_replica.has_property(prop)
    }

    /// The number of properties that are convergent fields of some record, or were.
    pub fn convergent_properties(&self) -> usize {
        let own = &self.shared().own_replica;
        match own.has_any() {
            true => own.properties.read().len(),
            false => 0,
        }
    }

    /// Adds a property to the convergent ones, in a separate commit.
    #[doc(hidden)]
    pub fn enter_convergent(&self, prop: PropId) -> Result<(), DataError> {
        let own = &self.shared().own_replica;
        if own.has_property(prop) {
            return Ok(());
        }
        let _numbers = own.numbers();
        if own.has_property(prop) {
            return Ok(());
        }
        let mut tx = self.engine().begin()?;
        tx.put(&keyspace::convergent_property(prop.0), &[])?;
        tx.guard(Item::Convergent(prop.0).granule(), GuardMode::Add);
        tx.guard(Item::AnyConvergent.granule(), GuardMode::Add);
        tx.commit(Durability::Buffered)?; // transactions that use it commit later
        own.enter(prop);
        Ok(())
    }

    /// Whether an index was given up: another replica made fields that it cannot hold, and its entries are incomplete.
    pub fn is_given_up(&self, index: IndexId) -> bool {
        let own = &self.shared().own_replica;
        own.has_any() && own.given_up.read().contains(&index)
    }

    /// How many indexes were given up.
    pub fn indexes_given_up(&self) -> usize {
        let own = &self.shared().own_replica;
        match own.has_any() {
            true => own.given_up.read().len(),
            false => 0,
        }
    }

    /// Records that an index is incomplete, in a separate commit, before the entries that it lacks are committed.
    pub(crate) fn give_up_index(&self, index: IndexId) -> Result<(), DataError> {
        if self.is_given_up(index) {
            return Ok(());
        }
        let own = &self.shared().own_replica;
        let mut tx = self.engine().begin()?;
        tx.put(&keyspace::given_up(index), &[])?;
        tx.commit(Durability::Buffered)?; // the entries that it lacks commit later
        own.given_up.write().insert(index);
        Ok(())
    }
}
