//! Answers: status, head, content, in the one form that all errors have.

use std::io::Write;

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header},
};
use isomer_db::{ErrorKind, Map, Value, json, params};
use ring::digest::{SHA256, digest};

use super::{ending::Outcome, heads};
use crate::{Result, ServerError, access::password::hex};

/// An answer.
pub struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) content: Content,
    /// Where what finds a stream notes what went wrong.
    pub(super) outcome: Outcome,
}

/// What an answer holds.
pub enum Content {
    /// Nothing.
    Empty,
    /// All of it, and its type.
    Whole(&'static str, Vec<u8>),
    /// As it is found, and its type. It is compressed already, where that was asked for.
    Stream(&'static str, Body),
}

pub(super) const JSON: &str = "application/json";
pub(super) const JSON_LINES: &str = "application/jsonl";
pub(super) const ARROW: &str = "application/vnd.apache.arrow.stream";

impl Reply {
    /// An answer without content.
    pub fn empty(status: StatusCode) -> Self {
        Self {
            status,
            headers: Vec::new(),
            content: Content::Empty,
            outcome: Outcome::default(),
        }
    }

    /// 204: it was done.
    pub fn done() -> Self {
        Self::empty(StatusCode::NO_CONTENT)
    }

    /// An answer with content.
    pub fn whole(
        status: StatusCode,
        content_type: &'static str,
        bytes: impl Into<Vec<u8>>,
    ) -> Self {
        Self {
            content: Content::Whole(content_type, bytes.into()),
            ..Self::empty(status)
        }
    }

    /// 200 with a value as JSON.
    pub fn value(value: &Value) -> Result<Self> {
        Self::value_with(StatusCode::OK, value)
    }

    /// A value as JSON.
    pub fn value_with(status: StatusCode, value: &Value) -> Result<Self> {
        Ok(Self::whole(status, JSON, json::to_string(value)?))
    }

    /// 200 with an object as JSON.
    pub fn object(map: Map) -> Result<Self> {
        Self::value(&map.into())
    }

    /// 200 with what a body gives, as it is found.
    pub fn stream(content_type: &'static str, body: Body) -> Self {
        Self {
            content: Content::Stream(content_type, body),
            ..Self::empty(StatusCode::OK)
        }
    }

    /// With the outcome that its stream notes.
    pub(super) fn with_outcome(self, outcome: Outcome) -> Self {
        Self { outcome, ..self }
    }

    /// With another field in the head. Values that cannot stand there are left out.
    pub fn with(mut self, name: HeaderName, value: impl AsRef<str>) -> Self {
        if let Ok(value) = HeaderValue::from_str(value.as_ref()) {
            self.headers.push((name, value));
        }
        self
    }

    /// With another status.
    pub fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// With the tag of its content.
    pub fn with_etag(self, tag: &str) -> Self {
        self.with(header::ETAG, tag)
    }

    /// The answer to an error.
    pub fn error(error: &ServerError) -> Self {
        let text = json::to_string(&told(error)).unwrap_or_default();
        let mut reply = Self::whole(status(error), JSON, text);
        if let ServerError::TooMany { retry_after_s, .. } = error {
            reply = reply.with(header::RETRY_AFTER, retry_after_s.to_string());
        }
        if matches!(error, ServerError::Unauthenticated(_)) {
            reply = reply.with(header::WWW_AUTHENTICATE, "Bearer realm=\"isomer\"");
        }
        reply
    }

    /// The status of the answer.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// As it goes over the wire, compressed where that helps and the client takes it.
    pub(super) fn into_response(self, asked: &HeaderMap) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        // Nothing here is a page: what a browser is tricked into loading runs nothing, and is framed by nobody.
        for (name, value) in [
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (header::CACHE_CONTROL, "no-store"),
            (header::REFERRER_POLICY, "no-referrer"),
            (header::X_FRAME_OPTIONS, "DENY"),
            (
                HeaderName::from_static("cross-origin-resource-policy"),
                "same-origin",
            ),
            (
                header::CONTENT_SECURITY_POLICY,
                "default-src 'none'; frame-ancestors 'none'",
            ),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        for (name, value) in self.headers {
            headers.insert(name, value);
        }
        match self.content {
            Content::Empty => {}
            Content::Whole(content_type, bytes) => {
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
                headers.append(header::VARY, HeaderValue::from_static(VARY));
                let packed = (WORTH_PACKING..=PACKED_AT_ONCE)
                    .contains(&bytes.len())
                    .then(|| takes_gzip(asked).then(|| pack(&bytes)))
                    .flatten();
                let bytes = match packed {
                    Some(packed) => {
                        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
                        packed
                    }
                    None => bytes,
                };
                *response.body_mut() = Body::from(Bytes::from(bytes));
            }
            Content::Stream(content_type, body) => {
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
                headers.append(header::VARY, HeaderValue::from_static(VARY));
                *response.body_mut() = body;
            }
        }
        response
    }
}

/// What the same request may ask for in its head.
const VARY: &str = "accept, accept-encoding";
/// Shorter contents are sent as they are.
const WORTH_PACKING: usize = 1024;
/// Longer ones, too, unless they are streamed: packing would hold up the thread that serves others.
const PACKED_AT_ONCE: usize = 1 << 20;

fn pack(bytes: &[u8]) -> Vec<u8> {
    pack_at(bytes, flate2::Compression::fast())
}

/// As small as it gets, for what is packed once.
pub(super) fn pack_well(bytes: &[u8]) -> Vec<u8> {
    pack_at(bytes, flate2::Compression::best())
}

fn pack_at(bytes: &[u8], level: flate2::Compression) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
    // A vector takes everything.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

/// `{"error": {"kind", "message", "retryable", "code"}}`
pub(super) fn told(error: &ServerError) -> Value {
    let mut told = params! { "kind" => error.kind(), "message" => error.to_string() };
    if error.is_retryable() {
        told.insert("retryable", true.into());
    }
    if let ServerError::Database(error) = error
        && let Some(query) = error.query_error()
    {
        told.insert("code", format!("{}.{}", query.class, query.detail).into());
    }
    params! { "error" => told }.into()
}

/// Whether the client takes gzip.
pub(super) fn takes_gzip(asked: &HeaderMap) -> bool {
    let accepted = asked.get_all(header::ACCEPT_ENCODING).iter();
    accepted
        .filter_map(|value| value.to_str().ok())
        .flat_map(|list| list.split(','))
        .map(heads::wanted)
        .any(|(name, quality)| name.eq_ignore_ascii_case("gzip") && quality > 0.0)
}

/// The status that says what an error does.
pub(crate) fn status(error: &ServerError) -> StatusCode {
    match error {
        ServerError::Database(error) => match error.kind() {
            ErrorKind::Retry | ErrorKind::Exists | ErrorKind::Cancelled => StatusCode::CONFLICT,
            ErrorKind::Invalid => StatusCode::BAD_REQUEST,
            ErrorKind::NotFound => StatusCode::NOT_FOUND,
            ErrorKind::Denied => StatusCode::FORBIDDEN,
            ErrorKind::Limit | ErrorKind::Unsupported => StatusCode::UNPROCESSABLE_ENTITY,
            ErrorKind::Unavailable | ErrorKind::Closed => StatusCode::SERVICE_UNAVAILABLE,
            ErrorKind::OutcomeUnknown | ErrorKind::Corrupt | ErrorKind::Internal => {
                StatusCode::INTERNAL_SERVER_ERROR
            }
        },
        ServerError::Unauthenticated(_) => StatusCode::UNAUTHORIZED,
        ServerError::Denied(_) => StatusCode::FORBIDDEN,
        ServerError::Invalid(_) => StatusCode::BAD_REQUEST,
        ServerError::NotFound(_) => StatusCode::NOT_FOUND,
        ServerError::Exists(_) => StatusCode::CONFLICT,
        ServerError::Precondition(_) => StatusCode::PRECONDITION_FAILED,
        ServerError::Gone(_) => StatusCode::GONE,
        ServerError::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
        ServerError::MediaType(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        ServerError::TooMany { .. } => StatusCode::TOO_MANY_REQUESTS,
        ServerError::TooSlow(_) => StatusCode::REQUEST_TIMEOUT,
        ServerError::Misdirected(_) => StatusCode::MISDIRECTED_REQUEST,
        ServerError::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        ServerError::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// The tag of a value: 128 bits of the SHA-256 of its JSON text.
pub(super) fn etag(value: &Value) -> Result<String> {
    Ok(etag_of(json::to_string(value)?.as_bytes()))
}

/// The tag of a text.
pub(super) fn etag_of(text: &[u8]) -> String {
    format!("\"{}\"", hex(&digest(&SHA256, text).as_ref()[..16]))
}

/// What `If-Match` and `If-None-Match` ask for.
#[derive(Clone, Debug, Default)]
pub(super) struct Conditions {
    matching: Option<String>,
    none_matching: Option<String>,
}

impl Conditions {
    pub(super) fn of(headers: &HeaderMap) -> Result<Self> {
        Ok(Self {
            matching: heads::list(headers, header::IF_MATCH.as_str())?,
            none_matching: heads::list(headers, header::IF_NONE_MATCH.as_str())?,
        })
    }

    /// Refuses a change of something that has this tag, or is not there.
    pub(super) fn check(&self, tag: Option<&str>) -> Result<()> {
        if let Some(matching) = &self.matching
            && !tag.is_some_and(|tag| lists(matching, tag))
        {
            return Err(ServerError::Precondition(match tag {
                Some(tag) => format!("it was changed: its ETag is {tag}"),
                None => "it is not there (any more)".into(),
            }));
        }
        if let Some(none_matching) = &self.none_matching
            && tag.is_some_and(|tag| lists(none_matching, tag))
        {
            return Err(ServerError::Precondition("it is there already".into()));
        }
        Ok(())
    }

    /// Whether the reader has what is there.
    pub(super) fn is_known(&self, tag: &str) -> bool {
        self.none_matching
            .as_ref()
            .is_some_and(|tags| lists(tags, tag))
    }
}

/// Whether a list of tags holds one; `*` holds all.
fn lists(tags: &str, tag: &str) -> bool {
    tags.split(',')
        .map(str::trim)
        .any(|one| one == "*" || one == tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_compare_tags() {
        let with = |name: &'static str, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
            Conditions::of(&headers).unwrap()
        };
        assert!(Conditions::default().check(None).is_ok());
        let matching = with("if-match", "\"a\", \"b\"");
        assert!(matching.check(Some("\"b\"")).is_ok());
        assert!(matching.check(Some("\"c\"")).is_err() && matching.check(None).is_err());
        let new = with("if-none-match", "*");
        assert!(new.check(None).is_ok() && new.check(Some("\"a\"")).is_err());
        assert!(with("if-none-match", "\"a\"").is_known("\"a\""));
    }

    #[test]
    fn gzip_is_sent_to_those_who_take_it() {
        let asked = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
            takes_gzip(&headers)
        };
        assert!(asked("gzip") && asked("br, GZIP;q=0.5"));
        assert!(!asked("br") && !asked("gzip;q=0") && !asked(""));
        assert!(!asked("gzip;q=0.00") && !asked("gzip; Q=0.000"));
    }
}
