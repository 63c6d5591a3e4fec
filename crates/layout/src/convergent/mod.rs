//! Convergent fields (CRDTs): concurrent changes of replicas merge without conflicts.
//!
//! Every element, increment, value and switch is stored under a separate key with a dot (`place`); no operation reads
//! or writes a field as a whole, and a removal leaves nothing behind (`clock`). Operations (`effect`) do the same to
//! the rows of a transaction and to those of an in-memory test: the merge is a pure function of rows, without I/O.
//! `join` merges states without their histories.

pub mod clock;
pub mod counter;
pub mod effect;
pub mod join;
pub mod place;
pub mod position;
pub mod rows;
pub mod sketch;
pub mod value;

#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
