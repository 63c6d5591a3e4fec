//! Buckets: ordered maps from bytes to bytes.
//!
//! A bucket holds one value a key ([`BucketKind::Map`]) or several, sorted ([`BucketKind::Multi`]). A map may be
//! *reversible*: it is then indexed by value, too, in the same transaction. A map's entries may expire: they are
//! invisible from that moment on, and deleted later by a sweep. Every bucket also has named sequences.
//!
//! [`BucketKind::Map`]: isomer_layout::kv::options::BucketKind::Map
//! [`BucketKind::Multi`]: isomer_layout::kv::options::BucketKind::Multi
//!
//! A bucket is created explicitly, or as a plain map by the first write to it. Reading a bucket that does not exist
//! finds nothing.
//!
//! **Isolation.** A transaction that reads a key, a range or the keys of a value conflicts with a concurrent change of
//! it; a transaction that only puts or deletes without reading conflicts with readers alone, so two blind puts of one
//! key both commit, the later one last. In a reversible bucket every change reads what it replaces.
//!
//! **Limits.** Keys have 1 byte to 32 KiB, 16 KiB in multi-value and reversible buckets, as the values there; other
//! values have up to 16 MiB.
//!
//! **Entries** are laid out in [`isomer_layout::kv`]. For typed values see [`KvMut::put_value`].

pub(crate) mod bucket;
mod bucket_cache;
pub(crate) mod buckets;
mod check;
mod cursor;
mod entries;
mod handles;
mod multi;
mod reverse;
mod scan;
mod sequence;
pub(crate) mod sequences;
pub(crate) mod signal;
mod sweep;
mod values;
mod watch;

pub use cursor::{BucketCursor, BytePair};
pub use handles::{Kv, KvMut};
pub use scan::KvCursor;
pub use sweep::Sweeper;
pub use watch::{BucketWatch, KvChange, KvChangeKind, WatchGuard, WatchScope};

pub(crate) use crate::kv::{sequences::Sequences, signal::Signals};
pub(crate) use bucket_cache::BucketCache;
