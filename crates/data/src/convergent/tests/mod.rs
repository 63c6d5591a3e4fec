//! Convergent fields of whole databases, compared with replicas in memory and with full scans.

mod indexed;
mod transactions;
