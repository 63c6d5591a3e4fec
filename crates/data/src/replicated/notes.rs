//! What a transaction records for its log entry.

#![allow(missing_docs)] // an interface for `replication` alone

use isomer_layout::replicated::identity::Identity;
use isomer_value::NodeId;
use rustc_hash::FxHashMap;

/// What a local transaction did to files, by their paths at that time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileNote {
    Created(u64),
    Deleted(u64),
    Renamed(u64, String),
    /// Its record changed.
    Resized(u64),
    /// Chunks were written, from one up to another.
    Written(u64, u64, u64),
    /// All chunks from this one on were deleted.
    Truncated(u64, u64),
    FolderCreated(String),
    FolderDeleted(String),
}

/// What a transaction records for its log entry.
#[derive(Debug, Default)]
pub struct ReplicationNotes {
    /// Identities of nodes before they were changed.
    pub identities: FxHashMap<NodeId, Identity>,
    /// Whether changed nodes are in the replicated space, where one is declared.
    pub homes: FxHashMap<NodeId, bool>,
    /// Whether it applies changes of another replica: constraints refuse nothing then.
    pub is_merging: bool,
    /// The node that is being merged, which may have no record yet, and its identity.
    pub merged: Option<(NodeId, Identity)>,
    /// What it did to files, by their paths at that time.
    pub files: Vec<FileNote>,
}
