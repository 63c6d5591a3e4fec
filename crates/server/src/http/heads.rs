//! Parsing of header fields: single fields, lists, and content negotiation. Invalid fields are refused, not ignored:
//! the client relies on them.

use axum::http::{HeaderMap, HeaderValue};

use crate::{Result, ServerError};

/// The only field of that name.
pub fn sole_field<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>> {
    let mut all = headers.get_all(name).iter();
    match (all.next(), all.next()) {
        (None, _) => Ok(None),
        (Some(one), None) => text(name, one).map(Some),
        (Some(_), Some(_)) => Err(ServerError::Invalid(format!(
            "the header field `{name}` is repeated: send it once"
        ))),
    }
}

/// The list in all fields of that name (RFC 9110, 5.3).
pub fn list(headers: &HeaderMap, name: &str) -> Result<Option<String>> {
    let fields: Vec<&str> = headers
        .get_all(name)
        .iter()
        .map(|field| text(name, field))
        .collect::<Result<_>>()?;
    Ok((!fields.is_empty()).then(|| fields.join(", ")))
}

fn text<'h>(name: &str, field: &'h HeaderValue) -> Result<&'h str> {
    field.to_str().map_err(|_| {
        ServerError::Invalid(format!(
            "the header field `{name}` contains non-ASCII characters"
        ))
    })
}

/// An entry of `Accept` or `Accept-Encoding`: its name and quality, from 0 (not acceptable) to 1.
pub fn name_and_quality(entry: &str) -> (&str, f32) {
    let mut parts = entry.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default();
    let quality = parts.find_map(|part| {
        let (name, value) = part.split_once('=')?;
        let is_quality = name.trim_end().eq_ignore_ascii_case("q");
        is_quality.then(|| value.trim().parse().ok()).flatten()
    });
    let quality = quality.filter(|quality| (0.0..=1.0).contains(quality));
    (name, quality.unwrap_or(1.0))
}

/// The content type that an `Accept` prefers, each offered under all its names. Ties go to the one that is listed
/// first, there or here.
pub fn preferred(accept: &str, offers: &[&[&str]]) -> Option<usize> {
    let entries: Vec<(&str, f32)> = accept.split(',').map(name_and_quality).collect();
    let mut best: Option<(f32, usize, usize)> = None;
    for (offer, names) in offers.iter().enumerate() {
        for name in *names {
            // A more specific range takes precedence.
            let said = entries
                .iter()
                .enumerate()
                .filter_map(|(at, (range, quality))| Some((closeness(range, name)?, at, *quality)));
            let said = said.reduce(|one, other| if other.0 > one.0 { other } else { one });
            let Some((_, at, quality)) = said.filter(|(.., quality)| *quality > 0.0) else {
                continue;
            };
            if best.is_none_or(|(most, first, _)| quality > most || (quality == most && at < first))
            {
                best = Some((quality, at, offer));
            }
        }
    }
    best.map(|(.., offer)| offer)
}

/// How specifically a media range matches a name.
fn closeness(range: &str, name: &str) -> Option<u8> {
    if range.eq_ignore_ascii_case(name) {
        return Some(2);
    }
    let (kind, _) = name.split_once('/')?;
    match range.split_once('/')? {
        ("*", "*") => Some(0),
        (known, "*") if known.eq_ignore_ascii_case(kind) => Some(1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_fields_are_refused() {
        let headers = |values: &[&[u8]]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append("if-match", HeaderValue::from_bytes(value).unwrap());
            }
            headers
        };
        assert_eq!(sole_field(&headers(&[]), "if-match").unwrap(), None);
        assert_eq!(
            sole_field(&headers(&[b"a"]), "if-match").unwrap(),
            Some("a")
        );
        assert!(sole_field(&headers(&[b"a", b"b"]), "if-match").is_err());
        assert!(sole_field(&headers(&[b"\xe9"]), "if-match").is_err());
        let joined = list(&headers(&[b"\"a\"", b"\"b\""]), "if-match").unwrap();
        assert_eq!(joined.as_deref(), Some("\"a\", \"b\""));
        assert!(list(&headers(&[b"\"a\"", b"\xe9"]), "if-match").is_err());
    }

    #[test]
    fn the_preferred_content_is_found() {
        let offers: &[&[&str]] = &[&["application/json"], &["application/jsonl", "text/lines"]];
        let case = |accept: &str, best| assert_eq!(preferred(accept, offers), best, "{accept}");
        case("", None);
        case("image/png", None);
        case("*/*", Some(0));
        case("application/*;q=0.1", Some(0));
        case("application/jsonl", Some(1));
        case("application/jsonl, */*", Some(1));
        case("application/json, application/jsonl", Some(0));
        case("application/json, application/jsonl;q=0.1", Some(0));
        case("application/json;q=0.5, text/lines", Some(1));
        case("application/jsonl;q=0", None);
        case("*/*, application/json;q=0", Some(1));
        case("application/jsonl;q=0.000, */*;q=0.1", Some(0));
        case("APPLICATION/JSONL; Q=1", Some(1));
    }
}
