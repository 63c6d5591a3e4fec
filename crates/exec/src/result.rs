//! Results of an execution: rows, counters, operator profiles.

use std::time::Duration;

use isomer_value::{Map, Value};

/// Rows of a result, one after the other in one vector.
#[derive(Clone, Debug, Default)]
pub struct ResultRows {
    width: usize,
    count: usize,
    values: Vec<Value>,
}

impl ResultRows {
    /// No rows.
    pub fn new() -> Self {
        Self::default()
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Number of columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The row at index `at`.
    pub fn row(&self, at: usize) -> &[Value] {
        &self.values[at * self.width..(at + 1) * self.width]
    }

    /// All rows.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[Value]> {
        (0..self.count).map(|at| self.row(at))
    }

    /// All values, row after row.
    pub fn into_values(self) -> Vec<Value> {
        self.values
    }

    /// All values, row after row; leaves the batch empty.
    pub fn take_values(&mut self) -> Vec<Value> {
        self.count = 0;
        std::mem::take(&mut self.values)
    }

    /// Clears it and keeps its buffer.
    pub fn clear(&mut self) {
        self.count = 0;
        self.values.clear();
    }

    pub(crate) fn begin(&mut self, width: usize) {
        self.clear();
        self.width = width;
    }

    pub(crate) fn values_mut(&mut self) -> &mut Vec<Value> {
        &mut self.values
    }

    pub(crate) fn add_rows(&mut self, count: usize) {
        self.count += count;
        debug_assert_eq!(self.values.len(), self.count * self.width);
    }
}

/// What a statement changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Nodes created.
    pub nodes_created: u64,
    /// Nodes deleted.
    pub nodes_deleted: u64,
    /// Relationships created.
    pub relationships_created: u64,
    /// Relationships deleted, including those of detached nodes.
    pub relationships_deleted: u64,
    /// Properties set or removed, including those of created entities.
    pub properties_set: u64,
    /// Labels added to nodes, including those of created nodes.
    pub labels_added: u64,
    /// Labels removed from nodes.
    pub labels_removed: u64,
    /// Keys put into buckets.
    pub bucket_puts: u64,
    /// Keys deleted from buckets.
    pub bucket_deletes: u64,
    /// Indexes created.
    pub indexes_added: u64,
    /// Indexes dropped.
    pub indexes_removed: u64,
    /// Constraints created.
    pub constraints_added: u64,
    /// Constraints dropped.
    pub constraints_removed: u64,
}

impl Counters {
    /// Whether nothing was changed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds the counts of another statement.
    pub fn add(&mut self, other: &Self) {
        self.nodes_created += other.nodes_created;
        self.nodes_deleted += other.nodes_deleted;
        self.relationships_created += other.relationships_created;
        self.relationships_deleted += other.relationships_deleted;
        self.properties_set += other.properties_set;
        self.labels_added += other.labels_added;
        self.labels_removed += other.labels_removed;
        self.bucket_puts += other.bucket_puts;
        self.bucket_deletes += other.bucket_deletes;
        self.indexes_added += other.indexes_added;
        self.indexes_removed += other.indexes_removed;
        self.constraints_added += other.constraints_added;
        self.constraints_removed += other.constraints_removed;
    }

    /// Names and numbers of the changes, for display.
    pub fn changes(&self) -> Vec<(&'static str, u64)> {
        [
            ("nodes created", self.nodes_created),
            ("nodes deleted", self.nodes_deleted),
            ("relationships created", self.relationships_created),
            ("relationships deleted", self.relationships_deleted),
            ("properties set", self.properties_set),
            ("labels added", self.labels_added),
            ("labels removed", self.labels_removed),
            ("keys put", self.bucket_puts),
            ("keys deleted", self.bucket_deletes),
            ("indexes added", self.indexes_added),
            ("indexes removed", self.indexes_removed),
            ("constraints added", self.constraints_added),
            ("constraints removed", self.constraints_removed),
        ]
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .collect()
    }
}

/// The profile of one operator, for `PROFILE`.
#[derive(Clone, Copy, Debug, Default)]
pub struct OperatorProfile {
    /// Rows returned.
    pub rows: u64,
    /// Number of pulls. An operator without any did not run: another one ran in its place, or no row was asked of it.
    pub calls: u64,
    /// Time in the operator and its inputs.
    pub time: Duration,
    /// Time in the operator without its inputs, and without the fallback that ran in its place.
    pub own_time: Duration,
    /// Peak of the operator's own bytes when it returned, without its inputs.
    pub memory_bytes: u64,
    /// Whether a read view answered it.
    pub from_view: bool,
    /// Whether the fallback that the plan names for it ran in its place.
    pub fell_back: bool,
    /// The threads that ran the chain below an exchange: 1 if it started none; 0 for other operators.
    pub threads: u64,
    /// Bytes spilled to disk.
    pub spilled_bytes: u64,
    /// Bytes that the operator holds now. Negative if it released what its input had reserved.
    pub(crate) held_bytes: i64,
}

impl OperatorProfile {
    /// Whether it was asked for rows.
    pub fn ran(&self) -> bool {
        self.calls > 0
    }

    /// As a map: `ran`, `actual_rows`, `calls`, `time_ms`, `own_time_ms`, `memory_bytes`, `spilled_bytes`, `from_view`,
    /// `fell_back`; of an exchange also `threads`.
    pub(crate) fn to_map(self) -> Map {
        let number = |number: u64| Value::Int(i64::try_from(number).unwrap_or(i64::MAX));
        let ms = |time: Duration| Value::Float(time.as_secs_f64() * 1e3);
        let mut map: Map = [
            ("ran", Value::Bool(self.ran())),
            ("actual_rows", number(self.rows)),
            ("calls", number(self.calls)),
            ("time_ms", ms(self.time)),
            ("own_time_ms", ms(self.own_time)),
            ("memory_bytes", number(self.memory_bytes)),
            ("spilled_bytes", number(self.spilled_bytes)),
            ("from_view", Value::Bool(self.from_view)),
            ("fell_back", Value::Bool(self.fell_back)),
        ]
        .into_iter()
        .collect();
        if self.threads > 0 {
            map.insert("threads", number(self.threads));
        }
        map
    }
}

/// The registry of running queries: provides `SHOW QUERIES` and `KILL QUERY`.
pub trait RunningQueries: Send + Sync {
    /// One row per running query: id, text, elapsed milliseconds, rows, bytes of memory, name of the user.
    fn list(&self) -> Vec<[Value; 6]>;
    /// Cancels the query with this id; false if there is none.
    fn kill(&self, _id: &Value) -> bool {
        false
    }
}
