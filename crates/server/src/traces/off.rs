//! Built without the feature `otel`: nothing is traced.

use axum::http::HeaderMap;

use super::TraceOptions;
use crate::{Result, ServerError};

/// Traces nothing.
#[derive(Debug)]
pub struct Traces;

/// No span.
#[derive(Clone, Debug)]
pub struct Span;

impl Traces {
    /// Refuses an endpoint, which nothing would be sent to.
    pub fn new(options: Option<&TraceOptions>) -> Result<Self> {
        match options {
            None => Ok(Self),
            Some(_) => Err(ServerError::Invalid(
                "this binary was built without traces: leave `traces.endpoint` away, or build it with `--features otel`"
                    .into(),
            )),
        }
    }

    /// No span.
    pub fn request(&self, _method: &'static str, _route: &'static str, _head: &HeaderMap) -> Span {
        Span
    }

    /// No span.
    pub fn query(&self, _parent: &Span, _database: &str) -> Span {
        Span
    }

    /// Nothing is left to send.
    pub fn end(&self) {}
}

impl Span {
    /// What a query that is in no request is within.
    pub fn none() -> Self {
        Self
    }

    /// Notes nothing.
    pub fn answered(&self, _status: u16) {}

    /// Notes nothing.
    pub fn ended(&self, _outcome: &'static str, _bytes: u64) {}

    /// Notes nothing.
    pub fn text(&self, _text: &str) {}

    /// Notes nothing.
    pub fn class(&self, _class: &'static str) {}

    /// Notes nothing.
    pub fn failed(&self, _kind: &'static str) {}
}
