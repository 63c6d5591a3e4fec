//! The two renderings of a plan: the tree that `EXPLAIN` and `PROFILE` return as JSON has exactly the operators of the
//! text, with the same details, figures and positions.

use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use isomer_db::{Query, QueryResult};
use isomer_testkit::harness::{Harness, Verdict, is_quick, seed};
use isomer_testkit::naive::queries::{self, graph};
use isomer_testkit::naive::subject::{Mode, Subject};
use isomer_testkit::random::Random;
use serde_json::Value as Json;

/// Queries per graph.
const QUERIES_PER_GRAPH: usize = 40;

/// The lines of the text, reconstructed from the tree: sub-plans, right sides and branches before the input, which is
/// at the indentation of its reader.
fn lines(tree: &Json, profiled: bool) -> Result<Vec<String>> {
    let mut lines = Vec::new();
    let mut open = vec![(tree, 0)];
    while let Some((operator, depth)) = open.pop() {
        let text = |name: &str| operator[name].as_str().unwrap_or_default();
        let role = match text("role") {
            "" => String::new(),
            role => format!("[{role}] "),
        };
        let mut line = format!("{role}{} {}", text("operator"), text("details"))
            .trim_end()
            .to_owned();
        if profiled && operator.get("rows").is_some() {
            let rows = operator["actual_rows"]
                .as_u64()
                .context("the rows that came")?;
            line.push_str(&format!("  rows {rows}"));
        }
        lines.push("| ".repeat(depth) + &line);
        let inputs = operator["inputs"].as_array().context("inputs")?;
        let (chain, mut aside): (Vec<&Json>, Vec<&Json>) =
            inputs.iter().partition(|input| input.get("role").is_none());
        ensure!(chain.len() <= 1, "two inputs without a role: {operator}");
        aside.sort_by_key(|input| input["role"] != "subquery");
        open.extend(chain.iter().map(|input| (*input, depth)));
        open.extend(aside.iter().rev().map(|input| (*input, depth + 1)));
    }
    Ok(lines)
}

/// The lines of the text without estimates and times.
fn stripped(text: &str, profiled: bool) -> Vec<String> {
    let strip = |line: &str| {
        let Some((operator, figures)) = line.rsplit_once("  ~") else {
            return line.to_owned();
        };
        let rows = figures
            .split_once("  rows ")
            .map(|(_, more)| more.split([',', ' ']).next());
        match rows.flatten() {
            Some(rows) if profiled => format!("{operator}  rows {rows}"),
            _ => operator.to_owned(),
        }
    };
    text.trim_end().lines().map(strip).collect()
}

fn same(answer: &QueryResult, query: &str, profiled: bool) -> Result<usize> {
    let text = answer.plan().context("no text")?;
    let json = answer.plan_json().context("no JSON")?;
    let plan: Json = serde_json::from_str(json)?;
    let (from_tree, from_text) = (lines(&plan["plan"], profiled)?, stripped(text, profiled));
    ensure!(
        from_tree == from_text,
        "{query}\n\ntext:\n{}\n\nJSON:\n{}",
        from_text.join("\n"),
        from_tree.join("\n")
    );
    Ok(from_text.len())
}

fn main() -> ExitCode {
    let mut harness = Harness::new();
    harness.case("the_json_plan_is_the_text_plan", || {
        let graphs = if is_quick() { 20 } else { 100 };
        let (mut explained, mut profiled, mut operators) = (0, 0, 0);
        println!("seed {}", seed());
        for number in 0..graphs {
            let mut random = Random::new(seed().wrapping_add(number));
            let graph = graph::graph(&mut random);
            let schema = graph::schema(&mut random);
            let subject = Subject::open(Mode::Indexed, &graph, &schema)?;
            let (database, options) = (subject.database(), Mode::Indexed.options());
            for _ in 0..QUERIES_PER_GRAPH {
                let made = queries::query(&mut random);
                // A query that cannot be planned has no plan to compare.
                if let Ok(answer) = database.query(&format!("EXPLAIN {}", made.text)) {
                    operators += same(&answer, &made.text, false)?;
                    explained += 1;
                }
                let transaction = database.begin()?;
                if let Ok(answer) = transaction
                    .query(Query::new(&format!("PROFILE {}", made.text)).options(&options))
                {
                    same(&answer, &made.text, true)?;
                    profiled += 1;
                }
            }
        }
        println!("{explained} explained, {profiled} profiled, {operators} operators");
        ensure!(
            explained > graphs as usize * QUERIES_PER_GRAPH / 2,
            "few queries have a plan"
        );
        ensure!(
            profiled > graphs as usize * QUERIES_PER_GRAPH / 3,
            "few queries run"
        );
        Ok(Verdict::Passed)
    });
    harness.run()
}
