//! The parser on every query of the conformance suite: those that are right are parsed, and errors that a parser can tell
//! have the class that the suite demands.

use std::process::ExitCode;

use anyhow::{Result, ensure};
use isomer_cypher::{Detail, parse};
use isomer_testkit::harness::{Harness, Outcome, Verdict};
use isomer_testkit::tck::scenario::{Scenario, load_folder};
use isomer_testkit::tck::suite_folder;

fn main() -> ExitCode {
    let mut harness = Harness::new();
    harness.case("queries_without_a_syntax_error_are_parsed", || {
        with_suite(parses_what_is_right)
    });
    harness.case("syntax_errors_have_their_class", || {
        with_suite(classifies_what_is_wrong)
    });
    harness.run()
}

fn with_suite(check: impl FnOnce(&[Scenario]) -> Result<()>) -> Outcome {
    let Some(folder) = suite_folder() else {
        return Ok(Verdict::Skipped(
            "the conformance suite is not beside the checkout: set ISOMER_SHARED".into(),
        ));
    };
    check(&load_folder(&folder.join("features"))?)?;
    Ok(Verdict::Passed)
}

/// The queries of a scenario and the class of syntax error that the last of them must meet.
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

fn parses_what_is_right(scenarios: &[Scenario]) -> Result<()> {
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

fn classifies_what_is_wrong(scenarios: &[Scenario]) -> Result<()> {
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
    println!("{count} syntax errors were told by the parser");
    Ok(())
}
