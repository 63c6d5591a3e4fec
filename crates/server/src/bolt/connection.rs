//! A connection: reads bytes, passes messages to the state machine, writes bytes; enforces time limits.

use std::{
    io,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use isomer_db::Map;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf},
    time::{Interval, MissedTickBehavior, interval_at},
};

use super::{
    failure::Failure,
    frames::{End, Inbox, Outbox, TooLong},
    handshake,
    machine::{Machine, Step},
    message::text,
    signal::Signal,
    websocket,
};
use crate::{
    ServerError,
    access::Credential,
    connections::{Client, Slot},
    core::{Core, stop_asked},
    sending::Reserved,
};

/// Size of a read.
const READ_BYTES: usize = 8 << 10;
/// Interval of checks for queries that exceed their time limit.
const TICK: Duration = Duration::from_millis(50);
const HELLO: u8 = 0x01;
const GOODBYE: u8 = 0x02;
const RESET: u8 = 0x0f;
const LOGON: u8 = 0x6a;

/// Speaks Bolt with a client until either side closes: over the connection itself, or over a WebSocket.
pub async fn serve<S>(core: &Arc<Core>, mut stream: S, client: Client)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let peer = client.peer;
    // Upgrade, handshake and login share one time limit, which begins with the accept.
    let login_end = client.accepted + core.config.limits.head_time;
    let mut first = [0; 4];
    match tokio::time::timeout_at(login_end, stream.read_exact(&mut first)).await {
        Ok(Ok(_)) => {}
        Ok(Err(error)) => return tracing::debug!(%peer, %error, "no Bolt"),
        Err(_) => return core.connections.note_slow(),
    }
    if first != websocket::GET {
        return speak(core, stream, first, client).await;
    }
    // Boxed, as most drivers connect without: otherwise every connection would hold its memory.
    Box::pin(async move {
        let upgraded = async {
            let mut socket = websocket::upgrade(core, stream).await?;
            if let Some(socket) = &mut socket {
                socket.read_exact(&mut first).await?;
            }
            Ok::<_, io::Error>(socket)
        };
        match tokio::time::timeout_at(login_end, upgraded).await {
            Ok(Ok(Some(socket))) => speak(core, socket, first, client).await,
            Ok(Ok(None)) => tracing::debug!(%peer, "a request to upgrade was refused"),
            Ok(Err(error)) => tracing::debug!(%peer, %error, "no WebSocket"),
            Err(_) => core.connections.note_slow(),
        }
    })
    .await;
}

/// Speaks Bolt over a stream that began with the bytes `first`.
async fn speak<S>(core: &Arc<Core>, mut stream: S, first: [u8; 4], client: Client)
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    static CONNECTIONS: AtomicU64 = AtomicU64::new(0);
    let limits = &core.config.limits;
    let peer = client.peer;
    let login_end = client.accepted + limits.head_time;
    let shaken = tokio::time::timeout_at(login_end, handshake::shake(&mut stream, first));
    let version = match shaken.await {
        Ok(Ok(Some(version))) => version,
        Ok(outcome) => {
            tracing::debug!(%peer, ?outcome, "no supported Bolt version");
            return;
        }
        Err(_) => return core.connections.note_slow(),
    };
    let signal = Arc::new(Signal::default());
    let (reading, writing) = tokio::io::split(stream);
    let mut connection = Connection {
        core: core.clone(),
        from: peer.ip(),
        number: CONNECTIONS.fetch_add(1, Ordering::Relaxed) + 1,
        machine: Some(Box::new(Machine::new(
            core.clone(),
            peer.ip(),
            version,
            signal.clone(),
        ))),
        signal: CancelOnDrop(signal),
        inbox: Inbox::new(limits.head_bytes),
        out: Outbox::new(Reserved::new(&core.databases)),
        reading,
        writing,
        buffer: vec![0; READ_BYTES],
        has_ended: false,
        too_long: None,
        login_end: login_end.into_std(),
        slot: client.slot,
        last: Instant::now(),
        was_known: false,
    };
    if let Err(error) = connection.serve().await {
        if error.kind() == io::ErrorKind::TimedOut {
            core.connections.note_slow();
        }
        tracing::debug!(%peer, %error, "a connection of a driver ended");
    }
    // Dropping the machine may block: it may have to roll back.
    if let Some(machine) = connection
        .machine
        .take()
        .filter(|machine| !machine.is_idle())
    {
        tokio::task::spawn_blocking(move || drop(machine));
    }
}

fn timed_out(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what)
}

/// Stops the query when the connection's future is dropped.
struct CancelOnDrop(Arc<Signal>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.end();
    }
}

