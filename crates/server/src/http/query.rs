//! Queries, gathered or streamed, and transactions between requests.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::http::{StatusCode, header};
use isomer_db::{
    CancelHandle, Counters, ErrorKind, Map, QueryOptions, QueryResult, RowStream, Value, json,
    params,
};

use super::{
    call::{Call, StopOnDrop},
    lines::{self, Source},
    once::{self, Answer, Once},
    reply::{JSON, JSON_LINES, Reply, takes_gzip},
};
use crate::{
    Result, ServerError,
    access::{Access, Role},
    core::Core,
    slow,
};

/// A statement as it was asked for.
struct Asked {
    text: String,
    parameters: Map,
    time_ms: Option<u64>,
    rows: Option<u64>,
}

/// Longest text of a query.
const MOST_TEXT: usize = 1 << 20;

async fn asked(call: &mut Call) -> Result<Asked> {
    let mut fields = call.fields(&["query", "parameters", "limits"]).await?;
    let text = fields.needed_text("query")?;
    if text.len() > MOST_TEXT {
        return Err(ServerError::TooLarge(format!(
            "the text of a query has at most {MOST_TEXT} bytes"
        )));
    }
    let mut limits = fields.map("limits")?.unwrap_or_default();
    let mut limit = |name: &str| match limits.remove(name) {
        None => Ok(None),
        Some(value) => {
            let number = value.as_int().and_then(|number| u64::try_from(number).ok());
            number.map(Some).ok_or_else(|| {
                ServerError::Invalid(format!(
                    "`limits.{name}` is a {}: a number is expected",
                    value.type_name()
                ))
            })
        }
    };
    let asked = Asked {
        time_ms: limit("time_ms")?,
        rows: limit("rows")?,
        parameters: typed(fields.map("parameters")?.unwrap_or_default()),
        text,
    };
    match limits.names().next() {
        Some(name) => Err(ServerError::Invalid(format!(
            "there is no limit `{name}`: time_ms and rows are known"
        ))),
        None => Ok(asked),
    }
}

/// `{"$bytes": "…"}` stands for bytes, as it does in answers.
fn typed(parameters: Map) -> Map {
    parameters
        .into_iter()
        .map(|(name, value)| (name, typed_value(value)))
        .collect()
}

/// As [`typed`]; recursion is bounded by the depth of JSON.
pub(super) fn typed_value(value: Value) -> Value {
    match value {
        Value::Map(map) => {
            let coded = map
                .get("$bytes")
                .filter(|_| map.len() == 1)
                .and_then(Value::as_str);
            match coded.and_then(super::base64::decode) {
                Some(bytes) => Value::Bytes(bytes.as_slice().into()),
                None => typed(Arc::unwrap_or_clone(map)).into(),
            }
        }
        Value::List(items) => {
            let items = Arc::unwrap_or_clone(items);
            items
                .into_iter()
                .map(typed_value)
                .collect::<Vec<_>>()
                .into()
        }
        other => other,
    }
}

fn options(access: &mut Access, asked: &Asked, cancel: &CancelHandle) -> Result<QueryOptions> {
    let mut options = access.query_options()?.cancel(cancel.clone());
    if let Some(limits) = &mut options.limits {
        if let Some(ms) = asked.time_ms {
            let wanted = Duration::from_millis(ms);
            limits.time = limits.time.map(|most| most.min(wanted)).or(Some(wanted));
        }
        if let Some(rows) = asked.rows {
            limits.rows = Some(limits.rows.map_or(rows, |most| most.min(rows)));
        }
    }
    Ok(options)
}

