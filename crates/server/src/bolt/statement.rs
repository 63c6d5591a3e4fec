//! A statement from `RUN` to its last row.
//!
//! A reading statement streams its rows. A writing one with its own transaction runs when its rows are first
//! requested: if it ends within [`BUFFERED_ROWS`] rows, it is committed before the first row is sent, and retried on
//! a conflict; a longer result is streamed and committed at its end. A writing statement in an explicit transaction
//! has written when `RUN` is answered.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use isomer_db::{
    CancelHandle, Counters, ErrorKind, Map, Notice, QueryOptions, Row, RowCursor, RowStream,
    StatementClass, Value, internals::ResultInternals as _,
};
use isomer_value::DatabaseId;

use super::{
    failure::Failure, frames::Outbox, message::NotificationFilter, packstream::Writer,
    signal::Signal, structure::Forms,
};
use crate::{
    Result, ServerError,
    access::{DatabaseAccess, Role},
    core::Core,
    sending::{Reserved, most_text_bytes},
    slow,
    traces::Span,
    weight,
};

/// Rows that a writing statement may produce before they are sent.
const BUFFERED_ROWS: usize = 1_000;
/// Approximate bytes of them.
const BUFFERED_BYTES: usize = 8 << 20;
/// Bytes of rows that are produced between two reservations of memory.
const BYTES_PER_RESERVATION: usize = 256 << 10;
/// Approximate size of the output after which the connection sends it.
pub(super) const PIECE_BYTES: usize = 64 << 10;
/// Time after which the output is sent, however small it is.
pub(super) const PIECE_TIME: Duration = Duration::from_millis(100);

/// How a statement is to run.
pub(super) struct RunParameters {
    pub reads_only: bool,
    /// Deadline by the clock: it includes the time in which the client reads.
    pub end: Option<Instant>,
    pub notification_filter: NotificationFilter,
}

/// A running statement.
///
/// If it took long, it is written to the slow-query log, whatever its result: at its end, or when it is dropped.
pub(super) struct Statement {
    core: Arc<Core>,
    signal: Arc<Signal>,
    access: DatabaseAccess,
    /// The database in its element ids.
    database: DatabaseId,
    source: Source,
    text: String,
    parameters: Map,
    options: QueryOptions,
    notification_filter: NotificationFilter,
    cancel: CancelHandle,
    /// Remaining running time.
    left: Option<Duration>,
    /// Deadline for its last row.
    end: Option<Instant>,
    began: Instant,
    /// How long it has run.
    took: Duration,
    /// Produced rows that were not consumed.
    ahead: VecDeque<Row>,
    /// What those that are kept have of the memory budget.
    reserved: Reserved,
    ended: bool,
    /// Ended when the statement is dropped.
    _span: Span,
    /// Whether its writes were made, for a statement with its own transaction.
    has_written: bool,
    rows: u64,
    /// The kind of its last error, or of what cancels it.
    error: Option<&'static str>,
    /// Whether the slow-query log has been written, or must not be.
    logged: bool,
}

enum Source {
    Own(RowStream),
    Shared(RowCursor),
}

/// Result of consuming rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Consumed {
    /// No row is left.
    All,
    /// The requested number; there are more.
    Enough,
    /// The output is full.
    Piece,
}

