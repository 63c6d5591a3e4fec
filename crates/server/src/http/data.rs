//! Buckets and keys, collections and documents.

use std::{
    ops::{Bound, ControlFlow},
    sync::Arc,
};

use axum::http::{StatusCode, header};
use isomer_db::{
    BucketOptions, Expiry, Map, Order, ReadTransaction, Value, WriteTransaction,
    internals::{
        TransactionInternals as _,
        data::{BucketKind, KeyRange, PageLimit},
    },
    json, params,
};

use super::{
    base64,
    call::Call,
    once::{self, Answer, Once},
    page::{Page, READ_BYTES},
    query::typed_value,
    reply::{Conditions, JSON, Reply, etag, etag_of},
};
use crate::{
    Result, ServerError,
    access::{DatabaseAccess, Role},
};

/// Runs a write on a blocking thread; with an `Idempotency-Key`, once. `body` is part of the identity of the request.
pub(super) async fn write(
    call: &Call,
    access: DatabaseAccess,
    need: Role,
    body: &[u8],
    work: impl FnMut(&WriteTransaction) -> Result<Answer> + Send + 'static,
) -> Result<Reply> {
    let once = match call.header(once::KEY)? {
        Some(key) if access.open().is_none() => {
            let parts = [call.route.method.as_bytes(), call.target.as_bytes(), body];
            Some(Once::new(&access.principal().name, key, &parts)?)
        }
        _ => None,
    };
    call.core
        .blocking(move || once::write(&access, need, once.as_ref(), work))
        .await
}

/// The text of a request's content by which [`write`] tells it from others with the same `Idempotency-Key`; empty
/// without one.
pub(super) fn identifying<E: Into<ServerError>>(
    call: &Call,
    text: impl FnOnce() -> std::result::Result<String, E>,
) -> Result<String> {
    match call.header(once::KEY)? {
        Some(_) => text().map_err(Into::into),
        None => Ok(String::new()),
    }
}

/// Runs a read on a blocking thread.
pub(super) async fn read(
    call: &Call,
    access: DatabaseAccess,
    work: impl FnOnce(&ReadTransaction) -> Result<Reply> + Send + 'static,
) -> Result<Reply> {
    call.core.blocking(move || access.read(work)).await
}

/// Reads one record. In an open transaction, this may wait for another request, so it runs on a blocking thread.
async fn read_one(
    call: &Call,
    access: DatabaseAccess,
    work: impl FnOnce(&ReadTransaction) -> Result<Reply> + Send + 'static,
) -> Result<Reply> {
    match access.open() {
        Some(_) => read(call, access, work).await,
        None => call.core.quick(move || access.read(work)).await,
    }
}

/// `GET …/buckets`
pub async fn buckets(call: Call, access: DatabaseAccess) -> Result<Reply> {
    read(&call, access, |tx| {
        let buckets: Vec<Value> = tx
            .data_ref()
            .kv()
            .list_buckets()?
            .into_iter()
            .map(|(name, options)| {
                let multi = options.kind == BucketKind::Multi;
                params! { "bucket" => Value::String(name), "multi" => multi, "reversible" => options.reversible }.into()
            })
            .collect();
        Reply::object(params! { "buckets" => buckets })
    })
    .await
}

/// `PUT …/buckets/{bucket}`
pub async fn create_bucket(mut call: Call, access: DatabaseAccess) -> Result<Reply> {
    let mut options = BucketOptions::default();
    let mut fields = call.optional_fields(&["multi", "reversible"]).await?;
    options.reversible = fields.switch("reversible")?;
    if fields.switch("multi")? {
        options.kind = BucketKind::Multi;
    }
    let name = call.path_param("bucket").to_owned();
    call.core
        .blocking(move || {
            access
                .create_bucket(&name, options)
                .map(|()| Reply::empty(StatusCode::CREATED))
        })
        .await
}

/// `DELETE …/buckets/{bucket}`
pub async fn drop_bucket(call: Call, access: DatabaseAccess) -> Result<Reply> {
    let name = call.path_param("bucket").to_owned();
    write(&call, access, Role::Schema, b"", move |tx| {
        if tx.bucket(&name).drop_bucket()? {
            return Ok(Answer::done());
        }
        Err(ServerError::NotFound(format!("no bucket `{name}`")))
    })
    .await
}

