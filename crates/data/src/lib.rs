//! Transactions over key-values, documents and graphs, which `isomer-layout` describes as keys and rows.
//!
//! [`DataStore`] is an open database, [`Transaction`] the only way to read and write it. Invariants of this crate:
//! - everything that one commit changes (records, keys, index entries, adjacency, change-stream entry) goes into one
//!   storage transaction, and nothing else writes keys;
//! - a transaction declares its *logical* footprint, so that it is serializable without false conflicts;
//! - it is independent of the engine: any [`isomer_storage::Engine`] may be below.

/// The integrity check, as a part of this crate's unit tests: `isomer-check` itself is above this crate, and works with
/// the stores of the finished library, not with those of its unit tests.
#[cfg(test)]
#[path = "../../check/src/consistency/mod.rs"]
mod consistency;
#[cfg(test)]
extern crate self as isomer_data;

mod batch;
mod clock;
mod constraints;
mod convergent;
mod copies;
mod count_keeping;
mod counts;
mod current_schema;
mod deferred;
mod dirty;
mod document;
mod endpoint_keepers;
mod eras;
mod extents;
mod files;
mod footprint;
mod graph;
mod id_set;
mod index;
mod ingest;
#[doc(hidden)]
pub mod internals;
mod kv;
mod observer;
mod open;
mod read;
mod remote;
mod replicated;
mod schema_change;
mod small_commit;
mod statistics;
mod store;
mod store_options;
mod store_state;
pub mod stored_pairs;
mod stream;
mod transaction;
mod view_reads;

pub use isomer_layout::{
    DataError, ErrorKind, SchemaClash,
    catalog::{
        Catalog,
        keepers::EndpointKeeper,
        schema::{
            Check, Constraint, ConstraintKind, ConstraintSpec, FieldCheck, FieldPath, IndexDef,
            IndexField, IndexSpec, IndexState, RecordScope, SchemaChange, SchemaOutcome, ScopeName,
            ValueType,
        },
    },
    convergent::{
        clock::{Dot, ReplicaId, ReplicaNo, Vector},
        place::{ConvergentKind, SKETCH_PRECISION, SKETCH_PRECISIONS},
        position::ConvergentOwner,
    },
    files::{CHUNK_BYTES, MAX_FILE_BYTES, MAX_FILE_NAME_BYTES, UNNAMED as UNNAMED_FILES},
    graph::rows::RelRow,
    keyspace::after_prefix,
    kv::{
        content::Content,
        key::{BucketKey, FromBucketKey, decode_key, encode_key},
        options::{
            BucketKind, BucketOptions, MAX_BUCKET_KEY_BYTES, MAX_BUCKET_VALUE_BYTES,
            MAX_PAIR_PART_BYTES,
        },
    },
    lineage::{EraId, Lineage},
    stream::{
        change::{Change, ChangeSet, Counted},
        codec::Changes,
    },
};
pub use isomer_storage::{
    AloneHold, Durability, Engine, KeyRange, MemoryBudget, MemoryKind, MemoryUse, Order,
    OverBudget, Page, PageLimit, ProcessLock, ProcessLocks, ProcessMemory, Reclaim, Reservation,
    SPILL_BLOCK_BYTES, Snapshot, SpillFault, SpillFile, SpillFolder, SpillParts, SpillReader,
    SpillRun, SpillWriter, Version, count_allocations,
};

pub use crate::{
    files::metadata::{FileId, FileMetadata, PathKind},
    kv::bucket::Expiry,
    store_options::DataStoreOptions,
};
pub use clock::{Clock, SystemClock};
pub use constraints::{Constraints, ConstraintsMut};
pub use convergent::{
    ConvergentOp, FieldOrigin, Fields, FieldsMut, Numbering, ScalarField, SketchRanks,
};
pub use count_keeping::CountKeeper;
pub use dirty::Dirty;
pub use document::{Collections, CollectionsMut, new_key};
pub use eras::Eras;
pub use files::{FileTree, FileTreeMut};
pub use graph::{Graph, GraphMut, NodeRecord};
pub use id_set::IdSet;
pub use index::{Indexes, IndexesMut};
pub use ingest::{BlockedCommits, Ingest};
pub use kv::{
    BucketCursor, BucketWatch, BytePair, Kv, KvChange, KvChangeKind, KvCursor, KvMut, Sweeper,
    WatchGuard, WatchScope,
};
pub use observer::{CommitObserver, LoadSink, LoadSinks, Loading};
pub use read::{Direction, GraphRead, IndexCursor, IndexSeek, Neighbours, NodeLabels};
pub use replicated::{Conflict, ConflictKind, Replication, ReplicationMut};
pub use statistics::{
    IndexStatistics, LabelStatistics, TypeStatistics, ValueStatistics, answers::StoreStatistics,
};
pub use store::{Access, DataStore, WeakDataStore};
pub use stream::{ChangeStream, StreamHold};
pub use transaction::{
    Savepoint, Transaction, TransactionStarter, commit::DataCommit, name_ids::NameIds,
    raw_read::RawRead,
};
pub use view_reads::ViewReads;
