//! Connections: how many, over TLS or not, and how slow they may be.
//!
//! A connection is *waiting* for a request, in the *head* of one, or *busy* with one; [`Timed`] ends it when it waits too
//! long, when a head takes too long, and when its client takes nothing of an answer for too long.

use std::{
    convert::Infallible,
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    http::{Request, Response},
};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
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
    match tokio::time::timeout(core.config.limits.head_time, tls.accept(stream)).await {
        Ok(Ok(stream)) => speak(core, stream, peer, spoken).await,
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
        Spoken::Bolt => bolt::serve(core, stream, peer).await,
    }
}

async fn serve(
    core: &Arc<Core>,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    peer: SocketAddr,
    router: Router,
) {
    let phase = Arc::new(Phase::default());
    let limits = &core.config.limits;
    let timed = Timed {
        stream,
        phase: phase.clone(),
        seen: (WAITING, 0),
        reading: Box::pin(tokio::time::sleep(limits.idle_time)),
        writing: None,
        head_time: limits.head_time,
        idle_time: limits.idle_time,
        write_time: limits.write_time,
    };
    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
        let busy = Busy::begin(&phase);
        let mut router = router.clone();
        let (mut parts, body) = request.into_parts();
        parts.extensions.insert(From(peer.ip()));
        let answering = router.call(Request::from_parts(parts, Body::new(body)));
        async move {
            let response: Response<Body> = answering.await.unwrap_or_else(|never| match never {});
            let (parts, body) = response.into_parts();
            Ok::<_, Infallible>(Response::from_parts(parts, Answer { body, _busy: busy }))
        }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_buf_size(limits.head_bytes.max(8 << 10))
        .max_header_size(limits.head_bytes)
        .max_headers(100)
        .half_close(false)
        .serve_connection(TokioIo::new(timed), service);
    let mut connection = std::pin::pin!(connection);
    let mut stopping = core.stopping();
    let outcome = tokio::select! {
        outcome = connection.as_mut() => outcome,
        () = stop_asked(&mut stopping) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = outcome {
        let slow = std::error::Error::source(&error)
            .and_then(|source| source.downcast_ref::<io::Error>())
            .is_some_and(|source| source.kind() == io::ErrorKind::TimedOut);
        if slow {
            core.metrics
                .connections_slow
                .fetch_add(1, Ordering::Relaxed);
        }
        tracing::debug!(%peer, %error, "a connection ended");
    }
}

const WAITING: u8 = 0;
const HEAD: u8 = 1;
const BUSY: u8 = 2;

/// Where a connection is in its life; `round` counts the requests that it had.
#[derive(Debug, Default)]
struct Phase {
    now: AtomicU8,
    round: AtomicU64,
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

/// A stream that gives up on those who are too slow.
struct Timed<S> {
    stream: S,
    phase: Arc<Phase>,
    /// The phase and round for which `reading` was set.
    seen: (u8, u64),
    reading: Pin<Box<Sleep>>,
    /// Set while the client takes nothing.
    writing: Option<Pin<Box<Sleep>>>,
    head_time: Duration,
    idle_time: Duration,
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
        let outcome = Pin::new(&mut self.stream).poll_read(context, buffer);
        let mut now = self.phase.now.load(Ordering::Acquire);
        if outcome.is_ready() && buffer.filled().len() > before && now == WAITING {
            // The first bytes of a head. It is not overtaken: only this task ends a round.
            let begun =
                self.phase
                    .now
                    .compare_exchange(WAITING, HEAD, Ordering::AcqRel, Ordering::Acquire);
            now = begun.map_or_else(|other| other, |_| HEAD);
        }
        let seen = (now, self.phase.round.load(Ordering::Acquire));
        if seen != self.seen {
            self.seen = seen;
            let time = if now == HEAD {
                self.head_time
            } else {
                self.idle_time
            };
            self.reading.as_mut().reset(Instant::now() + time);
        }
        if outcome.is_pending() && now != BUSY && self.reading.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(too_slow("no request came in time")));
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
            self.writing = None;
            return outcome;
        }
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