/// A key in a path or a parameter: text, or base64 if the request says so.
fn key(call: &Call, text: &str) -> Result<Vec<u8>> {
    match call.param("key_encoding") {
        None | Some("text") => Ok(text.as_bytes().to_vec()),
        Some("base64") => base64::decode(text)
            .ok_or_else(|| ServerError::Invalid(format!("the key `{text}` is not base64"))),
        Some(other) => Err(ServerError::Invalid(format!(
            "invalid `key_encoding` `{other}`: expected text or base64"
        ))),
    }
}

/// `GET …/buckets/{bucket}/keys`
pub async fn scan_keys(call: Call, access: DatabaseAccess) -> Result<Reply> {
    let name = call.path_param("bucket").to_owned();
    let bound = |name: &str| call.param(name).map(|text| key(&call, text)).transpose();
    let (mut from, mut to) = (bound("from")?.unwrap_or_default(), bound("to")?);
    if let Some(prefix) = bound("prefix")? {
        if call.param("from").is_some() || call.param("to").is_some() {
            return Err(ServerError::Invalid(
                "`prefix` cannot be combined with `from` and `to`".into(),
            ));
        }
        to = after_prefix(&prefix);
        from = prefix;
    }
    let order = match call.param("order") {
        None | Some("asc") => Order::Ascending,
        Some("desc") => Order::Descending,
        Some(other) => {
            return Err(ServerError::Invalid(format!(
                "invalid `order` `{other}`: expected asc or desc"
            )));
        }
    };
    let mut keys = Keys { from, to, order };
    if let Some(cursor) = call.param("cursor") {
        keys.go_behind(base64::decode(cursor).ok_or_else(wrong_cursor)?);
    }
    let page = Page::new("pairs", call.page()?, call.core.config.limits.result_bytes);
    read(&call, access, move |tx| {
        let options = tx.data_ref().kv().bucket_options(&name)?;
        match options.map(|options| options.kind) {
            Some(BucketKind::Multi) => sole_keys(tx, &name, keys, page),
            _ => pairs(tx, &name, keys, page),
        }
    })
    .await
}

/// A range of keys of a bucket, from `from` (inclusive) to `to` (exclusive).
struct Keys {
    from: Vec<u8>,
    to: Option<Vec<u8>>,
    order: Order,
}

impl Keys {
    fn range(&self) -> KeyRange<'_> {
        KeyRange {
            start: &self.from,
            end: self.to.as_deref(),
        }
    }

    /// Skips the keys up to `last` in the page's order; a key outside the range does not extend it.
    fn go_behind(&mut self, mut last: Vec<u8>) {
        match self.order {
            Order::Ascending => {
                last.push(0);
                let from = std::mem::take(&mut self.from);
                self.from = from.max(last);
            }
            Order::Descending => {
                self.to = Some(match self.to.take() {
                    Some(to) => to.min(last),
                    None => last,
                });
            }
        }
    }
}

/// A page of keys with their values.
fn pairs(tx: &ReadTransaction, bucket: &str, mut keys: Keys, mut page: Page) -> Result<Reply> {
    let mut last = None;
    loop {
        let at_once = PageLimit {
            keys: page.room(),
            bytes: READ_BYTES,
        };
        let mut found = Vec::new();
        let more = tx.data_ref().kv().scan_values(
            bucket,
            keys.range(),
            keys.order,
            at_once,
            None,
            &mut |key, value| found.push((key, value)),
        )?;
        for (key, value) in found {
            let bytes = bytes_of(&key);
            if !page.push(&params! { "key" => key, "value" => value }.into())? {
                break;
            }
            last = Some(bytes);
        }
        if page.room() == 0 {
            return page.finish(last.map(|key| base64::encode(&key)));
        }
        match (more, last.clone()) {
            (Some(_), Some(last)) => keys.go_behind(last),
            _ => return page.finish(None),
        }
    }
}