struct Connection<S> {
    core: Arc<Core>,
    from: IpAddr,
    number: u64,
    /// `None` while it runs on another thread.
    machine: Option<Box<Machine>>,
    signal: CancelOnDrop,
    inbox: Inbox,
    out: Outbox,
    reading: ReadHalf<S>,
    writing: WriteHalf<S>,
    buffer: Vec<u8>,
    /// Whether the client has closed its sending side.
    has_ended: bool,
    too_long: Option<TooLong>,
    /// Deadline of the login.
    login_end: Instant,
    slot: Arc<Slot>,
    /// When the last message was answered; while nothing is open, when bytes last arrived.
    last: Instant,
    /// Whether the client was authenticated when the last message was answered.
    was_known: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Connection<S> {
    async fn serve(&mut self) -> io::Result<()> {
        let mut back_off = BackOff::default();
        loop {
            let step = match self.inbox.next_tag() {
                Some(HELLO) => self.hello().await,
                Some(LOGON) => self.log_on().await,
                Some(tag) => self.work(tag).await?,
                None if self.machine()?.is_taking() => self.work(0).await?,
                None => {
                    if self.has_ended {
                        return Ok(());
                    }
                    if let Some(TooLong { most }) = self.too_long {
                        let failure = Failure::of(&ServerError::TooLarge(format!(
                            "the message is longer than {most} bytes: send less at once (limits.body)"
                        )));
                        let mut out = std::mem::take(&mut self.out);
                        self.machine()?.close_with(&failure, &mut out);
                        self.out = out;
                        return self.flush().await;
                    }
                    if self.core.is_stopping() && self.machine()?.is_idle() {
                        return Ok(());
                    }
                    self.wait().await?;
                    continue;
                }
            };
            self.note_logoff()?;
            self.flush().await?;
            self.last = Instant::now();
            match step {
                Step::Close => return Ok(()),
                Step::Busy => tokio::time::sleep(back_off.next()).await,
                Step::Done | Step::More => back_off = BackOff::default(),
            }
        }
    }

    /// After a `LOGOFF`, the limits of an unauthenticated connection apply again: small messages, a short time.
    fn note_logoff(&mut self) -> io::Result<()> {
        let is_known = self.machine()?.is_known();
        if self.was_known && !is_known {
            let limits = &self.core.config.limits;
            self.login_end = Instant::now() + limits.head_time;
            self.inbox.set_most(limits.head_bytes);
            self.slot.set_known(false);
            self.slot.set_idle(true);
        }
        self.was_known = is_known;
        Ok(())
    }

    fn machine(&mut self) -> io::Result<&mut Machine> {
        self.machine
            .as_deref_mut()
            .ok_or_else(|| io::Error::other("the connection hit a bug in the server"))
    }

    // ---- work
    // ---------------------------------------------------------------------------------------------------------------

    /// Answers the queued messages on a blocking thread, and keeps reading in the meantime.
    async fn work(&mut self, tag: u8) -> io::Result<Step> {
        let mut out = std::mem::take(&mut self.out);
        if self.machine()?.is_light(tag)
            && let Some(message) = self.inbox.next()
        {
            let step = self.machine()?.answer(&message, &mut out);
            self.out = out;
            return Ok(step);
        }
        // Messages that end something are answered even at the limit of concurrent requests, and so are those queued
        // before them.
        let ends = self.signal.0.is_interrupted()
            || matches!(tag, RESET | GOODBYE) && !self.machine()?.is_taking();
        let place = match self.core.slot_unless(ends).await {
            Ok(place) => place,
            Err(error) => {
                // While rows are being sent, it is that message which fails; the next one stays queued.
                let message = match self.machine()?.is_taking() {
                    true => None,
                    false => self.inbox.next(),
                };
                let step = self.machine()?.refuse(message.as_deref(), &error, &mut out);
                self.out = out;
                return Ok(step);
            }
        };
        let mut queue = self.inbox.lend(|tag| match tag {
            HELLO | LOGON => Some(End::Before),
            RESET | GOODBYE if ends => Some(End::After),
            _ => None,
        });
        let Some(mut machine) = self.machine.take() else {
            return Ok(Step::Close);
        };
        let mut job = tokio::task::spawn_blocking(move || {
            let _slot = place;
            let step = machine.run(&mut queue, &mut out);
            (machine, queue, out, step)
        });
        let mut ticks = ticks();
        let done = loop {
            let may_read = self.may_read();
            tokio::select! {
                biased;
                done = &mut job => break done,
                // Polled before the bytes, so that a client that sends without a pause cannot postpone it.
                _ = ticks.tick() => {
                    self.signal.0.check_time();
                    let ready = self.signal.0.take_ready();
                    self.send(&ready).await?;
                }
                count = self.reading.read(&mut self.buffer), if may_read => self.received(count),
            }
        };
        let (machine, queue, out, step) = done.map_err(|error| {
            tracing::error!(%error, "a message of a driver hit a bug");
            io::Error::other("the connection hit a bug in the server")
        })?;
        self.machine = Some(machine);
        self.out = out;
        self.inbox.take_back(queue);
        Ok(step)
    }

    // ---- logins
    // -------------------------------------------------------------------------------------------------------------

    async fn hello(&mut self) -> Step {
        let began = Instant::now();
        let message = self.inbox.next().unwrap_or_default();
        let mut out = std::mem::take(&mut self.out);
        let step = self.greet(&message, began, &mut out).await;
        self.out = out;
        step
    }

    async fn greet(&mut self, message: &[u8], began: Instant, out: &mut Outbox) -> Step {
        let number = self.number;
        let Some(machine) = self.machine.as_deref_mut() else {
            return Step::Close;
        };
        let extra = match machine.hello(message) {
            Ok(extra) => extra,
            Err(failure) => {
                machine.refuse_login(&failure, None, out, began.elapsed());
                return Step::Close;
            }
        };
        // Before 5.1, `HELLO` contains the credentials.
        if !machine.has_logon() && !self.let_in(&extra, began, out).await {
            return Step::Close;
        }
        if let Some(machine) = self.machine.as_deref_mut() {
            machine.greet(number, out);
        }
        Step::Done
    }

    async fn log_on(&mut self) -> Step {
        let began = Instant::now();
        let message = self.inbox.next().unwrap_or_default();
        let mut out = std::mem::take(&mut self.out);
        let step = self.answer_logon(&message, began, &mut out).await;
        self.out = out;
        step
    }

    async fn answer_logon(&mut self, message: &[u8], began: Instant, out: &mut Outbox) -> Step {
        let Some(machine) = self.machine.as_deref_mut() else {
            return Step::Close;
        };
        let shown = match machine.shown(message) {
            Ok(shown) => shown,
            Err(failure) => {
                machine.refuse_login(&failure, None, out, began.elapsed());
                return Step::Close;
            }
        };
        if !self.let_in(&shown, began, out).await {
            return Step::Close;
        }
        if let Some(machine) = self.machine.as_deref_mut() {
            machine.answer_login(out, began.elapsed());
        }
        Step::Done
    }

    /// Authenticates the client; returns false if that failed, after answering.
    async fn let_in(&mut self, shown: &Map, began: Instant, out: &mut Outbox) -> bool {
        self.slot.set_idle(false);
        let outcome = authenticate(&self.core, self.from, shown).await;
        let Some(machine) = self.machine.as_deref_mut() else {
            return false;
        };
        let outcome = outcome
            .map_err(|error| {
                let failure = Failure::of(&error);
                match error {
                    ServerError::TooMany { .. } => {
                        failure.with_code("Neo.ClientError.Security.AuthenticationRateLimit")
                    }
                    _ => failure,
                }
            })
            .and_then(|credential| machine.log_in(credential));
        match outcome {
            Ok(()) => {
                self.inbox.set_most(self.core.config.limits.body_bytes);
                self.slot.set_known(true);
                true
            }
            Err(failure) => {
                machine.refuse_login(&failure, Some(shown), out, began.elapsed());
                false
            }
        }
    }

    // ---- bytes
    // --------------------------------------------------------------------------------------------------------------

    fn may_read(&self) -> bool {
        !self.has_ended && self.too_long.is_none() && self.inbox.has_room()
    }

    /// Handles received bytes.
    fn received(&mut self, count: io::Result<usize>) {
        match count {
            Ok(count @ 1..) => match self.inbox.take(&self.buffer[..count]) {
                Ok(resets) => self.signal.0.interrupt(resets),
                Err(too_long) => self.too_long = Some(too_long),
            },
            Ok(0) | Err(_) => {
                self.has_ended = true;
                self.signal.0.end();
            }
        }
    }

    /// BackOff for bytes, within the client's time limit.
    async fn wait(&mut self) -> io::Result<()> {
        let limits = &self.core.config.limits;
        let known = self
            .machine
            .as_ref()
            .is_some_and(|machine| machine.is_known());
        let (end, what) = match self.inbox.began() {
            Some(began) => (began + limits.body_time, "a message did not come in time"),
            None => (self.last + limits.bolt_idle_time, "no message came in time"),
        };
        let (end, what) = if known {
            (end, what)
        } else {
            (end.min(self.login_end), "no login came in time")
        };
        let mut stopping = self.core.stopping();
        let is_idle = self
            .machine
            .as_ref()
            .is_none_or(|machine| machine.is_idle());
        let result_end = self
            .machine
            .as_ref()
            .and_then(|machine| machine.result_end());
        let count = tokio::select! {
            count = self.reading.read(&mut self.buffer) => count,
            () = tokio::time::sleep_until(result_end.unwrap_or(end).into()), if result_end.is_some() => {
                self.expire_if_due();
                return Ok(());
            }
            () = tokio::time::sleep_until(end.into()) => return Err(timed_out(what)),
            () = stop_asked(&mut stopping), if is_idle => return Ok(()),
        };
        self.received(count);
        // Bytes that are not a message keep an idle connection open, but not one that holds a result or a
        // transaction.
        if is_idle {
            self.last = Instant::now();
        }
        Ok(())
    }

    /// Abandons results whose time limit has passed.
    fn expire_if_due(&mut self) {
        let machine = self.machine.as_mut();
        let results = machine.map_or_else(Vec::new, |machine| machine.expire_if_due());
        if !results.is_empty() {
            // Dropping them may block: they may have to roll back.
            tokio::task::spawn_blocking(move || drop(results));
        }
    }

    /// Sends the output, and keeps reading in the meantime.
    async fn flush(&mut self) -> io::Result<()> {
        let mut bytes = self.signal.0.take_ready();
        let mut rest = self.out.drain();
        if bytes.is_empty() {
            bytes = rest;
        } else {
            bytes.append(&mut rest);
            drop(rest);
        }
        self.send(&bytes).await?;
        self.out.sent();
        Ok(())
    }

    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let mut rest = bytes;
        let time = self.core.config.limits.write_time;
        let mut ticks = ticks();
        // Progress of sending extends the deadline; received bytes do not.
        let mut end = Instant::now() + time;
        while !rest.is_empty() {
            let may_read = self.may_read();
            tokio::select! {
                biased;
                count = self.writing.write(rest) => match count? {
                    0 => return Err(io::ErrorKind::WriteZero.into()),
                    count => {
                        rest = &rest[count..];
                        end = Instant::now() + time;
                    }
                },
                _ = ticks.tick() => {
                    // A query may be running at the same time.
                    self.signal.0.check_time();
                    self.expire_if_due();
                    if end <= Instant::now() {
                        return Err(timed_out("the client does not read"));
                    }
                }
                count = self.reading.read(&mut self.buffer), if may_read => self.received(count),
            }
        }
        loop {
            tokio::select! {
                biased;
                flushed = self.writing.flush() => return flushed,
                _ = ticks.tick() => {
                    self.signal.0.check_time();
                    if end <= Instant::now() {
                        return Err(timed_out("the client does not read"));
                    }
                }
            }
        }
    }
}

