//! The programs in `crates/isomerdb/examples`: each prints what the comment at its end says.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};

use crate::{build::FEATURES, context::Context, process::Stream, tally::Tally, workspace};

/// The line before the expected output.
const PRINTS: &str = "// Prints:";

/// Builds the programs with the features of the tests, whose libraries they share, and runs them.
pub fn suite(context: &mut Context<'_>) -> Result<Tally> {
    let folder = workspace::root().join("crates/isomerdb/examples");
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).context("crates/isomerdb/examples")? {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str());
        names.extend(name.map(str::to_owned));
    }
    names.sort();
    let mut build = workspace::cargo();
    build.args(["build", "--workspace", "--locked", "--features", FEATURES]);
    for name in &names {
        build.args(["--example", name]);
    }
    let mut tally = context.check(&mut build, 20, "build")?;
    if tally.failed > 0 {
        return Ok(tally);
    }
    for name in names {
        let expected = expected(&folder.join(format!("{name}.rs")))?;
        let mut program =
            std::process::Command::new(workspace::target_dir().join("debug/examples").join(&name));
        let mut printed = Vec::new();
        let succeeded = context.run(&mut program, 2, &mut |stream, line| {
            if stream == Stream::Out {
                printed.push(line.trim_end().to_owned());
            }
            true
        })?;
        if printed != expected {
            let lines = expected.join("\n");
            context
                .log
                .line(&format!("{name} should have printed:\n{lines}"));
        }
        tally = tally.and(Tally::single(&name, succeeded && printed == expected));
    }
    Ok(tally)
}

/// The lines of the comment at a program's end.
fn expected(path: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let (_, lines) = text
        .split_once(PRINTS)
        .with_context(|| format!("{} does not end with `{PRINTS}`", path.display()))?;
    let lines = lines
        .lines()
        .skip(1)
        .filter_map(|line| line.strip_prefix("//"));
    let lines = lines.map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end().to_owned());
    Ok(lines.skip_while(String::is_empty).collect())
}
