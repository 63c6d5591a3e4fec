//! The state machine of a connection: its states, and what each message does in them.
//!
//! A connection is *ready*, has an open result (*streaming*), has an open transaction, with or without open results
//! in it, or has *failed*: then all messages are ignored until `RESET`. A message that is not allowed in a state
//! closes the connection, except a late one about a result that a `RESET` ended: the client may have sent it before
//! it could know.

mod answers;
mod logins;
mod results;
mod routing;
mod transactions;

pub(crate) use transactions::bookmark;

use std::{
    collections::VecDeque,
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use isomer_db::{Counters, ErrorKind, Map, StatementClass, Value};

use super::{
    failure::Failure,
    frames::Outbox,
    handshake::Version,
    message::{
        MESSAGES, NotificationFilter, PullParameters, Request, TransactionParameters, number_of,
        text,
    },
    packstream::{Unreadable, Writer},
    signal::Signal,
    statement::{Consumed, PIECE_BYTES, PIECE_TIME, RunParameters, Statement},
    structure::Forms,
    summary,
};
use crate::{
    ServerError,
    access::{Credential, DatabaseAccess, Principal, Role, is_user_name},
    audit::Event,
    core::Core,
    open::OpenTransaction,
};

/// Most open results of a transaction.
const MAX_RESULTS: usize = 100;
/// The code for rights that were revoked.
const EXPIRED: &str = "Neo.ClientError.Security.AuthorizationExpired";
/// Time to live of a routing table.
const ROUTES_LAST_S: i64 = 300;

/// What the connection does after some messages were answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// All are answered.
    Done,
    /// Send the output, then continue.
    More,
    /// The next message has to wait for other requests of its user.
    Busy,
    /// Send the output, then close the connection.
    Close,
}

/// Why a message is not answered with success.
enum MessageError {
    Busy,
    Failed(Failure),
    /// A protocol violation: the connection is closed.
    Protocol(String),
}

impl From<Failure> for MessageError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<ServerError> for MessageError {
    fn from(error: ServerError) -> Self {
        Self::Failed(Failure::of(&error))
    }
}

type Answered<T = ()> = Result<T, MessageError>;

/// The authenticated client.
struct Client {
    credential: Credential,
    principal: Arc<Principal>,
}

/// An explicit transaction (of several statements).
struct ExplicitTransaction {
    open: Arc<OpenTransaction>,
    database: Arc<str>,
    reads_only: bool,
    /// Deadline that the client has set.
    end: Option<Instant>,
    wanted: NotificationFilter,
    /// The highest class of the statements that have run.
    class: StatementClass,
    /// Open results, by number.
    results: Vec<(u64, Statement)>,
    next: u64,
    /// What the server runs again if the commit loses a race; see [`Replay`].
    replay: Option<Replay>,
}

/// The only statement of a transaction so far, if its client knows nothing of it but its counters: it has no columns.
/// Then the transaction can run again on the server, and the client needs no retry over the network.
struct Replay {
    text: String,
    parameters: Map,
    /// What the client knows of it, or will know.
    counters: Counters,
}

/// A `PULL` or `DISCARD` in progress.
struct Pull {
    message: usize,
    left: Option<u64>,
    keep: bool,
    /// Number of the result in an explicit transaction.
    result: Option<u64>,
    worked: Duration,
}

/// State of a connection.
pub struct Machine {
    core: Arc<Core>,
    from: IpAddr,
    version: Version,
    forms: Forms,
    signal: Arc<Signal>,
    greeted: bool,
    client: Option<Client>,
    wanted: NotificationFilter,
    failed: bool,
    transaction: Option<ExplicitTransaction>,
    result: Option<Statement>,
    taking: Option<Pull>,
    /// Why the open results were abandoned, if they were open for too long.
    expired: Option<ServerError>,
    /// Number of results that the last message, a `RESET`, ended; cleared by the next message.
    reset_results: usize,
    /// Since when a message waits for other requests of its user.
    busy_since: Option<Instant>,
    /// What the audit log records of the current message.
    audit_details: AuditDetails,
}

#[derive(Default)]
struct AuditDetails {
    /// The user that tried to log in.
    user: Option<String>,
    database: Option<Arc<str>>,
    class: Option<&'static str>,
}

