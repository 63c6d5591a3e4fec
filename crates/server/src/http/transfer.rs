//! Imports and exports: records as JSON lines, streamed in both directions.

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
    Map, ReadTransaction, Value, WriteTransaction,
    internals::{
        TransactionInternals as _,
        bulk::{BulkEnds, BulkNode, BulkOutcome, BulkRelationship},
        data::{ConvergentOwner, DataError, GraphRead, NodeLabels, new_key},
    },
    json::{self, JsonReader},
    params,
};
use isomer_value::{LabelId, NodeId, RelId, TypeId};
use tokio::sync::mpsc;

use super::{
    call::{Call, Coding},
    credentials::RequestCredentials,
    lines::{self, Source},
    reply::{JSON_LINES, Reply, takes_gzip},
};
use crate::{Result, ServerError, access::DatabaseAccess, sending::Reserved};

/// Records per read, and stored bytes of them.
const BATCH: usize = 500;
const BATCH_BYTES: usize = 1 << 20;
/// Minimum rate of a body in bytes per second, beyond the longest pause: slower clients would occupy a slot.
const MIN_BYTES_PER_SECOND: u64 = 64 << 10;
/// Longest line of an import.
const MAX_LINE_BYTES: usize = 16 << 20;

/// `GET …/export/nodes`
pub async fn export_nodes(call: Call, access: DatabaseAccess) -> Result<Reply> {
    let label = call.param("label").unwrap_or_default().to_owned();
    export(&call, access, move |tx| {
        match tx.catalog().label_id(&label) {
            Some(id) => Ok(Scope::Nodes(id)),
            None => Err(ServerError::NotFound(format!("unknown label `{label}`"))),
        }
    })
    .await
}

/// `GET …/export/relationships`
pub async fn export_relationships(call: Call, access: DatabaseAccess) -> Result<Reply> {
    let name = call.param("type").unwrap_or_default().to_owned();
    let ends = ["from", "to"].map(|end| call.param(end).map(str::to_owned));
    export(&call, access, move |tx| {
        let catalog = tx.catalog();
        let label = |end: &Option<String>| match end {
            None => Ok(None),
            Some(name) => match catalog.label_id(name) {
                Some(id) => Ok(Some(id)),
                None => Err(ServerError::NotFound(format!("unknown label `{name}`"))),
            },
        };
        let [from, to] = &ends;
        let ends = [
            EndLabels::new("from", label(from)?),
            EndLabels::new("to", label(to)?),
        ];
        match catalog.type_id(&name) {
            Some(id) => Ok(Scope::Relationships(id, ends)),
            None => Err(ServerError::NotFound(format!(
                "unknown relationship type `{name}`"
            ))),
        }
    })
    .await
}

async fn export(
    call: &Call,
    access: DatabaseAccess,
    what: impl FnOnce(&ReadTransaction) -> Result<Scope> + Send + 'static,
) -> Result<Reply> {
    if access.open().is_some() {
        return Err(ServerError::Invalid(
            "an export reads its own snapshot: omit Isomer-Transaction".into(),
        ));
    }
    let credentials = RequestCredentials::of(call, &access)?;
    let plain = match call.param("plain") {
        None | Some("false") => false,
        Some("true") => true,
        Some(other) => {
            return Err(ServerError::Invalid(format!(
                "invalid `plain` `{other}`: expected true or false"
            )));
        }
    };
    let source = call
        .core
        .blocking(move || {
            let transaction = access.begin(true)?;
            Ok(Export {
                scope: what(&transaction)?,
                transaction,
                after: None,
                plain,
                _access: access,
            })
        })
        .await?;
    let gzip = takes_gzip(&call.headers);
    // Every line must be a record, so errors cannot be reported: the answer breaks off.
    let body = lines::begun(&call.core, credentials, source, gzip).await?;
    let reply = Reply::stream(JSON_LINES, body);
    Ok(if gzip {
        reply.with(header::CONTENT_ENCODING, "gzip")
    } else {
        reply
    })
}

enum Scope {
    Nodes(LabelId),
    Relationships(TypeId, [EndLabels; 2]),
}

impl Scope {
    /// Whether a relationship between nodes of these labels is exported.
    fn takes(&mut self, labels: [&[LabelId]; 2], plain: bool) -> Result<bool> {
        let Self::Relationships(_, ends) = self else {
            return Ok(true);
        };
        let mut sides = ends.iter().zip(labels);
        if !sides.all(|(end, labels)| end.wanted.is_none_or(|label| labels.contains(&label))) {
            return Ok(false);
        }
        if !plain {
            for (end, labels) in ends.iter_mut().zip(labels) {
                end.add(labels)?;
            }
        }
        Ok(true)
    }
}

/// The labels of the starts, or of the ends, of the exported relationships.
struct EndLabels {
    /// The parameter that selects one.
    parameter: &'static str,
    /// The label that the nodes must have.
    wanted: Option<LabelId>,
    /// The labels that all nodes so far have; `None` before the first.
    common: Option<Vec<LabelId>>,
}

