//! Tracks streamed answers to their end, whichever side ends them.
//!
//! The head of such an answer is sent before its result is known: its query is still running, its client may
//! disconnect, and errors are reported in the body. So the request's span and its line in the log are written after
//! the last byte, or when the body is dropped.

use std::{
    error::Error,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Instant,
};

use axum::{
    body::{Body, Bytes},
    http::{Response, header},
};
use hyper::body::{Body as _, Frame, SizeHint};

use super::{outcome::Outcome, route::Route};
use crate::{ServerError, traces::Span};

/// A request whose answer is being sent.
pub(super) struct Request {
    pub(super) route: &'static Route,
    pub(super) began: Instant,
    pub(super) status: u16,
    /// Ends with this value.
    pub(super) span: Option<Span>,
}

impl Request {
    /// Tracks an answer. A `HEAD` request has no body to wait for.
    pub(super) fn follow(self, response: Response<Body>, outcome: Outcome) -> Response<Body> {
        let length = response.headers().get(header::CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
        response.map(|body| {
            Body::new(Followed {
                body,
                length,
                sent: 0,
                is_whole: false,
                outcome,
                request: self,
            })
        })
    }
}

/// A tracked body.
struct Followed {
    body: Body,
    /// Its length, if the head has it.
    length: Option<u64>,
    sent: u64,
    is_whole: bool,
    outcome: Outcome,
    request: Request,
}

impl hyper::body::Body for Followed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        match &frame {
            None => self.is_whole = true,
            Some(Ok(frame)) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                self.sent += bytes as u64;
                // The body may not be polled again after the last byte.
                self.is_whole = self.body.is_end_stream() || self.length == Some(self.sent);
            }
            Some(Err(error)) => self.outcome.failed(kind(error)),
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

/// The kind of error that broke off a body.
fn kind(error: &axum::Error) -> &'static str {
    let own = || {
        let error = error.source()?.downcast_ref::<io::Error>()?;
        error.get_ref()?.downcast_ref::<ServerError>()
    };
    own().map_or("Unavailable", ServerError::kind)
}

impl Drop for Followed {
    fn drop(&mut self) {
        let Request {
            route,
            began,
            status,
            span,
        } = &self.request;
        let outcome = match self.outcome.kind() {
            Some(kind) => kind,
            None if self.is_whole || self.body.is_end_stream() => "complete",
            None => "client gone",
        };
        if let Some(span) = span {
            span.ended(outcome, self.sent);
            if let Some(kind) = self.outcome.kind() {
                span.failed(kind);
            }
        }
        tracing::debug!(
            method = route.method,
            route = route.path,
            status,
            took_ms = began.elapsed().as_secs_f64() * 1e3,
            bytes = self.sent,
            outcome,
            "an answer has ended"
        );
    }
}
