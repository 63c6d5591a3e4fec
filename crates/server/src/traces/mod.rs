//! Traces: a span for each request and each query, sent over OTLP/HTTP to a collector (feature `otel`).
//!
//! A request with the header `traceparent` (W3C Trace Context) belongs to that trace. Texts of queries are recorded
//! without their literals; parameters, values, names of users and tokens are never recorded. Without the feature, or
//! without an endpoint, spans are empty and cost nothing.

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

/// Where traces are sent, and how many.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceOptions {
    /// The collector: `http://HOST:PORT`, optionally with a path.
    pub endpoint: String,
    /// Service name.
    pub service_name: String,
    /// Fraction of the traces that is kept, wherever they begin: 0 to 1.
    pub sample_ratio: f64,
}
