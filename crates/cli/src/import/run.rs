//! The loop that all imports share: read, write, count, reject, finish.

use std::time::Duration;

use anyhow::Result;

use super::{
    input::InputOptions,
    progress::Progress,
    record::{ReadError, Record, RecordReader, RowError},
    rejects::Rejects,
    sink::{Refusal, Sink},
    source::Source,
};
use crate::style::{count, counted, duration, rate};

/// One row on its way into the database.
pub struct Row<'r> {
    /// What it holds; the writer may take it apart.
    pub record: &'r mut Record,
}

/// What an import did.
#[derive(Clone, Debug)]
pub struct Counted {
    /// What was made: `node`, `relationship`.
    pub noun: &'static str,
    /// How many were made.
    pub made: u64,
    /// Rows that were read.
    pub rows: u64,
    /// Rows that were refused.
    pub rejected: u64,
    /// Where these are.
    pub rejects_path: Option<std::path::PathBuf>,
    /// From the first byte to the commit.
    pub time: Duration,
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// Things worth telling.
    pub remarks: Vec<String>,
}

impl Counted {
    /// The summary for people.
    pub fn summary(&self) -> String {
        let verb = if self.dry_run {
            "would import"
        } else {
            "imported"
        };
        let speed = format!(
            "{} rows in {}, {} rows/s",
            count(self.rows),
            duration(self.time),
            rate(self.rows, self.time)
        );
        let mut text = format!("{verb} {} ({speed})", counted(self.made, self.noun));
        if self.rejected > 0 {
            text += &format!("\n{} refused", counted(self.rejected, "row"));
            if let Some(path) = &self.rejects_path {
                text += &format!(": see {}", path.display());
            }
        }
        for remark in &self.remarks {
            text += &format!("\n{remark}");
        }
        text
    }
}

/// Reads every record and hands it to `write`, which answers how many things it made of it.
pub fn run(
    source: Source,
    mut reader: Box<dyn RecordReader>,
    mut sink: Sink,
    options: &InputOptions,
    noun: &'static str,
    mut write: impl FnMut(&mut Sink, Row<'_>) -> Result<u64, Refusal>,
) -> Result<Counted> {
    let mut rejects = Rejects::new(
        source.name.clone(),
        options.max_rejects,
        options.rejects_path(),
    );
    let mut progress = Progress::new(&source, options.quiet);
    let mut made = 0;
    loop {
        let mut record = match reader.next_record() {
            Ok(None) => break,
            Ok(Some(record)) => record,
            Err(ReadError::Row(row)) => {
                progress.row();
                rejects.push(row)?;
                continue;
            }
            Err(ReadError::Fatal(error)) => return Err(error.context("nothing was imported")),
        };
        progress.row();
        let line = record.line;
        let mark = sink.mark();
        match write(
            &mut sink,
            Row {
                record: &mut record,
            },
        ) {
            Ok(count) => made += count,
            Err(Refusal::Row(reason)) => {
                sink.undo(mark)?;
                rejects.push(RowError {
                    line,
                    reason,
                    text: reader.last_text(),
                })?;
            }
            Err(Refusal::Fatal(error)) => {
                return Err(error.context(format!(
                    "{}, line {line}: nothing was imported",
                    source.name
                )));
            }
        }
    }
    rejects.finish()?;
    progress.stage("committing");
    if options.dry_run {
        sink.discard();
    } else {
        sink.finish()?;
    }
    let (rows, time) = progress.finish();
    Ok(Counted {
        noun,
        made,
        rows,
        rejected: rejects.count(),
        rejects_path: rejects.path().cloned(),
        time,
        dry_run: options.dry_run,
        remarks: reader.remarks(),
    })
}
