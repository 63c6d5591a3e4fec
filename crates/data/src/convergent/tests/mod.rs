//! Replicas in memory: random histories against an interpreter of the whole history, laws of the join.

mod history;
mod indexed;
mod laws;
mod naive;
mod oracle;
mod parcel;
mod transactions;
mod world;
