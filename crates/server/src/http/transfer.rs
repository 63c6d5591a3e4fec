//! Imports and exports: records as JSON lines, streamed in either direction.

use std::{
    io::{BufRead, BufReader, Read},
    sync::Arc,
    time::Duration,
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
};
use crate::{Result, ServerError, access::Access};

/// Records read at once.
const BATCH: usize = 500;
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
    let reply = Reply::stream(JSON_LINES, lines::body(&call.core, source, gzip));
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
    fn next(&mut self, out: &mut String) -> Result<bool> {
        let more = match self.what {
            What::Nodes(label) => self.nodes(label, out),
            What::Relationships(type_id) => self.relationships(type_id, out),
        };
        more.or_else(|error| {
            let told = params! { "kind" => error.kind(), "message" => error.to_string() };
            json::write(&params! { "error" => told }.into(), out)?;
            out.push('\n');
            Ok(false)
        })
    }

    fn nodes(&mut self, label: LabelId, out: &mut String) -> Result<bool> {
        let data = self.transaction.data_ref();
        let (mut ids, mut contents) = (Vec::new(), Vec::new());
        data.scan_nodes(Some(label), self.after.map(NodeId), BATCH, &mut ids)?;
        data.node_contents(&ids, &mut contents)?;
        for content in contents.iter().flatten() {
            json::write(&content.properties.clone().into(), out)?;
            out.push('\n');
        }
        self.after = ids.last().map(|id| id.0);
        Ok(ids.len() == BATCH)
    }

    fn relationships(&mut self, type_id: TypeId, out: &mut String) -> Result<bool> {
        let data = self.transaction.data_ref();
        let (mut found, mut contents) = (Vec::new(), Vec::new());
        data.scan_relationships(Some(type_id), self.after.map(RelId), BATCH, &mut found)?;
        let ids: Vec<_> = found.iter().map(|row| row.id).collect();
        let ends: Vec<_> = found
            .iter()
            .flat_map(|row| [row.source, row.target])
            .collect();
        data.relationship_contents(&ids, &mut contents)?;
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
        self.after = ids.last().map(|id| id.0);
        Ok(found.len() == BATCH)
    }
}

/// `POST …/import/nodes`
pub async fn import_nodes(mut call: Call, access: Access) -> Result<Reply> {
    let label = call.param("label").unwrap_or_default().to_owned();
    let key = call.param("key").unwrap_or("_key").to_owned();
    import(&mut call, access, move |access, lines| {
        let mut rows = lines.map(|line| {
            let (row, mut properties) = line?;
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
        };
        load(&access, &mut lines)
    });
    let (outcome, ()) = tokio::join!(loading, pumping);
    let outcome = outcome?;
    Reply::object(
        params! { "loaded" => outcome.loaded as i64, "version" => outcome.version as i64 },
    )
}

/// What of a body is handed over: bytes, or how it ended.
pub(super) type Piece = Result<Option<Bytes>, std::io::Error>;

/// Hands a body over, piece by piece, no faster than it is taken. A pause that is too long is an error.
pub(super) async fn pump(mut body: Body, sender: mpsc::Sender<Piece>, pause: Duration) {
    loop {
        let piece = match tokio::time::timeout(pause, body.frame()).await {
            Err(_) => Err(std::io::Error::new(
                std::io::ErrorKind::TimedOut,
                format!("nothing arrived for {pause:?}"),
            )),
            Ok(None) => Ok(None),
            Ok(Some(Err(error))) => Err(std::io::Error::other(error.to_string())),
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => Ok(Some(data)),
                Err(_) => continue,
            },
        };
        let last = !matches!(piece, Ok(Some(_)));
        if sender.send(piece).await.is_err() || last {
            return;
        }
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
                Some(Err(error)) => return Err(error),
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
            None => Err(std::io::Error::other(format!(
                "the body is larger than {} bytes: send several (limits.import)",
                self.most
            ))),
        }
    }
}

/// Objects, one a line; empty lines are passed over.
struct Lines<R> {
    text: BufReader<R>,
    line: u64,
    bytes: Vec<u8>,
    reader: JsonReader,
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
                    return wrong(self.line, format!("it is longer than {MOST_LINE} bytes"));
                }
                Ok(_) if self.bytes.trim_ascii().is_empty() => {}
                Ok(_) => {
                    return match self.reader.read_bytes(&self.bytes).map(typed_value) {
                        Ok(Value::Map(map)) => Some(Ok((self.line, Arc::unwrap_or_clone(map)))),
                        Ok(other) => wrong(
                            self.line,
                            format!("a JSON object is expected, not a {}", other.type_name()),
                        ),
                        Err(error) => wrong(self.line, error.to_string()),
                    };
                }
                Err(error) => return wrong(self.line, error.to_string()),
            }
        }
    }
}
