//! The database in several modes, and its results of a query.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use isomer_db::{
    Builder, Database, Durability, ErrorKind, Limits, Phase, Query, QueryOptions, ReadTransaction,
    internals::{
        BuilderInternals as _, DatabaseInternals as _, Planning, data::Access, views::ViewOptions,
    },
};
use isomer_oracle::Datum;
use isomer_oracle::graph::{Graph, Node, Relationship};
use isomer_value::{Map, Value};
use tempfile::TempDir;

use super::convert;

/// A mode of running queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// No index.
    Plain,
    /// Indexes.
    Indexed,
    /// Indexes, and none of the planner's rules.
    NoRules,
    /// Indexes, and a barrier after every clause.
    Barriers,
    /// Indexes; prepared, with the literals as parameters.
    Prepared,
    /// Read views from the first relationship on; waits until they are ready.
    Views,
    /// A minimal memory budget: sorting, grouping and joining spills to disk, or is refused.
    Small,
    /// Several threads, regardless of the number of rows.
    Parallel,
    /// Indexes, on disk.
    Durable,
}

/// The modes in which every query runs; the durable mode runs on a sample.
pub const MODES: [Mode; 8] = [
    Mode::Plain,
    Mode::Indexed,
    Mode::NoRules,
    Mode::Barriers,
    Mode::Prepared,
    Mode::Views,
    Mode::Small,
    Mode::Parallel,
];

/// Bytes that a query of the small-memory mode may hold.
const SMALL_BYTES: usize = 12 << 10;

impl Mode {
    /// Options for opening its database.
    pub fn builder(self) -> Builder {
        let planning = Planning {
            plain: self == Mode::NoRules,
            barriers_everywhere: self == Mode::Barriers,
            ..Planning::default()
        };
        let builder = match self {
            Self::Parallel => Builder::default().parallel_rows(0),
            _ => Builder::default().parallel_rows(u64::MAX),
        };
        builder
            .planning(planning)
            .views(views(self))
            .sweep_interval(None)
            .durability(Durability::Buffered)
    }

    /// Options for running its queries.
    pub fn options(self) -> QueryOptions {
        let mut limits = Limits::default();
        limits.time = Some(Duration::from_secs(20));
        if self == Mode::Small {
            limits.memory_bytes = SMALL_BYTES;
        }
        QueryOptions::new().limits(limits)
    }
}

/// A database with a graph.
pub struct Subject {
    /// How it runs queries.
    pub mode: Mode,
    database: Database,
    options: QueryOptions,
    /// Removed together with the database.
    _folder: Option<TempDir>,
}

/// Result of a query.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Rows, and the graph afterwards where the query writes.
    Rows {
        /// The names of the columns.
        columns: Vec<Arc<str>>,
        /// The rows.
        rows: Vec<Vec<Datum>>,
        /// The graph afterwards.
        graph: Option<Graph>,
    },
    /// An error: when it occurred, its message, and its kind.
    Error {
        /// When it occurred.
        phase: Option<Phase>,
        /// Its message.
        message: String,
        /// Its kind.
        kind: ErrorKind,
    },
}

impl Subject {
    /// A database with that graph and, if the mode has one, the schema.
    pub fn open(mode: Mode, graph: &Graph, schema: &[String]) -> Result<Self> {
        let (database, folder) = match mode {
            Mode::Durable => {
                let folder = tempfile::tempdir()?;
                (mode.builder().open(folder.path().join("db"))?, Some(folder))
            }
            _ => (mode.builder().open_in_memory()?, None),
        };
        let fill = || -> Result<()> {
            if let Some(text) = graph.to_cypher() {
                database.query(&text).with_context(|| text.clone())?;
            }
            Ok(())
        };
        // Indexes are built over existing data, or maintained while it is written.
        let comes_first = schema.len().is_multiple_of(2);
        if comes_first {
            fill()?;
        }
        if mode != Mode::Plain {
            for statement in schema {
                database
                    .query(statement)
                    .with_context(|| statement.clone())?;
            }
        }
        if !comes_first {
            fill()?;
        }
        Ok(Self {
            mode,
            database,
            options: mode.options(),
            _folder: folder,
        })
    }

