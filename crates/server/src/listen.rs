//! HTTP connections: TLS, and time limits.
//!
//! A connection is *waiting* for a request, in the *head* of one, or *busy* with one; it is closed when it waits too
//! long, when a head takes too long, and when its client does not read an answer for too long. The head of its first
//! request must arrive in time from the accept, TLS handshake and silence included; that of a later one from its
//! first byte. A connection that waits for longer than a moment becomes *idle*: it releases the buffers of its HTTP
//! state, about 20 KiB, and holds one to two KiB until the next request begins, or its time is over.
//!
//! An answer that is sent before the body of its request was read (as most refusals are) would leave that body in the
//! connection. The rest is read and discarded if it is short and arrives soon; otherwise the answer says `Connection:
//! close`, and the server reads for a moment before it closes the connection, so that the client can read the answer
//! (RFC 9112, 9.6).

use std::{
    convert::Infallible,
    future::{Future, poll_fn},
    io,
    net::IpAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    http::{HeaderValue, Request, Response, header},
};
use http_body_util::BodyExt;
use hyper::body::{Body as _, Frame, Incoming, SizeHint};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf},
    net::{TcpListener, TcpStream},
    time::{Instant, Sleep},
};
use tokio_rustls::TlsAcceptor;
use tower_service::Service;

use crate::{
    bolt,
    connections::{Client, Slot, Source},
    core::{Core, stop_asked},
    http::PeerAddress,
};

/// Protocol of an address.
#[derive(Clone)]
pub enum Protocol {
    /// HTTP with these routes.
    Http(Router),
    /// Bolt.
    Bolt,
}

/// Accepts connections until shutdown. All addresses share the slots.
pub async fn accept(
    core: Arc<Core>,
    listener: TcpListener,
    spoken: Protocol,
    tls: Option<TlsAcceptor>,
) {
    let mut stopping = core.stopping();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop_asked(&mut stopping) => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Usually out of file descriptors: other connections must end first.
                tracing::warn!(%error, "a connection cannot be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let source = Source {
            address: peer.ip(),
            is_proxy: is_proxy(&core, peer.ip()),
        };
        let is_http = matches!(spoken, Protocol::Http(_));
        let Some(slot) = core.connections.open(source, is_http) else {
            continue;
        };
        let client = Client {
            peer,
            accepted: Instant::now(),
            slot: Arc::new(slot),
        };
        let (core, spoken, tls) = (core.clone(), spoken.clone(), tls.clone());
        tokio::spawn(async move {
            let slot = client.slot.clone();
            tokio::select! {
                () = connection(&core, stream, client, spoken, tls) => {}
                () = slot.evicted() => {}
            }
        });
    }
}

fn is_proxy(core: &Core, address: IpAddr) -> bool {
    let mut proxies = core.config.trusted_proxies.iter();
    proxies.any(|network| network.holds(address))
}

/// Waits until busy connections have completed, up to the time limit.
pub async fn drain(core: &Core) {
    let drained = core.connections.all_ended();
    if tokio::time::timeout(core.config.limits.drain_time, drained)
        .await
        .is_err()
    {
        tracing::warn!("requests that were still running are aborted");
    }
}

async fn connection(
    core: &Arc<Core>,
    stream: TcpStream,
    client: Client,
    spoken: Protocol,
    tls: Option<TlsAcceptor>,
) {
    // Nagle's algorithm would delay small answers.
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else {
        return speak(core, stream, client, spoken).await;
    };
    // Boxed, as the handshake is rare: otherwise every open connection would hold its memory.
    let accepted = Box::pin(tokio::time::timeout_at(
        client.accepted + core.config.limits.head_time,
        tls.accept(stream),
    ));
    match accepted.await {
        Ok(Ok(stream)) => Box::pin(speak(core, stream, client, spoken)).await,
        Ok(Err(error)) => tracing::debug!(peer = %client.peer, %error, "no TLS connection"),
        Err(_) => core.connections.note_slow(),
    }
}

async fn speak(
    core: &Arc<Core>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send,
    client: Client,
    spoken: Protocol,
) {
    match spoken {
        Protocol::Http(router) => serve(core, stream, &client, router).await,
        Protocol::Bolt => Box::pin(bolt::serve(core, stream, client)).await,
    }
}

