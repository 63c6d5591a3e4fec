//! Bad rows: written to a file with line and reason, counted, and too many of them stop the import.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::PathBuf,
};

use anyhow::{Context, Result, bail};
use serde_json::json;

use super::record::RowError;

/// Where bad rows go.
pub struct Rejects {
    source: String,
    max: u64,
    path: Option<PathBuf>,
    file: Option<BufWriter<File>>,
    count: u64,
}

impl Rejects {
    /// Up to `max` bad rows of `source` go to the file at `path`, which is made with the first of them.
    pub fn new(source: String, max: u64, path: Option<PathBuf>) -> Self {
        Self {
            source,
            max,
            path,
            file: None,
            count: 0,
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

    /// Keeps a bad row, or stops the import where there are too many.
    ///
    /// A line of the file: `{"line": 7, "reason": "…", "row": "…"}`.
    pub fn push(&mut self, row: RowError) -> Result<()> {
        self.count += 1;
        self.write(&row)?;
        if self.count <= self.max {
            return Ok(());
        }
        self.finish()?;
        let first = format!("{}, line {}: {}", self.source, row.line, row.reason);
        if self.max == 0 {
            bail!(
                "{first}\nnothing was imported; to go on past bad rows, say how many with --max-rejects"
            );
        }
        bail!(
            "{first}\nthat was bad row {} and --max-rejects is {}; nothing was imported",
            self.count,
            self.max
        )
    }

    /// Completes the file.
    pub fn finish(&mut self) -> Result<()> {
        match (&mut self.file, &self.path) {
            (Some(file), Some(path)) => file
                .flush()
                .with_context(|| format!("{} cannot be written", path.display())),
            _ => Ok(()),
        }
    }

    fn write(&mut self, row: &RowError) -> Result<()> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        let context = || format!("{} cannot be written", path.display());
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
}
