//! What is published: every crate packs with its licence, and the public ones build with each of their features. The
//! documentation has no warnings.

use std::{collections::BTreeSet, process::Command};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::{
    context::Context,
    needs::{Missing, quietly},
    tally::Tally,
    workspace,
};

/// The crates whose interface users see.
const PUBLIC: [&str; 2] = ["isomer-db", "isomerdb"];

/// What each published crate contains.
const PACKED: [&str; 2] = ["LICENSE", "README.md"];

/// Most crates below `isomerdb` without features, those of this project included.
const MAX_DEPENDENCIES: usize = 45;

/// Packs all crates that are published, without compiling them again.
pub fn suite(context: &mut Context<'_>) -> Result<Tally> {
    let metadata = workspace::metadata(false)?;
    let names = published(&metadata)?;
    let mut pack = pack(&names);
    pack.arg("--no-verify");
    let packed = context.check(&mut pack, 10, "cargo package")?;
    let packed = packed.and(files(context, &names)?);
    let packed = packed.and(features(context, &metadata)?);
    let documented = document(
        context,
        &selected(&PUBLIC),
        "cargo doc of the public crates",
    )?;
    let packed = packed.and(documented);
    Ok(packed.and(dependencies(context)?))
}

/// Packs all crates that are published, and builds each from what was packed.
pub fn verify(context: &mut Context<'_>) -> Result<Tally> {
    let names = published(&workspace::metadata(false)?)?;
    context.check(&mut pack(&names), 40, "cargo package with verification")
}

/// Builds the documentation of the whole workspace with private items, whose links lead through the code.
pub fn documentation(context: &mut Context<'_>) -> Result<Tally> {
    let crates = ["--workspace", "--document-private-items"];
    document(context, &crates, "cargo doc with private items")
}

/// Builds documentation; a warning is a failure.
fn document(context: &mut Context<'_>, crates: &[&str], name: &str) -> Result<Tally> {
    let mut doc = workspace::cargo();
    doc.args(["doc", "--no-deps", "--locked", "--all-features"]);
    doc.args(crates).env("RUSTDOCFLAGS", "-Dwarnings");
    context.check(&mut doc, 20, name)
}

/// `cargo package` for these crates.
fn pack(names: &[String]) -> Command {
    let mut pack = workspace::cargo();
    pack.args(["package", "--allow-dirty", "--offline", "--quiet"]);
    pack.args(selected(names));
    pack
}

/// Lists what is packed: each crate contains the licence and a README.
fn files(context: &mut Context<'_>, names: &[String]) -> Result<Tally> {
    let mut tally = Tally::default();
    for name in names {
        let mut list = workspace::cargo();
        list.args(["package", "--list", "--allow-dirty", "--offline"]);
        list.args(selected(&[name]));
        let output = list.output().context("cargo package --list")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let packed: BTreeSet<&str> = text.lines().collect();
        let missing = PACKED.into_iter().find(|file| !packed.contains(file));
        if let Some(file) = missing {
            context.log.line(&format!("{name}: {file} is not packed"));
        }
        let test = format!("{name} contains {}", PACKED.join(" and "));
        tally = tally.and(Tally::single(&test, missing.is_none()));
    }
    Ok(tally)
}

/// Checks the public crates without features, and with each one alone.
fn features(context: &mut Context<'_>, metadata: &Value) -> Result<Tally> {
    let mut tally = Tally::default();
    let packages = metadata["packages"].as_array().context("packages")?;
    for name in PUBLIC {
        let package = packages.iter().find(|package| package["name"] == name);
        let features = package.and_then(|package| package["features"].as_object());
        let features = features.with_context(|| format!("the features of {name}"))?;
        let each = features.keys().filter(|feature| *feature != "default");
        for feature in each.map(Some).chain([None]) {
            let mut check = workspace::cargo();
            check.args(["check", "--locked", "--no-default-features"]);
            check.args(selected(&[name]));
            if let Some(feature) = feature {
                check.args(["--features", feature.as_str()]);
            }
            let with = feature.map_or("without features".to_owned(), |feature| {
                format!("with `{feature}` alone")
            });
            tally = tally.and(context.check(&mut check, 20, &format!("{name} {with}"))?);
        }
    }
    Ok(tally)
}

/// Counts the crates that a program gets with `isomerdb` without features.
fn dependencies(context: &mut Context<'_>) -> Result<Tally> {
    let mut tree = workspace::cargo();
    tree.args(["tree", "--locked", "--no-default-features", "--edges"]);
    tree.args(["normal", "--prefix", "none"]);
    tree.args(selected(&["isomerdb"]));
    let output = tree.output().context("cargo tree")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let names = text
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    // The first one is `isomerdb`.
    let count = names.collect::<BTreeSet<_>>().len().saturating_sub(1);
    context.log.line(&format!("{count} crates below isomerdb"));
    let is_small = (1..=MAX_DEPENDENCIES).contains(&count);
    Ok(Tally::single(
        "isomerdb without features has few dependencies",
        is_small,
    ))
}

/// Compares the public interface with that of the last released version. The tool is installed where it is missing.
pub fn semver(context: &mut Context<'_>) -> Result<Tally> {
    let mut describe = Command::new("git");
    describe.current_dir(workspace::root());
    describe.args(["describe", "--tags", "--abbrev=0", "--match", "v*"]);
    let tag = describe.output().context("git describe")?;
    if !tag.status.success() {
        return Ok(skipped("no version was released: there is no tag v*"));
    }
    let tag = String::from_utf8_lossy(&tag.stdout).trim().to_owned();
    if !has_semver_checks() {
        let mut install = workspace::cargo();
        install.args(["install", "--locked", "cargo-semver-checks"]);
        context.run(&mut install, 30, &mut |_, _| true)?;
    }
    if !has_semver_checks() {
        return Ok(skipped(
            "`cargo semver-checks` is not installed: cargo install cargo-semver-checks",
        ));
    }
    let mut check = workspace::cargo();
    check.args(["semver-checks", "--baseline-rev", &tag]);
    check.args(selected(&PUBLIC));
    context.check(&mut check, 30, "cargo semver-checks")
}

fn has_semver_checks() -> bool {
    quietly(workspace::cargo().args(["semver-checks", "--version"]))
}

fn skipped(reason: &str) -> Tally {
    let mut tally = Tally::default();
    tally
        .skips
        .push(("semver-checks".to_owned(), Missing::tolerated(reason)));
    tally
}

/// Names of the packages without `publish = false`.
fn published(metadata: &Value) -> Result<Vec<String>> {
    let packages = metadata["packages"].as_array().context("packages")?;
    let published = packages
        .iter()
        .filter(|package| package["publish"].is_null());
    Ok(published
        .filter_map(|package| package["name"].as_str().map(str::to_owned))
        .collect())
}

/// `--package NAME` for each.
fn selected<N: AsRef<str>>(names: &[N]) -> Vec<&str> {
    let names = names.iter().map(AsRef::as_ref);
    names.flat_map(|name| ["--package", name]).collect()
}
