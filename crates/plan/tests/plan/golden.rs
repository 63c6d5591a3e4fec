//! Golden plans: each file begins with a sentence, declares a catalog, and contains queries with their plans.
//!
//! ```text
//! # A label is scanned from the rarer side.
//! label User 1000
//! type FRIEND 5000
//! index User age
//! ---
//! MATCH (n:User) RETURN n
//! ==>
//! ProduceResult n ~1000
//! …
//! ```
//! Rerun with `UPDATE_GOLDEN=1` to write the actual plans.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use isomer_plan::catalog::{
    IndexFacts, MockCatalog, PlannerCatalog, ProcedureField, ProcedureMode, ProcedureSignature,
    ValueFacts,
};
use isomer_plan::expr::StaticType;
use isomer_plan::{PlanningOptions, explain, prepare};
use isomer_value::Value;

fn catalog(header: &str) -> MockCatalog {
    let mut catalog = MockCatalog::new();
    for line in header
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
    {
        let words: Vec<&str> = line.split_whitespace().collect();
        catalog = match words.as_slice() {
            ["label", name, count] => catalog.with_label(name, count.parse().expect("a count")),
            ["type", name, count] => catalog.with_type(name, count.parse().expect("a count")),
            ["index", label, paths @ ..] => catalog.with_index(label, paths, false),
            ["unique", label, paths @ ..] => catalog.with_index(label, paths, true),
            ["typed", name, paths @ ..] => catalog.with_relationship_index(name, paths, false),
            ["typed-unique", name, paths @ ..] => {
                catalog.with_relationship_index(name, paths, true)
            }
            ["both", a, b, count] => catalog.with_both(a, b, number(count) as u64),
            ["ends", name, from, to, count] => {
                catalog.with_ends(name, from, to, number(count) as u64)
            }
            ["values", label, path, present, distinct, rest @ ..] => {
                let facts = values(&catalog, label, number(present), number(distinct), rest);
                catalog.with_values(label, path, facts)
            }
            ["entries", entries, distinct @ ..] => catalog.with_entries(IndexFacts {
                entries: number(entries),
                distinct: distinct.iter().map(|one| number(one)).collect(),
            }),
            ["required", label, path] => catalog.with_required(label, path),
            ["elements", label, path] => catalog.with_element_index(label, path),
            ["procedure", name, results @ ..] => catalog.with_procedure(ProcedureSignature {
                name: (*name).into(),
                parameters: vec![field("input", StaticType::Integer)],
                results: results
                    .iter()
                    .map(|name| field(name, StaticType::Any))
                    .collect(),
                mode: ProcedureMode::Read,
            }),
            other => panic!("unknown line in a golden header: {other:?}"),
        };
    }
    catalog
}

fn number(text: &str) -> f64 {
    text.parse().expect("a number")
}

/// `open=900` is a common value, `0..100` are bounds with ten equal parts between them.
fn values(
    catalog: &MockCatalog,
    label: &str,
    present: f64,
    distinct: f64,
    rest: &[&str],
) -> ValueFacts {
    let value = |text: &str| match text.parse() {
        Ok(number) => Value::Int(number),
        Err(_) => Value::from(text),
    };
    let label = catalog.label(label).expect("the label was declared");
    let mut facts = ValueFacts {
        nodes: catalog.node_count(Some(label)) as f64,
        present,
        distinct,
        ..ValueFacts::default()
    };
    for word in rest {
        if let Some((common, count)) = word.split_once('=') {
            facts.common.push((value(common), number(count)));
        } else if let Some((from, to)) = word.split_once("..") {
            let (from, to): (i64, i64) =
                (from.parse().expect("a bound"), to.parse().expect("a bound"));
            facts.bounds = (0..=10)
                .map(|part| Value::Int(from + (to - from) * part / 10))
                .collect();
        } else {
            panic!("unknown word about values: {word}");
        }
    }
    facts
}

fn field(name: &str, kind: StaticType) -> ProcedureField {
    ProcedureField {
        name: Arc::from(name),
        kind,
        nullable: true,
        default: None,
    }
}

fn outcome(query: &str, catalog: &MockCatalog) -> String {
    match prepare(query, catalog, &PlanningOptions::default()) {
        Ok(plan) => {
            let mut out = explain::text(&plan);
            assert_eq!(
                outline(&explain::value(&plan)),
                without_rows(&out),
                "{query}"
            );
            for notice in &plan.notices {
                let _ = writeln!(out, "notice {}: {}", notice.code, notice.message);
            }
            out
        }
        Err(error) => {
            format!(
                "{}: {}\n{}\n",
                error.kind.name(),
                error.detail,
                error.render(query)
            )
        }
    }
}

/// The text of a plan without the estimates.
fn without_rows(text: &str) -> String {
    let lines = text
        .lines()
        .map(|line| line.rsplit_once("  ~").map_or(line, |(line, _)| line));
    lines.map(|line| line.to_owned() + "\n").collect()
}

fn role(operator: &Value) -> Option<&str> {
    operator.as_map()?.get("role")?.as_str()
}

/// The lines that the text of a plan has, made from its value: sub-plans, right sides and branches, then the input.
fn outline(value: &Value) -> String {
    let mut out = String::new();
    let root = value
        .as_map()
        .and_then(|map| map.get("plan"))
        .expect("a plan");
    let mut open = vec![(root, 0)];
    while let Some((operator, depth)) = open.pop() {
        let entries = operator.as_map().expect("an operator");
        let text = |name: &str| {
            entries
                .get(name)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let word = role(operator).map_or(String::new(), |role| format!("[{role}] "));
        let line = format!("{word}{} {}", text("operator"), text("details"));
        let _ = writeln!(out, "{}{}", "| ".repeat(depth), line.trim_end());
        let inputs = entries
            .get("inputs")
            .and_then(Value::as_list)
            .expect("inputs");
        let (chain, mut aside): (Vec<&Value>, Vec<&Value>) =
            inputs.iter().partition(|input| role(input).is_none());
        assert!(
            chain.len() <= 1,
            "one operator has two inputs without a role"
        );
        aside.sort_by_key(|input| role(input) != Some("subquery"));
        open.extend(chain.iter().map(|input| (*input, depth)));
        open.extend(aside.iter().rev().map(|input| (*input, depth + 1)));
    }
    out
}

fn rerun(text: &str) -> String {
    let mut blocks = text.split("\n---\n");
    let header = blocks.next().expect("a header");
    let catalog = catalog(header);
    let mut out = header.to_owned();
    for block in blocks {
        let query = block.split("\n==>\n").next().expect("a query").trim_end();
        let _ = write!(out, "\n---\n{query}\n==>\n{}", outcome(query, &catalog));
    }
    while out.ends_with('\n') {
        out.pop();
    }
    out.push('\n');
    out
}

#[test]
fn golden_plans() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "golden files are there");
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let mut wrong = Vec::new();
    for file in files {
        let before = std::fs::read_to_string(&file).expect("a text file");
        let after = rerun(&before);
        if before != after {
            if update {
                std::fs::write(&file, &after).expect("a writable file");
            } else {
                wrong.push(format!("{}:\n{after}", file.display()));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "plans changed (UPDATE_GOLDEN=1 writes them):\n{}",
        wrong.join("\n")
    );
}
