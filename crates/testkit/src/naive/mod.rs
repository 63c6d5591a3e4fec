//! Reference results for patterns: random queries over small random graphs, evaluated by brute force directly
//! from the language's definition, without a plan. Slow, small, readable.

pub mod constraints;
mod convert;
pub mod differential;
pub mod expression;
pub mod generate;
pub mod graph;
pub mod matching;
pub mod nested;
pub mod queries;
pub mod query;
pub mod scenarios;
pub mod shortest;
pub mod shrink;
pub mod subject;

use anyhow::{Context, Result, ensure};
use isomer_db::{Database, Query, QueryOptions};
use std::time::Duration;

use crate::random::Random;
use graph::Graph;

/// Queries per graph.
const QUERIES_PER_GRAPH: u64 = 40;

/// Result of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Agreement {
    /// Queries with equal results.
    pub agreed: usize,
    /// Queries skipped because of too many rows.
    pub too_large: usize,
    /// Rows compared.
    pub rows: usize,
}

/// Compares the database's results with those of brute force for `count` queries, with and without an index.
/// The first difference is the error, with all that is needed to reproduce it.
pub fn compare(count: usize, seed: u64) -> Result<Agreement> {
    let mut random = Random::new(seed);
    let mut agreement = Agreement::default();
    let mut tried = 0;
    while tried < count {
        let graph = Graph::random(&mut random);
        let plain = Database::open_in_memory()?;
        plain.query(&graph.to_cypher())?;
        let indexed = Database::open_in_memory()?;
        indexed.query("CREATE INDEX FOR (n:A) ON (n.v)")?;
        indexed.query(&graph.to_cypher())?;
        for _ in 0..QUERIES_PER_GRAPH {
            tried += 1;
            let query = generate::query(&mut random);
            let Some(expected) = matching::answer(&graph, &query) else {
                agreement.too_large += 1;
                continue;
            };
            let text = query.to_string();
            for (name, database) in [("", &plain), (" with an index", &indexed)] {
                let actual = run_query(database, &text)
                    .with_context(|| format!("{text}\non {}", graph.to_cypher()))?;
                ensure!(
                    actual == expected,
                    "the answers{name} differ for\n{text}\non {}\nrows {} where {} were expected\n{}",
                    graph.to_cypher(),
                    actual.len(),
                    expected.len(),
                    first_difference(&actual, &expected)
                );
            }
            agreement.agreed += 1;
            agreement.rows += expected.len();
        }
    }
    Ok(agreement)
}

/// The rows as text, sorted.
fn run_query(database: &Database, text: &str) -> Result<Vec<String>> {
    let options = QueryOptions::new().time_limit(Duration::from_secs(20));
    let result = database.query(Query::new(text).options(&options))?;
    let mut rows: Vec<String> = result
        .rows()
        .iter()
        .map(|row| shown(row.values()))
        .collect();
    rows.sort();
    Ok(rows)
}

fn shown(row: &[isomer_value::Value]) -> String {
    let cells = row
        .iter()
        .map(|value| crate::tck::notation::Noted::of(value).to_string());
    cells.collect::<Vec<_>>().join(" | ")
}

fn first_difference(actual: &[String], expected: &[String]) -> String {
    let at = actual
        .iter()
        .zip(expected)
        .position(|(a, b)| a != b)
        .unwrap_or(actual.len().min(expected.len()));
    let line = |rows: &[String]| rows.get(at).cloned().unwrap_or_else(|| "nothing".into());
    format!(
        "first difference: {} where {} was expected",
        line(actual),
        line(expected)
    )
}
