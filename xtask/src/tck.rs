//! The openCypher Technology Compatibility Kit.

use std::path::PathBuf;

use anyhow::Result;

use crate::{commands, suites::Context, tally::Tally, workspace};

/// `cargo xtask tck`: the runner of `testkit`, in release, with our own standard output.
pub fn run(dir: Option<PathBuf>, report: Option<PathBuf>, _bless: bool) -> Result<bool> {
    let dir = dir.unwrap_or_else(|| workspace::shared_dir().join("tck/features"));
    let mut command = workspace::cargo();
    command.args([
        "run",
        "--quiet",
        "--release",
        "--locked",
        "--package",
        "isomer-testkit",
        "--bin",
        "tck",
        "--",
    ]);
    command.arg(std::path::absolute(dir)?);
    if let Some(report) = report {
        command.arg("--report").arg(std::path::absolute(report)?);
    }
    commands::succeeds(&mut command)
}

/// The suite: one test, which holds the shares that the project promises.
pub fn suite(_context: &mut Context<'_>) -> Result<Tally> {
    Ok(Tally::default())
}
