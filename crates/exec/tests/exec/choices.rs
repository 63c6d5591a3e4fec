//! The plan is what runs: `PROFILE` shows for each operator with a fallback which of the two ran, in the text and as a
//! value.

use std::sync::Arc;
use std::time::Duration;

use isomer_data::{Access, DataStore, DataStoreOptions, Transaction};
use isomer_exec::{Execution, ExecutionOptions, ResultRows};
use isomer_plan::catalog::MockCatalog;
use isomer_storage::MemoryEngine;
use isomer_value::{Map, Value};
use isomer_views::{AdjacencySide, ViewKind, ViewOptions, Views};

const NODES: u64 = 4_000;

/// With more relationships than there are: patterns start at the nodes.
fn catalog() -> MockCatalog {
    MockCatalog::new()
        .with_label("N", NODES)
        .with_type("R", 300 * NODES)
}

fn plan(query: &str, transaction: &mut Transaction, options: &ExecutionOptions) -> Execution {
    let plan = isomer_plan::prepare(query, &catalog(), &isomer_plan::PlanningOptions::default())
        .unwrap_or_else(|error| panic!("{query}: {error}"));
    Execution::start(plan, &Map::new(), options, transaction).expect("started")
}

/// Nodes with a key, a property and three relationships each, and read views over them.
fn store() -> (DataStore, Arc<Views>) {
    let store = DataStore::open(Arc::new(MemoryEngine::new()), DataStoreOptions::default())
        .expect("a store");
    let views = Views::open(&store, ViewOptions::default()).expect("views");
    let mut transaction = store.begin(Access::Write).expect("a transaction");
    let last = NODES - 1;
    for query in [
        format!("UNWIND range(0, {last}) AS i CREATE (:N {{_key: i, i: i, kind: i % 7}})"),
        format!(
            "MATCH (a:N) UNWIND [1, 2, 30] AS step \
             MATCH (b:N) WHERE b._key = (a.i * step + step) % {NODES} CREATE (a)-[:R]->(b)"
        ),
    ] {
        let mut execution = plan(&query, &mut transaction, &ExecutionOptions::default());
        execution.finish(&mut transaction).expect(&query);
    }
    transaction.commit().expect("committed");
    (store, views)
}

fn make_views(store: &DataStore, views: &Views) {
    let catalog = store.catalog();
    let label = catalog.label_id("N").expect("a label");
    for name in ["kind", "_key"] {
        let prop = catalog.prop_id(name).expect("a property");
        let column = ViewKind::Column(label, vec![prop].into());
        views.make(&column).expect("a column");
    }
    let type_id = catalog.type_id("R").expect("a type");
    for side in [AdjacencySide::Out, AdjacencySide::In] {
        let adjacency = ViewKind::Adjacency(type_id, side);
        views.make(&adjacency).expect("an adjacency");
    }
}

/// The rows of a query in any order, and its profile.
fn profiled(
    query: &str,
    transaction: &mut Transaction,
    options: &ExecutionOptions,
) -> (Vec<Vec<Value>>, Execution) {
    let mut execution = plan(&format!("PROFILE {query}"), transaction, options);
    let (mut rows, mut found) = (ResultRows::new(), Vec::new());
    loop {
        let more = execution
            .next_rows(transaction, &mut rows)
            .unwrap_or_else(|error| panic!("{query}: {error}"));
        found.extend(rows.iter().map(<[Value]>::to_vec));
        if !more {
            break;
        }
    }
    found.sort_by_cached_key(|row| format!("{row:?}"));
    (found, execution)
}

/// The operators of a plan as a value, each with its entries.
fn operators(tree: &Value) -> Vec<Map> {
    let root = tree.as_map().and_then(|tree| tree.get("plan")).cloned();
    let (mut found, mut open) = (Vec::new(), vec![root.expect("a plan")]);
    while let Some(operator) = open.pop() {
        let entries = operator.as_map().expect("an operator").clone();
        let inputs = entries.get("inputs").and_then(Value::as_list);
        open.extend(inputs.unwrap_or_default().iter().cloned());
        found.push(entries);
    }
    found
}

