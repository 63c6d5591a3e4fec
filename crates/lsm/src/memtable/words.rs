//! The atomic words of nodes: those of the machine, or those of a model checker.
//!
//! With the feature `model`, tests run the tree under `shuttle`, which tries many interleavings.

#[cfg(all(test, feature = "model"))]
pub use shuttle::{
    hint::spin_loop,
    sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence},
    thread::yield_now,
};
#[cfg(not(all(test, feature = "model")))]
pub use std::{
    hint::spin_loop,
    sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering, fence},
    thread::yield_now,
};
