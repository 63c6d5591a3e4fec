//! Everything that listens: HTTP/JSON and Bolt, and what stands between the network and databases.
//!
//! What this crate keeps true:
//! - every command runs through one session object: without a principal, and a right of it, there is no way to a database
//!   ([`access`]);
//! - nothing is open unless it was opened: loopback, users and TLS by default ([`config`]);
//! - every request has limits: bytes, depth, time, memory, number; what is slow is cut off;
//! - what was acknowledged is on disk, also when the server is stopped under load.

pub mod access;
mod arrow;
mod audit;
pub mod bolt;
pub mod config;
mod core;
mod error;
mod feed;
pub mod files;
pub mod http;
mod listen;
mod logging;
mod metrics;
mod open;
mod operations;
mod quick;
mod replication;
mod serve;
mod slow;
mod traces;
mod weight;

pub use error::{Result, ServerError};
pub use logging::start as start_logging;
pub use serve::{RunningServer, ServeOptions, run, start};
