//! The console: builds it, compares the committed files with the built ones, tests it in a browser.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use crate::{context::Context, needs::Need, tally::Tally, workspace};

/// Maximum total size of the built files.
const MAX_BYTES: u64 = 2 << 20;

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

/// Types, build, and equality with the committed files.
pub fn sources(context: &mut Context<'_>) -> Result<Tally> {
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
    let mut tally = context.check(&mut check, 6, "types")?;
    let built = workspace::target_dir().join("xtask/console-dist");
    tally = tally.and(context.check(&mut vite(&built), 6, "build")?);
    if tally.failed > 0 {
        return Ok(tally);
    }
    let differences = differences(&files(&built)?, &files(&committed())?);
    for difference in &differences {
        context.log.line(difference);
    }
    Ok(tally.and(Tally::single(
        "crates/server/console-dist is what console/ builds (cargo xtask console builds it)",
        differences.is_empty(),
    )))
}

/// The pages in a browser.
pub fn pages(context: &mut Context<'_>) -> Result<Tally> {
    let mut command = Command::new("node");
    command
        .arg("test/run.mjs")
        .arg(context.isomer())
        .current_dir(folder());
    context.count(&mut command, 10, "browser")
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

/// Describes the differences between two folders.
fn differences(
    built: &BTreeMap<String, Vec<u8>>,
    committed: &BTreeMap<String, Vec<u8>>,
) -> Vec<String> {
    let names: std::collections::BTreeSet<_> = built.keys().chain(committed.keys()).collect();
    let describe = |name: &&String| match (built.get(*name), committed.get(*name)) {
        (Some(one), Some(two)) if one == two => None,
        (Some(_), Some(_)) => Some(format!(
            "{name}: the built file differs from the committed one"
        )),
        (Some(_), None) => Some(format!("{name}: built, not committed")),
        (None, _) => Some(format!("{name}: committed, but no longer built")),
    };
    names.iter().filter_map(describe).collect()
}

/// What `cargo xtask console` does besides building the files to commit.
#[derive(clap::Args)]
pub struct Options {
    /// Takes the screenshots in docs/images
    #[arg(long)]
    screenshots: bool,
    /// Measures how long the console takes to load, with the release build; builds nothing else
    #[arg(long, conflicts_with = "screenshots")]
    times: bool,
}

/// `cargo xtask console`.
pub fn run(options: &Options) -> Result<bool> {
    if let Err(missing) = Need::Npm("console").meet() {
        bail!("{}", missing.reason);
    }
    match options.times {
        true => times(),
        false => build(options.screenshots),
    }
}

/// Load times in a browser: a benchmark, because they depend on the machine and on its load.
fn times() -> Result<bool> {
    let mut cargo = workspace::cargo();
    let is_built = cargo.args(["build", "--release", "--locked"]).status()?;
    Ok(is_built.success()
        && Command::new("node")
            .arg("test/times.mjs")
            .arg(workspace::target_dir().join("release/isomer"))
            .current_dir(folder())
            .status()?
            .success())
}

fn build(screenshots: bool) -> Result<bool> {
    let built = vite(&committed()).status().context("npx does not start")?;
    if !built.success() {
        return Ok(false);
    }
    let bytes: u64 = files(&committed())?
        .values()
        .map(|file| file.len() as u64)
        .sum();
    if bytes > MAX_BYTES {
        bail!("the console has {bytes} bytes, the limit is {MAX_BYTES}");
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
    fn every_difference_is_reported() {
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
