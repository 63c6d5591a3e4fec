//! Convergent fields: what replicas change apart and merge without conflicts.
//!
//! Every element, increment, value and switch is a key of its own with a dot (`place`); nothing is ever read or written as a
//! whole, and a removal leaves nothing behind (`clock`). Operations (`effect`) do the same to the rows of a transaction and to
//! those of a test in memory: the merge is one function of rows, and knows no I/O. `delivery` and `join` are what
//! replication builds on: whole transactions in causal order, and states without their histories.

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
pub(crate) mod replica;
mod rows;
mod rules;
mod sketch;
mod spot;
mod value;

#[cfg(test)]
mod tests;

pub(crate) use clock::MAX_NUMBER;
pub use clock::{Dot, ReplicaId, ReplicaNo, Vector};
pub(crate) use counter::amount as counter_amount;
pub(crate) use effect::Action;
pub use fields::ScalarField;
pub(crate) use join::{join_rows, stays_alone};
pub use operate::ConvergentOp;
pub(crate) use operate::{AfterCommit, Ongoing};
pub use origins::ConvergentOrigin;
pub use place::{ConvergentKind, SKETCH_PRECISION, SKETCH_PRECISIONS};
pub(crate) use place::{Entries, entry as entry_parts, entry_dot, skip_item, take_kind};
pub use spot::ConvergentOwner;
pub(crate) use spot::Spot;
