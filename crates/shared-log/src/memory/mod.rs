//! A log and objects in memory, for tests: with faults that a seed determines, and with a hook within each call.

mod blobs;
mod faults;
mod log;

pub use self::{
    blobs::MemoryBlobs,
    faults::{Fate, Faults, Hook, Moment},
    log::MemoryLog,
};
