//! Idempotent writes: the answer to a request with an `Idempotency-Key` is stored in the transaction that executes
//! it, so that a retried request is executed once, even after a crash.
//!
//! Answers are in the bucket `isomer.answers` of the database, which only the server writes, under the SHA-256 of
//! user and key, for a day.

use axum::http::StatusCode;
use isomer_db::{Expiry, Value, WriteTransaction, internals::reserved_bucket, params};
use ring::digest::{Context, SHA256};

use super::reply::{JSON, Reply};
use crate::{
    Result, ServerError,
    access::{DatabaseAccess, Role, password::hex},
};

/// The header field.
pub(super) const KEY: &str = "idempotency-key";
/// The bucket.
pub(super) const ANSWERS: &str = "isomer.answers";
/// How long an answer is kept.
const ANSWER_RETENTION_MS: u64 = 24 * 3_600_000;
/// Largest answer that is kept.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// The answer to a write, in a form that can be stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The ETag of the current value.
    pub etag: Option<String>,
    /// The location of a created object.
    pub location: Option<String>,
    /// The content, JSON.
    pub json: Option<String>,
}

impl Answer {
    /// 204.
    pub fn done() -> Self {
        Self::of(StatusCode::NO_CONTENT)
    }

    /// Without content.
    pub fn of(status: StatusCode) -> Self {
        Self {
            status: status.as_u16(),
            ..Self::default()
        }
    }

    /// With content.
    pub fn with_json(mut self, json: String) -> Self {
        self.json = Some(json);
        self
    }

    /// With a tag.
    pub fn with_etag(mut self, etag: String) -> Self {
        self.etag = Some(etag);
        self
    }

    pub(super) fn into_reply(self, again: bool) -> Reply {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::OK);
        let mut reply = match self.json {
            Some(json) => Reply::whole(status, JSON, json),
            None => Reply::empty(status),
        };
        if let Some(etag) = &self.etag {
            reply = reply.with_etag(etag);
        }
        if let Some(location) = &self.location {
            reply = reply.with(axum::http::header::LOCATION, location);
        }
        if again {
            reply = reply.with(
                axum::http::HeaderName::from_static("idempotent-replay"),
                "true",
            );
        }
        reply
    }

    fn to_value(&self, request: &str) -> Value {
        let mut map = params! { "request" => request, "status" => i64::from(self.status) };
        for (name, text) in [
            ("etag", &self.etag),
            ("location", &self.location),
            ("json", &self.json),
        ] {
            if let Some(text) = text {
                map.insert(name, text.as_str().into());
            }
        }
        map.into()
    }

    fn of_value(value: &Value) -> Option<(String, Self)> {
        let map = value.as_map()?;
        let text = |name| map.get(name).and_then(Value::as_str).map(str::to_owned);
        let answer = Self {
            status: u16::try_from(map.get("status")?.as_int()?).ok()?,
            etag: text("etag"),
            location: text("location"),
            json: text("json"),
        };
        Some((text("request")?, answer))
    }
}

/// An idempotency key with the identity of its request.
#[derive(Clone, Debug)]
pub struct Once {
    key: String,
    request: String,
}

impl Once {
    /// The request of a user with this key; `parts` are everything that identifies it.
    pub fn new(user: &str, key: &str, parts: &[&[u8]]) -> Result<Self> {
        if key.is_empty() || key.len() > 255 {
            return Err(ServerError::Invalid(
                "an Idempotency-Key must have 1 to 255 characters".into(),
            ));
        }
        Ok(Self {
            key: hash(&[user.as_bytes(), key.as_bytes()]),
            request: hash(parts),
        })
    }
}

fn hash(parts: &[&[u8]]) -> String {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    hex(context.finish().as_ref())
}

/// Runs a write in a transaction and returns its answer; with a key, once.
pub fn write(
    access: &DatabaseAccess,
    need: Role,
    once: Option<&Once>,
    mut work: impl FnMut(&WriteTransaction) -> Result<Answer>,
) -> Result<Reply> {
    let Some(once) = once else {
        return Ok(access.write(need, work)?.into_reply(false));
    };
    let (answer, again) = access.write(need, |tx| {
        // A stored answer that cannot be parsed was not written by the server.
        let kept = tx.bucket(ANSWERS).get(&once.key)?;
        if let Some((request, answer)) = kept.as_ref().and_then(Answer::of_value) {
            if request != once.request {
                return Err(ServerError::Invalid(
                    "this Idempotency-Key was used for another request: use a new one".into(),
                ));
            }
            return Ok((answer, true));
        }
        let answer = work(tx)?;
        if answer.json.as_ref().is_some_and(|json| json.len() > MAX_ANSWER_BYTES) {
            return Err(ServerError::TooLarge(format!(
                "the answer to a request with an Idempotency-Key exceeds {MAX_ANSWER_BYTES} bytes: return less"
            )));
        }
        reserved_bucket(tx, ANSWERS)
            .put_until(&once.key, answer.to_value(&once.request), Expiry::After(ANSWER_RETENTION_MS))?;
        Ok((answer, false))
    })?;
    Ok(answer.into_reply(again))
}
