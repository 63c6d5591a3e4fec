//! The query language, as scenarios: the project's own in `tests/language`, all of which pass, and
//! openCypher's conformance suite if it is available, without a wrong result.

#[path = "language/gql.rs"]
mod gql;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, ensure};
use isomer_testkit::harness::{Harness, Verdict, is_quick, seed};
use isomer_testkit::naive;
use isomer_testkit::naive::subject::Mode;
use isomer_testkit::tck::notation::Noted;
use isomer_testkit::tck::report::{Deviations, Report};
use isomer_testkit::tck::scenario::load_folder;
use isomer_testkit::tck::suite::{run_all, run_in};
use isomer_testkit::tck::{DEVIATIONS, graphs_folder, mutate, suite_folder};

/// The promised share of the conformance suite.
const PASSED_PERCENT: f64 = 99.0;

fn main() -> ExitCode {
    let mut harness = Harness::new();
    harness.case("own_scenarios_hold", || {
        let report = report(&own_folder())?;
        let failures = report.failures();
        ensure!(failures.is_empty(), "{}", failures.join("\n"));
        ensure!(report.tally().passed > 100, "only {}", report.tally());
        println!("{}", report.tally());
        Ok(Verdict::Passed)
    });
    harness.case("features_of_gql_hold", || {
        println!("{} features", gql::hold()?);
        Ok(Verdict::Passed)
    });
    harness.case("the_conformance_suite_has_no_wrong_answer", || {
        let Some(folder) = suite_folder() else {
            return Ok(Verdict::NeedsData(
                "the conformance suite is missing: set ISOMER_SHARED".into(),
            ));
        };
        let report = report(&folder.join("features"))?;
        let tally = report.tally();
        println!("{tally}");
        ensure!(tally.wrong == 0, "{}", report.failures().join("\n"));
        ensure!(
            tally.percent(tally.passed) >= PASSED_PERCENT,
            "{}",
            report.failures().join("\n")
        );
        Ok(Verdict::Passed)
    });
    for mode in [Mode::NoRules, Mode::Barriers, Mode::Views, Mode::Plain] {
        harness.case(
            format!("scenarios_hold_{mode:?}").to_lowercase(),
            move || {
                let mut scenarios = load_folder(&own_folder())?;
                if let Some(folder) = suite_folder().filter(|_| !is_quick()) {
                    scenarios.extend(load_folder(&folder.join("features"))?);
                }
                let graphs =
                    suite_folder().and_then(|folder| graphs_folder(&folder.join("features")));
                let outcomes = run_in(scenarios, graphs.as_deref(), Some(mode))?;
                let report = Report::new(outcomes, &Deviations::parse(DEVIATIONS));
                let tally = report.tally();
                println!("{tally}");
                ensure!(tally.wrong == 0, "{}", report.failures().join("\n"));
                ensure!(tally.failed <= 2, "{}", report.failures().join("\n"));
                Ok(Verdict::Passed)
            },
        );
    }
    harness.case("mutated_queries_are_answered_or_refused", || {
        let own = own_folder();
        let suite = suite_folder().map(|folder| folder.join("features"));
        let mut queries = Vec::new();
        for folder in suite.iter().chain([&own]) {
            let steps = load_folder(folder)?
                .into_iter()
                .flat_map(|scenario| scenario.steps);
            queries.extend(steps.filter_map(|step| step.docstring));
        }
        let count = if is_quick() { 500 } else { 5_000 };
        let outcome = mutate::run(&queries, count, seed());
        ensure!(outcome.faults.is_empty(), "{:#?}", outcome.faults);
        ensure!(
            outcome.answered > count / 10,
            "only {} of {count} queries were answered",
            outcome.answered
        );
        println!(
            "{} queries were answered, {} refused",
            outcome.answered, outcome.refused
        );
        Ok(Verdict::Passed)
    });
    harness.case("every_statement_of_the_document_runs", || {
        let count = run_document()?;
        ensure!(count > 20, "only {count} statements were found");
        Ok(Verdict::Passed)
    });
    harness.case("random_patterns_agree_with_brute_force", || {
        let count = if is_quick() { 200 } else { 2_000 };
        let agreement = naive::compare(count, seed())?;
        ensure!(agreement.agreed > count / 2, "{agreement:?}");
        println!(
            "{} queries agreed over {} rows",
            agreement.agreed, agreement.rows
        );
        Ok(Verdict::Passed)
    });
    harness.case("shortest_paths_agree_with_brute_force", || {
        let count = naive::shortest::compare(if is_quick() { 20 } else { 150 }, seed())?;
        ensure!(count > 100, "only {count} rows were compared");
        println!("{count} rows agreed");
        Ok(Verdict::Passed)
    });
    harness.case("expressions_agree_however_their_values_are_given", || {
        let count = if is_quick() { 300 } else { 3_000 };
        let evaluated = naive::expression::compare(count, seed())?;
        ensure!(evaluated.values > count / 4, "{evaluated:?}");
        println!(
            "{} expressions agreed over {} values",
            evaluated.expressions, evaluated.values
        );
        Ok(Verdict::Passed)
    });
    harness.run()
}

