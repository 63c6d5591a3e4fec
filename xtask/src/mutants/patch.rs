//! Patches that plant faults: read from unified diffs, and merged into one source text.
//!
//! Each patch is made against the source as it is, not against the other patches, so two patches may add lines at
//! neighbouring places. A hunk is found by its text alone: line numbers go out of date with each change of the file.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};

/// A deliberate fault of the product, as a patch describes it.
#[derive(Debug)]
pub struct Fault {
    /// Its name in the patched code, and the patch's path: `lsm/log_not_synced`.
    pub name: String,
    /// The test that must detect it.
    pub found_by: TestName,
    hunks: Vec<Hunk>,
}

/// A test: `simdisk power::cuts` or `isomer-data --lib merge::tests::laws`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TestName {
    /// `isomer-lsm`.
    pub package: String,
    /// See [`crate::build::TestProgram::is_target`].
    pub target: String,
    /// Its path in the program.
    pub path: String,
    /// Environment variables, such as a seed.
    pub environment: Vec<(String, String)>,
}

/// A part of a patch: neighbouring lines of one file.
#[derive(Debug)]
struct Hunk {
    /// Relative to the checkout.
    file: String,
    lines: Vec<(LineKind, String)>,
}

/// What a patch does with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineKind {
    Keep,
    Remove,
    Add,
}

/// The line of a patch's head that names the test.
const FOUND_BY: &str = "Found by: ";

impl Fault {
    /// Reads a patch: what the fault is, a line `Found by: PACKAGE TARGET TEST NAME=VALUE…`, and a
    /// unified diff.
    pub fn parse(name: &str, text: &str) -> Result<Self> {
        let found_by = text
            .lines()
            .find_map(|line| line.strip_prefix(FOUND_BY))
            .with_context(|| format!("it has no line `{FOUND_BY}PACKAGE TARGET TEST`"))?;
        let fault = Self {
            name: name.to_owned(),
            found_by: TestName::parse(found_by)?,
            hunks: parse_hunks(text)?,
        };
        // Without the condition, the fault would be active in the tests of all other faults.
        let condition = format!("is_active(\"{name}\")");
        ensure!(
            fault.added().any(|line| line.contains(&condition)),
            "no line that it adds asks `crate::fault::{condition}`"
        );
        Ok(fault)
    }

    /// The files that it changes.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.hunks.iter().map(|hunk| &*hunk.file)
    }

    fn added(&self) -> impl Iterator<Item = &str> {
        let lines = self.hunks.iter().flat_map(|hunk| &hunk.lines);
        lines
            .filter(|(mark, _)| *mark == LineKind::Add)
            .map(|(_, line)| &**line)
    }
}

impl TestName {
    fn parse(text: &str) -> Result<Self> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let [package, target, path, ref environment @ ..] = words[..] else {
            bail!("`{FOUND_BY}{text}` does not name a package, a target and a test");
        };
        let variable = |word: &&str| {
            let (name, value) = word.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        };
        let environment: Option<Vec<_>> = environment.iter().map(variable).collect();
        Ok(Self {
            package: package.to_owned(),
            target: target.to_owned(),
            path: path.to_owned(),
            environment: environment.context("words after a test are `NAME=VALUE`")?,
        })
    }
}

fn parse_hunks(text: &str) -> Result<Vec<Hunk>> {
    let mut hunks: Vec<Hunk> = Vec::new();
    let mut file = None;
    for line in text.lines() {
        if line.starts_with("--- ") {
            file = None;
        } else if let Some(path) = line.strip_prefix("+++ b/") {
            file = Some(path.to_owned());
        } else if let Some(file) = &file {
            if line.starts_with("@@") {
                hunks.push(Hunk {
                    file: file.clone(),
                    lines: Vec::new(),
                });
            } else {
                let hunk = hunks
                    .last_mut()
                    .filter(|hunk| hunk.file == *file)
                    .with_context(|| format!("`{line}` is in no hunk"))?;
                hunk.lines.push(parse_line(line)?);
            }
        }
    }
    ensure!(!hunks.is_empty(), "it changes nothing");
    Ok(hunks)
}

fn parse_line(line: &str) -> Result<(LineKind, String)> {
    let mark = match line.chars().next() {
        Some('+') => LineKind::Add,
        Some('-') => LineKind::Remove,
        // Editors remove the space of an empty line.
        Some(' ') | None => LineKind::Keep,
        Some(_) => bail!("`{line}` begins with neither `+` nor `-` nor a space"),
    };
    Ok((mark, line.get(1..).unwrap_or_default().to_owned()))
}

/// A source file while patches are merged into it.
pub struct Source<'a> {
    lines: Vec<&'a str>,
    /// The fault that removes a line.
    removed: BTreeMap<usize, &'a str>,
    /// Lines to insert in front of a line.
    inserted: BTreeMap<usize, Vec<&'a str>>,
}

