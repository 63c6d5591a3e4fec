//! What messages mean: the states of a connection, and what each message does in them.
//!
//! A connection is *ready*, has a result open (*streaming*), has a transaction open, with or without results in it, or has
//! *failed*: then all that comes is ignored until `RESET`. A message that has no place in a state ends the connection, but for
//! a late one about a result that a `RESET` ended: a client may send it before it reads that there is no such result any more.

mod answers;
mod logins;
mod results;
mod routing;
mod transactions;

use std::{
    collections::VecDeque,
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use isomer_db::{ErrorKind, Map, StatementClass, Value};

use super::{
    failure::Failure,
    frames::Outbox,
    handshake::Version,
    message::{MESSAGES, On, Request, Take, Wanted, number_of, text},
    packstream::{Unreadable, Writer},
    signal::Signal,
    statement::{PIECE_BYTES, PIECE_TIME, Statement, Taken, Terms},
    structure::Forms,
    summary,
};
use crate::{
    ServerError,
    access::{Access, Credential, Principal, Role, is_user_name},
    audit::Event,
    core::Core,
    open::Open,
};

/// Results that a transaction may have open at once.
const MOST_RESULTS: usize = 100;
/// The code for rights that are not there any more.
const EXPIRED: &str = "Neo.ClientError.Security.AuthorizationExpired";
/// A routing table is good for so long.
const ROUTES_LAST_S: i64 = 300;

/// What comes after some messages were answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// All of them are answered.
    Done,
    /// What is written is to be sent; then it goes on.
    More,
    /// The next message has to wait for other requests of its user.
    Busy,
    /// What is written is to be sent; then the connection ends.
    Close,
}

/// Why a message is not answered with success.
enum Stop {
    Busy,
    Failed(Failure),
    /// It has no place here: the connection ends.
    Protocol(String),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<ServerError> for Stop {
    fn from(error: ServerError) -> Self {
        Self::Failed(Failure::of(&error))
    }
}

type Answered<T = ()> = Result<T, Stop>;

/// Who is at the other end.
struct Who {
    credential: Credential,
    principal: Arc<Principal>,
}

/// A transaction of several statements.
struct Explicit {
    open: Arc<Open>,
    database: Arc<str>,
    reads_only: bool,
    /// When it must end.
    end: Option<Instant>,
    wanted: Wanted,
    /// The most that its statements may have done.
    class: StatementClass,
    /// Results that were not taken to their end, by number.
    results: Vec<(u64, Statement)>,
    next: u64,
}

/// Rows that are being taken.
struct Taking {
    message: usize,
    left: Option<u64>,
    keep: bool,
    /// The number of the result, in a transaction of several statements.
    result: Option<u64>,
    worked: Duration,
}

/// One connection's state.
pub struct Machine {
    core: Arc<Core>,
    from: IpAddr,
    version: Version,
    forms: Forms,
    signal: Arc<Signal>,
    greeted: bool,
    who: Option<Who>,
    wanted: Wanted,
    failed: bool,
    transaction: Option<Explicit>,
    result: Option<Statement>,
    taking: Option<Taking>,
    /// Whether the result was open for too long, and is not there any more.
    lapsed: bool,
    /// Results that the last message, a `RESET`, ended, and about which nothing came since.
    reset_results: usize,
    /// Since when a message waits for other requests of its user.
    busy_since: Option<Instant>,
    /// What the audit log is told of the message at work.
    told: Told,
}

#[derive(Default)]
struct Told {
    /// Who wanted to log in.
    user: Option<String>,
    database: Option<Arc<str>>,
    class: Option<&'static str>,
}

impl Machine {
    /// A connection over which nothing was said yet.
    pub fn new(core: Arc<Core>, from: IpAddr, version: Version, signal: Arc<Signal>) -> Self {
        Self {
            core,
            from,
            version,
            forms: version.forms(),
            signal,
            greeted: false,
            who: None,
            wanted: Wanted::default(),
            failed: false,
            transaction: None,
            result: None,
            taking: None,
            lapsed: false,
            reset_results: 0,
            busy_since: None,
            told: Told::default(),
        }
    }

    /// Whether somebody is known.
    pub fn is_known(&self) -> bool {
        self.who.is_some()
    }

    /// Whether `LOGON` is a message of its own.
    pub fn has_logon(&self) -> bool {
        self.version.has_logon()
    }

    /// Whether nothing is open.
    pub fn is_idle(&self) -> bool {
        self.transaction.is_none() && self.result.is_none() && !self.lapsed
    }

