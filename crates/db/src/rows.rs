//! Results of queries: rows with named columns, and the counts of changes.

use std::sync::{Arc, OnceLock};

use isomer_data::Reservation;
use isomer_exec::Counters;
use isomer_plan::physical::{Notice, StatementClass};
use isomer_value::Value;
use serde_core::de::DeserializeOwned;

use crate::{
    Error, ErrorKind, Result,
    de::{from_pairs, from_value},
};

/// One row of a result. Cloning is cheap (two reference counts).
///
/// ```
/// # let db = isomerdb::Database::open_in_memory()?;
/// let result = db.query("RETURN 'Ada' AS name, 36 AS age")?;
/// let row = result.single()?;
/// assert_eq!(row.get::<String>("name")?, "Ada");
/// assert_eq!(row.value("age")?.as_int(), Some(36));
/// assert_eq!(row.deserialize::<(String, u8)>()?, ("Ada".to_owned(), 36));
/// # Ok::<(), isomerdb::Error>(())
/// ```
///
/// Rows of one batch share their memory: it is freed when the last of them is dropped.
#[derive(Clone)]
pub struct Row {
    batch: Arc<Batch>,
    /// Index in the batch.
    at: usize,
}

/// A batch of rows.
pub(crate) struct Batch {
    columns: Arc<[Arc<str>]>,
    /// Row after row.
    values: Vec<Value>,
    /// Number of rows; they may have no columns.
    len: usize,
}

impl Batch {
    pub(crate) fn new(columns: Arc<[Arc<str>]>, values: Vec<Value>, len: usize) -> Arc<Self> {
        debug_assert!(values.len() == len * columns.len());
        Arc::new(Self {
            columns,
            values,
            len,
        })
    }

    /// The values of the row at index `at`.
    fn values(&self, at: usize) -> &[Value] {
        let width = self.columns.len();
        &self.values[at * width..(at + 1) * width]
    }
}

impl Row {
    /// The row at index `at` of a batch.
    pub(crate) fn of(batch: Arc<Batch>, at: usize) -> Self {
        Self { batch, at }
    }

    /// The names of the columns.
    pub fn columns(&self) -> &[Arc<str>] {
        &self.batch.columns
    }

    /// The values, in the order of the columns.
    pub fn values(&self) -> &[Value] {
        self.batch.values(self.at)
    }

    /// Takes the values.
    pub fn into_values(self) -> Vec<Value> {
        self.values().to_vec()
    }

    /// The value in a column. `NotFound` if there is no column of that name.
    pub fn value(&self, column: &str) -> Result<&Value> {
        let mut names = self.columns().iter();
        match names.position(|name| name.as_ref() == column) {
            Some(at) => Ok(&self.values()[at]),
            None => {
                let known: Vec<&str> = self.columns().iter().map(AsRef::as_ref).collect();
                Err(Error::new(
                    ErrorKind::NotFound,
                    format!(
                        "the result has no column `{column}`; it has {}",
                        known.join(", ")
                    ),
                ))
            }
        }
    }

    /// The value in a column as a Rust type. `NotFound` if there is no such column, `Invalid` if the value does
    /// not fit the type; `Option<T>` takes null.
    pub fn get<T: DeserializeOwned>(&self, column: &str) -> Result<T> {
        from_value(self.value(column)?).map_err(|error| {
            Error::new(
                error.kind(),
                format!("column `{column}`: {}", error.message()),
            )
        })
    }

    /// The whole row as a Rust type: a structure by the names of the columns, a tuple by their order, or, for a single
    /// column, the type of its value (a structure reads the properties of a single node).
    pub fn deserialize<T: DeserializeOwned>(&self) -> Result<T> {
        from_pairs(self.columns(), self.values())
    }
}

impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        self.columns() == other.columns() && self.values() == other.values()
    }
}

impl std::fmt::Debug for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map()
            .entries(self.columns().iter().zip(self.values()))
            .finish()
    }
}

/// The complete result of a query.
///
/// ```
/// # use isomerdb::{Database, params};
/// #[derive(serde::Deserialize, Debug, PartialEq)]
/// struct City { name: String, people: u32 }
///
/// let db = Database::open_in_memory()?;
/// let made = db.query("CREATE (:City {name: 'Lucca', people: 89000}), (:City {name: 'Pisa', people: 90000})")?;
/// assert_eq!(made.counters().nodes_created, 2);
///
/// let result = db.query("MATCH (c:City) RETURN c.name AS name, c.people AS people ORDER BY people")?;
/// let cities: Vec<City> = result.deserialize()?;
/// assert_eq!(cities[1], City { name: "Pisa".into(), people: 90_000 });
/// for row in &result {
///     println!("{}", row.get::<String>("name")?);
/// }
/// # Ok::<(), isomerdb::Error>(())
/// ```
///
/// Values that are not small count in the memory budget until the result and its clones are dropped.
#[derive(Clone)]
pub struct QueryResult {
    pub(crate) columns: Arc<[Arc<str>]>,
    pub(crate) class: StatementClass,
    batches: Vec<Arc<Batch>>,
    /// Total number of rows.
    len: usize,
    /// The single rows, created at the first access: each refers to its batch, at the cost of two atomic operations.
    rows: OnceLock<Vec<Row>>,
    pub(crate) counters: Counters,
    pub(crate) plan: Option<String>,
    pub(crate) plan_json: Option<String>,
    pub(crate) notices: Vec<Notice>,
    /// What its values have of the memory budget, where they are not small.
    pub(crate) held: Option<Arc<Reservation>>,
}