impl Machine {
    /// A new connection.
    pub fn new(core: Arc<Core>, from: IpAddr, version: Version, signal: Arc<Signal>) -> Self {
        Self {
            core,
            from,
            version,
            forms: version.forms(),
            signal,
            greeted: false,
            client: None,
            wanted: NotificationFilter::default(),
            failed: false,
            transaction: None,
            result: None,
            taking: None,
            expired: None,
            reset_results: 0,
            busy_since: None,
            audit_details: AuditDetails::default(),
        }
    }

    /// Whether the client is authenticated.
    pub fn is_known(&self) -> bool {
        self.client.is_some()
    }

    /// Whether `LOGON` is a separate message.
    pub fn has_logon(&self) -> bool {
        self.version.has_logon()
    }

    /// Whether neither a result nor a transaction is open.
    pub fn is_idle(&self) -> bool {
        self.transaction.is_none() && self.result.is_none() && self.expired.is_none()
    }

    /// Deadline for consuming the open results that are not complete: they hold a snapshot, and the client may have set
    /// a timeout.
    pub fn result_end(&self) -> Option<Instant> {
        let time = self.core.config.limits.transaction_time;
        let longest = |result: &Statement| result.began().checked_add(time);
        if let Some(result) = &self.result {
            return longest(result).into_iter().chain(result.end_time()).min();
        }
        let results = self.transaction.iter().flat_map(|one| &one.results);
        let incomplete = results.filter(|(_, result)| !result.has_ended());
        incomplete
            .flat_map(|(_, result)| longest(result).into_iter().chain(result.end_time()))
            .min()
    }

    /// Abandons the open results: the next message for them fails.
    pub(super) fn expire(&mut self) -> Vec<Statement> {
        let of_transaction = self.transaction.iter_mut().flat_map(|one| {
            let results = one.results.drain(..);
            results.map(|(_, result)| result)
        });
        let mut results: Vec<_> = self
            .result
            .take()
            .into_iter()
            .chain(of_transaction)
            .collect();
        if results.is_empty() {
            return results;
        }
        for result in &mut results {
            result.stopped_by("Limit");
        }
        let now = Instant::now();
        let is_over = |result: &Statement| result.end_time().is_some_and(|end| end <= now);
        self.expired = Some(match results.iter().any(is_over) {
            true => ServerError::query_too_slow(),
            false => ServerError::TooSlow(
                "the result was open for longer than the limit on transactions: run the query again and read faster (limits.transaction_time)"
                    .into(),
            ),
        });
        results
    }

    /// Abandons the open results if their deadline has passed.
    pub(super) fn expire_if_due(&mut self) -> Vec<Statement> {
        match self.result_end() {
            Some(end) if end <= Instant::now() => self.expire(),
            _ => Vec::new(),
        }
    }

    /// Whether a message with this tag is answered without reading or writing data.
    pub fn is_light(&self, tag: u8) -> bool {
        self.failed || self.is_idle() && matches!(tag, 0x0f | 0x02 | 0x54 | 0x6b)
    }

    /// Whether a `PULL` or `DISCARD` is in progress.
    pub fn is_taking(&self) -> bool {
        self.taking.is_some()
    }

    /// Answers messages until none is left, the output buffer is full, or one must wait: that one is put back to the
    /// front of `queue`.
    pub fn run(&mut self, queue: &mut VecDeque<Vec<u8>>, out: &mut Outbox) -> Step {
        let began = Instant::now();
        loop {
            if self.taking.is_some() {
                if let end @ (Step::Busy | Step::Close) = self.resume(out) {
                    return end;
                }
            } else {
                let Some(message) = queue.pop_front() else {
                    return Step::Done;
                };
                match self.answer(&message, out) {
                    Step::Done | Step::More => {}
                    Step::Busy => {
                        queue.push_front(message);
                        return Step::Busy;
                    }
                    Step::Close => return Step::Close,
                }
            }
            if out.len() >= PIECE_BYTES || began.elapsed() >= PIECE_TIME {
                let more = self.taking.is_some() || !queue.is_empty();
                return if more { Step::More } else { Step::Done };
            }
        }
    }

