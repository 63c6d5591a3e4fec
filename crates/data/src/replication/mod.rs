//! Replication: whole transactions between databases, each applied entirely or not at all, in causal order.
//!
//! From the moment in which a database becomes a replica ([`DataStore::begin_replication`]) every transaction that
//! writes takes a number and leaves two things behind in its commit: a *shadow* (metadata row) for each record, key or
//! chunk that it wrote, which records which transaction put what there (`shadow`, `cells`), and an *entry* in the log
//! (`entry`, `log`): the same operations in names that are valid in other replicas (`identity`, `wire`). It is made
//! from the operations of the change stream when the transaction commits (`log_builder`): later the names of what it
//! deleted would be gone.
//!
//! The state is a set of items with dots, and every operation does the same: it removes the items that its transaction
//! had *seen* where it writes, and puts one item with its own dot (`versions`). What is read is a function of that set:
//! a node exists while it has a life, a property has the value of its latest version, a relationship exists while it
//! has its life and, of each end, one of the lives that its creator saw. So replicas that have applied the same
//! transactions, in whatever causal order, hold the same. A dot that was seen and is not stored has been removed; there
//! are no tombstones.
//!
//! `apply` executes an entry, in one local transaction, through the same functions as a local one, so that indexes,
//! read views, watchers and the change stream cannot distinguish them. `snapshot` transfers a whole state to a replica
//! that is new or too far behind, and `join` merges it. The whole database is replicated, or a `space` of it.
//! `members` records who has what, and how far the log may be trimmed.

mod ahead;
mod apply;
mod buckets;
mod cells;
mod codec;
mod conflicts;
mod entry;
mod exchange;
mod file_log;
pub(crate) mod files;
mod identity;
mod join;
mod join_buckets;
mod join_files;
mod join_records;
mod keep;
mod log;
mod log_builder;
mod members;
mod pushed;
mod records;
pub(crate) mod rules;
mod scrub;
mod served;
mod settings;
mod shadow;
mod snapshot;
mod space;
mod sweep;
mod versions;
mod wire;

#[cfg(test)]
mod tests;

pub use ahead::HeldBack;
pub(crate) use ahead::MAX_AHEAD_MS;
pub use conflicts::{Conflict, ConflictKind};
pub use exchange::{Applied, Greeted};
pub(crate) use join::joining_error;
pub use join::{Joining, JoiningStatus};
pub use keep::EndpointKeeper;
pub use log::ReplicationStatus;
pub use members::MemberInfo;
pub use pushed::PushedPage;
pub(crate) use records::ReplicationNotes;
pub use rules::end_point;
pub use scrub::RANGES;
pub(crate) use settings::Replication;
pub use snapshot::next_place;
pub use space::ReplicatedSpace;
