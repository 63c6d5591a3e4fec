//! The queries of a folder of scenarios, run by the database and by the interpreter: what people thought of to ask a
//! database, beside what chance makes.

use std::path::Path;

use anyhow::Result;

use super::differential::cross_check;
use super::interpreter::graph::Graph;
use super::subject::{Outcome, Subject, Way};
use crate::tck::scenario::{Scenario, load_folder};

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub struct Crossed {
    /// Queries that came to the same.
    pub agreed: usize,
    /// Queries with something that the interpreter does not know, or that needs parameters or procedures.
    pub left_out: usize,
    /// Differences.
    pub differences: Vec<String>,
}

/// Runs the queries of all scenarios, each scenario on a database of its own.
pub fn compare(folder: &Path) -> Result<Crossed> {
    let mut crossed = Crossed::default();
    for scenario in load_folder(folder)? {
        one(&scenario, &mut crossed)?;
    }
    Ok(crossed)
}

fn one(scenario: &Scenario, crossed: &mut Crossed) -> Result<()> {
    let subject = Subject::open(Way::Indexed, &Graph::default(), &[])?;
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
