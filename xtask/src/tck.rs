//! The openCypher Technology Compatibility Kit.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::Result;

use crate::{commands, context::Context, process::Stream, tally::Tally, workspace};

/// Minimum percentage of scenarios that pass: a ratchet.
const MIN_PASSED: &str = "99.5";
/// Maximum percentage of scenarios with a wrong result.
const MAX_WRONG: &str = "0";

fn features() -> PathBuf {
    workspace::shared_dir().join("tck/features")
}

/// `cargo xtask tck`: runs testkit's runner in release, with inherited standard output.
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

/// The suite: one test that enforces the ratchet. The scenarios are counted separately.
pub fn suite(context: &mut Context<'_>) -> Result<Tally> {
    let mut command = Command::new(built("tck"));
    command.arg(features()).args([
        "--list-failures",
        "--min-passed",
        MIN_PASSED,
        "--max-wrong",
        MAX_WRONG,
    ]);
    let mut summary = None;
    let passed = context.run(&mut command, 20, &mut |stream, line| {
        if stream == Stream::Out && line.starts_with("passed ") {
            summary = Some(line.to_owned());
        }
        true
    })?;
    context.notes.push(format!(
        "TCK scenarios: {}",
        summary.as_deref().unwrap_or("not counted, see the log")
    ));
    Ok(Tally::single("tck", passed))
}

/// A binary that was built together with the tests.
pub fn built(name: &str) -> PathBuf {
    workspace::target_dir().join(Path::new("debug")).join(name)
}
