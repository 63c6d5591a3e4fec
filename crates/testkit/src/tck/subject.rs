//! The database under test: its results, errors and content.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use isomer_db::{
    Database, Phase, Query, QueryOptions,
    internals::{BuilderInternals as _, DatabaseInternals as _},
};
use isomer_value::{Map, Value};

use super::notation::Noted;
use super::procedure::TableProcedure;
use crate::naive::subject::Mode;

/// Timeout of a query of a conformance suite.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// A fresh database in memory.
pub(super) struct Subject {
    database: Database,
    options: QueryOptions,
    /// Whether to wait for views before each query.
    waits: bool,
}

/// Result of a query.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Vec<Noted>>,
}

/// Failure of a query.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    /// Phase, class and detail, if the language defines the error.
    pub(super) named: Option<(Phase, &'static str, &'static str)>,
    pub(super) message: String,
}

impl Subject {
    pub(super) fn open(procedures: Vec<TableProcedure>, mode: Option<Mode>) -> Result<Self> {
        let fresh = mode.map_or_else(Database::builder, Mode::builder);
        let builder = procedures.into_iter().fold(fresh, |builder, procedure| {
            builder.procedure(Arc::new(procedure))
        });
        Ok(Self {
            database: builder.open_in_memory()?,
            options: QueryOptions::new().time_limit(TIME_LIMIT),
            waits: mode == Some(Mode::Views),
        })
    }

    pub(super) fn execute(&self, text: &str, parameters: &Map) -> Result<Answer, Failure> {
        if self.waits {
            self.database.views().wait_ready();
        }
        let result = self
            .database
            .query(Query::new(text).params(parameters).options(&self.options))
            .map_err(|error| Failure {
                named: error
                    .query_error()
                    .map(|named| (named.phase, named.class, named.detail)),
                message: error.to_string(),
            })?;
        Ok(Answer {
            columns: result.columns().iter().map(ToString::to_string).collect(),
            rows: result
                .rows()
                .iter()
                .map(|row| row.values().iter().map(Noted::of).collect())
                .collect(),
        })
    }

    /// The content of the graph.
    pub(super) fn state(&self) -> Result<State, Failure> {
        let mut state = State::default();
        let none = Map::new();
        for text in ["MATCH (n) RETURN n", "MATCH ()-[r]->() RETURN r"] {
            let rows = self
                .database
                .query(Query::new(text).params(&none).options(&self.options));
            let rows = rows.map_err(|error| Failure {
                named: None,
                message: format!("{text}: {error}"),
            })?;
            rows.rows()
                .iter()
                .flat_map(|row| row.values())
                .for_each(|value| state.add(value));
        }
        Ok(state)
    }
}

/// The content of the graph in a form that allows the suite's comparison of two states, a set difference.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    nodes: BTreeSet<u64>,
    relationships: BTreeSet<u64>,
    labels: BTreeSet<String>,
    /// Whether it belongs to a node, its id, the name and the value.
    properties: BTreeSet<(bool, u64, String, String)>,
}

impl State {
    fn add(&mut self, value: &Value) {
        let (is_node, id, properties) = match value {
            Value::Node(node) => {
                self.nodes.insert(node.id.0);
                let Some(content) = &node.content else { return };
                self.labels
                    .extend(content.labels.iter().map(ToString::to_string));
                (true, node.id.0, &content.properties)
            }
            Value::Relationship(relationship) => {
                self.relationships.insert(relationship.id.0);
                let Some(content) = &relationship.content else {
                    return;
                };
                (false, relationship.id.0, &content.properties)
            }
            _ => return,
        };
        let noted = properties
            .iter()
            .map(|(name, value)| (is_node, id, name.to_string(), Noted::of(value).to_string()));
        self.properties.extend(noted);
    }

    /// Numbers of nodes, relationships, labels and properties that are in this state and not in `other`.
    pub(super) fn minus(&self, other: &Self) -> [(&'static str, usize); 4] {
        [
            ("nodes", self.nodes.difference(&other.nodes).count()),
            (
                "relationships",
                self.relationships.difference(&other.relationships).count(),
            ),
            ("labels", self.labels.difference(&other.labels).count()),
            (
                "properties",
                self.properties.difference(&other.properties).count(),
            ),
        ]
    }
}
