//! Bolt 4.1 to 4.4 and 5.0 to 5.8 (without 5.5, which no server implements): the protocol of Neo4j's drivers.
//!
//! A connection is an asynchronous task for I/O and timers ([`connection`]); messages are handled by a state machine
//! that runs on a blocking thread while it has work ([`machine`]) and holds no thread otherwise: a slow reader holds
//! its snapshot and a buffer of 64 KiB. A `RESET` takes effect out of order: it cancels the running query, and the
//! messages before it are ignored.
//!
//! Rights are those of HTTP: each message that reaches a database passes through its own
//! [`Session`](crate::access::Session), so that a revoked right is gone with the next message.
//!
//! Drivers in browsers connect by WebSocket, on the same port ([`websocket`]).
//!
//! The codec is implemented here, in about 900 lines with tests. The crate `boltr` (0.2) was evaluated: it stops at
//! 5.4, supports neither 4.4 nor the manifest, parses into its own value types, which would have to be copied to ours
//! and back, and limits neither what a size may allocate nor what is accepted before authentication.

mod connection;
mod failure;
mod frames;
mod handshake;
mod machine;
mod message;
pub mod packstream;
mod signal;
mod statement;
pub mod structure;
mod summary;
mod websocket;

pub(crate) use connection::authenticate;
pub use connection::serve;
pub(crate) use failure::Failure;
pub(crate) use machine::bookmark;
pub use message::{MESSAGES, MessageNeeds, MessageType};
pub(crate) use summary::all_notifications as notifications;
#[cfg(any(test, fuzzing))]
pub use websocket::fuzzed as fuzzed_websocket;
