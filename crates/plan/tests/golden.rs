//! Golden plans: each file opens with a sentence, declares a catalog, and holds queries with the plans they get.
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
//! Rerun with `UPDATE_GOLDEN=1` to write what came out.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use isomer_plan::catalog::{MockCatalog, ProcedureField, ProcedureMode, ProcedureSignature};
use isomer_plan::expr::Kind;
use isomer_plan::{Options, explain, prepare};

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
            ["elements", label, path] => catalog.with_element_index(label, path),
            ["procedure", name, results @ ..] => catalog.with_procedure(ProcedureSignature {
                name: (*name).into(),
                parameters: vec![field("input", Kind::Integer)],
                results: results.iter().map(|name| field(name, Kind::Any)).collect(),
                mode: ProcedureMode::Read,
            }),
            other => panic!("unknown line in a golden header: {other:?}"),
        };
    }
    catalog
}

fn field(name: &str, kind: Kind) -> ProcedureField {
    ProcedureField {
        name: Arc::from(name),
        kind,
        nullable: true,
        default: None,
    }
}

fn outcome(query: &str, catalog: &MockCatalog) -> String {
    match prepare(query, catalog, &Options::default()) {
        Ok(plan) => {
            let mut out = explain::text(&plan);
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
