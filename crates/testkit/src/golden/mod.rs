//! Golden scripts: commands of named sessions and their output, compared with the expected output in the
//! file.
//!
//! `tests/golden/README.md` describes the format. This module reads and rewrites scripts; the [`World`]
//! interprets the commands.

mod buckets;
mod database;
mod script;

use std::{fs, path::Path};

use anyhow::{Context, Result, bail};

pub use database::DatabaseWorld;
pub use script::{Block, Command, Script};

/// The system that a script runs against: a new one for each script.
pub trait World {
    /// Runs one command of one session and returns its output, possibly empty. Errors of the database are
    /// part of the output; an error returned here means that the script itself is invalid.
    fn run(&mut self, session: &str, command: &str) -> Result<String>;

    /// What an output promises in this world: two outputs of a block are compared by it.
    fn promised(&self, output: &str) -> String {
        output.to_owned()
    }
}

/// Runs the script in `path` against `world`; with `update`, writes the actual output into the file.
///
/// The error shows the first block with a different output, with both texts.
pub fn run(path: &Path, world: &mut dyn World, update: bool) -> Result<()> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let mut script = Script::parse(&text).with_context(|| path.display().to_string())?;
    let mut mismatch = None;
    for block in &mut script.blocks {
        let printed = run_block(block, world)
            .with_context(|| format!("{}:{}", path.display(), block.line))?;
        if world.promised(&printed) != world.promised(&block.expected) {
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
        Some(message) => bail!("{message}\nUPDATE_GOLDEN=1 writes what was printed into the file"),
        None => Ok(()),
    }
}

/// The output of all commands of a block, each line prefixed with its session if sessions have names.
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
            // An empty line ends the expected output, so an empty line in the actual output is written as a
            // dot.
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
    let mut message = String::new();
    let (expected, printed): (Vec<&str>, Vec<&str>) =
        (expected.lines().collect(), printed.lines().collect());
    let same = expected
        .iter()
        .zip(&printed)
        .take_while(|(a, b)| a == b)
        .count();
    for line in &expected[..same] {
        message.push_str(&format!("    {line}\n"));
    }
    for line in &expected[same..] {
        message.push_str(&format!("  - {line}\n"));
    }
    for line in &printed[same..] {
        message.push_str(&format!("  + {line}\n"));
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Echoes, and fails on request.
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
    fn printed_output_is_compared() {
        let good = "# Echoes.\na> one\na> silent\n---\na: one\na: .\na: end\n";
        assert!(in_file(good, false).0.is_ok());
        let (ran, after) = in_file(&good.replace("a: end", "a: start"), false);
        let message = ran.expect_err("the output differs").to_string();
        assert!(
            message.contains("- a: start") && message.contains("+ a: end"),
            "{message}"
        );
        assert!(
            after.contains("a: start"),
            "without UPDATE_GOLDEN the file stays"
        );
    }

    #[test]
    fn updating_rewrites_expected_output_only() {
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
        let message = format!("{:#}", ran.expect_err("there is no such command"));
        assert!(
            message.contains("line 2") && message.contains("no such command"),
            "{message}"
        );
    }
}
