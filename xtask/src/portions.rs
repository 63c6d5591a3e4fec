//! Splits a long test program into tasks that run in parallel, so that no single program is what the others wait for.
//!
//! A portion names its tests exactly, and all portions are cut from one list: no test runs twice, and none is left out.

use std::{collections::BTreeMap, process::Stdio};

use crate::{context::test_environment, test_program::TestProgram};

/// A program is split if it took longer in its last run, in seconds.
pub const LONG_SECONDS: f64 = 15.0;

/// Name of the portion with the tests outside of modules.
const OUTSIDE_OF_MODULES: &str = "main";

/// Tests of a program that run in one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Portion {
    /// Module of the tests, or name of the test.
    pub name: String,
    /// Their names.
    pub tests: Vec<String>,
}

/// The tests of a program that `arguments` select; `None` if it does not list them.
pub fn list(program: &TestProgram, arguments: &[&str], quick: bool) -> Option<Vec<String>> {
    let mut command = program.command();
    test_environment(&mut command, quick);
    command
        .args(arguments)
        .args(["--list", "--format", "terse"]);
    let output = command.stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let tests = text.lines().filter_map(|line| line.strip_suffix(": test"));
    output
        .status
        .success()
        .then(|| tests.map(str::to_owned).collect())
}

/// One portion per top-level module; one per test if no test is in a module.
pub fn split(tests: Vec<String>) -> Vec<Portion> {
    let has_modules = tests.iter().any(|test| test.contains("::"));
    let mut portions: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for test in tests {
        let name = match test.split_once("::") {
            Some((module, _)) => module,
            None if has_modules => OUTSIDE_OF_MODULES,
            None => &*test,
        };
        portions.entry(name.to_owned()).or_default().push(test);
    }
    portions
        .into_iter()
        .map(|(name, tests)| Portion { name, tests })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn portions(tests: &[&str]) -> Vec<(String, usize)> {
        let tests = tests.iter().map(|test| (*test).to_owned()).collect();
        let portions = split(tests).into_iter();
        portions
            .map(|portion| (portion.name, portion.tests.len()))
            .collect()
    }

    #[test]
    fn tests_are_split_by_module() {
        assert_eq!(
            portions(&["log::a", "log::deep::a", "dialog::a", "alone"]),
            [("dialog".into(), 1), ("log".into(), 2), ("main".into(), 1)]
        );
    }

    #[test]
    fn tests_without_modules_are_split_one_by_one() {
        assert_eq!(portions(&["b", "a"]), [("a".into(), 1), ("b".into(), 1)]);
        assert_eq!(portions(&[]), []);
    }
}