/// `POST …/query`
pub async fn query(mut call: Call, mut access: Access) -> Result<Reply> {
    let key = call.header("idempotency-key").map(str::to_owned);
    let asked = asked(&mut call).await?;
    let cancel = CancelHandle::new();
    let mut options = options(&mut access, &asked, &cancel)?;
    let stop = StopOnDrop::new(&cancel);
    let core = call.core.clone();
    let streamed = call.accepts(&[
        JSON_LINES,
        "application/x-ndjson",
        "application/x-jsonlines",
    ]);
    if streamed {
        if key.is_some() {
            return Err(ServerError::Invalid(
                "a streamed answer is not kept: leave the Idempotency-Key away".into(),
            ));
        }
        let gzip = takes_gzip(&call.headers);
        let began = Instant::now();
        // A client may take longer to read than the query may take to find: only the latter has a limit.
        let left = options
            .limits
            .as_mut()
            .and_then(|limits| limits.time.take());
        let source = core
            .clone()
            .blocking(move || {
                let rows = access.stream(&asked.text, &asked.parameters, &options)?;
                Ok(Rows {
                    columns: Some(columns_line(&rows)?),
                    rows,
                    row: 0,
                    slow: Slow {
                        core,
                        access,
                        asked,
                        began,
                    },
                    left,
                    piece: began,
                    cancel,
                    _stop: stop,
                })
            })
            .await?;
        let core = call.core.clone();
        let reply = Reply::stream(JSON_LINES, lines::body(&core, source, gzip));
        return Ok(if gzip {
            reply.with(header::CONTENT_ENCODING, "gzip")
        } else {
            reply
        });
    }
    let once = match &key {
        Some(key) if access.open().is_none() => {
            let parameters = json::to_string(&asked.parameters.clone().into())?;
            let parts = [
                call.target.as_bytes(),
                asked.text.as_bytes(),
                parameters.as_bytes(),
            ];
            Some(Once::new(&access.principal().name, key, &parts)?)
        }
        _ => None,
    };
    let reply = core
        .clone()
        .blocking(move || {
            let began = Instant::now();
            let most = core.config.limits.result_bytes;
            let reply = match &once {
                Some(once) => once::write(&access, Role::Editor, Some(once), |tx| {
                    let result = tx.query_with(&asked.text, &asked.parameters, &options)?;
                    Ok(Answer::of(StatusCode::OK).with_json(result_json(&result, most)?))
                })?,
                None => {
                    let result = access.query(&asked.text, &asked.parameters, &options)?;
                    Reply::whole(StatusCode::OK, JSON, result_json(&result, most)?)
                }
            };
            Slow {
                core,
                access,
                asked,
                began,
            }
            .tell();
            Ok(reply)
        })
        .await?;
    drop(stop);
    Ok(reply)
}

/// `{"columns", "rows", "class", "counters", "notices", "plan", "plan_tree"}`
fn result_json(result: &QueryResult, most: usize) -> Result<String> {
    let mut text = String::from("{\"columns\":");
    json::write(&names(result.columns()), &mut text)?;
    text.push_str(",\"rows\":[");
    for (at, row) in result.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        write_row(row.values(), &mut text)?;
        if text.len() > most {
            return Err(ServerError::TooLarge(format!(
                "the result is larger than {most} bytes: add LIMIT, or stream it with `Accept: application/jsonl` (limits.result)"
            )));
        }
    }
    text.push(']');
    let mut rest = params! {
        "class" => result.class().name(),
        "counters" => counters(result.counters()),
        "notices" => result.notices().iter().map(|notice| Value::from(notice.as_str())).collect::<Vec<_>>(),
    };
    if let Some(plan) = result.plan() {
        rest.insert("plan", plan.into());
    }
    for (name, value) in rest.iter() {
        text.push_str(",\"");
        text.push_str(name);
        text.push_str("\":");
        json::write(value, &mut text)?;
    }
    if let Some(tree) = result.plan_json() {
        text.push_str(",\"plan_tree\":");
        text.push_str(tree);
    }
    text.push('}');
    Ok(text)
}

fn names(columns: &[Arc<str>]) -> Value {
    columns
        .iter()
        .map(|column| Value::String(column.clone()))
        .collect::<Vec<_>>()
        .into()
}

fn write_row(values: &[Value], text: &mut String) -> Result<()> {
    text.push('[');
    for (at, value) in values.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        json::write(value, text)?;
    }
    text.push(']');
    Ok(())
}

/// What was changed; nothing that is zero.
fn counters(counters: &Counters) -> Map {
    [
        ("nodes_created", counters.nodes_created),
        ("nodes_deleted", counters.nodes_deleted),
        ("relationships_created", counters.relationships_created),
        ("relationships_deleted", counters.relationships_deleted),
        ("properties_set", counters.properties_set),
        ("labels_added", counters.labels_added),
        ("labels_removed", counters.labels_removed),
        ("bucket_puts", counters.bucket_puts),
        ("bucket_deletes", counters.bucket_deletes),
        ("indexes_added", counters.indexes_added),
        ("indexes_removed", counters.indexes_removed),
        ("constraints_added", counters.constraints_added),
        ("constraints_removed", counters.constraints_removed),
    ]
    .into_iter()
    .filter(|(_, count)| *count > 0)
    .map(|(name, count)| (name, Value::Int(i64::try_from(count).unwrap_or(i64::MAX))))
    .collect()
}

fn columns_line(rows: &RowStream<'_>) -> Result<String> {
    let mut line = json::to_string(
        &params! { "columns" => names(rows.columns()), "class" => rows.class().name() }.into(),
    )?;
    line.push('\n');
    Ok(line)
}

/// A result as lines: first the columns, then a row a line, at last a summary, or what went wrong.
struct Rows {
    columns: Option<String>,
    rows: RowStream<'static>,
    row: u64,
    slow: Slow,
    /// How long the query may still work, and since when it is at work now.
    left: Option<Duration>,
    piece: Instant,
    cancel: CancelHandle,
    _stop: StopOnDrop,
}

