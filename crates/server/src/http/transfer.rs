//! Imports and exports: records as JSON lines, streamed in either direction.

use std::{
    io::{BufRead, BufReader, Read},
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    body::{Body, Bytes},
    http::header,
};
use http_body_util::BodyExt;
use isomer_db::{
    Map, Transaction, Value,
    data::{BulkEnds, BulkNode, BulkRelationship, DataError, GraphRead, new_key},
    json::{self, JsonReader},
    params,
};
use isomer_value::{LabelId, NodeId, RelId, TypeId};
use tokio::sync::mpsc;

use super::{
    call::{Call, Coding},
    lines::{self, Source},
    query::typed_value,
    reply::{JSON_LINES, Reply, takes_gzip},
    shown::Shown,
};
use crate::{Result, ServerError, access::Access};

/// Records read at once, and bytes of them as stored.
const BATCH: usize = 500;
const BATCH_BYTES: usize = 1 << 20;
/// Least bytes a second in which a body comes, beyond the longest pause: who sends less holds a place for nothing.
const LEAST_RATE: u64 = 64 << 10;
/// Longest line of an import.
const MOST_LINE: usize = 16 << 20;

/// `GET …/export/nodes`
pub async fn export_nodes(call: Call, access: Access) -> Result<Reply> {
    let label = call.param("label").unwrap_or_default().to_owned();
    export(&call, access, move |tx| {
        match tx.catalog().label_id(&label) {
            Some(id) => Ok(What::Nodes(id)),
            None => Err(ServerError::NotFound(format!(
                "no node has ever had the label `{label}`"
            ))),
        }
    })
    .await
}

/// `GET …/export/relationships`
pub async fn export_relationships(call: Call, access: Access) -> Result<Reply> {
    let name = call.param("type").unwrap_or_default().to_owned();
    export(&call, access, move |tx| match tx.catalog().type_id(&name) {
        Some(id) => Ok(What::Relationships(id)),
        None => Err(ServerError::NotFound(format!(
            "no relationship has ever had the type `{name}`"
        ))),
    })
    .await
}

async fn export(
    call: &Call,
    access: Access,
    what: impl FnOnce(&Transaction) -> Result<What> + Send + 'static,
) -> Result<Reply> {
    if access.open().is_some() {
        return Err(ServerError::Invalid(
            "an export reads a version of its own: leave Isomer-Transaction away".into(),
        ));
    }
    let shown = Shown::of(call, &access)?;
    let source = call
        .core
        .blocking(move || {
            let transaction = access.begin(true)?;
            Ok(Export {
                what: what(&transaction)?,
                transaction,
                after: None,
                _access: access,
            })
        })
        .await?;
    let gzip = takes_gzip(&call.headers);
    // Lines have no words for errors that could not be records, too: where one comes in the way, the answer breaks off.
    let body = lines::begun(&call.core, shown, source, gzip).await?;
    let reply = Reply::stream(JSON_LINES, body);
    Ok(if gzip {
        reply.with(header::CONTENT_ENCODING, "gzip")
    } else {
        reply
    })
}

enum What {
    Nodes(LabelId),
    Relationships(TypeId),
}

/// Records of one version, by their ids.
struct Export {
    what: What,
    transaction: Transaction,
    after: Option<u64>,
    _access: Access,
}

impl Source for Export {
    fn piece(&mut self) -> Result<(Vec<u8>, bool)> {
        lines::piece(|out| self.next(out))
    }
}

impl Export {
    /// Writes some records; says whether there may be more.
    fn next(&mut self, out: &mut String) -> Result<bool> {
        match self.what {
            What::Nodes(label) => self.nodes(label, out),
            What::Relationships(type_id) => self.relationships(type_id, out),
        }
    }

