//! Replication: whole transactions between databases, each applied entirely or not at all, in causal order.
//!
//! From the moment in which a database becomes a replica ([`begin_replication`]) every transaction that writes
//! takes a number and leaves two things behind in its commit: a *shadow* (metadata row) for each record, key or chunk
//! that it wrote, which records which transaction put what there (`shadow`, `cells`), and an *entry* in the log
//! (`entry`, `log`): the same operations in names that are valid in other replicas (`wire`). It is made
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
//!
//! This crate is above `data`, which calls up at a few places of a transaction (`hooks`); a database that is a replica,
//! or may become one, is opened by [`open`]. The functions here take a [`DataStore`](isomer_data::DataStore) that was
//! opened so.

mod ahead;
mod apply;
mod begin;
mod buckets;
mod cells;
mod conflicts;
mod contested;
mod convergent;
mod crash_point;
mod entry;
mod exchange;
mod file_log;
mod files;
mod hooks;
mod join;
mod join_buckets;
mod join_files;
mod join_records;
mod joining;
mod keep;
mod log;
mod log_builder;
mod mapping;
mod member;
mod members;
mod part;
mod pushed;
mod records;
mod relationship_ends;
mod scope;
mod scrub;
mod served;
mod shadow;
mod snapshot;
mod space;
mod spelling;
mod state;
mod status;
mod sweep;
mod versions;
mod wire;

#[cfg(test)]
mod tests;

pub use ahead::{HeldBack, accept_clock, accept_clock_during, accepted_clock_ms};
pub use begin::begin_replication;
pub use crash_point::crash_point;
pub use exchange::{
    Applied, Greeted, apply_entries, apply_page, check_greeting, entries_for, give_up_unknown,
    greeted, greeting,
};
pub use hooks::open;
pub use join::{JoiningStatus, begin_join, joining_status};
pub use joining::{Joining, PushedPage};
pub use members::{
    MemberInfo, cut_log, evict_member, keep_log, log_kept_ms, note_members, put_replica_peer,
    remove_replica_peer, replica_members, replica_peers,
};
pub use pushed::join_pushed;
pub use scope::{declare_space, replicated_space};
pub use scrub::{RANGES, differing, fingerprints, ranges_page, repair};
pub use served::joins_served;
pub use snapshot::{next_place, snapshot_page};
pub use space::ReplicatedSpace;
pub use status::{ReplicationStatus, replication_status};
