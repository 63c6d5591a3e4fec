//! Statements of maximum size and depth: planned or refused, without stack overflow, in bounded time.

use std::time::{Duration, Instant};

use isomer_plan::catalog::MockCatalog;
use isomer_plan::{PlanError, PlanErrorKind, PlanningOptions, prepare};

fn outcome(text: &str) -> Result<(), PlanError> {
    let catalog = MockCatalog::new()
        .with_label("User", 1_000)
        .with_type("FRIEND", 5_000);
    let started = Instant::now();
    let result = prepare(text, &catalog, &PlanningOptions::default()).map(|_| ());
    // Debug builds on a busy machine: far above the usual milliseconds, and low enough to catch superlinear growth.
    assert!(
        started.elapsed() < Duration::from_secs(20),
        "took {:?}",
        started.elapsed()
    );
    result
}

fn refused_for_its_size(text: &str) {
    let error = outcome(text).expect_err("too large");
    assert_eq!(error.kind, PlanErrorKind::Limit, "{error}");
}

#[test]
fn long_flat_conditions_are_planned() {
    let terms = |count: usize, operator: &str| {
        let terms: Vec<String> = (0..count).map(|at| format!("n.a={at}")).collect();
        format!("MATCH (n:User) WHERE {} RETURN n", terms.join(operator))
    };
    assert!(outcome(&terms(60_000, " OR ")).is_ok());
    assert!(outcome(&terms(60_000, " AND ")).is_ok());
}

#[test]
fn the_deepest_expressions_that_parse_are_planned() {
    for depth in (20..=400).step_by(20) {
        let texts = [
            format!("RETURN {}1{} AS x", "[".repeat(depth), "]".repeat(depth)),
            format!("RETURN {}true AS x", "NOT ".repeat(depth)),
            format!(
                "RETURN {}1{} AS x",
                "(1 + ".repeat(depth),
                ")".repeat(depth)
            ),
            format!(
                "RETURN {}1{} AS x",
                "toString(".repeat(depth),
                ")".repeat(depth)
            ),
            format!(
                "RETURN {}1{} AS x",
                "CASE WHEN true THEN ".repeat(depth),
                " END".repeat(depth)
            ),
            format!(
                "RETURN {}[1]{} AS x",
                "[y IN ".repeat(depth),
                " WHERE true | y]".repeat(depth)
            ),
            format!(
                "MATCH (n) WHERE {}true{} RETURN n",
                "EXISTS { MATCH (n)-->(m) WHERE ".repeat(depth),
                " }".repeat(depth)
            ),
            format!("RETURN {}1 AS x", "1 + ".repeat(depth)),
        ];
        for text in texts {
            if let Err(error) = outcome(&text) {
                assert_eq!(error.kind, PlanErrorKind::Limit, "{error}");
            }
        }
    }
}

#[test]
fn long_statements_are_planned_or_refused() {
    assert!(
        outcome(&"CREATE (:User {_key: 1}) ".repeat(3_000)).is_ok(),
        "one operator"
    );
    assert!(outcome(&format!("RETURN [{}]", vec!["1"; 100_000].join(", "))).is_ok());
    refused_for_its_size(&"MERGE (:User {_key: 1}) ".repeat(5_000));
    let chain = format!(
        "MATCH (a0){} RETURN a0",
        (1..2_500)
            .map(|at| format!("-->(a{at})"))
            .collect::<String>()
    );
    refused_for_its_size(&chain);
    let parts: Vec<String> = (0..2_500).map(|at| format!("(a{at})")).collect();
    refused_for_its_size(&format!("MATCH {} RETURN a0", parts.join(", ")));
}

#[test]
fn large_patterns_are_planned_in_time() {
    let chain = format!(
        "MATCH (a0:User){} RETURN a0",
        (1..150)
            .map(|at| format!("-[:FRIEND]->(a{at})"))
            .collect::<String>()
    );
    assert!(outcome(&chain).is_ok());
    let parts: Vec<String> = (0..150)
        .map(|at| format!("(a{at}:User {{_key: {at}}})"))
        .collect();
    assert!(outcome(&format!("MATCH {} RETURN a0", parts.join(", "))).is_ok());
    let clauses: String = (0..150)
        .map(|at| format!("MATCH (a{at}:User {{_key: {at}}}) "))
        .collect();
    assert!(outcome(&format!("{clauses} RETURN a0")).is_ok());
}
