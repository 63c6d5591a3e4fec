//! Answers that are found while they are sent: a piece is made when the connection takes one, on a thread that may wait,
//! and given back in between. A slow reader holds its snapshot and one piece, no thread.

use std::{
    io::Write,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::body::{Body, Bytes};
use futures_util::stream;
use isomer_db::CancelHandle;

use crate::{Result, core::Core};

/// Bytes of a piece, about.
const PIECE_BYTES: usize = 64 << 10;
/// A piece is sent after so long, however small it is.
const PIECE_TIME: Duration = Duration::from_millis(100);

/// Where lines come from.
pub trait Source: Send + 'static {
    /// Appends the next line, or lines, to `out`; false at the end. What goes wrong is told in a line of its own.
    fn next(&mut self, out: &mut String) -> Result<bool>;

    /// Asked before each piece: how long it may still work, and what stops it then, or when the client has gone away. The
    /// time in which the client reads does not count.
    fn limit(&mut self) -> Option<(Option<Duration>, CancelHandle)> {
        None
    }

    /// Tells it that a piece took so long.
    fn worked(&mut self, _time: Duration) {}
}

struct Lines<S> {
    core: Arc<Core>,
    source: S,
    packer: Option<flate2::write::GzEncoder<Vec<u8>>>,
}

/// A body of what `source` gives, compressed where that is asked for.
pub fn body(core: &Arc<Core>, source: impl Source, gzip: bool) -> Body {
    let packer =
        gzip.then(|| flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    let lines = Lines {
        core: core.clone(),
        source,
        packer,
    };
    Body::from_stream(stream::try_unfold(Some(lines), |lines| async move {
        let Some(mut lines) = lines else {
            return Ok::<_, std::io::Error>(None);
        };
        let core = lines.core.clone();
        let (left, stop) = lines.source.limit().unzip();
        let mut gone = Gone(stop.clone());
        let mut making = std::pin::pin!(core.blocking(move || lines.piece()));
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
        made.map(Some)
            .map_err(|error| std::io::Error::other(error.to_string()))
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

impl<S: Source> Lines<S> {
    /// The next piece, and what comes after it.
    fn piece(mut self) -> Result<(Bytes, Option<Self>)> {
        let began = Instant::now();
        let mut text = String::with_capacity(PIECE_BYTES + 4096);
        let mut more = true;
        while more && text.len() < PIECE_BYTES && began.elapsed() < PIECE_TIME {
            more = self.source.next(&mut text)?;
        }
        self.source.worked(began.elapsed());
        let Some(mut packer) = self.packer.take() else {
            return Ok((Bytes::from(text), more.then_some(self)));
        };
        // A vector takes everything.
        let _ = packer.write_all(text.as_bytes());
        if !more {
            return Ok((Bytes::from(packer.finish().unwrap_or_default()), None));
        }
        let _ = packer.flush();
        let bytes = std::mem::take(packer.get_mut());
        self.packer = Some(packer);
        Ok((Bytes::from(bytes), Some(self)))
    }
}
