//! The public Rust API: databases, transactions, queries and errors by kind.
//!
//! A [`Database`] is opened once per process; [`Database::query`] runs a query in its own transaction,
//! [`Database::transact`] runs several in one. Key-values ([`WriteTransaction::bucket`]), documents
//! ([`WriteTransaction::collection`]) and the graph ([`ReadTransaction::query`]) are read and written in the same
//! serializable transaction.
//!
//! ```
//! use isomerdb::{Database, params};
//!
//! let db = Database::open_in_memory()?;
//! db.transact(|tx| {
//!     tx.bucket("sessions").put("s-1", "ada")?;
//!     tx.collection("User").insert(&params! { "_key" => "ada", "address" => params! { "city" => "London" } })?;
//!     tx.query("MATCH (u:User {_key: 'ada'}) CREATE (u)-[:FRIEND]->(:User {_key: 'bob', address: {city: 'London'}})")
//! })?;
//! let friends = "MATCH (u:User {_key: kv.get('sessions', $session)})-[:FRIEND]->(f)
//!     WHERE f.address.city = u.address.city RETURN f._key AS who";
//! let friends = db.query((friends, params! { "session" => "s-1" }))?;
//! assert_eq!(friends.single()?.get::<String>("who")?, "bob");
//! # Ok::<(), isomerdb::Error>(())
//! ```
//!
//! Overview: ordered keys ([`Bucket`], [`Cursor`], [`TypedBucket`], [`Database::watch`]), documents ([`Collection`]),
//! files ([`Files`], [`Database::create_file`], [`Directory`]), earlier versions ([`Database::begin_at`]), copies
//! ([`Database::backup`], [`Database::restore`], [`Database::checkpoint`]), maintenance ([`Database::check`],
//! [`Database::compact`], [`Database::statistics`], [`Database::rotate_key`]).
//!
//! Invariants: a commit that returned is on disk; every error has an [`ErrorKind`] that says what to do next; no type
//! of a storage engine is exposed.

mod backup;
mod bounds;
mod bucket;
mod cache;
mod catalog;
mod check;
mod collection;
mod cursor;
mod database;
mod de;
mod engine;
mod error;
mod field;
#[cfg(feature = "files")]
mod files;
#[doc(hidden)]
pub mod internals;
mod layers;
mod memory;
mod open;
mod options;
mod pairs;
mod parameters;
mod point;
mod prepared;
mod processes;
mod query;
mod result_size;
mod rows;
mod running;
mod ser;
mod statement;
mod stream;
mod transact;
mod transaction;
mod typed;
mod watch;

pub use backup::{Backup, BackupInfo, BackupTask, RestorePoint, RestoreTask, Restored};
pub use bounds::KeyBounds;
pub use bucket::{Bucket, ReadBucket};
pub use check::CheckTask;
pub use collection::{Collection, ReadCollection};
pub use cursor::Cursor;
pub use database::Database;
pub use de::from_value;
pub use error::{Error, ErrorKind, Phase, QueryError, Result, SchemaClash, SchemaError};
pub use field::{Context, Field, FieldOrigins, FieldState, ReadField, Update};
#[cfg(feature = "files")]
pub use files::{
    Copied, Directory, DirectoryLock, File, FileReader, FileWriter, Files, FolderError, ReadAt,
    ReadFile, ReadFiles, ReadSeek, WriteFile,
};
pub use memory::Memory;
pub use options::{At, Builder, EngineKind, QueryOptions, Sharing};
pub use pairs::{Documents, Items, Pairs, TypedPairs};
pub use parameters::IntoParameters;
pub use prepared::{Arguments, Prepared};
pub use processes::SharingProcess;
pub use query::Query;
pub use rows::{QueryResult, Row};
pub use ser::{to_map, to_value};
pub use stream::{RowCursor, RowStream, TransactionRows};
pub use transaction::{PendingCommit, ReadTransaction, WriteTransaction};
pub use typed::{ReadTypedBucket, TypedBucket};
pub use watch::Watch;

pub use isomer_data::{
    BucketKey, BucketKind, BucketOptions, ConvergentKind, ConvergentOwner, Durability, Expiry,
    FieldOrigin, FromBucketKey, KvChange, KvChangeKind, MemoryKind, MemoryUse, Order,
    ProcessMemory, ReplicaId, Version, WatchGuard, WatchScope,
};
#[cfg(feature = "files")]
pub use isomer_data::{FileId, FileMetadata, PathKind};
pub use isomer_exec::{CancelHandle, Counters, Limits, UrlAnswer, UrlClient};
pub use isomer_plan::{
    physical::{Notice, StatementClass},
    reads::{NameFilter, QueryDependencies},
};
pub use isomer_storage::{MemoryPart, Statistics};
pub use isomer_value::{
    Crs, Labels, Map, Node, NodeContent, NodeId, Path, Point, RelId, Relationship,
    RelationshipContent, TypeId, Value, ValueError, jiff, json, temporal,
};
#[cfg(feature = "encryption")]
pub use isomer_vfs::keys::{KeyError, MasterKey};
