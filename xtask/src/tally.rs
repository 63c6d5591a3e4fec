//! Counts tests by parsing the output of test programs.

use std::fmt;

use crate::needs::Missing;

/// The reason of a test that is the child process of another one, which is not a skip.
const STARTED_BY_ANOTHER: &str = "started by another test";

/// Beginnings of reasons that `--strict` accepts, as `testkit` prints them: data that is not part of the project, and
/// what the machine's kernel or the user's rights do not allow.
const TOLERATED: [&str; 2] = ["needs data: ", "not on this machine: "];

/// Begins the line of a test that passes because it cannot run; `testkit` prints it. Programs of `cargo test` have no
/// other way to say so.
const REPORTED_SKIP: &str = "skipped test ";

/// Lines kept of the output of a failed test: enough for its message, not for its backtrace.
const MAX_OUTPUT_LINES: usize = 12;

/// Result of a suite's tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Tests that passed.
    pub passed: u64,
    /// Tests that failed.
    pub failed: u64,
    /// Names of failed tests, as far as they were printed.
    pub failures: Vec<String>,
    /// Output of failed tests, preceded by their names: the first lines of each.
    pub said: Vec<String>,
    /// Remaining lines to keep of the failed test whose output is being read.
    saying: usize,
    /// Skipped tests: name and what is missing.
    pub skips: Vec<(String, Missing)>,
    /// Skips that were counted but not named.
    unnamed_skips: u64,
    /// Skips of tests that count as passed in the result of their program.
    reported_skips: u64,
    /// Those of them whose program has not printed its result yet.
    owed_skips: u64,
    /// Skips of the programs whose result was already printed.
    skips_before: u64,
    /// Tests of the current program that are part of another test, which ran them.
    parts: u64,
    /// `test result:` lines seen.
    pub results: u64,
    /// Tests that programs announced (`running 3 tests`).
    announced: u64,
    /// Tests that are in printed results, skipped ones included.
    reported: u64,
}

impl Tally {
    /// One check that passed or failed.
    pub fn single(name: &str, passed: bool) -> Self {
        let mut tally = Self::default();
        if passed {
            tally.passed = 1;
        } else {
            tally.fail(name);
        }
        tally
    }

    /// Merges the counts of another tally.
    pub fn and(mut self, other: Self) -> Self {
        self.passed += other.passed;
        self.failed += other.failed;
        self.failures.extend(other.failures);
        self.said.extend(other.said);
        self.unnamed_skips += other.unnamed_skips;
        self.reported_skips += other.reported_skips;
        self.skips.extend(other.skips);
        self
    }

    /// Why the output of a program that ended is incomplete, although it may have exited with success: a test that
    /// ends the process ends all tests after it.
    pub fn missing_results(&self) -> Option<String> {
        if self.results == 0 {
            return Some("no result was printed".to_owned());
        }
        (self.announced > self.reported).then(|| {
            format!(
                "{} tests were announced, {} have a result",
                self.announced, self.reported
            )
        })
    }

    /// Adds a failure unless a program ran as many tests as were selected.
    pub fn expect(&mut self, selected: u64, program: &str) {
        if self.announced != selected {
            let announced = self.announced;
            self.fail(format!(
                "{program}: {selected} tests were selected, {announced} were found"
            ));
        }
    }

    /// Adds one failure.
    pub fn fail(&mut self, name: impl Into<String>) {
        self.failed += 1;
        self.failures.push(name.into());
    }

    /// Whether it has no test.
    pub fn is_empty(&self) -> bool {
        self.passed + self.failed + self.skipped() == 0
    }

    /// Number of skipped tests.
    pub fn skipped(&self) -> u64 {
        self.skips.len() as u64 + self.unnamed_skips
    }

    /// Reads one line of a test program's output.
    pub fn read_line(&mut self, line: &str) {
        self.hear(line.trim_end());
        let line = line.trim();
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.results += 1;
            self.passed += count_before(counts, " passed");
            self.settle_reported_skips();
            self.failed += count_before(counts, " failed");
            let ignored = count_before(counts, " ignored");
            self.reported += ignored
                + count_before(counts, " passed")
                + count_before(counts, " failed")
                + count_before(counts, " measured");
            // A program prints its result after its tests: add skips that it counted but did not name.
            let expected = self.skips_before + ignored - self.parts.min(ignored);
            self.unnamed_skips += expected.saturating_sub(self.ignored());
            self.parts = 0;
            self.skips_before = self.ignored();
        } else if let Some(count) = announcement(line) {
            self.announced += count;
        } else if let Some((name, reason)) = line
            .strip_prefix(REPORTED_SKIP)
            .and_then(|skip| skip.split_once(": "))
        {
            self.skips.push((name.to_owned(), missing(reason)));
            self.reported_skips += 1;
            self.owed_skips += 1;
            self.settle_reported_skips();
        } else if let Some(test) = line.strip_prefix("test ") {
            let Some((name, outcome)) = test.rsplit_once(" ... ") else {
                return;
            };
            if outcome.starts_with("FAILED") {
                self.failures.push(name.to_owned());
            } else if let Some(reason) = outcome.strip_prefix("ignored") {
                let reason = reason.trim_start_matches([',', ' ']);
                if reason == STARTED_BY_ANOTHER {
                    self.parts += 1;
                    return;
                }
                self.skips.push((name.to_owned(), missing(reason)));
            }
        }
    }

    /// Skips that programs counted as ignored.
    fn ignored(&self) -> u64 {
        self.skipped() - self.reported_skips
    }

    /// Takes tests that reported a skip out of those that passed. Their line and the result of their program come over
    /// two pipes, in any order.
    fn settle_reported_skips(&mut self) {
        let settled = self.owed_skips.min(self.passed);
        self.passed -= settled;
        self.owed_skips -= settled;
    }

    /// Keeps the first lines of a failed test's output: its program repeats that output after its tests.
    fn hear(&mut self, line: &str) {
        if line.starts_with("---- ") && line.ends_with(" ----") {
            self.saying = MAX_OUTPUT_LINES;
        } else if line == "failures:" || line == "stack backtrace:" {
            self.saying = 0;
        }
        if self.saying > 0 && !line.is_empty() {
            self.saying -= 1;
            self.said.push(line.to_owned());
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{} passed, {} failed, {} skipped",
            self.passed,
            self.failed,
            self.skipped()
        )
    }
}

