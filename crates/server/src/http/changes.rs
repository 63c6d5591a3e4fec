//! The change feed: what every commit changed, as server-sent events.
//!
//! An event's id is the version of its commit: a client that reconnects with `Last-Event-ID` (or `from`) misses
//! nothing and gets no fully delivered commit twice, as long as the change stream still has what it missed; otherwise
//! the answer is 410. Only durable commits are sent.

use std::{
    cell::RefCell,
    collections::{HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use axum::body::Bytes;
use futures_util::stream;
use isomer_db::{
    Map, Value,
    internals::data::{
        Access as Mode, Catalog, Change, ChangeSet, ConvergentOwner, DataError, GraphRead,
        NodeLabels, UNNAMED_FILES, Version,
    },
    json, params,
};
use isomer_value::{
    LabelId, NodeId, PropId,
    record::{RecordRef, decode_value},
};
use tokio::sync::watch;

use super::{alive, call::Call, credentials::RequestCredentials, once, reply::Reply};
use crate::{
    Result, ServerError,
    access::Access,
    core::{Core, FeedSlot},
    feed::Newest,
};

/// Longest pause between checks whether an announced commit has become durable.
const MOST_WAIT: Duration = Duration::from_millis(100);
/// Entries read at once.
pub(super) const ENTRIES: usize = 64;
/// Bytes of entries read at once.
pub(super) const BYTES: usize = 1 << 20;
/// Changes per event: a larger commit is sent as several, of which the last has the id.
const CHANGES: usize = 1_000;

/// `GET …/changes`
pub async fn changes(call: Call, mut access: Access) -> Result<Reply> {
    access.open_result()?;
    let place = call.core.feed_slot()?;
    let resumed = call.header("last-event-id")?.map(|id| {
        id.parse()
            .map_err(|_| ServerError::Invalid("Last-Event-ID must be the id of an event".into()))
    });
    let from = match resumed {
        Some(id) => Some(id?),
        None => call.number_param("from")?,
    };
    let set = |name| call.names(name).into_iter().collect::<HashSet<_>>();
    let filter = Filter {
        labels: set("labels"),
        types: set("types"),
        buckets: set("buckets"),
    };
    let credentials = RequestCredentials::of(&call, &access)?;
    let newest = access.feed().subscribe();
    let core = call.core.clone();
    let right = credentials.clone();
    let feed = core
        .clone()
        .blocking(move || {
            let store = access.store()?;
            let now = store.engine().version();
            let from = from.unwrap_or(now);
            if from > now {
                return Err(ServerError::Invalid(format!("version {from} does not exist yet: the newest is {now}")));
            }
            // Retains the stream from here, so that a reader that is not too slow misses nothing.
            let hold = store.change_stream().hold(from);
            if from < now && store.change_stream().check_changes_since(from).is_err() {
                return Err(ServerError::Gone(format!(
                    "the changes since version {from} are no longer kept: read the data again, then follow from version {now}"
                )));
            }
            drop(store);
            access.pause(0);
            let start = format!("event: start\nid: {from}\ndata: {{\"version\":{from}}}\n\n");
            Ok(Following {
                core,
                access,
                credentials: right,
                newest,
                filter,
                at: from,
                ready: VecDeque::from([Bytes::from(start)]),
                hold,
                is_over: false,
                _slot: place,
            })
        })
        .await?;
    let events = stream::try_unfold(feed, Following::next);
    Ok(alive::feed(call.core.clone(), credentials, events))
}

/// Which changes are sent; everything if empty.
struct Filter {
    labels: HashSet<String>,
    types: HashSet<String>,
    buckets: HashSet<String>,
}

impl Filter {
    fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.types.is_empty() && self.buckets.is_empty()
    }

    fn takes_labels<'l>(&self, mut labels: impl Iterator<Item = &'l Arc<str>>) -> bool {
        self.is_empty() || labels.any(|label| self.labels.contains(&**label))
    }

    fn takes_type(&self, name: &str) -> bool {
        self.is_empty() || self.types.contains(name)
    }

    fn takes_bucket(&self, name: &str) -> bool {
        name != once::ANSWERS && (self.is_empty() || self.buckets.contains(name))
    }
}

