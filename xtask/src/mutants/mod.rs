//! The suite `mutants`: deliberate faults, each of which a test must detect.
//!
//! `tests/mutants` has a patch per fault. All of them are planted into one copy of the crates, so one build is enough:
//! each asks [`GUARD`] whether it is active, and the environment variable [`VARIABLE`] of a test process chooses one.
//! The product contains nothing of that.

mod copy;
mod patch;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, anyhow};

pub use self::copy::make;
use self::patch::{Fault, Source, TestName};
use crate::{context::Context, tally::Tally, test_program::LIBRARY, workspace};

/// The folder of the patches, with one folder per crate.
const FOLDER: &str = "tests/mutants";

/// Names the active fault.
const VARIABLE: &str = "ISOMER_FAULT";

/// The module that the copy of each patched crate gets, `fault`.
const GUARD: &str = include_str!("guard.rs");

/// A test that takes longer is killed, and counts as failed.
const LIMIT_MINUTES: u64 = 20;

/// What to do about a patch that does not apply.
const ADVICE: &str = "plant the fault into the code as it is now, save `git diff` as the patch, and undo the change; \
     remove the patch only if the fault is no longer possible";

/// All faults, by name.
fn faults() -> Result<Vec<Fault>> {
    let mut faults = Vec::new();
    let folders = sorted(&workspace::root().join(FOLDER))?;
    for folder in folders.iter().filter(|path| path.is_dir()) {
        for path in sorted(folder)? {
            let text = fs::read_to_string(&path)?;
            let fault = Fault::parse(&name(&path), &text);
            faults.push(fault.with_context(|| shown(&path))?);
        }
    }
    Ok(faults)
}

/// `lsm/log_not_synced`: the folder and the file, without its extension.
fn name(path: &Path) -> String {
    let path = path.with_extension("");
    let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
    let file = path.file_name().unwrap_or_default();
    format!("{}/{}", folder.display(), file.display())
}

/// The content of a folder.
fn sorted(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("{}", folder.display()))?;
    let paths = entries.map(|entry| Ok(entry?.path()));
    let paths: Result<BTreeSet<_>> = paths.collect();
    Ok(paths?.into_iter().collect())
}

/// A path relative to the checkout.
fn shown(path: &Path) -> String {
    let relative = path.strip_prefix(workspace::root()).unwrap_or(path);
    relative.display().to_string()
}

/// Patched files.
struct Planted {
    /// The text of each, by its path in the checkout.
    texts: Vec<(String, String)>,
    /// A message per patch that does not apply.
    problems: Vec<String>,
}

/// Merges all patches into the texts of the files that they change.
fn planted(faults: &[Fault]) -> Result<Planted> {
    let files: BTreeSet<&str> = faults.iter().flat_map(Fault::files).collect();
    let (mut texts, mut problems) = (Vec::new(), Vec::new());
    for file in files {
        let text = fs::read_to_string(workspace::root().join(file));
        let Ok(text) = text else {
            let patches = faults
                .iter()
                .filter(|fault| fault.files().any(|it| it == file));
            problems.extend(patches.map(|fault| problem(fault, &anyhow!("{file} does not exist"))));
            continue;
        };
        let mut source = Source::new(&text);
        for fault in faults {
            if let Err(error) = source.plant(file, fault) {
                problems.push(problem(fault, &error));
            }
        }
        texts.push((file.to_owned(), source.text()));
    }
    Ok(Planted { texts, problems })
}

fn problem(fault: &Fault, error: &anyhow::Error) -> String {
    format!(
        "{FOLDER}/{}.patch does not apply: {error}; {ADVICE}",
        fault.name
    )
}

/// What of the copy is built, as arguments of `cargo test`: the test programs that the patches name.
pub fn built() -> Result<Vec<String>> {
    let faults = faults()?;
    let tests = faults.iter().map(|fault| &fault.found_by);
    Ok(arguments(tests))
}

fn arguments<'a>(tests: impl Iterator<Item = &'a TestName>) -> Vec<String> {
    let (mut packages, mut targets) = (BTreeSet::new(), BTreeSet::new());
    for test in tests {
        packages.insert(&*test.package);
        targets.insert(&*test.target);
    }
    let packages = packages.into_iter().flat_map(|name| ["--package", name]);
    let targets = targets.into_iter().flat_map(|name| match name {
        LIBRARY => vec![LIBRARY],
        name => vec!["--test", name],
    });
    packages.chain(targets).map(str::to_owned).collect()
}

/// For `cargo xtask tidy`: patches that do not apply.
pub fn find_outdated() -> Result<Vec<String>> {
    Ok(planted(&faults()?)?.problems)
}

/// Runs the tests without a fault, and then each test with the faults that it must detect.
pub fn suite(context: &mut Context<'_>) -> Result<Tally> {
    let faults = faults()?;
    let mut tally = Tally::default();
    let tests: BTreeSet<&TestName> = faults.iter().map(|fault| &fault.found_by).collect();
    for test in tests {
        let ran = run(context, test, None)?;
        let name = format!("{} without a fault", test.path);
        let outcome = match (ran.failed, ran.passed) {
            (0, 1) => None,
            (0, 0) => Some(format!("{name} (this test does not exist)")),
            _ => Some(name),
        };
        match outcome {
            None => tally.passed += 1,
            Some(failure) => tally.fail(failure),
        }
    }
    if tally.failed > 0 {
        // A test that fails anyway detects nothing.
        return Ok(tally);
    }
    for fault in &faults {
        let ran = run(context, &fault.found_by, Some(fault))?;
        let is_detected = ran.failed > 0;
        if !is_detected {
            let advice = "make a test detect it, and name that test in the patch";
            context
                .log
                .line(&format!("{} is not detected: {advice}", fault.name));
        }
        tally = tally.and(Tally::single(&fault.name, is_detected));
    }
    context
        .notes
        .push(format!("faults planted: {}", faults.len()));
    Ok(tally)
}

/// Runs one test; the result is empty if it does not exist.
fn run(context: &mut Context<'_>, test: &TestName, fault: Option<&Fault>) -> Result<Tally> {
    let program = context
        .tests
        .iter()
        .find(|program| program.package == test.package && program.is_target(&test.target))
        .with_context(|| format!("{} {} is not a test program", test.package, test.target))?;
    let mut command = program.command();
    command.args([&*test.path, "--exact"]);
    command.env(VARIABLE, fault.map_or("", |fault| &fault.name));
    // A fault shows early or not at all, and what passes without a fault need not be thorough.
    command.env("ISOMER_TEST_QUICK", "1");
    let variables = test.environment.iter();
    command.envs(variables.map(|(name, value)| (name, value)));
    let name = fault.map_or("no fault", |fault| &fault.name);
    context.log.line(&format!("fault: {name}"));
    context.count(&mut command, LIMIT_MINUTES, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_named_test_program_is_built() {
        let name = |package: &str, target: &str| TestName {
            package: package.to_owned(),
            target: target.to_owned(),
            path: "a::test".to_owned(),
            environment: Vec::new(),
        };
        let tests = [
            name("b", "--lib"),
            name("a", "simdisk"),
            name("b", "simdisk"),
        ];
        let expected = [
            "--package",
            "a",
            "--package",
            "b",
            "--lib",
            "--test",
            "simdisk",
        ];
        assert_eq!(arguments(tests.iter()), expected);
    }

    #[test]
    fn a_fault_is_named_after_its_file() {
        assert_eq!(name(Path::new("tests/mutants/lsm/torn.patch")), "lsm/torn");
        assert!(GUARD.contains(&format!("var(\"{VARIABLE}\")")));
    }
}
