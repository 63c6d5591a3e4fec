//! Building every test program once, so that suites run them without cargo in between.

use std::{path::PathBuf, process::Command, time::Duration};

use anyhow::Result;
use serde_json::Value;

use crate::{
    live::Live,
    process::{self, Log, Stream},
    workspace,
};

/// A built test program.
pub struct TestProgram {
    /// Its package, `isomer-value`.
    pub package: String,
    /// Its target: the name of the file in `tests/`, or of the library or binary.
    pub target: String,
    /// Whether it is a file in `tests/`.
    pub is_integration: bool,
    /// The executable.
    pub path: PathBuf,
    /// The package's folder, where cargo would run it.
    pub folder: PathBuf,
}

impl TestProgram {
    /// A command that runs it as cargo would.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }

    /// Whether it is the integration test of that name, or, for [`LIBRARY`], the library's own tests.
    pub fn is_target(&self, target: &str) -> bool {
        match target {
            LIBRARY => !self.is_integration && self.target == self.package.replace('-', "_"),
            target => self.is_integration && self.target == target,
        }
    }
}

/// The target of a package's library, beside those of files in `tests/`.
pub const LIBRARY: &str = "--lib";

/// Builds all test programs of the workspace; `None` where the build fails (its errors are in the log).
///
/// Always the whole workspace: with a part of it, cargo would choose other features and build all again.
pub fn test_programs(log: &mut Log, live: &mut Live) -> Result<Option<Vec<TestProgram>>> {
    build(&["--workspace".to_owned()], log, live)
}

/// Builds some tests, given as packages and targets, and no more than they need.
pub fn some_test_programs(
    tests: &[(&str, &str)],
    log: &mut Log,
    live: &mut Live,
) -> Result<Option<Vec<TestProgram>>> {
    let chosen: Vec<String> = tests
        .iter()
        .flat_map(|(package, target)| match *target {
            LIBRARY => vec!["--package", package, LIBRARY],
            test => vec!["--package", package, "--test", test],
        })
        .map(str::to_owned)
        .collect();
    build(&chosen, log, live)
}

fn build(what: &[String], log: &mut Log, live: &mut Live) -> Result<Option<Vec<TestProgram>>> {
    let mut command = workspace::cargo();
    command.arg("test").args(what).args([
        "--locked",
        "--no-run",
        "--message-format=json-render-diagnostics",
    ]);
    let mut programs = Vec::new();
    let built = process::run(
        &mut command,
        Duration::from_secs(40 * 60),
        log,
        live,
        &mut |stream, line| {
            if stream == Stream::Err {
                return true;
            }
            if let Ok(message) = serde_json::from_str(line) {
                programs.extend(test_program(&message));
            }
            false
        },
    )?;
    programs.sort_by(|a, b| (&a.package, &a.target).cmp(&(&b.package, &b.target)));
    Ok(built.then_some(programs))
}

fn test_program(message: &Value) -> Option<TestProgram> {
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let path = PathBuf::from(message["executable"].as_str()?);
    let folder = PathBuf::from(message["manifest_path"].as_str()?)
        .parent()?
        .to_path_buf();
    let target = &message["target"];
    let is_integration = target["kind"].as_array()?.iter().any(|kind| kind == "test");
    let package = match folder.file_name()?.to_str()? {
        "xtask" => "xtask".to_owned(),
        name => format!("isomer-{name}"),
    };
    Some(TestProgram {
        package,
        target: target["name"].as_str()?.to_owned(),
        is_integration,
        path,
        folder,
    })
}