    fn nodes(&mut self, label: LabelId, out: &mut String) -> Result<bool> {
        let data = self.transaction.data_ref();
        let (mut ids, mut contents) = (Vec::new(), Vec::new());
        data.scan_nodes(Some(label), self.after.map(NodeId), BATCH, &mut ids)?;
        data.node_contents_within(&ids, BATCH_BYTES, &mut contents)?;
        for content in contents.iter().flatten() {
            let mut row = content.properties.clone();
            if content.labels.len() > 1 {
                let labels = content.labels.iter().cloned().map(Value::String);
                row.insert(LABELS, labels.collect::<Vec<_>>().into());
            }
            json::write(&row.into(), out)?;
            out.push('\n');
        }
        self.after = contents.len().checked_sub(1).map(|last| ids[last].0);
        Ok(contents.len() < ids.len() || ids.len() == BATCH)
    }

    fn relationships(&mut self, type_id: TypeId, out: &mut String) -> Result<bool> {
        let data = self.transaction.data_ref();
        let (mut found, mut contents) = (Vec::new(), Vec::new());
        data.scan_relationships(Some(type_id), self.after.map(RelId), BATCH, &mut found)?;
        let ids: Vec<_> = found.iter().map(|row| row.id).collect();
        data.relationship_contents_within(&ids, BATCH_BYTES, &mut contents)?;
        let ends: Vec<_> = found[..contents.len()]
            .iter()
            .flat_map(|row| [row.source, row.target])
            .collect();
        let mut keys = [vec![Value::Null; 0]];
        match data.catalog().prop_id("_key") {
            Some(key) => data.node_properties(&ends, &[key], &mut keys)?,
            None => keys[0].resize(ends.len(), Value::Null),
        }
        for (at, content) in contents.iter().enumerate() {
            let Some(content) = content else { continue };
            let mut row = content.properties.clone();
            for (name, end) in [("_from", 2 * at), ("_to", 2 * at + 1)] {
                let key = keys[0][end].clone();
                if key.is_null() {
                    return Err(ServerError::Invalid(format!(
                        "node {} has no `_key`, so that its relationships could not be told apart",
                        ends[end]
                    )));
                }
                row.insert(name, key);
            }
            json::write(&row.into(), out)?;
            out.push('\n');
        }
        self.after = contents.len().checked_sub(1).map(|last| ids[last].0);
        Ok(contents.len() < ids.len() || ids.len() == BATCH)
    }
}

/// All labels of a node that has several, in a line of an export.
const LABELS: &str = "_labels";

/// Takes the labels out of a line. A bulk load gives its nodes one label: others would be lost without a word.
fn take_labels(row: u64, label: &str, properties: &mut Map) -> Result<(), DataError> {
    let Some(labels) = properties.remove(LABELS) else {
        return Ok(());
    };
    let is_sole = |labels: &[Value]| labels.len() == 1 && labels[0].as_str() == Some(label);
    match labels.as_list().is_some_and(is_sole) {
        true => Ok(()),
        false => Err(DataError::Invalid(format!(
            "line {row}: `{LABELS}` names other labels than `{label}`, and an import gives no others: leave it away, or make such nodes with queries"
        ))),
    }
}

/// `POST …/import/nodes`
pub async fn import_nodes(mut call: Call, access: Access) -> Result<Reply> {
    let label = call.param("label").unwrap_or_default().to_owned();
    let key = call.param("key").unwrap_or("_key").to_owned();
    let own = label.clone();
    import(&mut call, access, move |access, lines| {
        let mut rows = lines.map(|line| {
            let (row, mut properties) = line?;
            take_labels(row, &own, &mut properties)?;
            if key != "_key"
                && let Some(value) = properties.remove(&key)
            {
                properties.insert("_key", value);
            }
            if !properties.contains("_key") {
                properties.insert("_key", new_key());
            }
            Ok(BulkNode { row, properties })
        });
        access.load_nodes(&label, &mut rows)
    })
    .await
}

