//! Rows stream through clauses that write only if the result equals that of running one clause after the other.
//!
//! Random statements that read and write are run twice over equal graphs: as planned, and with a barrier (Eager) after
//! every clause, which is the semantics of the language. Rows, errors and the resulting graphs must be equal.

use std::fmt::Write as _;
use std::sync::Arc;

use isomer_data::{Access, DataStore, DataStoreOptions, Transaction};
use isomer_exec::{Execution, ExecutionOptions, ResultRows};
use isomer_plan::catalog::MockCatalog;
use isomer_storage::MemoryEngine;
use isomer_value::{Map, Value};

const STATEMENTS: usize = 400;

/// A linear congruential generator: the same numbers on every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % sides
    }

    fn pick<'c>(&mut self, choices: &[&'c str]) -> &'c str {
        choices[self.roll(choices.len())]
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.roll(100) < percent
    }
}

fn graph(dice: &mut Dice) -> String {
    let mut parts = Vec::new();
    for at in 0..5 {
        parts.push(format!(
            "(n{at}{} {{x: {}}})",
            dice.pick(&["", ":A", ":B", ":A:B"]),
            dice.roll(3)
        ));
    }
    for _ in 0..5 {
        let kind = dice.pick(&["R", "S"]);
        parts.push(format!(
            "(n{})-[:{kind} {{x: {}}}]->(n{})",
            dice.roll(5),
            dice.roll(3),
            dice.roll(5)
        ));
    }
    format!("CREATE {}", parts.join(", "))
}

/// A statement over the variables `a`, `b` (nodes), `r` (a relationship).
fn statement(dice: &mut Dice) -> String {
    let label = |dice: &mut Dice| dice.pick(&["", ":A", ":B"]);
    let mut text = match dice.roll(4) {
        0 => format!(
            "MATCH (a{})-[r:{}]->(b{}) ",
            label(dice),
            dice.pick(&["R", "S", "R|S"]),
            label(dice)
        ),
        1 => format!(
            "MATCH (a{}), (b{}) OPTIONAL MATCH (a)-[r]->(b) WITH * ",
            label(dice),
            label(dice)
        ),
        2 => format!(
            "MATCH (a{})-[r]-(b) WHERE a.x < {} ",
            label(dice),
            dice.roll(3)
        ),
        _ => format!(
            "UNWIND [0, 1, 2] AS i MATCH (a{} {{x: i}})-[r]-(b) ",
            label(dice)
        ),
    };
    for _ in 0..=dice.roll(3) {
        let name = dice.pick(&["a", "b"]);
        let other = dice.pick(&["a", "b"]);
        let fresh = dice.roll(1_000_000);
        let _ = match dice.roll(11) {
            0 => write!(text, "SET {name}.x = {other}.x + 1 "),
            1 => write!(text, "SET {name}:B "),
            2 => write!(text, "REMOVE {name}:A "),
            3 => write!(text, "CREATE ({name})-[:R {{x: {other}.x}}]->({other}) "),
            4 => write!(text, "CREATE (c{fresh}{} {{x: {other}.x}}) ", label(dice)),
            5 => write!(text, "MERGE (m{fresh}:B {{x: {name}.x}}) "),
            6 => write!(
                text,
                "MERGE ({name})-[m{fresh}:S]->({other}) ON MATCH SET m{fresh}.x = 9 "
            ),
            7 => write!(text, "SET {name} += {{y: {other}.x}} "),
            8 => write!(text, "FOREACH (k IN [1, 2] | SET {name}.x = {name}.x + k) "),
            9 if dice.chance(40) => write!(text, "DELETE r "),
            10 if dice.chance(40) => write!(text, "DETACH DELETE {name} "),
            _ => write!(text, "SET r.x = {name}.x "),
        };
        if dice.chance(30) {
            let _ = match dice.roll(3) {
                0 => write!(
                    text,
                    "WITH * MATCH (d{fresh}{}) WITH a, b, r, count(d{fresh}) AS c{fresh} ",
                    label(dice)
                ),
                1 => write!(text, "WITH * WHERE a.x >= 0 "),
                _ => write!(text, "WITH a, b, r, a.x AS k{fresh} "),
            };
        }
    }
    match dice.roll(4) {
        0 => text.push_str("SET a.z = 1"),
        1 => text.push_str("RETURN count(*) AS c"),
        2 => text.push_str("RETURN a.x AS ax, b.x AS bx"),
        _ => text.push_str("RETURN count(*) AS c LIMIT 0"),
    }
    text
}

