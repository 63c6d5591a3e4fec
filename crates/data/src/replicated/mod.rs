//! What commits of a replicated database need of the crate `replication`, which is above this one: the trait that it
//! implements, and the plain items that both use.
//!
//! A store is opened with [`ReplicationHooks`] or without ([`DataStore::open_with`]). A database that is a replica
//! cannot be opened without them, as its commits would not be logged; and only the crate that implements them makes a
//! database a replica.

mod conflict;
mod handles;
mod hooks;
mod notes;
mod state;

pub use conflict::{Conflict, ConflictKind};
pub use handles::{Replication, ReplicationMut};
pub use hooks::ReplicationHooks;
pub use notes::{FileNote, ReplicationNotes};
pub use state::{ReplicaState, joining_error};
