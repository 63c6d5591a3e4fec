//! The parser on every query of the conformance suite: valid queries are parsed, and syntax errors that a
//! parser can detect have the class that the suite demands.

use std::process::ExitCode;

use anyhow::{Result, ensure};
use isomer_cypher::ast::{Clause, Expr, ExprKind, Statement, StatementBody};
use isomer_cypher::{Detail, Span, normalise, parse};
use isomer_testkit::harness::{Harness, Outcome, Verdict};
use isomer_testkit::tck::scenario::{Scenario, load_folder};
use isomer_testkit::tck::suite_folder;

fn main() -> ExitCode {
    let mut harness = Harness::new();
    harness.case("queries_without_a_syntax_error_are_parsed", || {
        with_suite(parses_valid_queries)
    });
    harness.case("syntax_errors_have_their_class", || {
        with_suite(classifies_invalid_queries)
    });
    harness.case("printed_queries_parse_to_the_same_tree", || {
        with_suite(prints_parsed_queries)
    });
    harness.case("lifting_literals_changes_nothing_else", || {
        with_suite(lifts_literals)
    });
    harness.run()
}

fn with_suite(check: impl FnOnce(&[Scenario]) -> Result<()>) -> Outcome {
    let Some(folder) = suite_folder() else {
        return Ok(Verdict::NeedsData(
            "the conformance suite is missing: set ISOMER_SHARED".into(),
        ));
    };
    check(&load_folder(&folder.join("features"))?)?;
    Ok(Verdict::Passed)
}

/// The queries of a scenario and the class of syntax error that the last of them must raise.
fn queries(scenario: &Scenario) -> (Vec<&str>, Option<&str>) {
    let expected = scenario.steps.iter().find_map(|step| {
        step.text
            .strip_prefix("a SyntaxError should be raised at compile time:")
    });
    (
        scenario
            .steps
            .iter()
            .filter_map(|step| step.docstring.as_deref())
            .collect(),
        expected.map(str::trim),
    )
}

fn parses_valid_queries(scenarios: &[Scenario]) -> Result<()> {
    let mut count = 0;
    for scenario in scenarios {
        let (queries, expected) = queries(scenario);
        for query in queries {
            count += 1;
            if let (Err(error), None) = (parse(query), expected) {
                anyhow::bail!("{}: {}", scenario.id(), error.render(query));
            }
        }
    }
    println!("{count} queries were parsed");
    ensure!(count > 100, "the suite holds only {count} queries");
    Ok(())
}

fn classifies_invalid_queries(scenarios: &[Scenario]) -> Result<()> {
    let mut count = 0;
    for scenario in scenarios {
        let (queries, Some(expected)) = queries(scenario) else {
            continue;
        };
        let Some(query) = queries.last() else {
            continue;
        };
        match parse(query) {
            Err(error) => {
                ensure!(
                    error.detail.name() == expected,
                    "{}: expected {expected}, found {}",
                    scenario.id(),
                    error.render(query)
                );
                count += 1;
            }
            Ok(_) => ensure!(
                expected != Detail::UnexpectedSyntax.name(),
                "{}: was parsed: {query}",
                scenario.id()
            ),
        }
    }
    println!("{count} syntax errors were reported by the parser");
    Ok(())
}

fn prints_parsed_queries(scenarios: &[Scenario]) -> Result<()> {
    let mut count = 0;
    for query in scenarios.iter().flat_map(|scenario| queries(scenario).0) {
        let Ok(tree) = parse(query) else { continue };
        let text = tree.to_string();
        match parse(&text) {
            Ok(again) => ensure!(
                again == tree,
                "{query}\nwas printed as\n{text}\nwhich is another tree"
            ),
            Err(error) => anyhow::bail!("{query}\nwas printed as\n{}", error.render(&text)),
        }
        count += 1;
    }
    println!("{count} queries were printed and parsed again");
    Ok(())
}

fn lifts_literals(scenarios: &[Scenario]) -> Result<()> {
    let (mut count, mut lifted) = (0, 0);
    for query in scenarios.iter().flat_map(|scenario| queries(scenario).0) {
        let Ok(tree) = parse(query) else { continue };
        let normalised = normalise(query);
        let key = match parse(&normalised.key) {
            Ok(key) => key,
            Err(error) => anyhow::bail!("{query}\nhas the key\n{}", error.render(&normalised.key)),
        };
        ensure!(
            columns(&key) == columns(&tree),
            "{query}\nhas other columns by its key\n{key}"
        );
        let mut text = key.to_string();
        for (name, literal) in normalised.literals.iter().rev() {
            let value = Expr::new(ExprKind::Literal(literal.clone()), Span::default());
            text = text.replace(&format!("${name}"), &value.to_string());
        }
        ensure!(
            parse(&text).as_ref() == Ok(&tree),
            "{query}\nbecame\n{text}"
        );
        count += 1;
        lifted += normalised.literals.len();
    }
    println!("{lifted} literals were lifted out of {count} queries");
    Ok(())
}

fn columns(statement: &Statement) -> Vec<String> {
    let StatementBody::Query(query) = &statement.body else {
        return Vec::new();
    };
    let clauses = query.branches.iter().flat_map(|branch| &branch.clauses);
    let projections = clauses.filter_map(|clause| match clause {
        Clause::Return(clause) => Some(&clause.projection),
        Clause::With(clause) => Some(&clause.projection),
        _ => None,
    });
    projections
        .flat_map(|projection| &projection.items)
        .map(|item| item.column().to_string())
        .collect()
}
