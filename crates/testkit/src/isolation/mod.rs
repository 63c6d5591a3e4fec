//! Checks isolation from what clients saw.
//!
//! A history becomes a graph of dependencies between transactions, after Adya ("Weak Consistency", 1999) and
//! Elle (Kingsbury and Alvaro, 2020): *ww* if one overwrote the other's version, *wr* if it read it, *rw* if
//! it overwrote what the other had read. Every anomaly is an unreadable value or a cycle. Elements are
//! written once, so that versions need not be guessed: reads show the order of a list's versions; a
//! register's order follows from reads before writes and from real time; a set has no order, only members
//! that were seen or not.

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
