//! What messages mean: the states of a connection, and what each message does in them.
//!
//! A connection is *ready*, has a result open (*streaming*), has a transaction open, with or without results in it, or has
//! *failed*: then all that comes is ignored until `RESET`. A message that has no place in a state ends the connection.

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
    access::{Access, Credential, Principal, Role},
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
    /// Since when a message waits for other requests of its user.
    busy_since: Option<Instant>,
    /// What the audit log is told of the message at work.
    told: Told,
}

#[derive(Default)]
struct Told {
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
        self.result.take()
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
        let taking = self
            .taking
            .as_ref()
            .map(|taking| (taking.message, taking.worked));
        let (number, worked) = match (message, taking) {
            (None, Some((number, worked))) => (Some(number), worked),
            (message, _) => (
                message.and_then(|message| number_of(*message.get(1)?)),
                Duration::ZERO,
            ),
        };
        self.fail(number, worked, &Failure::of(error), out)
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
        match request {
            Request::Goodbye => return Ok(Step::Close),
            Request::Reset => {
                self.signal.reset();
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
            Request::Pull(take) if self.has_results() => return self.take(take, true, 0x3f),
            Request::Discard(take) if self.has_results() => {
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

    fn has_results(&self) -> bool {
        let transaction = self.transaction.as_ref();
        self.lapsed
            || self.result.is_some()
            || transaction.is_some_and(|one| !one.results.is_empty())
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

    // ---- logins -------------------------------------------------------------------------------------------------------------

    /// Takes the first message; what it says is heeded, and answered by [`Machine::greet`].
    pub fn hello(&mut self, message: &[u8]) -> Result<Map, Failure> {
        let request = Request::read(message, self.version, false, 0);
        let Ok(Request::Hello(extra)) = request else {
            return Err(unreadable(request.err()));
        };
        if self.greeted {
            return Err(Failure::protocol("HELLO was said already"));
        }
        self.wanted = Wanted::of(&extra)
            .map_err(|why| unreadable(Some(why)))?
            .unwrap_or_default();
        let patches = extra.get("patch_bolt").and_then(Value::as_list);
        if patches.is_some_and(|patches| patches.contains(&"utc".into())) {
            self.forms.utc = true;
        }
        Ok(extra)
    }

    /// Answers the first message.
    pub fn greet(&mut self, connection: u64, out: &mut Outbox) {
        let is_patched = self.forms.utc && !self.version.forms().utc;
        self.greeted = true;
        let mut entries = vec![
            ("server", Value::from(SERVER)),
            ("connection_id", format!("bolt-{connection}").into()),
            ("hints", Map::new().into()),
        ];
        if is_patched {
            entries.push(("patch_bolt", vec![Value::from("utc")].into()));
        }
        self.success(out, &entries);
        self.count(number_of(0x01), 200, Duration::ZERO);
        if self.is_known() {
            self.record(number_of(0x6a), 200, None, Duration::ZERO);
        }
    }

    /// What a `LOGON` shows.
    pub fn shown(&self, message: &[u8]) -> Result<Map, Failure> {
        match Request::read(message, self.version, false, 0) {
            Ok(Request::Logon(extra)) if self.greeted && !self.is_known() => Ok(extra),
            Ok(_) => Err(Failure::protocol(
                "LOGON has no place in the state of the connection",
            )),
            Err(why) => Err(unreadable(Some(why))),
        }
    }

    /// Somebody has logged in.
    pub fn log_in(&mut self, credential: Credential) -> Result<(), Failure> {
        let principal = self
            .core
            .principal(&credential)
            .map_err(|error| Failure::of(&error))?;
        self.who = Some(Who {
            credential,
            principal,
        });
        Ok(())
    }

    /// Answers a login.
    pub fn welcome(&mut self, out: &mut Outbox, took: Duration) {
        self.success(out, &[]);
        self.told = Told::default();
        self.succeeded(number_of(0x6a), took);
    }

    /// Answers a login that failed: the connection ends.
    pub fn turn_away(&mut self, failure: &Failure, out: &mut Outbox, took: Duration) {
        self.told = Told::default();
        self.fail(number_of(0x6a), took, failure, out);
    }

    // ---- rights -------------------------------------------------------------------------------------------------------------

    /// Who it is, with the rights of now.
    fn principal(&mut self) -> Answered<Arc<Principal>> {
        let who = self
            .who
            .as_mut()
            .ok_or_else(|| Stop::Protocol("log in first".into()))?;
        who.principal = self.core.principal(&who.credential).map_err(|error| {
            // Drivers log in again, over another connection.
            Failure::of(&error).with_code(EXPIRED)
        })?;
        Ok(who.principal.clone())
    }

    /// Refuses to go on with what was opened under a right that was taken away since.
    fn check_right(&mut self, database: &str, class: StatementClass) -> Answered {
        let principal = self.principal()?;
        let role = principal.rights.on(database);
        if role.is_some_and(|role| role.class() >= class) {
            return Ok(());
        }
        let error = ServerError::Denied(format!(
            "`{}` does not have the right on the database `{database}` any more with which this was begun",
            principal.name
        ));
        Err(Failure::of(&error).with_code(EXPIRED).into())
    }

    /// The right to do something in a database, as it is now.
    fn access(&mut self, database: Option<&str>, open: Option<Arc<Open>>) -> Answered<Access> {
        let principal = self.principal()?;
        let home = database.is_none().then(|| self.core.home_of(&principal));
        let name = match (database, home.flatten()) {
            (Some(name), _) => name.to_owned(),
            (None, Some(name)) => name.to_string(),
            (None, None) => {
                return Err(ServerError::Denied(format!(
                    "`{}` has no right on any database",
                    principal.name
                ))
                .into());
            }
        };
        self.told.database = Some(name.chars().take(64).collect::<String>().into());
        let session = match self.core.admit(principal, self.from) {
            Err(ServerError::TooMany { .. }) if self.may_wait() => return Err(Stop::Busy),
            session => session?,
        };
        session
            .database(&name, Role::Reader, open)
            .map_err(|error| {
                let failure = Failure::of(&error);
                Stop::Failed(match error {
                    ServerError::NotFound(_) if database.is_some() => {
                        failure.with_code("Neo.ClientError.Database.DatabaseNotFound")
                    }
                    _ => failure,
                })
            })
    }

    /// Whether a message may wait (longer) for other requests of its user.
    fn may_wait(&self) -> bool {
        let longest = self.core.config.limits.head_time;
        self.busy_since
            .is_none_or(|since| since.elapsed() < longest)
    }

    /// As [`Machine::access`], for what begins a transaction.
    fn access_on(&mut self, on: &On) -> Answered<Access> {
        if let Some(user) = &on.impersonated {
            let message = format!(
                "acting as `{}` is not possible here: log in as that user",
                user.chars().take(64).collect::<String>()
            );
            return Err(ServerError::Denied(message).into());
        }
        let access = self.access(on.database.as_deref(), None)?;
        check_bookmarks(&access, &on.bookmarks)?;
        Ok(access)
    }

    // ---- transactions -------------------------------------------------------------------------------------------------------

    fn begin(&mut self, on: &On, out: &mut Outbox) -> Answered {
        let access = self.access_on(on)?;
        let transaction = access.begin(on.reads_only)?;
        let opened = self.core.open.add_of_connection(
            &access.principal().name,
            access.name(),
            transaction,
            on.time,
        );
        let open = match opened {
            Err(ServerError::TooMany { .. }) if self.may_wait() => return Err(Stop::Busy),
            opened => opened?,
        };
        let database = access.name().clone();
        self.success_on(out, &[], &database);
        self.transaction = Some(Explicit {
            open,
            database,
            reads_only: on.reads_only,
            end: on.time.map(|time| Instant::now() + time),
            wanted: on.notifications.clone().unwrap_or(self.wanted.clone()),
            class: StatementClass::Read,
            results: Vec::new(),
            next: 0,
        });
        Ok(())
    }

    fn commit(&mut self, out: &mut Outbox) -> Answered {
        let Some(transaction) = &self.transaction else {
            return Ok(());
        };
        let (database, class) = (transaction.database.clone(), transaction.class);
        self.told.database = Some(database.clone());
        self.told.class = Some(if transaction.reads_only {
            "read"
        } else {
            "write"
        });
        self.check_right(&database, class)?;
        let Some(mut transaction) = self.transaction.take() else {
            return Ok(());
        };
        self.taking = None;
        // What they write was written when they were run.
        transaction.results.clear();
        let committed = self.core.open.commit(&transaction.open);
        let version = committed.map_err(|error| in_transaction(&error))?;
        let bookmark = bookmark(&transaction.database, version);
        self.success(out, &[("bookmark", bookmark.into())]);
        Ok(())
    }

    // ---- results ------------------------------------------------------------------------------------------------------------

    fn open_result(
        &mut self,
        text: String,
        parameters: Map,
        on: &On,
        out: &mut Outbox,
    ) -> Answered {
        let began = Instant::now();
        let mut statement = match self.transaction.take() {
            None => {
                let access = self.access_on(on)?;
                let terms = Terms {
                    reads_only: on.reads_only,
                    time: on.time,
                    wanted: on.notifications.clone().unwrap_or(self.wanted.clone()),
                };
                Statement::open(access, text, parameters, terms)?
            }
            Some(mut transaction) => {
                let opened = self.open_in(&mut transaction, text, parameters);
                self.transaction = Some(transaction);
                opened?
            }
        };
        // Until its rows are asked for.
        statement.rest();
        self.told.class = Some(statement.class().name());
        let columns: Value = statement
            .columns()
            .iter()
            .map(|column| Value::String(column.clone()))
            .collect();
        let first_ms = i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX);
        let entries = [("fields", columns), ("t_first", first_ms.into())];
        match &mut self.transaction {
            None => {
                let database = statement.access().name().clone();
                self.success_on(out, &entries, &database);
                self.result = Some(statement);
            }
            Some(transaction) => {
                let number = transaction.next;
                transaction.next += 1;
                transaction.results.push((number, statement));
                let [fields, first] = entries;
                let number = Value::Int(number.cast_signed());
                self.success(out, &[fields, first, ("qid", number)]);
            }
        }
        Ok(())
    }

    /// Opens a result in a transaction.
    fn open_in(
        &mut self,
        transaction: &mut Explicit,
        text: String,
        parameters: Map,
    ) -> Answered<Statement> {
        if transaction.results.len() >= MOST_RESULTS {
            return Err(ServerError::TooLarge(format!(
                "the transaction has {MOST_RESULTS} results open, which is the limit: read or discard some"
            ))
            .into());
        }
        let left = transaction
            .end
            .map(|end| end.saturating_duration_since(Instant::now()));
        let open = |machine: &mut Self| -> Answered<Statement> {
            let database = transaction.database.clone();
            let access = machine.access(Some(&database), Some(transaction.open.clone()))?;
            let terms = Terms {
                reads_only: transaction.reads_only,
                time: left,
                wanted: transaction.wanted.clone(),
            };
            Statement::open(access, text.clone(), parameters.clone(), terms)
                .map_err(|failure| Stop::Failed(expired(failure)))
        };
        let mut statement = open(self)?;
        transaction.class = transaction.class.max(statement.class());
        if !statement.writes() {
            return Ok(statement);
        }
        let kept: usize = transaction
            .results
            .iter()
            .map(|(_, result)| result.kept())
            .sum();
        let mut left_to_keep = self.core.config.limits.result_bytes.saturating_sub(kept);
        let mut unread: Vec<_> = transaction
            .results
            .iter_mut()
            .filter(|(_, result)| !result.has_ended())
            .collect();
        if !unread.is_empty() {
            // They must not see what this one writes.
            drop(statement);
            for (_, result) in &mut unread {
                result
                    .find_all(&self.signal, &mut left_to_keep)
                    .map_err(|error| match error {
                        // Nothing was written yet: it can be tried again from here.
                        ServerError::TooMany { .. } if self.may_wait() => Stop::Busy,
                        error => in_transaction(&error).into(),
                    })?;
            }
            statement = open(self)?;
        }
        statement
            .write_now(&self.signal)
            .map_err(|error| in_transaction(&error))?;
        Ok(statement)
    }

    /// Begins to take rows: [`Machine::go_on`] takes them.
    fn take(&mut self, take: Take, keep: bool, tag: u8) -> Answered<Step> {
        if self.result_end().is_some_and(|end| end <= Instant::now()) {
            self.lapse();
        }
        if std::mem::take(&mut self.lapsed) {
            return Err(ServerError::TooSlow(
                "the result was open for longer than a transaction may be: run the query again, and read faster (limits.transaction_time)"
                    .into(),
            )
            .into());
        }
        let mut result = None;
        if let Some(transaction) = &self.transaction {
            let number = match take.result {
                Some(number) => Some(number),
                None => transaction.next.checked_sub(1),
            };
            let known = transaction.results.iter().map(|(number, _)| *number);
            result = known.into_iter().find(|known| Some(*known) == number);
            if result.is_none() {
                return Err(Stop::Protocol("there is no such result open".into()));
            }
        }
        self.taking = Some(Taking {
            message: number_of(tag).unwrap_or_default(),
            left: take.count,
            keep,
            result,
            worked: Duration::ZERO,
        });
        Ok(Step::More)
    }

    /// Takes rows until a piece is full.
    fn go_on(&mut self, out: &mut Outbox) -> Step {
        let began = Instant::now();
        let Some(mut taking) = self.taking.take() else {
            return Step::Done;
        };
        if self.signal.is_interrupted() {
            return self.ignore(out);
        }
        // Should this take long, the answers to what came before need not wait for it.
        if taking.worked.is_zero() && out.len() > 0 {
            self.signal.hand_over(out.drain());
        }
        let Some(statement) = self.result_of(&taking) else {
            return Step::Close;
        };
        let (database, class) = (statement.access().name().clone(), statement.class());
        self.told = Told {
            database: Some(database.clone()),
            class: Some(class.name()),
        };
        if let Err(stop) = self.check_right(&database, class) {
            return self.stop_taking(&taking, stop, out);
        }
        let (signal, forms, may_wait) = (self.signal.clone(), self.forms, self.may_wait());
        let Some(statement) = self.result_of(&taking) else {
            return Step::Close;
        };
        match statement.go_on() {
            Ok(()) => self.busy_since = None,
            Err(ServerError::TooMany { .. }) if may_wait => {
                self.busy_since.get_or_insert_with(Instant::now);
                self.taking = Some(taking);
                return Step::Busy;
            }
            Err(error) => return self.stop_taking(&taking, error.into(), out),
        }
        let Some(statement) = self.result_of(&taking) else {
            return Step::Close;
        };
        let taken = statement.take(&mut taking.left, taking.keep, out, forms, &signal);
        statement.rest();
        taking.worked += began.elapsed();
        let (message, worked) = (taking.message, taking.worked);
        match taken {
            Ok(Taken::Piece) => {
                self.taking = Some(taking);
                Step::More
            }
            Ok(Taken::Enough) => {
                self.success(out, &[("has_more", true.into())]);
                self.count(Some(message), 200, worked);
                Step::Done
            }
            Ok(Taken::All) => {
                let number = taking.result;
                let ended = match (number, &mut self.transaction) {
                    (Some(number), Some(transaction)) => {
                        let at = transaction
                            .results
                            .iter()
                            .position(|(known, _)| *known == number);
                        at.map(|at| transaction.results.remove(at).1)
                    }
                    _ => self.result.take(),
                };
                if let Some(statement) = ended {
                    self.end_result(&statement, out);
                }
                self.succeeded(Some(message), worked);
                Step::Done
            }
            Err(error) => {
                let cancelled = error.kind() == ErrorKind::Cancelled.name();
                if cancelled && self.signal.is_interrupted() {
                    return self.ignore(out);
                }
                let failure = if taking.result.is_some() {
                    in_transaction(&error)
                } else {
                    Failure::of(&error)
                };
                self.fail(Some(message), worked, &failure, out)
            }
        }
    }

    /// The result whose rows are being taken.
    fn result_of(&mut self, taking: &Taking) -> Option<&mut Statement> {
        match (taking.result, &mut self.transaction) {
            (Some(number), Some(transaction)) => transaction
                .results
                .iter_mut()
                .find(|(known, _)| *known == number)
                .map(|(_, statement)| statement),
            _ => self.result.as_mut(),
        }
    }

    /// Answers the message whose rows are not taken any further.
    fn stop_taking(&mut self, taking: &Taking, stop: Stop, out: &mut Outbox) -> Step {
        let failure = match stop {
            Stop::Failed(failure) => failure,
            Stop::Protocol(what) => Failure::protocol(what),
            Stop::Busy => return Step::Busy,
        };
        self.fail(Some(taking.message), taking.worked, &failure, out)
    }

    /// Tells what stands behind the last row.
    fn end_result(&mut self, statement: &Statement, out: &mut Outbox) {
        let has_columns = !statement.columns().is_empty();
        let last_ms = statement.began().elapsed().as_millis();
        let database = statement.access().name().clone();
        let mut entries: Vec<(&str, Value)> = Vec::with_capacity(8);
        entries.push(("type", summary::kind(statement.class(), has_columns).into()));
        entries.push(("t_last", i64::try_from(last_ms).unwrap_or(i64::MAX).into()));
        entries.push(("db", Value::String(database.clone())));
        if let Some(version) = statement.version() {
            entries.push(("bookmark", bookmark(&database, version).into()));
        }
        if let Some(stats) = summary::stats(&statement.counters()) {
            entries.push(("stats", stats));
        }
        if let Some((plan, profiled)) = statement.plan()
            && let Some(plan) = summary::plan(&plan, profiled)
        {
            entries.push((if profiled { "profile" } else { "plan" }, plan));
        }
        let (notices, text, wanted) = (statement.notices(), statement.text(), statement.wanted());
        if self.version >= Version::new(5, 6) {
            let rows = statement.rows() > 0;
            let statuses = summary::statuses(notices, text, wanted, has_columns, rows);
            entries.push(("statuses", statuses));
        } else if let Some(told) = summary::notifications(notices, text, wanted) {
            entries.push(("notifications", told));
        }
        self.success(out, &entries);
        statement.tell_if_slow(&self.core);
    }

    // ---- routing ------------------------------------------------------------------------------------------------------------

    /// One server is all there is: it is told under the address by which the client knows it.
    fn route(&mut self, routing: &Map, on: &On, out: &mut Outbox) -> Answered {
        let access = self.access_on(on)?;
        let known = text(routing, "address").ok().flatten();
        let known = known.filter(|address| is_address(address));
        let own = self.core.bolt_address.get().map(ToString::to_string);
        let Some(address) = known.or(own) else {
            return Err(ServerError::Internal("the server has no address".into()).into());
        };
        let server = |role: &str| -> Value {
            Map::from_iter([
                ("addresses", vec![Value::from(address.as_str())].into()),
                ("role", role.into()),
            ])
            .into()
        };
        let table = Map::from_iter([
            ("ttl", Value::Int(ROUTES_LAST_S)),
            ("db", Value::String(access.name().clone())),
            (
                "servers",
                vec![server("ROUTE"), server("READ"), server("WRITE")].into(),
            ),
        ]);
        self.success(out, &[("rt", table.into())]);
        Ok(())
    }

    // ---- answers ------------------------------------------------------------------------------------------------------------

    fn success(&self, out: &mut Outbox, entries: &[(&str, Value)]) {
        out.message(|bytes| {
            let mut writer = Writer::new(bytes, self.forms);
            writer.structure(0x70, 1);
            writer.dictionary(entries.len());
            for (name, value) in entries {
                writer.text(name);
                writer.value(value);
            }
        });
    }

    /// Success of what begins a transaction: from 5.8 on the database is told, so that drivers know which one is theirs.
    fn success_on(&self, out: &mut Outbox, entries: &[(&str, Value)], database: &Arc<str>) {
        if self.version < Version::new(5, 8) {
            return self.success(out, entries);
        }
        let mut entries = entries.to_vec();
        entries.push(("db", Value::String(database.clone())));
        self.success(out, &entries);
    }

    fn ignore(&self, out: &mut Outbox) -> Step {
        out.message(|bytes| bytes.extend_from_slice(&[0xb0, 0x7e]));
        Step::Done
    }

    fn fail(
        &mut self,
        message: Option<usize>,
        took: Duration,
        failure: &Failure,
        out: &mut Outbox,
    ) -> Step {
        self.abandon();
        self.failed = true;
        self.busy_since = None;
        out.message(|bytes| {
            failure.write(&mut Writer::new(bytes, self.forms), self.version);
        });
        if failure.status >= 500 {
            tracing::error!(
                code = failure.code,
                error = failure.message,
                "a message of a driver failed"
            );
        }
        self.count(message, failure.status, took);
        self.record(message, failure.status, Some(failure.kind), took);
        Step::Done
    }

    fn succeeded(&self, message: Option<usize>, took: Duration) {
        self.count(message, 200, took);
        self.record(message, 200, None, took);
    }

    fn count(&self, message: Option<usize>, status: u16, took: Duration) {
        if let Some(number) = message {
            self.core.metrics.message(number, status, took);
        }
    }

    /// A line of the audit log.
    fn record(&self, message: Option<usize>, status: u16, error: Option<&str>, took: Duration) {
        let name = message.map_or("?", |number| MESSAGES[number].name);
        let class = match (self.told.class, name) {
            (Some(class), _) => class,
            (None, "HELLO" | "LOGON" | "LOGOFF" | "?") => "session",
            (None, _) => "read",
        };
        let who = self.who.as_ref().map(|who| &who.principal);
        self.core.audit.record(&Event {
            user: who.map(|principal| &*principal.name),
            token: who.and_then(|principal| principal.token.as_deref()),
            from: self.from,
            action: &format!("BOLT {name}"),
            database: self.told.database.as_deref(),
            class,
            status,
            error,
            took_ms: took.as_secs_f64() * 1e3,
        });
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// Drivers look for the name in front; who reads it shall know better.
const SERVER: &str = concat!(
    "Neo4j/5.26.0 compatible; IsomerDB/",
    env!("CARGO_PKG_VERSION")
);

fn unreadable(why: Option<Unreadable>) -> Failure {
    Failure::protocol(match why {
        Some(Unreadable::Malformed(what) | Unreadable::Refused(what)) => what,
        None => "the message has no place in the state of the connection".into(),
    })
}

/// What happens in a transaction of several statements: where that is not there any more, its time was over.
fn in_transaction(error: &ServerError) -> Failure {
    let failure = Failure::of(error);
    match error {
        ServerError::NotFound(_) => expired(failure),
        _ => failure,
    }
}

fn expired(failure: Failure) -> Failure {
    if failure.kind == "NotFound" && failure.code == "Neo.ClientError.Statement.EntityNotFound" {
        return failure.with_code("Neo.ClientError.Transaction.TransactionTimedOut");
    }
    failure
}

/// `isomer:DATABASE:VERSION`.
fn bookmark(database: &str, version: u64) -> String {
    format!("isomer:{database}:{version}")
}

/// Refuses bookmarks that are none, and those of versions that are not there yet. Those of other databases say nothing here.
fn check_bookmarks(access: &Access, bookmarks: &[String]) -> Answered {
    for bookmark in bookmarks {
        let parsed = bookmark
            .strip_prefix("isomer:")
            .and_then(|rest| rest.rsplit_once(':'))
            .and_then(|(database, version)| Some((database, version.parse::<u64>().ok()?)));
        let Some((database, version)) = parsed else {
            let message = format!(
                "`{}` is no bookmark of this server",
                bookmark.chars().take(60).collect::<String>()
            );
            return Err(
                Failure::of_code("Neo.ClientError.Transaction.InvalidBookmark", message).into(),
            );
        };
        if *database == **access.name() && version > access.version()? {
            let message = format!(
                "the bookmark is of version {version} and the database has {}: try again",
                access.version()?
            );
            return Err(Failure::of_code(
                "Neo.TransientError.Transaction.BookmarkTimeout",
                message,
            )
            .into());
        }
    }
    Ok(())
}

/// Whether a text can be an address: a name or an address, and a port.
fn is_address(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
    let port = text.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
    text.len() <= 300 && text.chars().all(allowed) && matches!(port, Some(Ok(_)))
}
