//! Answers: status, header fields, content; all errors have the same form.

use std::io::Write;

use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header},
};
use isomer_db::{ErrorKind, Map, Value, internals::data::Reservation, json, params};
use ring::digest::{SHA256, digest};

use super::{heads, outcome::Outcome};
use crate::{
    Result, ServerError,
    access::password::hex,
    core::Core,
    sending::{RESERVED_FROM, Reserved, bytes_with},
};

/// An answer.
pub struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) content: Content,
    /// Where the source of a streamed body records errors.
    pub(super) outcome: Outcome,
    /// What its content has of the memory budget.
    held: Option<Reservation>,
}

/// Content of an answer.
pub enum Content {
    /// Nothing.
    Empty,
    /// Complete content, and its type.
    Whole(&'static str, Vec<u8>),
    /// Streamed content, and its type; already compressed if requested.
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
            held: None,
        }
    }

    /// 204.
    pub fn done() -> Self {
        Self::empty(StatusCode::NO_CONTENT)
    }

    /// An answer with complete content.
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

    /// 200 with streamed content.
    pub fn stream(content_type: &'static str, body: Body) -> Self {
        Self {
            content: Content::Stream(content_type, body),
            ..Self::empty(StatusCode::OK)
        }
    }

    /// Sets the outcome that its stream records errors in.
    pub(super) fn with_outcome(self, outcome: Outcome) -> Self {
        Self { outcome, ..self }
    }

    /// With what is reserved for its content already.
    pub(super) fn with_reservation(self, held: Option<Reservation>) -> Self {
        Self { held, ..self }
    }

    /// With what its content needs of the memory budget, until it is sent.
    ///
    /// # Errors
    /// `Limit` where the budget has no room, unless the answer is `owed`: what it answers is done already.
    pub(super) fn reserve(mut self, core: &Core, owed: bool) -> Result<Self> {
        if self.held.is_none()
            && let Content::Whole(_, bytes) = &self.content
            && bytes.len() >= RESERVED_FROM
        {
            let mut reserved = match owed {
                true => Reserved::owed(&core.databases),
                false => Reserved::new(&core.databases),
            };
            reserved.resize(bytes.capacity())?;
            self.held = reserved.into_reservation();
        }
        Ok(self)
    }

    /// Adds a header field. Invalid values are omitted.
    pub fn with(mut self, name: HeaderName, value: impl AsRef<str>) -> Self {
        if let Ok(value) = HeaderValue::from_str(value.as_ref()) {
            self.headers.push((name, value));
        }
        self
    }

    /// Sets the content type of a reply that is not streamed.
    pub fn with_content_type(mut self, name: &'static str) -> Self {
        if let Content::Whole(content_type, _) = &mut self.content {
            *content_type = name;
        }
        self
    }

    /// Sets the status.
    pub fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// Sets the ETag.
    pub fn with_etag(self, tag: &str) -> Self {
        self.with(header::ETAG, tag)
    }

    /// The answer to an error.
    pub fn error(error: &ServerError) -> Self {
        let text = json::to_string(&error_body(error)).unwrap_or_default();
        let mut reply = Self::whole(status(error), JSON, text);
        if let ServerError::TooMany { retry_after_s, .. } = error {
            reply = reply.with(header::RETRY_AFTER, retry_after_s.to_string());
        }
        if matches!(error, ServerError::Unauthenticated(_)) {
            reply = reply.with(header::WWW_AUTHENTICATE, "Bearer realm=\"isomer\"");
        }
        reply
    }

    /// Status of the answer.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Converts it to a response, compressed if that helps and the client accepts it.
    pub(super) fn into_response(self, asked: &HeaderMap) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.reserve(FIELDS);
        // Answers are not pages: a browser that is tricked into loading one must neither run nor frame it.
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
                let packed = (MIN_COMPRESSED_BYTES..=MAX_COMPRESSED_BYTES)
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
                *response.body_mut() = Body::from(bytes_with(bytes, self.held));
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

/// Header fields that an answer commonly has.
const FIELDS: usize = 12;
/// Request header fields that the content depends on.
const VARY: &str = "accept, accept-encoding";
/// Minimum size for compression.
const MIN_COMPRESSED_BYTES: usize = 1024;
/// Maximum size for compression of complete content: compressing more would block the thread that serves other
/// connections.
const MAX_COMPRESSED_BYTES: usize = 1 << 20;

