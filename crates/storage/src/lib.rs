//! The contract between IsomerDB and the engine that keeps its bytes: an ordered key-value **transaction**.
//!
//! Synchronous and batched, so that an engine behind a network can stand here with one round trip a batch.
//! What every engine keeps true: a snapshot never changes; a commit is applied whole or not at all, becomes
//! visible to others only when it is as durable as asked, and is refused if what it observed was changed since.

mod contract;

pub use contract::*;
