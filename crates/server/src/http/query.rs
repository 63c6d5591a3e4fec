//! Queries, collected or streamed, and transactions that stay open between requests.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::http::{StatusCode, header};
use isomer_db::{
    CancelHandle, Counters, Map, Notice, Query, QueryOptions, QueryResult, RowStream,
    StatementClass, Value, internals::ResultInternals as _, json, params,
};
use parking_lot::Mutex;

use super::{
    call::{Call, StopOnDrop, wrong},
    columns::{self, Batches},
    credentials::RequestCredentials,
    lines::{self, Limit, Source},
    once::{self, Answer, Once},
    outcome::Outcome,
    reply::{ARROW, JSON, JSON_LINES, Reply, error_body, takes_gzip},
    rows::{RowSource, Slow},
};
use crate::{
    Result, ServerError,
    access::{DatabaseAccess, Role},
    audit::AuditDetails,
    core::Core,
    sending::{Reserved, most_text_bytes},
    slow,
    traces::Span,
};

/// A parsed request for a query.
pub(super) struct QueryRequest {
    pub(super) text: String,
    pub(super) parameters: Map,
    time_ms: Option<u64>,
    rows: Option<u64>,
    /// Types of columns, for Arrow.
    types: Map,
}

/// Fields of the body.
const FIELDS: &[&str] = &["query", "parameters", "limits", "types"];

/// Longest text of a query.
const MAX_TEXT_BYTES: usize = 1 << 20;

pub(super) async fn read_request(call: &mut Call, known: &[&str]) -> Result<QueryRequest> {
    let mut fields = call.fields(known).await?;
    let text = fields.needed_text("query")?;
    if text.len() > MAX_TEXT_BYTES {
        return Err(ServerError::TooLarge(format!(
            "the text of a query exceeds {MAX_TEXT_BYTES} bytes"
        )));
    }
    let mut limits = fields.map("limits")?.unwrap_or_default();
    let mut limit = |name: &str| match limits.remove(name) {
        None => Ok(None),
        Some(value) => {
            let number = value.as_int().and_then(|number| u64::try_from(number).ok());
            number
                .map(Some)
                .ok_or_else(|| wrong(&format!("limits.{name}"), "a number of at least 0", &value))
        }
    };
    let asked = QueryRequest {
        time_ms: limit("time_ms")?,
        rows: limit("rows")?,
        types: fields.map("types")?.unwrap_or_default(),
        parameters: typed(fields.map("parameters")?.unwrap_or_default()),
        text,
    };
    match limits.names().next() {
        Some(name) => Err(ServerError::Invalid(format!(
            "unknown limit `{name}`: expected time_ms or rows"
        ))),
        None => Ok(asked),
    }
}

/// Converts `{"$bytes": "…"}` to bytes; answers use the same form.
fn typed(parameters: Map) -> Map {
    parameters
        .into_iter()
        .map(|(name, value)| (name, typed_value(value)))
        .collect()
}

/// Like [`typed`]; recursion is bounded by the nesting limit of JSON.
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
    access: &mut DatabaseAccess,
    asked: &QueryRequest,
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

/// Content types of a result as lines.
const LINES: &[&str] = &[
    JSON_LINES,
    "application/x-ndjson",
    "application/x-jsonlines",
];

/// `POST …/query`
pub async fn query(mut call: Call, mut access: DatabaseAccess) -> Result<Reply> {
    let key = call.header(once::KEY)?.map(str::to_owned);
    let asked = read_request(&mut call, FIELDS).await?;
    let cancel = CancelHandle::new();
    let options = options(&mut access, &asked, &cancel)?;
    // The client has disconnected if this is dropped before the end.
    let stop = StopOnDrop::new(&cancel);
    let work = QueryWork {
        cancel,
        span: call.core.traces.query(&call.span, access.name()),
        details: call.audit_details.clone(),
        core: call.core.clone(),
        access,
        asked,
        options,
    };
    let as_columns = call.accepts(&[ARROW], &[&[JSON], LINES])?;
    let as_lines = call.accepts(LINES, &[&[JSON], &[ARROW]])?;
    if !as_columns && !as_lines {
        return work.collect(&call.target, key.as_deref()).await;
    }
    if key.is_some() {
        return Err(ServerError::Invalid(
            "streamed answers are not kept: omit the Idempotency-Key".into(),
        ));
    }
    work.stream(&call, as_columns, stop).await
}

