//! Replication: whole transactions between databases, each applied entirely or not at all, in causal order.
//!
//! From the moment in which a database becomes a replica ([`begin_replication`]) every transaction that writes
//! takes a number and adds two things to its commit: a *metadata row* for each record, key or chunk
//! that it wrote, with the dots of the operations that wrote it (`metadata`, `cells`), and an *entry* in the log
//! (`entry`, `log`): the same operations in names that are valid in other replicas (`wire`). It is made
//! from the operations of the change stream when the transaction commits (`log_builder`): later the names of what it
//! deleted would be gone.
//!
//! The state is a set of items with dots, and every operation does the same: it removes the items that its transaction
//! had *seen* where it writes, and puts one item with its own dot (`versions`). What is read is a function of that set:
//! a node exists while it has a *creation* (a dot that added it), a property has the value of its latest version, a
//! relationship exists while it has its creation and, of each end, one of the creations that its creator saw. So
//! replicas that have applied the same transactions, in whatever causal order, have the same state. These are add-wins,
//! observed-remove sets: a dot that was seen and is not stored has been removed; there are no tombstones.
//!
//! `apply` executes an entry, in one local transaction, through the same functions as a local one, so that indexes,
//! read views, watchers and the change stream cannot distinguish them. `state_transfer` sends a whole state to a
//! replica that is new or too far behind, which merges it. The whole database is replicated, or a `space` of it.
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
mod convergent;
mod crash_point;
mod endpoint_keepers;
mod entry;
mod exchange;
mod file_log;
mod files;
mod hooks;
mod log;
mod log_builder;
mod mapping;
mod member;
mod members;
mod metadata;
mod property_conflicts;
mod records;
mod relationship_ends;
mod scope;
mod scrub;
mod space;
mod spelling;
mod state;
mod state_transfer;
mod status;
mod versions;
mod wire;

#[cfg(test)]
mod tests;

pub use ahead::{HeldBack, accept_clock, accept_clock_during, accepted_clock_ms};
pub use begin::begin_replication;
pub use crash_point::crash_point;
pub use exchange::{
    Applied, GreetingStatus, apply_entries, apply_page, check_greeting, entries_for,
    give_up_unknown, greeting, read_greeting,
};
pub use hooks::open;
pub use members::{
    MemberInfo, evict_member, log_retention_ms, put_replica_peer, record_members,
    remove_replica_peer, replica_members, replica_peers, set_log_retention, trim_log,
};
pub use scope::{declare_space, replicated_space};
pub use scrub::{RANGE_COUNT, differing, fingerprints, ranges_page, repair};
pub use space::ReplicatedSpace;
pub use state_transfer::{
    outgoing::outgoing_transfers,
    progress::{PushedPage, StateTransfer},
    push::merge_pushed,
    receive::{StateTransferStatus, begin_state_transfer, state_transfer_status},
    send::{next_cursor, state_page},
};
pub use status::{ReplicationStatus, replication_status};
