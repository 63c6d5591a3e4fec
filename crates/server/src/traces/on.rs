//! Implementation with the feature `otel`.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use axum::http::HeaderMap;
use opentelemetry::{
    Context, KeyValue,
    propagation::TextMapPropagator,
    trace::{Link, SpanKind, Status, TraceContextExt, TraceId, TraceState, Tracer, TracerProvider},
};
use opentelemetry_http::HeaderExtractor;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::{
    Resource,
    propagation::TraceContextPropagator,
    trace::{
        Sampler, SamplingDecision, SamplingResult, SdkTracer, SdkTracerProvider, ShouldSample,
    },
};

use super::{TraceOptions, post::Post};
use crate::{Result, ServerError};

/// The default path of traces at a collector.
const PATH: &str = "/v1/traces";
/// Longest recorded text of a query: many spans may be queued.
const MAX_TEXT_BYTES: usize = 4 << 10;
/// Time limit for sending a batch, and for the last batch at shutdown.
const TIME: Duration = Duration::from_secs(2);

/// The tracer and its exporter; `None` without an endpoint.
#[derive(Debug)]
pub struct Traces(Option<Exporter>);

#[derive(Debug)]
struct Exporter {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    has_ended: AtomicBool,
}

/// The sampler. Clients may choose a trace id, but not whether it is sampled.
#[derive(Clone, Debug)]
struct ServerSampler(Sampler);

impl ShouldSample for ServerSampler {
    fn should_sample(
        &self,
        above: Option<&Context>,
        trace: TraceId,
        name: &str,
        kind: &SpanKind,
        attributes: &[KeyValue],
        links: &[Link],
    ) -> SamplingResult {
        let above = above.map(|above| above.span().span_context().clone());
        let own = above.filter(|above| above.is_valid() && !above.is_remote());
        let decision = match own {
            Some(own) if own.is_sampled() => SamplingDecision::RecordAndSample,
            Some(_) => SamplingDecision::Drop,
            None => {
                self.0
                    .should_sample(None, trace, name, kind, attributes, links)
                    .decision
            }
        };
        SamplingResult {
            decision,
            attributes: Vec::new(),
            trace_state: TraceState::default(),
        }
    }
}

/// A span, which is reported when the last reference is dropped.
#[derive(Clone, Debug)]
pub struct Span(Option<Context>);

impl Traces {
    /// Starts sending spans, in batches, on a background thread. If the collector cannot be reached, this is logged,
    /// and nothing blocks.
    pub fn new(options: Option<&TraceOptions>) -> Result<Self> {
        let Some(options) = options else {
            return Ok(Self(None));
        };
        let wrong = |why: String| ServerError::Invalid(format!("`traces.endpoint`: {why}"));
        let post = Post::new(&options.endpoint, TIME).map_err(wrong)?;
        let endpoint = match post.has_path() {
            true => options.endpoint.clone(),
            false => format!("{}{PATH}", options.endpoint.trim_end_matches('/')),
        };
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(post)
            .with_endpoint(endpoint)
            .with_protocol(Protocol::HttpBinary)
            .with_timeout(TIME)
            .build()
            .map_err(|error| wrong(error.to_string()))?;
        let sampler = Sampler::TraceIdRatioBased(options.sample_ratio);
        let resource = Resource::builder()
            .with_service_name(options.service_name.clone())
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_sampler(ServerSampler(sampler))
            .with_resource(resource)
            .build();
        let tracer = provider.tracer("isomer");
        Ok(Self(Some(Exporter {
            provider,
            tracer,
            has_ended: AtomicBool::new(false),
        })))
    }

    /// The span of a request, within the trace of its `traceparent`.
    pub fn request(&self, method: &'static str, route: &'static str, head: &HeaderMap) -> Span {
        let Some(sent) = &self.0 else {
            return Span(None);
        };
        // `tracestate` is not passed on: see `ServerSampler`.
        let above = TraceContextPropagator::new()
            .extract_with_context(&Context::new(), &HeaderExtractor(head));
        let attributes = vec![
            KeyValue::new("http.request.method", method),
            KeyValue::new("http.route", route),
        ];
        sent.span(
            format!("{method} {route}"),
            SpanKind::Server,
            &above,
            || attributes,
        )
    }

    /// The span of a query, within a request or without one.
    pub fn query(&self, parent: &Span, database: &str) -> Span {
        let Some(sent) = &self.0 else {
            return Span(None);
        };
        let (above, kind) = match &parent.0 {
            Some(context) => (context.clone(), SpanKind::Internal),
            None => (Context::new(), SpanKind::Server),
        };
        sent.span("query".into(), kind, &above, || {
            vec![
                KeyValue::new("db.system.name", "isomerdb"),
                KeyValue::new("db.namespace", database.to_owned()),
            ]
        })
    }

    /// Sends what is queued. Further spans are discarded.
    pub fn end(&self) {
        let Some(sent) = &self.0 else {
            return;
        };
        if !sent.has_ended.swap(true, Ordering::Relaxed)
            && let Err(error) = sent.provider.shutdown_with_timeout(TIME)
        {
            tracing::warn!(%error, "the last traces were not sent");
        }
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        self.end();
    }
}

impl Exporter {
    fn span(
        &self,
        name: String,
        kind: SpanKind,
        above: &Context,
        attributes: impl FnOnce() -> Vec<KeyValue>,
    ) -> Span {
        let builder = self.tracer.span_builder(name).with_kind(kind);
        let span = self.tracer.build_with_context(builder, above);
        let context = above.with_span(span);
        // Attributes of spans that are not sampled are not even computed.
        if context.span().is_recording() {
            context.span().set_attributes(attributes());
        }
        Span(Some(context))
    }
}

impl Span {
    /// No parent, for a query without a request.
    pub fn none() -> Self {
        Self(None)
    }

    fn set(&self, key: &'static str, value: impl Into<opentelemetry::Value>) {
        if let Some(context) = &self.0 {
            context.span().set_attribute(KeyValue::new(key, value));
        }
    }

    /// Records the status of the answer; 500 and above are errors.
    pub fn answered(&self, status: u16) {
        self.set("http.response.status_code", i64::from(status));
        if status >= 500
            && let Some(context) = &self.0
        {
            context.span().set_status(Status::error(""));
        }
    }

    /// Records how a streamed answer has ended, and how many bytes of it were sent.
    pub fn ended(&self, outcome: &'static str, bytes: u64) {
        self.set("isomer.answer.outcome", outcome);
        self.set(
            "http.response.body.size",
            i64::try_from(bytes).unwrap_or(i64::MAX),
        );
    }

    /// Records the text of a query without its literals, truncated if long.
    pub fn text(&self, text: &str) {
        if let Some(context) = &self.0
            && context.span().is_recording()
        {
            let begin = &text[..text.floor_char_boundary(MAX_TEXT_BYTES)];
            self.set("db.query.text", isomer_db::internals::redact(begin));
        }
    }

    /// Records the class of a query: read, write, schema or admin.
    pub fn class(&self, class: &'static str) {
        self.set("db.operation.name", class);
    }

    /// Records the kind of an error.
    pub fn failed(&self, kind: &'static str) {
        self.set("error.type", kind);
        if let Some(context) = &self.0 {
            context.span().set_status(Status::error(kind));
        }
    }
}