/// A page of the keys of a multi-value bucket: one pair of each is read.
fn sole_keys(tx: &ReadTransaction, bucket: &str, mut keys: Keys, mut page: Page) -> Result<Reply> {
    let mut last = None;
    loop {
        if page.room() == 0 {
            return page.finish(last.map(|key: Vec<u8>| base64::encode(&key)));
        }
        let mut found = None;
        let (range, order) = (keys.range(), keys.order);
        tx.data_ref()
            .kv()
            .each(bucket, range, order, &mut |key, _| {
                found = Some(key.to_vec());
                ControlFlow::Break(())
            })?;
        let Some(key) = found else {
            return page.finish(None);
        };
        if page.push(&params! { "key" => text_or_bytes(key.clone()) }.into())? {
            keys.go_behind(key.clone());
            last = Some(key);
        }
    }
}

/// Bytes of a key, which is a string if they are UTF-8.
fn bytes_of(key: &Value) -> Vec<u8> {
    match key {
        Value::String(text) => text.as_bytes().to_vec(),
        Value::Bytes(bytes) => bytes.to_vec(),
        _ => Vec::new(),
    }
}

fn wrong_cursor() -> ServerError {
    ServerError::Invalid("invalid cursor: use the one from an answer".into())
}

/// The first key after all those with the prefix `prefix`; `None` if there is none.
fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte < u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// `DELETE …/buckets/{bucket}/keys`
pub async fn delete_keys(call: Call, access: DatabaseAccess) -> Result<Reply> {
    let name = call.path_param("bucket").to_owned();
    let bound = |name: &str| call.param(name).map(|text| key(&call, text)).transpose();
    let (from, to) = match (bound("prefix")?, bound("from")?, bound("to")?) {
        (Some(prefix), None, None) => (prefix.clone(), after_prefix(&prefix)),
        (None, Some(from), Some(to)) => (from, Some(to)),
        _ => {
            return Err(ServerError::Invalid(
                "specify the keys: `prefix`, or `from` (inclusive) and `to` (exclusive)".into(),
            ));
        }
    };
    write(&call, access, Role::Editor, b"", move |tx| {
        let to = to.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        tx.bucket(&name)
            .delete_range((Bound::Included(&from), to))?;
        Ok(Answer::done())
    })
    .await
}

/// `GET …/buckets/{bucket}/keys/{key}`
pub async fn get_key(call: Call, access: DatabaseAccess) -> Result<Reply> {
    let (name, key) = (
        call.path_param("bucket").to_owned(),
        key(&call, call.path_param("key"))?,
    );
    let (conditions, raw) = (
        Conditions::of(&call.headers)?,
        call.accepts(&["application/octet-stream"], &[&[JSON]])?,
    );
    read_one(&call, access, move |tx| {
        let Some(value) = tx.bucket(&name).get(&key)? else {
            return Err(ServerError::NotFound("no such key".into()));
        };
        let text = json::to_string(&value)?;
        let tag = etag_of(text.as_bytes());
        if conditions.is_known(&tag) {
            return Ok(Reply::empty(StatusCode::NOT_MODIFIED).with_etag(&tag));
        }
        let reply = match (&value, raw) {
            (Value::Bytes(bytes), true) => {
                Reply::whole(StatusCode::OK, "application/octet-stream", bytes.to_vec())
            }
            _ => Reply::whole(StatusCode::OK, JSON, text),
        };
        Ok(reply.with_etag(&tag))
    })
    .await
}

/// Parses the value in a body: JSON, bytes or text, according to its content type.
async fn value(call: &mut Call) -> Result<(Value, Vec<u8>)> {
    let content_type = call.content_type();
    let body = match content_type.as_str() {
        "application/json" | "application/octet-stream" | "text/plain" => call.bytes().await?,
        _ => {
            return Err(ServerError::MediaType(format!(
                "unsupported content type `{content_type}`: send application/json, application/octet-stream or text/plain"
            )));
        }
    };
    let value = match content_type.as_str() {
        "application/json" => typed_value(call.parse(&body)?),
        "text/plain" => match std::str::from_utf8(&body) {
            Ok(text) => text.into(),
            Err(_) => {
                return Err(ServerError::Invalid(
                    "the text is not UTF-8: send application/octet-stream".into(),
                ));
            }
        },
        _ => Value::Bytes(body.as_slice().into()),
    };
    if value.is_null() {
        return Err(ServerError::Invalid(
            "null cannot be stored: delete the key".into(),
        ));
    }
    Ok((value, body))
}

