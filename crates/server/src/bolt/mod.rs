//! Bolt 4.4 and 5.0 to 5.8 (without 5.5, which nobody speaks): what the drivers of Neo4j speak.
//!
//! A connection is a task that reads, writes and waits ([`connection`]); what a message means is said by a state machine that
//! runs on a thread which may wait, for as long as it has something to do, and lies still in between ([`machine`]): a reader that
//! is slow holds its snapshot and a piece of 64 KiB, no thread. A `RESET` is seen before its turn: it stops the query at work, and
//! what stands before it is ignored.
//!
//! Rights are those of HTTP: each message that reaches a database passes through a [`Session`](crate::access::Session) of its own, so that
//! a right that was taken away is gone with the next message.
//!
//! The codec is our own, in about 900 lines with tests. The crate `boltr` (0.2) was looked at: it stops at 5.4, knows neither 4.4 nor
//! the manifest, reads into values of its own that would be copied into ours and back, and bounds neither what a size may allocate
//! nor what is said before a login; these are the parts that matter here.

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

pub use connection::serve;
pub use message::{Kind, MESSAGES, Needs};
