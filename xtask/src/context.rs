//! What a part of a suite gets when it runs: its log, its programs, and how it runs others.

use std::{path::PathBuf, process::Command, time::Duration};

use anyhow::Result;

use crate::{
    live::Live,
    process::{self, Log, Stream},
    tally::Tally,
    test_program::TestProgram,
    workspace,
};

/// State of a running part.
pub struct Context<'a> {
    /// The part's log.
    pub log: &'a mut Log,
    /// The part's progress.
    pub live: &'a mut Live,
    /// The programs of the first build that the part uses.
    pub tests: &'a [TestProgram],
    /// Whether to reduce randomised and repeated work.
    pub quick: bool,
    /// Lines to print before the closing line.
    pub notes: Vec<String>,
    /// Processor time of the programs that ended.
    pub busy: Duration,
}

/// Environment variable with the seed of property tests: fixed in every run, so that failures are
/// reproducible; `soak` draws others.
pub const PROPERTY_SEED: &str = "PROPTEST_RNG_SEED";

/// Threads of a test program: the pool runs several programs at once, and tests often wait for disks and timers.
const TEST_THREADS: &str = "2";

/// Sets the variables with which test programs run, unless they are set.
pub fn test_environment(command: &mut Command, quick: bool) {
    if quick {
        command.env("ISOMER_TEST_QUICK", "1");
    }
    for (variable, value) in [(PROPERTY_SEED, "1"), ("RUST_TEST_THREADS", TEST_THREADS)] {
        if std::env::var_os(variable).is_none() {
            command.env(variable, value);
        }
    }
}

impl Context<'_> {
    /// Runs a program and adds up its processor time. Every line goes to `on_line`; lines for which it returns true go
    /// to the log too.
    pub fn run(
        &mut self,
        command: &mut Command,
        limit_minutes: u64,
        on_line: &mut dyn FnMut(Stream, &str) -> bool,
    ) -> Result<bool> {
        let limit = Duration::from_secs(limit_minutes * 60);
        let ended = process::run(command, limit, self.log, self.live, on_line)?;
        self.busy += ended.busy.unwrap_or_default();
        Ok(ended.succeeded)
    }

    /// Runs `command` and counts its tests. A program that fails without a failed test counts as one failure, and so
    /// does one that prints no result or fewer results than it announced.
    pub fn count(
        &mut self,
        command: &mut Command,
        limit_minutes: u64,
        name: &str,
    ) -> Result<Tally> {
        test_environment(command, self.quick);
        let mut tally = Tally::default();
        let succeeded = self.run(command, limit_minutes, &mut |_, line| {
            tally.read_line(line);
            true
        })?;
        if let Some(missing) = tally.missing_results() {
            self.log.line(&format!("{name}: {missing}"));
            tally.fail(format!("{name}: {missing}"));
        } else if !succeeded && tally.failed == 0 {
            tally.fail(name);
        }
        Ok(tally)
    }

    /// Runs `command` as one check: success or failure.
    pub fn check(
        &mut self,
        command: &mut Command,
        limit_minutes: u64,
        name: &str,
    ) -> Result<Tally> {
        let succeeded = self.run(command, limit_minutes, &mut |_, _| true)?;
        Ok(Tally::single(name, succeeded))
    }

    /// The binary `isomer`: the released one, or with `--quick`, which makes no release build, the one that the tests
    /// start.
    pub fn isomer(&self) -> PathBuf {
        let folder = match self.quick {
            true => "debug",
            false => "release",
        };
        workspace::target_dir().join(folder).join("isomer")
    }
}
