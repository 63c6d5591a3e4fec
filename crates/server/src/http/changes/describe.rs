//! Changes of a commit as objects for clients, and which of them a feed takes.

use std::{cell::RefCell, collections::HashSet, sync::Arc};

use isomer_db::{
    Map, Value,
    internals::data::{
        Catalog, Change, ConvergentOwner, DataError, GraphRead, NodeLabels, Transaction,
        UNNAMED_FILES,
    },
    params,
};
use isomer_value::{
    LabelId, NodeId, PropId,
    record::{RecordRef, decode_value},
};

use crate::{Result, http::once};

/// Which changes are sent; everything if empty.
pub(super) struct Filter {
    pub(super) labels: HashSet<String>,
    pub(super) types: HashSet<String>,
    pub(super) buckets: HashSet<String>,
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

/// Describes changes.
pub(super) struct Describer<'t> {
    filter: &'t Filter,
    catalog: Arc<Catalog>,
    tx: &'t Transaction,
    /// Convergent fields that were already described: each once per commit, however many operations there were.
    fields: RefCell<HashSet<(bool, u64, u32)>>,
}

impl<'t> Describer<'t> {
    /// Describes the changes of one commit, which the transaction has seen.
    pub(super) fn new(filter: &'t Filter, tx: &'t Transaction) -> Self {
        Self {
            filter,
            catalog: tx.catalog(),
            tx,
            fields: RefCell::default(),
        }
    }

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
    pub(super) fn describe(&self, change: &Change<'_>) -> Result<Option<Map>> {
        match change {
            Change::NodeCreated { .. }
            | Change::NodeChanged { .. }
            | Change::NodeDeleted { .. }
            | Change::NodesLoaded { .. } => self.describe_node(change),
            Change::RelationshipCreated { .. }
            | Change::RelationshipChanged { .. }
            | Change::RelationshipDeleted { .. }
            | Change::RelationshipsLoaded { .. } => self.describe_relationship(change),
            Change::SchemaChanged { name } => Ok(self
                .filter
                .is_empty()
                .then(|| params! { "op" => "schema_changed", "name" => text_or_bytes(name) })),
            Change::Converged { .. } | Change::FieldMerged { .. } => self.describe_field(change),
            Change::FileNamed { .. }
            | Change::FileUnnamed { .. }
            | Change::FileChanged { .. }
            | Change::FileRemoved { .. } => {
                Ok(describe_file(change).filter(|_| self.filter.is_empty()))
            }
            other => Ok(self.describe_bucket(other)),
        }
    }

    /// A change of nodes.
    fn describe_node(&self, change: &Change<'_>) -> Result<Option<Map>> {
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
                    "labels" => text_list(&labels),
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
                    "labels_added" => text_list(&added),
                    "labels_removed" => text_list(&taken),
                    "set" => self.set(set)?,
                    "removed" => self.prop_names(removed),
                }
            }
            Change::NodeDeleted { id, labels, .. } => {
                let labels = self.label_names(labels.iter().copied());
                if !self.filter.takes_labels(labels.iter()) {
                    return Ok(None);
                }
                params! { "op" => "node_deleted", "node" => id.0 as i64, "labels" => text_list(&labels) }
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
                params! { "op" => "nodes_loaded", "labels" => text_list(&labels), "first" => first.0 as i64, "count" => *count as i64 }
            }
            _ => return Ok(None),
        };
        Ok(Some(map))
    }

    /// A change of relationships.
    fn describe_relationship(&self, change: &Change<'_>) -> Result<Option<Map>> {
        let map = match change {
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
            _ => return Ok(None),
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

fn text_list(texts: &[Arc<str>]) -> Value {
    let texts = texts.iter().cloned().map(Value::String);
    texts.collect::<Vec<_>>().into()
}