/// A query that was admitted and parsed, before it runs.
struct QueryWork {
    core: Arc<Core>,
    access: DatabaseAccess,
    asked: QueryRequest,
    options: QueryOptions,
    cancel: CancelHandle,
    span: Span,
    details: Arc<Mutex<AuditDetails>>,
}

impl QueryWork {
    /// Runs the query and streams its rows, as columns or as lines.
    async fn stream(mut self, call: &Call, as_columns: bool, stop: StopOnDrop) -> Result<Reply> {
        let gzip = takes_gzip(&call.headers);
        let began = Instant::now();
        // The client may read for longer than the query may run: the server's limit is on running time. The timeout
        // of the client itself is by the clock.
        if let Some(limits) = &mut self.options.limits {
            limits.time = None;
        }
        let end = self
            .asked
            .time_ms
            .and_then(|ms| began.checked_add(Duration::from_millis(ms)));
        let said = columns::kinds_said(&self.asked.types)?;
        let outcome = Outcome::default();
        let noted = outcome.clone();
        let credentials = RequestCredentials::of(call, &self.access)?;
        let core = self.core.clone();
        let source = core
            .clone()
            .blocking(move || self.open(began, end, stop, noted))
            .await?;
        let reply = if as_columns {
            let batches = Batches::new(source, said, Reserved::new(&core.databases))?;
            Reply::stream(
                ARROW,
                lines::begun(&core, credentials, batches, gzip).await?,
            )
        } else {
            let columns = Some(columns_line(&source.rows)?);
            let rows = Rows { columns, source };
            Reply::stream(JSON_LINES, lines::body(&core, credentials, rows, gzip))
        };
        let reply = reply.with_outcome(outcome);
        Ok(if gzip {
            reply.with(header::CONTENT_ENCODING, "gzip")
        } else {
            reply
        })
    }

    /// Starts the query, which began at `began` and ends at `end` by the clock.
    fn open(
        self,
        began: Instant,
        end: Option<Instant>,
        stop: StopOnDrop,
        outcome: Outcome,
    ) -> Result<RowSource> {
        let left = self.core.config.limits.query_time;
        let slow = Slow {
            core: self.core,
            access: self.access,
            text: self.asked.text,
        };
        let rows = slow
            .access
            .stream(&slow.text, &self.asked.parameters, &self.options);
        let rows = rows.inspect_err(|error| {
            self.details.lock().class = slow.access.class_of(&slow.text);
            self.span.failed(error.kind());
            slow.log(began.elapsed(), Some(error.kind()));
        })?;
        self.span.text(&slow.text);
        self.span.class(rows.class().name());
        self.details.lock().class = Some(rows.class());
        let took = began.elapsed();
        Ok(RowSource {
            rows,
            row: 0,
            span: self.span,
            outcome,
            slow: Some(slow),
            left: Some(left.saturating_sub(took)),
            end,
            took,
            piece: began,
            is_working: false,
            cancel: self.cancel,
            _stop: stop,
        })
    }

    /// Runs the query and answers with its whole result; with an idempotency key, once.
    async fn collect(self, target: &str, key: Option<&str>) -> Result<Reply> {
        let once = match key {
            // Only requests with a role that may write need the answer stored.
            Some(key) if self.access.role() >= Role::Editor => {
                let parameters = json::to_string(&self.asked.parameters.clone().into())?;
                let parts = [
                    target.as_bytes(),
                    self.asked.text.as_bytes(),
                    parameters.as_bytes(),
                ];
                Some(Once::new(&self.access.principal().name, key, &parts)?)
            }
            _ => None,
        };
        let core = self.core.clone();
        core.blocking(move || {
            let began = Instant::now();
            let reply = match &once {
                Some(once) => self.run_once(once),
                None => self.run(),
            };
            match &reply {
                Ok(_) => self.span.text(&self.asked.text),
                Err(error) => {
                    self.span.failed(error.kind());
                    self.details.lock().class = self.access.class_of(&self.asked.text);
                }
            }
            let failed = reply.as_ref().err().map(ServerError::kind);
            slow::log(
                &self.core,
                &self.access,
                &self.asked.text,
                began.elapsed(),
                failed,
            );
            reply
        })
        .await
    }

