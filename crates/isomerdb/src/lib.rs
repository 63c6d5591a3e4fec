//! IsomerDB is an embedded multi-model database: data is stored once, in one directory, and read as key-values, as
//! documents and as a graph, through one serializable transaction and one query language (openCypher).
//!
//! ```
//! use isomerdb::{Database, params};
//!
//! let db = Database::open_in_memory()?; // or Database::open("people.isomer")?
//! db.transact(|tx| {
//!     tx.bucket("sessions").put("s-1", "ada")?;
//!     tx.collection("Person").insert(&params! { "_key" => "ada", "city" => "London" })?;
//!     tx.query("MATCH (p:Person {_key: 'ada'}) CREATE (p)-[:KNOWS]->(:Person {_key: 'charles'})")?;
//!     Ok(())
//! })?;
//! let text = "MATCH (:Person {_key: kv.get('sessions', $id)})-[:KNOWS]->(p) RETURN p._key";
//! let known = db.query((text, [("id", "s-1")]))?;
//! assert_eq!(known.deserialize::<String>()?, ["charles"]);
//! # Ok::<(), isomerdb::Error>(())
//! ```
//!
//! A [`Database`] is opened once per process and cloned to its threads; several processes may have it open, unless
//! it is an exclusive one ([`Sharing`]). [`Database::query`] runs one query in its own
//! transaction; [`Database::transact`] runs several operations in one and repeats them after a conflict;
//! [`Database::read`] reads one version. Each [`Error`] has an [`ErrorKind`] that says what to do next.
//!
//! | to work with | start with | in `examples/` |
//! |---|---|---|
//! | ordered keys and values | [`Bucket`], [`TypedBucket`], [`Cursor`], [`Database::watch`] | `key_value.rs` |
//! | documents by key | [`Collection`] | `documents.rs` |
//! | a graph, in openCypher | [`Query`], [`QueryResult`], [`Prepared`] | `graph.rs` |
//! | all of them in one transaction | [`WriteTransaction`], [`ReadTransaction`] | `one_transaction.rs` |
//! | replicas that merge | [`Update`], [`Field`], `replication` | `convergent.rs`, `replicas.rs` |
//! | results larger than memory | [`RowStream`], [`RowCursor`], [`Pairs`] | `streaming.rs` |
//!
//! Also: files (`Files`, `Directory`), encryption (`Builder::key`), earlier versions ([`Database::begin_at`]), backups
//! ([`Database::backup`], [`Database::restore`]), and the integrity check ([`Database::check`]).
//!
//! # Features
//!
//! `algorithms` (the procedures `algo.*` and `gds.*`), `encryption`, `files`, `regex` (the operator `=~`), `replicas`
//! (opening databases that are replicas) and `unicode` (`normalize()`, `IS NORMALIZED`) are on by default. `gzip` adds
//! `LOAD CSV` of compressed files, `redb` a second storage engine, `replication` the exchange with other replicas.
//!
//! The types are those of this version of `isomerdb`, also where they are defined in a crate below.

#[cfg(feature = "replication")]
pub mod replication;

#[doc(inline)]
pub use isomer_db::{
    Arguments, At, Backup, BackupInfo, BackupTask, Bucket, BucketKey, BucketKind, BucketOptions,
    Builder, CancelHandle, CheckTask, Collection, Context, ConvergentKind, ConvergentOwner,
    Counters, Crs, Cursor, Database, Documents, Durability, EngineKind, Error, ErrorKind, Expiry,
    Field, FieldOrigin, FieldOrigins, FieldState, FromBucketKey, IntoParameters, Items, KeyBounds,
    KvChange, KvChangeKind, Labels, Limits, Map, Memory, MemoryKind, MemoryPart, MemoryUse,
    NameFilter, Node, NodeContent, NodeId, Notice, Order, Pairs, Path, PendingCommit, Phase, Point,
    Prepared, ProcessMemory, Query, QueryDependencies, QueryError, QueryOptions, QueryResult,
    ReadBucket, ReadCollection, ReadField, ReadTransaction, ReadTypedBucket, RelId, Relationship,
    RelationshipContent, ReplicaId, RestorePoint, RestoreTask, Restored, Result, Row, RowCursor,
    RowStream, SchemaClash, SchemaError, Sharing, SharingProcess, StatementClass, Statistics,
    TransactionRows, TypeId, TypedBucket, TypedPairs, Update, UrlAnswer, UrlClient, Value,
    ValueError, Version, Watch, WatchGuard, WatchScope, WriteTransaction, from_value, jiff, json,
    params, temporal, to_map, to_value,
};
#[cfg(feature = "files")]
#[doc(inline)]
pub use isomer_db::{
    Copied, Directory, DirectoryLock, File, FileId, FileMetadata, FileReader, FileWriter, Files,
    FolderError, PathKind, ReadAt, ReadFile, ReadFiles, ReadSeek, WriteFile,
};
#[cfg(feature = "encryption")]
#[doc(inline)]
pub use isomer_db::{KeyError, MasterKey};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
