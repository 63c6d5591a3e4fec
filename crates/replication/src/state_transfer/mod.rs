//! State transfer: a replica that is new or too far behind gets another one's whole state, and merges it with its own.
//!
//! The sender reads one snapshot (`outgoing`) and encodes it in pages, section by section (`section`, `send`). The
//! receiver fetches the pages, or the sender pushes them (`push`); it merges each page in a transaction (`receive`;
//! `merge_records`, `merge_buckets`, `merge_files`), and at the end what only the receiver has (`finish`). The rule is
//! that of an observed-remove set without tombstones: an item that both have stays; an item that one has stays unless
//! the other has seen its dot, and so has seen it removed.

pub(crate) mod finish;
pub(crate) mod merge_buckets;
pub(crate) mod merge_files;
pub(crate) mod merge_records;
pub(crate) mod outgoing;
pub(crate) mod progress;
pub(crate) mod push;
pub(crate) mod receive;
pub(crate) mod section;
pub(crate) mod send;
