//! Buckets: ordered maps from bytes to bytes.
//!
//! A bucket holds one value a key ([`BucketKind::Map`]) or several, sorted ([`BucketKind::Multi`]). A map may be
//! *reversible*: it is then indexed by value, too, in the same transaction. A map's entries may expire: they are
//! invisible from that moment on, and deleted later by a sweep. Every bucket also has named sequences.
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
//! **Entries.** The stored value of a map's entry is one byte (bit 0: it expires; bits 1 and 2: 0 bytes, 1 text, 2 a
//! typed value), the time in ms (`u64`, big endian) if it expires, then the value. For typed values see
//! [`KvMut::put_value`].

pub(crate) mod bucket;
mod bucket_cache;
pub(crate) mod buckets;
mod check;
pub(crate) mod content;
mod cursor;
mod entries;
mod handles;
mod key;
mod multi;
mod reverse;
mod scan;
mod sequence;
pub(crate) mod sequences;
pub(crate) mod signal;
mod sweep;
mod values;
mod watch;

pub use crate::kv::content::{Content, encode_entry};
pub use content::entry_parts;
pub use cursor::{BucketCursor, BytePair};
pub use handles::{Kv, KvMut};
pub use key::{BucketKey, FromBucketKey, decode_key, encode_key};
pub use scan::KvCursor;
pub use sweep::Sweeper;
pub use watch::{KvChange, KvChangeKind, Watch, Watched, Watcher};

pub(crate) use crate::kv::{sequences::Sequences, signal::Signals};
pub(crate) use bucket_cache::BucketCache;
