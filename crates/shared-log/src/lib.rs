//! Shared databases: several processes, or machines, that commit to one log.
//!
//! ```text
//!        node A                       node B
//!   state at position P          state at position P+1
//!         │ validate, append at P+1      │ apply P+1, validate again, append at P+2
//!         ▼                              ▼
//!   ────────── shared log: compare-and-append at a position ([`SharedLog`]) ──────────
//!   ────────── shared objects: created once, or replaced by compare-and-swap ([`Blobs`]) ─
//! ```
//!
//! The positions of the log are the serialization order. A [`LogNode`] holds the whole state at its *applied position*
//! and commits a group of transactions as one [`Record`]: it validates them against everything that it has applied,
//! appends the record at the next position, and acknowledges when the record is there. If another node was faster, it
//! applies that node's record, validates again and tries the next position. A record in the log is committed: nodes
//! that read the log only apply it, so that nodes need not agree on how to validate.
//!
//! An answer of the log may be lost. The node then sends the *same* record to the *same* position again and reads what
//! is there: a record with its own nonce is committed, another one took the position.
//!
//! A record of many megabytes takes longer to make than small ones of other nodes take to be appended. After losing
//! some work in this way, a node *reserves* the next position ([`SharedLog::reserve`]): the others wait, for a limited
//! time.
//!
//! Records that a checkpoint contains are *trimmed*. A log made of objects forgets a trimmed position, and a
//! node that was stopped for long could fill it again: before it acknowledges, a node whose knowledge of the trimmed
//! part is older than half the *grace period* reads it anew, and nothing younger than the grace period is trimmed
//! (known from OSWALD, and from SlateDB, issue 1622).
//!
//! [`DirectoryLog`] and [`DirectoryBlobs`] are for the processes of one machine, in a folder of a local disk.
//! [`MemoryLog`] and [`MemoryBlobs`] are for tests, with injected faults ([`Faults`], [`Hook`]); [`conformance`] has
//! the scripts that every implementation must pass.

mod blobs;
pub mod conformance;
mod contention;
mod directory;
mod log;
mod memory;
mod node;
mod record;
mod retry;

pub use blobs::{BlobError, Blobs, Created, Replaced, Tag, check_name};
pub use directory::{DirectoryBlobs, DirectoryLog, DirectoryMode, DirectoryOptions, LogProcess};
pub use log::{Append, LogError, LogId, Position, SharedLog};
pub use memory::{Fate, Faults, Hook, MemoryBlobs, MemoryLog, Moment};
pub use node::{LogNode, NodeError, Options, ReadRecord, StateMachine, Validated};
pub use record::{Nonce, Record, RecordError, RecordHash};
pub use retry::Retry;