fn run(
    transaction: &mut Transaction,
    query: &str,
    barriers_everywhere: bool,
) -> Result<Vec<String>, String> {
    let catalog = MockCatalog::new()
        .with_label("A", 3)
        .with_label("B", 3)
        .with_type("R", 4)
        .with_type("S", 4);
    let options = isomer_plan::PlanningOptions {
        barriers_everywhere,
        ..isomer_plan::PlanningOptions::default()
    };
    let plan = isomer_plan::prepare(query, &catalog, &options)
        .map_err(|error| format!("plan: {error}"))?;
    let mut execution =
        Execution::start(plan, &Map::new(), &ExecutionOptions::default(), transaction)
            .map_err(|error| error.to_string())?;
    let mut rows = ResultRows::new();
    let mut found = Vec::new();
    loop {
        let more = execution
            .next_rows(transaction, &mut rows)
            .map_err(|error| error.to_string())?;
        found.extend(
            rows.iter()
                .map(|row| row.iter().map(shown).collect::<Vec<_>>().join(" ")),
        );
        if !more {
            return Ok(found);
        }
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Int(number) => number.to_string(),
        Value::String(text) => text.to_string(),
        Value::List(items) => items.iter().map(shown).collect::<Vec<_>>().join(","),
        Value::Map(map) => map
            .iter()
            .map(|(name, value)| format!("{name}:{}", shown(value)))
            .collect::<Vec<_>>()
            .join(","),
        other => format!("{other:?}"),
    }
}

/// The rows of a statement and the graph that it leaves.
fn outcome(
    graph: &str,
    statement: &str,
    barriers_everywhere: bool,
) -> (Result<Vec<String>, String>, Vec<String>) {
    let store = DataStore::open(Arc::new(MemoryEngine::new()), DataStoreOptions::default())
        .expect("a store");
    let mut transaction = store.begin(Access::Write).expect("a transaction");
    run(&mut transaction, graph, false).expect("the graph");
    let answer = run(&mut transaction, statement, barriers_everywhere);
    // Ids are assigned in another order when rows stream.
    let mut left = run(
        &mut transaction,
        "MATCH (n) RETURN labels(n), properties(n)",
        false,
    )
    .expect("nodes");
    let relationships = "MATCH (s)-[r]->(t) RETURN labels(s), properties(s), labels(t), properties(t), type(r), properties(r)";
    left.extend(run(&mut transaction, relationships, false).expect("relationships"));
    left.sort();
    (answer, left)
}

#[test]
fn each_clause_sees_the_changes_of_earlier_clauses_only() {
    let mut dice = Dice(20_261_121);
    let mut changed = 0;
    for _ in 0..STATEMENTS {
        let graph = graph(&mut dice);
        let statement = statement(&mut dice);
        let (answer, left) = outcome(&graph, &statement, false);
        let (by_the_letter, left_by_the_letter) = outcome(&graph, &statement, true);
        if let Err(error) = &answer {
            assert!(!error.starts_with("plan:"), "{statement}: {error}");
        }
        assert_eq!(
            answer.is_err(),
            by_the_letter.is_err(),
            "{graph}\n{statement}\n{answer:?}\n{by_the_letter:?}"
        );
        if answer.is_ok() {
            assert_eq!(answer, by_the_letter, "{graph}\n{statement}");
        }
        assert_eq!(left, left_by_the_letter, "{graph}\n{statement}");
        changed += usize::from(answer.is_ok());
    }
    assert!(
        changed > STATEMENTS / 2,
        "only {changed} of {STATEMENTS} statements ran"
    );
}
