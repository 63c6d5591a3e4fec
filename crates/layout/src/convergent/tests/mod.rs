//! Replicas in memory: random histories against an interpreter of the whole history, laws of the join.

mod history;
mod laws;
mod naive;
mod oracle;
mod world;