    fn run_once(&self, once: &Once) -> Result<Reply> {
        once::write(&self.access, Role::Editor, Some(once), |tx| {
            let result = tx.query(
                Query::new(&self.asked.text)
                    .params(&self.asked.parameters)
                    .options(&self.options),
            )?;
            self.note_class(result.class());
            let mut reserved = Reserved::owed(&self.core.databases);
            let text = self.result_json(&result, &mut reserved)?;
            Ok(Answer::of(StatusCode::OK).with_json(text))
        })
    }

    fn run(&self) -> Result<Reply> {
        let (text, parameters) = (&self.asked.text, &self.asked.parameters);
        let result = self.access.query(text, parameters, &self.options)?;
        self.note_class(result.class());
        let mut reserved = match result.class() {
            StatementClass::Read => Reserved::new(&self.core.databases),
            _ => Reserved::owed(&self.core.databases),
        };
        let text = self.result_json(&result, &mut reserved)?;
        let reply = Reply::whole(StatusCode::OK, JSON, text);
        Ok(reply.with_reservation(reserved.into_reservation()))
    }

    fn note_class(&self, class: StatementClass) {
        self.span.class(class.name());
        self.details.lock().class = Some(class);
    }

    fn result_json(&self, result: &QueryResult, reserved: &mut Reserved) -> Result<String> {
        result_json(result, self.core.config.limits.result_bytes, reserved)
    }
}