/// A reader of the feed.
struct Following {
    core: Arc<Core>,
    access: Access,
    credentials: RequestCredentials,
    newest: watch::Receiver<Newest>,
    filter: Filter,
    /// The version up to which everything was sent.
    at: Version,
    ready: VecDeque<Bytes>,
    /// Retains the stream after [`Following::at`].
    hold: isomer_db::internals::data::StreamHold,
    /// Whether the last event was sent.
    is_over: bool,
    _slot: FeedSlot,
}

impl Following {
    /// The next event; `None` if the database is closed.
    async fn next(mut self) -> Result<Option<(Bytes, Self)>> {
        let mut wait = Wait::default();
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some((event, self)));
            }
            if self.is_over {
                return Ok(None);
            }
            let newest = *self.newest.borrow_and_update();
            let target = match newest {
                Newest::Closed => return Ok(None),
                Newest::Version(version) => version,
            };
            if target > self.at {
                let core = self.core.clone();
                let before = self.at;
                self = core.background(move || self.read()).await?;
                // Without progress, the announced commit is not durable yet.
                match self.at == before && !self.is_over {
                    true => wait.more(&mut self.newest).await,
                    false => wait = Wait::default(),
                }
            } else if self.newest.changed().await.is_err() {
                return Ok(None);
            }
        }
    }

    /// Reads the stream after [`Following::at`]; between two reads it does not count as a request.
    fn read(mut self) -> Result<Self> {
        let outcome = self.access.resume().and_then(|()| self.read_entries());
        self.access.pause(0);
        match outcome {
            // At the concurrency limit: retry later.
            Ok(()) | Err(ServerError::TooMany { .. }) => Ok(self),
            Err(error) => Err(error),
        }
    }

    fn read_entries(&mut self) -> Result<()> {
        self.credentials.check(&self.core)?;
        let store = self.access.store()?;
        let mut at = self.at;
        let entries = match store
            .while_whole(|| store.change_stream().durable_after(&mut at, ENTRIES, BYTES))
        {
            Ok(Some(entries)) => entries,
            Ok(None) => return Ok(()),
            Err(error @ DataError::Forgotten { .. }) => return self.send_gone(&error),
            Err(error) => return Err(error.into()),
        };
        self.at = at;
        if entries.is_empty() {
            return Ok(());
        }
        let tx = store.begin(Mode::Read)?;
        for entry in entries {
            let describer = Describer {
                filter: &self.filter,
                catalog: tx.catalog(),
                tx: &tx,
                fields: RefCell::default(),
            };
            let mut changes = Vec::new();
            for change in ChangeSet::changes_in(&entry.bytes)? {
                if let Some(change) = describer.describe(&change?)? {
                    changes.push(Value::from(change));
                }
            }
            self.at = entry.version;
            let pieces = changes.chunks(CHANGES).count();
            for (piece, changes) in changes.chunks(CHANGES).enumerate() {
                let data =
                    params! { "version" => entry.version as i64, "changes" => changes.to_vec() };
                let data = json::to_string(&data.into())?;
                // Only the last piece has the id: a client that resumes from an incomplete commit gets all of it again.
                let id = if piece + 1 == pieces {
                    format!("id: {}\n", entry.version)
                } else {
                    String::new()
                };
                self.ready
                    .push_back(Bytes::from(format!("event: commit\n{id}data: {data}\n\n")));
            }
        }
        // What was sent need not be retained.
        self.hold = store.change_stream().hold(self.at);
        Ok(())
    }

    /// Ends the feed with an event for a reader that was too slow: changes are missing from here on.
    fn send_gone(&mut self, why: &DataError) -> Result<()> {
        let data = params! { "version" => self.at as i64, "message" => why.to_string() };
        let data = json::to_string(&data.into())?;
        self.ready
            .push_back(Bytes::from(format!("event: gone\ndata: {data}\n\n")));
        self.is_over = true;
        Ok(())
    }
}

