//! Replication: whole transactions between databases, each applied entirely or not at all, in causal order.
//!
//! From the moment in which a database becomes a replica ([`Store::begin_replication`]) every transaction that writes takes
//! a number and leaves two things behind in its own commit: a *shadow* beside each record, key or chunk that it wrote, which
//! says which transaction put what there (`shadow`, `cells`), and an *entry* in the log (`entry`, `log`): the same operations
//! in names that mean something elsewhere (`identity`, `wire`). It is made from the operations of the change stream when the
//! transaction commits (`seal`): later the names of what it deleted would be gone.
//!
//! All state is a set of things with dots, and every operation does the same: it takes out what its transaction had
//! *seen* where it writes, and puts one thing with its own dot (`versions`). What is read is a function of that set: a node is
//! there while one of its lives is, a property has the value of its latest version, a relationship is there while its own life
//! and one of those lives of each end is that its maker saw. So replicas that have applied the same transactions, in whatever
//! causal order, hold the same. A dot that was seen and is not held has been removed; there are no tombstones.
//!
//! `apply` does what an entry says, in one local transaction, through the same functions as a local one, so that indexes,
//! read views, watchers and the change stream cannot tell the difference. `snapshot` carries a whole state to a replica that is
//! new or too far behind, and `join` merges it. What is replicated is all of the database, or a `space` of it.
//! `members` says who has what, and how far the log may be cut.

mod apply;
mod buckets;
mod cells;
mod codec;
mod conflicts;
mod entry;
mod exchange;
mod file_seal;
pub(crate) mod files;
mod identity;
mod join;
mod join_buckets;
mod join_files;
mod join_records;
mod keep;
mod log;
mod members;
mod pushed;
mod records;
pub(crate) mod rules;
mod scrub;
mod seal;
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

pub use conflicts::{Conflict, ConflictKind};
pub use exchange::{Applied, Greeted};
pub use join::Joining;
pub(crate) use join::joining_error;
pub use keep::EndpointKeeper;
pub use log::ReplicationStatus;
pub use members::MemberInfo;
pub use pushed::PushedPage;
pub(crate) use records::Noted;
pub use scrub::RANGES;
pub(crate) use settings::Replication;
pub use snapshot::next_place;
pub use space::ReplicatedSpace;