/// `PUT …/buckets/{bucket}/keys/{key}`
pub async fn put_key(mut call: Call, access: DatabaseAccess) -> Result<Reply> {
    let (value, body) = value(&mut call).await?;
    let (name, key) = (
        call.path_param("bucket").to_owned(),
        key(&call, call.path_param("key"))?,
    );
    let conditions = conditions(&call)?;
    let expiry = call
        .number_param("expires_in_ms")?
        .map_or(Expiry::Never, Expiry::After);
    let types = call.types()?;
    write(&call, access, Role::Editor, &body, move |tx| {
        let bucket = tx.bucket(&name);
        if let Some(conditions) = &conditions {
            let now = bucket.get(&key)?.map(|value| etag(&value)).transpose()?;
            conditions.check(now.as_deref())?;
        }
        let value = types.value(&value, || Ok(bucket.get(&key)?))?;
        let tag = etag(&value)?;
        bucket.put_until(&key, value, expiry)?;
        Ok(Answer::done().with_etag(tag))
    })
    .await
}

/// The preconditions of a change; `None` if there are none, so that the current value need not be read.
pub(super) fn conditions(call: &Call) -> Result<Option<Conditions>> {
    let given = call.headers.contains_key(header::IF_MATCH)
        || call.headers.contains_key(header::IF_NONE_MATCH);
    given.then(|| Conditions::of(&call.headers)).transpose()
}

/// `DELETE …/buckets/{bucket}/keys/{key}`
pub async fn delete_key(call: Call, access: DatabaseAccess) -> Result<Reply> {
    let (name, key) = (
        call.path_param("bucket").to_owned(),
        key(&call, call.path_param("key"))?,
    );
    let conditions = conditions(&call)?;
    write(&call, access, Role::Editor, b"", move |tx| {
        let bucket = tx.bucket(&name);
        if let Some(conditions) = &conditions {
            let now = bucket.get(&key)?.map(|value| etag(&value)).transpose()?;
            conditions.check(now.as_deref())?;
        }
        bucket.delete(&key)?;
        Ok(Answer::done())
    })
    .await
}

/// Values of a key read per lookup; none has more than 16 KiB.
const VALUES: usize = 64;

/// `GET …/buckets/{bucket}/keys/{key}/values`
pub async fn key_values(call: Call, access: DatabaseAccess) -> Result<Reply> {
    let (name, key) = (
        call.path_param("bucket").to_owned(),
        key(&call, call.path_param("key"))?,
    );
    let cursor = call.param("cursor");
    let mut last = cursor
        .map(|cursor| base64::decode(cursor).ok_or_else(wrong_cursor))
        .transpose()?;
    let mut page = Page::new("values", call.page()?, call.core.config.limits.result_bytes);
    read(&call, access, move |tx| {
        loop {
            let room = page.room();
            if room == 0 {
                return page.finish(last.map(|value| base64::encode(&value)));
            }
            let data = tx.data_ref();
            let values = data
                .kv()
                .values(&name, &key, last.as_deref(), room.min(VALUES))?;
            if values.is_empty() {
                return page.finish(None);
            }
            for value in values {
                if !page.push(&text_or_bytes(value.clone()))? {
                    break;
                }
                last = Some(value);
            }
        }
    })
    .await
}

fn text_or_bytes(bytes: Vec<u8>) -> Value {
    match String::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(error) => Value::Bytes(error.as_bytes().into()),
    }
}

