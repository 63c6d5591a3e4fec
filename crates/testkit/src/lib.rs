//! Shared test infrastructure, never shipped: a harness whose skips have reasons, a checker of isolation, and
//! more.
//!
//! Invariants: a test that cannot run reports that and why; nothing here is used outside of tests.

pub mod binary;
pub mod crash;
pub mod fault;
pub mod fuzzed;
pub mod generate;
pub mod golden;
pub mod harness;
pub mod isolation;
pub mod ldbc;
pub mod model;
pub mod naive;
pub mod poll;
pub mod random;
pub mod second_process;
pub mod tck;
pub mod unchecked;

/// The example of the README, so that it is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
