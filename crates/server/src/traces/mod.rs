//! Traces: a span for each request and each query, sent over OTLP/HTTP to a collector (feature `otel`).
//!
//! A request that bears the field `traceparent` (W3C Trace Context) belongs to the trace that it names. Texts of queries are told
//! without their literals; parameters, values, names of users and tokens are never told. Without the feature, or without an
//! endpoint, spans are nothing and cost nothing.

#[cfg(not(feature = "otel"))]
mod off;
#[cfg(feature = "otel")]
mod on;
#[cfg(feature = "otel")]
mod post;

#[cfg(not(feature = "otel"))]
pub use off::{Span, Traces};
#[cfg(feature = "otel")]
pub use on::{Span, Traces};

/// Where traces are sent to, and how many.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceOptions {
    /// The collector: `http://HOST:PORT`, or with the path of its traces.
    pub endpoint: String,
    /// What the server is called.
    pub service_name: String,
    /// Which part of the traces is kept, whether they begin here or not: 0 to 1.
    pub sample_ratio: f64,
}
