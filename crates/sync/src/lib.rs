//! Replication between databases: protocol and transports.
//!
//! Merging is in `isomer_replication`, which logs whole transactions for replicas and applies them. This crate
//! transfers them: a [`PeerConnection`] is a database in the same process ([`Local::new`]), another one on this machine
//! ([`Local::open`]) or one on a server ([`Remote`]); [`exchange`] brings two databases to the same state. All messages
//! are frames (`frame`), and one function answers them ([`answer`]), whatever the transport. An exchange keeps no
//! state: after an interruption the next one continues with what is missing, and every request is idempotent.
//!
//! The same HTTP client reads files of other hosts for `LOAD CSV` ([`FileDownloads`]).

mod answer;
mod cause;
mod certificates;
mod download;
mod error;
mod exchange;
mod frame;
mod http;
mod local;
mod peers;
mod report;
mod text;
mod tls;

pub use answer::{MAX_FRAME_BYTES, answer};
pub use cause::Cause;
pub use download::FileDownloads;
pub use error::{ErrorKind, Result, SyncError};
pub use exchange::{ExchangeProgress, ExchangeReport, PeerConnection, exchange, scrub};
pub use http::{Remote, RemoteOptions};
pub use local::Local;
pub use peers::{
    Address, PeerInfo, PeerState, accept_clock, add_peer, connect, peers, remove_peer, sync_once,
};
pub use report::{NO_REPLICA, PeerStall, Report, accepted_text, kept_text, report, space_text};