    /// When a result must have been taken that has a transaction of its own: a version of the database is kept for it.
    pub fn result_end(&self) -> Option<Instant> {
        let began = self.result.as_ref()?.began();
        began.checked_add(self.core.config.limits.transaction_time)
    }

    /// Gives up that result: whoever asks for its rows is told so.
    pub(super) fn lapse(&mut self) -> Option<Statement> {
        self.lapsed = self.result.is_some();
        let mut result = self.result.take()?;
        result.stopped_by("Limit");
        Some(result)
    }

    /// Whether a message with this tag is answered at once: nothing is read or written for it.
    pub fn is_light(&self, tag: u8) -> bool {
        self.failed || self.is_idle() && matches!(tag, 0x0f | 0x02 | 0x54 | 0x6b)
    }

    /// Whether rows are still to be taken.
    pub fn is_taking(&self) -> bool {
        self.taking.is_some()
    }

    /// Answers messages until there is none, a piece is full, or one must wait: that one is the first of `queue` again.
    pub fn run(&mut self, queue: &mut VecDeque<Vec<u8>>, out: &mut Outbox) -> Step {
        let began = Instant::now();
        loop {
            if self.taking.is_some() {
                if let end @ (Step::Busy | Step::Close) = self.go_on(out) {
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
        self.told = Told::default();
        let outcome = match Request::read(message, self.version, self.is_known(), most) {
            Ok(request) => self.carry_out(request, out),
            Err(Unreadable::Refused(what)) => Err(Stop::Failed(Failure::of_code(
                "Neo.ClientError.Statement.ArgumentError",
                what,
            ))),
            Err(Unreadable::Malformed(what)) => Err(Stop::Protocol(what)),
        };
        let step = match outcome {
            Ok(step) => step,
            Err(Stop::Busy) => {
                self.busy_since.get_or_insert_with(Instant::now);
                return Step::Busy;
            }
            Err(Stop::Failed(failure)) => self.fail(number, began.elapsed(), &failure, out),
            Err(Stop::Protocol(what)) => {
                self.fail(number, began.elapsed(), &Failure::protocol(what), out);
                return Step::Close;
            }
        };
        self.busy_since = None;
        // What takes rows is counted when it has taken them.
        if step == Step::Done && !self.failed && !matches!(tag, 0x3f | 0x2f) {
            self.succeeded(number, began.elapsed());
        }
        step
    }

    /// Refuses a message, or the rest of the one whose rows are being taken: the server is at work on too much.
    pub fn refuse(
        &mut self,
        message: Option<&[u8]>,
        error: &ServerError,
        out: &mut Outbox,
    ) -> Step {
        if let (None, Some(taking)) = (message, self.taking.take()) {
            return self.stop_taking(&taking, Stop::Failed(Failure::of(error)), out);
        }
        let number = message.and_then(|message| number_of(*message.get(1)?));
        self.fail(number, Duration::ZERO, &Failure::of(error), out)
    }

    /// Ends the connection with a failure: a message could not be taken in.
    pub fn give_up(&mut self, failure: &Failure, out: &mut Outbox) {
        self.fail(None, Duration::ZERO, failure, out);
    }

    fn carry_out(&mut self, request: Request, out: &mut Outbox) -> Answered<Step> {
        if !self.is_known() && !matches!(request, Request::Goodbye) {
            return Err(Stop::Protocol("log in first".into()));
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
                self.who = None;
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
            // There is nothing to discard any more, and that is done: a driver that reads IGNORED here gives the connection up.
            Request::Discard(_) if late > 0 => {
                self.reset_results = late - 1;
                self.success(out, &[]);
            }
            // An end of the rows would be a lie.
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
                return Err(Stop::Protocol(
                    "the message has no place in the state of the connection".into(),
                ));
            }
        }
        Ok(Step::Done)
    }

    /// Results that rows may be asked of.
    fn open_results(&self) -> usize {
        let alone = usize::from(self.lapsed || self.result.is_some());
        alone + self.transaction.as_ref().map_or(0, |one| one.results.len())
    }

    /// Rolls back and forgets what is open.
    fn abandon(&mut self) {
        self.taking = None;
        self.result = None;
        self.lapsed = false;
        if let Some(mut transaction) = self.transaction.take() {
            transaction.results.clear();
            // Its time may be over, in which case it was rolled back already.
            let _ = self.core.open.rollback(&transaction.open);
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.abandon();
    }
}
