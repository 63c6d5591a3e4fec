//! Counting tests from what test programs print.

/// The reason of a test that is the child process of another one: not a skip.
const STARTED_BY_ANOTHER: &str = "started by another test";

/// Lines kept of what a failed test printed: enough for its message, not for its backtrace.
const SAID_LINES: usize = 12;

/// What a suite's tests came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Tests that passed.
    pub passed: u64,
    /// Tests that failed.
    pub failed: u64,
    /// Names of failed tests, as far as they were printed.
    pub failures: Vec<String>,
    /// What failed tests printed, with their names before it: the first lines of each.
    pub said: Vec<String>,
    /// Lines of the failed test that prints now which are still kept.
    saying: usize,
    /// Tests that did not run: name and reason.
    pub skips: Vec<(String, String)>,
    /// Skips that were counted but not named.
    unnamed_skips: u64,
    /// Skips of the programs that already printed their result.
    skips_before: u64,
    /// Tests of the program that prints now which are a part of another test, and were run by it.
    parts: u64,
    /// `test result:` lines seen.
    pub results: u64,
}

impl Tally {
    /// One check that either held or not.
    pub fn single(name: &str, passed: bool) -> Self {
        let mut tally = Self::default();
        if passed {
            tally.passed = 1;
        } else {
            tally.fail(name);
        }
        tally
    }

    /// As one with the checks of another.
    pub fn and(mut self, other: Self) -> Self {
        self.passed += other.passed;
        self.failed += other.failed;
        self.failures.extend(other.failures);
        self.said.extend(other.said);
        self
    }

    /// Adds one failure.
    pub fn fail(&mut self, name: impl Into<String>) {
        self.failed += 1;
        self.failures.push(name.into());
    }

    /// Tests that did not run.
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
            self.failed += count_before(counts, " failed");
            let ignored = count_before(counts, " ignored");
            // A program prints its result after its tests: what it counts and did not name is added here.
            let expected = self.skips_before + ignored - self.parts.min(ignored);
            self.unnamed_skips += expected.saturating_sub(self.skipped());
            self.parts = 0;
            self.skips_before = self.skipped();
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
                self.skips.push((
                    name.to_owned(),
                    if reason.is_empty() {
                        "ignored".into()
                    } else {
                        reason.to_owned()
                    },
                ));
            }
        }
    }

    /// Keeps the beginning of what a failed test printed: its program repeats that below its tests.
    fn hear(&mut self, line: &str) {
        if line.starts_with("---- ") && line.ends_with(" ----") {
            self.saying = SAID_LINES;
        } else if line == "failures:" || line == "stack backtrace:" {
            self.saying = 0;
        }
        if self.saying > 0 && !line.is_empty() {
            self.saying -= 1;
            self.said.push(line.to_owned());
        }
    }
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
            "running 3 tests",
            "test order::of_keys ... ok",
            "test order::of_values ... FAILED",
            "test slow ... ignored, needs root",
            "test child ... ignored, started by another test",
            "test result: FAILED. 1 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.00s",
            "test result: ok. 40 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 1.20s",
        ] {
            tally.read_line(line);
        }
        assert_eq!(
            (tally.passed, tally.failed, tally.skipped(), tally.results),
            (41, 1, 3, 2)
        );
        assert_eq!(tally.failures, ["order::of_values"]);
        assert_eq!(tally.skips, [("slow".to_owned(), "needs root".to_owned())]);
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
