//! Runs the commands of the README as a reader would.
//!
//! A fenced block opened by ```` ```sh run ```` is one script: run by bash in an empty folder that resembles
//! a fresh checkout, with the shared data next to it and the release binary on the path.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};

use crate::{context::Context, host, tally::Tally, workspace};

const FENCE: &str = "```";

/// Runs every block; each is one test.
pub fn suite(context: &mut Context<'_>) -> Result<Tally> {
    let mut tally = Tally::default();
    let text = fs::read_to_string(workspace::root().join("README.md")).context("README.md")?;
    for (line, script) in blocks(&text) {
        let name = format!("README.md:{line}");
        let place = Scratch::new(line)?;
        let mut command = Command::new("bash");
        command
            .args(["-euo", "pipefail", "-c", &script])
            .current_dir(place.folder());
        if script.contains("cargo ") {
            command.current_dir(workspace::root());
        }
        workspace::without_package(&mut command);
        command.env("PATH", path_with(&workspace::target_dir().join("release"))?);
        tally = tally.and(context.check(&mut command, 20, &name)?);
    }
    Ok(tally)
}

/// Line numbers (from 1) and texts of the blocks to run.
fn blocks(text: &str) -> Vec<(usize, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(usize, String)> = None;
    for (at, line) in text.lines().enumerate() {
        match &mut open {
            Some(_) if line.trim() == FENCE => blocks.extend(open.take()),
            Some((_, script)) => {
                script.push_str(line);
                script.push('\n');
            }
            None if line.trim() == format!("{FENCE}sh run") => open = Some((at + 1, String::new())),
            None => {}
        }
    }
    blocks
}

fn path_with(folder: &Path) -> Result<std::ffi::OsString> {
    let old = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(folder.to_path_buf()).chain(std::env::split_paths(&old));
    std::env::join_paths(all).context("PATH")
}

/// `TEMP/repository` as the working folder and `TEMP/shared` next to it; removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new(line: usize) -> Result<Self> {
        let base =
            std::env::temp_dir().join(format!("isomer-readme-{}-{line}", std::process::id()));
        fs::create_dir_all(base.join("repository"))?;
        let shared = workspace::shared_dir();
        if shared.is_dir() {
            host::link_folder(&shared.canonicalize()?, &base.join("shared"))?;
        }
        Ok(Self(base))
    }

    fn folder(&self) -> PathBuf {
        self.0.join("repository")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_marked_blocks_run() {
        let text = "a\n```sh\nno\n```\n```sh run\necho one\necho two\n```\n```text\nsh run\n```\n";
        assert_eq!(blocks(text), [(5, "echo one\necho two\n".to_owned())]);
    }
}