/// `{"columns", "rows", "class", "counters", "notices", "plan", "plan_tree"}`
fn result_json(result: &QueryResult, most: usize, reserved: &mut Reserved) -> Result<String> {
    let mut text = String::from("{");
    write_rows(result, most, &mut text, reserved)?;
    let mut rest = params! {
        "class" => result.class().name(),
        "counters" => counters(result.counters()),
        "notices" => notices(result.notices()),
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

/// Writes `"columns", "rows"` of a result, up to its size limit.
pub(super) fn write_rows(
    result: &QueryResult,
    most: usize,
    text: &mut String,
    reserved: &mut Reserved,
) -> Result<()> {
    let is_small = result.held_bytes() == 0;
    text.push_str("\"columns\":");
    json::write(&names(result.columns()), text)?;
    text.push_str(",\"rows\":[");
    for (at, row) in result.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        if !is_small {
            make_room_for(row.values(), text, reserved)?;
        }
        write_row(row.values(), result.columns().len(), text)?;
        if text.len() > most {
            return Err(ServerError::TooLarge(format!(
                "the result exceeds {most} bytes: add LIMIT, or stream it with `Accept: application/jsonl` (limits.result)"
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

/// Makes room in a text for a row.
fn make_room_for(values: &[Value], text: &mut String, reserved: &mut Reserved) -> Result<()> {
    let bytes = values.iter().map(|value| 1 + most_text_bytes(value));
    reserved.make_room(text, 8 + bytes.sum::<usize>())
}

/// Writes a row of a result with `column_count` columns.
fn write_row(values: &[Value], column_count: usize, text: &mut String) -> Result<()> {
    assert_eq!(values.len(), column_count, "a row has one value per column");
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

/// The messages of notices.
fn notices(notices: &[Notice]) -> Vec<Value> {
    let messages = notices.iter().map(|notice| notice.message.as_str());
    messages.map(Value::from).collect()
}

/// Counts of changes; zeros are omitted.
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

fn columns_line(rows: &RowStream) -> Result<String> {
    let mut line = json::to_string(
        &params! { "columns" => names(rows.columns()), "class" => rows.class().name() }.into(),
    )?;
    line.push('\n');
    Ok(line)
}

/// A result as lines: the columns, then one row per line, finally a summary or an error.
struct Rows {
    columns: Option<String>,
    source: RowSource,
}

impl Rows {
    fn next(&mut self, out: &mut String, reserved: &mut Reserved) -> Result<bool> {
        if let Some(line) = self.columns.take() {
            out.push_str(&line);
        }
        let written = match self.source.next() {
            Ok(Some(row)) => make_room_for(row.values(), out, reserved)
                .and_then(|()| write_row(row.values(), self.source.columns().len(), out))
                .map(|()| true),
            Ok(None) => {
                let rows = &self.source.rows;
                let summary = params! {
                    "rows" => i64::try_from(self.source.row).unwrap_or(i64::MAX),
                    "class" => rows.class().name(),
                    "counters" => counters(&rows.counters()),
                    "notices" => notices(&rows.notices()),
                };
                json::write(&params! { "summary" => summary }.into(), out)?;
                self.source.end();
                Ok(false)
            }
            Err(error) => Err(error),
        };
        let more = written.or_else(|error: ServerError| {
            json::write(&error_body(&error), out)?;
            Ok::<_, ServerError>(false)
        })?;
        out.push('\n');
        Ok(more)
    }
}

impl Source for Rows {
    fn piece(&mut self, reserved: &mut Reserved) -> Result<(Vec<u8>, bool)> {
        lines::piece(|out| self.next(out, reserved))
    }

    fn limit(&mut self) -> Limit {
        self.source.limit()
    }

    fn record_time(&mut self, time: Duration) {
        self.source.record_time(time);
    }

    fn end(&self) -> Option<Instant> {
        self.source.deadline()
    }

    fn expire(self) -> Result<Vec<u8>> {
        let mut line = self.columns.unwrap_or_default();
        json::write(&error_body(&self.source.expire()), &mut line)?;
        line.push('\n');
        Ok(line.into_bytes())
    }
}

/// `POST …/tx`
pub async fn begin(mut call: Call, access: DatabaseAccess) -> Result<Reply> {
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
            let body = params! {
                "transaction" => open.id(),
                "read_only" => read_only,
                "version" => i64::try_from(version).unwrap_or(i64::MAX),
                "expires_in_ms" => i64::try_from(open.ends_in().as_millis()).unwrap_or(i64::MAX),
            };
            let reply = Reply::value_with(StatusCode::CREATED, &body.into())?;
            Ok(reply.with(
                header::LOCATION,
                format!("{}/{}", path.trim_end_matches('/'), open.id()),
            ))
        })
        .await
}

/// `POST …/tx/{transaction}/query`
pub async fn query_in(call: Call, access: DatabaseAccess) -> Result<Reply> {
    query(call, access).await
}

fn the_open(access: &DatabaseAccess) -> Result<Arc<crate::open::OpenTransaction>> {
    access
        .open()
        .cloned()
        .ok_or_else(crate::open::no_transaction)
}

/// `GET …/tx/{transaction}`
pub async fn transaction_status(_call: Call, access: DatabaseAccess) -> Result<Reply> {
    let open = the_open(&access)?;
    Reply::object(params! {
        "transaction" => open.id(),
        "expires_in_ms" => i64::try_from(open.ends_in().as_millis()).unwrap_or(i64::MAX),
    })
}

/// `POST …/tx/{transaction}/commit`
pub async fn commit(call: Call, access: DatabaseAccess) -> Result<Reply> {
    let core = call.core.clone();
    let class = the_open(&access)?.class();
    call.audit(|details| details.class = Some(class));
    core.clone()
        .blocking(move || {
            let version = access.commit(&core.open)?;
            Reply::object(params! { "version" => i64::try_from(version).unwrap_or(i64::MAX) })
        })
        .await
}

/// `DELETE …/tx/{transaction}`
pub async fn rollback(call: Call, access: DatabaseAccess) -> Result<Reply> {
    let (core, open) = (call.core.clone(), the_open(&access)?);
    core.clone()
        .blocking(move || core.open.rollback(&open).map(|()| Reply::done()))
        .await
}