impl EndLabels {
    fn new(parameter: &'static str, wanted: Option<LabelId>) -> Self {
        Self {
            parameter,
            wanted,
            common: None,
        }
    }

    /// Fails if the nodes no longer have a label in common: an import finds them by their keys among the nodes of one
    /// label, and two nodes of different labels may have the same key.
    fn add(&mut self, labels: &[LabelId]) -> Result<()> {
        let common = self.common.get_or_insert_with(|| labels.to_vec());
        common.retain(|label| labels.contains(label));
        match common.is_empty() {
            true => Err(ServerError::Invalid(format!(
                "the nodes on the side `{0}` have no common label, by which an import could find them: export parts with `{0}=LABEL`, \
                 or for other programs with `plain=true`",
                self.parameter
            ))),
            false => Ok(()),
        }
    }
}

/// Records of one snapshot, by id.
struct Export {
    scope: Scope,
    transaction: WriteTransaction,
    after: Option<u64>,
    plain: bool,
    _access: DatabaseAccess,
}

impl Source for Export {
    fn piece(&mut self, _: &mut Reserved) -> Result<(Vec<u8>, bool)> {
        lines::piece(|out| self.next(out))
    }
}

impl Export {
    /// Writes some records; returns whether there may be more.
    fn next(&mut self, out: &mut String) -> Result<bool> {
        match self.scope {
            Scope::Nodes(label) => self.nodes(label, out),
            Scope::Relationships(type_id, _) => self.relationships(type_id, out),
        }
    }

    /// A record's properties, in the JSON forms that keep their types, or in plain ones if requested.
    fn row(&self, owner: ConvergentOwner, properties: &Map) -> Result<Map> {
        if self.plain {
            return Ok(properties.clone());
        }
        let data = self.transaction.data_ref();
        if let Some((name, kind)) = data.fields().field_among(owner, properties)? {
            return Err(ServerError::Invalid(format!(
                "`{name}` is a convergent field ({}), which JSON lines cannot represent: take a backup, or only its value with `plain=true`",
                kind.name()
            )));
        }
        let exact = properties.iter();
        Ok(exact
            .map(|(name, value)| (name.clone(), json::to_exact(value)))
            .collect())
    }

