//! A request: path parameters, query, header fields and body.

use std::{io::Read, net::IpAddr, sync::Arc};

use axum::{
    body::Body,
    extract::RawPathParams,
    http::{HeaderMap, header},
};
use http_body_util::BodyExt;
use hyper::body::Body as _;
use isomer_db::{CancelHandle, Map, Value, json};

use parking_lot::Mutex;

use super::{heads, route::Route};
use crate::{
    Result, ServerError, access::Body as Sent, audit::AuditDetails, core::Core, traces::Span,
    weight,
};

/// An admitted request.
pub struct Call {
    pub(super) core: Arc<Core>,
    pub(super) span: Span,
    pub(super) route: &'static Route,
    /// Path parameters of the route, decoded; `None` before they are checked.
    pub(super) path_params: Option<RawPathParams>,
    /// Query parameters, decoded; unknown names were refused.
    pub(super) query: Vec<(String, String)>,
    pub(super) headers: Arc<HeaderMap>,
    pub(super) target: String,
    pub(super) body: Mutex<Body>,
    pub(super) from: IpAddr,
    /// Whether it came over TLS: to the server, or to a trusted proxy.
    pub(super) over_tls: bool,
    /// The CSRF token for the cookie that it was authenticated by.
    pub(super) csrf: Option<String>,
    /// Memory of the body, which counts for the user; `None` if the client is not authenticated.
    pub(super) sent: Option<Arc<Sent>>,
    /// Additions to the audit event.
    pub(super) audit_details: Arc<Mutex<AuditDetails>>,
}

/// Body limit for unauthenticated clients: enough for a login.
const UNKNOWN_BODY: usize = 16 << 10;

/// Types of the values in a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Types {
    /// The JSON types.
    Json,
    /// Those of the values that they replace; an unsuitable value is refused.
    Keep,
}

impl Types {
    /// Converts the entries that replace some of `stored`, which is read only for [`Types::Keep`].
    pub fn entries(self, given: &Map, stored: impl FnOnce() -> Result<Map>) -> Result<Map> {
        match self {
            Self::Json => Ok(given.clone()),
            Self::Keep => Ok(json::keep_entry_types(&stored()?, given.clone())?),
        }
    }

    /// Converts the value that replaces `stored`, if any.
    pub fn value(
        self,
        given: &Value,
        stored: impl FnOnce() -> Result<Option<Value>>,
    ) -> Result<Value> {
        match self {
            Self::Json => Ok(given.clone()),
            Self::Keep => match stored()? {
                Some(stored) => Ok(json::keep_types(&stored, given.clone())?),
                None => Ok(given.clone()),
            },
        }
    }
}

impl Call {
    /// A path parameter.
    pub fn path_param(&self, name: &str) -> &str {
        self.find_path_param(name).unwrap_or_default()
    }

    fn find_path_param(&self, name: &str) -> Option<&str> {
        let mut all = self.path_params.iter().flatten();
        all.find_map(|(param, value)| (param == name).then_some(value))
    }

    /// A path parameter for the audit log; `None` if the route does not have it.
    pub(super) fn path_text(&self, name: &str) -> Option<String> {
        let value = self.find_path_param(name)?;
        let end = value
            .char_indices()
            .nth(64)
            .map_or(value.len(), |(at, _)| at);
        Some(value[..end].to_owned())
    }

    /// A numeric path parameter.
    pub fn path_number(&self, name: &str) -> Result<u64> {
        let text = self.path_param(name);
        text.parse()
            .map_err(|_| ServerError::NotFound(format!("`{text}` is not a number: nothing found")))
    }