fn pack(bytes: &[u8]) -> Vec<u8> {
    pack_at(bytes, flate2::Compression::fast())
}

/// Compresses at the highest level, for content that is compressed once.
pub(super) fn pack_well(bytes: &[u8]) -> Vec<u8> {
    pack_at(bytes, flate2::Compression::best())
}

fn pack_at(bytes: &[u8], level: flate2::Compression) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
    // Writing to a vector cannot fail.
    let _ = encoder.write_all(bytes);
    encoder.finish().unwrap_or_default()
}

/// `{"error": {"kind", "message", "retryable", "code"}}`
pub(super) fn error_body(error: &ServerError) -> Value {
    let mut body = params! { "kind" => error.kind(), "message" => error.to_string() };
    if error.is_retryable() {
        body.insert("retryable", true.into());
    }
    if let ServerError::Database(error) = error
        && let Some(query) = error.query_error()
    {
        body.insert("code", format!("{}.{}", query.class, query.detail).into());
    }
    params! { "error" => body }.into()
}

/// Whether the client accepts gzip.
pub(super) fn takes_gzip(asked: &HeaderMap) -> bool {
    let accepted = asked.get_all(header::ACCEPT_ENCODING).iter();
    accepted
        .filter_map(|value| value.to_str().ok())
        .flat_map(|list| list.split(','))
        .map(heads::name_and_quality)
        .any(|(name, quality)| name.eq_ignore_ascii_case("gzip") && quality > 0.0)
}

/// The HTTP status of an error.
pub(crate) fn status(error: &ServerError) -> StatusCode {
    match error {
        ServerError::Database(error) => match error.kind() {
            ErrorKind::Retry | ErrorKind::Exists | ErrorKind::Cancelled => StatusCode::CONFLICT,
            ErrorKind::Invalid => StatusCode::BAD_REQUEST,
            ErrorKind::NotFound => StatusCode::NOT_FOUND,
            ErrorKind::Denied => StatusCode::FORBIDDEN,
            ErrorKind::Limit | ErrorKind::Unsupported => StatusCode::UNPROCESSABLE_ENTITY,
            ErrorKind::Unavailable | ErrorKind::Closed => StatusCode::SERVICE_UNAVAILABLE,
            // `OutcomeUnknown`, `Corrupt`, `Internal`.
            _ => StatusCode::INTERNAL_SERVER_ERROR,
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

/// The ETag of a value: 128 bits of the SHA-256 of its JSON text.
pub(super) fn etag(value: &Value) -> Result<String> {
    Ok(etag_of(json::to_string(value)?.as_bytes()))
}

/// The ETag of a text.
pub(super) fn etag_of(text: &[u8]) -> String {
    format!("\"{}\"", hex(&digest(&SHA256, text).as_ref()[..16]))
}

/// The preconditions `If-Match` and `If-None-Match`.
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

    /// Checks the preconditions against an object with this ETag, or an absent one.
    pub(super) fn check(&self, tag: Option<&str>) -> Result<()> {
        if let Some(matching) = &self.matching
            && !tag.is_some_and(|tag| lists(matching, tag))
        {
            return Err(ServerError::Precondition(match tag {
                Some(tag) => format!("it was changed: its ETag is {tag}"),
                None => "it does not exist (any more)".into(),
            }));
        }
        if let Some(none_matching) = &self.none_matching
            && tag.is_some_and(|tag| lists(none_matching, tag))
        {
            return Err(ServerError::Precondition("it already exists".into()));
        }
        Ok(())
    }

    /// Whether the client has the current value.
    pub(super) fn is_known(&self, tag: &str) -> bool {
        self.none_matching
            .as_ref()
            .is_some_and(|tags| lists(tags, tag))
    }
}

/// Whether a list of ETags contains one; `*` contains all.
fn lists(tags: &str, tag: &str) -> bool {
    tags.split(',')
        .map(str::trim)
        .any(|one| one == "*" || one == tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preconditions_compare_etags() {
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
    fn gzip_is_sent_to_clients_that_accept_it() {
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
