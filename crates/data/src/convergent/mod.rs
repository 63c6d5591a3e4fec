//! Convergent fields (CRDTs): concurrent changes of replicas merge without conflicts.
//!
//! Every element, increment, value and switch is stored under a separate key with a dot (`place`); no operation reads
//! or writes a field as a whole, and a removal leaves nothing behind (`clock`). Operations (`effect`) do the same to
//! the rows of a transaction and to those of an in-memory test: the merge is a pure function of rows, without I/O.
//! Replication builds on them: it applies whole transactions in causal order, and joins states without their histories
//! (`join`).

mod check;
mod clock;
mod counter;
mod effect;
mod fields;
mod handles;
mod join;
pub(crate) mod numbering;
pub(crate) mod ongoing;
mod operate;
mod origins;
mod place;
mod position;
pub(crate) mod replica;
mod rows;
mod sketch;
mod value;

#[cfg(test)]
mod tests;

pub use clock::{Dot, MAX_NUMBER, ReplicaId, ReplicaNo, Vector};
pub use counter::amount as counter_amount;
pub use effect::Action;
pub use fields::{ScalarField, SketchRanks};
pub use handles::{Fields, FieldsMut};
pub use join::{join_rows, stays_alone};
pub use operate::ConvergentOp;
pub use origins::ConvergentOrigin;
pub use place::{
    ConvergentKind, Entries, SKETCH_PRECISION, SKETCH_PRECISIONS, entry as entry_parts, entry_dot,
};
pub use position::{ConvergentOwner, FieldPosition};

pub(crate) use crate::convergent::ongoing::{AfterCommit, Ongoing};
pub(crate) use place::{skip_item, take_kind};