/// A query, the operator that answers it from a view, and the one that runs without.
const CHOICES: [(&str, &str, &str); 7] = [
    (
        "MATCH (n:N) RETURN n.kind, count(*)",
        "CountByColumn",
        "Aggregate",
    ),
    (
        "MATCH ()-[:R]->()-[:R]->() RETURN count(*)",
        "CountPaths",
        "Aggregate",
    ),
    (
        "MATCH (n:N)-[:R]->(m) RETURN m, count(*)",
        "CountByNeighbour",
        "CountByNode",
    ),
    (
        "MATCH (n:N)-[:R]->(m) RETURN m._key AS k, count(*) AS c",
        "GroupByKey",
        "Aggregate",
    ),
    (
        "MATCH (n:N)-[:R]->(m) RETURN m._key AS k, count(*) AS c ORDER BY c DESC, k LIMIT 3",
        "GroupByKey",
        "Aggregate",
    ),
    (
        "MATCH (n:N)-[:R]->(m) RETURN DISTINCT m",
        "DistinctEnds",
        "Expand",
    ),
    (
        "MATCH (n:N)-[:R]->()-[:R]->(m) RETURN DISTINCT m",
        "DistinctEnds",
        "Expand",
    ),
];

#[test]
fn a_profile_tells_an_operator_from_its_fallback() {
    let (store, views) = store();
    let mut transaction = store.begin(Access::Read).expect("a transaction");
    let plain = ExecutionOptions::default();
    let without: Vec<_> = CHOICES
        .iter()
        .map(|(query, ..)| profiled(query, &mut transaction, &plain))
        .collect();
    drop(transaction);
    make_views(&store, &views);
    let mut transaction = store.begin(Access::Read).expect("a transaction");
    let with_views = ExecutionOptions {
        views: Some(views),
        ..ExecutionOptions::default()
    };
    for ((query, operator, fallback), (rows, execution)) in CHOICES.into_iter().zip(without) {
        let text = execution.explain();
        let line = |text: &str, name: &str| {
            let lines = text.lines().map(|line| line.trim_start_matches("| "));
            let mut named = lines.filter(|line| line.starts_with(&format!("{name} ")));
            named.next().map(str::to_owned)
        };
        let of_fallback = format!("[fallback] {fallback}");
        let of = |text: &str, name: &str| {
            line(text, name).unwrap_or_else(|| panic!("{query}: no {name}\n{text}"))
        };
        // Without a view.
        let chosen = of(&text, operator);
        if operator == "DistinctEnds" {
            // At most all nodes, however many relationships lead to them.
            assert!(chosen.contains(&format!("  ~{NODES}  ")), "{query}\n{text}");
        }
        assert!(chosen.ends_with(", by its fallback"), "{query}\n{text}");
        let replaced = text.contains(&of_fallback);
        assert!(
            replaced || text.contains("[fallback] DistinctEnds"),
            "{query}\n{text}"
        );
        let fell_back = |entries: &Map| {
            entries.get("operator").and_then(Value::as_str) == Some(operator)
                && entries.get("fell_back") == Some(&Value::Bool(true))
                && entries.get("ran") == Some(&Value::Bool(true))
        };
        let tree = operators(&execution.explain_value());
        assert!(tree.iter().any(fell_back), "{query}\n{tree:?}");

        // With one: the same rows, and the fallback did not run.
        let (same, execution) = profiled(query, &mut transaction, &with_views);
        assert_eq!(same, rows, "{query}");
        let text = execution.explain();
        let chosen = of(&text, operator);
        assert!(chosen.ends_with(", from a view"), "{query}\n{text}");
        let mut fallbacks = text.lines().filter(|line| line.contains("[fallback]"));
        assert!(
            fallbacks.all(|line| line.ends_with("rows 0, not run")),
            "{query}\n{text}"
        );
        let tree = operators(&execution.explain_value());
        for entries in &tree {
            let ran = entries.get("ran").expect("whether it ran");
            let calls = entries.get("calls").and_then(Value::as_int);
            assert_eq!(*ran, Value::Bool(calls != Some(0)), "{entries:?}");
            if entries.get("role") == Some(&"fallback".into()) {
                assert_eq!(*ran, Value::Bool(false), "{query}\n{text}");
            }
        }
    }
}

