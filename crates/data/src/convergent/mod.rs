//! Convergent fields (CRDTs): concurrent changes of replicas merge without conflicts.
//!
//! Every element, increment, value and switch is stored under a separate key with a dot (`place`); no operation reads
//! or writes a field as a whole, and a removal leaves nothing behind (`clock`). Operations (`effect`) do the same to
//! the rows of a transaction and to those of an in-memory test: the merge is a pure function of rows, without I/O.
//! `delivery` and `join` are what replication builds on: whole transactions in causal order, and states without their
//! histories.

mod check;
mod clock;
mod counter;
#[cfg(test)] // whole entries are applied in `replication`, by the same actions
mod delivery;
mod effect;
mod fields;
mod join;
mod operate;
mod origins;
mod place;
mod position;
pub(crate) mod replica;
mod rows;
mod rules;
mod sketch;
mod value;

#[cfg(test)]
mod tests;

pub(crate) use clock::MAX_NUMBER;
pub use clock::{Dot, ReplicaId, ReplicaNo, Vector};
pub(crate) use counter::amount as counter_amount;
pub(crate) use effect::Action;
pub use fields::{ScalarField, SketchRanks};
pub(crate) use join::{join_rows, stays_alone};
pub use operate::ConvergentOp;
pub(crate) use operate::{AfterCommit, Ongoing};
pub use origins::ConvergentOrigin;
pub use place::{ConvergentKind, SKETCH_PRECISION, SKETCH_PRECISIONS};
pub(crate) use place::{Entries, entry as entry_parts, entry_dot, skip_item, take_kind};
pub use position::ConvergentOwner;
pub(crate) use position::FieldPosition;
