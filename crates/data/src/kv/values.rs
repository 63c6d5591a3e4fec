//! Keys and values typed as in the query language.
//!
//! A key is text (its UTF-8 bytes) or bytes. Text and bytes are stored verbatim, so that the byte interface reads them,
//! too; every other value is stored encoded, and keeps its type.

use isomer_layout::{
    DataError,
    kv::{
        content::{BucketEntry, Content},
        options::BucketKind,
    },
};
use isomer_storage::{KeyRange, Order, Page, PageLimit};
use isomer_value::{
    Value,
    record::{decode_value, encode_value},
};

use super::KvCursor;
use crate::{Kv, KvMut, kv::bucket::Expiry, store::PropNames};

impl Kv<'_> {
    /// The value under a key; null if there is none.
    ///
    /// # Errors
    /// [`DataError::Invalid`] for keys that are neither text nor bytes.
    pub fn get_value(self, bucket: &str, key: &Value) -> Result<Value, DataError> {
        let key = key_bytes(key)?;
        let Some(bucket) = self.map_bucket(bucket)? else {
            return Ok(Value::Null);
        };
        match self.stored(bucket, key)? {
            Some(stored) => self.typed(BucketEntry::decode(&stored)?),
            None => Ok(Value::Null),
        }
    }

    /// As [`Kv::scan`], with typed keys and values; `visit` gets each pair. The keys, and the values of a
    /// multi-value bucket, are text where they are UTF-8.
    pub fn scan_values(
        self,
        bucket: &str,
        range: KeyRange<'_>,
        order: Order,
        limit: PageLimit,
        after: Option<&KvCursor>,
        visit: &mut dyn FnMut(Value, Value),
    ) -> Result<Option<KvCursor>, DataError> {
        let multi = self
            .bucket(bucket)?
            .is_some_and(|bucket| bucket.options.kind == BucketKind::Multi);
        let stored = &mut Page::new();
        self.visit(
            bucket,
            range,
            order,
            limit,
            after,
            stored,
            &mut |key, entry| {
                let value = if multi {
                    text_or_bytes(entry.value)
                } else {
                    self.typed(entry)?
                };
                visit(text_or_bytes(key), value);
                Ok(())
            },
        )
    }

    /// The value in the stored form of an entry.
    #[doc(hidden)]
    pub fn stored_value(self, stored: &[u8]) -> Result<Value, DataError> {
        self.typed(BucketEntry::decode(stored)?)
    }

    pub(super) fn typed(self, entry: BucketEntry<'_>) -> Result<Value, DataError> {
        match entry.content {
            Content::Bytes => Ok(Value::Bytes(entry.value.into())),
            Content::Text => match std::str::from_utf8(entry.value) {
                Ok(text) => Ok(Value::String(text.into())),
                Err(_) => Err(DataError::corrupt("a text in a bucket is not UTF-8")),
            },
            Content::Value => Ok(decode_value(entry.value, &*self.tx.names().names)?),
        }
    }
}

impl KvMut<'_> {
    /// Puts a value under a key; null deletes the key.
    ///
    /// # Errors
    /// Those of [`KvMut::put`]; nodes, relationships and paths cannot be stored.
    pub fn put_value(
        &mut self,
        bucket: &str,
        key: &Value,
        value: &Value,
        expiry: Expiry,
    ) -> Result<(), DataError> {
        let key = key_bytes(key)?;
        let expires = self.tx.kv().expires_at(expiry);
        let encoded;
        let (content, value): (Content, &[u8]) = match value {
            Value::Null => return self.delete(bucket, key),
            Value::String(text) => (Content::Text, text.as_bytes()),
            Value::Bytes(bytes) => (Content::Bytes, bytes),
            other => {
                let mut bytes = Vec::new();
                let mut names = PropNames::new(self.tx.store());
                match encode_value(other, &mut names, &mut bytes) {
                    Ok(()) => {}
                    Err(error) => return Err(names.explain(error)),
                }
                encoded = bytes;
                (Content::Value, &encoded)
            }
        };
        self.put_entry(
            bucket,
            key,
            BucketEntry {
                content,
                expires,
                value,
            },
        )
    }
}

/// The bytes of a typed key.
fn key_bytes(key: &Value) -> Result<&[u8], DataError> {
    match key {
        Value::String(text) => Ok(text.as_bytes()),
        Value::Bytes(bytes) => Ok(bytes),
        other => Err(DataError::invalid(format!(
            "the key of a bucket is a {}: it must be a string or bytes",
            other.type_name()
        ))),
    }
}

/// A key as a value: text where it is UTF-8.
fn text_or_bytes(bytes: &[u8]) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => Value::String(text.into()),
        Err(_) => Value::Bytes(bytes.into()),
    }
}
