//! Answers that are found while they are sent: a piece is made when the connection takes one, on a thread that may wait,
//! and given back in between. A slow reader holds its snapshot and one piece, no thread. The answer breaks off when its client would
//! not be let in any more.

use std::{
    io::Write,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::body::{Body, Bytes};
use futures_util::stream;
use isomer_db::CancelHandle;

use super::shown::Shown;
use crate::{Result, core::Core};

/// Bytes of a piece, about.
const PIECE_BYTES: usize = 64 << 10;
/// A piece is sent after so long, however small it is.
const PIECE_TIME: Duration = Duration::from_millis(100);

/// How long something may still work, and what stops it then.
pub type Limit = Option<(Option<Duration>, CancelHandle)>;

/// Where pieces come from.
pub trait Source: Send + 'static {
    /// The next piece, and whether there are more. After an error the answer breaks off.
    fn piece(&mut self) -> Result<(Vec<u8>, bool)>;

    /// Asked before each piece: how long it may still work, and what stops it then, or when the client has gone away. The
    /// time in which the client reads does not count.
    fn limit(&mut self) -> Limit {
        None
    }

    /// Tells it that a piece took so long.
    fn worked(&mut self, _time: Duration) {}
}

/// A piece of lines: `next` appends one or some, and says whether there are more.
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
    shown: Shown,
    source: S,
    packer: Option<flate2::write::GzEncoder<Vec<u8>>>,
}

/// A body of what `source` gives, compressed where that is asked for.
pub(super) fn body(core: &Arc<Core>, shown: Shown, source: impl Source, gzip: bool) -> Body {
    body_of(None, Some(Pieces::new(core, shown, source, gzip)))
}

/// As [`body`], for what has no words for errors: the first piece is made before anything is sent, so that what goes wrong until
/// then is an answer of its own.
pub(super) async fn begun(
    core: &Arc<Core>,
    shown: Shown,
    source: impl Source,
    gzip: bool,
) -> Result<Body> {
    let (first, rest) = Pieces::new(core, shown, source, gzip).make().await?;
    Ok(body_of(Some(first), rest))
}

fn body_of<S: Source>(first: Option<Bytes>, rest: Option<Pieces<S>>) -> Body {
    Body::from_stream(stream::try_unfold((first, rest), |(first, rest)| async {
        match (first, rest) {
            (Some(first), rest) => Ok::<_, std::io::Error>(Some((first, (None, rest)))),
            (None, None) => Ok(None),
            (None, Some(pieces)) => match pieces.make().await {
                Ok((piece, rest)) => Ok(Some((piece, (None, rest)))),
                Err(error) => {
                    tracing::warn!(%error, "an answer broke off");
                    Err(std::io::Error::other(error))
                }
            },
        }
    }))
}

/// Stops what makes a piece when nobody waits for it any more: the client has gone away.
struct Gone(Option<CancelHandle>);

impl Drop for Gone {
    fn drop(&mut self) {
        if let Some(stop) = &self.0 {
            stop.cancel();
        }
    }
}

impl<S: Source> Pieces<S> {
    fn new(core: &Arc<Core>, shown: Shown, source: S, gzip: bool) -> Self {
        let packer =
            gzip.then(|| flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
        Self {
            core: core.clone(),
            shown,
            source,
            packer,
        }
    }

    /// Makes the next piece on a thread that may wait, within the time of its source.
    async fn make(mut self) -> Result<(Bytes, Option<Self>)> {
        let core = self.core.clone();
        let (left, stop) = self.source.limit().unzip();
        let mut gone = Gone(stop.clone());
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

    /// The next piece, and what comes after it.
    fn piece(mut self) -> Result<(Bytes, Option<Self>)> {
        self.shown.check(&self.core)?;
        let began = Instant::now();
        let (piece, more) = self.source.piece()?;
        self.source.worked(began.elapsed());
        let Some(mut packer) = self.packer.take() else {
            return Ok((Bytes::from(piece), more.then_some(self)));
        };
        // A vector takes everything.
        let _ = packer.write_all(&piece);
        if !more {
            return Ok((Bytes::from(packer.finish().unwrap_or_default()), None));
        }
        let _ = packer.flush();
        let bytes = std::mem::take(packer.get_mut());
        self.packer = Some(packer);
        Ok((Bytes::from(bytes), Some(self)))
    }
}