/// What a test says that could not run.
fn missing(reason: &str) -> Missing {
    let tolerated = TOLERATED
        .iter()
        .find_map(|begin| reason.strip_prefix(begin));
    match tolerated {
        Some(reason) => Missing::tolerated(reason),
        None if reason.is_empty() => Missing::required("ignored"),
        None => Missing::required(reason),
    }
}

/// The number of tests in `running 3 tests`.
fn announcement(line: &str) -> Option<u64> {
    let rest = line.strip_prefix("running ")?;
    let (count, word) = rest.split_once(' ')?;
    matches!(word, "test" | "tests").then(|| count.parse().ok())?
}

fn count_before(counts: &str, word: &str) -> u64 {
    let Some(at) = counts.find(word) else {
        return 0;
    };
    let digits = counts[..at]
        .rsplit(|c: char| !c.is_ascii_digit())
        .next()
        .unwrap_or("");
    digits.parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_follow_the_printed_results() {
        let mut tally = Tally::default();
        for line in [
            "running 4 tests",
            "test order::of_keys ... ok",
            "test order::of_values ... FAILED",
            "test slow ... ignored, needs a shared library",
            "test kit ... ignored, needs data: there is no kit",
            "test child ... ignored, started by another test",
            "test result: FAILED. 1 passed; 1 failed; 3 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "test result: ok. 40 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 1.20s",
        ] {
            tally.read_line(line);
        }
        assert_eq!(
            (tally.passed, tally.failed, tally.skipped(), tally.results),
            (41, 1, 4, 2)
        );
        assert_eq!(tally.failures, ["order::of_values"]);
        assert_eq!(
            tally.skips,
            [
                (
                    "slow".to_owned(),
                    Missing::required("needs a shared library")
                ),
                ("kit".to_owned(), Missing::tolerated("there is no kit")),
            ]
        );
    }

    #[test]
    fn a_test_that_reports_a_skip_has_not_passed() {
        let result = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        let skip = "skipped test nets::are_cut: not on this machine: there is no `ip`";
        let required =
            "skipped test certificates: openssl is not installed: apt-get install openssl";
        for lines in [[skip, required, result], [result, skip, required]] {
            let mut tally = Tally::default();
            lines.iter().for_each(|line| tally.read_line(line));
            // The ignored one has no name.
            assert_eq!((tally.passed, tally.failed, tally.skipped()), (1, 0, 3));
            let missing: Vec<_> = tally.skips.iter().map(|(_, missing)| missing).collect();
            assert_eq!(*missing[0], Missing::tolerated("there is no `ip`"));
            assert!(!missing[1].tolerated);
        }
    }

    #[test]
    fn a_selected_test_that_is_not_found_is_a_failure() {
        let mut tally = Tally::default();
        tally.read_line("running 2 tests");
        tally.expect(2, "lsm");
        assert_eq!(tally.failed, 0);
        tally.expect(3, "lsm");
        assert_eq!(tally.failures, ["lsm: 3 tests were selected, 2 were found"]);
    }

    #[test]
    fn a_program_that_dies_has_no_complete_result() {
        let mut tally = Tally::default();
        assert!(tally.missing_results().is_some());
        tally.read_line("running 2 tests");
        tally.read_line("test one ... ok");
        assert!(tally.missing_results().is_some());
        tally.read_line("test result: ok. 1 passed; 0 failed; 1 ignored; 0 measured");
        assert_eq!(tally.missing_results(), None);
        tally.read_line("running 1 test");
        let missing = tally.missing_results().unwrap();
        assert!(
            missing.contains("3 tests were announced, 2 have a result"),
            "{missing}"
        );
    }

    #[test]
    fn the_message_of_a_failed_test_is_kept() {
        let mut tally = Tally::default();
        for line in [
            "test order::of_values ... FAILED",
            "",
            "failures:",
            "",
            "---- order::of_values stdout ----",
            "",
            "thread 'order::of_values' panicked at src/order.rs:4:5:",
            "  left: 1",
            "stack backtrace:",
            "   0: std::panicking",
            "",
            "failures:",
            "    order::of_values",
        ] {
            tally.read_line(line);
        }
        assert_eq!(
            tally.said,
            [
                "---- order::of_values stdout ----",
                "thread 'order::of_values' panicked at src/order.rs:4:5:",
                "  left: 1",
            ]
        );
    }

    #[test]
    fn other_lines_count_for_nothing() {
        let mut tally = Tally::default();
        for line in [
            "",
            "test",
            "test results are in",
            "warning: 12 passed",
            "   Compiling value",
        ] {
            tally.read_line(line);
        }
        assert_eq!(tally, Tally::default());
    }
}