impl<'a> Source<'a> {
    /// The file without any fault.
    pub fn new(text: &'a str) -> Self {
        Self {
            lines: text.lines().collect(),
            removed: BTreeMap::new(),
            inserted: BTreeMap::new(),
        }
    }

    /// Plants what a fault changes in the file named `file`.
    pub fn plant(&mut self, file: &str, fault: &'a Fault) -> Result<()> {
        for hunk in fault.hunks.iter().filter(|hunk| hunk.file == file) {
            let mut at = self.find(hunk)?;
            for (mark, line) in &hunk.lines {
                match mark {
                    LineKind::Keep => at += 1,
                    LineKind::Add => self.inserted.entry(at).or_default().push(line),
                    LineKind::Remove => {
                        if let Some(other) = self.removed.insert(at, &fault.name) {
                            bail!("it removes `{}`, as `{other}` does", line.trim());
                        }
                        at += 1;
                    }
                }
            }
        }
        Ok(())
    }

    /// The line at which a hunk begins.
    fn find(&self, hunk: &Hunk) -> Result<usize> {
        let old: Vec<&str> = hunk
            .lines
            .iter()
            .filter(|(mark, _)| *mark != LineKind::Add)
            .map(|(_, line)| &**line)
            .collect();
        ensure!(!old.is_empty(), "a hunk has no line of the file");
        let mut places = (0..self.lines.len()).filter(|at| self.lines[*at..].starts_with(&old));
        let first = places.next().with_context(|| {
            let start = old.iter().find(|line| !line.trim().is_empty());
            let start = start.map_or("", |line| line.trim());
            format!("{} has no longer the lines from `{start}` on", hunk.file)
        })?;
        match places.count() {
            0 => Ok(first),
            more => bail!("{} has the lines of a hunk {} times", hunk.file, more + 1),
        }
    }

    /// The file with all faults.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for at in 0..=self.lines.len() {
            let inserted = self.inserted.get(&at).into_iter().flatten().copied();
            let kept = self.lines.get(at).copied();
            let kept = kept.filter(|_| !self.removed.contains_key(&at));
            for line in inserted.chain(kept) {
                text.push_str(line);
                text.push('\n');
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "fn sync() {\n    file.sync()\n}\n\nfn close() {\n    drop(file)\n}\n";

    fn patch(name: &str, body: &str) -> Result<Fault> {
        let head = "It is not synced.\nFound by: isomer-lsm --lib tests::sync SEED=9\n\n";
        let files = "--- a/src/lib.rs\n+++ b/src/lib.rs\n@@ -1,3 +1,4 @@\n";
        Fault::parse(name, &format!("{head}{files}{body}"))
    }

    #[test]
    fn faults_at_neighbouring_lines_are_merged() {
        let skip = " fn sync() {\n+    is_active(\"skip\");\n     file.sync()\n";
        let twice = "-    file.sync()\n+    is_active(\"twice\");\n }\n\n fn close() {\n";
        let (skip, twice) = (patch("skip", skip).unwrap(), patch("twice", twice).unwrap());
        let mut source = Source::new(SOURCE);
        source.plant("src/lib.rs", &skip).unwrap();
        source.plant("src/lib.rs", &twice).unwrap();
        source.plant("src/main.rs", &twice).unwrap();
        let both = "fn sync() {\n    is_active(\"skip\");\n    is_active(\"twice\");\n}\n";
        assert_eq!(
            source.text(),
            SOURCE.replacen("fn sync() {\n    file.sync()\n}\n", both, 1)
        );
        assert_eq!(skip.found_by.path, "tests::sync");
        let seed = ("SEED".to_owned(), "9".to_owned());
        assert_eq!(skip.found_by.environment, [seed]);
    }

    #[test]
    fn a_patch_that_does_not_apply_says_why() {
        let plant = |body: &str| {
            let fault = patch("x", body)?;
            Source::new(SOURCE).plant("src/lib.rs", &fault)
        };
        let message = |body: &str| plant(body).unwrap_err().to_string();
        assert_eq!(
            message("     file.sync_all()\n+is_active(\"x\")\n"),
            "src/lib.rs has no longer the lines from `file.sync_all()` on"
        );
        assert_eq!(
            message(" }\n+is_active(\"x\")\n"),
            "src/lib.rs has the lines of a hunk 2 times"
        );
        assert_eq!(
            message(" fn sync() {\n+    return;\n"),
            "no line that it adds asks `crate::fault::is_active(\"x\")`"
        );
    }

    #[test]
    fn two_faults_cannot_remove_one_line() {
        let body = |name| format!("-    file.sync()\n+is_active(\"{name}\")\n");
        let (one, two) = (
            patch("a", &body("a")).unwrap(),
            patch("b", &body("b")).unwrap(),
        );
        let mut source = Source::new(SOURCE);
        source.plant("src/lib.rs", &one).unwrap();
        let refused = source.plant("src/lib.rs", &two).unwrap_err();
        assert_eq!(refused.to_string(), "it removes `file.sync()`, as `a` does");
    }
}
