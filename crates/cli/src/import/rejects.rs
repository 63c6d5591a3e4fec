//! Bad rows: written to a file with line and reason, counted; too many of them stop the import.

use std::{
    fs::{self, File},
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::record::RowError;

/// The file for bad rows.
pub struct Rejects {
    source: String,
    max: u64,
    path: Option<PathBuf>,
    file: Option<BufWriter<File>>,
    count: u64,
    /// The line of the last bad row, and whether the rows are in order so far.
    last_line: u64,
    ordered: bool,
}

impl Rejects {
    /// Accepts up to `max` bad rows of `source`, written to the file at `path`, which is created with the first of
    /// them.
    pub fn new(source: String, max: u64, path: Option<PathBuf>) -> Self {
        Self {
            source,
            max,
            path,
            file: None,
            count: 0,
            last_line: 0,
            ordered: true,
        }
    }

    /// Number of bad rows so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The file, if there is one.
    pub fn path(&self) -> Option<&PathBuf> {
        self.path.as_ref().filter(|_| self.file.is_some())
    }

    /// Records a bad row, or stops the import if there are too many.
    ///
    /// A line of the file: `{"line": 7, "reason": "…", "row": "…"}`.
    pub fn push(&mut self, row: RowError) -> Result<()> {
        self.count += 1;
        self.ordered &= self.last_line <= row.line;
        self.last_line = row.line;
        self.write(&row)?;
        if self.count <= self.max {
            return Ok(());
        }
        self.finish()?;
        let first = format!("{}, line {}: {}", self.source, row.line, row.reason);
        if self.max == 0 {
            bail!(
                "{first}\nnothing was imported; to skip bad rows, set their maximum number with --max-rejects"
            );
        }
        bail!(
            "{first}\nbad row number {}, and --max-rejects is {}; nothing was imported",
            self.count,
            self.max
        )
    }

    /// Completes the file; its lines are in the order of the rows. (Errors of a row by itself are found earlier than
    /// conflicts between rows, which another thread detects.)
    pub fn finish(&mut self) -> Result<()> {
        let (Some(file), Some(path)) = (&mut self.file, &self.path) else {
            return Ok(());
        };
        let context = || format!("cannot write {}", path.display());
        file.flush().with_context(context)?;
        if !self.ordered {
            *file = BufWriter::new(sort_lines(path).with_context(context)?);
            self.ordered = true;
        }
        Ok(())
    }

    fn write(&mut self, row: &RowError) -> Result<()> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        let context = || format!("cannot write {}", path.display());
        if self.file.is_none() {
            self.file = Some(BufWriter::new(File::create(path).with_context(context)?));
        }
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        writeln!(
            file,
            "{}",
            json!({ "line": row.line, "reason": row.reason, "row": row.text })
        )
        .with_context(context)
    }
}

/// Rewrites a file of rejects, sorted by line.
fn sort_lines(path: &Path) -> Result<File> {
    let text = fs::read_to_string(path)?;
    let mut lines: Vec<(u64, &str)> = Vec::new();
    for line in text.lines() {
        let row: serde_json::Value = serde_json::from_str(line)?;
        lines.push((row["line"].as_u64().unwrap_or_default(), line));
    }
    lines.sort_by_key(|(number, _)| *number);
    let mut file = File::create(path)?;
    for (_, line) in lines {
        writeln!(file, "{line}")?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(line: u64) -> RowError {
        RowError {
            line,
            reason: "it is bad".into(),
            text: "1,2".into(),
        }
    }

    #[test]
    fn the_first_bad_row_stops_by_default() {
        let mut rejects = Rejects::new("t.csv".into(), 0, None);
        let message = rejects
            .push(row(7))
            .expect_err("one is too many")
            .to_string();
        assert!(
            message.starts_with("t.csv, line 7: it is bad")
                && message.contains("nothing was imported"),
            "{message}"
        );
    }

    #[test]
    fn bad_rows_up_to_the_limit_are_written_with_line_and_reason() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("bad.jsonl");
        let mut rejects = Rejects::new("t.csv".into(), 2, Some(path.clone()));
        assert!(rejects.push(row(3)).is_ok() && rejects.push(row(5)).is_ok());
        assert!(rejects.push(row(9)).is_err());
        let text = std::fs::read_to_string(path).expect("the file");
        let lines: Vec<serde_json::Value> = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(
            (&lines[1]["line"], &lines[1]["reason"], &lines[1]["row"]),
            (&5.into(), &"it is bad".into(), &"1,2".into())
        );
    }
    /// A row that is refused late is inserted at its line.
    #[test]
    fn rows_are_written_in_the_order_of_their_lines() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("bad.jsonl");
        let mut rejects = Rejects::new("t.csv".into(), 9, Some(path.clone()));
        for line in [3, 6, 5, 12, 7] {
            rejects.push(row(line)).expect("few enough");
        }
        rejects.finish().expect("a file");
        let text = std::fs::read_to_string(path).expect("the file");
        let lines: Vec<u64> = text
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"))
            .map(|row| row["line"].as_u64().expect("a number"))
            .collect();
        assert_eq!(lines, [3, 5, 6, 7, 12]);
    }
}