/// Buffer for the first bytes of a request on an idle connection.
const IDLE_BUFFER_BYTES: usize = 32;
/// Time without a request after which a connection becomes idle.
const IDLE_AFTER: Duration = Duration::from_secs(1);

/// Serves HTTP: waits for a request, and answers while requests arrive.
async fn serve(
    core: &Arc<Core>,
    mut stream: impl AsyncRead + AsyncWrite + Unpin + Send,
    client: &Client,
    router: Router,
) {
    let limits = &core.config.limits;
    let mut stopping = core.stopping();
    let mut head_end = Some(client.accepted + limits.head_time);
    let mut waits = limits.head_time;
    loop {
        let end = head_end.unwrap_or_else(|| Instant::now() + waits);
        let mut first = [0; IDLE_BUFFER_BYTES];
        let came = tokio::select! {
            came = tokio::time::timeout_at(end, stream.read(&mut first)) => came,
            () = stop_asked(&mut stopping) => {
                // The client may have closed it already.
                let _ = tokio::time::timeout(limits.write_time, stream.shutdown()).await;
                return;
            }
        };
        let mut first = match came {
            Ok(Ok(0) | Err(_)) => return,
            Ok(Ok(count)) => Bytes::copy_from_slice(&first[..count]),
            Err(_) => return core.connections.note_slow(),
        };
        // The buffers are released at the end of this block.
        while !first.is_empty() {
            let talk = Box::pin(talk(
                core,
                stream,
                first,
                client,
                head_end.take(),
                router.clone(),
            ));
            let Some((rests, unread)) = talk.await else {
                return;
            };
            (stream, first) = (rests, unread);
        }
        waits = limits.idle_time.saturating_sub(IDLE_AFTER);
    }
}

/// Answers requests, of which the first one begins with `first`, until the connection has ended or becomes idle: then
/// it is returned with bytes that were read and not parsed. The head of the first one must arrive by `head_end`, if
/// that is given.
async fn talk<S: AsyncRead + AsyncWrite + Unpin + Send>(
    core: &Arc<Core>,
    stream: S,
    first: Bytes,
    client: &Client,
    mut head_end: Option<Instant>,
    router: Router,
) -> Option<(S, Bytes)> {
    let phase = Arc::new(Phase::of(client.slot.clone()));
    let limits = &core.config.limits;
    let timed = Timed {
        stream,
        first,
        phase: phase.clone(),
        writing: None,
        write_time: limits.write_time,
    };
    let (busy, peer) = (phase.clone(), client.peer);
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let busy = Busy::begin(&busy);
        let mut router = router.clone();
        let (mut parts, body) = request.into_parts();
        parts.extensions.insert(PeerAddress(peer.ip()));
        parts.extensions.insert(busy.0.slot.clone());
        // A client that waits for `100 Continue` withholds a body that would be discarded.
        let may_drain = !parts.headers.contains_key(header::EXPECT);
        let body = RequestBody::of(body, &busy.0);
        let answering = router.call(Request::from_parts(parts, body));
        async move {
            let response: Response<Body> = answering.await.unwrap_or_else(|never| match never {});
            let (mut parts, body) = response.into_parts();
            if let Some(unread) = busy.0.take_unread()
                && !(may_drain && drain_body(unread, &busy.0).await)
            {
                let close = HeaderValue::from_static("close");
                parts.headers.insert(header::CONNECTION, close);
            }
            Ok::<_, Infallible>(Response::from_parts(parts, Answer { body, _busy: busy }))
        }
    });
    let mut connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        // The timer below enforces all time limits.
        .header_read_timeout(None)
        .max_buf_size(limits.head_bytes.max(8 << 10))
        .max_header_size(limits.head_bytes)
        .max_headers(100)
        .half_close(false)
        .serve_connection(TokioIo::new(timed), service);
    let (mut stopping, mut stops) = (core.stopping(), false);
    let mut stop = std::pin::pin!(stop_asked(&mut stopping));
    let mut timer = std::pin::pin!(tokio::time::sleep(limits.head_time));
    let mut timed_for = None;
    // The rest of a request's body must never be taken for another request.
    let may_rest = || limits.idle_time > IDLE_AFTER && phase.is_whole.load(Ordering::Acquire);
    let end = poll_fn(|context| {
        if !stops && stop.as_mut().poll(context).is_ready() {
            stops = true;
            Pin::new(&mut connection).graceful_shutdown();
        }
        if let Poll::Ready(outcome) = Pin::new(&mut connection).poll(context) {
            return Poll::Ready(End::Over(outcome));
        }
        // Checked here and not where it is read: hyper does not poll again after it has found nothing.
        let Some(now) = phase.waits() else {
            return Poll::Pending;
        };
        if timed_for != Some(now) {
            timed_for = Some(now);
            let end = match now {
                (HEAD, 0) if head_end.is_some() => head_end.take(),
                (HEAD, _) => Some(Instant::now() + limits.head_time),
                _ if may_rest() => Some(Instant::now() + IDLE_AFTER),
                _ => Some(Instant::now() + limits.idle_time),
            };
            timer.as_mut().reset(end.unwrap_or_else(Instant::now));
        }
        ready!(timer.as_mut().poll(context));
        Poll::Ready(match now {
            (AWAITING_REQUEST, _) if may_rest() && !stops => End::Rests,
            _ => End::Slow,
        })
    })
    .await;
    match end {
        End::Rests => {
            let parts = connection.into_parts();
            return Some((parts.io.into_inner().stream, parts.read_buf));
        }
        End::Over(outcome) => {
            let is_slow = outcome.as_ref().is_err_and(is_timeout);
            if let Err(error) = outcome {
                tracing::debug!(%peer, %error, "a connection ended");
            }
            if !is_slow {
                if !phase.is_whole.load(Ordering::Acquire) {
                    linger(core, connection.into_parts().io.into_inner().stream).await;
                }
                return None;
            }
        }
        End::Slow => {}
    }
    core.connections.note_slow();
    None
}

