//! Stub without the feature `otel`: nothing is traced.

use axum::http::HeaderMap;

use super::TraceOptions;
use crate::{Result, ServerError};

/// Traces nothing.
#[derive(Debug)]
pub struct Traces;

/// An empty span.
#[derive(Clone, Debug)]
pub struct Span;

impl Traces {
    /// Refuses an endpoint, as nothing would be sent to it.
    pub fn new(options: Option<&TraceOptions>) -> Result<Self> {
        match options {
            None => Ok(Self),
            Some(_) => Err(ServerError::Invalid(
                "this binary was built without traces: unset `traces.endpoint`, or build with `--features otel`"
                    .into(),
            )),
        }
    }

    /// An empty span.
    pub fn request(&self, _method: &'static str, _route: &'static str, _head: &HeaderMap) -> Span {
        Span
    }

    /// An empty span.
    pub fn query(&self, _parent: &Span, _database: &str) -> Span {
        Span
    }

    /// Nothing to flush.
    pub fn end(&self) {}
}

impl Span {
    /// An empty span, as the parent of a query without a request.
    pub fn none() -> Self {
        Self
    }

    /// Does nothing.
    pub fn answered(&self, _status: u16) {}

    /// Does nothing.
    pub fn ended(&self, _outcome: &'static str, _bytes: u64) {}

    /// Does nothing.
    pub fn text(&self, _text: &str) {}

    /// Does nothing.
    pub fn class(&self, _class: &'static str) {}

    /// Does nothing.
    pub fn failed(&self, _kind: &'static str) {}
}
