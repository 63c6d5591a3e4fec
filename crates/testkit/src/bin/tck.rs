//! `tck [DIR]`: runs a folder of openCypher's conformance features and prints how many passed, failed, were
//! skipped, and were wrong.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use isomer_testkit::tck::report::{Deviations, Report};
use isomer_testkit::tck::scenario::load_folder;
use isomer_testkit::tck::suite::run_all;
use isomer_testkit::tck::{DEVIATIONS, graphs_folder, suite_folder};

/// Runs openCypher's Technology Compatibility Kit against a fresh database per scenario.
///
/// Example: tck ../shared/tck/features --report report.json --list-failures
#[derive(Parser)]
struct Arguments {
    /// Folder of feature files, or one file [default: the suite next to the checkout]
    dir: Option<PathBuf>,
    /// Writes the outcome of every scenario to this file, as JSON
    #[arg(long)]
    report: Option<PathBuf>,
    /// Only scenarios whose file, feature or name contains this.
    #[arg(long)]
    filter: Option<String>,
    /// Also print each scenario that did not pass, with the reason.
    #[arg(long)]
    list_failures: bool,
    /// Fail if a lower percentage of the scenarios passed.
    #[arg(long, value_name = "PERCENT")]
    min_passed: Option<f64>,
    /// Fail if a higher percentage of the scenarios was wrong.
    #[arg(long, value_name = "PERCENT")]
    max_wrong: Option<f64>,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let dir = match arguments.dir {
        Some(dir) => dir,
        None => suite_folder()
            .context("the suite was not found: name its folder, or set ISOMER_SHARED")?
            .join("features"),
    };
    let mut scenarios = load_folder(&dir)?;
    if let Some(filter) = &arguments.filter {
        scenarios.retain(|scenario| {
            scenario.id().contains(filter) || scenario.file.display().to_string().contains(filter)
        });
    }
    let outcomes = run_all(scenarios, graphs_folder(&dir).as_deref())?;
    let report = Report::new(outcomes, &Deviations::parse(DEVIATIONS));
    if arguments.list_failures {
        report.failures().iter().for_each(|line| println!("{line}"));
    }
    if let Some(file) = &arguments.report {
        std::fs::write(file, format!("{:#}\n", report.to_json()))
            .with_context(|| format!("{} cannot be written", file.display()))?;
    }
    let tally = report.tally();
    println!("{tally}");
    let few = arguments
        .min_passed
        .is_some_and(|least| tally.percent(tally.passed) < least);
    let wrong = arguments
        .max_wrong
        .is_some_and(|most| tally.percent(tally.wrong) > most);
    Ok(if few || wrong {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}
