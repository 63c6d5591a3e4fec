//! The program from the user's point of view: commands, scripts, servers and replicas as processes.
//!
//! The tests of the memory budget are another program, see `Cargo.toml`.

mod alone;
mod commands;
mod deezer;
mod golden;
mod import;
mod pages;
mod replica;
mod replicas;
mod scripts;
mod serve;
mod servers;
mod shared;
mod support;
