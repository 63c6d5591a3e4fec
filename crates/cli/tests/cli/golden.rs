//! The scripts in `tests/golden/program`: commands of the program and what it prints. `UPDATE_GOLDEN=1` writes the
//! output into the files; `tests/golden/README.md` describes the format.

use std::{fs, path::PathBuf};

use anyhow::{Context, Result, bail};
use isomer_testkit::golden::{World, run};

use crate::support::{Folder, text};

/// An empty folder in which the commands of one script run.
struct ProgramWorld(Folder);

impl World for ProgramWorld {
    fn run(&mut self, session: &str, command: &str) -> Result<String> {
        if !session.is_empty() {
            bail!("scripts of the program have no sessions");
        }
        let (first, rest) = command.split_once('\n').unwrap_or((command, ""));
        let arguments = arguments(first)?;
        let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let is_quiet = arguments.first() == Some(&"quietly");
        if is_quiet {
            arguments.remove(0);
        }
        match *arguments.first().context("a command")? {
            "file" => {
                let name = arguments.get(1).context("file NAME")?;
                self.0.write(name, format!("{rest}\n"));
                Ok(String::new())
            }
            "isomer" => {
                let input = match rest {
                    "" => String::new(),
                    lines => format!("{lines}\n"),
                };
                let output = self.0.run(&arguments[1..], input.as_bytes());
                if is_quiet && output.status.success() {
                    return Ok(String::new());
                }
                let mut printed = text(&output.stdout) + &text(&output.stderr);
                if output.status.code() != Some(0) {
                    printed += &format!("({})", output.status);
                }
                Ok(without_times(&self.without_folder(&printed)))
            }
            other => bail!("`file NAME` or `isomer ARGUMENTS`, not `{other}`"),
        }
    }
}

impl ProgramWorld {
    fn without_folder(&self, printed: &str) -> String {
        printed.replace(&self.0.root().display().to_string(), "FOLDER")
    }
}

/// Splits a command at blanks outside of double quotes, which have no escapes.
fn arguments(line: &str) -> Result<Vec<String>> {
    let (mut all, mut current, mut is_quoted) = (Vec::new(), None::<String>, false);
    for letter in line.chars() {
        match letter {
            '"' => {
                is_quoted = !is_quoted;
                current.get_or_insert_default();
            }
            ' ' if !is_quoted => all.extend(current.take()),
            letter => current.get_or_insert_default().push(letter),
        }
    }
    if is_quoted {
        bail!("a quote is not closed: {line}");
    }
    all.extend(current);
    Ok(all)
}

/// Times and rates differ from run to run, and their units with them: `in 41 ms:` becomes `in …:`.
fn without_times(printed: &str) -> String {
    printed
        .lines()
        .map(line_without_times)
        .collect::<Vec<_>>()
        .join("\n")
}

fn line_without_times(line: &str) -> String {
    const UNITS: [&str; 4] = ["ms", "s", "µs", "rows/s"];
    const SIGNS: [char; 3] = [',', ':', ')'];
    let mut shown: Vec<String> = Vec::new();
    let mut words = line.split(' ').peekable();
    while let Some(word) = words.next() {
        let number = word.trim_start_matches('(');
        let is_number = !number.is_empty()
            && number
                .chars()
                .all(|c| c.is_ascii_digit() || ".,".contains(c));
        let unit = words.next_if(|unit| is_number && UNITS.contains(&unit.trim_end_matches(SIGNS)));
        shown.push(match unit {
            None => word.to_owned(),
            Some(unit) => {
                let bracket = &word[..word.len() - number.len()];
                let sign = unit.trim_start_matches(|c| !SIGNS.contains(&c));
                format!("{bracket}…{sign}")
            }
        });
    }
    shown.join(" ")
}

#[test]
fn scripts_of_the_program_print_what_they_say() {
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/program");
    let files = fs::read_dir(&folder).expect("the scripts");
    let paths = files.map(|file| file.expect("the folder stays").path());
    let mut scripts: Vec<PathBuf> = paths
        .filter(|path| path.extension().is_some_and(|ending| ending == "test"))
        .collect();
    scripts.sort();
    let failures: Vec<String> = scripts
        .iter()
        .filter_map(|script| run(script, &mut ProgramWorld(Folder::new()), update).err())
        .map(|error| format!("{error:#}"))
        .collect();
    assert!(
        !scripts.is_empty() && failures.is_empty(),
        "{}",
        failures.join("\n\n")
    );
}

#[test]
fn output_does_not_contain_times() {
    assert_eq!(
        without_times("a: 3 statements in 41 ms: 171 nodes\n(0.3 s), 2 seconds"),
        "a: 3 statements in …: 171 nodes\n(…), 2 seconds"
    );
    assert_eq!(
        arguments("isomer query \"a b\" c").unwrap(),
        ["isomer", "query", "a b", "c"]
    );
    assert!(arguments("isomer \"").is_err());
}
