//! Type-checks the workspace for other operating systems and processors whose standard libraries are installed.

use std::{path::PathBuf, process::Command};

use anyhow::Result;

use crate::{
    context::Context,
    needs::{Missing, on_path, quietly},
    tally::Tally,
    workspace,
};

/// The targets besides the one that is tested. README.md lists them.
const TARGETS: [&str; 3] = [
    "aarch64-unknown-linux-gnu",
    "aarch64-apple-darwin",
    "x86_64-pc-windows-gnu",
];
/// Programs that build scripts run to compile C.
const C_TOOLS: [&str; 4] = ["CC", "CXX", "AR", "RANLIB"];

/// Checks every target; each is one test.
pub fn suite(context: &mut Context<'_>) -> Result<Tally> {
    let mut tally = Tally::default();
    for target in TARGETS {
        if !is_installed(target) && !install(target) {
            // A machine without network cannot install it.
            let reason = format!("no standard library for it: rustup target add {target}");
            context.log.line(&format!("{target}: skipped: {reason}"));
            tally
                .skips
                .push((target.to_owned(), Missing::tolerated(reason)));
            continue;
        }
        tally = tally.and(context.check(&mut check(target), 30, target)?);
    }
    Ok(tally)
}

/// `cargo check` of all libraries and programs, without tests: those run on Linux only.
fn check(target: &str) -> Command {
    let mut command = workspace::cargo();
    command.args(["check", "--workspace", "--locked", "--target", target]);
    // Nothing is linked, so the C libraries need not be compiled: a program that does nothing replaces the compiler
    // for the target, which few machines have.
    if on_path("true") {
        for tool in C_TOOLS {
            command.env(format!("{tool}_{}", target.replace('-', "_")), "true");
        }
    }
    command
}

fn is_installed(target: &str) -> bool {
    let printed = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", target])
        .output();
    printed.is_ok_and(|output| {
        let folder = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        output.status.success() && PathBuf::from(folder).is_dir()
    })
}

fn install(target: &str) -> bool {
    let mut rustup = Command::new("rustup");
    on_path("rustup") && quietly(rustup.args(["target", "add", target])) && is_installed(target)
}