/// Authenticates with the entries of a message.
pub(crate) async fn authenticate(
    core: &Arc<Core>,
    from: IpAddr,
    shown: &Map,
) -> crate::Result<Credential> {
    if core.system.is_none() {
        return Ok(Credential::Anybody);
    }
    let entry = |name: &str| text(shown, name).ok().flatten();
    match entry("scheme").as_deref() {
        Some("basic") => {
            let (Some(name), Some(password)) = (entry("principal"), entry("credentials")) else {
                return Err(ServerError::Unauthenticated(
                    "the scheme `basic` requires a name and a password".into(),
                ));
            };
            // One login at a time per address: connections of a pool then find the password among the recent ones,
            // and guesses are counted.
            let turn = core.login_turn(from).await?;
            if let Some(credential) = core.system()?.recent_credential(&name, &password) {
                return Ok(credential);
            }
            let outcome = core
                .hashing(move |core| core.system()?.credential(&name, &password))
                .await;
            if matches!(outcome, Err(ServerError::Unauthenticated(_))) {
                turn.failed();
                core.metrics.logins_failed.fetch_add(1, Ordering::Relaxed);
            }
            outcome
        }
        Some("bearer") => {
            let token = entry("credentials").unwrap_or_default();
            // Checked like every other token, so that guesses are counted.
            core.session(Some(&token), from)?;
            Ok(Credential::Token(token))
        }
        _ => Err(ServerError::Unauthenticated(
            "log in with a name and a password (basic), or with a token (bearer)".into(),
        )),
    }
}

/// Timer of checks for queries that exceed their time limit.
fn ticks() -> Interval {
    let mut ticks = interval_at(tokio::time::Instant::now() + TICK, TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Back-off of a message that back_off for other requests of its user.
struct BackOff(Duration);

impl Default for BackOff {
    fn default() -> Self {
        Self(Duration::from_millis(1))
    }
}

impl BackOff {
    fn next(&mut self) -> Duration {
        let now = self.0;
        self.0 = (now * 2).min(Duration::from_millis(20));
        now
    }
}
