//! The handles through which a transaction reads and changes convergent fields.

use crate::Transaction;

/// Convergent fields of nodes and relationships, as one transaction sees them.
///
/// A field is a range of rows: reading its value costs one scan of them. In a database without convergent fields
/// nothing is read.
#[derive(Clone, Copy)]
pub struct Fields<'t> {
    pub(crate) tx: &'t Transaction,
}

/// Operations on convergent fields.
///
/// An operation reads the rows that it replaces, and no others. Operations that commute do not conflict. The first one
/// of a transaction reserves a transaction number.
pub struct FieldsMut<'t> {
    pub(crate) tx: &'t mut Transaction,
}

impl Transaction {
    /// Reads of convergent fields.
    pub fn fields(&self) -> Fields<'_> {
        Fields { tx: self }
    }

    /// Operations on convergent fields.
    pub fn fields_mut(&mut self) -> FieldsMut<'_> {
        FieldsMut { tx: self }
    }
}
