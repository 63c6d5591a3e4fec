//! A statement from `RUN` to its last row.
//!
//! One that reads gives its rows as they are found. One that writes, in a transaction of its own, runs when its rows are first
//! asked for: if it ends within [`SETTLED_ROWS`] rows it is committed before the first is sent, and run again where it lost a race;
//! a longer result is sent as it is found and committed at its end. In a transaction of several statements one that writes has
//! written when `RUN` is answered.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use isomer_db::{
    CancelHandle, Counters, ErrorKind, Map, Notice, QueryOptions, Row, RowCursor, RowStream,
    StatementClass, Value,
};

use super::{
    failure::Failure, frames::Outbox, message::Wanted, packstream::Writer, signal::Signal,
    structure::Forms,
};
use crate::{
    Result, ServerError,
    access::{Access, Role},
    core::Core,
    slow,
    traces::Span,
    weight,
};

/// Rows that a statement that writes may find before they are sent.
const SETTLED_ROWS: usize = 1_000;
/// Bytes of them, about.
const SETTLED_BYTES: usize = 8 << 20;
/// Bytes of rows that are found before they are counted.
const KEPT_AT_ONCE: usize = 256 << 10;
/// Bytes of a piece, about: then the connection sends it.
pub(super) const PIECE_BYTES: usize = 64 << 10;
/// A piece is sent after so long, however small it is.
pub(super) const PIECE_TIME: Duration = Duration::from_millis(100);

/// How a statement is to run.
pub(super) struct Terms {
    pub reads_only: bool,
    pub time: Option<Duration>,
    pub wanted: Wanted,
}

/// A statement at work.
///
/// If it worked for long, the log is told, whatever it ended with: at its end, or when it is dropped.
pub(super) struct Statement {
    core: Arc<Core>,
    signal: Arc<Signal>,
    access: Access,
    source: Source,
    text: String,
    parameters: Map,
    options: QueryOptions,
    wanted: Wanted,
    cancel: CancelHandle,
    /// How long it may still work.
    left: Option<Duration>,
    began: Instant,
    /// How long it has worked.
    took: Duration,
    /// Rows that were found and not taken.
    ahead: VecDeque<Row>,
    ended: bool,
    /// It is told when this is dropped.
    _span: Span,
    /// Whether what it writes was written, where it has a transaction of its own.
    settled: bool,
    rows: u64,
    /// The kind of what its last piece of work ended with, or of what stops it.
    error: Option<&'static str>,
    /// Whether the log need not be told of it any more.
    told: bool,
}

enum Source {
    Own(RowStream<'static>),
    Shared(RowCursor),
}

/// How far rows were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// There is no further one.
    All,
    /// As many as were asked for, and there are more.
    Enough,
    /// A piece is full.
    Piece,
}

