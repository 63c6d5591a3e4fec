//! Builds that suites share: every test program is built once, so that suites run without cargo.

use std::{path::PathBuf, process::Command, time::Duration};

use anyhow::Result;
use serde_json::Value;

use crate::{
    live::Live,
    mutants,
    pool::Cost,
    process::{self, Log, Stream},
    test_program::{LIBRARY, TestProgram},
    workspace,
};

/// The time after which a build is killed.
const LIMIT: Duration = Duration::from_secs(40 * 60);

/// Features that are off by default, of the builds whose libraries suites share.
pub const FEATURES: &str = "isomer-server/otel,isomerdb/replication";

/// A build that suites share. Each compiles the workspace with its own features or profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Build {
    /// All test programs and the binaries that they start, with the feature `otel`.
    Tests,
    /// Storage and store with the locks of the model checker.
    Model,
    /// A copy of some crates, with all faults of the suite `mutants`.
    Mutants,
    /// The released binary, without optional features; a warning fails this build.
    Release,
}

/// Cargo locks its folder of a profile: builds of one folder run one after another.
pub const DEBUG_FOLDER: &str = "target/debug";
/// See [`DEBUG_FOLDER`].
pub const RELEASE_FOLDER: &str = "target/release";

impl Build {
    /// Short name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tests => "tests",
            Self::Model => "model",
            Self::Mutants => "mutants",
            Self::Release => "release",
        }
    }

    /// What it takes: `Tests` uses all cores, because everything else waits for it. The others run while tests run.
    pub fn cost(self) -> Cost {
        let cores = workspace::core_count() as u32;
        let (cores_percent, seconds, lock) = match self {
            Self::Tests => (100 * cores, 300.0, DEBUG_FOLDER),
            Self::Model => (100, 60.0, DEBUG_FOLDER),
            Self::Mutants => (100, 120.0, DEBUG_FOLDER),
            Self::Release => (50 * cores.max(2), 300.0, RELEASE_FOLDER),
        };
        Cost {
            cores_percent,
            seconds,
            lock: Some(lock),
            memory_mib: 3072,
            is_urgent: true,
        }
    }

    /// Builds; `None` if the build fails (the errors are in the log). The release build has no test programs.
    pub fn run(self, log: &mut Log, live: &mut Live) -> Result<Built> {
        match self {
            // Always the whole workspace: for a part of it, cargo would unify features differently and rebuild
            // everything. Without examples: clippy checks them.
            Self::Tests => tests(
                &["--workspace", "--tests", "--features", FEATURES],
                log,
                live,
            ),
            Self::Model => tests(
                &[
                    "--package",
                    "isomer-storage",
                    "--package",
                    "isomer-lsm",
                    "--features",
                    "isomer-storage/model,isomer-lsm/model",
                    "--lib",
                ],
                log,
                live,
            ),
            Self::Mutants => patched(log, live),
            Self::Release => release(log, live),
        }
    }
}

/// The result of a build.
pub struct Built {
    /// The test programs; `None` if the build failed (the errors are in the log).
    pub programs: Option<Vec<TestProgram>>,
    /// Its processor time.
    pub busy: Option<Duration>,
}

/// Half of the cores: the tests run while it builds. Its warnings are errors, because no other build is without the
/// feature `otel`.
fn release(log: &mut Log, live: &mut Live) -> Result<Built> {
    let jobs = workspace::core_count().div_ceil(2).to_string();
    let mut command = workspace::cargo();
    command.args(["build", "--release", "--locked", "--jobs", &jobs]);
    command.arg("--message-format=json");
    let mut messages = Vec::new();
    let ended = process::run(&mut command, LIMIT, log, live, &mut |stream, line| {
        if stream == Stream::Out {
            messages.extend(diagnostic(line));
        }
        stream == Stream::Err
    })?;
    for message in &messages {
        message.lines().for_each(|line| log.line(line));
    }
    Ok(Built {
        programs: (ended.succeeded && messages.is_empty()).then(Vec::new),
        busy: ended.busy,
    })
}

/// A warning or an error in a line of cargo's JSON. Without a place in the code it is about the machine, not about the
/// code.
fn diagnostic(line: &str) -> Option<String> {
    let message: Value = serde_json::from_str(line).ok()?;
    let has_place = message["message"]["spans"]
        .as_array()
        .is_some_and(|spans| !spans.is_empty());
    (message["reason"] == "compiler-message" && has_place)
        .then(|| message["message"]["rendered"].as_str().map(str::to_owned))?
}

/// Builds some tests, given as packages and targets, and only what they need.
pub fn some_test_programs(
    chosen: &[(&str, &str)],
    log: &mut Log,
    live: &mut Live,
) -> Result<Option<Vec<TestProgram>>> {
    let chosen: Vec<&str> = chosen
        .iter()
        .flat_map(|(package, target)| match *target {
            LIBRARY => vec!["--package", package, LIBRARY],
            test => vec!["--package", package, "--test", test],
        })
        .collect();
    Ok(tests(&chosen, log, live)?.programs)
}

/// The copy is another workspace with fewer packages: cargo removes the others from its lock file.
fn patched(log: &mut Log, live: &mut Live) -> Result<Built> {
    let manifest = mutants::make()?;
    let mut command = workspace::cargo();
    command.arg("test").arg("--manifest-path").arg(manifest);
    command.arg("--target-dir").arg(workspace::target_dir());
    command.args(mutants::built()?);
    run_tests_build(command, log, live)
}

fn tests(what: &[&str], log: &mut Log, live: &mut Live) -> Result<Built> {
    let mut command = workspace::cargo();
    command.arg("test").args(what).arg("--locked");
    run_tests_build(command, log, live)
}

fn run_tests_build(mut command: Command, log: &mut Log, live: &mut Live) -> Result<Built> {
    command.args(["--no-run", "--message-format=json-render-diagnostics"]);
    let mut programs = Vec::new();
    let ended = process::run(&mut command, LIMIT, log, live, &mut |stream, line| {
        if stream == Stream::Err {
            return true;
        }
        if let Ok(message) = serde_json::from_str(line) {
            programs.extend(test_program(&message));
        }
        false
    })?;
    programs.sort_by(|a, b| (&a.package, &a.target).cmp(&(&b.package, &b.target)));
    Ok(Built {
        programs: ended.succeeded.then_some(programs),
        busy: ended.busy,
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_about_the_code_is_found_in_the_json_of_cargo() {
        let warning = r#"{"reason":"compiler-message","message":{"rendered":"warning: unused","spans":[{"line_start":1}]}}"#;
        assert_eq!(diagnostic(warning).as_deref(), Some("warning: unused"));
        let machine = r#"{"reason":"compiler-message","message":{"rendered":"warning: no jobserver","spans":[]}}"#;
        assert_eq!(diagnostic(machine), None);
        assert_eq!(diagnostic(r#"{"reason":"compiler-artifact"}"#), None);
        assert_eq!(diagnostic("   Compiling"), None);
    }

    #[test]
    fn test_programs_are_found_in_the_json_of_cargo() {
        let line = r#"{"reason":"compiler-artifact","manifest_path":"/a/crates/value/Cargo.toml","profile":{"test":true},
            "target":{"name":"codecs","kind":["test"]},"executable":"/a/target/debug/deps/codecs-1"}"#;
        let program = test_program(&serde_json::from_str(line).unwrap()).unwrap();
        assert_eq!(
            (&*program.package, &*program.target),
            ("isomer-value", "codecs")
        );
        assert!(program.is_integration && program.is_target("codecs"));
    }
}