    /// A query parameter.
    pub fn param(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(param, _)| param == name);
        found.map(|(_, value)| value.as_str())
    }

    /// A numeric query parameter.
    pub fn number_param(&self, name: &str) -> Result<Option<u64>> {
        let number = |text: &str| {
            text.parse().map_err(|_| {
                ServerError::Invalid(format!("invalid `{name}` `{text}`: expected a number"))
            })
        };
        self.param(name).map(number).transpose()
    }

    /// A Boolean query parameter.
    pub fn switch(&self, name: &str) -> Result<bool> {
        match self.param(name) {
            None | Some("false") => Ok(false),
            Some("" | "true") => Ok(true),
            Some(other) => Err(ServerError::Invalid(format!(
                "invalid `{name}` `{other}`: expected true or false"
            ))),
        }
    }

    /// The types of changed values: `value_types=keep` or `value_types=json`, the default.
    pub fn types(&self) -> Result<Types> {
        match self.param("value_types") {
            None | Some("json") => Ok(Types::Json),
            Some("keep") => Ok(Types::Keep),
            Some(other) => Err(ServerError::Invalid(format!(
                "invalid `value_types` `{other}`: expected keep or json"
            ))),
        }
    }

    /// Page size: `limit`, 100 unless given, at most 10,000.
    pub fn page(&self) -> Result<usize> {
        match self.number_param("limit")? {
            None => Ok(100),
            Some(limit @ 1..=10_000) => Ok(limit as usize),
            Some(limit) => Err(ServerError::Invalid(format!(
                "invalid `limit` {limit}: expected 1 to 10000"
            ))),
        }
    }

    /// Comma-separated names; empty if the parameter is absent.
    pub fn names(&self, name: &str) -> Vec<String> {
        let names = self.param(name).unwrap_or_default().split(',');
        names
            .map(str::trim)
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect()
    }

    /// A header field as text. A field that is not text or is repeated is refused: the client relies on it.
    pub fn header(&self, name: impl AsRef<str>) -> Result<Option<&str>> {
        heads::sole_field(&self.headers, name.as_ref())
    }

    /// Whether the client accepts one of these content types, and prefers none of the others.
    pub fn accepts(&self, media_types: &[&str], others: &[&[&str]]) -> Result<bool> {
        let accepted = heads::list(&self.headers, header::ACCEPT.as_str())?;
        let offers: Vec<&[&str]> = others.iter().copied().chain([media_types]).collect();
        let best = heads::preferred(accepted.as_deref().unwrap_or_default(), &offers);
        Ok(best == Some(others.len()))
    }

    /// The content type of the body, without parameters, in lower case.
    pub fn content_type(&self) -> String {
        let mut all = self.headers.get_all(header::CONTENT_TYPE).iter();
        let content_type = match (all.next(), all.next()) {
            (Some(one), None) => one.to_str().unwrap_or("unreadable"),
            (Some(_), Some(_)) => "of several types",
            (None, _) => "",
        };
        content_type
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase()
    }

    /// Adds details to the audit event.
    pub(super) fn audit(&self, add: impl FnOnce(&mut AuditDetails)) {
        add(&mut self.audit_details.lock());
    }

    /// The body: decompressed, within its limits on size and time.
    pub async fn bytes(&mut self) -> Result<Vec<u8>> {
        self.bytes_up_to(self.core.config.limits.body_bytes).await
    }

    /// Like [`Call::bytes`], with another limit. The body counts for the user; unauthenticated clients may send only
    /// a small one.
    pub async fn bytes_up_to(&mut self, most: usize) -> Result<Vec<u8>> {
        let sent = self.sent.clone();
        let (most, advice) = match sent {
            Some(_) => (most, ": send less at once, or import it (limits.body)"),
            None => (most.min(UNKNOWN_BODY), ""),
        };
        let too_large =
            move || ServerError::TooLarge(format!("the body is larger than {most} bytes{advice}"));
        let count = move |bytes| sent.as_ref().map_or(Ok(()), |sent| sent.add(bytes));
        let said = self.header(header::CONTENT_LENGTH)?;
        let said = said.and_then(|said| said.parse::<u64>().ok());
        if said.is_some_and(|said| said > most as u64) {
            return Err(too_large());
        }
        let mut body = std::mem::take(self.body.get_mut());
        let gathering = async {
            let mut bytes = Vec::new();
            while let Some(frame) = body.frame().await {
                let frame = frame.map_err(|error| {
                    ServerError::Invalid(format!("the body did not arrive as announced: {error}"))
                })?;
                let Ok(data) = frame.into_data() else {
                    continue;
                };
                if bytes.len() + data.len() > most {
                    return Err(too_large());
                }
                count(data.len())?;
                bytes.extend_from_slice(&data);
            }
            Ok(bytes)
        };
        let time = self.core.config.limits.body_time;
        let Ok(bytes) = tokio::time::timeout(time, gathering).await else {
            return Err(ServerError::TooSlow(format!(
                "the body did not arrive within {} s (limits.body_time): send it faster, or in smaller requests",
                time.as_secs_f64()
            )));
        };
        let bytes = bytes?;
        match Coding::of(&self.headers)? {
            Coding::Plain => Ok(bytes),
            coding => {
                self.core
                    .blocking(move || coding.unpack(&bytes, most, too_large, count))
                    .await
            }
        }
    }

    /// The body as a JSON value.
    pub async fn json(&mut self) -> Result<Value> {
        let content_type = self.content_type();
        if content_type != "application/json" {
            return Err(ServerError::MediaType(format!(
                "unsupported content type `{content_type}`: send JSON with `Content-Type: application/json`"
            )));
        }
        self.json_of_any_type().await
    }

    /// The body as a JSON value, whatever type it says it has.
    async fn json_of_any_type(&mut self) -> Result<Value> {
        let bytes = self.bytes().await?;
        if bytes.len() < 64 << 10 {
            return self.parse(&bytes);
        }
        let sent = self.sent.clone();
        self.core
            .blocking(move || parse(sent.as_deref(), &bytes))
            .await
    }

    /// Parses a body, whose values count for the user.
    pub(super) fn parse(&self, bytes: &[u8]) -> Result<Value> {
        parse(self.sent.as_deref(), bytes)
    }

    /// Like [`Call::fields`]; empty without a body.
    pub async fn optional_fields(&mut self, known: &[&str]) -> Result<Fields> {
        if self.body.get_mut().is_end_stream() {
            return Ok(Fields(Map::new()));
        }
        self.fields(known).await
    }

    /// The body as a JSON object.
    pub async fn object(&mut self) -> Result<Map> {
        object_of(self.json().await?)
    }

    /// The body as an object with only these fields.
    pub async fn fields(&mut self, known: &[&str]) -> Result<Fields> {
        let map = self.object().await?;
        known_fields(map, known)
    }

    /// Like [`Call::fields`], whatever type the body says it has.
    pub async fn fields_of_any_type(&mut self, known: &[&str]) -> Result<Fields> {
        let map = object_of(self.json_of_any_type().await?)?;
        known_fields(map, known)
    }
}

