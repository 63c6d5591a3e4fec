//! The rows of a running query, for an answer that is streamed: within its running time and its client's timeout, and
//! with the slow-query log.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use isomer_db::{CancelHandle, ErrorKind, Row, RowStream};

use super::{call::StopOnDrop, lines::Limit, outcome::Outcome};
use crate::{Result, ServerError, access::DatabaseAccess, core::Core, slow, traces::Span};

/// A stream of rows, within the running time of its query.
pub(super) struct RowSource {
    pub(super) rows: RowStream,
    pub(super) row: u64,
    pub(super) span: Span,
    pub(super) outcome: Outcome,
    /// `None` once the slow-query log was written.
    pub(super) slow: Option<Slow>,
    /// Remaining and total running time of the query, and when the current piece began.
    pub(super) left: Option<Duration>,
    /// Deadline by the clock.
    pub(super) end: Option<Instant>,
    pub(super) took: Duration,
    pub(super) piece: Instant,
    pub(super) is_working: bool,
    pub(super) cancel: CancelHandle,
    pub(super) _stop: StopOnDrop,
}

impl RowSource {
    pub(super) fn columns(&self) -> &[Arc<str>] {
        self.rows.columns()
    }

    pub(super) fn next(&mut self) -> Result<Option<Row>> {
        let next = self.next_row();
        if let Err(error) = &next {
            self.note_failure(error);
        }
        next
    }

    fn note_failure(&mut self, error: &ServerError) {
        self.span.failed(error.kind());
        self.outcome.failed(error.kind());
        self.log_if_slow(Some(error.kind()));
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.end
    }

    /// The error with which it ends after its deadline.
    pub(super) fn expire(mut self) -> ServerError {
        let error = ServerError::query_too_slow();
        self.note_failure(&error);
        error
    }

    fn next_row(&mut self) -> Result<Option<Row>> {
        if self.row.is_multiple_of(256) && self.is_over() {
            return Err(ServerError::query_too_slow());
        }
        match self.rows.next() {
            Some(Ok(row)) => {
                self.row += 1;
                Ok(Some(row))
            }
            Some(Err(error)) if error.kind() == ErrorKind::Cancelled && self.is_over() => {
                Err(ServerError::query_too_slow())
            }
            Some(Err(error)) => Err(error.into()),
            None => Ok(None),
        }
    }

    /// Whether its running time or its client's timeout is exceeded.
    fn is_over(&self) -> bool {
        let worked = self.left.is_some_and(|left| self.piece.elapsed() >= left);
        worked || self.end.is_some_and(|end| end <= Instant::now())
    }

    pub(super) fn limit(&mut self) -> Limit {
        self.piece = Instant::now();
        self.is_working = true;
        let until = self
            .end
            .map(|end| end.saturating_duration_since(self.piece));
        let left = self.left.into_iter().chain(until).min();
        Some((left, self.cancel.clone()))
    }

    pub(super) fn record_time(&mut self, time: Duration) {
        self.left = self.left.map(|left| left.saturating_sub(time));
        self.took += time;
        self.is_working = false;
    }

    /// Records that all rows were produced.
    pub(super) fn end(&mut self) {
        self.log_if_slow(None);
    }

    /// Writes the slow-query log once, if it took long; the time in which the client reads does not count.
    fn log_if_slow(&mut self, error: Option<&'static str>) {
        if let Some(slow) = self.slow.take() {
            slow.log(self.worked_so_far(), error);
        }
    }

    fn worked_so_far(&self) -> Duration {
        let now = match self.is_working {
            true => self.piece.elapsed(),
            false => Duration::ZERO,
        };
        self.took + now
    }
}

impl Drop for RowSource {
    fn drop(&mut self) {
        // The client has disconnected. This may be a thread that serves connections, and writing the log plans the
        // query again, so do it elsewhere.
        let took = self.worked_so_far();
        let Some(slow) = self.slow.take().filter(|slow| slow.is_logged(took)) else {
            return;
        };
        let log = move || slow.log(took, Some("client gone"));
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(log)),
            Err(_) => log(),
        }
    }
}

/// What the slow-query log needs.
pub(super) struct Slow {
    pub(super) core: Arc<Core>,
    pub(super) access: DatabaseAccess,
    pub(super) text: String,
}

impl Slow {
    /// Whether a query that took this long is logged.
    fn is_logged(&self, took: Duration) -> bool {
        slow::is_slow(&self.core, took)
    }

    pub(super) fn log(&self, took: Duration, error: Option<&'static str>) {
        slow::log(&self.core, &self.access, &self.text, took, error);
    }
}
