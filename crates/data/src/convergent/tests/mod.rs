//! Convergent fields of whole databases, compared with replicas in memory and with full scans.

#[path = "../../../../layout/src/convergent/tests/delivery.rs"]
mod delivery;
#[path = "../../../../layout/src/convergent/tests/dice.rs"]
mod dice;
mod indexed;
#[path = "../../../../layout/src/convergent/tests/memory_rows.rs"]
mod memory_rows;
mod transactions;
