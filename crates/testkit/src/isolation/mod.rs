//! Checking isolation from what clients saw.
//!
//! A history is turned into a graph of dependencies between transactions, after Adya ("Weak Consistency", 1999) and Elle
//! (Kingsbury and Alvaro, 2020): *ww* where one overwrote the other's version, *wr* where it read it, *rw* where it
//! overwrote what the other had read. Every anomaly is an unreadable value or a cycle. Elements are written once, so
//! that versions need not be guessed: the order of a list's versions shows in what was read; a register's follows from
//! who read before writing and from real time; a set has no order, only members that were seen or not.

mod anomaly;
mod checker;
mod graph;
mod history;
mod versions;
pub mod workload;

#[cfg(test)]
mod tests;

pub use anomaly::{Anomaly, Class};
pub use checker::{Report, check};
pub use history::{Element, Event, History, ObjectId, Outcome, Recorder, Recording, Txn};
