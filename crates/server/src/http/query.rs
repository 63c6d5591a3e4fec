//! Queries, gathered or streamed, and transactions between requests.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::http::{StatusCode, header};
use isomer_db::{
    CancelHandle, Counters, ErrorKind, Map, QueryOptions, QueryResult, Row, RowStream, Value, json,
    params,
};

use super::{
    call::{Call, StopOnDrop, wrong},
    columns::{self, Batches},
    ending::Outcome,
    lines::{self, Limit, Source},
    once::{self, Answer, Once},
    reply::{ARROW, JSON, JSON_LINES, Reply, takes_gzip, told},
    shown::Shown,
};
use crate::{
    Result, ServerError,
    access::{Access, Role},
    core::Core,
    slow,
    traces::Span,
};

/// A statement as it was asked for.
pub(super) struct Asked {
    pub(super) text: String,
    pub(super) parameters: Map,
    time_ms: Option<u64>,
    rows: Option<u64>,
    /// What columns are, for those who ask for Arrow.
    types: Map,
}

/// What a request for a query may say.
const FIELDS: &[&str] = &["query", "parameters", "limits", "types"];

/// Longest text of a query.
const MOST_TEXT: usize = 1 << 20;

pub(super) async fn asked(call: &mut Call, known: &[&str]) -> Result<Asked> {
    let mut fields = call.fields(known).await?;
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
            number
                .map(Some)
                .ok_or_else(|| wrong(&format!("limits.{name}"), "a number from 0", &value))
        }
    };
    let asked = Asked {
        time_ms: limit("time_ms")?,
        rows: limit("rows")?,
        types: fields.map("types")?.unwrap_or_default(),
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

pub(super) fn options(
    access: &mut Access,
    asked: &Asked,
    cancel: &CancelHandle,
) -> Result<QueryOptions> {
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
    let key = call.header(once::KEY)?.map(str::to_owned);
    let asked = asked(&mut call, FIELDS).await?;
    let cancel = CancelHandle::new();
    let mut options = options(&mut access, &asked, &cancel)?;
    let stop = StopOnDrop::new(&cancel);
    let core = call.core.clone();
    let span = core.traces.query(&call.span, access.name());
    let told = call.told.clone();
    let lines = &[
        JSON_LINES,
        "application/x-ndjson",
        "application/x-jsonlines",
    ];
    let as_columns = call.accepts(&[ARROW], &[&[JSON], lines])?;
    let as_lines = call.accepts(lines, &[&[JSON], &[ARROW]])?;
    if as_columns || as_lines {
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
        let said = columns::kinds_said(&asked.types)?;
        let outcome = Outcome::default();
        let noted = outcome.clone();
        let shown = Shown::of(&call, &access)?;
        let found = core
            .clone()
            .blocking(move || {
                let slow = Slow {
                    core,
                    access,
                    asked,
                };
                let (text, parameters) = (&slow.asked.text, &slow.asked.parameters);
                let rows = slow.access.stream(text, parameters, &options);
                let rows = rows.inspect_err(|error| {
                    told.lock().class = slow.access.class_of(text);
                    span.failed(error.kind());
                    slow.tell(began.elapsed(), Some(error.kind()));
                })?;
                span.text(text);
                span.class(rows.class().name());
                told.lock().class = Some(rows.class());
                let took = began.elapsed();
                Ok(Found {
                    rows,
                    row: 0,
                    span,
                    outcome: noted,
                    slow: Some(slow),
                    left: left.map(|left| left.saturating_sub(took)),
                    took,
                    piece: began,
                    is_working: false,
                    cancel,
                    _stop: stop,
                })
            })
            .await?;
        let core = call.core.clone();
        let reply = if as_columns {
            let batches = Batches::new(found, said)?;
            Reply::stream(ARROW, lines::begun(&core, shown, batches, gzip).await?)
        } else {
            let columns = Some(columns_line(&found.rows)?);
            let rows = Rows { columns, found };
            Reply::stream(JSON_LINES, lines::body(&core, shown, rows, gzip))
        };
        let reply = reply.with_outcome(outcome);
        return Ok(if gzip {
            reply.with(header::CONTENT_ENCODING, "gzip")
        } else {
            reply
        });
    }
    let once = match &key {
        // What others send writes nothing.
        Some(key) if access.role() >= Role::Editor => {
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
                    span.class(result.class().name());
                    told.lock().class = Some(result.class());
                    Ok(Answer::of(StatusCode::OK).with_json(result_json(&result, most)?))
                }),
                None => access
                    .query(&asked.text, &asked.parameters, &options)
                    .and_then(|result| {
                        span.class(result.class().name());
                        told.lock().class = Some(result.class());
                        let text = result_json(&result, most)?;
                        Ok(Reply::whole(StatusCode::OK, JSON, text))
                    }),
            };
            match &reply {
                Ok(_) => span.text(&asked.text),
                Err(error) => {
                    span.failed(error.kind());
                    told.lock().class = access.class_of(&asked.text);
                }
            }
            let slow = Slow {
                core,
                access,
                asked,
            };
            slow.tell(began.elapsed(), reply.as_ref().err().map(ServerError::kind));
            reply
        })
        .await?;
    drop(stop);
    Ok(reply)
}