impl Statement {
    /// Plans a statement, in the open transaction of `access` or in its own.
    pub(super) fn open(
        core: &Arc<Core>,
        signal: &Arc<Signal>,
        mut access: DatabaseAccess,
        text: String,
        parameters: Map,
        terms: RunParameters,
    ) -> std::result::Result<Self, Failure> {
        let cancel = CancelHandle::new();
        access.check_administration(&text).map_err(|error| {
            Failure::of(&error).with_code("Neo.ClientError.Statement.NotSystemDatabaseError")
        })?;
        let mut options = access
            .open_result()
            .and_then(|()| access.query_options())
            .map_err(|error| Failure::of(&error))?
            .cancel(cancel.clone());
        if terms.reads_only {
            options = options.allow(StatementClass::Read);
        }
        // The server's limit is on running time and enforced here: the client may read for longer than the query may
        // run.
        let left = options
            .limits
            .as_mut()
            .and_then(|limits| limits.time.take());
        let traces = &core.traces;
        let span = traces.query(&Span::none(), access.name());
        let opened = if access.open().is_some() {
            access
                .open_query(&text, &parameters, &options)
                .map(Source::Shared)
        } else {
            access.stream(&text, &parameters, &options).map(Source::Own)
        };
        let source = opened.map_err(|error| {
            span.failed(error.kind());
            let denied = error.kind() == ErrorKind::Denied.name();
            let failure = Failure::of(&error);
            if denied && terms.reads_only && access.role() >= Role::Editor {
                return failure.with_code("Neo.ClientError.Statement.AccessMode");
            }
            failure
        })?;
        let class = match &source {
            Source::Own(stream) => stream.class(),
            Source::Shared(cursor) => cursor.class(),
        };
        span.text(&text);
        span.class(class.name());
        let has_written = match &source {
            Source::Own(stream) => stream.class() == StatementClass::Read,
            Source::Shared(_) => true,
        };
        Ok(Self {
            core: core.clone(),
            signal: signal.clone(),
            database: access.identity().map_err(|error| Failure::of(&error))?,
            access,
            source,
            _span: span,
            has_written,
            text,
            parameters,
            options,
            notification_filter: terms.notification_filter,
            cancel,
            left,
            end: terms.end,
            began: Instant::now(),
            took: Duration::ZERO,
            ahead: VecDeque::new(),
            reserved: Reserved::new(&core.databases),
            ended: false,
            rows: 0,
            error: None,
            logged: false,
        })
    }

    fn cursor(&self) -> &RowCursor {
        match &self.source {
            Source::Own(stream) => stream.cursor(),
            Source::Shared(cursor) => cursor,
        }
    }

    /// The names of its columns.
    pub(super) fn columns(&self) -> &[Arc<str>] {
        self.cursor().columns()
    }

    /// Class of the statement.
    pub(super) fn class(&self) -> StatementClass {
        self.cursor().class()
    }

    /// Whether it may write.
    pub(super) fn writes(&self) -> bool {
        self.class() != StatementClass::Read
    }

    /// Counts of changes.
    pub(super) fn counters(&self) -> Counters {
        self.cursor().counters()
    }

    /// Notifications.
    pub(super) fn notices(&self) -> Vec<Notice> {
        self.cursor().notices()
    }

    /// The client's notification filter.
    pub(super) fn notification_filter(&self) -> &NotificationFilter {
        &self.notification_filter
    }

    /// Its text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The requested plan, and whether it is profiled.
    pub(super) fn plan(&self) -> Option<(Value, bool)> {
        let cursor = self.cursor();
        cursor.plan_value().map(|plan| (plan, cursor.is_profile()))
    }

    /// The access that it runs with.
    pub(super) fn access(&self) -> &DatabaseAccess {
        &self.access
    }

    /// The version read or committed; at its end, and only with its own transaction.
    pub(super) fn version(&self) -> Option<u64> {
        match &self.source {
            Source::Own(stream) => stream.version(),
            Source::Shared(_) => None,
        }
    }

    /// Number of consumed rows.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// When it began.
    pub(super) fn began(&self) -> Instant {
        self.began
    }

    /// Deadline for its last row; `None` if there is no deadline, or it has ended.
    pub(super) fn end_time(&self) -> Option<Instant> {
        self.end.filter(|_| !self.ended)
    }

    /// Whether all of its rows were produced.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Writes the slow-query log if it took long; the time in which the client reads does not count.
    pub(super) fn log_if_slow(&mut self) {
        self.logged = true;
        slow::log(&self.core, &self.access, &self.text, self.took, self.error);
    }

