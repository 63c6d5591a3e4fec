//! The suite `sanitize`: the tests of the memtable, which has almost all `unsafe` code of the project, with tools that
//! detect wrong uses of memory.

use std::process::Command;

use anyhow::Result;

use crate::{
    context::Context,
    needs::{Missing, Need},
    tally::Tally,
    workspace,
};

/// The tests: those of the library `isomer-lsm` in this module.
const TESTS: [&str; 4] = ["--package", "isomer-lsm", "--lib", "memtable::"];

/// With AddressSanitizer: uses after a free, uses out of bounds, leaks.
pub fn address(context: &mut Context<'_>) -> Result<Tally> {
    let mut command = workspace::cargo();
    command.args(["test", "--locked"]);
    // A target, even that of the host, keeps build scripts and macros without the sanitizer.
    command.args(["--target", &workspace::host_triple()?]);
    command.arg("--target-dir");
    command.arg(workspace::target_dir().join("sanitize"));
    command.args(TESTS);
    // The sanitizer ships with stable compilers, but its flag counts as unstable.
    command.env("RUSTC_BOOTSTRAP", "1");
    command.env("RUSTFLAGS", "-Zsanitizer=address");
    // It would take precedence.
    command.env_remove("CARGO_ENCODED_RUSTFLAGS");
    let tally = context.count(&mut command, 15, "address sanitizer")?;
    Ok(require_tests(tally).and(detects_a_fault(context)?))
}

/// A program that reads freed memory is ended: the sanitizer works on this machine.
fn detects_a_fault(context: &mut Context<'_>) -> Result<Tally> {
    let name = "a use after a free is detected";
    let program = workspace::target_dir().join("sanitize/use_after_free");
    let mut build = Command::new("rustc");
    build.args(["-Zsanitizer=address", "--edition=2024", "--target"]);
    build.arg(workspace::host_triple()?);
    build.arg("-o").arg(&program);
    build.arg(workspace::root().join("tests/sanitize/use_after_free.rs"));
    build.env("RUSTC_BOOTSTRAP", "1");
    if !context.run(&mut build, 2, &mut |_, _| true)? {
        return Ok(Tally::single(name, false));
    }
    let mut is_reported = false;
    let has_ended_well = context.run(&mut Command::new(&program), 2, &mut |_, line| {
        is_reported |= line.contains("heap-use-after-free");
        true
    })?;
    Ok(Tally::single(name, is_reported && !has_ended_well))
}

/// A filter that selects nothing is a failure, not a success.
fn require_tests(mut tally: Tally) -> Tally {
    if tally.passed + tally.failed == 0 {
        tally.fail("no test of the memtable ran".to_owned());
    }
    tally
}

/// With Miri, which also detects data races and broken rules of aliasing, where it is installed or can be.
pub fn miri(context: &mut Context<'_>) -> Result<Tally> {
    let need = Need::Component {
        command: "miri",
        rustup: "miri",
    };
    if let Err(missing) = need.meet() {
        let mut tally = Tally::default();
        // Toolchains of distributions and stable ones do not have it.
        let missing = Missing::tolerated(missing.reason);
        tally.skips.push(("miri".to_owned(), missing));
        return Ok(tally);
    }
    let mut command = workspace::cargo();
    command.args(["miri", "test", "--locked", "--target-dir"]);
    command.arg(workspace::target_dir().join("miri"));
    command.args(TESTS);
    let tally = context.count(&mut command, 30, "miri")?;
    Ok(require_tests(tally))
}
