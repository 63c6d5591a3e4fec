//! What functions need of the execution.

use std::sync::Arc;

use isomer_data::{ConvergentOwner, Direction, FileId, FileMetadata};
use isomer_value::{DatabaseId, Element, Map, NodeId, Relationship, TypeId, Value, jiff};

use crate::{error::Result, pattern::Regex};

/// What functions and operators need from the transaction and the machine.
pub trait Environment {
    /// Names of a node's labels, sorted. `DeletedEntityAccess` if the node is deleted.
    fn node_labels(&self, node: NodeId) -> Result<Vec<Arc<str>>>;
    /// All properties of a node.
    fn node_properties(&self, node: NodeId) -> Result<Map>;
    /// One property of a node; null if it is missing.
    fn node_property(&self, node: NodeId, name: &str) -> Result<Value>;
    /// All properties of a relationship.
    fn relationship_properties(&self, relationship: &Relationship) -> Result<Map>;
    /// One property of a relationship; null if it is missing.
    fn relationship_property(&self, relationship: &Relationship, name: &str) -> Result<Value>;
    /// The name of a relationship type.
    fn type_name(&self, id: TypeId) -> Result<Arc<str>>;
    /// The statement's timestamp.
    fn statement_time(&self) -> jiff::Timestamp;
    /// The transaction's timestamp.
    fn transaction_time(&self) -> jiff::Timestamp;
    /// The current time, read at each call.
    fn real_time(&self) -> jiff::Timestamp;
    /// The session's time zone.
    fn time_zone(&self) -> jiff::tz::TimeZone;
    /// 64 random bits.
    fn random(&self) -> u64;
    /// The compiled form of a regular expression that must match whole strings, cached.
    fn regex(&self, pattern: &str) -> Result<Arc<Regex>>;
    /// How many relationships a node has: `types` empty means all, `direction` as `OUTGOING`, `INCOMING` or `BOTH`.
    fn degree(&self, node: NodeId, types: &[Arc<str>], direction: Direction) -> Result<u64>;
    /// The value under a key of a bucket; null if there is none.
    fn bucket_get(&self, bucket: &str, key: &Value) -> Result<Value>;
    /// The file or folder at a path; none if the path does not exist.
    fn file_metadata(&self, path: &str) -> Result<Option<FileMetadata>>;
    /// A part of a file: at most `length` bytes from `offset` on.
    fn file_part(&self, file: FileId, offset: u64, length: u64) -> Result<Vec<u8>>;
    /// The convergent field at a path of a node or relationship, queried with `query`; null if there is none.
    fn query_field(
        &self,
        owner: ConvergentOwner,
        path: &[&str],
        query: FieldQuery<'_>,
    ) -> Result<Value>;
    /// The id of the database, which element ids contain.
    fn database(&self) -> DatabaseId;
    /// The result of `convert` for a list of element ids of one kind; cached for the next call with the same list.
    fn converted(
        &self,
        ids: &Arc<Vec<Value>>,
        element: Element,
        convert: &dyn Fn(&[Value]) -> Value,
    ) -> Result<Value>;
    /// Fails if a value of about `bytes` bytes would exceed the query's memory limit.
    fn allow_bytes(&self, bytes: usize) -> Result<()>;
    /// Makes the graph in memory of the rows of `gds.graph.project` (name, source, target and two maps of settings
    /// each), and describes it; null without rows.
    fn project_graph(&self, rows: &[Value]) -> Result<Value>;
}

/// A query on a convergent field.
#[derive(Clone, Copy, Debug)]
pub enum FieldQuery<'a> {
    /// Its kind.
    Kind,
    /// Its value.
    Value,
    /// Whether the set contains this element.
    Contains(&'a Value),
    /// Number of elements or fields.
    Size,
    /// At most this number of elements of the set after this one (null: from the first).
    Page(&'a Value, usize),
}