/// Back-off for a commit that was announced and is not durable yet.
pub(super) struct Wait(Duration);

impl Default for Wait {
    fn default() -> Self {
        Self(Duration::from_millis(2))
    }
}

impl Wait {
    /// Waits, longer each time, or until another commit is announced.
    pub(super) async fn more(&mut self, newest: &mut watch::Receiver<Newest>) {
        // The caller checks again in any case; an error means that the database is closed, which it sees then.
        let _ = tokio::time::timeout(self.0, newest.changed()).await;
        self.0 = (self.0 * 2).min(MOST_WAIT);
    }
}

/// The last event of a feed that fails.
pub(super) fn error_event(why: &ServerError) -> Result<Bytes> {
    let data = params! { "kind" => why.kind(), "message" => why.to_string() };
    let data = json::to_string(&data.into())?;
    Ok(Bytes::from(format!("event: error\ndata: {data}\n\n")))
}

/// Describes changes.
struct Describer<'t> {
    filter: &'t Filter,
    catalog: Arc<Catalog>,
    tx: &'t isomer_db::internals::data::Transaction,
    /// Convergent fields that were already described: each once per commit, however many operations there were.
    fields: RefCell<HashSet<(bool, u64, u32)>>,
}

impl Describer<'_> {
    fn label_names(&self, labels: impl IntoIterator<Item = LabelId>) -> Vec<Arc<str>> {
        labels
            .into_iter()
            .filter_map(|label| self.catalog.label_name(label))
            .collect()
    }

    /// The current labels of a node.
    fn labels_now(&self, node: NodeId) -> Result<Vec<Arc<str>>> {
        let mut labels = NodeLabels::new();
        self.tx.node_labels(&[node], &mut labels)?;
        Ok(self.label_names(labels.of(0).iter().copied()))
    }

    fn set(&self, set: &[(PropId, &[u8])]) -> Result<Map> {
        let mut map = Map::new();
        for (prop, bytes) in set {
            if let Some(name) = self.catalog.prop_name(*prop) {
                map.insert(name, decode_value(bytes, &*self.catalog)?);
            }
        }
        Ok(map)
    }

    fn prop_names(&self, props: &[PropId]) -> Value {
        let names = props
            .iter()
            .filter_map(|prop| self.catalog.prop_name(*prop));
        names.map(Value::String).collect::<Vec<_>>().into()
    }

    fn bucket(&self, bucket: u32) -> Option<Arc<str>> {
        let name = self.catalog.bucket_name(bucket)?;
        self.filter.takes_bucket(&name).then_some(name)
    }

    /// The change as an object; `None` if the filter excludes it.
    fn describe(&self, change: &Change<'_>) -> Result<Option<Map>> {
        let names = |names: &[Arc<str>]| {
            Value::from(names.iter().cloned().map(Value::String).collect::<Vec<_>>())
        };
        let map = match change {
            Change::NodeCreated { id, record } => {
                let record = RecordRef::new(record)?;
                let labels = self.label_names(record.labels());
                if !self.filter.takes_labels(labels.iter()) {
                    return Ok(None);
                }
                params! {
                    "op" => "node_created",
                    "node" => id.0 as i64,
                    "labels" => names(&labels),
                    "properties" => record.properties(&*self.catalog)?,
                }
            }
            Change::NodeChanged {
                id,
                labels_added,
                labels_removed,
                set,
                removed,
            } => {
                let now = self.labels_now(*id)?;
                let (added, taken) = (
                    self.label_names(labels_added.iter().copied()),
                    self.label_names(labels_removed.iter().copied()),
                );
                if !self
                    .filter
                    .takes_labels(now.iter().chain(&added).chain(&taken))
                {
                    return Ok(None);
                }
                params! {
                    "op" => "node_changed",
                    "node" => id.0 as i64,
                    "labels_added" => names(&added),
                    "labels_removed" => names(&taken),
                    "set" => self.set(set)?,
                    "removed" => self.prop_names(removed),
                }
            }
            Change::NodeDeleted { id, labels, .. } => {
                let labels = self.label_names(labels.iter().copied());
                if !self.filter.takes_labels(labels.iter()) {
                    return Ok(None);
                }
                params! { "op" => "node_deleted", "node" => id.0 as i64, "labels" => names(&labels) }
            }
            Change::RelationshipCreated { id, record } => {
                let record = RecordRef::new(record)?;
                let (type_id, source, target) = record
                    .endpoints()
                    .ok_or_else(|| DataError::Invalid("a relationship without end nodes".into()))?;
                let name = self.catalog.type_name(type_id).unwrap_or_default();
                if !self.filter.takes_type(&name) {
                    return Ok(None);
                }
                params! {
                    "op" => "relationship_created",
                    "relationship" => id.0 as i64,
                    "type" => Value::String(name),
                    "source" => source.0 as i64,
                    "target" => target.0 as i64,
                    "properties" => record.properties(&*self.catalog)?,
                }
            }
            Change::RelationshipChanged {
                id,
                type_id,
                set,
                removed,
            } => {
                let name = self.catalog.type_name(*type_id).unwrap_or_default();
                if !self.filter.takes_type(&name) {
                    return Ok(None);
                }
                params! {
                    "op" => "relationship_changed",
                    "relationship" => id.0 as i64,
                    "type" => Value::String(name),
                    "set" => self.set(set)?,
                    "removed" => self.prop_names(removed),
                }
            }
            Change::RelationshipDeleted {
                id,
                type_id,
                source,
                target,
            } => {
                let name = self.catalog.type_name(*type_id).unwrap_or_default();
                if !self.filter.takes_type(&name) {
                    return Ok(None);
                }
                params! {
                    "op" => "relationship_deleted",
                    "relationship" => id.0 as i64,
                    "type" => Value::String(name),
                    "source" => source.0 as i64,
                    "target" => target.0 as i64,
                }
            }
            Change::NodesLoaded {
                label,
                first,
                count,
            } => {
                let labels = self.label_names([*label]);
                if !self.filter.takes_labels(labels.iter()) {
                    return Ok(None);
                }
                params! { "op" => "nodes_loaded", "labels" => names(&labels), "first" => first.0 as i64, "count" => *count as i64 }
            }
            Change::RelationshipsLoaded {
                type_id,
                first,
                count,
            } => {
                let name = self.catalog.type_name(*type_id).unwrap_or_default();
                if !self.filter.takes_type(&name) {
                    return Ok(None);
                }
                params! { "op" => "relationships_loaded", "type" => Value::String(name), "first" => first.0 as i64, "count" => *count as i64 }
            }
            Change::SchemaChanged { name } => {
                if !self.filter.is_empty() {
                    return Ok(None);
                }
                params! { "op" => "schema_changed", "name" => text_or_bytes(name) }
            }
            Change::Converged { .. } | Change::FieldMerged { .. } => {
                return self.describe_field(change);
            }
            Change::FileNamed { .. }
            | Change::FileUnnamed { .. }
            | Change::FileChanged { .. }
            | Change::FileRemoved { .. } => {
                return Ok(describe_file(change).filter(|_| self.filter.is_empty()));
            }
            other => return Ok(self.describe_bucket(other)),
        };
        Ok(Some(map))
    }

    /// A change of a convergent field. Its value is not included: clients that need it read it, with its context.
    fn describe_field(&self, change: &Change<'_>) -> Result<Option<Map>> {
        let Some((owner, prop)) = change.field() else {
            return Ok(None);
        };
        let (is_node, id) = match owner {
            ConvergentOwner::Node(id) => (true, id.0),
            ConvergentOwner::Relationship(id) => (false, id.0),
        };
        if !self.fields.borrow_mut().insert((is_node, id, prop.0)) {
            return Ok(None);
        }
        let field = self
            .catalog
            .prop_name(prop)
            .map_or(Value::Null, Value::String);
        let mut map = params! { "op" => "field_changed", "field" => field };
        match owner {
            ConvergentOwner::Node(node) => {
                let labels = self.labels_now(node)?;
                if !self.filter.takes_labels(labels.iter()) {
                    return Ok(None);
                }
                map.insert("node", (id as i64).into());
                let labels = labels.into_iter().map(Value::String);
                map.insert("labels", labels.collect::<Vec<_>>().into());
            }
            ConvergentOwner::Relationship(relationship) => {
                let mut rows = Vec::new();
                self.tx.relationship_rows(&[relationship], &mut rows)?;
                let row = rows.pop().flatten();
                let name = row.and_then(|row| self.catalog.type_name(row.type_id));
                let name = name.unwrap_or_default();
                if !self.filter.takes_type(&name) {
                    return Ok(None);
                }
                map.insert("relationship", (id as i64).into());
                map.insert("type", Value::String(name));
            }
        }
        Ok(Some(map))
    }

    /// A change in a bucket. Values are not included: they may have expired; clients that need one read it.
    fn describe_bucket(&self, change: &Change<'_>) -> Option<Map> {
        let (op, bucket, more) = match change {
            Change::KeyPut { bucket, key, .. } => {
                ("key_put", bucket, params! { "key" => text_or_bytes(key) })
            }
            Change::KeyPutUntil {
                bucket,
                key,
                expires_ms,
                ..
            } => (
                "key_put",
                bucket,
                params! { "key" => text_or_bytes(key), "expires_ms" => *expires_ms as i64 },
            ),
            Change::KeyDeleted { bucket, key } => (
                "key_deleted",
                bucket,
                params! { "key" => text_or_bytes(key) },
            ),
            Change::KeysDeleted { bucket, start, end } => (
                "keys_deleted",
                bucket,
                params! { "from" => text_or_bytes(start), "to" => end.map_or(Value::Null, text_or_bytes) },
            ),
            Change::ValueAdded { bucket, key, value } => (
                "value_added",
                bucket,
                params! { "key" => text_or_bytes(key), "value" => text_or_bytes(value) },
            ),
            Change::ValueRemoved { bucket, key, value } => (
                "value_removed",
                bucket,
                params! { "key" => text_or_bytes(key), "value" => text_or_bytes(value) },
            ),
            Change::BucketCreated { bucket, .. } => ("bucket_created", bucket, Map::new()),
            Change::BucketDropped { bucket } => ("bucket_dropped", bucket, Map::new()),
            Change::SequenceAdvanced { bucket, name, last } => (
                "sequence_advanced",
                bucket,
                params! { "sequence" => text_or_bytes(name), "last" => *last as i64 },
            ),
            _ => return None,
        };
        let mut map = more;
        map.insert("op", op.into());
        map.insert("bucket", Value::String(self.bucket(*bucket)?));
        Some(map)
    }
}

