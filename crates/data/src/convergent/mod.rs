//! Convergent fields in transactions: their operations and readings, and the numbers of this database's transactions as
//! a replica. What the operations do to rows, and how states merge, is in [`isomer_layout::convergent`].

mod check;
mod fields;
mod handles;
pub(crate) mod numbering;
pub(crate) mod ongoing;
mod operate;
mod origins;
mod properties;
pub(crate) mod replica;

#[cfg(test)]
mod tests;

pub use fields::{ScalarField, SketchRanks};
pub use handles::{Fields, FieldsMut};
pub use numbering::Numbering;
pub use operate::ConvergentOp;
pub use origins::FieldOrigin;

pub(crate) use crate::convergent::ongoing::{AfterCommit, Ongoing};