/// `POST …/import/relationships`
pub async fn import_relationships(mut call: Call, access: Access) -> Result<Reply> {
    let text = |name| call.param(name).unwrap_or_default().to_owned();
    let (rel_type, from, to) = (text("type"), text("from"), text("to"));
    import(&mut call, access, move |access, lines| {
        let mut rows = lines.map(|line| {
            let (row, mut properties) = line?;
            let mut end = |name: &str| {
                let key = properties.remove(name);
                key.ok_or_else(|| {
                    DataError::Invalid(format!("line {row}: the field `{name}` is missing"))
                })
            };
            Ok(BulkRelationship {
                row,
                source: end("_from")?,
                target: end("_to")?,
                properties,
            })
        });
        let ends = BulkEnds {
            rel_type: &rel_type,
            from: &from,
            to: &to,
        };
        access.load_relationships(ends, &mut rows)
    })
    .await
}

async fn import(
    call: &mut Call,
    access: Access,
    load: impl FnOnce(
        &Access,
        &mut dyn Iterator<Item = Result<(u64, Map), DataError>>,
    ) -> Result<isomer_db::data::BulkOutcome>
    + Send
    + 'static,
) -> Result<Reply> {
    if access.open().is_some() {
        return Err(ServerError::Invalid(
            "an import is a transaction of its own: leave Isomer-Transaction away".into(),
        ));
    }
    let content_type = call.content_type();
    if !matches!(
        content_type.as_str(),
        "application/jsonl" | "application/x-ndjson" | "application/x-jsonlines"
    ) {
        return Err(ServerError::MediaType(format!(
            "the body is `{content_type}`: send JSON lines with `Content-Type: application/jsonl`"
        )));
    }
    let coding = Coding::of(&call.headers)?;
    let most = call.core.config.limits.import_bytes;
    let (sender, receiver) = mpsc::channel(4);
    let body = std::mem::take(call.body.get_mut());
    let pumping = pump(body, sender, call.core.config.limits.body_time);
    let core = call.core.clone();
    let loading = core.blocking(move || {
        let unpacked = coding.reader(Box::new(Pieces::new(receiver)))?;
        let limited = Limited::new(unpacked, most);
        let mut lines = Lines {
            text: BufReader::with_capacity(1 << 16, limited),
            line: 0,
            bytes: Vec::new(),
            reader: JsonReader::new(),
            failed: None,
        };
        let loaded = load(&access, &mut lines);
        // What stopped the lines says more than that they ended.
        loaded.map_err(|error| lines.failed.take().unwrap_or(error))
    });
    let (outcome, ()) = tokio::join!(loading, pumping);
    let outcome = outcome?;
    Reply::object(
        params! { "loaded" => outcome.loaded as i64, "version" => outcome.version as i64 },
    )
}

/// What of a body is handed over: bytes, or how it ended.
pub(super) type Piece = Result<Option<Bytes>>;

/// Hands a body over, piece by piece, no faster than it is taken. A pause that is too long is an error, and so is a body that comes
/// more slowly than [`LEAST_RATE`] in all; the time in which nobody took anything does not count.
pub(super) async fn pump(mut body: Body, sender: mpsc::Sender<Piece>, pause: Duration) {
    let (mut waited, mut bytes) = (Duration::ZERO, 0);
    loop {
        let earned = pause + Duration::from_millis(bytes * 1000 / LEAST_RATE);
        let began = Instant::now();
        let frame = tokio::time::timeout(pause.min(earned.saturating_sub(waited)), body.frame());
        let piece = match frame.await {
            Err(_) => Err(ServerError::TooSlow(format!(
                "the body comes too slowly: a pause of at most {pause:?} is allowed (limits.body_time), and {LEAST_RATE} bytes a second"
            ))),
            Ok(None) => Ok(None),
            Ok(Some(Err(error))) => Err(ServerError::Invalid(format!(
                "the body did not arrive as announced: {error}"
            ))),
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => Ok(Some(data)),
                Err(_) => continue,
            },
        };
        waited += began.elapsed();
        bytes += piece.as_ref().map_or(0, |piece| {
            piece.as_ref().map_or(0, |data| data.len() as u64)
        });
        let last = !matches!(piece, Ok(Some(_)));
        if sender.send(piece).await.is_err() || last {
            return;
        }
    }
}

