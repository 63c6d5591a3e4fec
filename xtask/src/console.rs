//! The console: building it, comparing what is committed with what its sources build, trying it in a browser.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};

use crate::{needs::Need, process, suites::Context, tally::Tally, workspace};

/// Most bytes of all built files together.
const MOST_BYTES: u64 = 2 << 20;

fn folder() -> PathBuf {
    workspace::root().join("console")
}

fn committed() -> PathBuf {
    workspace::root().join("crates/server/console-dist")
}

fn vite(out: &Path) -> Command {
    let mut command = Command::new("npx");
    command
        .args(["--no-install", "vite", "build", "--emptyOutDir", "--outDir"])
        .arg(out)
        .current_dir(folder());
    command
}

/// The suite: types, build, the same files as are committed, and the pages in a browser.
pub fn suite(context: &mut Context<'_>) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut check = Command::new("npx");
    check
        .args([
            "--no-install",
            "svelte-check",
            "--tsconfig",
            "tsconfig.json",
            "--fail-on-warnings",
        ])
        .current_dir(folder());
    step(context, &mut tally, &mut check, 3, "types")?;

    let built = workspace::target_dir().join("xtask/console-dist");
    step(context, &mut tally, &mut vite(&built), 3, "build")?;
    if tally.failed > 0 {
        return Ok(tally);
    }
    let differences = differences(&files(&built)?, &files(&committed())?);
    for difference in &differences {
        context.log.line(difference);
    }
    count(
        &mut tally,
        differences.is_empty(),
        "crates/server/console-dist is what console/ builds (cargo xtask console builds it)",
    );

    let mut build = workspace::cargo();
    build.args(["build", "--locked", "-p", "isomer-cli"]);
    step(context, &mut tally, &mut build, 20, "the binary builds")?;
    if tally.failed == 0 {
        let mut browser = Command::new("node");
        browser
            .arg("test/run.mjs")
            .arg(workspace::target_dir().join("debug/isomer"))
            .current_dir(folder());
        context.count(&mut browser, 4, &mut tally, "browser")?;
    }
    Ok(tally)
}

fn step(
    context: &mut Context<'_>,
    tally: &mut Tally,
    command: &mut Command,
    limit_minutes: u64,
    name: &str,
) -> Result<()> {
    let limit = Duration::from_secs(limit_minutes * 60);
    let succeeded = process::run(command, limit, context.log, context.live, &mut |_, _| true)?;
    count(tally, succeeded, name);
    Ok(())
}

fn count(tally: &mut Tally, succeeded: bool, name: &str) {
    if succeeded {
        tally.passed += 1;
    } else {
        tally.fail(name);
    }
}

fn files(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        files.insert(name, fs::read(entry.path())?);
    }
    Ok(files)
}

/// What is not the same in two folders, in words.
fn differences(
    built: &BTreeMap<String, Vec<u8>>,
    committed: &BTreeMap<String, Vec<u8>>,
) -> Vec<String> {
    let names: std::collections::BTreeSet<_> = built.keys().chain(committed.keys()).collect();
    let told = |name: &&String| match (built.get(*name), committed.get(*name)) {
        (Some(one), Some(two)) if one == two => None,
        (Some(_), Some(_)) => Some(format!("{name}: built otherwise than committed")),
        (Some(_), None) => Some(format!("{name}: built, not committed")),
        (None, _) => Some(format!("{name}: committed, not built any more")),
    };
    names.iter().filter_map(told).collect()
}

/// `cargo xtask console`: builds what is to be committed.
pub fn build(screenshots: bool) -> Result<bool> {
    if let Err(missing) = Need::Npm("console").meet() {
        bail!("{}", missing.reason);
    }
    let built = vite(&committed()).status().context("npx does not start")?;
    if !built.success() {
        return Ok(false);
    }
    let bytes: u64 = files(&committed())?
        .values()
        .map(|file| file.len() as u64)
        .sum();
    if bytes > MOST_BYTES {
        bail!("the console has {bytes} bytes, the limit is {MOST_BYTES}");
    }
    println!("crates/server/console-dist: {} KiB", bytes >> 10);
    if !screenshots {
        return Ok(true);
    }
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--locked", "-p", "isomer-cli"]);
    let made = cargo.status()?.success()
        && Command::new("node")
            .arg("test/screenshots.mjs")
            .arg(workspace::target_dir().join("debug/isomer"))
            .arg(workspace::root().join("docs/images"))
            .current_dir(folder())
            .status()?
            .success();
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_difference_is_told() {
        let folder = |files: &[(&str, &[u8])]| {
            let pair = |(name, bytes): &(&str, &[u8])| ((*name).to_owned(), bytes.to_vec());
            files.iter().map(pair).collect::<BTreeMap<_, _>>()
        };
        let built = folder(&[("a", b"1"), ("b", b"1"), ("c", b"1")]);
        let committed = folder(&[("a", b"1"), ("b", b"2"), ("d", b"1")]);
        assert_eq!(differences(&built, &built).len(), 0);
        assert_eq!(differences(&built, &committed).len(), 3);
    }
}