impl Default for QueryResult {
    fn default() -> Self {
        Self {
            columns: Arc::default(),
            class: StatementClass::Read,
            batches: Vec::new(),
            len: 0,
            rows: OnceLock::new(),
            counters: Counters::default(),
            plan: None,
            plan_json: None,
            notices: Vec::new(),
            held: None,
        }
    }
}

impl QueryResult {
    /// No rows yet.
    pub(crate) fn of(columns: Arc<[Arc<str>]>, class: StatementClass) -> Self {
        Self {
            columns,
            class,
            ..Self::default()
        }
    }

    /// Appends rows; no row was accessed yet.
    pub(crate) fn push(&mut self, batch: Arc<Batch>) {
        self.len += batch.len;
        self.batches.push(batch);
    }

    /// The class of the statement, from its plan.
    pub fn class(&self) -> StatementClass {
        self.class
    }

    /// The names of the columns; none for a query that returns nothing.
    pub fn columns(&self) -> &[Arc<str>] {
        &self.columns
    }

    /// All rows.
    pub fn rows(&self) -> &[Row] {
        self.rows.get_or_init(|| {
            let mut rows = Vec::with_capacity(self.len);
            for batch in &self.batches {
                rows.extend((0..batch.len).map(|at| Row::of(batch.clone(), at)));
            }
            rows
        })
    }

    /// Takes the rows. They do not count in the memory budget any more.
    pub fn into_rows(self) -> Vec<Row> {
        self.rows();
        self.rows.into_inner().unwrap_or_default()
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Iterates over the rows.
    pub fn iter(&self) -> std::slice::Iter<'_, Row> {
        self.rows().iter()
    }

    /// The single row. `NotFound` if there is none, `Invalid` if there are several.
    pub fn single(&self) -> Result<&Row> {
        match self.rows() {
            [row] => Ok(row),
            [] => Err(Error::new(
                ErrorKind::NotFound,
                "one row was expected, the result is empty",
            )),
            rows => Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "one row was expected, the result has {}: add LIMIT 1 or narrow the query",
                    rows.len()
                ),
            )),
        }
    }

    /// All rows as a Rust type: see [`Row::deserialize`].
    pub fn deserialize<T: DeserializeOwned>(&self) -> Result<Vec<T>> {
        let mut made = Vec::with_capacity(self.len);
        for batch in &self.batches {
            for at in 0..batch.len {
                made.push(from_pairs(&batch.columns, batch.values(at))?);
            }
        }
        Ok(made)
    }

    /// The counts of the query's changes.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The plan as text, for a query that begins with `EXPLAIN` or `PROFILE`.
    pub fn plan(&self) -> Option<&str> {
        self.plan.as_deref()
    }

    /// The same plan as JSON: `{"class", "columns", "parameters", "plan": {"operator", "details", "rows", "inputs"}}`,
    /// where `rows` is the estimate; after `PROFILE` each operator also has `ran`, `actual_rows`, `calls`, `time_ms`
    /// (including its inputs), `own_time_ms` (without them), `memory_bytes`, `spilled_bytes`, `from_view` and
    /// `fell_back` (its fallback ran in its place), and an exchange `threads`. None for a plan nested too deep for
    /// JSON.
    pub fn plan_json(&self) -> Option<&str> {
        self.plan_json.as_deref()
    }

    /// Notices that are not errors, such as a Cartesian product, with their names and positions in the text.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }
}

impl std::fmt::Debug for QueryResult {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueryResult")
            .field("columns", &self.columns)
            .field("class", &self.class)
            .field("rows", &self.rows())
            .field("counters", &self.counters)
            .field("plan", &self.plan)
            .field("notices", &self.notices)
            .finish()
    }
}

impl IntoIterator for QueryResult {
    type Item = Row;
    type IntoIter = std::vec::IntoIter<Row>;

    fn into_iter(self) -> Self::IntoIter {
        self.into_rows().into_iter()
    }
}

impl<'r> IntoIterator for &'r QueryResult {
    type Item = &'r Row;
    type IntoIter = std::slice::Iter<'r, Row>;

    fn into_iter(self) -> Self::IntoIter {
        self.rows().iter()
    }
}
