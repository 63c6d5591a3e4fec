//! The common part of all imports: records are read from a file, bad ones are set aside, progress is shown, and at the
//! end everything is imported or nothing.

use std::{
    cell::RefCell,
    collections::VecDeque,
    ops::ControlFlow,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Result, anyhow};
use isomer_db::internals::{
    LayerError as _,
    bulk::{BulkPhase, BulkWatch},
    data::DataError,
};

use super::{
    input::InputOptions,
    progress::Progress,
    record::{ReadError, Record, RecordReader, RowError},
    rejects::Rejects,
    source::Source,
};
use crate::style::{count, counted, duration, rate};

/// Records on their way into the database. The loader that consumes them also reports those it refuses, hence the cell.
pub struct Feed {
    inner: RefCell<Inner>,
    /// Checks everything and changes nothing.
    dry_run: bool,
    interrupted: Arc<AtomicBool>,
    source: String,
}

struct Inner {
    reader: Box<dyn RecordReader>,
    rejects: Rejects,
    progress: Progress,
    /// The error that ended the import, because the loader does not know it.
    failure: Option<anyhow::Error>,
    /// The file was read to its end.
    ended: bool,
}

/// The result of an import.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Kind and number of what was created.
    pub made: Vec<(&'static str, u64)>,
    rows: u64,
    rejected: u64,
    rejects_path: Option<PathBuf>,
    time: Duration,
    dry_run: bool,
    remarks: Vec<String>,
}

impl Summary {
    /// For display.
    pub fn text(&self) -> String {
        let verb = if self.dry_run {
            "would import"
        } else {
            "imported"
        };
        let made: Vec<String> = self
            .made
            .iter()
            .map(|(noun, number)| counted(*number, noun))
            .collect();
        let speed = format!(
            "{} in {}, {} rows/s",
            counted(self.rows, "row"),
            duration(self.time),
            rate(self.rows, self.time)
        );
        let mut text = format!("{verb} {} ({speed})", made.join(" and "));
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

impl Feed {
    /// Feeds the records of `reader` from `source`.
    pub fn new(source: &Source, reader: Box<dyn RecordReader>, options: &InputOptions) -> Self {
        let interrupted = Arc::new(AtomicBool::new(false));
        let on_interrupt = interrupted.clone();
        // Without a handler Ctrl-C ends the process, and nothing is imported either.
        let _ = ctrlc::set_handler(move || on_interrupt.store(true, Ordering::Relaxed));
        let inner = Inner {
            reader,
            rejects: Rejects::new(
                source.name.clone(),
                options.max_rejects,
                options.rejects_path(),
            ),
            progress: Progress::new(source, options.quiet),
            failure: None,
            ended: false,
        };
        Self {
            inner: RefCell::new(inner),
            dry_run: options.dry_run,
            interrupted,
            source: source.name.clone(),
        }
    }

    /// The next good record; `None` at the end, an error where the import is over.
    pub fn next(&self) -> Option<Result<Record, DataError>> {
        loop {
            if self.interrupted.load(Ordering::Relaxed) {
                return Some(Err(self.fail(anyhow!("interrupted: nothing was imported"))));
            }
            let mut inner = self.inner.borrow_mut();
            let next = inner.reader.next_record();
            if !matches!(next, Ok(None)) {
                inner.progress.row();
            }
            match next {
                Ok(Some(record)) => return Some(Ok(record)),
                Ok(None) => {
                    inner.ended = true;
                    // A load that ends with an error is rolled back.
                    return self.dry_run.then_some(Err(DataError::Cancelled));
                }
                Err(ReadError::Fatal(error)) => {
                    drop(inner);
                    return Some(Err(self.fail(error.context("nothing was imported"))));
                }
                Err(ReadError::Row(row)) => {
                    if let Err(error) = inner.rejects.push(row) {
                        drop(inner);
                        return Some(Err(self.fail(error)));
                    }
                }
            }
        }
    }

    /// Sets the current record aside. An error if there are too many.
    pub fn reject(&self, line: u64, reason: String) -> Result<(), DataError> {
        let mut inner = self.inner.borrow_mut();
        let text = inner.reader.last_text();
        let outcome = inner.rejects.push(RowError { line, reason, text });
        drop(inner);
        outcome.map_err(|error| self.fail(error))
    }

    /// The items that `convert` makes of every record, each with the record's line.
    pub fn items<'f, T: 'f>(
        &'f self,
        mut convert: impl FnMut(&mut Record, &mut VecDeque<T>) -> Result<(), String> + 'f,
    ) -> impl Iterator<Item = Result<T, DataError>> + 'f {
        let mut waiting = VecDeque::new();
        std::iter::from_fn(move || {
            loop {
                if let Some(item) = waiting.pop_front() {
                    return Some(Ok(item));
                }
                let mut record = match self.next()? {
                    Ok(record) => record,
                    Err(error) => return Some(Err(error)),
                };
                if let Err(reason) = convert(&mut record, &mut waiting) {
                    waiting.clear();
                    if let Err(error) = self.reject(record.line, reason) {
                        return Some(Err(error));
                    }
                }
            }
        })
    }

    /// Ends the import: `outcome` is the loader's result, the number created.
    pub fn finish(self, outcome: Result<Vec<(&'static str, u64)>, DataError>) -> Result<Summary> {
        let mut inner = self.inner.into_inner();
        let written = inner.rejects.finish();
        let (rows, time) = inner.progress.finish();
        let made = match (inner.failure, outcome) {
            (Some(failure), _) => return Err(failure),
            (None, Ok(made)) => made,
            // Only in a dry run, after everything was checked.
            (None, Err(DataError::Cancelled)) if self.dry_run && inner.ended => {
                vec![("row", rows - inner.rejects.count())]
            }
            (None, Err(error)) => {
                let unknown = error.kind() == isomer_db::ErrorKind::OutcomeUnknown;
                let error = anyhow::Error::from(error.lift());
                return Err(error.context(if unknown {
                    format!("{}: the import may or may not have happened", self.source)
                } else {
                    format!("{}: nothing was imported", self.source)
                }));
            }
        };
        written?;
        Ok(Summary {
            made,
            rows,
            rejected: inner.rejects.count(),
            rejects_path: inner.rejects.path().cloned(),
            time,
            dry_run: self.dry_run,
            remarks: inner.reader.remarks(),
        })
    }

    /// Shows the phase after the last row.
    pub fn stage(&self, what: &str) {
        self.inner.borrow().progress.stage(what);
    }

    fn fail(&self, error: anyhow::Error) -> DataError {
        self.inner.borrow_mut().failure = Some(error);
        DataError::Cancelled
    }
}

/// Reports the progress of a bulk load.
pub struct LoadProgress<'f>(pub &'f Feed);

impl BulkWatch for LoadProgress<'_> {
    fn rejected(&mut self, row: u64, error: &DataError) -> ControlFlow<()> {
        match self.0.reject(row, error.to_string()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }

    fn progress(&mut self, phase: BulkPhase, done: u64, total: Option<u64>) -> ControlFlow<()> {
        if phase == BulkPhase::Writing {
            match total {
                Some(total) if total > 0 => self
                    .0
                    .stage(&format!("writing, {}%", (done * 100 / total).min(100))),
                _ => self.0.stage(&format!("writing, {} pairs", count(done))),
            }
        }
        if self.0.interrupted.load(Ordering::Relaxed) {
            self.0.fail(anyhow!("interrupted: nothing was imported"));
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}
