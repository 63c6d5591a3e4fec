//! Built with the feature `otel`.

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

/// The path of traces at a collector that is named without one.
const PATH: &str = "/v1/traces";
/// Longest text of a query that is told: many wait to be sent.
const MOST_TEXT: usize = 4 << 10;
/// For a collector to take a batch, and for the last batch when the server stops.
const TIME: Duration = Duration::from_secs(2);

/// Where spans come from and go to; nowhere without an endpoint.
#[derive(Debug)]
pub struct Traces(Option<Sent>);

#[derive(Debug)]
struct Sent {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    has_ended: AtomicBool,
}

/// Which traces are kept. Whoever asks may name a trace, not decide whether it is kept.
#[derive(Clone, Debug)]
struct Kept(Sampler);

impl ShouldSample for Kept {
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

/// Something that takes time, told when the last that knows it is gone.
#[derive(Clone, Debug)]
pub struct Span(Option<Context>);

impl Traces {
    /// Begins to send spans, in batches, from a thread of its own. A collector that is not there is told of in the log, and holds
    /// up nothing.
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
            .with_sampler(Kept(sampler))
            .with_resource(resource)
            .build();
        let tracer = provider.tracer("isomer");
        Ok(Self(Some(Sent {
            provider,
            tracer,
            has_ended: AtomicBool::new(false),
        })))
    }

    /// A request, within the trace that its head names.
    pub fn request(&self, method: &'static str, route: &'static str, head: &HeaderMap) -> Span {
        let Some(sent) = &self.0 else {
            return Span(None);
        };
        // What else the client says of the trace (`tracestate`) is not passed on: see `Kept`.
        let above = TraceContextPropagator::new()
            .extract_with_context(&Context::new(), &HeaderExtractor(head));
        let told = vec![
            KeyValue::new("http.request.method", method),
            KeyValue::new("http.route", route),
        ];
        sent.span(
            format!("{method} {route}"),
            SpanKind::Server,
            &above,
            || told,
        )
    }

    /// A query within a request, or by itself.
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

    /// Sends what is left. Further spans go nowhere.
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

impl Sent {
    fn span(
        &self,
        name: String,
        kind: SpanKind,
        above: &Context,
        told: impl FnOnce() -> Vec<KeyValue>,
    ) -> Span {
        let builder = self.tracer.span_builder(name).with_kind(kind);
        let span = self.tracer.build_with_context(builder, above);
        let context = above.with_span(span);
        // What nobody keeps is not even put together.
        if context.span().is_recording() {
            context.span().set_attributes(told());
        }
        Span(Some(context))
    }
}

impl Span {
    /// What a query that is in no request is within.
    pub fn none() -> Self {
        Self(None)
    }

    fn set(&self, key: &'static str, value: impl Into<opentelemetry::Value>) {
        if let Some(context) = &self.0 {
            context.span().set_attribute(KeyValue::new(key, value));
        }
    }

    /// The status of its answer; 500 and more are failures.
    pub fn answered(&self, status: u16) {
        self.set("http.response.status_code", i64::from(status));
        if status >= 500
            && let Some(context) = &self.0
        {
            context.span().set_status(Status::error(""));
        }
    }

    /// What an answer that was sent as it was found has ended with, and how many bytes of it were taken.
    pub fn ended(&self, outcome: &'static str, bytes: u64) {
        self.set("isomer.answer.outcome", outcome);
        self.set(
            "http.response.body.size",
            i64::try_from(bytes).unwrap_or(i64::MAX),
        );
    }

    /// The text of a query that runs, without its literals; of a long one its begin.
    pub fn text(&self, text: &str) {
        if let Some(context) = &self.0
            && context.span().is_recording()
        {
            let begin = &text[..text.floor_char_boundary(MOST_TEXT)];
            self.set("db.query.text", isomer_db::redact(begin));
        }
    }

    /// What a query does: read, write, schema or admin.
    pub fn class(&self, class: &'static str) {
        self.set("db.operation.name", class);
    }

    /// The kind of the error that it ended with.
    pub fn failed(&self, kind: &'static str) {
        self.set("error.type", kind);
        if let Some(context) = &self.0 {
            context.span().set_status(Status::error(kind));
        }
    }
}