/// An operator's input and its fallback's are listed once, and each operator that ran is counted once.
#[test]
fn rows_that_a_fallback_takes_over_are_counted_once() {
    let (store, _) = store();
    let mut transaction = store.begin(Access::Read).expect("a transaction");
    let query = "MATCH (n:N)-[:R]->(m) RETURN m._key AS k, count(*) AS c";
    let (rows, execution) = profiled(query, &mut transaction, &ExecutionOptions::default());
    let text = execution.explain();
    let rows_of = |name: &str| {
        let mut lines = text.lines().map(|line| line.trim_start_matches("| "));
        let line = lines.find(|line| line.trim_start_matches("[fallback] ").starts_with(name));
        let line = line.unwrap_or_else(|| panic!("no {name}\n{text}"));
        let (_, figures) = line.split_once("  rows ").expect("figures");
        let end = figures.find([',', ' ']).expect("more figures");
        figures[..end].parse::<usize>().expect("a number")
    };
    for name in ["GroupByKey", "Aggregate", "CountByNeighbour", "CountByNode"] {
        assert_eq!(rows_of(name), rows.len(), "{name}\n{text}");
    }
    assert_eq!(rows_of("LabelScan"), NODES as usize, "{text}");
    assert_eq!(text.matches("LabelScan").count(), 1, "{text}");
}

#[test]
fn an_exchange_says_how_many_threads_ran() {
    let (store, _) = store();
    let mut transaction = store.begin(Access::Read).expect("a transaction");
    for query in [
        "MATCH (n:N) RETURN n.kind, sum(n.i)",
        "MATCH (n:N) RETURN DISTINCT n.kind",
        "MATCH (n:N) RETURN n.i ORDER BY n.kind",
        "MATCH (n:N) RETURN n.i ORDER BY n.kind, n.i LIMIT 5",
    ] {
        let mut results = Vec::new();
        for (workers, parallel_rows, expected) in [
            (1, 0, ", 1 thread"),
            (3, NODES + 1, ", 1 thread"),
            (3, NODES, ", 3 threads"),
        ] {
            let options = ExecutionOptions {
                workers,
                parallel_rows,
                ..ExecutionOptions::default()
            };
            let (rows, execution) = profiled(query, &mut transaction, &options);
            results.push(rows);
            let text = execution.explain();
            let exchange = text.lines().find(|line| line.starts_with("Exchange"));
            let exchange = exchange.unwrap_or_else(|| panic!("{query}: no exchange\n{text}"));
            assert!(exchange.ends_with(expected), "{query}\n{text}");
            // A scan that several threads share reads no outer row.
            let mut others = text.lines().filter(|line| !line.starts_with("Argument"));
            assert!(
                others.all(|line| !line.contains("not run")),
                "{query}\n{text}"
            );
        }
        assert_eq!(results[0], results[1], "{query}");
        assert_eq!(results[0], results[2], "{query}");
    }
}

/// A limit ends the query while threads are still at work. What they ran is shown.
#[test]
fn a_limit_does_not_hide_what_threads_ran() {
    let (store, _) = store();
    let mut transaction = store.begin(Access::Read).expect("a transaction");
    for query in [
        "MATCH (n:N) RETURN DISTINCT n.i LIMIT 5",
        "MATCH (n:N) WHERE n.i >= 0 WITH DISTINCT n.i AS i LIMIT 5 RETURN i",
    ] {
        let options = ExecutionOptions {
            workers: 3,
            parallel_rows: NODES,
            ..ExecutionOptions::default()
        };
        let (rows, execution) = profiled(query, &mut transaction, &options);
        assert_eq!(rows.len(), 5, "{query}");
        let text = execution.explain();
        assert!(text.contains(", 3 threads"), "{query}\n{text}");
        for entries in operators(&execution.explain_value()) {
            let name = entries.get("operator").and_then(Value::as_str);
            let rows = entries.get("actual_rows").and_then(Value::as_int);
            // A scan that several threads share reads no outer row.
            let runs = name != Some("Argument");
            assert_eq!(rows >= Some(5), runs, "{query}\n{text}");
            assert_eq!(entries.get("ran"), Some(&runs.into()), "{query}\n{text}");
        }
    }
}

