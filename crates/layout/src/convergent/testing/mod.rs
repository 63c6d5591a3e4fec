//! Replicas in memory for tests of this crate and, with the feature `testing`, of crates above it: random numbers,
//! rows, and whole transactions that are delivered in causal order.

mod dice;
mod memory_rows;
mod parcel;

pub use dice::Dice;
pub use memory_rows::MemoryRows;
pub use parcel::Parcel;
