//! Locations: the checkout, the build folder, the shared data next to it, the tracked files.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The checkout: that of the running cargo, because checkouts that share a build folder share this program
/// too.
pub fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let here = here.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    here.parent()
        .expect("xtask lies one level below the checkout")
        .to_path_buf()
}

/// The running `cargo`.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    without_package(&mut command);
    command
}

/// Removes what `cargo run` says of its package from the environment of a command: a nested cargo would rebuild the
/// packages whose build scripts depend on it.
pub fn without_package(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_")
            || text.starts_with("CARGO_MANIFEST_")
            || text == "CARGO_BIN_NAME"
        {
            command.env_remove(&name);
        }
    }
}

/// Cargo's build folder.
pub fn target_dir() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(dir) => root().join(dir),
        None => root().join("target"),
    }
}

/// The number of processor cores.
pub fn core_count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Data next to the checkout that is not part of the project: features of the TCK, real data sets.
pub fn shared_dir() -> PathBuf {
    match std::env::var_os("ISOMER_SHARED") {
        Some(dir) => root().join(dir),
        None => root().parent().unwrap_or(Path::new("/")).join("shared"),
    }
}

/// Every file under version control (and every new one that is not ignored), relative to the checkout.
pub fn tracked_files() -> Result<Vec<PathBuf>> {
    let listed = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root())
        .output()
        .context("git is needed to list the project's files: install it and run again")?;
    if !listed.status.success() {
        bail!(
            "git ls-files: {}",
            String::from_utf8_lossy(&listed.stderr).trim()
        );
    }
    let text = String::from_utf8(listed.stdout).context("a tracked file's name is not UTF-8")?;
    Ok(text
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(PathBuf::from)
        .filter(|file| root().join(file).is_file())
        .collect())
}

/// `cargo metadata`; with all dependencies of this platform, or only the members of the workspace.
pub fn metadata(with_dependencies: bool) -> Result<Value> {
    let mut command = cargo();
    command.args(["metadata", "--format-version", "1", "--locked"]);
    if with_dependencies {
        command.args(["--filter-platform", &host_triple()?]);
    } else {
        command.arg("--no-deps");
    }
    let output = command.output().context("cargo metadata does not start")?;
    if !output.status.success() {
        bail!(
            "cargo metadata: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    serde_json::from_slice(&output.stdout).context("cargo metadata printed no JSON")
}

/// The target of programs that run on this machine, `x86_64-unknown-linux-gnu`.
pub fn host_triple() -> Result<String> {
    let output = Command::new("rustc")
        .arg("-vV")
        .output()
        .context("rustc does not start")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc -vV prints no host")
}
