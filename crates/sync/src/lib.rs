//! Replication between databases: what peers say to one another, and how it gets there.
//!
//! The merging is in `isomer_data`: there whole transactions are kept for others and applied. This crate moves them: a [`Peer`] is
//! somebody to exchange with, in process ([`Local::new`]), another database on this machine ([`Local::open`]) or a server
//! ([`Remote`]); [`exchange`] brings two of them to the same state. All that is said stands in frames (`frame`), and one
//! function answers them ([`answer`]), whatever the way they came. Nothing is remembered of an exchange: whatever breaks off goes
//! on where it was, and saying something twice changes nothing.

mod answer;
mod error;
mod exchange;
mod frame;
mod http;
mod local;
mod peers;

pub use answer::{MAX_FRAME_BYTES, answer};
pub use error::{ErrorKind, Result, SyncError};
pub use exchange::{Exchanged, Peer, Progress, exchange, scrub};
pub use http::{Remote, RemoteOptions};
pub use local::Local;
pub use peers::{Address, PeerInfo, PeerState, add_peer, connect, peers, remove_peer, sync_once};