impl Statement {
    /// Plans a statement, in the open transaction of `access` or in one of its own.
    pub(super) fn open(
        core: &Arc<Core>,
        signal: &Arc<Signal>,
        mut access: Access,
        text: String,
        parameters: Map,
        terms: Terms,
    ) -> std::result::Result<Self, Failure> {
        let cancel = CancelHandle::new();
        let mut options = access
            .open_result()
            .and_then(|()| access.query_options())
            .map_err(|error| Failure::of(&error))?
            .cancel(cancel.clone());
        if terms.reads_only {
            options = options.allow(StatementClass::Read);
        }
        // What it may work is counted here: a client may take longer to read than the query may take to find.
        let most = options
            .limits
            .as_mut()
            .and_then(|limits| limits.time.take());
        let left = match (most, terms.time) {
            (Some(most), Some(wanted)) => Some(most.min(wanted)),
            (most, wanted) => most.or(wanted),
        };
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
        let settled = match &source {
            Source::Own(stream) => stream.class() == StatementClass::Read,
            Source::Shared(_) => true,
        };
        Ok(Self {
            core: core.clone(),
            signal: signal.clone(),
            access,
            source,
            _span: span,
            settled,
            text,
            parameters,
            options,
            wanted: terms.wanted,
            cancel,
            left,
            began: Instant::now(),
            took: Duration::ZERO,
            ahead: VecDeque::new(),
            ended: false,
            rows: 0,
            error: None,
            told: false,
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

    /// What it may do.
    pub(super) fn class(&self) -> StatementClass {
        self.cursor().class()
    }

    /// Whether it may change something.
    pub(super) fn writes(&self) -> bool {
        self.class() != StatementClass::Read
    }

    /// What it changed.
    pub(super) fn counters(&self) -> Counters {
        self.cursor().counters()
    }

    /// What is worth knowing.
    pub(super) fn notices(&self) -> &[Notice] {
        self.cursor().notices()
    }

    /// Which of that the client wants.
    pub(super) fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// Its text.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The plan that it was asked for, and whether with figures.
    pub(super) fn plan(&self) -> Option<(Value, bool)> {
        let cursor = self.cursor();
        cursor.plan().map(|plan| (plan, cursor.is_profile()))
    }

    /// The right that it runs with.
    pub(super) fn access(&self) -> &Access {
        &self.access
    }

    /// The version that was read or committed, at its end, where it had a transaction of its own.
    pub(super) fn version(&self) -> Option<u64> {
        match &self.source {
            Source::Own(stream) => stream.version(),
            Source::Shared(_) => None,
        }
    }

    /// How many rows were taken.
    pub(super) fn rows(&self) -> u64 {
        self.rows
    }

    /// Since when it is at work.
    pub(super) fn began(&self) -> Instant {
        self.began
    }

    /// Whether all of its rows were found.
    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Tells of its end in the log if it took long; the time in which its client read does not count.
    pub(super) fn tell_if_slow(&mut self) {
        self.told = true;
        slow::tell(&self.core, &self.access, &self.text, self.took, self.error);
    }

    /// Its client wants no more of its rows: it has not failed.
    pub(super) fn leave(&mut self) {
        self.ended = true;
    }

    /// An error of this kind stops it.
    pub(super) fn stopped_by(&mut self, kind: &'static str) {
        self.error = Some(kind);
    }

    /// Writes what it has to write: its first row is found, and kept.
    pub(super) fn write_now(&mut self) -> Result<()> {
        self.working(|statement| statement.with_rows(|next| next()))
            .map(|row| match row {
                Some(row) => self.ahead.push_back(row),
                None => self.ended = true,
            })
    }

    /// Finds all of its rows and keeps them, if they take no more memory than `left`, which becomes less.
    pub(super) fn find_all(&mut self, left: &mut usize) -> Result<()> {
        self.go_on()?;
        let found = self.working(|statement| {
            while !statement.ended {
                let mut bytes = 0;
                let mut found = VecDeque::new();
                statement.ended = statement.with_rows(|next| {
                    while bytes < KEPT_AT_ONCE {
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
                        "earlier results of this transaction are not read to their ends, are too large to be kept, and this query \
                         writes: read them first, or use another transaction (limits.result)"
                            .into(),
                    )
                })?;
                statement.access.keep(bytes)?;
                statement.ahead.append(&mut found);
            }
            Ok(())
        });
        self.rest();
        found
    }

    /// Bytes of the rows that are kept.
    pub(super) fn kept(&self) -> usize {
        self.access.kept()
    }

    /// Is at work again, unless its user has too much at work.
    pub(super) fn go_on(&mut self) -> Result<()> {
        self.access.go_on()
    }

    /// Lies still until it is used again.
    pub(super) fn rest(&mut self) {
        let holds = self.cursor().held_bytes();
        self.access.rest(holds);
    }

    /// Takes `count` rows, all where that is absent, until a piece is full; they are written unless they are to be thrown away.
    pub(super) fn take(
        &mut self,
        count: &mut Option<u64>,
        keep: bool,
        out: &mut Outbox,
        forms: Forms,
    ) -> Result<Taken> {
        let began = Instant::now();
        if !keep && count.is_none() && !self.writes() && !self.cursor().is_profile() {
            // Nobody sees these rows: they need not be found.
            self.ahead.clear();
            self.ended = true;
            return Ok(Taken::All);
        }
        if !self.settled {
            self.settle()?;
        }
        let mut taken = 0;
        let mut kept = std::mem::take(&mut self.ahead);
        let ended = self.ended;
        let outcome = self.working(|statement| {
            statement.with_rows(|next| {
                loop {
                    let found = match kept.pop_front() {
                        Some(row) => Some(row),
                        None if ended => None,
                        None => next()?,
                    };
                    let Some(row) = found else {
                        return Ok(Taken::All);
                    };
                    if *count == Some(0) {
                        kept.push_front(row);
                        return Ok(Taken::Enough);
                    }
                    if keep {
                        write_row(&row, out, forms)?;
                    }
                    taken += 1;
                    if let Some(count) = count {
                        *count -= 1;
                    }
                    if out.len() >= PIECE_BYTES || taken % 64 == 0 && began.elapsed() >= PIECE_TIME
                    {
                        return Ok(Taken::Piece);
                    }
                }
            })
        });
        self.ahead = kept;
        self.rows += taken;
        if matches!(outcome, Ok(Taken::All)) {
            self.ended = true;
        }
        outcome
    }

    /// Runs a statement that writes, and commits it where its result is short.
    fn settle(&mut self) -> Result<()> {
        (self.ended, self.ahead) = self.working(|statement| {
            let Source::Own(stream) = &mut statement.source else {
                return Ok((false, VecDeque::new()));
            };
            statement.access.settle(
                stream,
                &statement.text,
                &statement.parameters,
                &statement.options,
                SETTLED_ROWS,
                SETTLED_BYTES,
            )
        })?;
        self.settled = true;
        Ok(())
    }

    /// Gives `take` what finds the next row, in whatever transaction that is.
    fn with_rows<T>(
        &mut self,
        take: impl FnOnce(&mut dyn FnMut() -> Result<Option<Row>>) -> Result<T>,
    ) -> Result<T> {
        match &mut self.source {
            Source::Own(stream) => take(&mut || Ok(stream.next().transpose()?)),
            Source::Shared(cursor) => {
                let open = self.access.open().cloned().ok_or_else(|| {
                    ServerError::Internal("a result has lost its transaction".into())
                })?;
                open.with(|tx| take(&mut || Ok(cursor.next(tx)?)))
            }
        }
    }

    /// Does something that can be stopped, and that counts.
    fn working<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let signal = self.signal.clone();
        let began = Instant::now();
        let end = self.left.map(|left| began + left);
        let cancel = self.cancel.clone();
        let at_work = signal.work(&cancel, end);
        let outcome = work(self);
        drop(at_work);
        let over = end.is_some_and(|end| end <= Instant::now());
        let took = began.elapsed();
        self.left = self.left.map(|left| left.saturating_sub(took));
        self.took += took;
        let outcome = match outcome {
            Err(error) if error.kind() == ErrorKind::Cancelled.name() && over => {
                Err(ServerError::TooSlow(
                    "the query works for longer than it may: narrow it, add an index, or raise the time limit".into(),
                ))
            }
            outcome => outcome,
        };
        self.error = outcome.as_ref().err().map(ServerError::kind);
        outcome
    }

    /// What it ends with where nobody asks for the rest of its rows.
    fn end(&self) -> Option<&'static str> {
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
        // One that has not worked is no slow one. This may be a thread that serves connections.
        if !self.told && !self.took.is_zero() {
            let text = std::mem::take(&mut self.text);
            slow::tell_later(&self.core, &self.access, text, self.took, self.end());
        }
    }
}

/// Adds a `RECORD`.
fn write_row(row: &Row, out: &mut Outbox, forms: Forms) -> Result<()> {
    let start = out.len();
    let mut too_deep = false;
    out.message(|bytes| {
        let mut writer = Writer::new(bytes, forms);
        writer.structure(0x71, 1);
        writer.list(row.values().len());
        row.values().iter().for_each(|value| writer.value(value));
        too_deep = writer.is_too_deep();
    });
    if too_deep {
        out.truncate(start);
        return Err(ServerError::TooLarge(
            "a value of the result is nested too deep to be sent: flatten it".into(),
        ));
    }
    Ok(())
}
