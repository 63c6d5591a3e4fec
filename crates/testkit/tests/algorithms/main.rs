//! Graph algorithms against networkx: random graphs (directed, with self loops, parallel edges, disconnected
//! parts, without edges, without nodes) are passed to `CALL algo.…` and to `compare.py`, which compares the
//! results.

use std::io::Write;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use isomer_db::{Database, Value};
use isomer_testkit::harness::{Harness, Verdict, is_quick, seed};
use isomer_testkit::random::Random;
use serde_json::json;

const SCRIPT: &str = include_str!("compare.py");

/// The procedures, under the names that the script uses, and the columns that it compares.
const CALLS: &[(&str, &str, &[&str])] = &[
    (
        "degree",
        "algo.degree({labels: 'N', direction: 'both'})",
        &["degree"],
    ),
    (
        "out_degree",
        "algo.degree({labels: 'N', types: 'T'})",
        &["degree"],
    ),
    (
        "in_degree",
        "algo.degree({labels: 'N', types: ['T'], direction: 'incoming'})",
        &["degree"],
    ),
    (
        "pagerank",
        "algo.pageRank({labels: 'N', tolerance: 1e-12, iterations: 1000})",
        &["score"],
    ),
    (
        "pagerank_weighted",
        "algo.pageRank({labels: 'N', weight: 'w', damping: 0.6, tolerance: 1e-12, iterations: 1000})",
        &["score"],
    ),
    (
        "pagerank_personal",
        "algo.pageRank({labels: 'N', sources: first, tolerance: 1e-12, iterations: 1000})",
        &["score"],
    ),
    (
        "pagerank_both",
        "algo.pageRank({labels: 'N', direction: 'both', tolerance: 1e-12, iterations: 1000})",
        &["score"],
    ),
    (
        "weak",
        "algo.weaklyConnected({labels: 'N'})",
        &["component"],
    ),
    (
        "strong",
        "algo.stronglyConnected({labels: 'N'})",
        &["component"],
    ),
    (
        "labels",
        "algo.labelPropagation({labels: 'N', iterations: 1000, seed: 5})",
        &["community"],
    ),
    (
        "louvain",
        "algo.louvain({labels: 'N', seed: 5})",
        &["community"],
    ),
    (
        "louvain_weighted",
        "algo.louvain({labels: 'N', weight: 'w', seed: 5})",
        &["community"],
    ),
    (
        "triangles",
        "algo.triangles({labels: 'N'})",
        &["triangles", "coefficient"],
    ),
    ("core", "algo.kCore({labels: 'N'})", &["core"]),
    ("betweenness", "algo.betweenness({labels: 'N'})", &["score"]),
    (
        "betweenness_both",
        "algo.betweenness({labels: 'N', direction: 'both', normalized: true})",
        &["score"],
    ),
    ("closeness", "algo.closeness({labels: 'N'})", &["score"]),
    (
        "closeness_both",
        "algo.closeness({labels: 'N', direction: 'both'})",
        &["score"],
    ),
    (
        "distances",
        "algo.distances(first, {labels: 'N'})",
        &["distance", "previous"],
    ),
    (
        "distances_weighted",
        "algo.distances(first, {labels: 'N', weight: 'w'})",
        &["distance", "previous"],
    ),
    (
        "distances_both",
        "algo.distances(first, {labels: 'N', weight: 'w', direction: 'both'})",
        &["distance", "previous"],
    ),
];

fn main() -> ExitCode {
    let mut harness = Harness::new();
    for (name, call, columns) in CALLS {
        harness.case(format!("{name}_agrees_with_networkx"), || {
            if let Err(reason) = python_has_networkx() {
                return Ok(Verdict::Skipped(reason));
            }
            let count = if is_quick() { 15 } else { 60 };
            compare(name, call, columns, count)?;
            Ok(Verdict::Passed)
        });
    }
    harness.run()
}

fn python_has_networkx() -> std::result::Result<(), String> {
    let found = Command::new("python3")
        .args(["-c", "import networkx"])
        .stderr(Stdio::null())
        .status();
    match found {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err("python3 has no networkx: pip install networkx".into()),
        Err(error) => Err(format!(
            "python3 does not start ({error}): install it, and networkx"
        )),
    }
}

/// Sends `count` graphs and their results to the script, which prints differences.
fn compare(name: &str, call: &str, columns: &[&str], count: u64) -> Result<()> {
    let mut lines = String::new();
    for number in 0..count {
        let line = answer(call, columns, seed().wrapping_add(number))?;
        lines.push_str(&format!("{line}\n"));
    }
    let mut child = Command::new("python3")
        .args(["-c", SCRIPT, name])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("python3 does not start")?;
    let mut input = child.stdin.take().context("the script has no input")?;
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = child.wait_with_output()?;
    writer
        .join()
        .map_err(|_| anyhow::anyhow!("the writer panicked"))??;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success(), "{text}");
    ensure!(text.trim() == format!("{count} graphs agree"), "{text}");
    Ok(())
}

/// A random graph and the results of the procedure.
fn answer(call: &str, columns: &[&str], seed: u64) -> Result<serde_json::Value> {
    let mut random = Random::new(seed);
    let nodes = match random.below(8) {
        0 => random.below(3),
        _ => 2 + random.below(20),
    };
    let edge_count = match nodes {
        0 => 0,
        nodes => random.below(nodes * 3),
    };
    let edges: Vec<(u64, u64, u64)> = (0..edge_count)
        .map(|_| {
            (
                random.below(nodes),
                random.below(nodes),
                1 + random.below(6),
            )
        })
        .collect();
    let database = Database::open_in_memory()?;
    database.query("CREATE (:Other)-[:T]->(:Other)")?;
    database.query(&format!(
        "UNWIND range(0, {nodes} - 1) AS i CREATE (:N {{i: i}})"
    ))?;
    for (a, b, weight) in &edges {
        let link = format!(
            "MATCH (a:N {{i: {a}}}), (b:N {{i: {b}}}) CREATE (a)-[:T {{w: {weight}}}]->(b)"
        );
        database.query(&link)?;
    }
    let columns: Vec<String> = columns
        .iter()
        .map(|column| match *column {
            "previous" => "previous.i AS previous".to_owned(),
            column => column.to_owned(),
        })
        .collect();
    let yields = columns
        .iter()
        .map(|column| column.split('.').next().unwrap_or(column));
    let yields: Vec<&str> = yields.collect();
    let query = format!(
        "{} CALL {call} YIELD node, {} RETURN node.i AS i, {} ORDER BY i",
        if call.contains("first") {
            "MATCH (first:N {i: 0})"
        } else {
            ""
        },
        yields.join(", "),
        columns.join(", "),
    );
    let rows = database.query(&query)?;
    let cell = |value: &Value| match value {
        Value::Int(number) => json!(number),
        Value::Float(number) => json!(number),
        _ => json!(null),
    };
    let rows: Vec<Vec<serde_json::Value>> = rows
        .iter()
        .map(|row| row.values().iter().map(cell).collect())
        .collect();
    Ok(json!({"seed": seed, "nodes": nodes, "edges": edges, "rows": rows}))
}