fn object_of(body: Value) -> Result<Map> {
    match body {
        Value::Map(map) => Ok(Arc::unwrap_or_clone(map)),
        other => Err(ServerError::Invalid(format!(
            "the body must be a JSON object, not a {}",
            other.type_name()
        ))),
    }
}

fn known_fields(map: Map, known: &[&str]) -> Result<Fields> {
    if let Some(name) = map.names().find(|name| !known.contains(&&***name)) {
        return Err(ServerError::Invalid(format!(
            "unknown field `{name}`: expected {}",
            known.join(", ")
        )));
    }
    Ok(Fields(map))
}

fn parse(sent: Option<&Sent>, bytes: &[u8]) -> Result<Value> {
    if let Some(sent) = sent {
        sent.add(weight::of_json(bytes))?;
    }
    Ok(json::parse_bytes(bytes)?)
}

/// The fields of a body.
pub struct Fields(Map);

impl Fields {
    /// The fields of an object in a body.
    pub fn of(map: Map) -> Self {
        Self(map)
    }

    /// Removes and returns a field.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name).filter(|value| !value.is_null())
    }

    /// Removes and returns a string field.
    pub fn text(&mut self, name: &str) -> Result<Option<String>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.to_string())),
            Some(other) => Err(wrong(name, "a string", &other)),
        }
    }

    /// A required string field.
    pub fn needed_text(&mut self, name: &str) -> Result<String> {
        self.text(name)?
            .ok_or_else(|| ServerError::Invalid(format!("the field `{name}` is missing")))
    }

    /// A number, at least 0.
    pub fn number(&mut self, name: &str) -> Result<Option<u64>> {
        match self.take(name) {
            None => Ok(None),
            Some(value) => {
                let number = value.as_int().and_then(|number| u64::try_from(number).ok());
                number
                    .map(Some)
                    .ok_or_else(|| wrong(name, "a number of at least 0", &value))
            }
        }
    }

    /// A Boolean.
    pub fn switch(&mut self, name: &str) -> Result<bool> {
        match self.take(name) {
            None => Ok(false),
            Some(Value::Bool(truth)) => Ok(truth),
            Some(other) => Err(wrong(name, "true or false", &other)),
        }
    }

    /// An object; `None` if absent.
    pub fn map(&mut self, name: &str) -> Result<Option<Map>> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::Map(map)) => Ok(Some(Arc::unwrap_or_clone(map))),
            Some(other) => Err(wrong(name, "an object", &other)),
        }
    }

    /// Strings; empty if absent.
    pub fn texts(&mut self, name: &str) -> Result<Vec<String>> {
        let Some(value) = self.take(name) else {
            return Ok(Vec::new());
        };
        let items = value.as_list().unwrap_or_default();
        let texts: Option<Vec<String>> = items
            .iter()
            .map(|item| item.as_str().map(str::to_owned))
            .collect();
        match texts {
            Some(texts) if value.as_list().is_some() => Ok(texts),
            _ => Err(wrong(name, "a list of strings", &value)),
        }
    }
}

/// Error of an invalid field.
pub(super) fn wrong(name: &str, expected: &str, value: &Value) -> ServerError {
    let found = match value {
        Value::Int(number) => number.to_string(),
        other => format!("a {}", other.type_name()),
    };
    ServerError::Invalid(format!(
        "invalid field `{name}`: expected {expected}, not {found}"
    ))
}

/// Bytes that are decompressed between two reservations of memory.
const DECOMPRESSED_PER_RESERVATION_BYTES: u64 = 256 << 10;

/// How a body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    Plain,
    Gzip,
    Zstd,
}

