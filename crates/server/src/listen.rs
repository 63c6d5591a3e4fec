//! Connections: how many, over TLS or not, and how slow they may be.
//!
//! A connection is *waiting* for a request, in the *head* of one, or *busy* with one; it is ended when it waits too long, when a head
//! takes too long, and when its client takes nothing of an answer for too long. One that waits for longer than a moment *rests*: it gives back the
//! buffers of its talk, about 20 KiB, and holds one to two KiB until the next request begins, or it has waited too long.

use std::{
    convert::Infallible,
    future::{Future, poll_fn},
    io,
    net::SocketAddr,
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
    http::{Request, Response},
};
use hyper::body::{Body as _, Frame, Incoming, SizeHint};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf},
    net::{TcpListener, TcpStream},
    time::{Instant, Sleep},
};
use tokio_rustls::TlsAcceptor;
use tower_service::Service;

use crate::{
    bolt,
    core::{Core, stop_asked},
    http::From,
    metrics::Gauge,
};

/// What is spoken on an address.
#[derive(Clone)]
pub enum Spoken {
    /// HTTP, answered by these routes.
    Http(Router),
    /// Bolt.
    Bolt,
}

/// Accepts connections until the server is about to stop. Those of all addresses share their places.
pub async fn accept(
    core: Arc<Core>,
    listener: TcpListener,
    spoken: Spoken,
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
                // Out of file descriptors, as a rule: others must end first.
                tracing::warn!(%error, "a connection cannot be accepted");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let Ok(place) = core.connections.clone().try_acquire_owned() else {
            core.metrics
                .connections_refused
                .fetch_add(1, Ordering::Relaxed);
            continue;
        };
        let (core, spoken, tls) = (core.clone(), spoken.clone(), tls.clone());
        tokio::spawn(async move {
            let _place = place;
            let _counted = Gauge::of(&core.metrics.connections);
            connection(&core, stream, peer, spoken, tls).await;
        });
    }
}

/// Waits until the connections that are busy have ended, for as long as they may take.
pub async fn drain(core: &Core) {
    let all = u32::try_from(core.config.limits.connections).unwrap_or(u32::MAX);
    let drained = core.connections.acquire_many(all);
    if tokio::time::timeout(core.config.limits.drain_time, drained)
        .await
        .is_err()
    {
        tracing::warn!("requests that were still at work are cut off");
    }
}

async fn connection(
    core: &Arc<Core>,
    stream: TcpStream,
    peer: SocketAddr,
    spoken: Spoken,
    tls: Option<TlsAcceptor>,
) {
    // Small answers must not wait for others.
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else {
        return speak(core, stream, peer, spoken).await;
    };
    // What is rare is kept elsewhere: each connection that is open would take the room for it.
    let accepted = Box::pin(tokio::time::timeout(
        core.config.limits.head_time,
        tls.accept(stream),
    ));
    match accepted.await {
        Ok(Ok(stream)) => Box::pin(speak(core, stream, peer, spoken)).await,
        Ok(Err(error)) => tracing::debug!(%peer, %error, "no TLS connection"),
        Err(_) => {
            core.metrics
                .connections_slow
                .fetch_add(1, Ordering::Relaxed);
        }
    }
}

async fn speak(
    core: &Arc<Core>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send,
    peer: SocketAddr,
    spoken: Spoken,
) {
    match spoken {
        Spoken::Http(router) => serve(core, stream, peer, router).await,
        Spoken::Bolt => Box::pin(bolt::serve(core, stream, peer)).await,
    }
}

/// A connection that waits has no more room than this for what comes first.
const FIRST: usize = 32;
/// A connection that had no request for so long gives back what it needs to talk.
const REST: Duration = Duration::from_secs(1);

/// Speaks HTTP: waits for a request, and talks while requests come.
async fn serve(
    core: &Arc<Core>,
    mut stream: impl AsyncRead + AsyncWrite + Unpin + Send,
    peer: SocketAddr,
    router: Router,
) {
    let limits = &core.config.limits;
    let mut stopping = core.stopping();
    let mut waits = limits.idle_time;
    loop {
        let mut first = [0; FIRST];
        let came = tokio::select! {
            came = tokio::time::timeout(waits, stream.read(&mut first)) => came,
            () = stop_asked(&mut stopping) => {
                // It may be gone already.
                let _ = tokio::time::timeout(limits.write_time, stream.shutdown()).await;
                return;
            }
        };
        let mut first = match came {
            Ok(Ok(0) | Err(_)) => return,
            Ok(Ok(count)) => Bytes::copy_from_slice(&first[..count]),
            Err(_) => {
                core.metrics
                    .connections_slow
                    .fetch_add(1, Ordering::Relaxed);
                return;
            }
        };
        // The room for talking is given back with the talk.
        while !first.is_empty() {
            let talk = Box::pin(talk(core, stream, first, peer, router.clone()));
            let Some((rests, unread)) = talk.await else {
                return;
            };
            (stream, first) = (rests, unread);
        }
        waits = limits.idle_time.saturating_sub(REST);
    }
}

