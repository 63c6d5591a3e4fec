//! Replicas that exchange transactions: frames, clocks and whole exchanges.

mod clocks;
mod exchange;
mod frames;