/// `POST …/buckets/{bucket}/keys/{key}/values`
pub async fn add_value(mut call: Call, access: DatabaseAccess) -> Result<Reply> {
    let (value, body) = value(&mut call).await?;
    let bytes = match &value {
        Value::String(text) => text.as_bytes().to_vec(),
        Value::Bytes(bytes) => bytes.to_vec(),
        other => {
            return Err(ServerError::Invalid(format!(
                "the values of a bucket with several values per key must be text or bytes, not a {}",
                other.type_name()
            )));
        }
    };
    let (name, key) = (
        call.path_param("bucket").to_owned(),
        key(&call, call.path_param("key"))?,
    );
    let remove = call.switch("remove")?;
    write(&call, access, Role::Editor, &body, move |tx| {
        let bucket = tx.bucket(&name);
        if remove {
            bucket.remove(&key, &bytes)?;
        } else {
            bucket.add(&key, &bytes)?;
        }
        Ok(Answer::done())
    })
    .await
}

/// `POST …/buckets/{bucket}/sequences/{sequence}/next`
pub async fn next_number(call: Call, access: DatabaseAccess) -> Result<Reply> {
    let (name, sequence) = (
        call.path_param("bucket").to_owned(),
        call.path_param("sequence").to_owned(),
    );
    write(&call, access, Role::Editor, b"", move |tx| {
        let number = tx.bucket(&name).next_number(&sequence)?;
        Ok(Answer::of(StatusCode::OK).with_json(format!("{{\"number\":{number}}}")))
    })
    .await
}

/// The key of a document in a path or a parameter: a string, or an integer if the request says so.
pub(super) fn document_key(call: &Call, text: &str) -> Result<Value> {
    match call.param("key_type") {
        None | Some("string") => Ok(text.into()),
        Some("integer") => text
            .parse::<i64>()
            .map(Value::Int)
            .map_err(|_| ServerError::Invalid(format!("the key `{text}` is not an integer"))),
        Some(other) => Err(ServerError::Invalid(format!(
            "invalid `key_type` `{other}`: expected string or integer"
        ))),
    }
}

/// `GET …/collections/{label}`
pub async fn scan_documents(call: Call, access: DatabaseAccess) -> Result<Reply> {
    let label = call.path_param("label").to_owned();
    let bound = |name: &str| {
        call.param(name)
            .map(|text| document_key(&call, text))
            .transpose()
    };
    let mut keys = DocumentKeys {
        from: bound("from")?.map_or(Bound::Unbounded, Bound::Included),
        to: bound("to")?.map_or(Bound::Unbounded, Bound::Excluded),
        all: call.param("from").is_none() && call.param("to").is_none(),
    };
    if let Some(cursor) = call.param("cursor") {
        let bytes = base64::decode(cursor).ok_or_else(wrong_cursor)?;
        keys.go_behind(json::parse_bytes(&bytes).map_err(|_| wrong_cursor())?)?;
    }
    let limits = &call.core.config.limits;
    let mut page = Page::new("documents", call.page()?, limits.result_bytes);
    read(&call, access, move |tx| {
        let next = documents(tx, &label, keys, &mut page)?;
        page.finish(next)
    })
    .await
}

/// Documents per lookup.
const DOCUMENTS: usize = 500;

/// A range of document keys: strings, then integers. An open bound extends to the end of its type.
struct DocumentKeys {
    from: Bound<Value>,
    to: Bound<Value>,
    /// Whether no bounds were given: both types are included.
    all: bool,
}

impl DocumentKeys {
    /// Skips the keys up to `last`; a key before the range does not extend it.
    fn go_behind(&mut self, last: Value) -> Result<()> {
        let is_before = match (&self.from, &last) {
            (Bound::Unbounded, _) => false,
            (
                Bound::Included(Value::String(from)) | Bound::Excluded(Value::String(from)),
                Value::String(last),
            ) => last < from,
            (
                Bound::Included(Value::Int(from)) | Bound::Excluded(Value::Int(from)),
                Value::Int(last),
            ) => last < from,
            // Without bounds, integers follow the strings.
            _ if self.all => false,
            _ => return Err(wrong_cursor()),
        };
        if !is_before {
            self.from = Bound::Excluded(last);
        }
        Ok(())
    }

    /// Continues with the integers, if these follow and the strings have ended.
    fn go_to_integers(&mut self) -> bool {
        let follow = self.all && matches!(self.from, Bound::Excluded(Value::String(_)));
        if follow {
            self.from = Bound::Included(Value::Int(i64::MIN));
        }
        follow
    }
}

