//! Streamed answers: a piece is produced on a blocking thread when the connection is ready for it; between pieces no
//! thread is held. A slow reader holds its snapshot and one piece, until the source's deadline at most: then the source
//! is dropped even if the connection never becomes ready for another piece. The answer breaks off if its client's right
//! is revoked.

use std::{
    io::Write,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::body::{Body, Bytes};
use futures_util::stream;
use isomer_db::CancelHandle;
use parking_lot::Mutex;
use tokio::task::{AbortHandle, JoinHandle};

use super::credentials::RequestCredentials;
use crate::{
    Result, ServerError,
    core::{Core, bug},
    sending::{Reserved, bytes_with},
};

/// Approximate size of a piece.
const PIECE_BYTES: usize = 64 << 10;
/// Time after which a piece is sent, however small it is.
const PIECE_TIME: Duration = Duration::from_millis(100);

/// The remaining running time of a source, and how to cancel it.
pub type Limit = Option<(Option<Duration>, CancelHandle)>;

/// A source of pieces.
pub trait Source: Send + 'static {
    /// The next piece, and whether there are more; space for large parts is taken from `reserved`. After an error, the
    /// answer breaks off.
    fn piece(&mut self, reserved: &mut Reserved) -> Result<(Vec<u8>, bool)>;

    /// Called before each piece: the remaining running time, and how to cancel it then or when the client has
    /// disconnected. The time in which the client reads does not count.
    fn limit(&mut self) -> Limit {
        None
    }

    /// Called with the time that a piece took.
    fn record_time(&mut self, _time: Duration) {}

    /// Deadline by the clock, which includes the time in which the client reads.
    fn end(&self) -> Option<Instant> {
        None
    }

    /// Ends it after its deadline: returns the last bytes, or an error, with which the answer breaks off.
    fn expire(self) -> Result<Vec<u8>>
    where
        Self: Sized,
    {
        Err(ServerError::query_too_slow())
    }
}

/// Collects a piece of lines: `next` appends one or several, and returns whether there are more.
pub fn piece(mut next: impl FnMut(&mut String) -> Result<bool>) -> Result<(Vec<u8>, bool)> {
    let began = Instant::now();
    let mut text = String::with_capacity(PIECE_BYTES + 4096);
    let mut more = true;
    while more && text.len() < PIECE_BYTES && began.elapsed() < PIECE_TIME {
        more = next(&mut text)?;
    }
    Ok((text.into_bytes(), more))
}

struct Pieces<S> {
    core: Arc<Core>,
    credentials: RequestCredentials,
    source: S,
    packer: Option<flate2::write::GzEncoder<Vec<u8>>>,
}

/// A body of the pieces of `source`, compressed if requested.
pub(super) fn body(
    core: &Arc<Core>,
    credentials: RequestCredentials,
    source: impl Source,
    gzip: bool,
) -> Body {
    body_of(None, Some(Pieces::new(core, credentials, source, gzip)))
}

/// Like [`body`], for formats that cannot represent errors: the first piece is produced before the head is sent, so
/// that an early error is an ordinary error answer.
pub(super) async fn begun(
    core: &Arc<Core>,
    credentials: RequestCredentials,
    source: impl Source,
    gzip: bool,
) -> Result<Body> {
    let (first, rest) = Pieces::new(core, credentials, source, gzip).make().await?;
    Ok(body_of(Some(first), rest))
}

fn body_of<S: Source>(first: Option<Bytes>, rest: Option<Pieces<S>>) -> Body {
    let state = (first, rest.map(Stored::new));
    let next = |(first, stored): (Option<Bytes>, Option<Stored<S>>)| async move {
        if let Some(first) = first {
            return Ok::<_, std::io::Error>(Some((first, (None, stored))));
        }
        let Some(stored) = stored else {
            return Ok(None);
        };
        let made = stored.next().await;
        match made {
            Ok((piece, more)) => Ok(Some((piece, (None, more.then_some(stored))))),
            Err(error) => {
                tracing::warn!(%error, "an answer broke off");
                Err(std::io::Error::other(error))
            }
        }
    };
    Body::from_stream(stream::try_unfold(state, next))
}

/// The remaining pieces of an answer while its client reads, and the timer that ends them.
struct Stored<S> {
    state: Arc<Mutex<State<S>>>,
    timer: Option<AbortHandle>,
}

enum State<S> {
    /// No piece is being produced.
    Waiting(Pieces<S>),
    /// A piece is being produced, within the limit of its source; or there are no more.
    Taken,
    /// The deadline has passed; the last bytes.
    Expired(JoinHandle<Result<Bytes>>),
}