    /// Ends it without an error: the client does not want more rows.
    pub(super) fn leave(&mut self) {
        self.ended = true;
    }

    /// Records the kind of error that stops it.
    pub(super) fn stopped_by(&mut self, kind: &'static str) {
        self.error = Some(kind);
    }

    /// Makes its writes: produces and keeps its first row.
    pub(super) fn write_now(&mut self) -> Result<()> {
        self.run_timed(|statement| statement.with_rows(|next| next()))
            .map(|row| match row {
                Some(row) => self.ahead.push_back(row),
                None => self.ended = true,
            })
    }

    /// Produces and keeps all of its rows if they take at most `left` bytes of memory; reduces `left`.
    pub(super) fn find_all(&mut self, left: &mut usize) -> Result<()> {
        self.resume()?;
        let found = self.run_timed(|statement| {
            while !statement.ended {
                let mut bytes = 0;
                let mut found = VecDeque::new();
                statement.ended = statement.with_rows(|next| {
                    while bytes < BYTES_PER_RESERVATION {
                        let Some(row) = next()? else {
                            return Ok(true);
                        };
                        bytes += weight::of_row(&row);
                        found.push_back(row);
                    }
                    Ok(false)
                })?;
                *left = left.checked_sub(bytes).ok_or_else(|| {
                    ServerError::TooLarge(
                        "earlier results of this transaction are not consumed, are too large to be buffered, and this query \
                         writes: consume them first, or use another transaction (limits.result)"
                            .into(),
                    )
                })?;
                statement.access.keep(bytes)?;
                let kept = statement.access.kept_bytes();
                statement.reserved.resize(kept)?;
                statement.ahead.append(&mut found);
            }
            Ok(())
        });
        self.pause();
        found
    }

    /// Bytes of kept rows.
    pub(super) fn kept_bytes(&self) -> usize {
        self.access.kept_bytes()
    }

    /// Counts it as a request again, unless its user has too many.
    pub(super) fn resume(&mut self) -> Result<()> {
        self.access.resume()
    }

    /// Stops counting it as a request until it is used again.
    pub(super) fn pause(&mut self) {
        let holds = self.cursor().held_bytes();
        self.access.pause(holds);
    }

    /// Consumes `count` rows (`None`: all) until the output is full; writes them unless they are discarded.
    pub(super) fn take(
        &mut self,
        count: &mut Option<u64>,
        keep: bool,
        out: &mut Outbox,
        forms: Forms,
    ) -> Result<Consumed> {
        let began = Instant::now();
        if !keep && count.is_none() && !self.writes() && !self.cursor().is_profile() {
            // These rows are discarded, so they need not be produced.
            self.ahead.clear();
            self.ended = true;
            return Ok(Consumed::All);
        }
        if !self.has_written {
            self.run_buffered()?;
        }
        let mut taken = 0;
        let mut kept = std::mem::take(&mut self.ahead);
        let (ended, database, writes) = (self.ended, self.database, self.writes());
        let outcome = self.run_timed(|statement| {
            statement.with_rows(|next| {
                loop {
                    let found = match kept.pop_front() {
                        Some(row) => Some(row),
                        None if ended => None,
                        None => next()?,
                    };
                    let Some(row) = found else {
                        return Ok(Consumed::All);
                    };
                    if *count == Some(0) {
                        kept.push_front(row);
                        return Ok(Consumed::Enough);
                    }
                    if keep {
                        let room = row.values().iter().map(most_text_bytes);
                        let room = out.make_room(16 + room.sum::<usize>());
                        // The rows of what was written are owed.
                        if !writes {
                            room?;
                        }
                        write_row(&row, out, forms, database)?;
                    }
                    taken += 1;
                    if let Some(count) = count {
                        *count -= 1;
                    }
                    if out.len() >= PIECE_BYTES || taken % 64 == 0 && began.elapsed() >= PIECE_TIME
                    {
                        return Ok(Consumed::Piece);
                    }
                }
            })
        });
        self.ahead = kept;
        self.rows += taken;
        if matches!(outcome, Ok(Consumed::All)) {
            self.ended = true;
        }
        outcome
    }

