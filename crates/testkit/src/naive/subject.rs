//! The database, opened in different ways, and what it makes of a query.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use isomer_db::{
    Builder, Database, Durability, ErrorKind, Limits, Phase, Planning, QueryOptions, Transaction,
    views::ViewOptions,
};
use isomer_value::{Map, Value};
use tempfile::TempDir;

use super::interpreter::graph::{Graph, Node, Relationship};

/// One way to run queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// No index.
    Plain,
    /// Indexes.
    Indexed,
    /// Indexes, and none of the planner's rules.
    NoRules,
    /// Indexes, and a barrier after every clause.
    Barriers,
    /// Indexes, and prepared with the literals as parameters.
    Prepared,
    /// Read views from the first relationship on, waited for.
    Views,
    /// Next to no memory: what sorts, groups and joins goes to disk, or is refused.
    Small,
    /// Several threads for however few rows.
    Parallel,
    /// Indexes, on disk.
    Durable,
}

/// Those that every query is run in; [`Way::Durable`] is for a sample.
pub const WAYS: [Way; 8] = [
    Way::Plain,
    Way::Indexed,
    Way::NoRules,
    Way::Barriers,
    Way::Prepared,
    Way::Views,
    Way::Small,
    Way::Parallel,
];

/// Bytes that a query of [`Way::Small`] may hold.
const SMALL_BYTES: usize = 12 << 10;

impl Way {
    /// How a database is opened for it.
    pub fn builder(self) -> Builder {
        let planning = Planning {
            plain: self == Way::NoRules,
            barriers_everywhere: self == Way::Barriers,
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

    /// How its queries run.
    pub fn options(self) -> QueryOptions {
        let mut limits = Limits::default();
        limits.time = Some(Duration::from_secs(20));
        if self == Way::Small {
            limits.memory_bytes = SMALL_BYTES;
        }
        QueryOptions::new().limits(limits)
    }
}

/// A database with a graph.
pub struct Subject {
    /// How it runs queries.
    pub way: Way,
    database: Database,
    options: QueryOptions,
    /// Gone with the database.
    _folder: Option<TempDir>,
}

/// What a query came to.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Rows, and the graph afterwards where the query writes.
    Rows {
        /// The names of the columns.
        columns: Vec<Arc<str>>,
        /// The rows.
        rows: Vec<Vec<Value>>,
        /// The graph afterwards.
        graph: Option<Graph>,
    },
    /// An error: when, what, and whether it is the database's own fault.
    Error {
        /// When it was found.
        phase: Option<Phase>,
        /// What it says.
        message: String,
        /// What it is.
        kind: ErrorKind,
    },
}

impl Subject {
    /// A database with that graph and, where the way says so, the schema.
    pub fn open(way: Way, graph: &Graph, schema: &[String]) -> Result<Self> {
        let (database, folder) = match way {
            Way::Durable => {
                let folder = tempfile::tempdir()?;
                (way.builder().open(folder.path().join("db"))?, Some(folder))
            }
            _ => (way.builder().open_in_memory()?, None),
        };
        let fill = || -> Result<()> {
            if let Some(text) = graph.to_cypher() {
                database.query(&text, ()).with_context(|| text.clone())?;
            }
            Ok(())
        };
        // Indexes are built over what is there, or kept while it comes.
        let comes_first = schema.len().is_multiple_of(2);
        if comes_first {
            fill()?;
        }
        if way != Way::Plain {
            for statement in schema {
                database
                    .query(statement, ())
                    .with_context(|| statement.clone())?;
            }
        }
        if !comes_first {
            fill()?;
        }
        Ok(Self {
            way,
            database,
            options: way.options(),
            _folder: folder,
        })
    }

    /// Keeps what a query writes that needs more memory than the others may take: the graph afterwards.
    pub fn run_with_memory(&self, text: &str) -> Result<Option<Graph>> {
        let mut transaction = self.database.begin()?;
        transaction.query(text, ())?;
        let graph = graph_of(&mut transaction)?;
        transaction.commit()?;
        Ok(Some(graph))
    }

    /// Runs a query. Nothing of what it writes stays, unless `keeps`.
    pub fn run(&self, text: &str, writes: bool, keeps: bool) -> Result<Outcome> {
        let (text, parameters) = match self.way {
            Way::Prepared => lifted(text),
            _ => (text.to_owned(), Map::new()),
        };
        if self.way == Way::Views {
            self.database.views().wait_ready();
        }
        let mut transaction = if writes {
            self.database.begin()?
        } else {
            self.database.begin_read()?
        };
        let answer = match self.way {
            Way::Prepared => self
                .database
                .prepare(&text)
                .and_then(|prepared| transaction.query_prepared(&prepared, &parameters)),
            _ => transaction.query_with(&text, &parameters, &self.options),
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
            true => Some(graph_of(&mut transaction)?),
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
                .map(|row| row.values().to_vec())
                .collect(),
            graph,
        })
    }
}

/// Views at once, or none.
fn views(way: Way) -> ViewOptions {
    let mut options = ViewOptions::default();
    options.enabled = way == Way::Views;
    options.demand = 1;
    options.merge_after = 2;
    options
}

/// The text with its literals as parameters.
fn lifted(text: &str) -> (String, Map) {
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

/// All that the database holds, as the transaction sees it.
fn graph_of(transaction: &mut Transaction) -> Result<Graph> {
    let mut graph = Graph::default();
    for row in transaction.query("MATCH (n) RETURN n", ())?.rows() {
        if let Some(Value::Node(node)) = row.values().first() {
            let content = node.content.as_deref().cloned().unwrap_or_default();
            let labels = content.labels.iter().map(ToString::to_string).collect();
            graph.nodes.insert(
                node.id.0,
                Node {
                    labels,
                    properties: content.properties,
                },
            );
        }
    }
    for row in transaction.query("MATCH ()-[r]->() RETURN r", ())?.rows() {
        if let Some(Value::Relationship(one)) = row.values().first() {
            let content = one.content.as_deref().cloned().unwrap_or_default();
            graph.relationships.insert(
                one.id.0,
                Relationship {
                    source: one.source.0,
                    target: one.target.0,
                    name: content.type_name.to_string(),
                    properties: content.properties,
                },
            );
        }
    }
    Ok(graph)
}
