//! Golden scripts: commands of named sessions and what they print, compared with what stands in the file.
//!
//! The format is described in `tests/golden/README.md`. This module reads and rewrites scripts; what a command does is up
//! to the [`World`] that runs it.

mod buckets;
mod database;
mod script;

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};

pub use database::DatabaseWorld;
pub use script::{Block, Command, Script};

/// What scripts run against: a fresh one for each script.
pub trait World {
    /// Runs one command of one session and returns what it prints, possibly nothing. Errors of the database are part of
    /// that; an error here means that the script itself is wrong.
    fn run(&mut self, session: &str, command: &str) -> Result<String>;
}

/// Runs the script in `path` against `world`; with `update`, writes what was printed into the file.
///
/// An error tells the first block that printed something else, with both texts.
pub fn run(path: &Path, world: &mut dyn World, update: bool) -> Result<()> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let mut script = Script::parse(&text).with_context(|| path.display().to_string())?;
    let mut mismatch = None;
    for block in &mut script.blocks {
        let printed = run_block(block, world)
            .with_context(|| format!("{}:{}", path.display(), block.line))?;
        if printed != block.expected {
            if mismatch.is_none() {
                mismatch = Some(format!(
                    "{}:{}\n{}",
                    path.display(),
                    block.line,
                    difference(&block.expected, &printed)
                ));
            }
            block.expected = printed;
        }
    }
    match mismatch {
        Some(_) if update => {
            fs::write(path, script.to_string()).with_context(|| path.display().to_string())
        }
        Some(told) => bail!("{told}\nUPDATE_GOLDEN=1 writes what was printed into the file"),
        None => Ok(()),
    }
}

/// What all commands of a block print, each line with its session's name where sessions have names.
fn run_block(block: &Block, world: &mut dyn World) -> Result<String> {
    let mut printed = String::new();
    for command in &block.commands {
        let output = world
            .run(&command.session, &command.text)
            .with_context(|| format!("line {}: {}", command.line, command.text))?;
        for line in output.lines() {
            if !command.session.is_empty() {
                printed.push_str(&command.session);
                printed.push_str(": ");
            }
            // An empty line ends what is expected, so one that is printed shows as a dot.
            printed.push_str(if line.trim().is_empty() {
                "."
            } else {
                line.trim_end()
            });
            printed.push('\n');
        }
    }
    Ok(printed)
}

fn difference(expected: &str, printed: &str) -> String {
    let mut told = String::new();
    let (expected, printed): (Vec<&str>, Vec<&str>) =
        (expected.lines().collect(), printed.lines().collect());
    let same = expected
        .iter()
        .zip(&printed)
        .take_while(|(a, b)| a == b)
        .count();
    for line in &expected[..same] {
        told.push_str(&format!("    {line}\n"));
    }
    for line in &expected[same..] {
        told.push_str(&format!("  - {line}\n"));
    }
    for line in &printed[same..] {
        told.push_str(&format!("  + {line}\n"));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Echoes, and fails where it is told to.
    struct Echo;

    impl World for Echo {
        fn run(&mut self, _: &str, command: &str) -> Result<String> {
            match command {
                "nonsense" => bail!("no such command"),
                "silent" => Ok(String::new()),
                other => Ok(format!("{other}\n\nend  ")),
            }
        }
    }

    fn in_file(text: &str, update: bool) -> (Result<()>, String) {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let path = folder.path().join("one.test");
        fs::write(&path, text).expect("the file can be written");
        let ran = run(&path, &mut Echo, update);
        (
            ran,
            fs::read_to_string(&path).expect("the file is still there"),
        )
    }

    #[test]
    fn what_is_printed_is_compared() {
        let good = "# Echoes.\na> one\na> silent\n---\na: one\na: .\na: end\n";
        assert!(in_file(good, false).0.is_ok());
        let (ran, after) = in_file(&good.replace("a: end", "a: start"), false);
        let told = ran.expect_err("the output differs").to_string();
        assert!(
            told.contains("- a: start") && told.contains("+ a: end"),
            "{told}"
        );
        assert!(
            after.contains("a: start"),
            "without UPDATE_GOLDEN the file stays"
        );
    }

    #[test]
    fn updating_rewrites_only_what_is_expected() {
        let (ran, after) = in_file(
            "# Echoes.\n\n> one\n---\n\n# Again.\nb> two\n---\nb: old\n",
            true,
        );
        assert!(ran.is_ok());
        assert_eq!(
            after,
            "# Echoes.\n\n> one\n---\none\n.\nend\n\n# Again.\nb> two\n---\nb: two\nb: .\nb: end\n"
        );
    }

    #[test]
    fn a_wrong_command_names_its_line() {
        let (ran, _) = in_file("# Wrong.\n> nonsense\n---\n", true);
        let told = format!("{:#}", ran.expect_err("there is no such command"));
        assert!(
            told.contains("line 2") && told.contains("no such command"),
            "{told}"
        );
    }
}
