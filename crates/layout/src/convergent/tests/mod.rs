//! Replicas in memory: random histories against an interpreter of the whole history, laws of the join.
//!
//! `dice`, `memory_rows` and `parcel` are also modules of the tests of `isomer-data`, which compare a database with
//! such a replica.

mod dice;
mod history;
mod laws;
mod memory_rows;
mod naive;
mod oracle;
mod parcel;
mod world;