impl Rows {
    /// Whether it has worked for as long as it may.
    fn is_over(&self) -> bool {
        self.left.is_some_and(|left| self.piece.elapsed() >= left)
    }
}

impl Source for Rows {
    fn limit(&mut self) -> Option<(Option<Duration>, CancelHandle)> {
        self.piece = Instant::now();
        Some((self.left, self.cancel.clone()))
    }

    fn worked(&mut self, time: Duration) {
        self.left = self.left.map(|left| left.saturating_sub(time));
    }

    fn next(&mut self, out: &mut String) -> Result<bool> {
        if let Some(line) = self.columns.take() {
            out.push_str(&line);
        }
        let written = match self.rows.next() {
            Some(Ok(row)) => {
                self.row += 1;
                write_row(row.values(), out).map(|()| true)
            }
            Some(Err(error)) if error.kind() == ErrorKind::Cancelled && self.is_over() => {
                Err(ServerError::TooSlow(
                    "the query works for longer than it may: narrow it, add an index, or raise the time limit".into(),
                ))
            }
            Some(Err(error)) => Err(error.into()),
            None => {
                let summary = params! {
                    "rows" => i64::try_from(self.row).unwrap_or(i64::MAX),
                    "class" => self.rows.class().name(),
                    "counters" => counters(&self.rows.counters()),
                    "notices" => self.rows.notices().into_iter().map(Value::from).collect::<Vec<_>>(),
                };
                json::write(&params! { "summary" => summary }.into(), out)?;
                self.slow.tell();
                Ok(false)
            }
        };
        let more = written.or_else(|error: ServerError| {
            let told = params! { "kind" => error.kind(), "message" => error.to_string() };
            json::write(&params! { "error" => told }.into(), out)?;
            Ok::<_, ServerError>(false)
        })?;
        out.push('\n');
        Ok(more)
    }
}

/// Tells of a query that took long.
struct Slow {
    core: Arc<Core>,
    access: Access,
    asked: Asked,
    began: Instant,
}

impl Slow {
    fn tell(&self) {
        let (text, parameters) = (&self.asked.text, &self.asked.parameters);
        slow::tell(
            &self.core,
            &self.access,
            text,
            parameters,
            self.began.elapsed(),
        );
    }
}

/// `POST …/tx`
pub async fn begin(mut call: Call, access: Access) -> Result<Reply> {
    let read_only = call
        .optional_fields(&["read_only"])
        .await?
        .switch("read_only")?;
    let core = call.core.clone();
    let path = call.target.clone();
    core.clone()
        .blocking(move || {
            let transaction = access.begin(read_only)?;
            let (version, read_only) = (transaction.version(), transaction.is_read_only());
            let open = core
                .open
                .add(&access.principal().name, access.name(), transaction)?;
            let told = params! {
                "transaction" => open.id(),
                "read_only" => read_only,
                "version" => i64::try_from(version).unwrap_or(i64::MAX),
                "expires_in_ms" => i64::try_from(open.ends_in().as_millis()).unwrap_or(i64::MAX),
            };
            let reply = Reply::value_with(StatusCode::CREATED, &told.into())?;
            Ok(reply.with(
                header::LOCATION,
                format!("{}/{}", path.trim_end_matches('/'), open.id()),
            ))
        })
        .await
}

/// `POST …/tx/{transaction}/query`
pub async fn query_in(call: Call, access: Access) -> Result<Reply> {
    query(call, access).await
}

fn the_open(access: &Access) -> Result<Arc<crate::open::Open>> {
    access
        .open()
        .cloned()
        .ok_or_else(|| ServerError::NotFound("there is no such transaction".into()))
}

/// `GET …/tx/{transaction}`
pub async fn look(_call: Call, access: Access) -> Result<Reply> {
    let open = the_open(&access)?;
    Reply::object(params! {
        "transaction" => open.id(),
        "expires_in_ms" => i64::try_from(open.ends_in().as_millis()).unwrap_or(i64::MAX),
    })
}

/// `POST …/tx/{transaction}/commit`
pub async fn commit(call: Call, access: Access) -> Result<Reply> {
    let (core, open) = (call.core.clone(), the_open(&access)?);
    core.clone()
        .blocking(move || {
            let version = core.open.commit(&open)?;
            Reply::object(params! { "version" => i64::try_from(version).unwrap_or(i64::MAX) })
        })
        .await
}

/// `DELETE …/tx/{transaction}`
pub async fn rollback(call: Call, access: Access) -> Result<Reply> {
    let (core, open) = (call.core.clone(), the_open(&access)?);
    core.clone()
        .blocking(move || core.open.rollback(&open).map(|()| Reply::done()))
        .await
}