fn is_timeout(error: &hyper::Error) -> bool {
    std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<io::Error>())
        .is_some_and(|source| source.kind() == io::ErrorKind::TimedOut)
}

/// Limit on a discarded body that keeps the connection open, and its time limit.
const DRAIN_BYTES: u64 = 256 << 10;
const DRAIN_TIME: Duration = Duration::from_secs(1);

/// Discards the rest of a request's body; false if it is too long or does not arrive.
async fn drain_body(mut body: Incoming, phase: &Phase) -> bool {
    if body.size_hint().lower() > DRAIN_BYTES {
        return false;
    }
    let draining = async {
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            let frame = frame.ok()?;
            bytes += frame.data_ref().map_or(0, Bytes::len) as u64;
            if bytes > DRAIN_BYTES {
                return None;
            }
        }
        Some(())
    };
    let is_whole = matches!(
        tokio::time::timeout(DRAIN_TIME, draining).await,
        Ok(Some(()))
    );
    if is_whole {
        phase.is_whole.store(true, Ordering::Release);
    }
    is_whole
}

/// Limit on bytes that are discarded from a connection before it is closed, and its time limit.
const LINGER_BYTES: usize = 64 << 20;
const LINGER_TIME: Duration = Duration::from_secs(5);

/// Closes a connection on which data may still arrive. If it was closed at once, the kernel would reset it, and the
/// client would lose the answer that it has not read yet.
async fn linger(core: &Core, mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut stopping = core.stopping();
    let lingering = async {
        if stream.shutdown().await.is_err() {
            return;
        }
        let mut buffer = vec![0; 16 << 10];
        let mut left = LINGER_BYTES;
        while let Ok(count @ 1..) = stream.read(&mut buffer).await {
            left = left.saturating_sub(count);
            if left == 0 {
                return;
            }
        }
    };
    tokio::select! {
        () = lingering => {}
        () = tokio::time::sleep(LINGER_TIME) => {}
        () = stop_asked(&mut stopping) => {}
    }
}

/// Why serving has ended.
enum End {
    /// The connection was closed or failed.
    Over(hyper::Result<()>),
    /// The connection became idle.
    Rests,
    /// A request takes too long to arrive.
    Slow,
}

const AWAITING_REQUEST: u8 = 0;
const HEAD: u8 = 1;
const BUSY: u8 = 2;

/// State of a connection; `round` counts its requests.
#[derive(Debug)]
struct Phase {
    slot: Arc<Slot>,
    now: AtomicU8,
    round: AtomicU64,
    /// The client does not read; sending has its own time limit.
    writes: AtomicBool,
    /// Whether the body of the last request was read to its end.
    is_whole: AtomicBool,
    /// The body of the current request, if its handler has not read it to its end.
    unread: Mutex<Option<Incoming>>,
}

