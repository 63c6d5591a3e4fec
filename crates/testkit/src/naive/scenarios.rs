//! Runs the queries of a folder of scenarios on the database and the interpreter: queries written by people,
//! in addition to random ones.

use std::path::Path;

use anyhow::Result;
use isomer_oracle::graph::Graph;

use super::differential::cross_check;
use super::subject::{Mode, Outcome, Subject};
use crate::tck::scenario::{Scenario, load_folder};

/// Result of a run.
#[derive(Clone, Debug, Default)]
pub struct Crossed {
    /// Queries with equal results.
    pub agreed: usize,
    /// Queries that the interpreter does not support, or that need parameters or procedures.
    pub left_out: usize,
    /// Differences.
    pub differences: Vec<String>,
}

/// Runs the queries of all scenarios, each scenario on a new database.
pub fn compare(folder: &Path) -> Result<Crossed> {
    let mut crossed = Crossed::default();
    for scenario in load_folder(folder)? {
        one(&scenario, &mut crossed)?;
    }
    Ok(crossed)
}

fn one(scenario: &Scenario, crossed: &mut Crossed) -> Result<()> {
    let subject = Subject::open(Mode::Indexed, &Graph::default(), &[])?;
    let mut graph = Graph::default();
    for step in &scenario.steps {
        let text = step.text.trim_end_matches(':').trim();
        let Some(query) = &step.docstring else {
            if text.starts_with("there exists") || text.starts_with("parameters") {
                crossed.left_out += 1;
                return Ok(());
            }
            continue;
        };
        let outcome = subject.run(query, true, true)?;
        match cross_check(query, &graph, &outcome) {
            None => crossed.left_out += 1,
            Some(Ok(())) => crossed.agreed += 1,
            Some(Err(what)) => crossed
                .differences
                .push(format!("{}\n{query}\n{what}", scenario.id())),
        }
        if let Outcome::Rows {
            graph: Some(after), ..
        } = outcome
        {
            graph = after;
            let (nodes, relationships) = (&graph.nodes, &graph.relationships);
            graph.next = nodes
                .keys()
                .chain(relationships.keys())
                .max()
                .map_or(0, |last| last + 1);
        }
    }
    Ok(())
}
