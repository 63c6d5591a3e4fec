//! The LSM engine on disks and simulated disks: log, tables, backups, formats and conformance.
//!
//! Faults of a disk are a program of their own, see `Cargo.toml`.

mod backup;
mod by_hand;
mod chain;
mod conformance;
mod formats;
mod large_commits;
mod limit;
mod log;
mod log_check;
mod long_keys;
mod pages;
mod shared;
mod together;
mod versions;