impl Phase {
    fn of(slot: Arc<Slot>) -> Self {
        Self {
            slot,
            now: AtomicU8::new(AWAITING_REQUEST),
            round: AtomicU64::new(0),
            writes: AtomicBool::new(false),
            is_whole: AtomicBool::new(false),
            unread: Mutex::default(),
        }
    }

    fn take_unread(&self) -> Option<Incoming> {
        self.unread.lock().take()
    }

    /// What the connection waits for, a request or the rest of its head, and in which round; `None` if it does not
    /// wait for the client.
    fn waits(&self) -> Option<(u8, u64)> {
        let now = self.now.load(Ordering::Acquire);
        let waits = now != BUSY && !self.writes.load(Ordering::Relaxed);
        waits.then(|| (now, self.round.load(Ordering::Acquire)))
    }
}

/// A request in progress: from its head to the last byte of its answer.
struct Busy(Arc<Phase>);

impl Busy {
    fn begin(phase: &Arc<Phase>) -> Self {
        phase.now.store(BUSY, Ordering::Release);
        phase.slot.set_idle(false);
        Self(phase.clone())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.take_unread();
        self.0.slot.set_idle(true);
        self.0.round.fetch_add(1, Ordering::Release);
        self.0.now.store(AWAITING_REQUEST, Ordering::Release);
    }
}

/// A request's body, which records that it was read to its end, or else gives back the rest.
struct RequestBody {
    body: Option<Incoming>,
    phase: Arc<Phase>,
}

impl RequestBody {
    fn of(body: Incoming, phase: &Arc<Phase>) -> Body {
        let is_whole = body.is_end_stream();
        phase.is_whole.store(is_whole, Ordering::Release);
        match is_whole {
            true => Body::empty(),
            false => Body::new(Self {
                body: Some(body),
                phase: phase.clone(),
            }),
        }
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let is_whole = self.phase.is_whole.load(Ordering::Acquire);
        if !is_whole && self.phase.now.load(Ordering::Acquire) == BUSY {
            *self.phase.unread.lock() = self.body.take();
        }
    }
}

impl hyper::body::Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        let frame = ready!(Pin::new(&mut *body).poll_frame(context));
        if frame.is_none() || body.is_end_stream() {
            self.phase.is_whole.store(true, Ordering::Release);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Incoming::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body
            .as_ref()
            .map(Incoming::size_hint)
            .unwrap_or_default()
    }
}

/// An answer's body, which keeps its connection busy.
struct Answer {
    body: Body,
    _busy: Busy,
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream that tracks the state of its connection, and times out for clients that do not read.
struct Timed<S> {
    stream: S,
    /// Bytes that arrived before serving began, until they are read.
    first: Bytes,
    phase: Arc<Phase>,
    /// Set while the client does not read.
    writing: Option<Pin<Box<Sleep>>>,
    write_time: Duration,
}

fn too_slow(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, what)
}

impl<S: AsyncRead + Unpin> AsyncRead for Timed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        if !self.first.is_empty() {
            let count = self.first.len().min(buffer.remaining());
            buffer.put_slice(&self.first.split_to(count));
        }
        let mut outcome = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before && outcome.is_pending() {
            outcome = Poll::Ready(Ok(()));
        }
        if outcome.is_ready() && buffer.filled().len() > before {
            // The first bytes of a head, if it waited for one. There is no race: only this task ends a round.
            let _ = self.phase.now.compare_exchange(
                AWAITING_REQUEST,
                HEAD,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
        }
        outcome
    }
}

impl<S: AsyncWrite + Unpin> Timed<S> {
    /// Fails if the client does not read for too long.
    fn watch<T>(
        &mut self,
        context: &mut Context<'_>,
        outcome: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            if self.writing.take().is_some() {
                self.phase.writes.store(false, Ordering::Relaxed);
            }
            return outcome;
        }
        self.phase.writes.store(true, Ordering::Relaxed);
        let time = self.write_time;
        let sleep = self
            .writing
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(time)));
        match sleep.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(too_slow("the client does not read"))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Timed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(context, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.watch(context, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(context);
        self.watch(context, outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_shutdown(context);
        self.watch(context, outcome)
    }
}