    /// Runs a writing statement, and commits it if its result is short.
    fn run_buffered(&mut self) -> Result<()> {
        (self.ended, self.ahead) = self.run_timed(|statement| {
            let Source::Own(stream) = &mut statement.source else {
                return Ok((false, VecDeque::new()));
            };
            statement.access.run_buffered(
                stream,
                &statement.text,
                &statement.parameters,
                &statement.options,
                (BUFFERED_ROWS, BUFFERED_BYTES),
                &mut statement.reserved,
            )
        })?;
        self.has_written = true;
        Ok(())
    }

    /// Calls `take` with the rows, from the statement's own transaction or the open one.
    fn with_rows<T>(
        &mut self,
        take: impl FnOnce(&mut dyn FnMut() -> Result<Option<Row>>) -> Result<T>,
    ) -> Result<T> {
        match &mut self.source {
            Source::Own(stream) => take(&mut || Ok(stream.next().transpose()?)),
            Source::Shared(cursor) => {
                let open = self.access.open().cloned().ok_or_else(|| {
                    ServerError::Internal("a result without its transaction".into())
                })?;
                open.with(|tx| take(&mut || Ok(cursor.next(tx)?)))
            }
        }
    }

    /// Runs `work` so that it can be cancelled, and adds its time.
    fn run_timed<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let signal = self.signal.clone();
        let began = Instant::now();
        let end = self.left.map(|left| began + left);
        let end = end.into_iter().chain(self.end_time()).min();
        if end.is_some_and(|end| end <= began) && !self.ended {
            self.error = Some(ServerError::query_too_slow().kind());
            return Err(ServerError::query_too_slow());
        }
        let cancel = self.cancel.clone();
        let running = signal.work(&cancel, end);
        let outcome = work(self);
        drop(running);
        let over = end.is_some_and(|end| end <= Instant::now());
        let took = began.elapsed();
        self.left = self.left.map(|left| left.saturating_sub(took));
        self.took += took;
        let outcome = match outcome {
            Err(error) if error.kind() == ErrorKind::Cancelled.name() && over => {
                Err(ServerError::query_too_slow())
            }
            outcome => outcome,
        };
        self.error = outcome.as_ref().err().map(ServerError::kind);
        outcome
    }

    /// The result for the slow-query log if the rest of its rows is not requested.
    fn outcome(&self) -> Option<&'static str> {
        let cancelled = ErrorKind::Cancelled.name();
        match self.error {
            None if self.ended => None,
            Some(kind) if kind != cancelled => Some(kind),
            _ if self.signal.is_gone() => Some("client gone"),
            _ => Some(cancelled),
        }
    }
}

impl Drop for Statement {
    fn drop(&mut self) {
        // A statement that did not run is not slow. This may be a thread that serves connections, so it must not
        // block.
        if !self.logged && !self.took.is_zero() {
            let text = std::mem::take(&mut self.text);
            slow::log_later(&self.core, &self.access, text, self.took, self.outcome());
        }
    }
}

/// Adds a `RECORD`.
fn write_row(row: &Row, out: &mut Outbox, forms: Forms, database: DatabaseId) -> Result<()> {
    let start = out.len();
    let mut too_deep = false;
    out.message(|bytes| {
        let mut writer = Writer::new(bytes, forms).of_database(database);
        writer.structure(0x71, 1);
        writer.list(row.values().len());
        row.values().iter().for_each(|value| writer.value(value));
        too_deep = writer.is_too_deep();
    });
    if too_deep {
        out.truncate(start);
        return Err(ServerError::TooLarge(
            "a value of the result is nested too deeply to be sent: flatten it".into(),
        ));
    }
    Ok(())
}