impl<S> Drop for Stored<S> {
    fn drop(&mut self) {
        if let Some(timer) = &self.timer {
            timer.abort();
        }
    }
}

impl<S: Source> Stored<S> {
    fn new(pieces: Pieces<S>) -> Self {
        let end = pieces.source.end();
        let state = Arc::new(Mutex::new(State::Waiting(pieces)));
        let timer = end.map(|end| {
            let state = Arc::downgrade(&state);
            let timer = async move {
                tokio::time::sleep_until(end.into()).await;
                if let Some(state) = state.upgrade() {
                    state.lock().expire();
                }
            };
            tokio::spawn(timer).abort_handle()
        });
        Self { state, timer }
    }

    /// The next piece, and whether there are more.
    async fn next(&self) -> Result<(Bytes, bool)> {
        let state = std::mem::replace(&mut *self.state.lock(), State::Taken);
        let pieces = match state {
            State::Waiting(pieces) => pieces,
            State::Taken => return Ok((Bytes::new(), false)),
            State::Expired(last) => {
                let last = last.await;
                return Ok((last.map_err(|_| bug())??, false));
            }
        };
        let (piece, rest) = pieces.make().await?;
        let Some(rest) = rest else {
            return Ok((piece, false));
        };
        let end = rest.source.end();
        let mut state = self.state.lock();
        *state = State::Waiting(rest);
        // The timer may have fired while the piece was in production. The clock is read under the lock, so that a
        // timer that fires later finds the source waiting.
        if end.is_some_and(|end| end <= Instant::now()) {
            state.expire();
        }
        Ok((piece, true))
    }
}

impl<S: Source> State<S> {
    /// Ends the source on a blocking thread, unless a piece is being produced: dropping it may have to roll back.
    fn expire(&mut self) {
        match std::mem::replace(self, Self::Taken) {
            Self::Waiting(pieces) => {
                *self = Self::Expired(tokio::task::spawn_blocking(move || pieces.expire()));
            }
            other => *self = other,
        }
    }
}

/// Cancels the production of a piece when dropped: the client has disconnected.
struct CancelOnDrop(Option<CancelHandle>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        if let Some(stop) = &self.0 {
            stop.cancel();
        }
    }
}

impl<S: Source> Pieces<S> {
    fn new(core: &Arc<Core>, credentials: RequestCredentials, source: S, gzip: bool) -> Self {
        let packer =
            gzip.then(|| flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
        Self {
            core: core.clone(),
            credentials,
            source,
            packer,
        }
    }

    /// Produces the next piece on a blocking thread, within the time limit of its source.
    async fn make(mut self) -> Result<(Bytes, Option<Self>)> {
        let core = self.core.clone();
        let (left, stop) = self.source.limit().unzip();
        let mut gone = CancelOnDrop(stop.clone());
        let mut making = std::pin::pin!(core.blocking(move || self.piece()));
        let made = match (left.flatten(), stop) {
            (Some(left), Some(stop)) => tokio::select! {
                made = making.as_mut() => made,
                () = tokio::time::sleep(left) => {
                    stop.cancel();
                    making.await
                }
            },
            _ => making.await,
        };
        gone.0 = None;
        made
    }

    /// The next piece, and the stream after it.
    fn piece(mut self) -> Result<(Bytes, Option<Self>)> {
        self.credentials.check(&self.core)?;
        let began = Instant::now();
        let mut reserved = Reserved::new(&self.core.databases);
        let (piece, more) = self.source.piece(&mut reserved)?;
        self.source.record_time(began.elapsed());
        reserved.resize(piece.capacity())?;
        let Some(mut packer) = self.packer.take() else {
            let bytes = bytes_with(piece, reserved.into_reservation());
            return Ok((bytes, more.then_some(self)));
        };
        // Writing to a vector cannot fail.
        let _ = packer.write_all(&piece);
        drop(piece);
        let (bytes, rest) = if more {
            let _ = packer.flush();
            let bytes = std::mem::take(packer.get_mut());
            self.packer = Some(packer);
            (bytes, Some(self))
        } else {
            (packer.finish().unwrap_or_default(), None)
        };
        // It is hardly longer than what was packed.
        let _ = reserved.resize(bytes.capacity());
        Ok((bytes_with(bytes, reserved.into_reservation()), rest))
    }

    /// The last bytes of an answer whose deadline has passed.
    fn expire(self) -> Result<Bytes> {
        let last = self.source.expire()?;
        let Some(mut packer) = self.packer else {
            return Ok(Bytes::from(last));
        };
        // Writing to a vector cannot fail.
        let _ = packer.write_all(&last);
        Ok(Bytes::from(packer.finish().unwrap_or_default()))
    }
}
