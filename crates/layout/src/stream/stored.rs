//! What the operations of the change stream determine about the stored pairs.

use isomer_value::{LabelId, PropId};

use crate::{
    DataError,
    files::Stored,
    keyspace::{self, FileKind, after_prefix},
    kv::{
        content::{Content, encode_entry},
        options::{BucketKind, BucketOptions, encode_options},
    },
    stream::change::Change,
};

/// What one operation determines about a key or a range of keys.
#[derive(Debug, PartialEq, Eq)]
pub enum StoredChange<'a> {
    /// The record of a new node or relationship was put.
    RecordPut {
        /// Its key.
        key: Vec<u8>,
        /// All of it.
        record: &'a [u8],
    },
    /// Parts of a record changed.
    RecordChanged {
        /// Its key.
        key: Vec<u8>,
        /// Labels that it has from now on.
        labels_added: &'a [LabelId],
        /// Labels that it does not have any more.
        labels_removed: &'a [LabelId],
        /// Properties that were set, and their encoded values.
        set: &'a [(PropId, &'a [u8])],
        /// Properties that were removed.
        removed: &'a [PropId],
    },
    /// Another key was put.
    ValuePut {
        /// The key.
        key: Vec<u8>,
        /// Its whole value.
        value: Vec<u8>,
    },
    /// A key was deleted.
    Deleted {
        /// The key.
        key: Vec<u8>,
    },
    /// All keys of a range were deleted.
    RangeDeleted {
        /// The first key.
        start: Vec<u8>,
        /// The first key after the range; `None`: there is none.
        end: Option<Vec<u8>>,
    },
}

impl StoredChange<'_> {
    fn prefix_deleted(prefix: Vec<u8>) -> Self {
        let end = after_prefix(&prefix);
        Self::RangeDeleted { start: prefix, end }
    }
}

