//! Convergent fields of whole databases, compared with replicas in memory and with full scans.

#[path = "../../../../layout/src/convergent/tests/dice.rs"]
mod dice;
mod indexed;
#[path = "../../../../layout/src/convergent/tests/memory_rows.rs"]
mod memory_rows;
#[path = "../../../../layout/src/convergent/tests/parcel.rs"]
mod parcel;
mod transactions;
