//! The openCypher Technology Compatibility Kit.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::Result;

use crate::{
    commands,
    process::{self, Stream},
    suites::Context,
    tally::Tally,
    workspace,
};

/// Least share of scenarios that pass, in percent: what was reached must not be lost.
const MIN_PASSED: &str = "99.5";
/// Largest share of scenarios with a wrong answer, in percent.
const MAX_WRONG: &str = "0";

fn features() -> PathBuf {
    workspace::shared_dir().join("tck/features")
}

/// `cargo xtask tck`: the runner of `testkit`, in release, with our own standard output.
pub fn run(dir: Option<PathBuf>, report: Option<PathBuf>, list_failures: bool) -> Result<bool> {
    let mut command = workspace::cargo();
    command.args(["run", "--quiet", "--release", "--locked"]);
    command.args(["--package", "isomer-testkit", "--bin", "tck", "--"]);
    command.arg(std::path::absolute(dir.unwrap_or_else(features))?);
    if let Some(report) = report {
        command.arg("--report").arg(std::path::absolute(report)?);
    }
    if list_failures {
        command.arg("--list-failures");
    }
    commands::succeeds(&mut command)
}

/// The suite: one test, which holds what was reached. The scenarios are counted apart.
pub fn suite(context: &mut Context<'_>) -> Result<Tally> {
    if context.programs()?.is_none() {
        return Ok(Tally::single("tck (does not build)", false));
    }
    let mut command = Command::new(built("tck"));
    command.arg(features()).args([
        "--list-failures",
        "--min-passed",
        MIN_PASSED,
        "--max-wrong",
        MAX_WRONG,
    ]);
    let limit = Duration::from_secs(20 * 60);
    let mut summary = None;
    let passed = process::run(
        &mut command,
        limit,
        context.log,
        context.live,
        &mut |stream, line| {
            if stream == Stream::Out && line.starts_with("passed ") {
                summary = Some(line.to_owned());
            }
            true
        },
    )?;
    context.notes.push(format!(
        "TCK scenarios: {}",
        summary.as_deref().unwrap_or("not counted, see the log")
    ));
    Ok(Tally::single("tck", passed))
}

/// A binary that was built beside the tests.
pub fn built(name: &str) -> PathBuf {
    workspace::target_dir().join(Path::new("debug")).join(name)
}