/// Fills a page with documents; returns where the next one begins.
fn documents(
    tx: &ReadTransaction,
    label: &str,
    mut keys: DocumentKeys,
    page: &mut Page,
) -> Result<Option<String>> {
    let data = tx.data_ref();
    let mut last: Option<Value> = None;
    loop {
        let room = page.room().min(DOCUMENTS);
        let found = data
            .documents()
            .scan(label, (keys.from.as_ref(), keys.to.as_ref()), room)?;
        let ids: Vec<_> = found.iter().map(|(_, id)| *id).collect();
        let (mut at, mut contents) = (0, Vec::new());
        while at < ids.len() && page.room() > 0 {
            data.graph()
                .node_contents_within(&ids[at..], READ_BYTES, &mut contents)?;
            for content in contents.drain(..) {
                let properties = content.map(|content| content.properties.clone());
                if !page.push(&properties.unwrap_or_default().into())? {
                    break;
                }
                last = Some(found[at].0.clone());
                at += 1;
            }
        }
        if page.room() == 0 {
            let next = last.as_ref().map(json::to_string).transpose()?;
            return Ok(next.map(|key| base64::encode(key.as_bytes())));
        }
        match last.clone() {
            Some(last) if found.len() == room => keys.go_behind(last)?,
            _ if keys.go_to_integers() => {}
            _ => return Ok(None),
        }
    }
}

fn key_text(key: &Value) -> String {
    match key {
        Value::String(text) => text.to_string(),
        Value::Int(number) => number.to_string(),
        other => other.type_name().to_owned(),
    }
}

/// `POST …/collections/{label}`
pub async fn insert_documents(mut call: Call, access: DatabaseAccess) -> Result<Reply> {
    let body = typed_value(call.json().await?);
    let text = identifying(&call, || json::to_string(&body))?;
    let label = call.path_param("label").to_owned();
    let one = body.as_map().is_some();
    // Values share their content: inserting one copies it once.
    let documents: Vec<Value> = match &body {
        Value::Map(_) => vec![body],
        Value::List(items) => {
            if items.iter().any(|item| item.as_map().is_none()) {
                let what = "a list of documents must contain only objects";
                return Err(ServerError::Invalid(what.into()));
            }
            items.to_vec()
        }
        other => {
            return Err(ServerError::Invalid(format!(
                "a document must be an object, not a {}",
                other.type_name()
            )));
        }
    };
    let path = call.target.split('?').next().unwrap_or_default().to_owned();
    write(&call, access, Role::Editor, text.as_bytes(), move |tx| {
        let collection = tx.collection(&label);
        let mut keys = Vec::with_capacity(documents.len());
        for document in &documents {
            keys.push(collection.insert(document)?);
        }
        let mut answer = Answer::of(StatusCode::CREATED);
        if let (true, Some(key)) = (one, keys.first()) {
            answer.location = Some(format!("{path}/{}", percent(&key_text(key))));
            return Ok(
                answer.with_json(json::to_string(&params! { "_key" => key.clone() }.into())?)
            );
        }
        Ok(answer.with_json(json::to_string(&params! { "keys" => keys }.into())?))
    })
    .await
}

/// Percent-encodes a text for a path.
pub(super) fn percent(text: &str) -> String {
    text.bytes().fold(String::new(), |mut path, byte| {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            path.push(byte.into());
        } else {
            path.push_str(&format!("%{byte:02X}"));
        }
        path
    })
}

/// `GET …/collections/{label}/{key}`
pub async fn get_document(call: Call, access: DatabaseAccess) -> Result<Reply> {
    let (label, key) = (
        call.path_param("label").to_owned(),
        document_key(&call, call.path_param("key"))?,
    );
    let conditions = Conditions::of(&call.headers)?;
    read_one(&call, access, move |tx| {
        let Some(document) = tx.collection(&label).get(key)? else {
            return Err(ServerError::NotFound("no such document".into()));
        };
        let text = json::to_string(&document.into())?;
        let tag = etag_of(text.as_bytes());
        if conditions.is_known(&tag) {
            return Ok(Reply::empty(StatusCode::NOT_MODIFIED).with_etag(&tag));
        }
        Ok(Reply::whole(StatusCode::OK, JSON, text).with_etag(&tag))
    })
    .await
}