impl Coding {
    pub(super) fn of(headers: &HeaderMap) -> Result<Self> {
        let mut all = headers.get_all(header::CONTENT_ENCODING).iter();
        match (
            all.next()
                .map(|value| value.as_bytes().to_ascii_lowercase()),
            all.next(),
        ) {
            (None, _) => Ok(Self::Plain),
            (Some(coding), None) if coding == b"identity" => Ok(Self::Plain),
            (Some(coding), None) if coding == b"gzip" => Ok(Self::Gzip),
            (Some(coding), None) if coding == b"zstd" => Ok(Self::Zstd),
            _ => Err(ServerError::MediaType(
                "unsupported Content-Encoding: send gzip, zstd or none".into(),
            )),
        }
    }

    /// A reader that decompresses `packed`.
    pub(super) fn reader<'r>(
        self,
        packed: Box<dyn Read + Send + 'r>,
    ) -> Result<Box<dyn Read + Send + 'r>> {
        Ok(match self {
            Self::Plain => packed,
            Self::Gzip => Box::new(flate2::read::MultiGzDecoder::new(packed)),
            Self::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::new(packed)
                    .map_err(|error| ServerError::Internal(error.to_string()))?;
                // A frame may request a window of 2 GiB; 8 MiB is what every decoder must support.
                decoder
                    .window_log_max(23)
                    .map_err(|error| ServerError::Internal(error.to_string()))?;
                Box::new(decoder)
            }
        })
    }

    fn unpack(
        self,
        packed: &[u8],
        most: usize,
        too_large: impl Fn() -> ServerError,
        count: impl Fn(usize) -> Result<()>,
    ) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut reader = self.reader(Box::new(packed))?.take(most as u64 + 1);
        loop {
            let piece = (&mut reader)
                .take(DECOMPRESSED_PER_RESERVATION_BYTES)
                .read_to_end(&mut bytes);
            let piece = piece.map_err(|error| {
                ServerError::Invalid(format!("the body cannot be decompressed: {error}"))
            })?;
            if bytes.len() > most {
                return Err(too_large());
            }
            if piece == 0 {
                return Ok(bytes);
            }
            count(piece)?;
        }
    }
}

/// Cancels a query when dropped: the client has disconnected.
pub struct StopOnDrop(CancelHandle);

impl StopOnDrop {
    /// Cancels what `handle` refers to.
    pub fn new(handle: &CancelHandle) -> Self {
        Self(handle.clone())
    }
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Decodes `name=value&…`; fails for invalid UTF-8.
pub(super) fn parse_query(text: &str) -> Result<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        pairs.push((decode(name)?, decode(value)?));
        if pairs.len() > 100 {
            return Err(ServerError::Invalid(
                "the query has more than 100 parameters".into(),
            ));
        }
    }
    Ok(pairs)
}

fn decode(text: &str) -> Result<String> {
    let wrong = || ServerError::Invalid("the query is not percent-encoded UTF-8".into());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
                let (Some(high), Some(low)) = (digit(rest.next()), digit(rest.next())) else {
                    return Err(wrong());
                };
                (high * 16 + low) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_queries_are_decoded_and_others_refused() {
        let pairs = parse_query("from=a%2Fb&x+y=%C3%A4&flag&&z=").unwrap();
        let pairs: Vec<_> = pairs
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        assert_eq!(
            pairs,
            [("from", "a/b"), ("x y", "ä"), ("flag", ""), ("z", "")]
        );
        for wrong in ["a=%", "a=%2", "a=%zz", "a=%ff"] {
            assert!(parse_query(wrong).is_err(), "{wrong}");
        }
        assert!(parse_query(&"a=1&".repeat(101)).is_err());
    }

    #[test]
    fn a_decompression_bomb_is_unpacked_up_to_the_limit() {
        let zeros = vec![0; 1 << 20];
        let mut gzip = flate2::read::GzEncoder::new(&zeros[..], flate2::Compression::best());
        let mut packed = Vec::new();
        gzip.read_to_end(&mut packed).unwrap();
        let too_large = || ServerError::TooLarge("large".into());
        assert_eq!(
            Coding::Gzip
                .unpack(&packed, 1 << 20, too_large, |_| Ok(()))
                .unwrap()
                .len(),
            1 << 20
        );
        assert!(matches!(
            Coding::Gzip.unpack(&packed, 1000, too_large, |_| Ok(())),
            Err(ServerError::TooLarge(_))
        ));
        let packed = zstd::encode_all(&zeros[..], 3).unwrap();
        assert!(matches!(
            Coding::Zstd.unpack(&packed, 1000, too_large, |_| Ok(())),
            Err(ServerError::TooLarge(_))
        ));
        assert!(matches!(
            Coding::Zstd.unpack(b"no zstd", 1000, too_large, |_| Ok(())),
            Err(ServerError::Invalid(_))
        ));
    }
}
