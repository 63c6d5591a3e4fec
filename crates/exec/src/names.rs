//! Numbers of labels, relationship types and property names, as a transaction sees them.

use isomer_data::{Access, Transaction};
use isomer_value::{LabelId, PropId, TypeId};

/// The number of a label. A transaction that writes registers a new name: then what it does not find is observed like
/// everything else (the label's membership, a record's content), and its own later use of the name does not conflict
/// with its earlier reads. In a transaction that only reads, a missing name has no number and nothing is found.
pub(crate) fn label_number(tx: &Transaction, name: &str) -> Option<LabelId> {
    match tx.access() {
        Access::Read => tx.name_ids().find_label(name),
        // If a name cannot be registered, its absence is what was observed.
        Access::Write => tx
            .name_ids()
            .intern_label(name)
            .ok()
            .or_else(|| tx.name_ids().find_label(name)),
    }
}

/// Like [`label_number`], for a relationship type.
pub(crate) fn type_number(tx: &Transaction, name: &str) -> Option<TypeId> {
    match tx.access() {
        Access::Read => tx.name_ids().find_type(name),
        Access::Write => tx
            .name_ids()
            .intern_type(name)
            .ok()
            .or_else(|| tx.name_ids().find_type(name)),
    }
}

/// Like [`label_number`], for a property name.
pub(crate) fn property_number(tx: &Transaction, name: &str) -> Option<PropId> {
    match tx.access() {
        Access::Read => tx.name_ids().find_prop(name),
        Access::Write => tx
            .name_ids()
            .intern_prop(name)
            .ok()
            .or_else(|| tx.name_ids().find_prop(name)),
    }
}