    fn nodes(&mut self, label: LabelId, out: &mut String) -> Result<bool> {
        let data = self.transaction.data_ref();
        let (mut ids, mut contents) = (Vec::new(), Vec::new());
        data.scan_nodes(Some(label), self.after.map(NodeId), BATCH, &mut ids)?;
        data.graph()
            .node_contents_within(&ids, BATCH_BYTES, &mut contents)?;
        for (id, content) in ids.iter().zip(&contents) {
            let Some(content) = content else { continue };
            let mut row = self.row(ConvergentOwner::Node(*id), &content.properties)?;
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
        data.graph()
            .relationship_contents_within(&ids, BATCH_BYTES, &mut contents)?;
        let ends: Vec<_> = found[..contents.len()]
            .iter()
            .flat_map(|row| [row.source, row.target])
            .collect();
        let mut labels = NodeLabels::default();
        data.node_labels(&ends, &mut labels)?;
        let mut keys = [vec![Value::Null; 0]];
        match data.catalog().prop_id("_key") {
            Some(key) => data.node_properties(&ends, &[key], &mut keys)?,
            None => keys[0].resize(ends.len(), Value::Null),
        }
        for (at, content) in contents.iter().enumerate() {
            let Some(content) = content else { continue };
            let labels = [labels.of(2 * at), labels.of(2 * at + 1)];
            if !self.scope.takes(labels, self.plain)? {
                continue;
            }
            let owner = ConvergentOwner::Relationship(ids[at]);
            let mut row = self.row(owner, &content.properties)?;
            for (name, end) in [("_from", 2 * at), ("_to", 2 * at + 1)] {
                let key = keys[0][end].clone();
                if key.is_null() {
                    return Err(ServerError::Invalid(format!(
                        "node {} has no `_key`, so its relationships could not refer to it",
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

/// Field for all labels of a node with several, in a line of an export.
const LABELS: &str = "_labels";

/// Removes the field of labels from a line. A bulk load gives its nodes one label, so that other labels would be lost
/// silently.
fn take_labels(row: u64, label: &str, properties: &mut Map) -> Result<(), DataError> {
    let Some(labels) = properties.remove(LABELS) else {
        return Ok(());
    };
    let is_sole = |labels: &[Value]| labels.len() == 1 && labels[0].as_str() == Some(label);
    match labels.as_list().is_some_and(is_sole) {
        true => Ok(()),
        false => Err(DataError::Invalid(format!(
            "line {row}: `{LABELS}` names other labels than `{label}`, which an import cannot set: remove it, or create such nodes with queries"
        ))),
    }
}

/// `POST …/import/nodes`
pub async fn import_nodes(mut call: Call, access: DatabaseAccess) -> Result<Reply> {
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
pub async fn import_relationships(mut call: Call, access: DatabaseAccess) -> Result<Reply> {
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
    access: DatabaseAccess,
    load: impl FnOnce(
        &DatabaseAccess,
        &mut dyn Iterator<Item = Result<(u64, Map), DataError>>,
    ) -> Result<BulkOutcome>
    + Send
    + 'static,
) -> Result<Reply> {
    if access.open().is_some() {
        return Err(ServerError::Invalid(
            "an import is its own transaction: omit Isomer-Transaction".into(),
        ));
    }
    let content_type = call.content_type();
    if !matches!(
        content_type.as_str(),
        "application/jsonl" | "application/x-ndjson" | "application/x-jsonlines"
    ) {
        return Err(ServerError::MediaType(format!(
            "unsupported content type `{content_type}`: send JSON lines with `Content-Type: application/jsonl`"
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
        // The cause that stopped the lines is more precise than the fact that they ended.
        loaded.map_err(|error| lines.failed.take().unwrap_or(error))
    });
    let (outcome, ()) = tokio::join!(loading, pumping);
    let outcome = outcome?;
    Reply::object(
        params! { "loaded" => outcome.loaded as i64, "version" => outcome.version as i64 },
    )
}

/// A piece of a body, or the result of reading it.
pub(super) type Piece = Result<Option<Bytes>>;

/// Passes a body on piece by piece, with back-pressure. Fails after a pause that is too long, and if the body arrives
/// more slowly than [`MIN_BYTES_PER_SECOND`] on average; the time in which the receiver is busy does not count.
pub(super) async fn pump(mut body: Body, sender: mpsc::Sender<Piece>, pause: Duration) {
    let (mut waited, mut bytes) = (Duration::ZERO, 0);
    loop {
        let earned = pause + Duration::from_millis(bytes * 1000 / MIN_BYTES_PER_SECOND);
        let began = Instant::now();
        let frame = tokio::time::timeout(pause.min(earned.saturating_sub(waited)), body.frame());
        let piece = match frame.await {
            Err(_) => Err(ServerError::TooSlow(format!(
                "the body arrives too slowly: it may pause for {} s (limits.body_time), and needs {MIN_BYTES_PER_SECOND} bytes per second on average",
                pause.as_secs_f64()
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

/// Converts a read error of a body: an error of the server passes through readers and decoders as an I/O error.
pub(super) fn body_error(error: std::io::Error) -> ServerError {
    match error.downcast::<ServerError>() {
        Ok(own) => own,
        Err(error) => ServerError::Invalid(format!("the body cannot be read: {error}")),
    }
}

/// A body that is read on another thread.
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
                // The request was dropped before its end: what has arrived must not be taken for all of it.
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

/// Reads at most a limit.
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
                "the body exceeds {} bytes: send several (limits.import)",
                self.most
            )))),
        }
    }
}

/// One object per line; empty lines are skipped.
struct Lines<R> {
    text: BufReader<R>,
    line: u64,
    bytes: Vec<u8>,
    reader: JsonReader,
    /// The error of the body itself, which the layer below cannot represent.
    failed: Option<ServerError>,
}

impl<R> Lines<R> {
    fn fail(&mut self, error: ServerError) -> Option<Result<(u64, Map), DataError>> {
        let line_error = DataError::Invalid(format!("line {}: {error}", self.line));
        self.failed = Some(error);
        Some(Err(line_error))
    }
}

/// Whether a line is an error with which older servers ended an export that had broken off.
fn is_error(map: &Map) -> bool {
    let error = map.get("error").and_then(Value::as_map);
    map.len() == 1 && error.is_some_and(|error| error.contains("kind") && error.contains("message"))
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
            let mut limited = (&mut self.text).take(MAX_LINE_BYTES as u64 + 1);
            match limited.read_until(b'\n', &mut self.bytes) {
                Ok(0) => return None,
                Ok(_) if self.bytes.len() > MAX_LINE_BYTES => {
                    let line = self.line;
                    return self.fail(ServerError::TooLarge(format!(
                        "line {line} is longer than {MAX_LINE_BYTES} bytes"
                    )));
                }
                Ok(_) if self.bytes.trim_ascii().is_empty() => {}
                Ok(_) => {
                    return match self.reader.read_bytes(&self.bytes) {
                        Ok(Value::Map(map)) if is_error(&map) => wrong(
                            self.line,
                            "this is not a record: the export that it comes from broke off here"
                                .into(),
                        ),
                        Ok(Value::Map(map)) => {
                            let fields = Arc::unwrap_or_clone(map).into_iter();
                            let exact = fields.map(|(name, value)| (name, json::from_exact(value)));
                            Some(Ok((self.line, exact.collect())))
                        }
                        Ok(other) => wrong(
                            self.line,
                            format!("expected a JSON object, not a {}", other.type_name()),
                        ),
                        Err(error) => wrong(self.line, error.to_string()),
                    };
                }
                Err(error) => return self.fail(body_error(error)),
            }
        }
    }
}