/// Answers requests, of which the first one begins with `first`, until the connection has ended; or rests: then it is given back, with
/// what came and was not understood yet.
async fn talk<S: AsyncRead + AsyncWrite + Unpin + Send>(
    core: &Arc<Core>,
    stream: S,
    first: Bytes,
    peer: SocketAddr,
    router: Router,
) -> Option<(S, Bytes)> {
    let phase = Arc::new(Phase::default());
    let limits = &core.config.limits;
    let timed = Timed {
        stream,
        first,
        phase: phase.clone(),
        writing: None,
        write_time: limits.write_time,
    };
    let busy = phase.clone();
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let busy = Busy::begin(&busy);
        let mut router = router.clone();
        let (mut parts, body) = request.into_parts();
        parts.extensions.insert(From(peer.ip()));
        let body = Asked::of(body, &busy.0);
        let answering = router.call(Request::from_parts(parts, body));
        async move {
            let response: Response<Body> = answering.await.unwrap_or_else(|never| match never {});
            let (parts, body) = response.into_parts();
            Ok::<_, Infallible>(Response::from_parts(parts, Answer { body, _busy: busy }))
        }
    });
    let mut connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
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
    // What is left of a request's body must never be taken for another request.
    let may_rest = || limits.idle_time > REST && phase.is_whole.load(Ordering::Acquire);
    let end = poll_fn(|context| {
        if !stops && stop.as_mut().poll(context).is_ready() {
            stops = true;
            Pin::new(&mut connection).graceful_shutdown();
        }
        if let Poll::Ready(outcome) = Pin::new(&mut connection).poll(context) {
            return Poll::Ready(End::Over(outcome));
        }
        // Here, and not where it is read: nothing is read any more by one that has looked already and found nothing.
        let Some(now) = phase.waits() else {
            return Poll::Pending;
        };
        if timed_for != Some(now) {
            timed_for = Some(now);
            let time = match now {
                (HEAD, _) => limits.head_time,
                _ if may_rest() => REST,
                _ => limits.idle_time,
            };
            timer.as_mut().reset(Instant::now() + time);
        }
        ready!(timer.as_mut().poll(context));
        Poll::Ready(match now {
            (WAITING, _) if may_rest() && !stops => End::Rests,
            _ => End::Slow,
        })
    })
    .await;
    match end {
        End::Rests => {
            let parts = connection.into_parts();
            return Some((parts.io.into_inner().stream, parts.read_buf));
        }
        End::Over(Ok(())) => return None,
        End::Over(Err(error)) => {
            let slow = std::error::Error::source(&error)
                .and_then(|source| source.downcast_ref::<io::Error>())
                .is_some_and(|source| source.kind() == io::ErrorKind::TimedOut);
            tracing::debug!(%peer, %error, "a connection ended");
            if !slow {
                return None;
            }
        }
        End::Slow => {}
    }
    core.metrics
        .connections_slow
        .fetch_add(1, Ordering::Relaxed);
    None
}

/// Why a talk has ended.
enum End {
    /// The connection is closed, or broken.
    Over(hyper::Result<()>),
    /// Nothing was asked for a while.
    Rests,
    /// A request takes too long to come.
    Slow,
}

const WAITING: u8 = 0;
const HEAD: u8 = 1;
const BUSY: u8 = 2;

/// Where a connection is in its life; `round` counts the requests that it had.
#[derive(Debug, Default)]
struct Phase {
    now: AtomicU8,
    round: AtomicU64,
    /// The client takes nothing of an answer, which has a time of its own.
    writes: AtomicBool,
    /// The last request was read to the end of its body.
    is_whole: AtomicBool,
}

impl Phase {
    /// What is waited for, a request or the rest of its head, and in which round; nothing where the client need not do anything.
    fn waits(&self) -> Option<(u8, u64)> {
        let now = self.now.load(Ordering::Acquire);
        let waits = now != BUSY && !self.writes.load(Ordering::Relaxed);
        waits.then(|| (now, self.round.load(Ordering::Acquire)))
    }
}

/// A request at work: from its head to the last byte of its answer.
struct Busy(Arc<Phase>);

impl Busy {
    fn begin(phase: &Arc<Phase>) -> Self {
        phase.now.store(BUSY, Ordering::Release);
        Self(phase.clone())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.round.fetch_add(1, Ordering::Release);
        self.0.now.store(WAITING, Ordering::Release);
    }
}

/// A request's body, which notes that it was read to its end.
struct Asked {
    body: Incoming,
    phase: Arc<Phase>,
}

impl Asked {
    fn of(body: Incoming, phase: &Arc<Phase>) -> Body {
        let is_whole = body.is_end_stream();
        phase.is_whole.store(is_whole, Ordering::Release);
        match is_whole {
            true => Body::empty(),
            false => Body::new(Self {
                body,
                phase: phase.clone(),
            }),
        }
    }
}

impl hyper::body::Body for Asked {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if frame.is_none() || self.body.is_end_stream() {
            self.phase.is_whole.store(true, Ordering::Release);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
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

/// A stream that notes where its connection is, and gives up on those who take nothing.
struct Timed<S> {
    stream: S,
    /// What came before it talked, until that was read.
    first: Bytes,
    phase: Arc<Phase>,
    /// Set while the client takes nothing.
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
            // The first bytes of a head, if it waited for one. It is not overtaken: only this task ends a round.
            let _ =
                self.phase
                    .now
                    .compare_exchange(WAITING, HEAD, Ordering::AcqRel, Ordering::Acquire);
        }
        outcome
    }
}

impl<S: AsyncWrite + Unpin> Timed<S> {
    /// Ends a stream whose client takes nothing for too long.
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
            Poll::Ready(()) => Poll::Ready(Err(too_slow("the client takes nothing"))),
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