    /// Answers one message.
    pub fn answer(&mut self, message: &[u8], out: &mut Outbox) -> Step {
        let began = Instant::now();
        let tag = message.get(1).copied().unwrap_or_default();
        let number = number_of(tag);
        let interrupted = self.signal.is_interrupted();
        if (self.failed || interrupted) && self.is_known() && !matches!(tag, 0x0f | 0x02) {
            return self.ignore(out);
        }
        let most = self.core.config.limits.body_bytes;
        self.audit_details = AuditDetails::default();
        let outcome = match Request::read(message, self.version, self.is_known(), most) {
            Ok(request) => self.carry_out(request, out),
            Err(Unreadable::Refused(what)) => Err(MessageError::Failed(Failure::of_code(
                "Neo.ClientError.Statement.ArgumentError",
                what,
            ))),
            Err(Unreadable::Malformed(what)) => Err(MessageError::Protocol(what)),
        };
        let step = match outcome {
            Ok(step) => step,
            Err(MessageError::Busy) => {
                self.busy_since.get_or_insert_with(Instant::now);
                return Step::Busy;
            }
            Err(MessageError::Failed(failure)) => self.fail(number, began.elapsed(), &failure, out),
            Err(MessageError::Protocol(what)) => {
                self.fail(number, began.elapsed(), &Failure::protocol(what), out);
                return Step::Close;
            }
        };
        self.busy_since = None;
        // A `PULL` or `DISCARD` is counted when it has ended.
        if step == Step::Done && !self.failed && !matches!(tag, 0x3f | 0x2f) {
            self.succeeded(number, began.elapsed());
        }
        step
    }

    /// Fails a message, or the `PULL` in progress: the server is at its concurrency limit.
    pub fn refuse(
        &mut self,
        message: Option<&[u8]>,
        error: &ServerError,
        out: &mut Outbox,
    ) -> Step {
        if let (None, Some(taking)) = (message, self.taking.take()) {
            return self.stop_taking(&taking, MessageError::Failed(Failure::of(error)), out);
        }
        let number = message.and_then(|message| number_of(*message.get(1)?));
        self.fail(number, Duration::ZERO, &Failure::of(error), out)
    }

    /// Closes the connection with a failure: a message could not be received.
    pub fn close_with(&mut self, failure: &Failure, out: &mut Outbox) {
        self.fail(None, Duration::ZERO, failure, out);
    }

    fn carry_out(&mut self, request: Request, out: &mut Outbox) -> Answered<Step> {
        if !self.is_known() && !matches!(request, Request::Goodbye) {
            return Err(MessageError::Protocol("log in first".into()));
        }
        let ready = self.is_idle();
        let in_transaction = self.transaction.is_some();
        let late = std::mem::take(&mut self.reset_results);
        match request {
            Request::Goodbye => return Ok(Step::Close),
            Request::Reset => {
                self.signal.reset();
                self.reset_results = self.open_results();
                self.abandon();
                self.failed = false;
                self.success(out, &[]);
            }
            Request::Logoff if ready => {
                self.client = None;
                self.success(out, &[]);
            }
            Request::Telemetry if ready => self.success(out, &[]),
            Request::Route { routing, on } if ready => self.route(&routing, &on, out)?,
            Request::Begin(on) if ready => self.begin(&on, out)?,
            Request::Run {
                text,
                parameters,
                on,
            } if ready || in_transaction => self.open_result(text, parameters, &on, out)?,
            // Nothing is left to discard, so this succeeds: a driver that reads IGNORED here closes the connection.
            Request::Discard(_) if late > 0 => {
                self.reset_results = late - 1;
                self.success(out, &[]);
            }
            // Reporting the end of the rows would be wrong.
            Request::Pull(_) if late > 0 => {
                self.reset_results = late - 1;
                return Ok(self.ignore(out));
            }
            Request::Pull(take) if self.open_results() > 0 => return self.take(take, true, 0x3f),
            Request::Discard(take) if self.open_results() > 0 => {
                return self.take(take, false, 0x2f);
            }
            Request::Commit if in_transaction => self.commit(out)?,
            Request::Rollback if in_transaction => {
                self.abandon();
                self.success(out, &[]);
            }
            _ => {
                return Err(MessageError::Protocol(
                    "the message is not allowed in this state of the connection".into(),
                ));
            }
        }
        Ok(Step::Done)
    }

    /// Number of results that rows may be requested of.
    fn open_results(&self) -> usize {
        let alone = usize::from(self.expired.is_some() || self.result.is_some());
        alone + self.transaction.as_ref().map_or(0, |one| one.results.len())
    }

    /// Rolls back and closes what is open.
    fn abandon(&mut self) {
        self.taking = None;
        self.result = None;
        self.expired = None;
        if let Some(mut transaction) = self.transaction.take() {
            transaction.results.clear();
            // The sweep may have rolled it back already.
            let _ = self.core.open.rollback(&transaction.open);
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.abandon();
    }
}
