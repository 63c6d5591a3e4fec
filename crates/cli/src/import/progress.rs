//! Progress of an import: rows, rows per second, time left.

use std::{
    io::IsTerminal,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::source::Source;
use crate::style::{count, rate};

/// The bar is redrawn once per this number of rows.
const STEP: u64 = 1_000;

/// A progress bar on standard error; none if that is not a terminal.
pub struct Progress {
    bar: ProgressBar,
    bytes_read: Arc<AtomicU64>,
    start: Instant,
    rows: u64,
}

impl Progress {
    /// A bar for reading a source; by bytes if its size is known.
    pub fn new(source: &Source, quiet: bool) -> Self {
        let shown = !quiet && std::io::stderr().is_terminal();
        let target = if shown {
            ProgressDrawTarget::stderr_with_hz(10)
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = match source.bytes_total {
            Some(total) => ProgressBar::with_draw_target(Some(total), target),
            None => ProgressBar::with_draw_target(None, target),
        };
        let template = match source.bytes_total {
            Some(_) => "{bar:30} {percent:>3}%  {msg}  {eta} left",
            None => "{spinner} {msg}  {elapsed}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("━╸─"));
        }
        Self {
            bar,
            bytes_read: source.bytes_read.clone(),
            start: Instant::now(),
            rows: 0,
        }
    }

    /// One more row was read.
    pub fn row(&mut self) {
        self.rows += 1;
        if self.rows.is_multiple_of(STEP) {
            self.bar
                .set_position(self.bytes_read.load(Ordering::Relaxed));
            self.bar.set_message(format!(
                "{} rows, {} rows/s",
                count(self.rows),
                rate(self.rows, self.start.elapsed())
            ));
        }
    }

    /// The phase after the last row.
    pub fn stage(&self, what: &str) {
        self.bar
            .set_message(format!("{} rows, {what}", count(self.rows)));
        self.bar.tick();
    }

    /// Removes the bar. Returns the rows and the time since the start.
    pub fn finish(self) -> (u64, std::time::Duration) {
        self.bar.finish_and_clear();
        (self.rows, self.start.elapsed())
    }
}
