//! The server: HTTP/JSON and Bolt, and everything between the network and databases.
//!
//! What this crate guarantees:
//! - every command runs through a session: without an authenticated principal and its rights there is no way to a
//!   database ([`access`]);
//! - nothing is exposed by default: loopback, users and TLS ([`config`]);
//! - every request has limits: bytes, depth, time, memory, number; slow clients are disconnected;
//! - acknowledged commits are durable, even if the server is stopped under load.

pub mod access;
mod arrow;
mod audit;
pub mod bolt;
mod clock;
pub mod config;
mod connections;
mod core;
mod error;
mod feed;
pub mod files;
mod hosts;
pub mod http;
mod listen;
mod logging;
mod metrics;
mod open;
mod operations;
mod quick;
mod replication;
mod sending;
mod serve;
mod slow;
mod traces;
mod use_clause;
mod weight;

pub use error::{Result, ServerError};
pub use logging::start as start_logging;
pub use serve::{RunningServer, ServeOptions, run, start};