fn own_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/language")
}

fn report(folder: &Path) -> Result<Report> {
    let outcomes = run_all(load_folder(folder)?, graphs_folder(folder).as_deref())?;
    Ok(Report::new(outcomes, &Deviations::parse(DEVIATIONS)))
}

/// Runs the statements of the document in order, on one database, and compares the rows and errors that it
/// shows.
///
/// A line `// a | b` below a statement is a row of its result, in order; `// error: Name` means that it fails
/// with that detail or error kind. Files are blocks of `csv` with their name.
fn run_document() -> Result<usize> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/language.md");
    let text = std::fs::read_to_string(&path)?;
    let folder = tempfile::tempdir()?;
    for block in text.split("```csv ").skip(1) {
        let block = block.split("```").next().unwrap_or_default();
        let (name, content) = block.split_once('\n').unwrap_or_default();
        std::fs::write(folder.path().join(name.trim()), content)?;
    }
    let database = isomer_db::Database::builder()
        .csv_folder(folder.path())
        .open_in_memory()?;
    let mut count = 0;
    let mut differences = Vec::new();
    for block in text.split("```cypher\n").skip(1) {
        let block = block.split("```").next().unwrap_or_default();
        for span in isomer_cypher::editor::statements(block) {
            let statement = span.slice(block);
            let shown: Vec<&str> = block[span.end as usize..]
                .trim_start_matches([';', '\n', ' '])
                .lines()
                .map_while(|line| line.strip_prefix("// "))
                .collect();
            if let Err(wrong) = check_statement(&database, statement, &shown) {
                differences.push(wrong.to_string());
            }
            count += 1;
        }
    }
    ensure!(differences.is_empty(), "{}", differences.join("\n\n"));
    // Names of Neo4j and APOC have a page of their own.
    let of_neo4j = std::fs::read_to_string(path.with_file_name("neo4j.md"))?;
    let registered = "SHOW USER DEFINED FUNCTIONS YIELD name";
    for row in database.query(registered)?.rows() {
        let name = row.values()[0].as_str().unwrap_or_default();
        ensure!(
            of_neo4j.contains(&format!("`{name}(")),
            "docs/neo4j.md does not mention `{name}`: add a row"
        );
    }
    let built_in = "SHOW BUILT IN FUNCTIONS YIELD signature";
    for row in database.query(built_in)?.rows() {
        let signature = row.values()[0].as_str().unwrap_or_default();
        let call = signature.split(" :: ").next().unwrap_or_default();
        let is_mentioned = [&text, &of_neo4j]
            .iter()
            .any(|text| text.contains(&format!("`{call}`")));
        ensure!(
            is_mentioned,
            "docs/language.md does not mention `{call}`: add a row"
        );
    }
    for row in database.query("SHOW PROCEDURES YIELD name")?.rows() {
        let name = row.values()[0].as_str().unwrap_or_default();
        let is_mentioned = [&text, &of_neo4j]
            .iter()
            .any(|text| text.contains(&format!("`{name}(")) || text.contains(&format!("`{name}`")));
        ensure!(
            is_mentioned,
            "docs/language.md does not mention `{name}`: add a row"
        );
    }
    Ok(count)
}

fn check_statement(database: &isomer_db::Database, statement: &str, shown: &[&str]) -> Result<()> {
    let answer = database.query(statement);
    if let [expected] = shown
        && let Some(expected) = expected.strip_prefix("error: ")
    {
        let error = match answer {
            Err(error) => error,
            Ok(_) => anyhow::bail!("{statement}\nhas an answer, and {expected} was shown"),
        };
        let detail = error.query_error().map(|known| known.detail);
        let kind = error.kind().name();
        ensure!(
            detail == Some(expected) || kind.eq_ignore_ascii_case(expected),
            "{statement}\n{expected} was shown, it is {kind} {detail:?}: {error}"
        );
        return Ok(());
    }
    let answer = answer.map_err(|error| anyhow::anyhow!("{statement}\n{error}"))?;
    if shown.is_empty() {
        return Ok(());
    }
    let noted = |row: &isomer_db::Row| {
        let cells = row
            .values()
            .iter()
            .map(|value| Noted::of(value).to_string());
        cells.collect::<Vec<_>>().join(" | ")
    };
    let rows: Vec<String> = answer.rows().iter().map(noted).collect();
    ensure!(
        rows == shown,
        "{statement}\nthe document shows\n{}\nit is\n{}",
        shown.join("\n"),
        rows.join("\n")
    );
    Ok(())
}
