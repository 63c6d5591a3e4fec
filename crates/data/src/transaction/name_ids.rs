//! Ids of names: labels, relationship types, properties, buckets.

use isomer_layout::{DataError, catalog::names::NameKind};
use isomer_value::{LabelId, PropId, TypeId};

use super::{Transaction, reads_only};
use crate::Access;

/// Ids of the names of labels, relationship types, properties and buckets.
///
/// A lookup reads the catalog in memory. A new name is stored by a separate small commit, which costs a sync.
#[derive(Clone, Copy)]
pub struct NameIds<'t> {
    pub(crate) tx: &'t Transaction,
}

impl Transaction {
    /// Ids of names.
    pub fn name_ids(&self) -> NameIds<'_> {
        NameIds { tx: self }
    }
}

impl NameIds<'_> {
    /// The label's number; a new name is entered into the catalog at once.
    pub fn intern_label(self, name: &str) -> Result<LabelId, DataError> {
        self.intern(NameKind::Label, name).map(LabelId)
    }

    /// The relationship type's number; a new name is entered into the catalog at once.
    pub fn intern_type(self, name: &str) -> Result<TypeId, DataError> {
        self.intern(NameKind::Type, name).map(TypeId)
    }

    /// The property name's number; a new name is entered into the catalog at once.
    pub fn intern_prop(self, name: &str) -> Result<PropId, DataError> {
        self.intern(NameKind::Prop, name).map(PropId)
    }

    /// The label's number where it has one. A missing number is an observation: no node can have the label, and a
    /// transaction that writes conflicts if another one has used the label concurrently.
    pub fn find_label(self, name: &str) -> Option<LabelId> {
        self.find(NameKind::Label, name).map(LabelId)
    }

    /// As [`NameIds::find_label`], for a relationship type.
    pub fn find_type(self, name: &str) -> Option<TypeId> {
        self.find(NameKind::Type, name).map(TypeId)
    }

    /// As [`NameIds::find_label`], for a property name.
    pub fn find_prop(self, name: &str) -> Option<PropId> {
        self.find(NameKind::Prop, name).map(PropId)
    }

    #[doc(hidden)]
    pub fn find(self, kind: NameKind, name: &str) -> Option<u32> {
        if let Some(id) = self.tx.catalog.names.find(kind, name) {
            return Some(id);
        }
        // Observed before the second lookup: a name added in between is then found, one added later conflicts.
        let news = self.tx.footprint().read_absent_name(kind, name);
        news.then(|| self.tx.store.find_after_interning(kind, name))
            .flatten()
    }

    #[doc(hidden)]
    pub fn intern(self, kind: NameKind, name: &str) -> Result<u32, DataError> {
        if let Some(id) = self.tx.catalog.names.find(kind, name) {
            return Ok(id);
        }
        if self.tx.access() == Access::Read {
            return Err(reads_only());
        }
        self.tx.store.intern(kind, name)
    }
}