    /// The database itself.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Commits what a query writes that needs more memory than this mode has: takes over the resulting graph.
    pub fn run_with_memory(&self, text: &str) -> Result<Option<Graph>> {
        let transaction = self.database.begin()?;
        transaction.query(text)?;
        let graph = graph_of(&transaction)?;
        transaction.commit()?;
        Ok(Some(graph))
    }

    /// Runs a query. Its writes are rolled back unless `keeps`.
    pub fn run(&self, text: &str, writes: bool, keeps: bool) -> Result<Outcome> {
        let (text, parameters) = match self.mode {
            Mode::Prepared => lifted(text),
            _ => (text.to_owned(), Map::new()),
        };
        if self.mode == Mode::Views {
            self.database.views().wait_ready();
        }
        let access = if writes { Access::Write } else { Access::Read };
        let transaction = self.database.begin_with(access)?;
        let answer = match self.mode {
            Mode::Prepared => self
                .database
                .prepare(&text)
                .and_then(|prepared| transaction.query_prepared(&prepared, &parameters)),
            _ => transaction.query(Query::new(&text).params(&parameters).options(&self.options)),
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                return Ok(Outcome::Error {
                    phase: error.query_error().map(|error| error.phase),
                    message: error.to_string(),
                    kind: error.kind(),
                });
            }
        };
        let graph = match writes {
            true => Some(graph_of(&transaction)?),
            false => None,
        };
        if keeps {
            transaction.commit()?;
        } else {
            transaction.rollback();
        }
        Ok(Outcome::Rows {
            columns: answer.columns().to_vec(),
            rows: answer
                .rows()
                .iter()
                .map(|row| row.values().iter().map(convert::datum).collect())
                .collect(),
            graph,
        })
    }
}

/// Builds views at once, or none.
fn views(mode: Mode) -> ViewOptions {
    let mut options = ViewOptions::default();
    options.enabled = mode == Mode::Views;
    options.demand = 1;
    options.merge_after = 2;
    options
}

/// The text with its literals as parameters.
pub(super) fn lifted(text: &str) -> (String, Map) {
    use isomer_cypher::ast::Literal;
    let normalised = isomer_cypher::normalise(text);
    let value = |literal: &Literal| match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Int(value) => Value::Int(*value),
        Literal::Float(value) => Value::Float(*value),
        Literal::String(value) => Value::String(value.clone()),
    };
    let parameters = normalised
        .literals
        .iter()
        .map(|(name, literal)| (name.as_str(), value(literal)));
    (normalised.key.clone(), parameters.collect())
}

/// The content of the database, as the transaction sees it.
pub(super) fn graph_of(transaction: &ReadTransaction) -> Result<Graph> {
    let mut graph = Graph::default();
    for row in transaction.query("MATCH (n) RETURN n")?.rows() {
        if let Some(Value::Node(node)) = row.values().first() {
            let content = node.content.as_deref().cloned().unwrap_or_default();
            let labels = content.labels.iter().map(ToString::to_string).collect();
            graph.nodes.insert(
                node.id.0,
                Node {
                    labels,
                    properties: convert::map(&content.properties),
                },
            );
        }
    }
    for row in transaction.query("MATCH ()-[r]->() RETURN r")?.rows() {
        if let Some(Value::Relationship(one)) = row.values().first() {
            let content = one.content.as_deref().cloned().unwrap_or_default();
            graph.relationships.insert(
                one.id.0,
                Relationship {
                    source: one.source.0,
                    target: one.target.0,
                    name: content.type_name.to_string(),
                    properties: convert::map(&content.properties),
                },
            );
        }
    }
    Ok(graph)
}