/// A change of a file or folder, by its id; the content is not included.
fn describe_file(change: &Change<'_>) -> Option<Map> {
    Some(match change {
        // An upload in progress has a number for its name and is invisible.
        Change::FileNamed { folder, .. } | Change::FileUnnamed { folder, .. }
            if *folder == UNNAMED_FILES =>
        {
            return None;
        }
        Change::FileNamed {
            folder,
            name,
            is_folder,
            number,
        } => params! {
            "op" => "file_named",
            "folder" => *folder as i64,
            "name" => text_or_bytes(name),
            "kind" => if *is_folder { "folder" } else { "file" },
            "file" => *number as i64,
        },
        Change::FileUnnamed { folder, name } => params! {
            "op" => "file_unnamed",
            "folder" => *folder as i64,
            "name" => text_or_bytes(name),
        },
        Change::FileChanged {
            file,
            size,
            created_ms,
            modified_ms,
        } => params! {
            "op" => "file_changed",
            "file" => *file as i64,
            "bytes" => *size as i64,
            "created_ms" => *created_ms as i64,
            "modified_ms" => *modified_ms as i64,
        },
        Change::FileRemoved { file } => {
            params! { "op" => "file_removed", "file" => *file as i64 }
        }
        _ => return None,
    })
}

fn text_or_bytes(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => Value::Bytes(bytes.into()),
    }
}