/// What stands against reading a body: an error of ours goes through readers and unpackers as one of a stream.
pub(super) fn body_error(error: std::io::Error) -> ServerError {
    match error.downcast::<ServerError>() {
        Ok(own) => own,
        Err(error) => ServerError::Invalid(format!("the body cannot be read: {error}")),
    }
}

/// A body, read on another thread.
pub(super) struct Pieces {
    receiver: mpsc::Receiver<Piece>,
    piece: Bytes,
    ended: bool,
}

impl Pieces {
    pub(super) fn new(receiver: mpsc::Receiver<Piece>) -> Self {
        Self {
            receiver,
            piece: Bytes::new(),
            ended: false,
        }
    }
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while self.piece.is_empty() && !self.ended {
            match self.receiver.blocking_recv() {
                Some(Ok(Some(piece))) => self.piece = piece,
                Some(Ok(None)) => self.ended = true,
                Some(Err(error)) => return Err(std::io::Error::other(error)),
                // The request is gone without its end: what came so far must not be taken for all.
                None => {
                    return Err(std::io::Error::other(
                        "the connection ended in the middle of the body",
                    ));
                }
            }
        }
        let count = self.piece.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.piece.split_to(count));
        Ok(count)
    }
}

/// Reads so much and no more.
pub(super) struct Limited<R> {
    inner: R,
    left: u64,
    most: u64,
}

impl<R> Limited<R> {
    pub(super) fn new(inner: R, most: u64) -> Self {
        Self {
            inner,
            left: most,
            most,
        }
    }
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        match self.left.checked_sub(count as u64) {
            Some(left) => {
                self.left = left;
                Ok(count)
            }
            None => Err(std::io::Error::other(ServerError::TooLarge(format!(
                "the body is larger than {} bytes: send several (limits.import)",
                self.most
            )))),
        }
    }
}

/// Objects, one a line; empty lines are passed over.
struct Lines<R> {
    text: BufReader<R>,
    line: u64,
    bytes: Vec<u8>,
    reader: JsonReader,
    /// What was wrong with the body itself: the layer below has no word for it.
    failed: Option<ServerError>,
}

impl<R> Lines<R> {
    fn fail(&mut self, error: ServerError) -> Option<Result<(u64, Map), DataError>> {
        let told = DataError::Invalid(format!("line {}: {error}", self.line));
        self.failed = Some(error);
        Some(Err(told))
    }
}

/// Whether a line is how servers used to tell, as the last one of an export, that it had broken off.
fn is_error(map: &Map) -> bool {
    let told = map.get("error").and_then(Value::as_map);
    map.len() == 1 && told.is_some_and(|told| told.contains("kind") && told.contains("message"))
}

impl<R: Read> Iterator for Lines<R> {
    type Item = Result<(u64, Map), DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.bytes.clear();
            self.line += 1;
            let wrong = |line: u64, what: String| {
                Some(Err(DataError::Invalid(format!("line {line}: {what}"))))
            };
            let mut limited = (&mut self.text).take(MOST_LINE as u64 + 1);
            match limited.read_until(b'\n', &mut self.bytes) {
                Ok(0) => return None,
                Ok(_) if self.bytes.len() > MOST_LINE => {
                    let line = self.line;
                    return self.fail(ServerError::TooLarge(format!(
                        "line {line}: it is longer than {MOST_LINE} bytes"
                    )));
                }
                Ok(_) if self.bytes.trim_ascii().is_empty() => {}
                Ok(_) => {
                    return match self.reader.read_bytes(&self.bytes).map(typed_value) {
                        Ok(Value::Map(map)) if is_error(&map) => wrong(
                            self.line,
                            "this is no record: the export that it comes from broke off here"
                                .into(),
                        ),
                        Ok(Value::Map(map)) => Some(Ok((self.line, Arc::unwrap_or_clone(map)))),
                        Ok(other) => wrong(
                            self.line,
                            format!("a JSON object is expected, not a {}", other.type_name()),
                        ),
                        Err(error) => wrong(self.line, error.to_string()),
                    };
                }
                Err(error) => return self.fail(body_error(error)),
            }
        }
    }
}