/// `{"columns", "rows", "class", "counters", "notices", "plan", "plan_tree"}`
fn result_json(result: &QueryResult, most: usize) -> Result<String> {
    let mut text = String::from("{");
    write_rows(result, most, &mut text)?;
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

/// `"columns", "rows"`, of a result that is no larger than it may.
pub(super) fn write_rows(result: &QueryResult, most: usize, text: &mut String) -> Result<()> {
    text.push_str("\"columns\":");
    json::write(&names(result.columns()), text)?;
    text.push_str(",\"rows\":[");
    for (at, row) in result.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        write_row(row.values(), text)?;
        if text.len() > most {
            return Err(ServerError::TooLarge(format!(
                "the result is larger than {most} bytes: add LIMIT, or stream it with `Accept: application/jsonl` (limits.result)"
            )));
        }
    }
    text.push(']');
    Ok(())
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

/// Rows as they are found, for as long as their query may work.
pub(super) struct Found {
    rows: RowStream<'static>,
    row: u64,
    span: Span,
    outcome: Outcome,
    /// None once it was told.
    slow: Option<Slow>,
    /// How long the query may still work, how long it has, and since when it is at work now.
    left: Option<Duration>,
    took: Duration,
    piece: Instant,
    is_working: bool,
    cancel: CancelHandle,
    _stop: StopOnDrop,
}

impl Found {
    pub(super) fn columns(&self) -> &[Arc<str>] {
        self.rows.columns()
    }

    pub(super) fn next(&mut self) -> Result<Option<Row>> {
        let next = self.next_row();
        if let Err(error) = &next {
            self.span.failed(error.kind());
            self.outcome.failed(error.kind());
            self.tell(Some(error.kind()));
        }
        next
    }

    fn next_row(&mut self) -> Result<Option<Row>> {
        match self.rows.next() {
            Some(Ok(row)) => {
                self.row += 1;
                Ok(Some(row))
            }
            Some(Err(error)) if error.kind() == ErrorKind::Cancelled && self.is_over() => {
                Err(ServerError::TooSlow(
                    "the query works for longer than it may: narrow it, add an index, or raise the time limit".into(),
                ))
            }
            Some(Err(error)) => Err(error.into()),
            None => Ok(None),
        }
    }

    /// Whether it has worked for as long as it may.
    fn is_over(&self) -> bool {
        self.left.is_some_and(|left| self.piece.elapsed() >= left)
    }

    pub(super) fn limit(&mut self) -> Limit {
        self.piece = Instant::now();
        self.is_working = true;
        Some((self.left, self.cancel.clone()))
    }

    pub(super) fn worked(&mut self, time: Duration) {
        self.left = self.left.map(|left| left.saturating_sub(time));
        self.took += time;
        self.is_working = false;
    }

    /// All rows were found.
    pub(super) fn end(&mut self) {
        self.tell(None);
    }

    /// Tells of it once if it took long: the time in which the client read does not count.
    fn tell(&mut self, error: Option<&'static str>) {
        if let Some(slow) = self.slow.take() {
            slow.tell(self.worked_so_far(), error);
        }
    }

    fn worked_so_far(&self) -> Duration {
        let now = match self.is_working {
            true => self.piece.elapsed(),
            false => Duration::ZERO,
        };
        self.took + now
    }
}

impl Drop for Found {
    fn drop(&mut self) {
        // Nobody waits for the rest. This may be a thread that serves connections, and to tell is to plan the query once more.
        let took = self.worked_so_far();
        let Some(slow) = self.slow.take().filter(|slow| slow.is_told(took)) else {
            return;
        };
        let tell = move || slow.tell(took, Some("client gone"));
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(tell)),
            Err(_) => tell(),
        }
    }
}

/// A result as lines: first the columns, then a row a line, at last a summary, or what went wrong.
struct Rows {
    columns: Option<String>,
    found: Found,
}

impl Rows {
    fn next(&mut self, out: &mut String) -> Result<bool> {
        if let Some(line) = self.columns.take() {
            out.push_str(&line);
        }
        let written = match self.found.next() {
            Ok(Some(row)) => write_row(row.values(), out).map(|()| true),
            Ok(None) => {
                let rows = &self.found.rows;
                let summary = params! {
                    "rows" => i64::try_from(self.found.row).unwrap_or(i64::MAX),
                    "class" => rows.class().name(),
                    "counters" => counters(&rows.counters()),
                    "notices" => rows.notices().into_iter().map(Value::from).collect::<Vec<_>>(),
                };
                json::write(&params! { "summary" => summary }.into(), out)?;
                self.found.end();
                Ok(false)
            }
            Err(error) => Err(error),
        };
        let more = written.or_else(|error: ServerError| {
            json::write(&told(&error), out)?;
            Ok::<_, ServerError>(false)
        })?;
        out.push('\n');
        Ok(more)
    }
}

impl Source for Rows {
    fn piece(&mut self) -> Result<(Vec<u8>, bool)> {
        lines::piece(|out| self.next(out))
    }

    fn limit(&mut self) -> Limit {
        self.found.limit()
    }

    fn worked(&mut self, time: Duration) {
        self.found.worked(time);
    }
}

/// Tells of a query that took long.
struct Slow {
    core: Arc<Core>,
    access: Access,
    asked: Asked,
}

impl Slow {
    /// Whether a query that took so long is told of.
    fn is_told(&self, took: Duration) -> bool {
        slow::is_slow(&self.core, took)
    }

    fn tell(&self, took: Duration, error: Option<&'static str>) {
        slow::tell(&self.core, &self.access, &self.asked.text, took, error);
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
    let core = call.core.clone();
    let class = the_open(&access)?.class();
    call.tell(|told| told.class = Some(class));
    core.clone()
        .blocking(move || {
            let version = access.commit(&core.open)?;
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