/// `PUT …/collections/{label}/{key}`
pub async fn put_document(mut call: Call, access: DatabaseAccess) -> Result<Reply> {
    let body: Map = call
        .object()
        .await?
        .into_iter()
        .map(|(name, value)| (name, typed_value(value)))
        .collect();
    let text = identifying(&call, || json::to_string(&body.clone().into()))?;
    let (label, key) = (
        call.path_param("label").to_owned(),
        document_key(&call, call.path_param("key"))?,
    );
    if body.get("_key").is_some_and(|own| *own != key) {
        return Err(ServerError::Invalid(
            "`_key` differs from the key in the path: remove it".into(),
        ));
    }
    let (conditions, types) = (Conditions::of(&call.headers)?, call.types()?);
    write(&call, access, Role::Editor, text.as_bytes(), move |tx| {
        let collection = tx.collection(&label);
        let now = collection.get(key.clone())?;
        let tag = now.clone().map(|now| etag(&now.into())).transpose()?;
        conditions.check(tag.as_deref())?;
        let mut document = types.entries(&body, || Ok(now.clone().unwrap_or_default()))?;
        document.insert("_key", key.clone());
        let status = if now.is_some() {
            collection.replace(key.clone(), &document)?;
            StatusCode::NO_CONTENT
        } else {
            collection.insert(&document)?;
            StatusCode::CREATED
        };
        let new = collection.get(key.clone())?.unwrap_or_default();
        Ok(Answer::of(status).with_etag(etag(&new.into())?))
    })
    .await
}

/// `PATCH …/collections/{label}/{key}`
pub async fn patch_document(mut call: Call, access: DatabaseAccess) -> Result<Reply> {
    if call.content_type() == "application/merge-patch+json" {
        Arc::make_mut(&mut call.headers).insert(
            header::CONTENT_TYPE,
            axum::http::HeaderValue::from_static(JSON),
        );
    }
    let patch: Map = call
        .object()
        .await?
        .into_iter()
        .map(|(name, value)| (name, typed_value(value)))
        .collect();
    let text = identifying(&call, || json::to_string(&patch.clone().into()))?;
    let (label, key) = (
        call.path_param("label").to_owned(),
        document_key(&call, call.path_param("key"))?,
    );
    let (conditions, types) = (conditions(&call)?, call.types()?);
    write(&call, access, Role::Editor, text.as_bytes(), move |tx| {
        let collection = tx.collection(&label);
        if let Some(conditions) = &conditions {
            let now = collection
                .get(key.clone())?
                .map(|now| etag(&now.into()))
                .transpose()?;
            conditions.check(now.as_deref())?;
        }
        let patch = types.entries(&patch, || {
            Ok(collection.get(key.clone())?.unwrap_or_default())
        })?;
        collection.patch(key.clone(), &patch)?;
        let new = Value::from(collection.get(key.clone())?.unwrap_or_default());
        Ok(Answer::of(StatusCode::OK)
            .with_etag(etag(&new)?)
            .with_json(json::to_string(&new)?))
    })
    .await
}

/// `DELETE …/collections/{label}/{key}`
pub async fn delete_document(call: Call, access: DatabaseAccess) -> Result<Reply> {
    let (label, key) = (
        call.path_param("label").to_owned(),
        document_key(&call, call.path_param("key"))?,
    );
    let (conditions, detach) = (conditions(&call)?, call.switch("detach")?);
    write(&call, access, Role::Editor, b"", move |tx| {
        let collection = tx.collection(&label);
        if let Some(conditions) = &conditions {
            let now = collection
                .get(key.clone())?
                .map(|now| etag(&now.into()))
                .transpose()?;
            conditions.check(now.as_deref())?;
        }
        let gone = if detach {
            collection.remove_detached(key.clone())?
        } else {
            collection.remove(key.clone())?
        };
        if gone {
            return Ok(Answer::done());
        }
        Err(ServerError::NotFound("no such document".into()))
    })
    .await
}