/// The right side of an apply runs once per outer row, and releases its memory in between: its peak does not depend on
/// the number of outer rows.
#[test]
fn memory_of_earlier_runs_is_not_added_up() {
    let (store, _) = store();
    let mut transaction = store.begin(Access::Read).expect("a transaction");
    let mut peak_of = |runs: u64| {
        let query = format!(
            "UNWIND range(1, {runs}) AS run \
             RETURN COLLECT {{ MATCH (n:N) WITH DISTINCT n.i + run AS i RETURN count(i) }} AS counts"
        );
        let (rows, execution) = profiled(&query, &mut transaction, &ExecutionOptions::default());
        assert_eq!(rows.len() as u64, runs);
        let tree = operators(&execution.explain_value());
        let peak = tree.iter().find_map(|entries| {
            let is_distinct = entries.get("operator").and_then(Value::as_str) == Some("Distinct");
            let bytes = entries.get("memory_bytes").and_then(Value::as_int);
            bytes.filter(|_| is_distinct)
        });
        peak.unwrap_or_else(|| panic!("no DISTINCT\n{}", execution.explain()))
    };
    let once = peak_of(1);
    assert!(once > 0);
    assert_eq!(peak_of(20), once);
}

/// Each moment belongs to one operator, also if a fallback runs and reads the input of the operator that it replaces.
#[test]
fn own_times_add_up_to_the_time_of_the_query() {
    let (store, views) = store();
    make_views(&store, &views);
    let mut transaction = store.begin(Access::Read).expect("a transaction");
    for (query, ..) in CHOICES {
        for views in [None, Some(views.clone())] {
            let options = ExecutionOptions {
                views,
                workers: 1,
                ..ExecutionOptions::default()
            };
            let (_, execution) = profiled(query, &mut transaction, &options);
            let profile = execution.profile().expect("profiles");
            let own: Duration = profile.iter().map(|operator| operator.own_time).sum();
            let whole = profile.iter().map(|operator| operator.time).max();
            let text = execution.explain();
            assert!(own <= whole.unwrap_or_default(), "{query}\n{text}");
            assert!(own * 10 >= whole.unwrap_or_default() * 9, "{query}\n{text}");
        }
    }
}

/// An operator and its fallback have one input, so that there are exponentially many paths through a chain of them.
/// Each operator is shown once, and running takes no longer than the chain is long.
#[test]
fn long_chains_of_fallbacks_are_walked_once() {
    const STEPS: usize = 60;
    let (store, views) = store();
    make_views(&store, &views);
    let mut transaction = store.begin(Access::Read).expect("a transaction");
    let steps: Vec<String> = (0..STEPS)
        .map(|at| match at {
            0 => "MATCH (a0:N {_key: 1})-[:R]->(a1)".to_owned(),
            at => format!("MATCH (a{at})-[:R]->(a{})", at + 1),
        })
        .collect();
    let query = format!(
        "{} RETURN DISTINCT a{STEPS}._key AS k LIMIT 1",
        steps.join(" ")
    );
    let (rows, execution) = {
        let options = ExecutionOptions {
            views: Some(views),
            ..ExecutionOptions::default()
        };
        profiled(&query, &mut transaction, &options)
    };
    assert_eq!(rows.len(), 1);
    assert!(execution.explain().lines().count() < 5 * STEPS);
    for query in [format!("EXPLAIN {query}"), query] {
        let plan =
            isomer_plan::prepare(&query, &catalog(), &isomer_plan::PlanningOptions::default())
                .expect("a plan");
        let text = isomer_plan::explain::text(&plan);
        assert!(text.matches("DistinctEnds").count() >= STEPS, "{text}");
        assert!(text.lines().count() < 5 * STEPS, "{text}");
        assert!(
            isomer_plan::explain::json(&plan)
                .matches("\"operator\"")
                .count()
                < 5 * STEPS
        );
    }
}
