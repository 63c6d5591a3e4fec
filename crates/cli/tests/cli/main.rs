//! The program from the user's point of view: commands, scripts, servers and replicas as processes.
//!
//! The tests of the memory budget are a program of their own, see `Cargo.toml`.

mod commands;
mod deezer;
mod golden;
mod import;
mod pages;
mod replica;
mod replicas;
mod scripts;
mod serve;
mod shared;
mod support;