impl Change<'_> {
    /// Calls `visit` with what the operation determines about stored pairs, in order. Derived pairs are left out; so
    /// are the content of files, convergent fields and records that were loaded in bulk, which the operation alone does
    /// not determine.
    pub fn each_stored(
        &self,
        visit: &mut dyn FnMut(StoredChange<'_>) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        match self {
            Self::NodeCreated { id, record } => visit(StoredChange::RecordPut {
                key: keyspace::node(*id),
                record,
            }),
            Self::NodeChanged {
                id,
                labels_added,
                labels_removed,
                set,
                removed,
            } => visit(StoredChange::RecordChanged {
                key: keyspace::node(*id),
                labels_added,
                labels_removed,
                set,
                removed,
            }),
            Self::NodeDeleted { id, .. } => visit(StoredChange::Deleted {
                key: keyspace::node(*id),
            }),
            Self::RelationshipCreated { id, record } => visit(StoredChange::RecordPut {
                key: keyspace::relationship(*id),
                record,
            }),
            Self::RelationshipChanged {
                id, set, removed, ..
            } => visit(StoredChange::RecordChanged {
                key: keyspace::relationship(*id),
                labels_added: &[],
                labels_removed: &[],
                set,
                removed,
            }),
            Self::RelationshipDeleted { id, .. } => visit(StoredChange::Deleted {
                key: keyspace::relationship(*id),
            }),
            Self::KeyPut { .. }
            | Self::KeyPutUntil { .. }
            | Self::KeyDeleted { .. }
            | Self::KeysDeleted { .. }
            | Self::ValueAdded { .. }
            | Self::ValueRemoved { .. }
            | Self::BucketCreated { .. }
            | Self::BucketDropped { .. }
            | Self::SequenceAdvanced { .. } => self.each_stored_in_buckets(visit),
            Self::FileNamed { .. }
            | Self::FileUnnamed { .. }
            | Self::FileChanged { .. }
            | Self::FileRemoved { .. } => self.each_stored_of_files(visit),
            Self::NodesLoaded { .. }
            | Self::RelationshipsLoaded { .. }
            | Self::SchemaChanged { .. }
            | Self::FileWritten { .. }
            | Self::Converged { .. }
            | Self::ConvergedBy { .. }
            | Self::FieldMerged { .. } => Ok(()),
        }
    }

    fn each_stored_in_buckets(
        &self,
        visit: &mut dyn FnMut(StoredChange<'_>) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        match self {
            Self::KeyPut {
                bucket,
                key,
                value,
                content,
            } => visit(entry_put(*bucket, key, *content, None, value)),
            Self::KeyPutUntil {
                bucket,
                key,
                value,
                content,
                expires_ms,
            } => visit(entry_put(*bucket, key, *content, Some(*expires_ms), value)),
            Self::KeyDeleted { bucket, key } => visit(StoredChange::Deleted {
                key: keyspace::bucket_entry(*bucket, key),
            }),
            Self::KeysDeleted { bucket, start, end } => visit(StoredChange::RangeDeleted {
                start: keyspace::bucket_entry(*bucket, start),
                end: match end {
                    Some(end) => Some(keyspace::bucket_entry(*bucket, end)),
                    None => after_prefix(&keyspace::bucket_entry(*bucket, b"")),
                },
            }),
            Self::ValueAdded { bucket, key, value } => visit(StoredChange::ValuePut {
                key: keyspace::bucket_pair(*bucket, key, value),
                value: Vec::new(),
            }),
            Self::ValueRemoved { bucket, key, value } => visit(StoredChange::Deleted {
                key: keyspace::bucket_pair(*bucket, key, value),
            }),
            Self::BucketCreated {
                bucket,
                multi,
                reversible,
            } => {
                let options = BucketOptions {
                    kind: match multi {
                        true => BucketKind::Multi,
                        false => BucketKind::Map,
                    },
                    reversible: *reversible,
                };
                visit(StoredChange::ValuePut {
                    key: keyspace::bucket(*bucket),
                    value: encode_options(options).to_vec(),
                })
            }
            // Reverse entries are derived: no operation puts them.
            Self::BucketDropped { bucket } => keyspace::bucket_prefixes(*bucket)
                .into_iter()
                .filter(|prefix| *prefix != keyspace::bucket_reverses(*bucket))
                .try_for_each(|prefix| visit(StoredChange::prefix_deleted(prefix))),
            Self::SequenceAdvanced { bucket, name, last } => {
                let key = keyspace::bucket_sequence(*bucket, text(name)?);
                visit(match last {
                    0 => StoredChange::Deleted { key },
                    last => StoredChange::ValuePut {
                        key,
                        value: last.to_be_bytes().to_vec(),
                    },
                })
            }
            _ => Ok(()),
        }
    }

    fn each_stored_of_files(
        &self,
        visit: &mut dyn FnMut(StoredChange<'_>) -> Result<(), DataError>,
    ) -> Result<(), DataError> {
        match self {
            Self::FileNamed {
                folder,
                name,
                is_folder,
                number,
            } => {
                let kind = match is_folder {
                    true => FileKind::Folder,
                    false => FileKind::File,
                };
                visit(StoredChange::ValuePut {
                    key: keyspace::file_entry(*folder, text(name)?),
                    value: keyspace::file_entry_value(kind, *number),
                })
            }
            Self::FileUnnamed { folder, name } => visit(StoredChange::Deleted {
                key: keyspace::file_entry(*folder, text(name)?),
            }),
            Self::FileChanged {
                file,
                size,
                created_ms,
                modified_ms,
            } => {
                let stored = Stored {
                    bytes: *size,
                    created_ms: *created_ms,
                    modified_ms: *modified_ms,
                };
                visit(StoredChange::ValuePut {
                    key: keyspace::file(*file),
                    value: stored.encode(),
                })
            }
            Self::FileRemoved { file } => {
                visit(StoredChange::Deleted {
                    key: keyspace::file(*file),
                })?;
                visit(StoredChange::prefix_deleted(keyspace::file_chunks(*file)))
            }
            _ => Ok(()),
        }
    }
}

/// An entry of a bucket.
fn entry_put<'a>(
    bucket: u32,
    key: &[u8],
    content: Content,
    expires_ms: Option<u64>,
    value: &[u8],
) -> StoredChange<'a> {
    StoredChange::ValuePut {
        key: keyspace::bucket_entry(bucket, key),
        value: encode_entry(content, expires_ms, value),
    }
}

fn text(bytes: &[u8]) -> Result<&str, DataError> {
    std::str::from_utf8(bytes)
        .map_err(|_| DataError::corrupt("a name in the change stream is not UTF-8"))
}
