//! Catalog, key map and transactions over key-values, documents and graphs.
//!
//! [`Store`] is an opened database, [`Transaction`] the only way to read and write it. What this crate keeps true:
//! - everything that one commit changes (records, keys, index entries, adjacency, change-stream entry) goes into one
//!   storage transaction, and nothing else writes keys;
//! - a transaction declares its *logical* footprint, so that it is serializable without false conflicts;
//! - it knows no engine: any [`isomer_storage::Engine`] may run below.

mod batch;
mod bulk;
mod catalog;
mod check;
mod clock;
mod convergent;
mod copies;
mod counts;
mod dirty;
mod document;
mod error;
mod extents;
mod files;
mod footprint;
mod graph;
mod index;
mod keyspace;
mod kv;
mod lineage;
mod observer;
mod properties;
mod read;
mod replication;
mod schema_change;
mod spill;
mod statistics;
mod store;
mod stream;
mod transaction;

pub use bulk::{
    BulkEnds, BulkNode, BulkOptions, BulkOutcome, BulkPhase, BulkRelationship, BulkWatch, KeyTypes,
    Verdict,
};
pub use catalog::{
    Catalog, Check, Constraint, ConstraintKind, ConstraintSpec, FieldCheck, FieldPath, IndexDef,
    IndexField, IndexSpec, IndexState, SchemaChange, SchemaOutcome, ValueType,
};
pub use clock::{Clock, SystemClock};
pub use convergent::{
    ConvergentKind, ConvergentOp, ConvergentOrigin, ConvergentOwner, Dot, ReplicaId, ReplicaNo,
    SKETCH_PRECISION, SKETCH_PRECISIONS, ScalarField, Vector,
};
pub use dirty::Dirty;
pub use document::new_key;
pub use error::{DataError, ErrorKind};
pub use files::{
    CHUNK_BYTES, FileAbout, FileId, MAX_FILE_BYTES, MAX_FILE_NAME_BYTES, PathKind,
    UNNAMED as UNNAMED_FILES,
};
pub use graph::NodeRecord;
pub use keyspace::after_prefix;
pub use kv::{
    BucketCursor, BucketKey, BucketKind, BucketOptions, BytePair, Content, Expiry, FromBucketKey,
    KvChange, KvChangeKind, KvCursor, MAX_BUCKET_KEY_BYTES, MAX_BUCKET_VALUE_BYTES,
    MAX_PAIR_PART_BYTES, Sweeper, Watch, Watched, Watcher, decode_key, encode_key,
};
pub use lineage::{EraId, Lineage};
pub use observer::{CommitObserver, LoadSink, Loading};
pub use read::{Direction, GraphRead, IndexCursor, IndexSeek, Neighbours, NodeLabels, RelRow};
pub use replication::RANGES as REPLICATION_RANGES;
pub use replication::{
    Applied, Conflict, ConflictKind, EndpointKeeper, Greeted, Joining, MemberInfo, PushedPage,
    ReplicatedSpace, ReplicationStatus, next_place,
};
pub use spill::{
    BLOCK_BYTES, SpillFault, SpillFile, SpillFolder, SpillParts, SpillReader, SpillRun, SpillWriter,
};
pub use statistics::{IndexStatistics, LabelStatistics, TypeStatistics, ValueStatistics};
pub use store::{Access, Store, StoreOptions, WeakStore};
pub use stream::{Change, ChangeSet, Counted, StreamHold};
pub use transaction::{Committing, Mark, Transaction};

pub use isomer_storage::{
    Durability, Engine, KeyRange, Memory, MemoryKind, MemoryUse, Order, OverBudget, Page,
    PageLimit, Reclaim, Reservation, Snapshot, Version,
};
